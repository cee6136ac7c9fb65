"""`bytes()` of objects and iterables."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from framelift.values.containers.dicts import DictValue
from framelift.values.containers.sequences import SequenceValue
from framelift.values.containers.sets import SetValue
from framelift.values.core import protocol as py
from framelift.values.core.base import Exhausted, Raised, Value
from framelift.values.core.exceptions import is_raised
from framelift.values.core.lookup import raw_lookup, scalar_base, special_method
from framelift.values.core.primitives import primitive
from framelift.values.core.stand_ins import answering, raise_what, stand_in
from framelift.values.objects.instances import UserObjectValue

if TYPE_CHECKING:
    from framelift.values.core.tracer import Tracer


@primitive(bytes)
def _bytes(tracer: Tracer, *args: Any) -> Any:
    if len(args) == 1 and isinstance(args[0], Value):
        source = args[0]
        if isinstance(source, UserObjectValue):
            return _of_object(tracer, source)
        if source.is_read_by_items or isinstance(source, SequenceValue | DictValue | SetValue):
            return _of_items(tracer, source)
    return py.fold(tracer, bytes, *map(tracer.constant, args))


def _of_object(tracer: Tracer, source: UserObjectValue) -> Any:
    """Its own bytes; so many zeros; its items."""
    tracer.type_of(source)
    method = special_method(tracer, source, source.cls, "__bytes__")
    if method is not None and raw_lookup(source.cls, "__bytes__") is not raw_lookup(bytes, "__bytes__"):
        made = py.call(tracer, method, [], {})
        if not issubclass(py.type_of(made), bytes):
            raise_what(bytes, answering(source.cls, "__bytes__", stand_in(py.type_of(made))))
        return made
    if scalar_base(source.cls) is not None:
        return py.fold(tracer, bytes, tracer.constant(source))
    if source.has_index(tracer):
        try:
            return py.fold(tracer, bytes, tracer.as_index(source))
        except Raised as raised:
            if not is_raised(raised, TypeError):
                raise
    return _of_items(tracer, source)


def _of_items(tracer: Tracer, source: Value) -> bytes:
    iterator = _iterate(tracer, source)
    source.ask_length(tracer)
    numbers = bytearray()
    try:
        while True:
            number = tracer.as_index(py.next_item(tracer, iterator))
            if not 0 <= number < 256:
                raise_what(bytes, [256])
            numbers.append(number)
    except Exhausted:
        return bytes(numbers)


def _iterate(tracer: Tracer, source: Value) -> Any:
    try:
        return py.iterate(tracer, source)
    except Raised as raised:
        if not is_raised(raised, TypeError):
            raise
    raise_what(bytes, stand_in(py.type_of(source)))
