"""Programs that lift functions give what they should under coverage tools, profilers and debuggers from their start.

What these tools are told is in `test_watched.py`; that the extension alone can be imported there in `native/`.
"""

from __future__ import annotations

import json
import pathlib
import sys
import textwrap

import pytest

from tests.native.entry_helpers import run_in

PROGRAM = """\
import torch
import framelift

framelift.config.strict = True


@framelift.compile(backend="eager")
def lifted(x):
    y = x + 1
    if y.sum() > 0:
        y = y * 2
    return y


class Net(torch.nn.Module):
    def forward(self, x):
        return torch.relu(x) + 1


x = torch.ones(2, requires_grad=True)
lifted(x).sum().backward()
lifted(torch.ones(3))
net = framelift.compile(Net(), backend="aot_eager")
for size in (2, 3, 4):
    assert torch.equal(net(torch.ones(size)), torch.full((size,), 2.0))
print(lifted(x).tolist(), x.grad.tolist(), framelift.counters().failures)
"""
PRINTED = "[4.0, 4.0] [2.0, 2.0] {}\n"
CORES = ["ctrace", "pytrace", *(["sysmon"] if sys.version_info >= (3, 12) else [])]


@pytest.mark.parametrize("core", CORES)
def test_coverage_run(tmp_path: pathlib.Path, core: str) -> None:
    (tmp_path / "program.py").write_text(PROGRAM)
    done = run_in(tmp_path, "-m", "coverage", "run", "program.py", COVERAGE_CORE=core)
    assert (done.returncode, done.stdout) == (0, PRINTED), done.stderr
    done = run_in(tmp_path, "-m", "coverage", "json", "-o", "lines.json", "--include=program.py")
    executed = json.loads((tmp_path / "lines.json").read_text())["files"]["program.py"]["executed_lines"]
    assert PROGRAM.count("\n") in executed


@pytest.mark.parametrize("core", CORES)
def test_pytest_with_coverage(tmp_path: pathlib.Path, core: str) -> None:
    (tmp_path / "test_program.py").write_text("def test_it():\n" + textwrap.indent(PROGRAM, "    "))
    command = ("-m", "pytest", "-q", "-s", "-p", "no:cacheprovider", "--rootdir=.", "--cov=framelift", "--cov-report=")
    done = run_in(tmp_path, *command, "test_program.py", COVERAGE_CORE=core, PYTEST_ADDOPTS="")
    assert done.returncode == 0 and PRINTED in done.stdout, done.stdout + done.stderr


@pytest.mark.parametrize(
    "command",
    [["-m", "cProfile", "-o", "profile.out"], ["-m", "trace", "--count", "--coverdir=lines"]],
    ids=["cProfile", "trace"],
)
def test_tools_of_the_standard_library(tmp_path: pathlib.Path, command: list[str]) -> None:
    (tmp_path / "program.py").write_text(PROGRAM)
    done = run_in(tmp_path, *command, "program.py")
    assert done.returncode == 0 and done.stdout.startswith(PRINTED), done.stdout + done.stderr


@pytest.mark.parametrize("kind", ["trace", "profile"])
def test_functions_of_the_program_that_trace(tmp_path: pathlib.Path, kind: str) -> None:
    (tmp_path / "program.py").write_text(f"import sys\nsys.set{kind}(lambda *_: None)\n{PROGRAM}sys.set{kind}(None)\n")
    done = run_in(tmp_path, "program.py")
    assert (done.returncode, done.stdout) == (0, PRINTED), done.stderr
