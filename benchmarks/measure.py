"""One case in this process: torch.compile and framelift by turns, best of several rounds, one thread."""

from __future__ import annotations

import argparse
import copy
import gc
import json
import time
from collections.abc import Callable
from typing import Any

import torch
import torch._dynamo
from torch import nn

import framelift
from benchmarks.models import CASES, add_one
from framelift.report import events, stream

ROUNDS = 5


def warm_up() -> None:
    """Both compilers on a model that is not measured, so that nobody pays for imports and first-time tables."""
    model = nn.Sequential(nn.Linear(4, 4), nn.LayerNorm(4), nn.Conv1d(4, 4, 1))
    for compiler in (torch.compile, framelift.compile):
        compiler(model, backend="eager")(torch.randn(4, 4))
        compiler(lambda x: x.sin() * 2, backend="eager")(torch.randn(3))


def check_strictly(target: Any, inputs: tuple[torch.Tensor, ...]) -> None:
    """On a copy: the same result as eager, guards equal to their reference definitions, a hit on the second call."""
    twin = copy.deepcopy(target)
    expected = twin(*inputs)
    seen: list[Any] = []
    with framelift.config.patch(strict=True), stream.listening(seen.append):
        lifted = framelift.compile(twin, backend="eager", fullgraph=True)
        for _ in range(2):
            torch.testing.assert_close(lifted(*inputs), expected, rtol=0, atol=0)
    captures = [event for event in seen if isinstance(event, events.CaptureFinished)]
    assert [event.outcome for event in captures] == ["captured"], captures
    framelift.reset()


def constant_backend(result: Any) -> Callable[..., Any]:
    """A backend whose graph costs nothing: what remains is the cost of getting there."""

    def backend(graph_module: Any, example_inputs: Any) -> Callable[..., Any]:
        outputs = (result,)
        return lambda *args: outputs

    return backend


def capture_seconds(target: Any, inputs: tuple[torch.Tensor, ...]) -> dict[str, Any]:
    best = {"torch": float("inf"), "framelift": float("inf")}
    phases: dict[str, float] = {}
    guards = 0
    finished: list[Any] = []
    stop = stream.subscribe(finished.append, events.CaptureFinished)
    for _ in range(ROUNDS):
        torch._dynamo.reset()
        best["torch"] = min(best["torch"], _first_call(torch.compile(target, backend="eager"), inputs))
        framelift.reset()
        seconds = _first_call(framelift.compile(target, backend="eager"), inputs)
        if seconds < best["framelift"]:
            best["framelift"] = seconds
            phases, guards = dict(finished[-1].phases), finished[-1].guards
    stop()
    return {**best, "ratio": best["torch"] / best["framelift"], "guards": guards, "phases": phases}


def _first_call(compiled: Any, inputs: tuple[torch.Tensor, ...]) -> float:
    gc.collect()
    gc.disable()
    began = time.perf_counter()
    compiled(*inputs)
    seconds = time.perf_counter() - began
    gc.enable()
    return seconds


def call_seconds(target: Any, inputs: tuple[torch.Tensor, ...]) -> dict[str, Any]:
    result = torch.zeros(1)
    torch._dynamo.reset()
    framelift.reset()
    finished: list[Any] = []
    with stream.listening(finished.append, events.CaptureFinished):
        ours = framelift.compile(target, backend=constant_backend(result))
        ours(*inputs)
    theirs = torch.compile(target, backend=constant_backend(result))
    theirs(*inputs)
    best = _interleaved(theirs, ours, [inputs[0]])
    return {**best, "guards": finished[-1].guards, "torch_guards": _torch_guards(target)}


def specialisations(count: int = 64) -> dict[str, Any]:
    """Round robin over `count` static shapes of one function."""
    result = torch.zeros(1)
    torch._dynamo.reset()
    torch._dynamo.config.recompile_limit = torch._dynamo.config.accumulated_recompile_limit = 10 * count
    framelift.reset()
    inputs = [torch.randn(2 + i, 4) for i in range(count)]
    ours = framelift.compile(add_one, backend=constant_backend(result), dynamic=False)
    theirs = torch.compile(add_one, backend=constant_backend(result), dynamic=False)
    for x in inputs:
        ours(x)
        theirs(x)

    best = _interleaved(theirs, ours, inputs)
    return {**best, "two_entries": _per_call(ours, inputs[:2], 500)}


def _interleaved(theirs: Any, ours: Any, inputs: list[torch.Tensor]) -> dict[str, float]:
    """Seconds per call of each, by turns, going round the inputs."""
    loops = {"torch": _loops(theirs, inputs), "framelift": _loops(ours, inputs)}
    best = {"torch": float("inf"), "framelift": float("inf")}
    for _ in range(4 * ROUNDS):
        for name, function in (("torch", theirs), ("framelift", ours)):
            best[name] = min(best[name], _per_call(function, inputs, loops[name]))
    return {**best, "ratio": best["torch"] / best["framelift"]}


def _loops(function: Any, inputs: list[torch.Tensor]) -> int:
    """How many rounds fill some five milliseconds."""
    return max(1, int(0.005 / (_per_call(function, inputs, 10) * len(inputs))))


def _per_call(function: Any, inputs: list[torch.Tensor], loops: int) -> float:
    """The call stands in the loop itself: a wrapper around it would cost as much as what is measured."""
    best = float("inf")
    for _ in range(3):
        began = time.perf_counter()
        for x in inputs * loops:
            function(x)
        best = min(best, time.perf_counter() - began)
    return best / (loops * len(inputs))


def _torch_guards(target: Any) -> int | None:
    """How many leaf guards torch checks on a call."""
    code = (type(target).forward if isinstance(target, nn.Module) else target).__code__
    entries = torch._C._dynamo.eval_frame._debug_get_cache_entry_list(code)
    if not entries:
        return None

    def count(manager: Any) -> int:
        children = manager.get_child_managers()
        return len(manager.get_leaf_guards()) + sum(count(child) for child in children)

    return count(entries[0].guard_manager.root)


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("case")
    case = parser.parse_args().case
    torch.set_num_threads(1)
    warm_up()
    if case == "64 shapes":
        print(json.dumps({"call": specialisations()}))
        return
    torch.manual_seed(0)
    target, inputs = CASES[case]()
    check_strictly(target, inputs)
    found = {"call": call_seconds(target, inputs)}
    if isinstance(target, nn.Module):
        found["capture"] = capture_seconds(target, inputs)
    print(json.dumps(found))


if __name__ == "__main__":
    main()
