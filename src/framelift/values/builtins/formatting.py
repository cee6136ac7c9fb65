"""Values as arguments of text formatting: `"%s" % value`, `"{0.name}".format(value)`.

Python's own formatting runs while capturing, on constants and on *stand-ins* for everything else. A stand-in is asked
for what formatting needs, a text, an attribute, an item, and asks the traced program for it.
"""

from __future__ import annotations

import datetime
from decimal import Decimal
from typing import TYPE_CHECKING, Any

from framelift.values.containers.dicts import DictValue
from framelift.values.containers.sequences import TupleValue
from framelift.values.core import protocol as py
from framelift.values.core.base import Value
from framelift.values.core.constants import is_constant
from framelift.values.core.hash_keys import from_key
from framelift.values.core.lookup import defines, is_subclass, name_in_errors
from framelift.values.stdlib.decimal.numbers import DecimalValue
from framelift.values.subclasses.scalars import ScalarObjectValue, made_of

if TYPE_CHECKING:
    from framelift.values.core.tracer import Tracer

_OF = "_framelift_shown"


class Shown:
    """Stands for a value. What formatting asks of it is traced."""

    def __str__(self) -> str:
        tracer, value = self.__dict__[_OF]
        text: str = tracer.text(value, "str")
        return text

    def __repr__(self) -> str:
        tracer, value = self.__dict__[_OF]
        text: str = tracer.text(value, "repr")
        return text

    def __format__(self, spec: str) -> str:
        tracer, value = self.__dict__[_OF]
        text: str = py.format_value(tracer, value, spec)
        return text

    def __getattr__(self, name: str) -> Any:
        tracer, value = self.__dict__[_OF]
        return shown(tracer, py.attribute(tracer, value, name))


class ShownWithItems(Shown):
    """Stands for a value with items, which `%` takes for a mapping."""

    def __getitem__(self, key: Any) -> Any:
        tracer, value = self.__dict__[_OF]
        return shown(tracer, py.item(tracer, value, key))


def shown(tracer: Tracer, value: Any) -> Any:
    """What stands for a value in the arguments of text formatting."""
    if not isinstance(value, Value):
        return _stand_in(tracer, value, type(value), *made_of(value)) if type(value) is datetime.date else value
    value.note(tracer)
    if isinstance(value, TupleValue):
        return tuple([shown(tracer, item) for item in value.items(tracer)])
    if isinstance(value, DecimalValue):
        return _stand_in(tracer, value, Decimal, value.concrete)
    if isinstance(value, ScalarObjectValue) and value.base is not None:
        return _stand_in(tracer, value, value.base, *made_of(value.constant(tracer)))
    kind = tracer.type_of(value)
    if value.source is not None and is_constant(value.concrete):
        return shown(tracer, tracer.constant(value))
    if any(defines(kind, name) for name in _NUMBERS):
        value.refuse("formatting")
    return _stand_in(tracer, value)


# A conversion to a number is not asked of the program.
_NUMBERS = ("__int__", "__float__", "__index__")


def _stand_in(tracer: Tracer, value: Any, base: type = object, *plain: Any) -> Any:
    kind = py.type_of(value)
    first = ShownWithItems if defines(kind, "__getitem__") else Shown
    bases = (first,) if base is object else (first, base)
    made: Any = base.__new__(type(name_in_errors(kind), bases, {}), *plain)  # errors show its name
    made.__dict__[_OF] = (tracer, value)
    return made


def shown_arguments(tracer: Tracer, value: Any) -> Any:
    """The same for what `%` is given: a tuple of arguments, or a mapping whose items are shown by name."""
    if isinstance(value, DictValue) and value.python_type() is dict:
        value.note(tracer)
        return {tracer.constant(from_key(key)): shown(tracer, item) for key, item in value.entries(tracer).items()}
    if isinstance(value, Value) and is_subclass(py.type_of(value), tuple):
        return tuple([shown(tracer, item) for item in py.items(tracer, value)])
    return shown(tracer, value)
