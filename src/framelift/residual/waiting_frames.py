"""Frames that were left together, because the innermost one was: f, which called g, which called h.

While the instruction of h ran, all three were real frames (`steps.py`); behind it they are three resume functions, and
those of f and g wait for what the next one returns. They are captured as one: h's rest, then g's, then f's.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from types import CodeType, FunctionType
from typing import Any, NamedTuple

from framelift.bytecode.stack_shapes import HANDLED
from framelift.bytecode.stack_shapes import NULL as NULL_TAG
from framelift.native import _core
from framelift.residual import steps
from framelift.residual.resume import Argument, ResumeCode
from framelift.residual.segments import Fragments, Segments
from framelift.values.core.base import NULL
from framelift.values.objects.lifetimes import death_shows

# The stack item of a frame that waits for the next one: what it calls to have that one run.
INNER: Any = object()
#: The topmost items of such a frame's stack.
INNER_ITEMS: list[Any] = [NULL if tag == NULL_TAG else INNER for tag in steps.INNER]


class Entering(NamedTuple):
    """How to enter a frame: the code, and its variables and stack by number."""

    resume: ResumeCode
    slots: Mapping[int, Any] | Sequence[Any]
    stack: Sequence[Any]

    def arguments(self) -> list[Any]:
        return [(self.slots if kind == "slot" else self.stack)[number] for kind, number in self.resume.argument_order]


def needed(segments: Segments, offset: int, variables: Sequence[Any], watched: Sequence[Any]) -> list[int]:
    """The variables that go along: what is still read, and what is not to die before the frame does."""
    needed = [slot for slot in segments.live(offset) if variables[slot] is not NULL]
    others = set(range(segments.own_slots)).difference(needed)
    held = [slot for slot in others if death_shows(variables[slot], watched)]
    segments.hold(held)
    return sorted((*needed, *held)) if held else needed


@dataclass(slots=True)
class Part:
    """One of the frames: a resume function's code, its function and its arguments (real, or values of a capture)."""

    code: CodeType
    function: Any
    arguments: list[Any]

    def give(self, fragments: Fragments, result: Any) -> None:
        """What the frame waited for: the topmost item of its stack."""
        entry = fragments.of(self.code).entry
        assert entry is not None
        self.arguments[entry.order.index(Argument("stack", len(entry.tags) - 1))] = result

    def handled(self, fragments: Fragments) -> Any:
        """The exception that the frame handles while it waits, or None."""
        entry = fragments.of(self.code).entry
        if entry is None or HANDLED not in entry.tags:
            return None
        depth = len(entry.tags) - 1 - entry.tags[::-1].index(HANDLED)
        return self.arguments[entry.order.index(Argument("stack", depth))]

    def waiting(self, fragments: Fragments) -> Entering:
        """How to enter the frame while it waits."""
        fragment = fragments.of(self.code)
        entry = fragment.entry
        assert entry is not None
        given = dict(zip(entry.order, self.arguments, strict=True))
        slots = {number: value for (kind, number), value in given.items() if kind == "slot"}
        tags = entry.tags[:-1]
        stack = [given.get(Argument("stack", depth), NULL) for depth in range(len(tags))]
        segments = fragment.segments
        step = segments.step(segments.waiting(entry.offset), sorted(slots), (*tags, *steps.INNER), inner=True)
        return Entering(step, slots, stack + INNER_ITEMS)

    def raising(self, fragments: Fragments, error: BaseException) -> tuple[FunctionType, list[Any]]:
        """What to call to have an exception raised where the frame begins."""
        fragment = fragments.of(self.code)
        entry = fragment.entry
        assert entry is not None
        given = dict(zip(entry.order, self.arguments, strict=True))
        given[Argument("stack", len(entry.tags))] = error
        made = fragment.segments.raising(entry)
        return function_like(self.function, made.code), [given[argument] for argument in made.argument_order]


def handled_by(fragments: Fragments, waiting: Sequence[Part]) -> Any:
    """The exception that is handled while all these frames wait, or None."""
    handled = [part.handled(fragments) for part in waiting]
    return next((exception for exception in reversed(handled) if exception is not None), None)


def function_like(function: FunctionType, code: CodeType) -> FunctionType:
    """A function of `code` with what `function` knows."""
    return FunctionType(code, function.__globals__, function.__name__, None, function.__closure__)


def split(fragments: Fragments, code: CodeType, slots: Sequence[Any]) -> list[Part]:
    """The frames that a call of a chain's code stands for, outermost first."""
    parts = []
    first = 0
    for part in fragments.parts(code):
        last = first + 1 + part.co_argcount
        parts.append(Part(part, slots[first], list(slots[first + 1 : last])))
        first = last
    return parts


def join(fragments: Fragments, tail: Any) -> tuple[FunctionType, tuple[Any, ...]]:
    """The frames of a tail and of those within it as a call of one function."""
    codes: list[CodeType] = []
    slots: list[Any] = []
    link = tail
    while link is not None:
        codes.append(link.function.__code__)
        slots += [link.function, *link.args]
        link = link.inner
    chain = fragments.of(codes[0]).segments.chain(codes)
    return FunctionType(chain.code, tail.function.__globals__), tuple(slots)


def run_by_python(
    fragments: Fragments, parts: Sequence[Part], error: BaseException | None
) -> tuple[FunctionType, list[Any]]:
    """What to call, with which arguments, for Python to go on in all these frames; an error is raised in the last."""
    *outer, last = parts
    function, arguments = (last.function, last.arguments) if error is None else last.raising(fragments, error)
    for part in reversed(outer):
        entering = part.waiting(fragments)
        inner = _core.given(function, *arguments)
        arguments = [inner if argument is INNER else argument for argument in entering.arguments()]
        function = function_like(part.function, entering.resume.code)
    return function, arguments
