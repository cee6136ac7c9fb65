"""One model of the zoo in this process, with framelift or with torch.compile."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable
from typing import Any

import torch

from benchmarks.compare import difference
from benchmarks.transformers_zoo import build

# How far results of Inductor, which rounds its own way, may be from eager's.
CLOSE = 2e-3


def other_numbers(inputs: dict[str, torch.Tensor]) -> dict[str, torch.Tensor]:
    return {name: value.flip(0, -1) if value.dim() > 1 else value.flip(0) for name, value in inputs.items()}


def chosen_passes(choice: str) -> Any:
    """`--passes` as compile() takes it: default, none, all (every exact default pass, respellings too), or names."""
    from framelift.passes import DEFAULT  # noqa: PLC0415  (torch.compile is measured without it)
    from framelift.passes.declare import REGISTRY  # noqa: PLC0415

    every = [name for name in DEFAULT if REGISTRY[name].exactness == "exact"]
    return {"default": True, "none": False, "all": every}.get(choice, choice)


def with_framelift(name: str, passes: str = "default", backend: str = "eager") -> dict[str, Any]:
    import framelift  # noqa: PLC0415  (torch.compile is measured without it)
    from framelift.report import events, stream  # noqa: PLC0415

    _warm_up(framelift.compile)
    seen: list[Any] = []
    stop = stream.subscribe(seen.append)

    def compiled(model: Any) -> Any:
        return framelift.compile(model, backend=backend, options={"pre_grad_passes": chosen_passes(passes)})

    def captures() -> int:
        return sum(isinstance(event, events.CaptureStarted) for event in seen)

    def summary() -> dict[str, Any]:
        graphs = [event for event in seen if isinstance(event, events.GraphCaptured)]
        broke = [event for event in seen if isinstance(event, events.GraphBroke)]
        return {
            "graphs": len(graphs),
            "ops": sum(event.ops for event in graphs),
            "rewrites": sum(event.rewrites for event in seen if isinstance(event, events.PassRan)),
            "breaks": [f"{e.id} {e.reason} ({e.filename.rpartition('/')[2]}:{e.line}: {e.text})" for e in broke],
        }

    found = run(name, compiled, captures, summary, CLOSE if backend == "inductor" else 0.0)
    stop()
    failures = [f"{e.id} {e.function}: {e.error}" for e in seen if isinstance(e, events.InternalFailure)]
    recompiled = [reason for e in seen if isinstance(e, events.Recompiled) for reason in e.reasons]
    return {**found, "failures": failures, "recompiled": recompiled}


def with_torch(name: str) -> dict[str, Any]:
    import torch._dynamo  # noqa: PLC0415  (framelift is measured without it)
    from torch._dynamo.utils import counters  # noqa: PLC0415

    logging.disable(logging.WARNING)
    graphs: list[int] = []

    def counting(module: Any, example_inputs: Any) -> Callable[..., Any]:
        graphs.append(sum(node.op in ("call_function", "call_method", "call_module") for node in module.graph.nodes))
        return module.forward

    _warm_up(torch.compile)
    torch._dynamo.reset()
    counters.clear()

    def summary() -> dict[str, Any]:
        reasons = [reason.splitlines()[0] for reason, count in counters["graph_break"].items() for _ in range(count)]
        return {"graphs": len(graphs), "ops": sum(graphs), "breaks": reasons}

    found = run(name, lambda model: torch.compile(model, backend=counting), lambda: len(graphs), summary)
    return {**found, "failures": [], "recompiled": []}


def _warm_up(compiler: Callable[..., Any]) -> None:
    """On a model that is not measured, so that nobody pays for imports and first-time tables."""
    model = torch.nn.Sequential(torch.nn.Linear(4, 4), torch.nn.LayerNorm(4), torch.nn.Conv1d(4, 4, 1))
    compiler(model, backend="eager")(torch.randn(4, 4))


def run(
    name: str,
    compiled: Callable[[Any], Any],
    captures: Callable[[], int],
    summary: Callable[[], dict[str, Any]],
    allowed: float = 0.0,
) -> dict[str, Any]:
    """Seconds and summary of the first call, whether all calls gave eager's results, captures of the later calls.

    The first call captures and runs, the second runs the same: what it takes less is the time of the capture.
    """
    model, inputs = build(name)
    calls = [inputs, inputs, other_numbers(inputs)]
    # Each on a model of its own: a model may keep things from call to call. Both are called once in eager mode before:
    # torch and the model library set things up when they are first used, and so do some models.
    twin, _ = build(name)
    for one in (model, twin):
        one(**{key: value.clone() for key, value in inputs.items()})
    lifted = compiled(model)
    differences = []
    seconds = []
    captured = []
    first: dict[str, Any] = {}
    for index, given in enumerate(calls):
        torch.manual_seed(index)
        began = time.perf_counter()
        actual = lifted(**{key: value.clone() for key, value in given.items()})
        seconds.append(time.perf_counter() - began)
        if index == 0:
            first = summary()
        captured.append(captures())
        torch.manual_seed(index)
        expected = twin(**{key: value.clone() for key, value in given.items()})
        differences.append(difference(actual, expected, allowed))
    different = [f"call {index}: {words}" for index, words in enumerate(differences) if words]
    return {
        **first,
        "seconds": seconds[0],
        "capture": max(seconds[0] - seconds[1], 0.0),
        "equal": not different,
        "difference": "; ".join(different),
        "again": captured[1] - captured[0],
        "other": captured[2] - captured[1],
    }


def report(name: str, compiler: str, sender: Any, passes: str = "default", backend: str = "eager") -> None:
    """What was found, or what went wrong, to whoever started this process."""
    torch.set_num_threads(1)
    try:
        found = with_framelift(name, passes, backend) if compiler == "framelift" else with_torch(name)
    except Exception as error:  # noqa: BLE001  (whatever it is, it is what is to be reported)
        found = {"error": f"{type(error).__name__}: {(str(error).strip().splitlines() or [''])[0]}"}
    sender.send(found)
    sender.close()
