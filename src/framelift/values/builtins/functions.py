"""Python's built-in functions and types: asking about objects, numbers and strings."""

from __future__ import annotations

import datetime
import operator
from typing import TYPE_CHECKING, Any

import torch

import framelift.values.builtins.bytes
import framelift.values.builtins.containers
import framelift.values.containers.collections_dicts
import framelift.values.stdlib.operator  # noqa: F401
from framelift.breaks import FL0102, GraphBreak
from framelift.values.builtins.number_methods import HasMethods, by_method, divmod_of_objects, plain_number
from framelift.values.classes.statements import make_type
from framelift.values.classes.subclass_checks import own_check, subclass_check
from framelift.values.containers.dicts import MISSING
from framelift.values.core import protocol as py
from framelift.values.core.base import NULL, Identity, Raised, Value
from framelift.values.core.constants import is_constant
from framelift.values.core.exceptions import ExceptionValue, raise_error
from framelift.values.core.hash_keys import EqualKey, TupleKey
from framelift.values.core.lookup import class_lookup, is_subclass, name_of, raw_lookup, scalar_base, special_method
from framelift.values.core.primitives import INSTANCE_CHECKS, primitive
from framelift.values.functions.c_functions import fold_call
from framelift.values.functions.cells import EMPTY, CellValue
from framelift.values.numbers.numpy_floats import NumpyFloatValue
from framelift.values.numbers.scalars import derive, is_number
from framelift.values.numbers.symbolic import SymbolicValue
from framelift.values.numpy.arrays import ArrayValue
from framelift.values.objects.classes import ClassValue, SuperValue, attribute_name
from framelift.values.objects.instances import OpaqueValue, UserObjectValue, plain_answer
from framelift.values.objects.unions import UnionValue
from framelift.values.stdlib.decimal.numbers import DecimalValue
from framelift.values.stdlib.enum import EnumValue
from framelift.values.subclasses.scalars import ScalarObjectValue
from framelift.values.tensors.data_dependent import as_number, is_data, truth_from_data
from framelift.values.tensors.deferred import formatted, text_of
from framelift.values.tensors.tensors import TensorValue

if TYPE_CHECKING:
    from framelift.capture.lift import Lift

# -- asking about objects --------------------------------------------------------------------------------------------


@primitive(len)
def _len(lift: Lift, obj: Any, /) -> Any:
    return py.length(lift, obj)


@primitive(bool)
def _bool(lift: Lift, obj: Any = False, /) -> Any:
    return truth_from_data(lift, obj) if is_data(lift, obj) else py.truth(lift, obj)


@primitive(isinstance)
def _isinstance(lift: Lift, obj: Any, cls: Any, /) -> bool:
    return any(_is_instance(lift, obj, c) for c in _classes(lift, cls))


@primitive(issubclass)
def _issubclass(lift: Lift, obj: Any, cls: Any, /) -> bool:
    return any(_asked_subclass(lift, obj, c) for c in _classes(lift, cls))


def _asked_subclass(lift: Lift, obj: Any, cls: Any) -> bool:
    if type(cls) is UserObjectValue:  # not `isinstance`, which may ask the metaclass
        return _stand_in_says(lift, cls, "__subclasscheck__", obj)
    own = own_check(lift, cls, "__subclasscheck__")
    if own is not None:
        return py.truth(lift, py.call(lift, own, [obj], {}))
    if isinstance(obj, ClassValue):
        return subclass_check(lift, obj.concrete, cls)
    if lift.has_attribute(obj, "__bases__"):  # whatever has bases may stand for a class
        raise GraphBreak(FL0102, what=f"issubclass of {py.describe(obj)}")
    raise_error(TypeError, "issubclass() arg 1 must be a class")


def _stand_in_says(lift: Lift, stand_in: UserObjectValue, check: str, obj: Any) -> bool:
    """What an object says that is used as if it were a class: `typing.Sequence`, say."""
    method = special_method(lift, stand_in, stand_in.cls, check)
    return py.truth(lift, py.call(lift, method, [obj], {}))


def _classes(lift: Lift, cls: Any) -> list[Any]:
    """The classes that are meant, and objects that stand for some."""
    if py.type_of(cls) is tuple:
        return [found for part in py.items(lift, cls) for found in _classes(lift, part)]
    if isinstance(cls, UnionValue):
        return [found for part in cls.members(lift) for found in _classes(lift, part)]
    if isinstance(cls, ClassValue):
        cls.note(lift)
        return [cls.concrete]
    if type(cls) is UserObjectValue and class_lookup(lift, lift.type_of(cls), "__instancecheck__") is not None:
        return [cls]
    raise GraphBreak(FL0102, what=f"isinstance with {py.describe(cls)}")


def _is_instance(lift: Lift, obj: Any, cls: Any) -> bool:
    if type(cls) is UserObjectValue:  # not `isinstance`, which may ask the metaclass
        return _stand_in_says(lift, cls, "__instancecheck__", obj)
    rule = INSTANCE_CHECKS.get(type(cls))
    if rule is not None:
        return rule(lift, obj, cls)
    kind = lift.type_of(obj)
    own = own_check(lift, cls, "__instancecheck__")
    if own is not None:
        return kind is cls or py.truth(lift, py.call(lift, own, [obj], {}))
    if subclass_check(lift, kind, cls, ("__instancecheck__", "__subclasscheck__")):
        return True
    if isinstance(obj, Value) and obj.claimed_class is not None:
        return subclass_check(lift, obj.claimed_class, cls)
    if isinstance(obj, (UserObjectValue, OpaqueValue)):
        # An object may claim another class; `isinstance` believes it.
        claimed = class_lookup(lift, kind, "__class__")
        if claimed is not None and claimed.raw is not _CLASS:
            raise GraphBreak(FL0102, what=f"isinstance of {obj.describe()}, which defines __class__")
    return False


_CLASS = object.__dict__["__class__"]


@primitive(callable)
def _callable(lift: Lift, obj: Any, /) -> bool:
    if isinstance(obj, UserObjectValue):
        return class_lookup(lift, lift.type_of(obj), "__call__") is not None
    return raw_lookup(lift.type_of(obj), "__call__") is not NotImplemented


@primitive(type)
def _type(lift: Lift, obj: Any, /, *rest: Any, **keywords: Any) -> Any:
    if rest or keywords:
        if len(rest) != 2:
            raise_error(TypeError, "type() takes 1 or 3 arguments")
        made = make_type(lift, lift.known_object(type), obj, *rest, keywords)
        init = special_method(lift, made, py.type_of(made), "__init__")
        py.call(lift, init, [obj, *rest], keywords)
        return made
    if isinstance(obj, Value) and obj.source is not None:
        lift.type_of(obj)
    return lift.known_object(py.type_of(obj))


@primitive(hash)
def _hash(lift: Lift, obj: Any, /) -> Any:
    key = py.key_of(lift, obj)
    if isinstance(obj, EnumValue) and isinstance(key, Identity):
        return hash(lift.constant(py.attribute(lift, obj, "_name_")))
    if not _has_known_hash(key):
        raise GraphBreak(FL0102, what=f"hash of {py.describe(obj)}")
    return hash(key)


def _has_known_hash(key: Any) -> bool:
    """Whether a key has the hash of what it stands for."""
    if type(key) is TupleKey:
        return all(map(_has_known_hash, key.keys))
    return type(key) is EqualKey or (is_constant(key) and key == key)  # a NaN has that of its address


@primitive(hasattr)
def _hasattr(lift: Lift, obj: Any, name: Any, /) -> bool:
    return lift.has_attribute(obj, attribute_name(lift, name))


@primitive(getattr)
def _getattr(lift: Lift, obj: Any, name: Any, default: Any = MISSING, /) -> Any:
    try:
        return py.attribute(lift, obj, attribute_name(lift, name))
    except Raised as raised:
        error = raised.value
        if default is MISSING or not (isinstance(error, ExceptionValue) and issubclass(error.cls, AttributeError)):
            raise
    return default


@primitive(setattr)
def _setattr(lift: Lift, obj: Any, name: Any, value: Any, /) -> None:
    py.set_attribute(lift, obj, attribute_name(lift, name), value)


@primitive(delattr)
def _delattr(lift: Lift, obj: Any, name: Any, /) -> None:
    py.delete_attribute(lift, obj, attribute_name(lift, name))


@primitive(vars)
def _vars(lift: Lift, obj: Any = MISSING, /) -> Any:
    if obj is MISSING:
        return py.call(lift, lift.known_object(locals), [], {})
    if not lift.has_attribute(obj, "__dict__"):
        raise_error(TypeError, "vars() argument must have __dict__ attribute")
    return py.attribute(lift, obj, "__dict__")


@primitive(globals)
def _globals(lift: Lift) -> Any:
    assert lift.frame is not None
    return lift.frame.globals


def _arguments_of_super(lift: Lift) -> tuple[Any, Any]:
    """What `super()` without arguments means in the calling frame."""
    frame = lift.frame
    assert frame is not None
    canonical = frame.program.canonical
    if not canonical.argument_slots:
        raise_error(RuntimeError, "super(): no arguments")
    instance = frame.locals[0]
    if canonical.slot_kinds[0] != "local" and isinstance(instance, CellValue):  # not one that was passed
        instance = instance.get(lift)
    if instance is NULL or instance is EMPTY:
        raise_error(RuntimeError, "super(): arg[0] deleted")
    if "__class__" not in canonical.slot_names:
        raise_error(RuntimeError, "super(): __class__ cell not found")
    cls = frame.locals[canonical.slot_names.index("__class__")].get(lift)
    if cls is EMPTY:
        raise_error(RuntimeError, "super(): empty __class__ cell")
    return cls, instance


@primitive(super)
def _super(lift: Lift, cls: Any = MISSING, instance: Any = None, /) -> Any:
    if cls is MISSING:
        cls, instance = _arguments_of_super(lift)
    if not isinstance(cls, ClassValue):
        raise GraphBreak(FL0102, what="super() of something that is no class")
    cls.note(lift)
    kind = lift.type_of(instance)
    if isinstance(instance, ClassValue) and is_subclass(instance.concrete, cls.concrete):
        kind = instance.concrete
    if not is_subclass(kind, cls.concrete):
        raise GraphBreak(FL0102, what=f"super() of {name_of(cls.concrete)} and {py.describe(instance)}")
    return SuperValue(cls.concrete, instance, kind)


# -- numbers and strings ---------------------------------------------------------------------------------------------


@primitive(int)
def _int(lift: Lift, value: Any = 0, /, base: Any = MISSING) -> Any:
    return _number(lift, int, "__int__", value, base)


@primitive(float)
def _float(lift: Lift, value: Any = 0.0, /) -> Any:
    return _number(lift, float, "__float__", value, MISSING)


def _number(lift: Lift, kind: type, name: str, value: Any, base: Any) -> Any:
    if isinstance(value, TensorValue):
        return as_number(lift, value, name)
    if isinstance(value, UserObjectValue):
        is_text = scalar_base(lift.type_of(value)) in (str, bytes)
        if base is not MISSING:
            if not is_text:
                raise GraphBreak(FL0102, what="int() of an object with a base")
            return py.fold(lift, kind, lift.constant(value), lift.constant(base))
        if class_lookup(lift, value.cls, name) is None:
            if kind is int and class_lookup(lift, value.cls, "__trunc__") is not None:
                raise GraphBreak(FL0102, what="int() of an object with __trunc__()")  # older versions ask it, and warn
            if is_text and class_lookup(lift, value.cls, "__index__") is None:
                return py.fold(lift, kind, lift.constant(value))
            return py.fold(lift, kind, plain_number(lift, kind, value, ["__index__"]))
        result = by_method(lift, kind, value, [name])
        if not is_subclass(py.type_of(result), kind):
            owner = f"{name_of(value.cls)}." if kind is float else ""
            what = f"non-{kind.__name__} (type {name_of(py.type_of(result))})"
            raise_error(TypeError, f"{owner}{name} returned {what}")
        if py.type_of(result) is not kind:
            raise GraphBreak(FL0102, what=f"{name}() that gives {py.describe(result)}")  # Python warns
        return result
    if base is MISSING and isinstance(value, ArrayValue):
        return value.number(lift, name)
    if base is MISSING and isinstance(value, SymbolicValue) and (kind is float or value.python_type() is int):
        return value if value.python_type() is kind else py.binary(lift, "*", value, 1.0)
    if base is MISSING and isinstance(value, (SymbolicValue, DecimalValue)):
        calculated = lift.calculate(kind, value)
        if calculated is not None:
            return calculated
    if base is MISSING and isinstance(value, NumpyFloatValue):
        return py.fold(lift, kind, value.plain())
    if base is MISSING and isinstance(value, Value) and is_number(value) and py.type_of(value) in (kind, bool):
        return derive(lift, kind, value)
    rest = [] if base is MISSING else [lift.constant(base)]
    _refuse_named_tuple(value)
    return py.fold(lift, kind, lift.constant(value), *rest)


def _refuse_named_tuple(value: Any) -> None:
    """No number is made of one: Python says so of its class, which is not that of the constant."""
    if is_subclass(py.type_of(value), tuple) and py.type_of(value) is not tuple:
        raise GraphBreak(FL0102, what=f"a number made of a {py.describe(value)}")


@primitive(complex)
def _complex(lift: Lift, real: Any = 0, imag: Any = MISSING) -> Any:
    if any(isinstance(part, ScalarObjectValue) and _is_own_complex(lift, part.cls) for part in (real, imag)):
        raise GraphBreak(FL0102, what="complex() of a number that says itself what it is")
    if imag is MISSING and type(real) is UserObjectValue:
        return py.fold(lift, complex, plain_number(lift, complex, real, ["__complex__", "__float__", "__index__"]))
    _refuse_named_tuple(real)
    return fold_call(lift, complex, [real] if imag is MISSING else [real, imag], {})


def _is_own_complex(lift: Lift, cls: type) -> bool:
    found = class_lookup(lift, cls, "__complex__")
    return found is not None and found.raw is not raw_lookup(complex, "__complex__")


@primitive(str)
def _str(lift: Lift, value: Any = "", /, *rest: Any) -> Any:
    if rest or py.type_of(value) is bytes:
        return py.fold(lift, str, lift.constant(value), *map(lift.constant, rest))
    return text_of(lift, value, "str")


@primitive(repr)
def _repr(lift: Lift, value: Any, /) -> Any:
    return text_of(lift, value, "repr")


@primitive(ascii)
def _ascii(lift: Lift, value: Any, /) -> Any:
    return lift.text(value, "repr").encode("ascii", "backslashreplace").decode("ascii")


@primitive(format)
def _format(lift: Lift, value: Any, spec: Any = "", /) -> Any:
    if not is_subclass(py.type_of(spec), str):
        found = "None" if spec is None else name_of(py.type_of(spec))
        raise_error(TypeError, f"format() argument 2 must be str, not {found}")
    return formatted(lift, value, spec)


@primitive(abs, operator.abs)
def _abs(lift: Lift, value: Any, /) -> Any:
    return _dunder(lift, abs, "__abs__", torch.abs, value)


@primitive(round)
def _round(lift: Lift, number: Any, ndigits: Any = None) -> Any:
    if isinstance(number, TensorValue):
        kwargs = {} if ndigits is None else {"decimals": ndigits}
        return lift.call_torch(torch.round, (number,), kwargs)
    if isinstance(number, HasMethods):
        return by_method(lift, round, number, ["__round__"], *([] if py.same(lift, ndigits, None) else [ndigits]))
    calculated = lift.calculate(round, number) if ndigits is None else lift.calculate(round, number, ndigits)
    if calculated is not None:
        return calculated
    return py.fold(lift, round, lift.constant(number), lift.constant(ndigits))


def _dunder(lift: Lift, function: Any, name: str, torch_function: Any, value: Any) -> Any:
    if isinstance(value, TensorValue):
        return lift.call_torch(torch_function, (value,), {})
    if isinstance(value, HasMethods):
        return by_method(lift, function, value, [name])
    if isinstance(value, Value) and is_number(value):
        return derive(lift, function, value)
    calculated = lift.calculate(function, value)
    if calculated is not None:
        return calculated
    return py.fold(lift, function, lift.constant(value))


def _is_container(value: Any) -> bool:
    return any(is_subclass(py.type_of(value), kind) for kind in (tuple, list, dict, set))


@primitive(divmod)
def _divmod(lift: Lift, left: Any, right: Any, /) -> Any:
    symbolic = isinstance(left, SymbolicValue) or isinstance(right, SymbolicValue)
    if symbolic and all(isinstance(operand, SymbolicValue) or is_number(operand) for operand in (left, right)):
        return lift.tuple([py.binary(lift, "//", left, right), py.binary(lift, "%", left, right)])
    if any(isinstance(operand, UserObjectValue) or _is_container(operand) for operand in (left, right)):
        return divmod_of_objects(lift, left, right)
    calculated = lift.calculate(divmod, left, right)
    if calculated is not None:
        return calculated
    return py.fold(lift, divmod, lift.constant(left), lift.constant(right))


def _register_constant_functions() -> None:
    for of_index in (bin, oct, hex, chr):

        def fold_index(lift: Lift, number: Any, /, *, _function: Any = of_index) -> Any:
            plain = lift.as_index(number) if isinstance(number, Value) and lift.has_index(number) else number
            return py.fold(lift, _function, lift.constant(plain))

        primitive(of_index)(fold_index)
    for function in (ord, torch.Size):

        def fold(lift: Lift, *args: Any, _function: Any = function) -> Any:
            return py.fold(lift, _function, *map(lift.constant, args))

        primitive(function)(fold)
    for kind in (datetime.date, datetime.timedelta):

        def fold_named(lift: Lift, *args: Any, _kind: Any = kind, **kwargs: Any) -> Any:
            return fold_call(lift, _kind, list(args), kwargs)

        primitive(kind)(fold_named)


_register_constant_functions()


@primitive(pow)
def _pow(lift: Lift, base: Any, exp: Any, mod: Any = None) -> Any:
    if mod is None:
        return py.binary(lift, "**", base, exp)
    if isinstance(base, UserObjectValue):
        result = plain_answer(lift, by_method(lift, pow, base, ["__pow__"], exp, mod))
        if result is NotImplemented:
            raise GraphBreak(FL0102, what="pow() of objects that do not know each other")
        return result
    if isinstance(exp, UserObjectValue) or isinstance(mod, UserObjectValue):
        raise GraphBreak(FL0102, what="pow() of objects")
    calculated = lift.calculate(pow, base, exp, mod)
    if calculated is not None:
        return calculated
    return py.fold(lift, pow, lift.constant(base), lift.constant(exp), lift.constant(mod))


@primitive(range)
def _range(lift: Lift, first: Any, second: Any = MISSING, third: Any = MISSING, /) -> Any:
    bounds = [bound for bound in (first, second, third) if bound is not MISSING]
    return py.fold(lift, range, *[lift.as_index(bound) for bound in bounds])


@primitive(slice)
def _slice(lift: Lift, first: Any, second: Any = MISSING, third: Any = None, /) -> Any:
    bounds = (first,) if second is MISSING else (first, second, third)
    start, stop, step = (None, bounds[0], None) if len(bounds) == 1 else (*bounds, None)[:3]
    return lift.slice(start, stop, step)
