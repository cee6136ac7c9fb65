"""What objects and classes have: `dir()`, `object.__dir__`, `type.mro`."""

from __future__ import annotations

import types
from typing import TYPE_CHECKING, Any

from framelift.breaks import FL0102_OPERAND, GraphBreak
from framelift.values.containers.dicts import MISSING
from framelift.values.containers.sequences import ListValue
from framelift.values.core import protocol as py
from framelift.values.core.base import Value
from framelift.values.core.lookup import bind, class_lookup, is_fixed, mro_of
from framelift.values.core.primitives import primitive
from framelift.values.numbers.scalars import ScalarValue
from framelift.values.objects.classes import ClassValue, note_mro
from framelift.values.objects.instances import UserObjectValue

if TYPE_CHECKING:
    from framelift.values.core.tracer import Tracer


@primitive(dir)
def _dir(tracer: Tracer, obj: Any = MISSING, /) -> Any:
    if obj is MISSING:
        return _sorted(tracer, py.call(tracer, tracer.known_object(locals), [], {}))
    if not isinstance(obj, Value) or isinstance(obj, ScalarValue):
        return py.fold(tracer, dir, tracer.constant(obj))
    kind = tracer.type_of(obj)
    if isinstance(obj, ClassValue) and kind is type and all(map(is_fixed, mro_of(obj.concrete))):
        return py.fold(tracer, dir, obj.concrete)
    found = class_lookup(tracer, kind, "__dir__")
    assert found is not None
    if type(found.raw) is types.FunctionType or found.raw is object.__dir__:
        return _sorted(tracer, py.call(tracer, bind(tracer, found, obj, kind), [], {}))
    raise GraphBreak(FL0102_OPERAND, what="dir()", operand=py.describe(obj))


def _sorted(tracer: Tracer, names: Any) -> Any:
    return py.call(tracer, tracer.known_object(sorted), [names], {})


@primitive(object.__dir__)
def _object_dir(tracer: Tracer, obj: Any, /) -> Any:
    if not isinstance(obj, Value) or isinstance(obj, ScalarValue):
        return ListValue(sorted(object.__dir__(tracer.constant(obj))))
    if not isinstance(obj, UserObjectValue):
        raise GraphBreak(FL0102_OPERAND, what="object.__dir__", operand=py.describe(obj))
    namespace = obj.namespace(tracer)
    names = [] if namespace is None else list(namespace.entries(tracer))
    for cls in mro_of(obj.cls):
        names += tracer.known_object(cls).own_entries(tracer)
    return ListValue(list(dict.fromkeys(names)))


@primitive(type.mro)
def _mro(tracer: Tracer, cls: Any, /) -> Any:
    cls.note(tracer)
    order = mro_of(cls.concrete)
    if tracer.made.of(cls.concrete) is None:
        note_mro(tracer, cls.concrete, len(order))
    return ListValue([tracer.known_object(base) for base in order])
