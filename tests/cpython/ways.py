"""The ways to run a test method: plainly, lifted, and with torch.compile."""

from __future__ import annotations

import logging
import unittest
from collections.abc import Callable
from types import CodeType, FunctionType, MethodType
from typing import Any, Protocol


class Way(Protocol):
    """One way to run methods."""

    def compiled(self, function: FunctionType) -> Callable[..., Any]:
        """What runs in place of the method's function."""

    def account(self) -> dict[str, Any]:
        """What was done since the last call: `captured` (the whole method), `frames`, `breaks`, `failures`."""


class Plain:
    """As unittest does."""

    def compiled(self, function: FunctionType) -> Callable[..., Any]:
        return function

    def account(self) -> dict[str, Any]:
        return {}


class Lifted:
    """With framelift, strictly: a fault of framelift's is an error of the test."""

    def __init__(self, fullgraph: bool) -> None:
        import framelift.api  # noqa: PLC0415  (the other ways run without it)
        from framelift import config  # noqa: PLC0415
        from framelift.report import events, stream  # noqa: PLC0415

        config.strict = True
        config.check = True
        self._compile, self._reset = framelift.api.compile, framelift.api.reset
        self._fullgraph = fullgraph
        self._events = events
        self._seen: list[Any] = []
        kinds = (events.CaptureFinished, events.GraphBroke, events.InternalFailure, events.RanEagerly)
        stream.subscribe(self._seen.append, *kinds)

    def compiled(self, function: FunctionType) -> Callable[..., Any]:
        self._seen.clear()
        self._reset()  # classes share methods: each of them is captured anew
        return self._compile(function, backend="eager", fullgraph=self._fullgraph)

    def account(self) -> dict[str, Any]:
        events, seen = self._events, self._seen
        finished = [event for event in seen if isinstance(event, events.CaptureFinished)]
        return {
            "captured": bool(finished) and finished[0].outcome == "captured",
            "frames": sum(event.outcome != "eager" for event in finished),
            "breaks": [
                f"{event.id} {event.reason} ({event.filename.rpartition('/')[2]}:{event.line}: {event.text})"
                for event in seen
                if isinstance(event, events.GraphBroke)
            ]
            + [f"not captured: {event.reason}" for event in seen if isinstance(event, events.RanEagerly)],
            "failures": [
                f"{event.id} {event.function}: {event.error}"
                for event in seen
                if isinstance(event, events.InternalFailure)
            ],
        }


class Stressed(Lifted):
    """Lifted, and what follows a break is captured again with no tensor in sight, as it is where there are some."""

    def __init__(self) -> None:
        from framelift.runtime.lifting import Context  # noqa: PLC0415

        super().__init__(fullgraph=False)
        Context._may_compute = lambda context, frame: True  # type: ignore[method-assign]


class Torch:
    """With torch.compile, which is allowed everything it can trace."""

    def __init__(self) -> None:
        import torch._dynamo  # noqa: PLC0415  (measured for comparison)
        from torch._dynamo.convert_frame import register_bytecode_hook  # noqa: PLC0415

        logging.disable(logging.WARNING)
        torch._dynamo.config.enable_trace_unittest = True
        torch._dynamo.config.enable_trace_load_build_class = True
        self._torch = torch
        self._frames = 0
        register_bytecode_hook(self._note_frame)

    def _note_frame(self, code: CodeType, compiled: CodeType) -> None:
        self._frames += 1

    def compiled(self, function: FunctionType) -> Callable[..., Any]:
        self._torch._dynamo.reset()
        self._frames = 0
        return self._torch.compile(function, backend="eager", fullgraph=True)

    def account(self) -> dict[str, Any]:
        # One graph or an error: what was compiled was captured whole, whether or not it has operations.
        return {"captured": self._frames > 0, "frames": self._frames, "breaks": [], "failures": []}


WAYS: dict[str, Callable[[], Way]] = {
    "plain": Plain,
    "lifted": lambda: Lifted(fullgraph=False),
    "fullgraph": lambda: Lifted(fullgraph=True),
    "stressed": Stressed,
    "torch": Torch,
}


def arrange(case: unittest.TestCase, way: Way) -> None:
    """Let `case` run its method this way."""
    name = case._testMethodName
    function = getattr(type(case), name)
    if isinstance(function, FunctionType):
        case.__dict__[name] = MethodType(way.compiled(function), case)
