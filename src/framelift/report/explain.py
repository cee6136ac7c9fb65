"""`framelift.explain`: what lifting one call gave, put together from its events."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

from rich.console import Group, RenderableType
from rich.text import Text

from framelift.report.events import (
    CaptureFinished,
    CaptureStarted,
    CheckFailed,
    Event,
    GraphBroke,
    GraphCaptured,
    GraphFailed,
    GuardsBuilt,
    GuardText,
    InternalFailure,
    PassRan,
    RanEagerly,
    ResidualBuilt,
)
from framelift.report.text import (
    EntryUse,
    breaks_table,
    graph_code,
    graph_ops,
    guards_table,
    pass_line,
    rendered,
    short_path,
)


@dataclass(frozen=True, slots=True)
class Explanation:
    """Graphs, breaks and guards of one call. `print()` it, or look at its parts.

    >>> explanation = framelift.explain(f)(x)
    >>> explanation.graph_count, explanation.graph_break_count
    (1, 0)
    """

    function: str
    graphs: tuple[Any, ...]
    break_reasons: tuple[GraphBroke, ...]
    guards: tuple[GuardText, ...]
    residuals: tuple[ResidualBuilt, ...]
    failures: tuple[InternalFailure, ...]
    ran_eagerly: tuple[RanEagerly, ...]
    seconds: float
    graph_failures: tuple[GraphFailed, ...] = ()  # graphs that raised where Python does not
    failed_checks: tuple[CheckFailed, ...] = ()  # of graphs that were run in vain: data was not as presumed
    entries: tuple[EntryUse, ...] = ()  # what is left of the captures, and whether it was used
    rewrites: tuple[PassRan, ...] = ()  # passes that changed a graph: graphs are shown as the backend got them

    @property
    def graph_count(self) -> int:
        return len(self.graphs)

    @property
    def graph_break_count(self) -> int:
        return len(self.break_reasons)

    @property
    def ops_per_graph(self) -> list[list[str]]:
        return [graph_ops(graph_module) for graph_module in self.graphs]

    @property
    def op_count(self) -> int:
        return sum(map(len, self.ops_per_graph))

    def __rich__(self) -> RenderableType:
        head = f"{self.function}: {_many(self.graph_count, 'graph')}, {_many(self.op_count, 'op')}, "
        head += (
            f"{_many(self.graph_break_count, 'break')}, {_many(len(self.guards), 'guard')}, {self.seconds * 1e3:.1f} ms"
        )
        parts: list[RenderableType] = [Text(head, style="bold")]
        for number, (graph_module, ops) in enumerate(zip(self.graphs, self.ops_per_graph, strict=True)):
            parts += [Text(f"\ngraph {number}: {_many(len(ops), 'op')}", style="bold"), graph_code(graph_module)]
        if self.break_reasons:
            parts += [Text("\nbreaks", style="bold"), breaks_table(self.break_reasons)]
        if self.rewrites:
            parts += [Text("\npasses", style="bold"), *map(pass_line, self.rewrites)]
        if self.guards:
            parts += [Text("\nguards", style="bold"), guards_table(self.guards)]
        parts += [Text(f"\ninternal failure {event.id}: {event.error}", style="red") for event in self.failures]
        parts += [
            Text(f"\nthe graph of {event.lines} raised {event.error}, and Python does not", style="red")
            for event in self.graph_failures
        ]
        parts += [Text(f"\na graph was run in vain, {event.check}", style="yellow") for event in self.failed_checks]
        if self.entries:
            parts += [Text("\nentries", style="bold"), *[Text(str(entry)) for entry in self.entries]]
        parts += [Text(f"\nran in Python: {event.reason}", style="yellow") for event in self.ran_eagerly]
        return Group(*parts)

    def __str__(self) -> str:
        return rendered(self)


class Recorder:
    """A listener that keeps what it hears."""

    def __init__(self) -> None:
        self.events: list[Event] = []

    def __call__(self, event: Event) -> None:
        self.events.append(event)

    def explanation(self, entries: Iterable[EntryUse] = ()) -> Explanation:
        heard = self.events
        started = [event for event in heard if isinstance(event, CaptureStarted)]
        first = started[0] if started else None
        return Explanation(
            function=f"{first.function} ({short_path(first.filename)}:{first.line})"
            if first
            else "nothing was captured",
            graphs=tuple(event.graph_module for event in heard if isinstance(event, GraphCaptured)),
            break_reasons=tuple(event for event in heard if isinstance(event, GraphBroke)),
            guards=tuple(guard for event in heard if isinstance(event, GuardsBuilt) for guard in event.guards),
            residuals=tuple(event for event in heard if isinstance(event, ResidualBuilt)),
            failures=tuple(event for event in heard if isinstance(event, InternalFailure)),
            ran_eagerly=tuple(event for event in heard if isinstance(event, RanEagerly)),
            seconds=sum(event.seconds for event in heard if isinstance(event, CaptureFinished)),
            graph_failures=tuple(event for event in heard if isinstance(event, GraphFailed)),
            failed_checks=tuple(event for event in heard if isinstance(event, CheckFailed)),
            entries=tuple(entries),
            rewrites=tuple(event for event in heard if isinstance(event, PassRan) and event.rewrites),
        )


def _many(count: int, thing: str) -> str:
    return f"{count} {thing}{'' if count == 1 else 's'}"
