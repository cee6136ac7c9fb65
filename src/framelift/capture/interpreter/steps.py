"""How far a capture has come that can be left between any two instructions, and what begins it anew."""

from __future__ import annotations

from dataclasses import dataclass, field

from framelift.breaks import GraphBreak
from framelift.values.core.base import Value


class BreakEarlier(Exception):
    """The frame cannot be left where it broke: capture again and break before instruction `count`.

    So it is while an exception is handled that only the capture knows, and where something would be alive that cannot
    be rebuilt.
    """

    def __init__(self, count: int, reason: GraphBreak) -> None:
        super().__init__(count, reason)
        self.count = count
        self.reason = reason

    def forget_frames(self) -> None:
        """The reason is raised in one attempt after the other: what they worked on is not to live on in it."""
        self.reason.__traceback__ = self.reason.__cause__ = self.reason.__context__ = None


class StepInto(Exception):
    """It broke within calls: capture again, and step through calls so deep."""

    def __init__(self, depth: int) -> None:
        super().__init__(depth)
        self.depth = depth


@dataclass(slots=True)
class Steps:
    """What the stepping frames of one capture have in common."""

    # The number of the current instruction, and the one to break before.
    count: int = 0
    break_before: BreakEarlier | None = None
    # The instruction that raised the outermost exception being handled.
    raised_at: int = 0
    # How deep calls are stepped through.
    depth: int = 0
    # Whether nobody else is known to hold the arguments: those of a resume function.
    owns_arguments: bool = False
    # Whether frames wait for the outermost one that is being traced.
    are_waiting: bool = False
    # Arguments that nobody else is known to hold, and whose end may show.
    owned: list[Value] = field(default_factory=list)
