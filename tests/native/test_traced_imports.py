"""The extension can be imported while coverage tools, profilers and debuggers follow the program."""

from __future__ import annotations

import json
import pathlib
import sys
import textwrap

import pytest

from framelift.native import _core, selftest
from tests.native.entry_helpers import run_in

PROGRAM = """\
from framelift.native import _core
from framelift.native.selftest import run_selftest


def doubled(number):
    twice = number * 2
    return twice


run_selftest()  # a second time, when the tool knows its functions
print("imported", doubled(3))
"""
LAST_LINE = PROGRAM.count("\n")
CORES = ["ctrace", "pytrace", *(["sysmon"] if sys.version_info >= (3, 12) else [])]


def write(folder: pathlib.Path, text: str = PROGRAM) -> str:
    (folder / "program.py").write_text(textwrap.dedent(text))
    return "program.py"


@pytest.mark.parametrize("core", CORES)
@pytest.mark.parametrize("branch", [[], ["--branch"]], ids=["lines", "branches"])
def test_coverage_run_in(tmp_path: pathlib.Path, core: str, branch: list[str]) -> None:
    program = write(tmp_path)
    done = run_in(tmp_path, "-m", "coverage", "run", *branch, program, COVERAGE_CORE=core)
    assert (done.returncode, done.stdout) == (0, "imported 6\n"), done.stderr
    done = run_in(tmp_path, "-m", "coverage", "json", "-o", "lines.json", "--include=program.py")
    assert done.returncode == 0, done.stderr
    measured = json.loads((tmp_path / "lines.json").read_text())["files"]["program.py"]
    assert measured["missing_lines"] == []
    assert LAST_LINE in measured["executed_lines"]


@pytest.mark.parametrize("core", CORES)
def test_pytest_with_coverage(tmp_path: pathlib.Path, core: str) -> None:
    write(tmp_path)
    test = "def test_it():\n    import program\n    assert program.doubled(2) == 4\n"
    (tmp_path / "test_program.py").write_text(test)
    command = ("-m", "pytest", "-q", "-p", "no:cacheprovider", "--rootdir=.", "test_program.py")
    report = ("--cov=program", "--cov-report=json:lines.json")
    done = run_in(tmp_path, *command, *report, COVERAGE_CORE=core, PYTEST_ADDOPTS="")
    assert done.returncode == 0, done.stdout + done.stderr
    assert json.loads((tmp_path / "lines.json").read_text())["files"]["program.py"]["missing_lines"] == []


@pytest.mark.parametrize(
    "command",
    [
        ["-m", "cProfile", "-o", "profile.out"],
        ["-m", "profile", "-o", "profile.out"],
        ["-m", "trace", "--count", "--coverdir=lines"],
        ["-m", "trace", "--listfuncs"],
        ["-m", "pdb", "-c", "continue", "-c", "quit"],
    ],
    ids=["cProfile", "profile", "trace", "trace-functions", "pdb"],
)
def test_tools_of_the_standard_library(tmp_path: pathlib.Path, command: list[str]) -> None:
    done = run_in(tmp_path, *command, write(tmp_path))
    assert done.returncode == 0, done.stderr
    assert done.stdout.startswith("imported 6\n"), done.stdout


@pytest.mark.parametrize("kind", ["trace", "profile"])
def test_the_tool_goes_on_after_the_import(tmp_path: pathlib.Path, kind: str) -> None:
    """What was set before the import is set after it and hears of what is called then; not of the self-test."""
    program = f"""
        import sys
        heard = []
        def tool(frame, event, argument):
            heard.append(frame.f_code.co_name)
        sys.set{kind}(tool)
        from framelift.native import _core
        assert sys.get{kind}() is tool
        def later(): pass
        later()
        sys.set{kind}(None)
        assert "later" in heard and "run_selftest" in heard
        assert "_residual" not in heard
        print("imported")
    """
    done = run_in(tmp_path, write(tmp_path, program))
    assert (done.returncode, done.stdout) == (0, "imported\n"), done.stderr


def test_frames_are_exchanged_once_the_tool_has_gone(tmp_path: pathlib.Path) -> None:
    program = """
        import sys
        sys.settrace(lambda *_: None)
        from framelift.native import _core
        sys.settrace(None)
        before = _core.hook_state()["swapped"]
        from framelift.native import selftest
        selftest.run_selftest()
        print(_core.hook_state()["swapped"] - before)
    """
    done = run_in(tmp_path, write(tmp_path, program))
    assert (done.returncode, done.stdout) == (0, "1\n"), done.stderr


@pytest.mark.skipif(sys.version_info < (3, 12), reason="sys.monitoring is new in 3.12")
def test_a_tool_that_watches_the_functions_of_the_self_test() -> None:
    monitoring = sys.monitoring  # type: ignore[attr-defined,unused-ignore]
    tool = monitoring.COVERAGE_ID
    watched = (selftest._original, selftest._residual, selftest._layout)
    monitoring.use_tool_id(tool, "test")
    try:
        monitoring.register_callback(tool, monitoring.events.LINE, lambda code, line: None)
        for function in watched:
            monitoring.set_local_events(tool, function.__code__, monitoring.events.LINE)
        selftest.run_selftest()
    finally:
        for function in watched:
            monitoring.set_local_events(tool, function.__code__, 0)
        monitoring.free_tool_id(tool)


# -- what runs while tools are not told -------------------------------------------------------------------------------


def test_untold_answers_what_the_callable_does() -> None:
    assert _core.untold(divmod, 7, 2) == (3, 1)
    assert _core.untold(dict, [("a", 1)], b=2) == {"a": 1, "b": 2}
    with pytest.raises(ZeroDivisionError):
        _core.untold(divmod, 1, 0)
    with pytest.raises(TypeError, match="takes a callable"):
        _core.untold()


@pytest.mark.parametrize("raises", [False, True])
def test_tools_are_told_again_afterwards(raises: bool) -> None:
    heard: list[str] = []

    def called() -> None:
        if raises:
            raise KeyError

    def later() -> None:
        pass

    def program() -> None:
        try:
            _core.untold(called)
        except KeyError:
            pass
        later()

    before = sys.gettrace()
    sys.settrace(lambda frame, event, argument: heard.append(frame.f_code.co_name))
    try:
        program()
    finally:
        sys.settrace(before)
    assert heard == ["program", "later"]
