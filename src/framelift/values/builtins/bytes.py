"""`bytes()` of objects and iterables."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from framelift.values.containers.dicts import DictValue
from framelift.values.containers.sequences import SequenceValue
from framelift.values.containers.sets import SetValue
from framelift.values.core import protocol as py
from framelift.values.core.base import Exhausted, Raised, Value
from framelift.values.core.exceptions import is_raised, raise_error
from framelift.values.core.lookup import name_of, raw_lookup, scalar_base, special_method
from framelift.values.core.primitives import primitive
from framelift.values.objects.instances import UserObjectValue

if TYPE_CHECKING:
    from framelift.capture.lift import Lift


@primitive(bytes)
def _bytes(lift: Lift, *args: Any) -> Any:
    if len(args) == 1 and isinstance(args[0], Value):
        source = args[0]
        if isinstance(source, UserObjectValue):
            return _of_object(lift, source)
        if source.is_read_by_items or isinstance(source, SequenceValue | DictValue | SetValue):
            return _of_items(lift, source)
    return py.fold(lift, bytes, *map(lift.constant, args))


def _of_object(lift: Lift, source: UserObjectValue) -> Any:
    """Its own bytes; so many zeros; its items."""
    lift.type_of(source)
    method = special_method(lift, source, source.cls, "__bytes__")
    if method is not None and raw_lookup(source.cls, "__bytes__") is not raw_lookup(bytes, "__bytes__"):
        made = py.call(lift, method, [], {})
        if not issubclass(py.type_of(made), bytes):
            raise_error(TypeError, f"__bytes__ returned non-bytes (type {name_of(py.type_of(made))})")
        return made
    if scalar_base(source.cls) is not None:
        return py.fold(lift, bytes, lift.constant(source))
    if lift.has_index(source):
        try:
            return py.fold(lift, bytes, lift.as_index(source))
        except Raised as raised:
            if not is_raised(raised, TypeError):
                raise
    return _of_items(lift, source)


def _of_items(lift: Lift, source: Value) -> bytes:
    iterator = _iterate(lift, source)
    source.ask_length(lift)
    numbers = bytearray()
    try:
        while True:
            number = lift.as_index(py.next_item(lift, iterator))
            if not 0 <= number < 256:
                raise_error(ValueError, "bytes must be in range(0, 256)")
            numbers.append(number)
    except Exhausted:
        return bytes(numbers)


def _iterate(lift: Lift, source: Value) -> Any:
    try:
        return py.iterate(lift, source)
    except Raised as raised:
        if not is_raised(raised, TypeError):
            raise
    raise_error(TypeError, f"cannot convert '{name_of(py.type_of(source))}' object to bytes")
