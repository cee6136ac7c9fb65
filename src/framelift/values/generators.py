"""Generators: frames of the traced program that stop and go on."""

from __future__ import annotations

import types
from typing import TYPE_CHECKING, Any

from framelift.values.base import Exhausted, Raised
from framelift.values.exceptions import ExceptionValue, raise_error
from framelift.values.iterators import IteratorValue

if TYPE_CHECKING:
    from framelift.capture.frame import Frame
    from framelift.capture.lift import Lift


class GeneratorValue(IteratorValue):
    """A generator whose frame is traced as far as items are asked for."""

    __slots__ = ("frame", "started", "finished")

    def __init__(self, frame: Frame) -> None:
        super().__init__()
        self.frame = frame
        self.started = False
        self.finished = False

    def python_type(self) -> type:
        return types.GeneratorType

    def next(self, lift: Lift) -> Any:
        return self.send_value(lift, None)

    def send_value(self, lift: Lift, value: Any) -> Any:
        """Go on with `value` as the result of `yield`; the next item, or Exhausted with the return value."""
        if self.finished:
            raise Exhausted
        lift.journal.touch(self)
        frame = self.frame
        if self.started:
            frame.stack.append(value)
            frame.pc += 1
        elif value is not None:
            raise_error(TypeError, "can't send non-None value to a just-started generator")
        self.started = True
        frame.yielded = False
        try:
            result = lift.run_frame(frame)
        except Raised as raised:
            self.finished = True
            error = raised.value
            if isinstance(error, ExceptionValue) and issubclass(error.cls, StopIteration):
                raise_error(RuntimeError, "generator raised StopIteration")
            raise
        if frame.yielded:
            return result
        self.finished = True
        raise Exhausted(result)

    def attribute(self, lift: Lift, name: str) -> Any:
        if name == "send":
            return lift.builtin_method(self, name, lambda value: self._send(lift, value))
        if name in ("throw", "close"):
            self.refuse(f"{name}() of a generator")
        return super().attribute(lift, name)

    def _send(self, lift: Lift, value: Any) -> Any:
        try:
            return self.send_value(lift, value)
        except Exhausted as exhausted:
            raise_error(StopIteration, *exhausted.args)

    def state(self) -> Any:
        return self.frame.snapshot(), self.started, self.finished

    def restore(self, state: Any) -> None:
        snapshot, self.started, self.finished = state
        self.frame.restore(snapshot)
