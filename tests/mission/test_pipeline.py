"""The pipeline document: hook, capture, clean-up passes, guards, backend hand-off, and the script that shows them."""

import os
import pathlib
import subprocess
import sys

import pytest
import torch

import framelift
from framelift.report.events import (
    BackendCalled,
    CaptureFinished,
    CaptureStarted,
    GraphCaptured,
    GuardsBuilt,
    ResidualBuilt,
)
from tests.helpers import Record

pytestmark = pytest.mark.mission
ROOT = pathlib.Path(__file__).parent.parent.parent


def test_order_of_the_stages():
    record = Record()
    with record.listening():
        framelift.compile(lambda x: x.sin() + 1, backend="eager")(torch.randn(3))
    kinds = [type(event) for event in record.events]
    assert kinds[0] is CaptureStarted and kinds[-1] is CaptureFinished
    assert {GraphCaptured, BackendCalled, GuardsBuilt, ResidualBuilt} <= set(kinds)
    assert kinds.index(GraphCaptured) < kinds.index(BackendCalled)


def test_backend_is_called_with_graph_and_example_inputs():
    given = []

    def backend(gm, example_inputs):
        given.append((gm, example_inputs))
        return gm.forward

    x = torch.randn(3)
    assert torch.equal(framelift.compile(lambda x: x.sin() + 1, backend=backend)(x), x.sin() + 1)
    ((gm, inputs),) = given
    assert isinstance(gm, torch.fx.GraphModule) and len(inputs) == 1 and inputs[0].shape == (3,)


def test_frames_inside_a_block_are_lifted():
    def f(x):
        return x.sin() + 1

    x, record = torch.randn(3), Record()
    with record.listening(), framelift.optimize("eager"):
        out = f(x)
    assert torch.equal(out, f(x)) and record.ops == 2


def trace(*arguments, cwd):
    script = ROOT / "scripts" / "run_dynamo_bytecode_trace.py"
    env = {**os.environ, "PYTHONPATH": str(ROOT / "src")}
    return subprocess.run([sys.executable, str(script), *arguments], cwd=cwd, env=env, capture_output=True, text=True)


PROGRAM = """
import torch

def f(x):
    return x.sin() + 1

def example_inputs():
    return (torch.randn(3),)

if __name__ == "__main__":
    torch.compile(f)(torch.randn(3))
"""


@pytest.fixture
def program(tmp_path):
    (tmp_path / "program.py").write_text(PROGRAM)
    return tmp_path


@pytest.mark.parametrize(
    "arguments",
    [
        ("program:f", "--backend", "eager"),
        ("program:f", "--args", "torch.randn(2, 2)"),
        ("program.py", "--backend", "eager"),
    ],
    ids=" ".join,
)
def test_trace_script(arguments, program):
    done = trace(*arguments, cwd=program)
    assert done.returncode == 0, done.stderr
    for words in ("original f", "residual", "RETURN_VALUE", "FX graph (2 ops)", "sin"):
        assert words in done.stdout


@pytest.mark.parametrize(
    "arguments, words",
    [
        (("program:g",), "unknown name in program 'g'"),
        (("nothing:f",), "cannot import 'nothing'"),
        (("nothing.py",), "neither module:function nor a file"),
        (("program:f", "--backend", "eagr"), "did you mean 'eager'?"),
        (("math:sin",), "no arguments for math:sin"),
    ],
)
def test_trace_script_bad_input(arguments, words, program):
    done = trace(*arguments, cwd=program)
    assert done.returncode == 2 and words in done.stderr
    assert len(done.stderr.strip().splitlines()) == 1
