"""Locks the program makes. Nobody else knows them while it is traced, so nobody else can hold them."""

from __future__ import annotations

import _thread
import sys
from typing import TYPE_CHECKING, Any

from framelift.breaks import FL0107, GraphBreak
from framelift.values.core.base import Call, Value
from framelift.values.core.methods import method, method_of
from framelift.values.core.primitives import primitive
from framelift.values.core.refusals import Operation
from framelift.values.core.stand_ins import raise_what

if TYPE_CHECKING:
    from framelift.values.core.tracer import Tracer


class LockValue(Value):
    """`make()`: how often it was acquired and not released is all there is to it."""

    __slots__ = ("make", "held")
    assigns = ("held",)

    def __init__(self, make: Any) -> None:
        super().__init__()
        self.make = make
        self.held = 0

    def python_type(self) -> type:
        return _thread.RLock if self.make is _thread.RLock else _thread.LockType

    @property
    def is_recursive(self) -> bool:
        return self.make is _thread.RLock

    def attribute(self, tracer: Tracer, name: str) -> Any:
        return method_of(self, tracer, name)

    @method
    def acquire(self, tracer: Tracer, blocking: Any = True, timeout: Any = -1) -> Any:
        if self.held and not self.is_recursive:
            self.refuse("acquiring it twice")
        if tracer.constant(blocking) is not True or tracer.constant(timeout) != -1:
            self.refuse(Operation.ARGUMENTS, name="acquire")
        tracer.journal.touch(self)
        self.held += 1
        return True

    @method
    def release(self, tracer: Tracer) -> None:
        if not self.held:
            raise_what((_thread.RLock() if self.is_recursive else _thread.allocate_lock()).release)
        tracer.journal.touch(self)
        self.held -= 1

    @method
    def __enter__(self, tracer: Tracer) -> Any:  # noqa: PLE0302  (a model)
        return self.acquire(tracer)

    @method
    def __exit__(self, tracer: Tracer, *error: Any) -> None:
        self.release(tracer)

    @method
    def locked(self, tracer: Tracer) -> bool:
        if self.is_recursive:
            self.refuse("locked()")
        return bool(self.held)

    def made_by(self) -> Call:
        if self.held:
            raise GraphBreak(FL0107, what="a lock that is held")
        return self.make, []


@primitive(_thread.RLock)
def _recursive_lock(tracer: Tracer) -> Any:
    return LockValue(_thread.RLock)


# Since 3.13 the type itself can be called.
@primitive(_thread.allocate_lock, *([_thread.LockType] if sys.version_info >= (3, 13) else []))
def _lock(tracer: Tracer) -> Any:
    return LockValue(_thread.allocate_lock)
