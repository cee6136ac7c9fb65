"""The events: what framelift did, as typed values. Readers (logs, counters, explain) know nothing else.

Every event of one capture carries the same `capture` number (`stream.new_capture()`), so that a reader can put a
graph, its guards and its residual code together:

    CaptureStarted  GraphCaptured*  GraphBroke*  NotCompiled?  BackendCalled*  GuardsBuilt?  ResidualBuilt?
    CaptureFinished

Passes also run outside of captures, so their events carry no number.
"""

from __future__ import annotations

import linecache
from collections.abc import Mapping
from dataclasses import dataclass, field
from types import CodeType
from typing import TYPE_CHECKING, Literal, NamedTuple

if TYPE_CHECKING:
    from torch.fx import GraphModule

Outcome = Literal["captured", "partial", "eager"]


class Location(NamedTuple):
    """A line of the user's program."""

    filename: str
    line: int
    function: str = ""

    @property
    def text(self) -> str:
        """The line itself, as far as it can be found."""
        return linecache.getline(self.filename, self.line).strip()

    def __str__(self) -> str:
        return f"{self.filename}:{self.line}"


@dataclass(frozen=True, slots=True)
class GuardText:
    """One guard in words: what must hold, of what (`L['x']`), and the user's line that needed it."""

    words: str
    source: str
    location: Location | None = None


@dataclass(frozen=True, slots=True)
class Event:
    """Base of all events."""


@dataclass(frozen=True, slots=True)
class CaptureStarted(Event):
    """A frame of `function` (its qualified name) is about to be lifted."""

    capture: int
    function: str
    filename: str
    line: int


@dataclass(frozen=True, slots=True)
class GraphCaptured(Event):
    """A graph is complete and about to be given to the backend. `ops` counts its call nodes, `inputs` names them."""

    capture: int
    graph_module: GraphModule
    ops: int
    inputs: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class GuardsBuilt(Event):
    """The guards of the new entry, in the order in which they are checked."""

    capture: int
    guards: tuple[GuardText, ...]


@dataclass(frozen=True, slots=True)
class ResidualBuilt(Event):
    """The code that will run in place of the original."""

    capture: int
    original: CodeType
    residual: CodeType


@dataclass(frozen=True, slots=True)
class GraphBroke(Event):
    """A graph ended before its function did: `id` from the registry of breaks, `text` the user's line."""

    capture: int
    id: str
    reason: str
    filename: str
    line: int
    text: str = ""


@dataclass(frozen=True, slots=True)
class Recompiled(Event):
    """A function that had entries is captured again; `reasons` say which guard of each entry failed, and on what."""

    capture: int
    function: str
    reasons: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class BecameDynamic(Event):
    """Sizes and numbers that differ from an earlier capture are symbolic in this one: `changes` in words."""

    capture: int
    function: str
    changes: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class BackendCalled(Event):
    """The backend has turned a graph into a callable."""

    capture: int
    backend: str
    seconds: float


@dataclass(frozen=True, slots=True)
class NotCompiled(Event):
    """The backend was not given a graph: it would get derivatives wrong. torch runs its operations one by one."""

    capture: int
    function: str
    backend: str
    reason: str


@dataclass(frozen=True, slots=True)
class CaptureFinished(Event):
    """The capture is over: wholly ("captured"), with a break ("partial"), or the frame runs in Python ("eager")."""

    capture: int
    function: str
    outcome: Outcome
    seconds: float
    ops: int
    guards: int
    phases: Mapping[str, float] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class InternalFailure(Event):
    """framelift failed; the frame runs in Python. `id` is stable, `error` the text of what went wrong."""

    capture: int
    id: str
    function: str
    error: str


@dataclass(frozen=True, slots=True)
class RanEagerly(Event):
    """A call of a lifted function ran the original code; `id` is that of the reason, in `framelift.fallbacks`."""

    function: str
    reason: str
    id: str = ""


@dataclass(frozen=True, slots=True)
class CheckFailed(Event):
    """A graph raised because something it presumes about data is not so; Python ran the call. `check` says what."""

    capture: int
    function: str
    check: str


@dataclass(frozen=True, slots=True)
class GraphFailed(Event):
    """A graph raised when it ran, and Python did not: `backend` had compiled it, `lines` are the user's it spans."""

    capture: int
    id: str
    function: str
    backend: str
    ops: int
    lines: str
    error: str


@dataclass(frozen=True, slots=True)
class PassRan(Event):
    """A pass changed a graph, or found nothing to do: how many rewrites, and the number of nodes before and after."""

    name: str
    rewrites: int
    nodes_before: int
    nodes_after: int
    seconds: float
    rejected: Mapping[str, int] = field(default_factory=dict)  # why candidates were left alone, and how often
    matches: int = 0


@dataclass(frozen=True, slots=True)
class PassChanged(Event):
    """What a pass changed in a graph, as a unified difference. Made only where somebody listens."""

    name: str
    diff: str


@dataclass(frozen=True, slots=True)
class PassReverted(Event):
    """A pass failed and what it had done was taken back; `error` says why."""

    name: str
    error: str


EVENTS: tuple[type[Event], ...] = (
    CaptureStarted,
    GraphCaptured,
    GuardsBuilt,
    ResidualBuilt,
    GraphBroke,
    Recompiled,
    BecameDynamic,
    BackendCalled,
    NotCompiled,
    CaptureFinished,
    InternalFailure,
    RanEagerly,
    CheckFailed,
    GraphFailed,
    PassRan,
    PassChanged,
    PassReverted,
)
