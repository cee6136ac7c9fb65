"""The numbers of hooks: `RemovableHandle.next_id` counts them, and each is the key of one in dicts of hooks."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from torch.utils.hooks import RemovableHandle

from framelift.guards.source import Source
from framelift.values.core import protocol as py
from framelift.values.core.base import Value
from framelift.values.core.hash_keys import EqualKey
from framelift.values.core.protocol import COMPARE
from framelift.values.core.refusals import Operation

if TYPE_CHECKING:
    from framelift.values.core.emitter import Emitter
    from framelift.values.core.tracer import Tracer


def counts_hooks(source: Source) -> bool:
    """Whether a source is where torch counts hooks."""
    if source.argument != "next_id":
        return False
    root = source
    while root.parent is not None:
        root = root.parent
    return root.access == "KNOWN" and root.argument is RemovableHandle


def count_hook(tracer: Tracer) -> None:
    """There is one hook more."""
    handles = tracer.known_object(RemovableHandle)
    following = py.binary(tracer, "+", py.attribute(tracer, handles, "next_id"), 1)
    py.set_attribute(tracer, handles, "next_id", following)


class HookNumber(Value):
    """A number for a hook, so many after the one that was next when the frame was entered.

    Nobody has had it before: as a key it is equal to none but itself, and no guard says which it is.
    """

    __slots__ = ("counter", "offset")

    def __init__(self, counter: Source, offset: int = 0) -> None:
        super().__init__()
        self.counter = counter
        self.offset = offset

    def python_type(self) -> type:
        return int

    def binary(self, tracer: Tracer, operator: str, other: Any) -> Any:
        if operator.removesuffix("=") == "+" and type(other) is int:
            return HookNumber(self.counter, self.offset + other)
        return super().binary(tracer, operator, other)

    def compare(self, tracer: Tracer, operator: str, other: Any) -> Any:
        if isinstance(other, HookNumber):
            return COMPARE[operator](self.offset, other.offset)
        self.refuse(Operation.COMPARISON, operator=operator)

    def is_same(self, tracer: Tracer, other: Value) -> bool:
        self.refuse(Operation.IDENTITY)

    def key(self, tracer: Tracer) -> NewKey:
        return NewKey(tracer, self)

    def rebuild(self, emit: Emitter) -> None:
        emit.source(self.counter)
        if self.offset:
            emit.constant(self.offset)
            emit.builder.binary_op("+")


class NewKey(EqualKey):
    """A key that is equal to none that was there before."""

    __slots__ = ()

    def __init__(self, tracer: Tracer, value: HookNumber) -> None:
        super().__init__(tracer, value, hash((HookNumber, value.offset)))

    def __eq__(self, other: object) -> bool:
        return isinstance(other, NewKey) and self.value.offset == other.value.offset

    def __hash__(self) -> int:
        return self.hash
