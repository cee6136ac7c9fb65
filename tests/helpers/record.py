"""What framelift did during some calls, from its events; and the same as text for a failure message."""

from __future__ import annotations

import dis
import io
from collections.abc import Iterator
from contextlib import contextmanager
from types import CodeType
from typing import Any, TypeVar

from framelift.report import stream
from framelift.report.events import (
    CaptureStarted,
    Event,
    GraphBroke,
    GraphCaptured,
    GuardsBuilt,
    InternalFailure,
    RanEagerly,
    Recompiled,
    ResidualBuilt,
)

AnyEvent = TypeVar("AnyEvent", bound=Event)


class Record:
    """The events of a block: `with record(): ...`, then look at `record.graphs`, `record.breaks`, ..."""

    def __init__(self) -> None:
        self.events: list[Event] = []

    @contextmanager
    def listening(self) -> Iterator[Record]:
        with stream.listening(self.events.append):
            yield self

    def of(self, kind: type[AnyEvent]) -> list[AnyEvent]:
        return [event for event in self.events if isinstance(event, kind)]

    @property
    def captures(self) -> int:
        return len(self.of(CaptureStarted))

    @property
    def graphs(self) -> list[Any]:
        return [event.graph_module for event in self.of(GraphCaptured)]

    @property
    def ops(self) -> int:
        return sum(event.ops for event in self.of(GraphCaptured))

    @property
    def breaks(self) -> list[GraphBroke]:
        return self.of(GraphBroke)

    @property
    def guards(self) -> list[str]:
        return [guard.words for event in self.of(GuardsBuilt) for guard in event.guards]

    @property
    def failures(self) -> list[InternalFailure]:
        return self.of(InternalFailure)

    @property
    def residuals(self) -> list[CodeType]:
        return [event.residual for event in self.of(ResidualBuilt)]

    def fingerprint(self) -> list[object]:
        """What two captures of the same frame must agree on."""
        made: list[object] = []
        for event in self.events:
            if isinstance(event, GraphCaptured):
                made.append(("graph", event.graph_module.code))
            elif isinstance(event, GuardsBuilt):
                made.append(("guards", tuple(guard.words for guard in event.guards)))
            elif isinstance(event, ResidualBuilt):
                made.append(("residual", event.residual.co_code, event.residual.co_names, event.residual.co_varnames))
            elif isinstance(event, GraphBroke):
                made.append(("break", event.id, event.reason, event.line))
        return made

    def text(self) -> str:
        """All of it, for a human who has to find out what went wrong."""
        parts: list[str] = []
        for event in self.events:
            if isinstance(event, GraphCaptured):
                parts.append(f"graph of capture {event.capture} ({event.ops} ops):\n{event.graph_module.code.strip()}")
            elif isinstance(event, GuardsBuilt):
                rows = [f"    {guard.words}    [{guard.location}]" for guard in event.guards]
                parts.append("\n".join([f"guards of capture {event.capture}:", *rows]))
            elif isinstance(event, ResidualBuilt):
                parts.append(f"residual code of capture {event.capture}:\n{disassembly(event.residual)}")
            elif isinstance(event, GraphBroke | InternalFailure | RanEagerly | Recompiled):
                parts.append(repr(event))
        return "\n\n".join(parts) or "framelift emitted no events"


def disassembly(code: CodeType) -> str:
    out = io.StringIO()
    dis.dis(code, file=out)
    return out.getvalue().rstrip()
