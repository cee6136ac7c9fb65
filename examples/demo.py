"""A walk through what framelift does with a five-line function and a three-layer module. Run it with `make demo`."""

from __future__ import annotations

import inspect
import sys
from collections.abc import Callable
from typing import Any

import torch
from rich.console import Console, RenderableType
from rich.padding import Padding
from rich.text import Text
from torch import nn

import framelift
from framelift.report import stream
from framelift.report.events import (
    CaptureFinished,
    Event,
    GraphBroke,
    GraphCaptured,
    GuardsBuilt,
    InternalFailure,
    Recompiled,
    ResidualBuilt,
)
from framelift.report.text import breaks_table, graph_code, guards_table, python_code, side_by_side

GUARDS_SHOWN = 16


def normalize(x, scale, history):
    centred = x - x.mean()
    if scale > 1:
        centred = centred * scale
    history.append(x.shape[0])
    return torch.relu(centred)


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.layers = nn.Sequential(nn.Linear(8, 16), nn.ReLU(), nn.Linear(16, 4))

    def forward(self, x):
        return self.layers(x).softmax(-1)


class Walk:
    """Prints the steps, and the events between them."""

    def __init__(self, console: Console) -> None:
        self.console = console
        self.ok = True

    def title(self, words: str) -> None:
        self.console.print()
        self.console.rule(f"[bold]{words}")

    def step(self, words: str) -> None:
        self.console.print(Text(f"\n{words}", style="bold cyan"))

    def show(self, what: RenderableType) -> None:
        self.console.print(Padding(what, (0, 2), expand=False))

    def source(self, thing: Any) -> None:
        self.step("What you wrote")
        self.show(python_code(inspect.getsource(thing)))

    def call(self, words: str, function: Callable[[], Any], eager: Callable[[], Any], *, captures: bool) -> None:
        """Call the lifted function, show what framelift did, and compare it with what was to be expected."""
        heard: list[Event] = []
        with stream.listening(heard.append):
            result = function()
        self.step(words)
        for event in heard:
            self.event(event)
        if not heard:
            self.show(Text("a hit: the guards of an entry held, its residual code ran, nothing was captured"))
        self.expect(captures == any(isinstance(event, GraphCaptured) for event in heard), "", "NOT what should happen")
        self.expect(torch.equal(result, eager()), "same result as eager", "NOT eager's result")

    def expect(self, holds: bool, good: str, bad: str) -> None:
        self.ok = self.ok and holds
        if not holds or good:
            self.show(Text(good, style="green") if holds else Text(bad, style="bold red"))

    def event(self, event: Event) -> None:
        if isinstance(event, Recompiled):
            self.show(Text("captured again, because this guard failed:", style="yellow"))
            self.show(Padding(Text("\n".join(event.reasons)), (0, 2)))
        elif isinstance(event, GraphCaptured):
            self.show(Text("\nthe FX graph", style="bold"))
            self.show(graph_code(event.graph_module))
        elif isinstance(event, GraphBroke):
            self.show(breaks_table([event]))
        elif isinstance(event, GuardsBuilt):
            self.show(Text("\nthe guards, with the line that needed each", style="bold"))
            self.show(guards_table(event.guards[:GUARDS_SHOWN]))
            if len(event.guards) > GUARDS_SHOWN:
                self.show(Text(f"... and {len(event.guards) - GUARDS_SHOWN} more", style="dim"))
        elif isinstance(event, ResidualBuilt):
            self.show(Text("\nthe bytecode: what Python compiled, and what runs in its place", style="bold"))
            self.show(side_by_side(event.original, event.residual))
        elif isinstance(event, CaptureFinished):
            numbers = f"{event.ops} operations, {event.guards} guards, {event.seconds * 1e3:.1f} ms"
            self.show(Text(f"\n{event.function}: {event.outcome}, {numbers}", style="bold"))
        elif isinstance(event, InternalFailure):
            self.show(Text(f"internal failure {event.id}: {event.error}", style="bold red"))


def walk_function(walk: Walk) -> None:
    walk.title("A function")
    walk.source(normalize)
    lifted = framelift.compile(normalize, backend="eager")
    ours, theirs = [], []

    def both(words: str, x: torch.Tensor, scale: float, *, captures: bool) -> None:
        walk.call(words, lambda: lifted(x, scale, ours), lambda: normalize(x, scale, theirs), captures=captures)

    both("The first call is captured", torch.randn(3, 4), 2.0, captures=True)
    both("The second call, with other values and the same shape", torch.randn(3, 4), 2.0, captures=False)
    both("A call with another shape", torch.randn(5, 4), 2.0, captures=True)
    both("A call that takes the other branch", torch.randn(3, 4), 0.5, captures=True)
    walk.step("The list that the function appends to")
    walk.expect(ours == theirs, f"{ours}, the same as eager's", f"{ours}, but eager's is {theirs}")


def walk_module(walk: Walk) -> None:
    walk.title("A module")
    walk.source(Net)
    model = Net()
    lifted = framelift.compile(model, backend="eager")
    walk.step("The lifted module is the module")
    walk.show(Text(f"isinstance(lifted, Net): {isinstance(lifted, Net)}; state_dict: {', '.join(lifted.state_dict())}"))
    x = torch.randn(2, 8)
    walk.call("The first call is captured", lambda: lifted(x), lambda: model(x), captures=True)
    y = torch.randn(2, 8)
    walk.call("The second call", lambda: lifted(y), lambda: model(y), captures=False)
    model.layers[1] = nn.Tanh()
    words = "A layer was replaced in the original: model.layers[1] = nn.Tanh()"
    walk.call(words, lambda: lifted(x), lambda: model(x), captures=True)


def main() -> int:
    torch.manual_seed(0)
    width = None if sys.stdout.isatty() else 150
    walk = Walk(Console(width=width, highlight=False))
    with torch.no_grad():
        walk_function(walk)
        walk_module(walk)
    walk.title("In numbers")
    walk.show(framelift.counters())
    return 0 if walk.ok else 1


if __name__ == "__main__":
    sys.exit(main())
