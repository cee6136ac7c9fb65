"""The registry of reasons why a capture ends early. Every id is stable; the prose lives here and nowhere else.

raise GraphBreak(FL0102, what="time.sleep")
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any


@dataclass(frozen=True, slots=True)
class Reason:
    """Why something could not be traced, and what a user can do about it. `text` is a format string."""

    id: str
    text: str
    remedy: str

    def worded(self, text: str) -> Reason:
        """The same reason, where its facts are others."""
        return replace(self, text=text)


class GraphBreak(Exception):
    """The current instruction cannot be traced: the graph ends before it and Python runs it."""

    def __init__(self, reason: Reason, **details: Any) -> None:
        super().__init__(reason, details)
        self.reason = reason
        self.details = details
        # Where in the program it happened: the active frames, noted by the innermost one.
        self.point: Any = None
        # Whether it happened within a function that the current instruction calls.
        self.within_call = False
        # Whether it is an error there; None: that is for the options to say.
        self.is_error: bool | None = None

    @property
    def words(self) -> str:
        return self.reason.text.format(**self.details)

    def __str__(self) -> str:
        return f"{self.reason.id}: {self.words}"


class Overridden(GraphBreak):
    """An operand has rules of its own (`__torch_function__`), which whoever makes the operation may ask."""

    def __init__(self, type: str) -> None:
        super().__init__(FL0306, type=type)


REGISTRY: dict[str, Reason] = {}


def _reason(id: str, text: str, remedy: str) -> Reason:
    assert id not in REGISTRY, f"{id} is taken"
    REGISTRY[id] = Reason(id, text, remedy)
    return REGISTRY[id]


# 01xx: instructions and calls
FL0101 = _reason(
    "FL0101",
    "the instruction {opcode} is not traced",
    "Move the statement out of the compiled function, or mark its function with framelift.disable.",
)
FL0102 = _reason(
    "FL0102",
    "a call of {what} is not traced",
    "Call it outside the compiled function, or wrap it with framelift.disable to make the break explicit.",
)
FL0102_ARGUMENTS = FL0102.worded("a call of {what} with these arguments is not traced")
FL0102_OPERAND = FL0102.worded("a call of {what} of {operand} is not traced")
FL0102_RESULT = FL0102.worded("a call of {what} that gives {result} is not traced")
FL0102_CLASS = FL0102.worded("a call of a class statement {why} is not traced")
FL0103 = _reason("FL0103", "graph_break() was called{why}", "Remove the call to get one graph.")
FL0104 = _reason(
    "FL0104",
    "{what} was marked with disable{why}",
    "Remove the mark if the function can be traced.",
)
FL0105 = _reason(
    "FL0105",
    "the generator or coroutine {what} is not traced",
    "Return a list instead of yielding, or consume the generator outside.",
)
FL0106 = _reason("FL0106", "the recursion is too deep to inline", "Use a loop, or compile the inner function.")
FL0107 = _reason(
    "FL0107",
    "{what} cannot be rebuilt outside the graph",
    "Do not keep this object alive across untraceable code.",
)
FL0108 = _reason(
    "FL0108",
    "tracing it takes too long: {what}",
    "Do this outside the compiled function, or raise framelift.config.trace_limit.",
)
FL0109 = _reason(
    "FL0109",
    "dropping {what} may run code of the program's",
    "Close it, or finish it, before.",
)
FL0110 = _reason(
    "FL0110",
    "handlers of log records or warnings may read or change {what}",
    "Use it before the record or in another function, or let the handler keep it to itself.",
)
# 02xx: objects and protocols
FL0201 = _reason(
    "FL0201", "{operation} of {type} is not modelled", "Use a plain Python type, or do this outside the function."
)
FL0202 = _reason("FL0202", "objects of type {type} are not modelled", "Pass plain Python data or tensors.")
FL0203 = _reason("FL0203", "{type}.{name} is implemented in C and not modelled", "Use an equivalent written in Python.")
# 03xx: tensors
FL0301 = _reason(
    "FL0301",
    "the value of a tensor decides what happens next ({what})",
    "Use torch.where or torch.cond, or compute the decision outside the compiled function.",
)
FL0302 = _reason(
    "FL0302",
    "{op} cannot be described without running it: {error}",
    "See the error: Python runs this operation and reports what it says.",
)
FL0303 = _reason(
    "FL0303",
    "{op} may raise at run time after an input was written to",
    "Write to inputs after the operations that check their data.",
)
FL0304 = _reason("FL0304", "{what} of a tensor is not traced", "Do this outside the compiled function.")
FL0305 = _reason(
    "FL0305",
    "operators of tensors are replaced: {what}",
    "Put torch's own operators back, or use a subclass of torch.Tensor.",
)
FL0306 = _reason(
    "FL0306",
    "{type} has rules of its own for what torch does with it",
    "Use plain tensors in the compiled function; Python runs what is done with others.",
)
FL0307 = _reason(
    "FL0307",
    "{what} is a {kind} tensor, which no graph holds",
    "Make it dense before, or do this outside the compiled function: Python runs what uses it.",
)
FL0308 = _reason(
    "FL0308",
    "the number that a tensor holds is needed as it is ({what})",
    "Return the tensor, and print, log or convert it outside the compiled function.",
)
# 04xx: exceptions
FL0401 = _reason(
    "FL0401",
    "the exception {what} leaves the compiled function",
    "Nothing to do: Python raises it.",
)
