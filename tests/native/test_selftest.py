"""What is checked at import, and what is said on an interpreter framelift is not made for."""

from __future__ import annotations

import ast
import pathlib
import sys
import time

import pytest

from framelift.native import _core, selftest
from tests.native.entry_helpers import run_python


def import_after(setup: str) -> str:
    script = f"import sys\n{setup}\ntry:\n    import framelift.native\nexcept ImportError as error:\n    print(error)\n"
    done = run_python(script)
    assert done.returncode == 0, done.stderr
    return done.stdout.strip()


def test_passes_here_and_is_quick() -> None:
    best = 1.0
    for _ in range(5):
        start = time.perf_counter()
        selftest.run_selftest()
        best = min(best, time.perf_counter() - start)
    assert best < 0.005
    state = _core.hook_state()
    assert state["users"] == 0 and not state["installed"]


def test_swaps_a_frame() -> None:
    before = _core.hook_state()["swapped"]
    selftest.run_selftest()
    assert _core.hook_state()["swapped"] == before + 1


@pytest.mark.parametrize("version", [(3, 10, 1), (3, 14, 0), (4, 0, 0)])
def test_other_versions_are_refused(version: tuple[int, int, int]) -> None:
    said = import_after(f"sys.version_info = {(*version, 'final', 0)}")
    assert said == f"{selftest.SUPPORTED_TEXT}; this is Python {version[0]}.{version[1]}"


def test_free_threaded_builds_are_refused() -> None:
    assert import_after("sys.abiflags += 't'") == f"{selftest.SUPPORTED_TEXT}; this is a free-threaded build"


def test_other_implementations_are_refused() -> None:
    said = import_after("sys.implementation.name = 'other'")
    assert said == f"{selftest.SUPPORTED_TEXT}; this is other"


def test_without_the_extension_an_unsupported_version_is_named() -> None:
    """On a Python we build nothing for there is no extension to import: the message is still about the version."""
    setup = "sys.modules['framelift.native._core'] = None\nsys.version_info = (3, 14, 0, 'final', 0)"
    assert import_after(setup) == f"{selftest.SUPPORTED_TEXT}; this is Python 3.14"


def test_a_build_for_another_version_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    other = next(version for version in selftest.SUPPORTED if version != sys.version_info[:2])
    monkeypatch.setattr(sys, "version_info", (*other, 0, "final", 0))
    with pytest.raises(ImportError, match="was built for Python"):
        selftest.run_selftest()


def test_layout_is_really_looked_at() -> None:
    first, second = object(), object()

    def wrong_order(a, b):
        _core.check_layout(wrong_order, b, a)

    def right(a, b):
        _core.check_layout(right, a, b)

    right(first, second)
    with pytest.raises(ImportError, match="lays out a frame's locals differently"):
        wrong_order(first, second)
    with pytest.raises(ImportError, match="lays out a frame differently"):
        _core.check_layout(right, first, second)


def test_the_stub_names_what_the_extension_has() -> None:
    """_core.pyi and the extension list the same names, and the same members of their classes."""
    stub = ast.parse(pathlib.Path(selftest.__file__).with_name("_core.pyi").read_text())
    classes = {node.name: node for node in stub.body if isinstance(node, ast.ClassDef)}
    assert _names(stub.body) == {name for name in vars(_core) if not name.startswith("_")}
    for name, node in classes.items():
        members = {member for member in vars(getattr(_core, name)) if not member.startswith("_")}
        assert _names(node.body) == members, name


def _names(body: list[ast.stmt]) -> set[str]:
    named = [node.name for node in body if isinstance(node, ast.FunctionDef | ast.ClassDef)]
    named += [node.target.id for node in body if isinstance(node, ast.AnnAssign) and isinstance(node.target, ast.Name)]
    return {name for name in named if not name.startswith("_")}
