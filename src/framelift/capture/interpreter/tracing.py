"""What the parts of a capture need of it, besides what values do: `Tracing`, which is `capture.lift.Lift`."""

from __future__ import annotations

from typing import Protocol

from framelift.breaks import GraphBreak
from framelift.capture.interpreter.steps import Steps
from framelift.capture.is_compiling import Answers
from framelift.graph import NumberRef, TensorRef
from framelift.values.core.base import Value
from framelift.values.core.tracer import Tracer


class GraphValues(Protocol):
    """Which values stand for the inputs of the graph."""

    def remember(self, ref: TensorRef | NumberRef, value: Value) -> None:
        """Note which value stands for an input of the graph."""


class Tracing(Tracer, Protocol):
    """The capture that a frame, an input or an operation belongs to."""

    @property
    def steps(self) -> Steps: ...

    @property
    def answers(self) -> Answers: ...

    def user_line(self) -> str | None:
        """The user's line that is being captured; None once all of them are."""

    def locate(self, reason: GraphBreak) -> None:
        """Note where the program breaks; the innermost frame comes first."""
