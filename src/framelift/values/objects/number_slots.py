"""The number slots of an object of a class written in Python: `int(obj)`, `round(obj)`, `math.floor(obj)`.

What Python says of an object without the method it looks for is asked of it, about an object of an empty class.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

from framelift.breaks import FL0102, FL0102_RESULT, GraphBreak
from framelift.values.core import protocol as py
from framelift.values.core.lookup import class_lookup, is_subclass, special_method
from framelift.values.core.stand_ins import answering, raise_what, stand_in, stand_in_for

if TYPE_CHECKING:
    from framelift.values.core.tracer import Tracer

# What the functions ask an object for that has no method of their own; what they are given then they take as a number.
_INSTEAD = {
    "__int__": ("__index__",),
    "__float__": ("__index__",),
    "__complex__": ("__float__", "__index__"),
    "__floor__": ("__float__", "__index__"),
    "__ceil__": ("__float__", "__index__"),
}
# What these methods must give; Python warns of subclasses and refuses all else.
_KINDS = {"__complex__": complex, "__float__": float, "__index__": int}


def number_of(tracer: Tracer, value: Any, slot: str, *args: Any) -> Any:
    """What the function that asks for `slot` gets of an object with a class `cls`."""
    function = py.NUMBER_SLOTS[slot]
    tracer.type_of(value)
    if slot == "__complex__":
        return py.fold(tracer, complex, _plain_number(tracer, complex, value, (slot, *_INSTEAD[slot])))
    if slot in _INSTEAD and class_lookup(tracer, value.cls, slot) is None:
        if slot == "__int__" and class_lookup(tracer, value.cls, "__trunc__") is not None:
            raise GraphBreak(FL0102, what="int() of an object with __trunc__()")  # older versions ask it, and warn
        return py.fold(tracer, function, _plain_number(tracer, function, value, _INSTEAD[slot]))
    result = by_method(tracer, function, value, [slot], *[arg for arg in args if not py.same(tracer, arg, None)])
    if slot == "__pow__" and py.type_of(result) is type(NotImplemented):  # with a modulus, nobody else is asked
        raise_what(function, *map(stand_in_for, (value, *args)))
    return _checked(value.cls, function, slot, result) if slot in ("__int__", "__float__") else result


def _checked(cls: type, kind: Any, slot: str, result: Any) -> Any:
    """A number that `int()` or `float()` may give."""
    if not is_subclass(py.type_of(result), kind):
        raise_what(kind, answering(cls, slot, stand_in(py.type_of(result))))
    if py.type_of(result) is not kind:
        raise GraphBreak(FL0102_RESULT, what=f"{slot}()", result=py.describe(result))  # Python warns
    return result


def by_method(tracer: Tracer, function: Callable[..., Any], value: Any, names: Sequence[str], *args: Any) -> Any:
    """What `function(value, *args)` gets from the first of these methods that the class of `value` has."""
    tracer.type_of(value)
    for name in names:
        if class_lookup(tracer, value.cls, name) is not None:
            return py.call(tracer, special_method(tracer, value, value.cls, name), list(args), {})
    return py.fold(tracer, function, stand_in(value.cls), *map(stand_in_for, args))


def _plain_number(tracer: Tracer, function: Callable[..., Any], value: Any, names: Sequence[str]) -> Any:
    """The same, as a number of the kind that the method is there for; what Python says of others is left to it."""
    result = by_method(tracer, function, value, names)
    asked = next(name for name in names if class_lookup(tracer, value.cls, name) is not None)
    if py.type_of(result) is not _KINDS[asked]:
        raise GraphBreak(FL0102_RESULT, what=f"{asked}()", result=py.describe(result))
    return tracer.constant(result)
