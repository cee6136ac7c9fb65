"""The ways to run a function: lifted by framelift, or compiled by torch.compile, both as one graph."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from typing import Any, Protocol

import torch

import framelift
from framelift.report import events, stream


class Way(Protocol):
    """One way to compile functions."""

    def compiled(self, function: Callable[..., Any], fullgraph: bool = True) -> Callable[..., Any]:
        """The function compiled, with everything from before forgotten."""

    def new_events(self) -> tuple[int, list[str]]:
        """What happened since the last question: how many captures began, and why something was run by Python."""


class Lifted:
    """By framelift."""

    def __init__(self, seen: list[Any]) -> None:
        self._seen = seen

    def compiled(self, function: Callable[..., Any], fullgraph: bool = True) -> Callable[..., Any]:
        self._seen.clear()
        framelift.reset()
        return framelift.compile(function, backend="eager", fullgraph=fullgraph)

    def new_events(self) -> tuple[int, list[str]]:
        captures = sum(isinstance(event, events.CaptureStarted) for event in self._seen)
        reasons = [_WORDS[type(event)](event) for event in self._seen if type(event) in _WORDS]
        self._seen.clear()
        return captures, reasons


@contextmanager
def lifted() -> Iterator[Way]:
    """Strictly: a fault of framelift's is an error."""
    seen: list[Any] = []
    kinds = (events.CaptureStarted, events.GraphBroke, events.InternalFailure, events.RanEagerly)
    with framelift.config.patch(strict=True), stream.listening(seen.append, *kinds):
        yield Lifted(seen)


_WORDS: dict[type, Callable[[Any], str]] = {
    events.GraphBroke: lambda event: f"{event.id} {event.reason}",
    events.InternalFailure: lambda event: f"{event.id} {event.error}",
    events.RanEagerly: lambda event: f"ran in Python: {event.reason}",
}


class TorchCompiled:
    """By torch.compile, for comparison."""

    def __init__(self) -> None:
        self._graphs = 0

    def _backend(self, graph: Any, example_inputs: Any) -> Callable[..., Any]:
        self._graphs += 1
        return graph.forward

    def compiled(self, function: Callable[..., Any], fullgraph: bool = True) -> Callable[..., Any]:
        self._graphs = 0
        torch.compiler.reset()
        return torch.compile(function, backend=self._backend, fullgraph=fullgraph)

    def new_events(self) -> tuple[int, list[str]]:
        graphs, self._graphs = self._graphs, 0
        return graphs, []


@contextmanager
def torch_compiled() -> Iterator[Way]:
    logging.disable(logging.WARNING)
    yield TorchCompiled()
    logging.disable(logging.NOTSET)


WAYS: dict[str, Callable[[], AbstractContextManager[Way]]] = {"lifted": lifted, "torch": torch_compiled}
