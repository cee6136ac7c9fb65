"""The built-in backends on captured graphs: inference, training, writes, random numbers."""

from __future__ import annotations

import importlib
import operator
import subprocess
import sys
from collections.abc import Callable
from typing import Any

import pytest
import torch
import torch.nn.functional as F

import framelift
from framelift.backends import lookup
from framelift.errors import BackendError
from framelift.graph import GraphBuilder
from tests.backends.test_users_backends import common, simplified_boxed

AOT = ["eager", "aot_eager"]
ALL = [*AOT, pytest.param("inductor", marks=pytest.mark.slow)]


def in_two_halves(module: torch.fx.GraphModule, example_inputs: Any) -> Any:
    """A backend that calls AOTAutograd more than once."""
    whole = simplified_boxed(module, example_inputs)
    other = simplified_boxed(torch.fx.symbolic_trace(lambda x: (x.exp() * x,)), [torch.ones(3, requires_grad=True)])
    return lambda *args: (other(torch.ones(3, requires_grad=True)), whole(*args))[1]


def inputs(requires_grad: bool) -> dict[str, torch.Tensor]:
    torch.manual_seed(0)
    make: Callable[[torch.Tensor], torch.Tensor] = torch.nn.Parameter if requires_grad else (lambda tensor: tensor)
    return {
        "x": torch.randn(4, 8),
        "weight": make(torch.randn(6, 8)),
        "bias": make(torch.randn(6)),
        "count": torch.zeros(4, 6),
    }


def build(builder: GraphBuilder, tensors: dict[str, torch.Tensor]) -> Any:
    x, weight, bias, count = [builder.add_input(name, tensor) for name, tensor in tensors.items()]
    h = builder.call_function(F.linear, (x, weight, bias))
    h = builder.call_function(F.gelu, (h,))
    a, b = builder.call_method("chunk", (h, 2, 1))
    h = builder.call_function(torch.cat, ([b, a], 1))
    builder.call_method("add_", (count, builder.call_method("detach", (h,))))
    builder.call_function(operator.setitem, (count, 0, 1.0))
    total = builder.call_method("sum", (count,))
    return builder.finish([builder.call_function(F.softmax, (h, -1)), total])


def compiled(backend: str, requires_grad: bool) -> tuple[Any, dict[str, torch.Tensor]]:
    tensors = inputs(requires_grad)
    builder = GraphBuilder()
    module = build(builder, tensors)
    return lookup(backend)(module, builder.example_inputs), tensors


@pytest.mark.parametrize("backend", ALL)
def test_inference(backend: str) -> None:
    with torch.no_grad():
        function, tensors = compiled(backend, requires_grad=False)
        for _ in range(2):
            expected = inputs(False)
            reference, _ = compiled("eager", False)
            result, total = function(*tensors.values())
            want, want_total = reference(*expected.values())
            torch.testing.assert_close(result, want)
            torch.testing.assert_close(total, want_total)
            torch.testing.assert_close(tensors["count"], expected["count"])
            tensors = inputs(False)


@pytest.mark.parametrize("backend", ALL)
def test_training(backend: str) -> None:
    function, tensors = compiled(backend, requires_grad=True)
    reference, expected = compiled("eager", requires_grad=True)
    got = function(*tensors.values())
    want = reference(*expected.values())
    torch.testing.assert_close(list(got), list(want))
    got[0].pow(2).sum().backward()
    want[0].pow(2).sum().backward()
    for name in ("weight", "bias"):
        torch.testing.assert_close(tensors[name].grad, expected[name].grad)
    torch.testing.assert_close(tensors["count"], expected["count"])


@pytest.mark.parametrize("backend", ALL)
def test_inputs_that_share_memory(backend: str) -> None:
    def pieces() -> tuple[torch.Tensor, torch.Tensor]:
        base = torch.arange(6.0)
        return base[:4], base[2:]

    builder = GraphBuilder()
    a, b = (builder.add_input(name, tensor) for name, tensor in zip("ab", pieces(), strict=True))
    builder.call_method("add_", (a, 10))
    result = builder.call_method("clone", (b,))
    function = lookup(backend)(builder.finish([result]), builder.example_inputs)
    first, second = pieces()
    assert function(first, second)[0].tolist() == [12.0, 13.0, 4.0, 5.0]
    assert second.tolist() == [12.0, 13.0, 4.0, 5.0]


@pytest.mark.parametrize("backend", AOT)
def test_random_numbers_are_those_of_eager_mode(backend: str) -> None:
    builder = GraphBuilder()
    x = builder.add_input("x", torch.ones(16))
    result = builder.call_function(F.dropout, (x, 0.5))
    function = lookup(backend)(builder.finish([result]), builder.example_inputs)
    torch.manual_seed(5)
    expected = F.dropout(torch.ones(16), 0.5)
    torch.manual_seed(5)
    assert torch.equal(function(torch.ones(16))[0], expected)


@pytest.mark.parametrize("backend", AOT)
def test_fakes_changed_by_the_capture_do_not_matter(backend: str) -> None:
    builder = GraphBuilder()
    x = builder.add_input("x", torch.ones(2, 3))
    y = builder.call_method("clone", (x,))
    builder.call_method("t_", (y,))
    builder.call_method("mul_", (x, 2))
    function = lookup(backend)(builder.finish([y]), builder.example_inputs)
    tensor = torch.ones(2, 3)
    assert function(tensor)[0].shape == (3, 2)
    assert torch.equal(tensor, torch.full((2, 3), 2.0))


@pytest.mark.parametrize("backend", AOT)
def test_modes_in_the_graph(backend: str) -> None:
    builder = GraphBuilder()
    w = builder.add_input("w", torch.ones(3, requires_grad=True))
    kept = builder.call_function(torch.mul, (w, 2))
    builder.call_function(torch._C._set_grad_enabled, (False,))
    with torch.no_grad():
        cut = builder.call_function(torch.mul, (w, 3))
    builder.call_function(torch._C._set_grad_enabled, (True,))
    result = builder.call_function(torch.add, (kept, cut))
    function = lookup(backend)(builder.finish([result]), builder.example_inputs)
    tensor = torch.ones(3, requires_grad=True)
    function(tensor)[0].sum().backward()
    assert tensor.grad is not None and tensor.grad.tolist() == [2.0, 2.0, 2.0]


@pytest.mark.slow
def test_options_reach_inductor() -> None:
    builder = GraphBuilder()
    x = builder.add_input("x", torch.ones(4))
    module = builder.finish([builder.call_function(torch.sin, (x,))])
    function = lookup("inductor", options={"fallback_random": True})(module, builder.example_inputs)
    torch.testing.assert_close(function(torch.ones(4))[0], torch.ones(4).sin())


def test_a_missing_compiler_is_said_in_words(monkeypatch: pytest.MonkeyPatch) -> None:
    from torch._inductor.exc import InvalidCxxCompiler

    def compile_fx(*args: Any, **kwargs: Any) -> Any:
        raise RuntimeError("backend failed") from InvalidCxxCompiler()

    module = importlib.import_module("framelift.backends.inductor")
    monkeypatch.setattr(module, "compile_fx", compile_fx)
    builder = GraphBuilder()
    x = builder.add_input("x", torch.ones(4))
    graph = builder.finish([builder.call_function(torch.sin, (x,))])
    with pytest.raises(BackendError, match="no C\\+\\+ compiler was found"):
        lookup("inductor")(graph, builder.example_inputs)


def test_parameters_are_known_to_stay_where_they_are() -> None:
    """Otherwise a CUDA graph would copy them on every call."""
    from torch._functorch.aot_autograd import aot_module_simplified, make_boxed_func
    from torch._guards import TracingContext

    from framelift.backends.tracing import compiling

    builder = GraphBuilder()
    x = builder.add_input("x", torch.ones(2, 3))
    w = builder.add_input("w", torch.nn.Parameter(torch.ones(3)))
    b = builder.add_input("b", torch.ones(3), "L['self'].running_mean", "buffer")
    module = builder.finish([builder.call_function(torch.addcmul, (b, x, w))])
    with torch.no_grad(), compiling(module, builder.example_inputs) as examples:
        aot_module_simplified(module, examples, fw_compiler=lambda graph, _: make_boxed_func(graph.forward))
        metadata = TracingContext.get().fw_metadata
    assert metadata.static_input_indices == [1, 2]


ALONE = """
import warnings
import torch, framelift
warnings.simplefilter("error")
x = torch.ones(3, requires_grad=True)
framelift.compile(lambda x: (x * 2).sin().sum(), backend={backend!r})(x).backward()
"""


@pytest.mark.parametrize("backend", ["eager", "aot_eager", "inductor"])
def test_filters_that_raise_are_not_about_torch(backend: str) -> None:
    """In a process of its own, where nothing has been imported or warned about before."""
    done = subprocess.run([sys.executable, "-c", ALONE.format(backend=backend)], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr[-2000:]


@pytest.mark.parametrize("backend", ["aot_eager", simplified_boxed, common, in_two_halves])
def test_a_graph_is_kept_after_one_was_not(backend: Any) -> None:
    """AOTAutograd had compiled a backward that may take the memory of what was saved, which none of these does."""

    def f(x):
        return torch.softmax((x @ x).sin() @ x, 0).pow(2).sum()

    lifted = framelift.compile(f, backend=backend)
    lifted(torch.randn(4, 4, requires_grad=True)).backward()
    one, other = [torch.randn(4, 4).requires_grad_() for _ in range(2)]
    other.data.copy_(one.data)
    for run, x in ((f, one), (lifted, other)):
        loss = run(x)
        loss.backward(retain_graph=True)
        loss.backward()
    torch.testing.assert_close(other.grad, one.grad)
