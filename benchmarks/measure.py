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
from benchmarks.anatomy import anatomy
from benchmarks.compare import difference
from benchmarks.models import CASES, GROWTH, add_one
from framelift.report import events, stream

ROUNDS = 5


def warm_up() -> None:
    """Both compilers on a model that is not measured, so that nobody pays for imports and first-time tables."""
    model = nn.Sequential(nn.Linear(4, 4), nn.LayerNorm(4), nn.Conv1d(4, 4, 1))
    for compiler in (torch.compile, framelift.compile):
        compiler(model, backend="eager")(torch.randn(4, 4))
        compiler(lambda x: x.sin() * 2, backend="eager")(torch.randn(3))


def check_strictly(target: Any, inputs: tuple[torch.Tensor, ...], **options: Any) -> int:
    """On a copy: the same result as eager, guards equal to their reference definitions, a hit on the second call.
    Gives the number of graphs."""
    twin = copy.deepcopy(target)
    expected = twin(*inputs)
    seen: list[Any] = []
    with framelift.config.patch(strict=True), stream.listening(seen.append):
        lifted = framelift.compile(twin, backend="eager", **options)
        assert not difference(lifted(*inputs), expected), difference(lifted(*inputs), expected)
        captures = len(seen)
        assert not difference(lifted(*inputs), expected)
    assert len(seen) == captures, f"the second call was not a hit: {seen[captures]}"
    framelift.reset()
    return sum(isinstance(event, events.GraphCaptured) for event in seen)


def constant_backend() -> Callable[..., Any]:
    """A backend whose graph costs nothing on a call, since it is computed once: what remains is the way there."""

    def backend(graph_module: Any, example_inputs: Any) -> Callable[..., Any]:
        outputs = tuple(graph_module.forward(*example_inputs))
        return lambda *args: outputs

    return backend


def capture_seconds(
    target: Any, inputs: tuple[torch.Tensor, ...], rounds: int = ROUNDS, **options: Any
) -> dict[str, Any]:
    given = {"backend": "eager", **options}
    best = {"torch": float("inf"), "framelift": float("inf")}
    for _ in range(rounds):
        torch._dynamo.reset()
        best["torch"] = min(best["torch"], _first_call(torch.compile(target, **given), inputs))
        framelift.reset()
        best["framelift"] = min(best["framelift"], _first_call(framelift.compile(target, **given), inputs))
    found = anatomy(target, inputs, **options)
    seconds = best["framelift"]
    costs = {f"per_{what[:-1]}": seconds / max(1, found[what]) for what in ("bytecodes", "ops", "guards")}
    return {**best, "ratio": best["torch"] / seconds, **found, **costs}


def _first_call(compiled: Any, inputs: tuple[torch.Tensor, ...]) -> float:
    gc.collect()
    gc.disable()
    began = time.perf_counter()
    compiled(*inputs)
    seconds = time.perf_counter() - began
    gc.enable()
    return seconds


def call_seconds(target: Any, inputs: tuple[torch.Tensor, ...]) -> dict[str, Any]:
    torch._dynamo.reset()
    framelift.reset()
    finished: list[Any] = []
    with stream.listening(finished.append, events.CaptureFinished):
        ours = framelift.compile(target, backend=constant_backend())
        ours(*inputs)
    theirs = torch.compile(target, backend=constant_backend())
    theirs(*inputs)
    best = _interleaved(theirs, ours, [inputs[0]])
    guards = sum(event.guards for event in finished)
    return {**best, "guards": guards, "torch_guards": _torch_guards(target)}


def specialisations(count: int = 64) -> dict[str, Any]:
    """Round robin over `count` static shapes of one function."""
    torch._dynamo.reset()
    torch._dynamo.config.recompile_limit = torch._dynamo.config.accumulated_recompile_limit = 10 * count
    framelift.reset()
    inputs = [torch.randn(2 + i, 4) for i in range(count)]
    ours = framelift.compile(add_one, backend=constant_backend(), dynamic=False)
    theirs = torch.compile(add_one, backend=constant_backend(), dynamic=False)
    for x in inputs:
        ours(x)
        theirs(x)

    best = _interleaved(theirs, ours, inputs)
    return {**best, "two_entries": _per_call(ours, inputs[:2], 500)}


def symbolic_sizes(count: int = 16) -> dict[str, Any]:
    """A function of so many tensors whose first dimensions have become symbolic."""
    torch._dynamo.reset()
    framelift.reset()
    ours = framelift.compile(add_all, backend=first_input)
    theirs = torch.compile(add_all, backend=first_input)
    for size in (3, 4, 5):
        tensors = [torch.randn(size, 4) for _ in range(count)]
        ours(tensors)
        theirs(tensors)
    return _interleaved(theirs, ours, [tensors])


def add_all(tensors: list[torch.Tensor]) -> torch.Tensor:
    """What is called with symbolic sizes."""
    total = tensors[0]
    for tensor in tensors[1:]:
        total = total + tensor
    return total


def first_input(graph_module: Any, example_inputs: Any) -> Callable[..., Any]:
    """A backend whose graph costs nothing on a call, whatever sizes come."""
    return lambda *args: (args[-1],)


def _interleaved(theirs: Any, ours: Any, inputs: list[Any]) -> dict[str, float]:
    """Seconds per call of each, by turns, going round the inputs."""
    loops = {"torch": _loops(theirs, inputs), "framelift": _loops(ours, inputs)}
    best = {"torch": float("inf"), "framelift": float("inf")}
    for _ in range(4 * ROUNDS):
        for name, function in (("torch", theirs), ("framelift", ours)):
            best[name] = min(best[name], _per_call(function, inputs, loops[name]))
    return {**best, "ratio": best["torch"] / best["framelift"]}


def _loops(function: Any, inputs: list[Any]) -> int:
    """How many rounds fill some five milliseconds."""
    return max(1, int(0.005 / (_per_call(function, inputs, 10) * len(inputs))))


def _per_call(function: Any, inputs: list[Any], loops: int) -> float:
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
    parser.add_argument("--growth", action="store_true", help="only the capture, in fewer rounds")
    given = parser.parse_args()
    case = given.case
    torch.set_num_threads(1)
    warm_up()
    if case == "64 shapes":
        print(json.dumps({"call": specialisations()}))
        return
    if case == "dynamic 16 tensors":
        print(json.dumps({"call": symbolic_sizes()}))
        return
    torch.manual_seed(0)
    if case.startswith("dynamic "):
        target, inputs = CASES[case.removeprefix("dynamic ")]()
        graphs = check_strictly(target, inputs, dynamic=True)
        print(json.dumps({"graphs": graphs, "capture": capture_seconds(target, inputs, 3, dynamic=True)}))
        return
    target, inputs = CASES[case]()
    found: dict[str, Any] = {"graphs": check_strictly(target, inputs)}
    if case in GROWTH and given.growth:
        found["capture"] = capture_seconds(target, inputs, 2)
    else:
        found["call"] = call_seconds(target, inputs)
        if isinstance(target, nn.Module):
            found["capture"] = capture_seconds(target, inputs)
    print(json.dumps(found))


if __name__ == "__main__":
    main()
