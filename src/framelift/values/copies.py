"""What the models of `copy` ask about an object: whether it is its own copy, whether it is a class and a namespace."""

from __future__ import annotations

import types
import weakref
from typing import TYPE_CHECKING, Any

from framelift.models.copying import is_atomic, is_plain_object
from framelift.values import protocol as py
from framelift.values.base import Value
from framelift.values.constants import is_constant
from framelift.values.dicts import MISSING
from framelift.values.enums import EnumValue
from framelift.values.lookup import class_lookup, has_default, mro_of, raw_lookup
from framelift.values.objects import UserObjectValue
from framelift.values.primitives import primitive

if TYPE_CHECKING:
    from framelift.capture.lift import Lift

# What `copy` takes for unchangeable, besides constants and classes.
_ATOMIC = frozenset(map(id, (types.FunctionType, types.BuiltinFunctionType, weakref.ref, property)))
_SLOT: type = type(type("_Slotted", (), {"__slots__": ("field",)}).__dict__["field"])


@primitive(is_atomic)
def _is_atomic(lift: Lift, obj: Any) -> bool:
    kind = lift.type_of(obj)
    if not isinstance(obj, Value):
        return is_constant(obj)
    if isinstance(obj, EnumValue):
        return all(_is_default(lift, kind, name) for name in ("__deepcopy__", "__copy__", "__reduce_ex__"))
    return (
        id(kind) in _ATOMIC
        or any(base is type for base in mro_of(kind))
        or (obj.source is not None and is_constant(obj.concrete))
    )


def _is_default(lift: Lift, kind: type, name: str) -> bool:
    """Whether an enumeration has what the enum module gives all of them."""
    base = next(base for base in mro_of(kind) if base.__module__ == "enum")
    return has_default(lift, kind, name, raw_lookup(base, name))


@primitive(is_plain_object)
def _is_plain_object(lift: Lift, obj: Any) -> bool:
    if type(obj) is not UserObjectValue:
        return False
    obj.note(lift)
    cls = obj.cls
    defaults = ("__reduce_ex__", "__reduce__", "__getstate__")
    absent = ("__getnewargs__", "__getnewargs_ex__")
    namespace = obj.namespace(lift)
    return (
        all(has_default(lift, cls, name, object.__dict__[name]) for name in defaults)
        and all(class_lookup(lift, cls, name) is None for name in absent)
        and namespace is not None
        and all(namespace.get_key(lift, name) is MISSING for name in (*defaults, "__deepcopy__", "__copy__"))
        and not any(type(member) is _SLOT for base in mro_of(cls) for member in vars(base).values())
        and py.same(lift, py.attribute(lift, obj, "__class__"), lift.known_object(cls))
    )
