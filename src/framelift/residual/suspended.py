"""Generators that have yielded, made again: a generator function whose generators begin at a `yield`.

Coroutines are made in the same way: their `await` is a `yield from`.

The frame of a generator is entered like any other (`resume.py`), only that the generator is made first, and what the
frame holds comes later, in a list. So a generator can be among what it refers to itself.

    [dead MAKE_CELLs] [COPY_FREE_VARS] RETURN_GENERATOR ─► variables and stack out of the list ─► RESUME ─► YIELD_VALUE

The first `next()` runs this much and nothing of the user's: the `yield` it comes to is the one at which the original
stands, and gives away a None that lies on the stack for that. From then on all is as it was: what is sent or thrown
arrives at that `yield`, with its handlers, and a `yield from` has the iterator it waits for.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from types import CodeType
from typing import Final

from framelift.bytecode.instruction import Instruction
from framelift.bytecode.stack_shapes import NULL, VALUE, StackTag, stack_shapes
from framelift.residual.resume import CannotResume, ResumeCode, ResumeMaker

_GENERATOR: Final = 0x20
_COROUTINE: Final = 0x80
# What a frame does that goes on after a `yield from`: unlike others, it does not look for signals.
_UNINTERRUPTED: Final = 2


def make_suspended(
    code: CodeType, offset: int, live_slots: Iterable[int], stack_tags: Sequence[StackTag]
) -> ResumeCode:
    """The code of generators that begin at the `yield` at `offset`; its argument is a list of those named.

    The topmost item of the stack is what the first `next()` gives.

    >>> import types
    >>> from framelift.bytecode.decode import decode
    >>> def f(x):
    ...     y = yield x
    ...     yield x, y
    >>> first = next(i.offset for i in decode(f.__code__) if i.opname == "YIELD_VALUE")
    >>> made = make_suspended(f.__code__, first, live_slots=(0,), stack_tags=(VALUE,))
    >>> arguments = []
    >>> generator = types.FunctionType(made.code, globals())(arguments)
    >>> arguments += ["x" if kind == "slot" else None for kind, _ in made.argument_order]
    >>> next(generator), generator.send("sent")
    (None, ('x', 'sent'))
    """
    if any(tag not in (VALUE, NULL) for tag in stack_shapes(code)[offset]):
        raise CannotResume("an exception is being handled")
    return _SuspendedMaker(code, offset, live_slots, stack_tags, boxed=True).make()


class _SuspendedMaker(ResumeMaker):
    """A resume code that gives a generator."""

    kind = "generator function"
    generator_flags = (_GENERATOR, _COROUTINE)

    def _emit_frame(self) -> None:
        super()._emit_frame()
        self._emit("RETURN_GENERATOR")
        self._emit("POP_TOP")

    def _emit_entry(self) -> list[Instruction]:
        head = super()._emit_entry()
        head[0].arg = _UNINTERRUPTED
        return head
