"""`collections.abc.Callable[[int], str]`, as functions that the program makes have in their annotations."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from framelift.breaks import FL0102, GraphBreak
from framelift.values.containers.sequences import SequenceValue
from framelift.values.core import protocol as py
from framelift.values.core.base import Value
from framelift.values.core.primitives import primitive

if TYPE_CHECKING:
    from framelift.values.core.tracer import Tracer


@primitive(type(Callable[[int], int]))
def _described(tracer: Tracer, origin: Any, args: Any) -> Any:
    """A description of functions, made while capturing: nobody asks which object it is."""
    made = py.evaluate(tracer, type(Callable[[int], int]), _real(tracer, origin), _real(tracer, args))
    tracer.kept.append(made)
    return tracer.known_object(made)


def _real(tracer: Tracer, value: Any) -> Any:
    """What a description is made of: classes, type variables, and lists of them."""
    if not isinstance(value, Value):
        return value
    if isinstance(value, SequenceValue):
        return py.type_of(value)([_real(tracer, item) for item in value.items(tracer)])
    if value.source is None:
        raise GraphBreak(FL0102, what="collections.abc.Callable[...]")
    value.note(tracer)
    tracer.guard(value.source, "IS", value.concrete)
    return value.concrete
