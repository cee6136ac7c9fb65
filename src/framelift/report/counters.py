"""Counts of what framelift did in this process, kept from the event stream."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Any

from rich.table import Table

from framelift.locks import Lock
from framelift.report import stream
from framelift.report.events import (
    BackendCalled,
    CaptureFinished,
    CaptureStarted,
    CheckFailed,
    Event,
    GraphBroke,
    GraphFailed,
    InternalFailure,
    NotCompiled,
    PassRan,
    PassReverted,
    RanEagerly,
    Recompiled,
)
from framelift.report.text import EntryUse, rendered


@dataclass(frozen=True, slots=True)
class Counts:
    """A snapshot. `breaks`, `failures` and `eager` count by reason, so that nothing runs in Python unseen.

    >>> framelift.counters().graphs
    0
    """

    captures: int = 0  # frames that were captured, or tried
    captured: int = 0  # of these: wholly
    partial: int = 0  # with a break
    uncaptured: int = 0  # not at all: the frame runs in Python
    recompiles: int = 0  # captures of a function that had entries, none of which fitted
    graphs: int = 0
    ops: int = 0
    guards: int = 0
    breaks: Mapping[str, int] = field(default_factory=dict)  # "FL0102 a call of time.sleep is not traced"
    failures: Mapping[str, int] = field(default_factory=dict)  # of framelift and of graphs, by id
    eager: Mapping[str, int] = field(default_factory=dict)  # calls that ran the original code, by reason
    eager_functions: Mapping[str, int] = field(default_factory=dict)  # the same by function, but for calls on request
    rewrites: Mapping[str, int] = field(default_factory=dict)  # of graphs, by pass
    reverted: Mapping[str, int] = field(default_factory=dict)  # passes that failed and were taken back, by name
    failed_checks: Mapping[str, int] = field(default_factory=dict)  # of graphs, on data, by function
    uncompiled: Mapping[str, int] = field(default_factory=dict)  # graphs no compiler was given, by reason
    entries: tuple[EntryUse, ...] = ()  # that there are now: how often each was used, and its checks failed
    capture_seconds: float = 0.0
    backend_seconds: float = 0.0

    def __rich__(self) -> Table:
        table = Table(title="framelift counters", show_header=False, box=None)
        for name in self.__slots__:
            value = getattr(self, name)
            if isinstance(value, Mapping):
                table.add_row(name, str(sum(value.values())))
                for reason, count in value.items():
                    table.add_row("", f"{count} × {reason}")
            elif isinstance(value, tuple):
                table.add_row(name, str(len(value)))
                for entry in value:
                    table.add_row("", str(entry))
            else:
                table.add_row(name, f"{value:.3f}" if isinstance(value, float) else str(value))
        return table

    def __str__(self) -> str:
        return rendered(self)


_NONE: Mapping[str, int] = MappingProxyType({})


class Counters:
    """Listens to the stream and counts. Several threads may capture; the lock is not on the path of a hit."""

    def __init__(self) -> None:
        self._lock = Lock()
        self._totals: Counter[str] = Counter()
        self._seconds: dict[str, float] = {}
        self._reasons: dict[str, Counter[str]] = {}
        self.reset()

    def reset(self) -> None:
        with self._lock:
            self._totals = Counter()
            self._seconds = {"capture_seconds": 0.0, "backend_seconds": 0.0}
            names = "breaks failures eager eager_functions rewrites reverted failed_checks uncompiled".split()
            self._reasons = {name: Counter() for name in names}

    def __call__(self, event: Event) -> None:
        with self._lock:
            _COUNTED[type(event)](self, event)

    def counts(self, untold: Mapping[str, int] = _NONE, entries: Iterable[EntryUse] = ()) -> Counts:
        """What was counted so far; `untold` are calls that ran in Python, by reason, of which there was no event."""
        with self._lock:
            counted = {**self._reasons, "eager": self._reasons["eager"] + Counter(untold)}
            reasons = {name: MappingProxyType(dict(by)) for name, by in counted.items()}
            values: dict[str, Any] = {**self._totals, **self._seconds, **reasons}
            return Counts(**values, entries=tuple(entries))

    def _started(self, event: CaptureStarted) -> None:
        self._totals["captures"] += 1

    def _finished(self, event: CaptureFinished) -> None:
        self._totals["uncaptured" if event.outcome == "eager" else event.outcome] += 1
        self._totals["ops"] += event.ops
        self._totals["guards"] += event.guards
        self._seconds["capture_seconds"] += event.seconds

    def _recompiled(self, event: Recompiled) -> None:
        self._totals["recompiles"] += 1

    def _backend(self, event: BackendCalled) -> None:
        self._totals["graphs"] += 1
        self._seconds["backend_seconds"] += event.seconds

    def _broke(self, event: GraphBroke) -> None:
        self._reasons["breaks"][f"{event.id} {event.reason}"] += 1

    def _failed(self, event: InternalFailure | GraphFailed) -> None:
        self._reasons["failures"][event.id] += 1

    def _eager(self, event: RanEagerly) -> None:
        self._reasons["eager"][event.reason] += 1
        self._reasons["eager_functions"][event.function] += 1

    def _check_failed(self, event: CheckFailed) -> None:
        self._reasons["failed_checks"][event.function] += 1

    def _not_compiled(self, event: NotCompiled) -> None:
        self._reasons["uncompiled"][event.reason] += 1

    def _pass_ran(self, event: PassRan) -> None:
        if event.rewrites:
            self._reasons["rewrites"][event.name] += event.rewrites

    def _pass_reverted(self, event: PassReverted) -> None:
        self._reasons["reverted"][event.name] += 1


_COUNTED: dict[type[Event], Callable[[Counters, Any], None]] = {
    CaptureStarted: Counters._started,
    CaptureFinished: Counters._finished,
    Recompiled: Counters._recompiled,
    BackendCalled: Counters._backend,
    GraphBroke: Counters._broke,
    InternalFailure: Counters._failed,
    GraphFailed: Counters._failed,
    RanEagerly: Counters._eager,
    CheckFailed: Counters._check_failed,
    NotCompiled: Counters._not_compiled,
    PassRan: Counters._pass_ran,
    PassReverted: Counters._pass_reverted,
}

# The process's own counters, listening from the first import on.
COUNTERS = Counters()
stream.subscribe(COUNTERS, *_COUNTED)
