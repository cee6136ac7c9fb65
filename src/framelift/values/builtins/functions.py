"""Python's built-in functions and types: asking about objects, numbers and strings."""

from __future__ import annotations

import datetime
import math
import operator
from typing import TYPE_CHECKING, Any

import torch

import framelift.values.builtins.bytes
import framelift.values.builtins.containers
import framelift.values.containers.collections_dicts
import framelift.values.stdlib.operator  # noqa: F401
from framelift.breaks import FL0102, FL0102_OPERAND, GraphBreak
from framelift.values.classes.statements import make_type
from framelift.values.classes.subclass_checks import own_check, subclass_check
from framelift.values.containers.dicts import MISSING
from framelift.values.containers.slices import make_slice
from framelift.values.core import protocol as py
from framelift.values.core.base import NULL, Identity, Raised, Value
from framelift.values.core.constants import is_constant
from framelift.values.core.exceptions import ExceptionValue, raise_error
from framelift.values.core.folding import fold_call
from framelift.values.core.hash_keys import EqualKey, TupleKey
from framelift.values.core.lookup import class_lookup, is_subclass, name_of, raw_lookup, special_method
from framelift.values.core.primitives import INSTANCE_CHECKS, primitive
from framelift.values.core.stand_ins import raise_by, raise_what, stand_in
from framelift.values.functions.cells import EMPTY, CellValue
from framelift.values.objects.classes import ClassValue, SuperValue, attribute_name
from framelift.values.objects.instances import OpaqueValue, UserObjectValue
from framelift.values.objects.unions import UnionValue
from framelift.values.stdlib.enum import EnumValue
from framelift.values.subclasses.scalars import ScalarObjectValue
from framelift.values.tensors.data_dependent import is_data, truth_from_data
from framelift.values.tensors.deferred import formatted, text_of

if TYPE_CHECKING:
    from framelift.values.core.tracer import Tracer

# -- asking about objects --------------------------------------------------------------------------------------------


@primitive(len)
def _len(tracer: Tracer, obj: Any, /) -> Any:
    return py.length(tracer, obj)


@primitive(bool)
def _bool(tracer: Tracer, obj: Any = False, /) -> Any:
    return truth_from_data(tracer, obj) if is_data(tracer, obj) else py.truth(tracer, obj)


@primitive(isinstance)
def _isinstance(tracer: Tracer, obj: Any, cls: Any, /) -> bool:
    return any(_is_instance(tracer, obj, c) for c in _classes(tracer, cls))


@primitive(issubclass)
def _issubclass(tracer: Tracer, obj: Any, cls: Any, /) -> bool:
    return any(_asked_subclass(tracer, obj, c) for c in _classes(tracer, cls))


def _asked_subclass(tracer: Tracer, obj: Any, cls: Any) -> bool:
    if type(cls) is UserObjectValue:  # not `isinstance`, which may ask the metaclass
        return _stand_in_says(tracer, cls, "__subclasscheck__", obj)
    own = own_check(tracer, cls, "__subclasscheck__")
    if own is not None:
        return py.truth(tracer, py.call(tracer, own, [obj], {}))
    if isinstance(obj, ClassValue):
        return subclass_check(tracer, obj.concrete, cls)
    if tracer.has_attribute(obj, "__bases__"):  # whatever has bases may stand for a class
        raise GraphBreak(FL0102_OPERAND, what="issubclass", operand=py.describe(obj))
    raise_what(issubclass, None, object)


def _stand_in_says(tracer: Tracer, stand_in: UserObjectValue, check: str, obj: Any) -> bool:
    """What an object says that is used as if it were a class: `typing.Sequence`, say."""
    method = special_method(tracer, stand_in, stand_in.cls, check)
    return py.truth(tracer, py.call(tracer, method, [obj], {}))


def _classes(tracer: Tracer, cls: Any) -> list[Any]:
    """The classes that are meant, and objects that stand for some."""
    if py.type_of(cls) is tuple:
        return [found for part in py.items(tracer, cls) for found in _classes(tracer, part)]
    if isinstance(cls, UnionValue):
        return [found for part in cls.members(tracer) for found in _classes(tracer, part)]
    if isinstance(cls, ClassValue):
        cls.note(tracer)
        return [cls.concrete]
    if type(cls) is UserObjectValue and class_lookup(tracer, tracer.type_of(cls), "__instancecheck__") is not None:
        return [cls]
    raise GraphBreak(FL0102, what=f"isinstance with {py.describe(cls)}")


def _is_instance(tracer: Tracer, obj: Any, cls: Any) -> bool:
    if type(cls) is UserObjectValue:  # not `isinstance`, which may ask the metaclass
        return _stand_in_says(tracer, cls, "__instancecheck__", obj)
    rule = INSTANCE_CHECKS.get(type(cls))
    if rule is not None:
        return rule(tracer, obj, cls)
    kind = tracer.type_of(obj)
    own = own_check(tracer, cls, "__instancecheck__")
    if own is not None:
        return kind is cls or py.truth(tracer, py.call(tracer, own, [obj], {}))
    if subclass_check(tracer, kind, cls, ("__instancecheck__", "__subclasscheck__")):
        return True
    if isinstance(obj, Value) and obj.claimed_class is not None:
        return subclass_check(tracer, obj.claimed_class, cls)
    if isinstance(obj, (UserObjectValue, OpaqueValue)):
        # An object may claim another class; `isinstance` believes it.
        claimed = class_lookup(tracer, kind, "__class__")
        if claimed is not None and claimed.raw is not _CLASS:
            raise GraphBreak(FL0102, what=f"isinstance of {obj.describe()}, which defines __class__")
    return False


_CLASS = object.__dict__["__class__"]


@primitive(callable)
def _callable(tracer: Tracer, obj: Any, /) -> bool:
    if isinstance(obj, UserObjectValue):
        return class_lookup(tracer, tracer.type_of(obj), "__call__") is not None
    return raw_lookup(tracer.type_of(obj), "__call__") is not NotImplemented


@primitive(type)
def _type(tracer: Tracer, obj: Any, /, *rest: Any, **keywords: Any) -> Any:
    if rest or keywords:
        if len(rest) != 2:
            raise_what(type, None, None)
        made = make_type(tracer, tracer.known_object(type), obj, *rest, keywords)
        init = special_method(tracer, made, py.type_of(made), "__init__")
        py.call(tracer, init, [obj, *rest], keywords)
        return made
    if isinstance(obj, Value) and obj.source is not None:
        tracer.type_of(obj)
    return tracer.known_object(py.type_of(obj))


@primitive(hash)
def _hash(tracer: Tracer, obj: Any, /) -> Any:
    key = py.key_of(tracer, obj)
    if isinstance(obj, EnumValue) and isinstance(key, Identity):
        return hash(tracer.constant(py.attribute(tracer, obj, "_name_")))
    if not _has_known_hash(key):
        raise GraphBreak(FL0102_OPERAND, what="hash", operand=py.describe(obj))
    return hash(key)


def _has_known_hash(key: Any) -> bool:
    """Whether a key has the hash of what it stands for."""
    if type(key) is TupleKey:
        return all(map(_has_known_hash, key.keys))
    return type(key) is EqualKey or (is_constant(key) and key == key)  # a NaN has that of its address


@primitive(hasattr)
def _hasattr(tracer: Tracer, obj: Any, name: Any, /) -> bool:
    return tracer.has_attribute(obj, attribute_name(tracer, name))


@primitive(getattr)
def _getattr(tracer: Tracer, obj: Any, name: Any, default: Any = MISSING, /) -> Any:
    try:
        return py.attribute(tracer, obj, attribute_name(tracer, name))
    except Raised as raised:
        error = raised.value
        if default is MISSING or not (isinstance(error, ExceptionValue) and issubclass(error.cls, AttributeError)):
            raise
    return default


@primitive(setattr)
def _setattr(tracer: Tracer, obj: Any, name: Any, value: Any, /) -> None:
    py.set_attribute(tracer, obj, attribute_name(tracer, name), value)


@primitive(delattr)
def _delattr(tracer: Tracer, obj: Any, name: Any, /) -> None:
    py.delete_attribute(tracer, obj, attribute_name(tracer, name))


@primitive(vars)
def _vars(tracer: Tracer, obj: Any = MISSING, /) -> Any:
    if obj is MISSING:
        return py.call(tracer, tracer.known_object(locals), [], {})
    if not tracer.has_attribute(obj, "__dict__"):
        raise_what(vars, 0)
    return py.attribute(tracer, obj, "__dict__")


@primitive(globals)
def _globals(tracer: Tracer) -> Any:
    assert tracer.frame is not None
    return tracer.frame.globals


def _arguments_of_super(tracer: Tracer) -> tuple[Any, Any]:
    """What `super()` without arguments means in the calling frame."""
    frame = tracer.frame
    assert frame is not None
    canonical = frame.program.canonical
    if not canonical.argument_slots:
        raise_by("def f(): super()\nf()")
    instance = frame.locals[0]
    if canonical.slot_kinds[0] != "local" and isinstance(instance, CellValue):  # not one that was passed
        instance = instance.get(tracer)
    if instance is NULL or instance is EMPTY:
        raise_by("def f(x): del x; super()\nf(None)")
    if "__class__" not in canonical.slot_names:
        raise_by("def f(x): super()\nf(None)")
    cls = frame.locals[canonical.slot_names.index("__class__")].get(tracer)
    if cls is EMPTY:
        raise_error(RuntimeError, "super(): empty __class__ cell")
    return cls, instance


@primitive(super)
def _super(tracer: Tracer, cls: Any = MISSING, instance: Any = None, /) -> Any:
    if cls is MISSING:
        cls, instance = _arguments_of_super(tracer)
    if not isinstance(cls, ClassValue):
        raise GraphBreak(FL0102, what="super() of something that is no class")
    cls.note(tracer)
    kind = tracer.type_of(instance)
    if isinstance(instance, ClassValue) and is_subclass(instance.concrete, cls.concrete):
        kind = instance.concrete
    if not is_subclass(kind, cls.concrete):
        raise GraphBreak(FL0102, what=f"super() of {name_of(cls.concrete)} and {py.describe(instance)}")
    return SuperValue(cls.concrete, instance, kind)


# -- numbers and strings ---------------------------------------------------------------------------------------------


@primitive(int)
def _int(tracer: Tracer, value: Any = 0, /, base: Any = MISSING) -> Any:
    if base is MISSING:
        return py.number(tracer, "__int__", value)
    return py.fold(tracer, int, tracer.constant(value), tracer.constant(base))


@primitive(float)
def _float(tracer: Tracer, value: Any = 0.0, /) -> Any:
    return py.number(tracer, "__float__", value)


@primitive(complex)
def _complex(tracer: Tracer, real: Any = 0, imag: Any = MISSING) -> Any:
    if imag is MISSING:
        return py.number(tracer, "__complex__", real)
    for part in (real, imag):
        if isinstance(part, ScalarObjectValue):
            part.number(tracer, "__complex__")  # breaks where that is its own
    return fold_call(tracer, complex, [real, imag], {})


@primitive(str)
def _str(tracer: Tracer, value: Any = "", /, *rest: Any) -> Any:
    if rest or py.type_of(value) is bytes:
        return py.fold(tracer, str, tracer.constant(value), *map(tracer.constant, rest))
    return text_of(tracer, value, "str")


@primitive(repr)
def _repr(tracer: Tracer, value: Any, /) -> Any:
    return text_of(tracer, value, "repr")


@primitive(ascii)
def _ascii(tracer: Tracer, value: Any, /) -> Any:
    return tracer.text(value, "repr").encode("ascii", "backslashreplace").decode("ascii")


@primitive(format)
def _format(tracer: Tracer, value: Any, spec: Any = "", /) -> Any:
    if not is_subclass(py.type_of(spec), str):
        raise_what(format, 0, stand_in(py.type_of(spec)))
    return formatted(tracer, value, spec)


@primitive(abs, operator.abs)
def _abs(tracer: Tracer, value: Any, /) -> Any:
    return py.number(tracer, "__abs__", value)


@primitive(round)
def _round(tracer: Tracer, number: Any, ndigits: Any = None) -> Any:
    return py.number(tracer, "__round__", number, *([] if ndigits is None else [ndigits]))


@primitive(math.floor)
def _floor(tracer: Tracer, value: Any, /) -> Any:
    return py.number(tracer, "__floor__", value)


@primitive(math.ceil)
def _ceil(tracer: Tracer, value: Any, /) -> Any:
    return py.number(tracer, "__ceil__", value)


@primitive(math.trunc)
def _trunc(tracer: Tracer, value: Any, /) -> Any:
    return py.number(tracer, "__trunc__", value)


def _register_constant_functions() -> None:
    for of_index in (bin, oct, hex, chr):

        def fold_index(tracer: Tracer, number: Any, /, *, _function: Any = of_index) -> Any:
            plain = tracer.as_index(number) if isinstance(number, Value) and number.has_index(tracer) else number
            return py.fold(tracer, _function, tracer.constant(plain))

        primitive(of_index)(fold_index)
    for function in (ord, torch.Size):

        def fold(tracer: Tracer, *args: Any, _function: Any = function) -> Any:
            return py.fold(tracer, _function, *map(tracer.constant, args))

        primitive(function)(fold)
    for kind in (datetime.date, datetime.timedelta):

        def fold_named(tracer: Tracer, *args: Any, _kind: Any = kind, **kwargs: Any) -> Any:
            return fold_call(tracer, _kind, list(args), kwargs)

        primitive(kind)(fold_named)


_register_constant_functions()


@primitive(pow)
def _pow(tracer: Tracer, base: Any, exp: Any, mod: Any = None) -> Any:
    return py.binary(tracer, "**", base, exp) if mod is None else py.number(tracer, "__pow__", base, exp, mod)


@primitive(range)
def _range(tracer: Tracer, first: Any, second: Any = MISSING, third: Any = MISSING, /) -> Any:
    bounds = [bound for bound in (first, second, third) if bound is not MISSING]
    return py.fold(tracer, range, *[tracer.as_index(bound) for bound in bounds])


@primitive(slice)
def _slice(tracer: Tracer, first: Any, second: Any = MISSING, third: Any = None, /) -> Any:
    bounds = (first,) if second is MISSING else (first, second, third)
    start, stop, step = (None, bounds[0], None) if len(bounds) == 1 else (*bounds, None)[:3]
    return make_slice(start, stop, step)
