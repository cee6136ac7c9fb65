"""The built-in backends on a GPU, where there is one."""

from __future__ import annotations

import gc
from collections.abc import Callable, Sequence
from typing import Any

import pytest
import torch
import torch.nn.functional as F
from torch._inductor.cudagraph_trees import CUDAGraphTreeManager

import framelift
from framelift.backends import lookup
from framelift.graph import GraphBuilder, MetadataMemo

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a GPU"),
]


def inputs(requires_grad: bool) -> tuple[torch.Tensor, torch.nn.Parameter, torch.nn.Parameter]:
    torch.manual_seed(0)
    weight = torch.nn.Parameter(torch.randn(16, 32, device="cuda"), requires_grad=requires_grad)
    bias = torch.nn.Parameter(torch.randn(16, device="cuda"), requires_grad=requires_grad)
    return torch.randn(8, 32, device="cuda"), weight, bias


def compiled(backend: str, mode: str | None, requires_grad: bool, memo: MetadataMemo | None = None):  # type: ignore[no-untyped-def]
    tensors = inputs(requires_grad)
    builder = GraphBuilder(memo)
    x, weight, bias = (builder.add_input(name, t) for name, t in zip(("x", "weight", "bias"), tensors, strict=True))
    h = builder.call_function(F.gelu, (builder.call_function(F.linear, (x, weight, bias)),))
    assert h.device == torch.device("cuda", 0)
    module = builder.finish([builder.call_function(F.softmax, (h, -1))])
    for node in module.graph.nodes:
        if node.op != "output":
            assert node.meta["example_value"].device == torch.device("cuda", 0)
    return lookup(backend, mode)(module, builder.example_inputs), tensors


def reference(x: torch.Tensor, weight: torch.Tensor, bias: torch.Tensor) -> torch.Tensor:
    return F.softmax(F.gelu(F.linear(x, weight, bias)), -1)


@pytest.mark.parametrize("backend", ["eager", "aot_eager", "inductor"])
def test_training(backend: str) -> None:
    memo = MetadataMemo()
    for _ in range(2):
        function, tensors = compiled(backend, None, True, memo)
        (result,) = function(*tensors)
        result.pow(2).sum().backward()
        expected = inputs(True)
        want = reference(*expected)
        want.pow(2).sum().backward()
        torch.testing.assert_close(result, want, rtol=1e-4, atol=1e-4)
        torch.testing.assert_close(tensors[1].grad, expected[1].grad, rtol=1e-3, atol=1e-4)


@pytest.mark.parametrize("mode", ["default", "reduce-overhead", "max-autotune-no-cudagraphs"])
def test_inference(mode: str) -> None:
    with torch.no_grad():
        function, (x, weight, bias) = compiled("inductor", mode, False)
        for _ in range(4):
            x = torch.randn_like(x)
            want = reference(x, weight, bias)
            torch.testing.assert_close(function(x, weight, bias)[0].clone(), want, rtol=1e-4, atol=1e-4)


def test_parameters_may_change_between_replays() -> None:
    with torch.no_grad():
        function, (x, weight, bias) = compiled("inductor", "reduce-overhead", False)
        for _ in range(3):
            function(x, weight, bias)
        weight.mul_(2)
        torch.testing.assert_close(function(x, weight, bias)[0], reference(x, weight, bias), rtol=1e-4, atol=1e-4)


def test_results_of_the_last_step_may_be_alive(monkeypatch: pytest.MonkeyPatch) -> None:
    """Recorded once and replayed, although the program still has what the step before returned."""
    recorded = []
    record = CUDAGraphTreeManager.record_function

    def counting(manager: CUDAGraphTreeManager, *args: object) -> object:
        recorded.append(args)
        return record(manager, *args)

    monkeypatch.setattr(CUDAGraphTreeManager, "record_function", counting)
    tensors = inputs(False)
    lifted = framelift.compile(reference, mode="reduce-overhead")
    with torch.no_grad():
        for _ in range(8):
            x = torch.randn_like(tensors[0])
            kept = lifted(x, *tensors[1:])
            torch.testing.assert_close(kept, reference(x, *tensors[1:]), rtol=1e-4, atol=1e-4)
    assert len(recorded) == 1


def holds_a_megabyte(module: torch.fx.GraphModule, example_inputs: Sequence[Any]) -> Callable[..., Any]:
    """What it compiles keeps a buffer of its own on the device."""
    buffer = torch.zeros(2**18, device="cuda")
    return lambda *args: tuple(result + buffer[0] for result in module.forward(*args))


def allocated() -> int:
    gc.collect()
    torch.cuda.synchronize()
    return torch.cuda.memory_allocated()


def scaled_sum(x: torch.Tensor) -> torch.Tensor:
    return x.sin().sum() * x.shape[0]


@pytest.mark.parametrize("way", ["reset", "evicted"])
def test_memory_of_dropped_entries(way: str) -> None:
    """An entry takes what it has on the device with it: after a reset, and when another evicts it."""
    before = allocated()
    with framelift.config.patch(evict_entries=way == "evicted", recompile_limit=4 if way == "evicted" else 64):
        lifted = framelift.compile(scaled_sum, backend=holds_a_megabyte, dynamic=False)
        for size in range(2, 34):
            x = torch.ones(size, device="cuda")
            torch.testing.assert_close(lifted(x), scaled_sum(x))
            del x
    entries = allocated() - before
    assert entries < 5 * 2**20 if way == "evicted" else entries >= 32 * 2**20
    framelift.reset()
    assert allocated() - before < 2**16


@pytest.mark.parametrize("backend", ["eager", "aot_eager", "inductor"])
def test_memory_of_models_let_go(backend: str) -> None:
    """Neither guards nor graphs keep a model's parameters, its gradients or its activations alive."""
    sizes = []
    for width in range(256, 260):
        model = torch.nn.Sequential(torch.nn.Linear(width, 1024), torch.nn.GELU(), torch.nn.Linear(1024, 8)).cuda()
        lifted = framelift.compile(model, backend=backend)
        lifted(torch.ones(64, width, device="cuda")).sum().backward()
        assert allocated() > 2**20
        del model, lifted
        sizes.append(allocated())
    assert sizes[-1] - sizes[0] < 2**16


if __name__ == "__main__":
    pytest.main([__file__, "-q", "--noconftest", "-rA"])
