"""Logs: chosen parts of the event stream, written to standard error as they happen.

    FRAMELIFT_LOGS=graph_code,guards python program.py
    framelift.set_logs("graph_breaks", recompiles=True)

Names that torch's own TORCH_LOGS has for the same thing are honoured there too.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from rich.console import Console, RenderableType
from rich.text import Text

from framelift.errors import short, unknown
from framelift.locks import Lock
from framelift.report import stream
from framelift.report.events import (
    BecameDynamic,
    CaptureFinished,
    CaptureStarted,
    CheckFailed,
    Event,
    GraphBroke,
    GraphCaptured,
    GraphFailed,
    GuardsBuilt,
    InternalFailure,
    NotCompiled,
    PassChanged,
    PassRan,
    PassReverted,
    RanEagerly,
    Recompiled,
    ResidualBuilt,
)
from framelift.report.text import (
    PLAIN_WIDTH,
    breaks_table,
    graph_code,
    graph_sizes,
    graph_table,
    guards_table,
    pass_line,
    short_path,
    side_by_side,
)

Show = Callable[[Any], RenderableType]


@dataclass(frozen=True, slots=True)
class Log:
    """One log: what it is for, and how it shows each kind of event it reads."""

    meaning: str
    shows: Mapping[type[Event], Show]


def _capture_line(event: CaptureFinished) -> Text:
    phases = ", ".join(f"{name} {seconds * 1e3:.1f} ms" for name, seconds in event.phases.items())
    text = f"{event.outcome}: {event.ops} ops, {event.guards} guards, {event.seconds * 1e3:.1f} ms"
    return Text(f"{text} ({phases})" if phases else text)


def _eager_line(event: RanEagerly) -> Text:
    return Text(f"ran in Python: {' '.join(filter(None, (event.id, event.reason)))} (said once; counters() counts)")


def _not_compiled(event: NotCompiled) -> Text:
    return Text(f"the graph of capture {event.capture} is not compiled by {event.backend!r}: {event.reason}")


def _graph_failed(event: GraphFailed) -> Text:
    what = f"its graph of {event.ops} ops ({event.lines}) raised {event.error}, and Python does not"
    return Text(f"{event.id}: backend {event.backend!r}: {what}")


def _internal_failure(event: InternalFailure) -> Text:
    return Text(f"internal failure {event.id}: {event.error}")


# What calls do again and again is said once of each function.
_SAID_ONCE: frozenset[type[Event]] = frozenset({RanEagerly})
# Of so many things it is known that they were said.
_MOST_SAID = 10_000


def _changes(event: BecameDynamic) -> Text:
    return Text("\n".join(f"{change}: symbolic from here on" for change in event.changes))


LOGS: Mapping[str, Log] = {
    "graph_code": Log("each graph as Python code", {GraphCaptured: lambda event: graph_code(event.graph_module)}),
    "graph": Log("each graph as a table of nodes", {GraphCaptured: lambda event: graph_table(event.graph_module)}),
    "graph_sizes": Log(
        "the tensor sizes of each graph", {GraphCaptured: lambda event: graph_sizes(event.graph_module)}
    ),
    "bytecode": Log(
        "original and residual bytecode", {ResidualBuilt: lambda event: side_by_side(event.original, event.residual)}
    ),
    "guards": Log("guards with the line that needed them", {GuardsBuilt: lambda event: guards_table(event.guards)}),
    "recompiles": Log(
        "why a function is captured again, and what became symbolic",
        {Recompiled: lambda event: Text("\n".join(event.reasons)), BecameDynamic: _changes},
    ),
    "dynamic": Log("sizes and numbers that became symbolic", {BecameDynamic: _changes}),
    "graph_breaks": Log("where and why graphs end early", {GraphBroke: lambda event: breaks_table([event])}),
    "capture": Log(
        "what is captured, and how long it takes",
        {
            CaptureStarted: lambda event: Text(f"started at {short_path(event.filename)}:{event.line}"),
            CaptureFinished: _capture_line,
            InternalFailure: _internal_failure,
            RanEagerly: _eager_line,
            GraphFailed: _graph_failed,
            NotCompiled: _not_compiled,
        },
    ),
    "fallbacks": Log(
        "why Python runs calls of lifted functions",
        {
            InternalFailure: _internal_failure,
            RanEagerly: _eager_line,
            GraphFailed: _graph_failed,
            NotCompiled: _not_compiled,
        },
    ),
    "checks": Log(
        "what graphs presume about data that is not so",
        {CheckFailed: lambda event: Text(f"the graph of capture {event.capture} was run in vain, {event.check}")},
    ),
    "pass_diffs": Log("what each pass changed in a graph", {PassChanged: lambda event: Text(event.diff)}),
    "passes": Log(
        "what each pass did to a graph",
        {PassRan: pass_line, PassReverted: lambda event: Text(f"{event.name} was reverted: {event.error}")},
    ),
}

# torch's names for the same thing; names it has for other things are its own business.
TORCH_NAMES = {
    name: name for name in LOGS if name not in ("capture", "checks", "fallbacks", "passes", "pass_diffs")
} | {
    "dynamo": "capture",
    "graph_code_verbose": "graph_code",
    "recompiles_verbose": "recompiles",
    "verbose_guards": "guards",
}


def chosen_names(names: Iterable[object]) -> list[str]:
    """Known log names, from names and comma-separated lists of names."""
    found = []
    for given in names:
        if not isinstance(given, str):
            raise TypeError(f"set_logs() was given {short(given)}: names of logs are str")
        found += [part.strip() for part in given.split(",") if part.strip()]
    for name in found:
        if name not in LOGS:
            raise ValueError(unknown("log", name, LOGS))
    return found


def names_from_environment(environment: Mapping[str, str]) -> list[str]:
    """The logs FRAMELIFT_LOGS and TORCH_LOGS ask for; a slip in ours is an error, torch's other names are torch's."""
    names = chosen_names([environment.get("FRAMELIFT_LOGS", "")])
    for part in environment.get("TORCH_LOGS", "").split(","):
        name = TORCH_NAMES.get(part.strip().removeprefix("+"))
        if name is not None:
            names.append(name)
    return list(dict.fromkeys(names))


class Logs:
    """The logs that are on, as one listener of the stream."""

    def __init__(self) -> None:
        self._lock = Lock()
        self._names: tuple[str, ...] = ()
        self._stop: Callable[[], None] | None = None
        self._functions: dict[int, str] = {}  # of the captures under way
        self._said: set[Event] = set()

    @property
    def names(self) -> tuple[str, ...]:
        return self._names

    def choose(self, names: Iterable[str]) -> None:
        with self._lock:
            if self._stop is not None:
                self._stop()
                self._stop = None
            self._names = tuple(dict.fromkeys(names))
            self._said.clear()
            if self._names:
                kinds = {kind for name in self._names for kind in LOGS[name].shows}
                self._stop = stream.subscribe(self._hear, *(kinds | {CaptureStarted, CaptureFinished}))

    def reset(self) -> None:
        """Say again what is said once."""
        self._said.clear()

    def _is_news(self, event: Event) -> bool:
        if type(event) not in _SAID_ONCE:
            return True
        if event in self._said or len(self._said) >= _MOST_SAID:
            return False
        self._said.add(event)
        return True

    def _hear(self, event: Event) -> None:
        if not self._is_news(event):
            return
        if isinstance(event, CaptureStarted):
            self._functions[event.capture] = event.function
        for name in self._names:
            show = LOGS[name].shows.get(type(event))
            if show is not None:
                self._write(f"[framelift {name}] {self._about(event)}", show(event))
        if isinstance(event, CaptureFinished):
            self._functions.pop(event.capture, None)

    def _about(self, event: Event) -> str:
        capture = getattr(event, "capture", None)
        function = getattr(event, "function", None) or self._functions.get(capture if capture is not None else -1, "")
        return function if capture is None else f"{function} (capture {capture})"

    def _write(self, head: str, body: RenderableType) -> None:
        terminal = sys.stderr.isatty()
        console = Console(file=sys.stderr, width=None if terminal else PLAIN_WIDTH, highlight=False)
        # Printed together, so that the output of two threads is not interleaved line by line.
        with console.capture() as captured:
            console.print(Text(head, style="bold green"))
            console.print(body)
        sys.stderr.write(captured.get())
        sys.stderr.flush()


LOGGING = Logs()
LOGGING.choose(names_from_environment(os.environ))


def set_logs(*names: str, **switches: bool) -> None:
    """Choose the logs to write; replaces the earlier choice, so that `set_logs()` turns all off.

    >>> framelift.set_logs("graph_code,guards", recompiles=True)
    """
    for name, on in switches.items():
        if not isinstance(on, bool):
            raise TypeError(f"set_logs({name}=...) is {short(on)}: True or False is needed")
    switched_on = chosen_names([name for name in switches if switches[name]])
    switched_off = chosen_names([name for name in switches if not switches[name]])
    LOGGING.choose(name for name in [*chosen_names(names), *switched_on] if name not in switched_off)
