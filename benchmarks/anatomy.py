"""Where the time of a capture goes: a capture with counters put into framelift's own functions.

The counters cost time themselves, so seconds come from captures without them; shares and counts from one with them.
"""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import framelift
from framelift.capture.interpreter.program import Programs
from framelift.graph import GraphBuilder
from framelift.report import events, stream


@dataclass(slots=True)
class Tally:
    """What one capture did."""

    bytecodes: int = 0  # steps of the interpreter, those of called functions included
    calls: int = 0  # operations whose result was asked of the metadata memo or of fake tensors
    metadata: float = 0.0  # seconds in them


@contextmanager
def counting(tally: Tally) -> Iterator[None]:
    """Count steps and metadata in this block."""

    class Steps(list[Any]):
        def __getitem__(self, index: Any) -> Any:
            tally.bytecodes += 1
            return list.__getitem__(self, index)

    program_of, call = Programs.of, GraphBuilder._call
    counted: list[tuple[Any, list[Any]]] = []

    def of(self: Programs, code: Any) -> Any:
        program = program_of(self, code)
        if type(program.runs) is list:
            counted.append((program, program.runs))
            program.runs = Steps(program.runs)
        return program

    def timed_call(self: GraphBuilder, *args: Any) -> Any:
        began = time.perf_counter()
        try:
            return call(self, *args)
        finally:
            tally.calls += 1
            tally.metadata += time.perf_counter() - began

    Programs.of, GraphBuilder._call = of, timed_call  # type: ignore[method-assign]
    try:
        yield
    finally:
        Programs.of, GraphBuilder._call = program_of, call  # type: ignore[method-assign]
        for program, runs in counted:
            program.runs = runs


def anatomy(target: Any, inputs: tuple[Any, ...], **options: Any) -> dict[str, Any]:
    """Counts of one capture, and the share of each phase in it."""
    tally = Tally()
    finished: list[Any] = []
    framelift.reset()
    with counting(tally), stream.listening(finished.append, events.CaptureFinished):
        framelift.compile(target, backend="eager", **options)(*inputs)
    phases: dict[str, float] = {}
    for event in finished:
        for name, seconds in event.phases.items():
            phases[name] = phases.get(name, 0.0) + seconds
    phases["interpretation"] = phases.get("interpretation", 0.0) - tally.metadata
    phases["metadata"] = tally.metadata
    total = sum(phases.values())
    return {
        "bytecodes": tally.bytecodes,
        "ops": sum(event.ops for event in finished),
        "guards": sum(event.guards for event in finished),
        "captures": len(finished),
        "outcomes": [event.outcome for event in finished],
        "shares": {name: seconds / total for name, seconds in sorted(phases.items(), key=lambda item: -item[1])},
    }
