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
    GuardText,
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
        self.known: set[str] = set()  # guards shown before

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
        if heard:
            self.capture({type(event): event for event in heard})
        else:
            self.show(Text("a hit: the guards of an entry held, its residual code ran, nothing was captured"))
        self.expect(captures == any(isinstance(event, GraphCaptured) for event in heard), "", "NOT what should happen")
        self.expect(torch.equal(result, eager()), "same result as eager", "NOT eager's result")

    def expect(self, holds: bool, good: str, bad: str) -> None:
        self.ok = self.ok and holds
        if not holds or good:
            self.show(Text(good, style="green") if holds else Text(bad, style="bold red"))

    def capture(self, heard: dict[type[Event], Any]) -> None:
        """Everything about a first capture; about a later one why it was needed, and what is different."""
        again = heard.get(Recompiled)
        if again is not None:
            self.part("no entry fits; the guard that failed", Text("\n".join(again.reasons), style="yellow"))
        if GraphCaptured in heard:
            self.part("the FX graph", graph_code(heard[GraphCaptured].graph_module))
        if GraphBroke in heard:
            self.part("the graph break", breaks_table([heard[GraphBroke]]))
        if GuardsBuilt in heard:
            self.guards(heard[GuardsBuilt].guards)
        if ResidualBuilt in heard and again is None:
            codes = heard[ResidualBuilt]
            self.part("the bytecode: yours, and what runs in its place", side_by_side(codes.original, codes.residual))
        if InternalFailure in heard:
            self.part("internal failure", Text(heard[InternalFailure].error, style="bold red"))
        if CaptureFinished in heard:
            done = heard[CaptureFinished]
            numbers = f"{done.ops} operations, {done.guards} guards, {done.seconds * 1e3:.1f} ms"
            self.show(Text(f"\n{done.function}: {done.outcome}, {numbers}"))

    def part(self, head: str, body: RenderableType) -> None:
        self.show(Text(f"\n{head}", style="bold"))
        self.show(body)

    def guards(self, guards: tuple[GuardText, ...]) -> None:
        new = [guard for guard in guards if guard.words not in self.known]
        new.sort(key=lambda guard: guard.location is None or guard.location.filename != __file__)  # your lines first
        self.known |= {guard.words for guard in guards}
        same = f" (and {len(guards) - len(new)} as before)" if len(new) < len(guards) else ""
        self.part(f"the guards, with the line that needed each{same}", guards_table(new[:GUARDS_SHOWN]))
        if len(new) > GUARDS_SHOWN:
            self.show(Text(f"... and {len(new) - GUARDS_SHOWN} more", style="dim"))


def walk_function(walk: Walk) -> None:
    walk.title("A function")
    walk.source(normalize)
    lifted = framelift.compile(normalize, backend="eager")

    def both(words: str, x: torch.Tensor, scale: float, *, captures: bool) -> None:
        ours, theirs = [], []
        walk.call(words, lambda: lifted(x, scale, ours), lambda: normalize(x, scale, theirs), captures=captures)
        walk.expect(ours == theirs, f"same list afterwards: {ours}", f"NOT eager's list: {ours}")

    both("The first call is captured", torch.randn(3, 4), 2.0, captures=True)
    both("The second call, with other values and the same shape", torch.randn(3, 4), 2.0, captures=False)
    both("A call with another shape", torch.randn(5, 4), 2.0, captures=True)
    both("A call that takes the other branch", torch.randn(3, 4), 0.5, captures=True)


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
