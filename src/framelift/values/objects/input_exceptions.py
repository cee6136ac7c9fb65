"""Exceptions that exist: those handled where a capture begins, and those that are passed in."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NoReturn

from framelift.breaks import FL0102_OPERAND, GraphBreak
from framelift.values.core import protocol as py
from framelift.values.core.exceptions import FROM_ARGUMENTS, plain_text
from framelift.values.core.lookup import qualified_name_of
from framelift.values.core.refusals import Operation
from framelift.values.objects.exceptions import own_text
from framelift.values.objects.instances import UserObjectValue

if TYPE_CHECKING:
    from framelift.values.core.tracer import Tracer


class GivenExceptionValue(UserObjectValue):
    """An exception from outside. It can be looked at, and handled; to raise it changes its traceback: Python does."""

    __slots__ = ()

    # As far as the frames that handle it are concerned: it was raised, and nothing raised here is in its history.
    traceback = True
    context = None

    def default(self, name: str) -> Any:
        return BaseException.__dict__.get(name, object.__dict__.get(name))

    def describe(self) -> str:
        return qualified_name_of(self.cls)

    def get_slot(self, tracer: Tracer, descriptor: Any) -> Any:
        if issubclass(descriptor.__objclass__, BaseException) and hasattr(descriptor.__objclass__, "__slots__"):
            return super().get_slot(tracer, descriptor)
        return self._read(tracer, descriptor)

    def set_slot(self, tracer: Tracer, descriptor: Any, value: Any) -> None:
        self.refuse(Operation.SET_ATTRIBUTE, name=descriptor.__name__)

    def get_computed(self, tracer: Tracer, descriptor: Any) -> Any:
        if descriptor.__name__ in ("__dict__", "__class__"):
            return super().get_computed(tracer, descriptor)
        return self._read(tracer, descriptor)

    def _read(self, tracer: Tracer, descriptor: Any) -> Any:
        """What C code keeps, or makes of it."""
        assert self.source is not None
        self.note(tracer)
        try:
            real = descriptor.__get__(self.concrete)
        except AttributeError:
            self.refuse(f"attribute {descriptor.__name__!r}, which is missing,")
        return tracer.wrap(real, self.source.child("GETATTR", descriptor.__name__))

    def text(self, tracer: Tracer, conversion: str) -> str:
        own = own_text(tracer, self, conversion)
        return self.plain_text(tracer, conversion) if own is None else own

    def plain_text(self, tracer: Tracer, conversion: str) -> str:
        if conversion == "str" and issubclass(self.cls, FROM_ARGUMENTS):
            self.refuse("str()")  # of more than its arguments
        return plain_text(tracer, self.cls, py.items(tracer, self.attribute(tracer, "args")), conversion)

    def trace(self, tracer: Tracer) -> Any:
        """Its traceback."""
        return self._read(tracer, BaseException.__dict__["__traceback__"])

    def leave_frame(self) -> NoReturn:
        raise GraphBreak(FL0102_OPERAND, what="raise", operand=self.describe())
