"""Another user of the frame hook: before ours, after ours, leaving in any order."""

from __future__ import annotations

import ctypes
import pathlib
import shutil
import subprocess
import sys
import sysconfig
from collections.abc import Iterator

import pytest

from framelift.native import _core
from tests.native.entry_helpers import Context

SOURCE = """
#include <Python.h>
typedef struct _PyInterpreterFrame Frame;
static _PyFrameEvalFunction before;
static long frames;
static PyObject *other(PyThreadState *tstate, Frame *frame, int throwflag)
{
    frames++;
    return before(tstate, frame, throwflag);
}
static PyInterpreterState *interpreter(void) { return PyInterpreterState_Main(); }
void put_on(void)
{
    before = _PyInterpreterState_GetEvalFrameFunc(interpreter());
    _PyInterpreterState_SetEvalFrameFunc(interpreter(), other);
}
void take_off(void) { _PyInterpreterState_SetEvalFrameFunc(interpreter(), before); }
void keep_what_was_before_and_put_on(void) { _PyInterpreterState_SetEvalFrameFunc(interpreter(), other); }
void put_default(void) { _PyInterpreterState_SetEvalFrameFunc(interpreter(), _PyEval_EvalFrameDefault); }
long count(void) { return frames; }
"""


@pytest.fixture(scope="module")
def library(tmp_path_factory: pytest.TempPathFactory) -> ctypes.PyDLL:
    compiler = shutil.which("cc") or shutil.which("gcc")
    if compiler is None:
        pytest.skip("no C compiler")
    folder = tmp_path_factory.mktemp("other_hook")
    source, target = folder / "other.c", folder / "other.so"
    source.write_text(SOURCE)
    include = sysconfig.get_paths()["include"]
    subprocess.run([compiler, "-shared", "-fPIC", f"-I{include}", str(source), "-o", str(target)], check=True)
    assert pathlib.Path(target).exists()
    return ctypes.PyDLL(str(target))


@pytest.fixture
def other(library: ctypes.PyDLL) -> Iterator[ctypes.PyDLL]:
    yield library
    library.put_default()
    Context().run(len, "")
    assert state() == (False, False)


def state() -> tuple[bool, bool]:
    now = _core.hook_state()
    return now["installed"], now["linked"]


def f():
    return "function"


def r():
    return "residual"


def runs_hooked() -> bool:
    return Context((f, r)).run(f) == "residual"


def counted(other: ctypes.PyDLL) -> int:
    before = other.count()
    f()
    return other.count() - before


def test_there_before_us(other) -> None:
    other.put_on()
    assert counted(other) == 1
    context = Context((f, r))

    def outer():
        return f(), counted(other)

    answer, seen = context.run(outer)
    assert answer == "residual" and seen == 1  # frames reach it through ours
    assert state() == (False, False) and counted(other) == 1
    other.take_off()
    assert counted(other) == 0


def test_comes_after_us_and_leaves_first(other) -> None:
    def outer():
        other.put_on()
        inside = f(), counted(other)
        other.take_off()
        return inside, f(), state()

    assert Context((f, r)).run(outer) == (("residual", 1), "residual", (True, True))
    assert state() == (False, False)


def test_comes_after_us_and_stays(other) -> None:
    Context((f, r)).run(lambda: other.put_on())
    assert state() == (False, True)  # it calls us: we hand frames on
    assert f() == "function" and counted(other) == 1
    assert runs_hooked()
    assert state() == (False, True)
    other.take_off()  # puts ours back
    f()
    assert state() == (False, False)  # which leaves with the next frame
    assert runs_hooked() and state() == (False, False)


def test_comes_after_us_and_leaves_without_putting_us_back(other) -> None:
    Context((f, r)).run(lambda: other.put_on())
    other.put_default()
    assert state() == (False, True)
    assert runs_hooked() and state() == (False, False)


def test_takes_us_out_while_we_are_needed(other) -> None:
    def outer():
        other.put_default()
        return f(), Context((f, r)).run(f), f()

    assert Context((f, r)).run(outer) == ("function", "residual", "residual")
    assert state() == (False, False)


def test_before_us_and_leaves_while_we_are_needed(other) -> None:
    other.put_on()

    def outer():
        other.take_off()
        return f()

    assert Context((f, r)).run(outer) == "function"
    assert state() == (False, False)
    assert runs_hooked()


def test_a_circle_ends(other) -> None:
    """It remembers us from an earlier time, when we are already below it: frames would go round for ever."""

    def outer():
        other.put_on()
        other.put_default()

    Context((f, r)).run(outer)
    assert runs_hooked() and state() == (False, False)
    other.keep_what_was_before_and_put_on()
    assert runs_hooked()
    assert f() == "function"


@pytest.mark.skipif(sys.version_info < (3, 12), reason="C recursion is counted since 3.12")
def test_recursion_below_another_hook(other) -> None:
    other.put_on()

    def down(n):
        return 0 if n == 0 else 1 + down(n - 1)

    assert Context().run(down, 100) == 100
