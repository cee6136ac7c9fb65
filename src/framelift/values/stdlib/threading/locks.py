"""Locks the program makes. Nobody else knows them while it is traced, so nobody else can hold them."""

from __future__ import annotations

import _thread
import sys
from typing import TYPE_CHECKING, Any

from framelift.breaks import FL0107, GraphBreak
from framelift.values.core.base import Value
from framelift.values.core.exceptions import raise_error
from framelift.values.core.methods import method, method_of
from framelift.values.core.primitives import primitive

if TYPE_CHECKING:
    from framelift.capture.lift import Lift
    from framelift.residual.generator import Generator


class LockValue(Value):
    """`make()`: how often it was acquired and not released is all there is to it."""

    __slots__ = ("make", "held")

    def __init__(self, make: Any) -> None:
        super().__init__()
        self.make = make
        self.held = 0

    def python_type(self) -> type:
        return _thread.RLock if self.make is _thread.RLock else _thread.LockType

    @property
    def is_recursive(self) -> bool:
        return self.make is _thread.RLock

    def attribute(self, lift: Lift, name: str) -> Any:
        return method_of(self, lift, name)

    @method
    def acquire(self, lift: Lift, blocking: Any = True, timeout: Any = -1) -> Any:
        if self.held and not self.is_recursive:
            self.refuse("acquiring it twice")
        if lift.constant(blocking) is not True or lift.constant(timeout) != -1:
            self.refuse("acquire() with these arguments")
        lift.journal.touch(self)
        self.held += 1
        return True

    @method
    def release(self, lift: Lift) -> None:
        if not self.held:
            raise_error(
                RuntimeError, "cannot release un-acquired lock" if self.is_recursive else "release unlocked lock"
            )
        lift.journal.touch(self)
        self.held -= 1

    @method
    def __enter__(self, lift: Lift) -> Any:  # noqa: PLE0302  (a model)
        return self.acquire(lift)

    @method
    def __exit__(self, lift: Lift, *error: Any) -> None:
        self.release(lift)

    @method
    def locked(self, lift: Lift) -> bool:
        if self.is_recursive:
            self.refuse("locked()")
        return bool(self.held)

    def state(self) -> Any:
        return self.held

    def restore(self, state: Any) -> None:
        self.held = state

    def rebuild(self, generate: Generator) -> None:
        if self.held:
            raise GraphBreak(FL0107, what="a lock that is held")
        generate.callable(self.make)
        generate.call(0)


@primitive(_thread.RLock)
def _recursive_lock(lift: Lift) -> Any:
    return LockValue(_thread.RLock)


# Since 3.13 the type itself can be called.
@primitive(_thread.allocate_lock, *([_thread.LockType] if sys.version_info >= (3, 13) else []))
def _lock(lift: Lift) -> Any:
    return LockValue(_thread.allocate_lock)
