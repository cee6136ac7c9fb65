"""Leaving a capture at a break: which frames to enter so that Python can run the one instruction."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from framelift.capture.interpreter.frame import Frame
from framelift.capture.interpreter.stepping import SteppingFrame
from framelift.native import _core
from framelift.residual import steps
from framelift.residual.codegen import Activation, Rest, whole_frame
from framelift.residual.resume import HANDLED, CannotResume, StackTag
from framelift.residual.resume import NULL as NULL_TAG
from framelift.residual.segments import Fragments, Segments
from framelift.residual.waiting_frames import INNER_ITEMS, Entering, Part, needed
from framelift.values.core.base import NULL


def step_at(fragments: Fragments, waiting: Sequence[Part], frame: SteppingFrame, context: Any) -> Rest:
    """Python runs the instruction at which `frame` stands; the frames around it are real meanwhile."""
    kept: list[Segments] = []
    entered: list[Activation] = []
    handled = frame.lift.handled
    inner: Frame | None = frame
    while inner is not None:
        entering, handled = _enter(fragments, inner, handled, inner is not frame, kept)
        entered.insert(0, Activation(*entering, inner.function))
        inner = inner.caller
    return Rest(
        [*(Activation(*part.waiting(fragments), part.function) for part in waiting), *entered], context, tuple(kept)
    )


def _enter(
    fragments: Fragments, frame: Frame, handled: Any, is_waiting: bool, kept: list[Segments]
) -> tuple[Entering, Any]:
    """How to enter a frame that handles an exception, if it does, and what its caller handles."""
    assert isinstance(frame, SteppingFrame)
    code = frame.program.canonical.code
    fragment = fragments.of(code)
    offset = fragment.offset(frame.program.steps[frame.pc].offset)
    if offset is None or frame.pc < frame.program.canonical.body:
        raise CannotResume(f"{code.co_qualname} has not begun")
    segments = fragment.segments
    if fragment.is_whole:
        kept.append(segments)
    stack = frame.stack[: len(frame.stack) - frame.operands] if is_waiting else frame.stack
    stack, tags, outside = _as_entered(stack, segments.shape(offset), handled)
    if is_waiting:
        stack, tags = stack + INNER_ITEMS, [*tags, *steps.INNER]
    step = segments.step(offset, needed(segments, offset, frame.locals, frame.lift.watched), tags, is_waiting)
    return Entering(step, frame.locals, stack), outside


def _as_entered(stack: list[Any], shape: Sequence[StackTag], handled: Any) -> tuple[list[Any], list[StackTag], Any]:
    """A stack as a resume function takes it, its tags, and the exception that is handled outside.

    Where a handler saved the exception handled before, the function is told the one handled there.
    """
    tags: list[StackTag] = [NULL_TAG if item is NULL else tag for item, tag in zip(stack, shape, strict=False)]
    items = list(stack)
    for depth in reversed(range(len(items))):
        if tags[depth] == HANDLED:
            items[depth], handled = handled, items[depth]
    return items, tags, handled


def go_on_at(fragments: Fragments, frame: SteppingFrame) -> Activation:
    """Python runs the instruction at which a frame stands, and all that follows."""
    fragment = fragments.of(frame.program.canonical.code)
    offset = fragment.offset(frame.program.steps[frame.pc].offset)
    if offset is None or frame.pc < frame.program.canonical.body:
        raise CannotResume("the frame has not begun")
    slots = needed(fragment.segments, offset, frame.locals, frame.lift.watched)
    stack, tags, _ = _as_entered(frame.stack, fragment.segments.shape(offset), frame.lift.handled)
    return Activation(fragment.segments.resume(offset, slots, tags), frame.locals, stack, frame.function)


def all_in_python(fragments: Fragments, parts: Sequence[Part], context: Any) -> Rest:
    """Python goes on with the innermost of several frames from where that begins."""
    *outer, last = parts
    waiting = [Activation(*part.waiting(fragments), part.function) for part in outer]
    whole = whole_frame(last.code)
    _core.never_lift(whole.code)
    return Rest([*waiting, Activation(whole, last.arguments, (), last.function)], context)
