"""Inductor behind framelift.compile: results, gradients, aliases, caches, the shape environment, missing tools.

A compile takes seconds, so each test does several things with one; most of what is lifted is tested with `eager`.
"""

from __future__ import annotations

import importlib
import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import nn
from torch.fx.experimental.symbolic_shapes import DimDynamic

import framelift
from framelift.backends.tracing import compiling
from framelift.graph import GraphBuilder
from framelift.report import events, stream
from framelift.shapes.symbols import NamedSource
from framelift.shapes.unbacked import PresumingEnv
from tests.tolerances import INDUCTOR
from tests.training_models import TASKS

ROOT = Path(__file__).resolve().parent.parent.parent


def close(actual: Any, expected: Any, dtype: torch.dtype = torch.float32) -> None:
    allowed = INDUCTOR[dtype]
    torch.testing.assert_close(actual, expected, rtol=allowed.rtol, atol=allowed.atol)


@pytest.mark.slow
@pytest.mark.parametrize("task", ["residual", "transformer"])
def test_inference(task: str) -> None:
    model = TASKS[task].build().eval()
    lifted = framelift.compile(model)
    with torch.no_grad():
        for _ in range(2):
            x = TASKS[task].inputs()
            close(lifted(x), model(x))
    assert framelift.counters().captured == 1


@pytest.mark.slow
def test_a_function_that_writes_and_the_same_tensor_twice() -> None:
    """Inputs are handed over once each, and other aliases than those of the capture find no entry."""

    def f(x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
        x.mul_(2)
        return (x + y).sin() + x.cos()

    lifted = framelift.compile(f)
    seen: list[Any] = []
    with stream.listening(seen.append, events.GraphCaptured):
        for offset in (0, 8, 4):  # the same object, memory apart, memory that overlaps
            results = []
            for function in (lifted, f):
                base = torch.arange(16.0)
                x = base[:8]
                y = x if offset == 0 else base[offset : offset + 8]
                results.append((function(x, y), base))
            close(results[0], results[1])
    assert [len(event.inputs) for event in seen] == [1, 2, 2]


@pytest.mark.slow
def test_random_numbers_are_those_of_eager_mode_if_asked_for() -> None:
    def f(x: torch.Tensor) -> torch.Tensor:
        return nn.functional.dropout(x, 0.5) + torch.rand(4)

    lifted = framelift.compile(f, options={"fallback_random": True})
    for _ in range(2):
        torch.manual_seed(3)
        expected = f(torch.ones(4))
        torch.manual_seed(3)
        close(lifted(torch.ones(4)), expected)


@pytest.mark.slow
def test_a_backward_compiled_inside_a_block_captures_nothing() -> None:
    """The backward is compiled when it first runs, which may be in a frame whose calls are lifted."""
    model = TASKS["perceptron"].build()
    twin = TASKS["perceptron"].build()
    twin.load_state_dict(model.state_dict())
    x = TASKS["perceptron"].inputs()

    def step(model: nn.Module, x: torch.Tensor) -> None:
        loss = model(x).pow(2).sum()
        framelift.graph_break()
        loss.backward()

    step(twin, x)
    with framelift.optimize("inductor"):
        for _ in range(2):
            model.zero_grad()
            step(model, x)
    for parameter, other in zip(model.parameters(), twin.parameters(), strict=True):
        close(parameter.grad, other.grad)
    counts = framelift.counters()
    assert counts.graphs == 1 and not counts.failures, counts
    assert counts.captures <= 2


def test_no_guards_come_from_a_static_shape_environment() -> None:
    """Neither from AOTAutograd's trace of the graph nor, later, of its backward; then the environment is frozen."""
    builder = GraphBuilder()
    x = builder.add_input("x", torch.randn(4, 6, requires_grad=True))
    y = builder.call_method("reshape", (builder.call_function(torch.sin, (x,)), 2, -1))
    module = builder.finish([builder.call_function(torch.matmul, (y, builder.call_method("t", (y,))))])
    module.shape_env = builder.shape_env
    from torch._functorch.aot_autograd import aot_module_simplified, make_boxed_func

    def keep(graph: Any, _: Any) -> Any:
        return make_boxed_func(graph.forward)

    with compiling(module, builder.example_inputs) as inputs:
        function = aot_module_simplified(module, inputs, fw_compiler=keep, bw_compiler=keep)
    tensor = torch.randn(4, 6, requires_grad=True)
    function(tensor)[0].sum().backward()
    assert tensor.grad is not None
    assert builder.shape_env.guards == [] and builder.shape_env.frozen


def test_what_stays_where_it_is() -> None:
    """Parameters, buffers and tensors that were marked need not be copied when a CUDA graph is replayed."""
    norm = nn.BatchNorm1d(3)
    cache = torch.zeros(4, 3)
    torch._dynamo.mark_static_address(cache)
    static: list[set[str]] = []

    def backend(module: Any, example_inputs: Any) -> Any:
        with compiling(module, example_inputs):
            nodes = module.graph.find_nodes(op="placeholder")
            static.append({node.meta["input_source"] for node in nodes if node.meta["tensor_dict"]})
        return module.forward

    def step(x: torch.Tensor, scale: torch.Tensor) -> torch.Tensor:
        return norm(x) * scale + cache

    lifted = framelift.compile(step, backend=backend, fullgraph=True)
    lifted(torch.eye(4, 3), torch.ones(3))
    names = ("weight", "bias", "running_mean", "running_var", "num_batches_tracked")
    assert {source.rpartition(".")[2] for source in static[0]} == {*names, "cell_contents"}, static


def test_assumptions_about_sizes_are_refused() -> None:
    """Where no capture hears of them, nothing would check them: the compiler fails, instead of giving a graph for other
    sizes."""
    from torch._guards import TracingContext

    builder = GraphBuilder()
    x = builder.add_input("x", torch.randn(4))
    module = builder.finish([builder.call_function(torch.sin, (x,))])
    module.shape_env = None
    with pytest.raises(RuntimeError, match="the compiler assumed"), compiling(module, builder.example_inputs):
        TracingContext.get().fake_mode.shape_env.guards.append(_Guard("Eq(s0, 4)"))


class _Guard:
    def __init__(self, expr: str) -> None:
        self.expr = expr


# -- modes and options -----------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("given", "expected"),
    [
        ({}, {}),
        ({"mode": "default"}, {}),
        ({"mode": "reduce-overhead"}, {"triton.cudagraphs": True}),
        ({"mode": "max-autotune-no-cudagraphs"}, {"max_autotune": True}),
        (
            {"options": {"max-autotune": True, "epilogue_fusion": False}},
            {"max_autotune": True, "epilogue_fusion": False},
        ),
    ],
)
def test_modes_and_options_reach_inductor(
    given: dict[str, Any], expected: dict[str, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    patches: list[dict[str, Any]] = []

    def compile_fx(module: Any, inputs: Any, *, config_patches: dict[str, Any]) -> Any:
        patches.append(config_patches)
        return module.forward

    monkeypatch.setattr(importlib.import_module("framelift.backends.inductor"), "compile_fx", compile_fx)
    framelift.compile(lambda x: x + 1, **given)(torch.ones(2))
    (patch,) = patches
    patch.pop("joint_custom_pre_pass", None)  # ours, where this Inductor needs it
    assert expected.items() <= patch.items() and bool(patch) == bool(expected)


# -- other processes -----------------------------------------------------------------------------------------------

SMALL = """
import json, sys, torch, framelift
from torch._dynamo.utils import counters

class Model(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.linear, self.norm = torch.nn.Linear(3, 3), torch.nn.BatchNorm1d(3)

    def forward(self, x):
        return self.norm(self.linear(x)).sin().sum(-1, keepdim=True)

torch.manual_seed(0)
model, twin = Model(), Model()
twin.load_state_dict(model.state_dict())
lifted, found = framelift.compile(model), []
for training in (False, True):
    counters.clear()
    model.train(training), twin.train(training)
    with torch.set_grad_enabled(training):
        actual, expected = lifted(torch.ones(2, 3)), twin(torch.ones(2, 3))
    torch.testing.assert_close(actual, expected)
    if training:
        actual.sum().backward(), expected.sum().backward()
        torch.testing.assert_close(model.linear.weight.grad, twin.linear.weight.grad)
    found.append({**counters["inductor"], **counters["aot_autograd"]})
print(json.dumps(found))
"""

# What an empty cache would make Inductor compile once per machine: headers, and programs that try vector instructions.
QUICK = {"TORCHINDUCTOR_CPP_CACHE_PRECOMPILE_HEADERS": "0", "ATEN_CPU_CAPABILITY": "default"}


def run(script: str, **environment: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-c", script],
        env={**os.environ, "PYTHONPATH": str(ROOT / "src"), **environment},
        capture_output=True,
        text=True,
        check=False,
        timeout=600,
    )


@pytest.mark.slow
def test_a_second_process_finds_what_the_first_compiled(tmp_path: Path) -> None:
    found = []
    for _ in range(2):
        done = run(SMALL, **QUICK, TORCHINDUCTOR_CACHE_DIR=str(tmp_path))
        assert done.returncode == 0, done.stderr
        found.append(json.loads(done.stdout.splitlines()[-1]))
    for kind, first, second in zip(("inference", "training"), *found, strict=True):
        assert first["autograd_cache_miss"] == 1 and first.get("autograd_cache_bypass", 0) == 0, (kind, first)
        assert second["autograd_cache_hit"] == 1 and second.get("autograd_cache_miss", 0) == 0, (kind, second)
        assert second.get("fxgraph_cache_miss", 0) == 0 and second["fxgraph_cache_hit"] >= 1, (kind, second)


SHARING = """
import json, sys, torch, framelift
from torch._dynamo.utils import counters

def f(a, b):
    a.add_(1)
    return a * b

def inputs(start):  # of one layout, but more or less of the memory is the same
    memory = torch.arange(12.0)
    return (memory[:4], memory[start : start + 4]) if start is not None else (memory[:4], torch.arange(4.0) + 2)

found = []
for start in (None, 2, 1, 4):
    counters.clear()
    framelift.reset()
    (a, b), (c, d) = inputs(start), inputs(start)
    assert torch.equal(framelift.compile(f)(a, b), f(c, d)) and torch.equal(a, c) and torch.equal(b, d), start
    found.append({**counters["inductor"], **counters["aot_autograd"]})
print(json.dumps(found))
"""


@pytest.mark.slow
def test_caches_know_inputs_that_share_memory(tmp_path: Path) -> None:
    """What was compiled for inputs that lie otherwise is not taken; what was compiled for these is."""
    found = []
    for _ in range(2):
        done = run(SHARING, **QUICK, TORCHINDUCTOR_CACHE_DIR=str(tmp_path))
        assert done.returncode == 0, done.stderr
        found.append(json.loads(done.stdout.splitlines()[-1]))
    for first, second in zip(*found, strict=True):
        assert first["autograd_cache_miss"] == 1, first
        assert second["autograd_cache_hit"] == 1 and "autograd_cache_miss" not in second, second


@pytest.mark.slow
def test_a_missing_compiler_is_said_in_words(tmp_path: Path) -> None:
    script = "import torch, framelift\nframelift.compile(torch.sin)(torch.ones(3))"
    environment = {"CXX": "/nonexistent", "PATH": str(tmp_path), "TORCHINDUCTOR_CACHE_DIR": str(tmp_path)}
    done = run(script, **environment)
    assert done.returncode == 1
    assert "no C++ compiler was found" in done.stderr.splitlines()[-1], done.stderr


# -- steps ---------------------------------------------------------------------------------------------------------


def test_a_step_is_an_outermost_call(monkeypatch: pytest.MonkeyPatch) -> None:
    """CUDA graphs may use the memory of results again in the next step, not within one."""
    from torch._inductor.cudagraph_trees import GenerationTracker

    seen: list[int] = []

    def compile_fx(module: Any, inputs: Any, **settings: Any) -> Any:
        def run(*args: Any) -> Any:
            seen.append(GenerationTracker.generation)
            return module(*args)

        return run

    monkeypatch.setattr(importlib.import_module("framelift.backends.inductor"), "compile_fx", compile_fx)

    def half(x: torch.Tensor) -> torch.Tensor:
        return x / 2

    inner = framelift.compile(half, mode="reduce-overhead")

    def whole(x: torch.Tensor) -> torch.Tensor:
        y = x + 1
        framelift.graph_break()
        return inner(y) + half(y * 2)

    lifted = framelift.compile(whole, mode="reduce-overhead")
    for _ in range(3):
        lifted(torch.ones(2))
        inner(torch.ones(2))
    steps = list(dict.fromkeys(seen))
    assert steps == list(range(steps[0], steps[0] + 6)), "every call of a lifted callable is a step"
    assert seen == sorted(seen) and seen.count(steps[0]) > 1, "with several graphs"
    seen.clear()
    framelift.compile(half)(torch.ones(3))
    framelift.compile(half)(torch.ones(3))
    assert len(set(seen)) == 1, "nobody counts where nothing is recorded"


CACHED = """
import torch, framelift
from torch._dynamo.utils import counters

def f(a, b, c):
    left, right = (a * b).chunk(2, 1)
    values, places = c.max(0)
    return left.sum(), right, values

lifted = framelift.compile(f, backend="inductor")
for size in (4, 5, 6):
    for which in range(3):
        torch.manual_seed(size)
        one = [torch.randn(size, size, requires_grad=True) for _ in range(3)]
        other = [each.detach().clone().requires_grad_() for each in one]
        lifted(*one)[which].sum().backward(retain_graph=True)
        f(*other)[which].sum().backward()
        for mine, eager in zip(one, other):
            torch.testing.assert_close(mine.grad, eager.grad)
print(counters["inductor"]["fxgraph_cache_hit"])
"""


@pytest.mark.slow
def test_another_process_finds_graphs_over_symbols(tmp_path: Path) -> None:
    """Its backward computes with sizes that it is not given."""
    hits = []
    for _ in range(2):
        done = run(CACHED, **QUICK, TORCHINDUCTOR_CACHE_DIR=str(tmp_path))
        assert done.returncode == 0, done.stderr
        hits.append(int(done.stdout.split()[-1]))
    assert hits[0] == 0 and hits[1] > 0


def test_graphs_on_disk_serve_the_numbers_they_were_compiled_for() -> None:
    def environment(size: int) -> tuple[PresumingEnv, torch.SymInt]:
        env = PresumingEnv()
        symbol = env.create_symbol(size, NamedSource("L['x'].size()[0]"), DimDynamic.DYNAMIC, None)
        return env, env.create_symintnode(symbol, hint=size)

    env, size = environment(30)
    assert size * 2 <= 128
    told = env.produce_guards_expression([])
    assert told is not None
    env, size = environment(100)
    assert not env.evaluate_guards_expression(told, []) and not env.guards
    env, size = environment(40)
    assert env.evaluate_guards_expression(told, [])
    assert [guard.expr for guard in env.guards] == [size.node.expr * 2 <= 128]
    assert not PresumingEnv().evaluate_guards_expression(told, [])
