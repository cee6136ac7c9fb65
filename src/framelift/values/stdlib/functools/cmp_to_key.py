"""`functools.cmp_to_key`: keys that compare by a function of two objects."""

from __future__ import annotations

import functools
from operator import lt, sub
from typing import TYPE_CHECKING, Any

from framelift.values.core import protocol as py
from framelift.values.core.base import Call, Value
from framelift.values.core.exceptions import raise_error
from framelift.values.core.methods import method_of
from framelift.values.core.primitives import Arity, primitive
from framelift.values.core.refusals import Operation
from framelift.values.core.stand_ins import raise_what

if TYPE_CHECKING:
    from framelift.values.core.tracer import Tracer

# Of one type are what makes keys and the keys, which are made of an object.
_KEY_TYPE = type(functools.cmp_to_key(lambda a, b: 0))
_ABSENT = object()


class ComparisonKey(Value):
    """What `cmp_to_key(compare)` gives, and what that gives when it is called with an object."""

    __slots__ = ("function", "obj")

    def __init__(self, function: Any, obj: Any = _ABSENT) -> None:
        super().__init__()
        self.function = function
        self.obj = obj

    def python_type(self) -> type:
        return _KEY_TYPE

    def call(self, tracer: Tracer, args: list[Any], kwargs: dict[str, Any]) -> Any:
        if not _CALL(args, kwargs):
            self.refuse("a call without exactly one argument")
        return ComparisonKey(self.function, *args, **kwargs)

    def compare(self, tracer: Tracer, operator: str, other: Any) -> Any:
        if not isinstance(other, ComparisonKey):
            raise_what(lt, functools.cmp_to_key(sub)(0), None)
        if self.obj is _ABSENT or other.obj is _ABSENT:
            raise_error(AttributeError, "object")
        return py.compare(tracer, operator, py.call(tracer, self.function, [self.obj, other.obj], {}), 0)

    def key(self, tracer: Tracer) -> Any:
        raise_what(hash, functools.cmp_to_key(sub)(0))

    def attribute(self, tracer: Tracer, name: str) -> Any:
        if name == "obj":
            return None if self.obj is _ABSENT else self.obj
        return method_of(self, tracer, name)

    def set_attribute(self, tracer: Tracer, name: str, value: Any) -> None:
        self.refuse(Operation.SET, name=name)

    def parts(self) -> list[Any]:
        return [self.function] if self.obj is _ABSENT else [self.function, self.obj]

    def made_by(self) -> Call:
        return functools.cmp_to_key if self.obj is _ABSENT else _made_key, self.parts()


def _made_key(function: Any, obj: Any) -> Any:
    return functools.cmp_to_key(function)(obj)


def _call(obj: Any) -> None:
    """The signature of a call of what makes keys."""


_CALL = Arity(_call, 0)


@primitive(functools.cmp_to_key)
def _cmp_to_key(tracer: Tracer, mycmp: Any) -> Any:
    return ComparisonKey(mycmp)
