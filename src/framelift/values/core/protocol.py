"""Python's operations over the two kinds of things on the interpreter's stack: plain constants and values.

Every operation the interpreter or a model needs goes through a function here. On constants it runs Python's own
operator; on a value it first notes the guard that makes the value's model valid, then asks the value.
"""

from __future__ import annotations

import datetime
import itertools
import math
import operator
import types
import warnings
from collections import deque
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any, TypeVar

from framelift.breaks import FL0102, FL0108, FL0201, GraphBreak
from framelift.guards.checks import COMPARISONS
from framelift.values.core.base import ROLES, Exhausted, Raised, Value
from framelift.values.core.constants import is_constant
from framelift.values.core.construct import from_constant, iterator_over, make_frozenset
from framelift.values.core.exceptions import is_raised, name_missing, raise_error, raised_from

if TYPE_CHECKING:
    from framelift.values.core.tracer import Tracer

T = TypeVar("T")

BINARY: dict[str, Callable[[Any, Any], Any]] = {
    "+": operator.add,
    "-": operator.sub,
    "*": operator.mul,
    "/": operator.truediv,
    "//": operator.floordiv,
    "%": operator.mod,
    "**": operator.pow,
    "@": operator.matmul,
    "<<": operator.lshift,
    ">>": operator.rshift,
    "&": operator.and_,
    "|": operator.or_,
    "^": operator.xor,
    "divmod": divmod,
    "+=": operator.iadd,
    "-=": operator.isub,
    "*=": operator.imul,
    "/=": operator.itruediv,
    "//=": operator.ifloordiv,
    "%=": operator.imod,
    "**=": operator.ipow,
    "@=": operator.imatmul,
    "<<=": operator.ilshift,
    ">>=": operator.irshift,
    "&=": operator.iand,
    "|=": operator.ior,
    "^=": operator.ixor,
}
COMPARE = COMPARISONS
MIRRORED = {"<": ">", "<=": ">=", "==": "==", "!=": "!=", ">": "<", ">=": "<="}
UNARY: dict[str, Callable[[Any], Any]] = {"-": operator.neg, "+": operator.pos, "~": operator.invert}

# The functions that ask a number for one slot of its type.
NUMBER_SLOTS: dict[str, Callable[..., Any]] = {
    "__int__": int,
    "__float__": float,
    "__complex__": complex,
    "__abs__": abs,
    "__round__": round,
    "__floor__": math.floor,
    "__ceil__": math.ceil,
    "__trunc__": math.trunc,
    "__pow__": pow,  # with a modulus
}

# A warning is about the program's line, and is heard in each call: none may be given while capturing, from here.
# Python takes no such registry of warnings, whatever the filters say: an operation that warns fails (see `in_program`).
__warningregistry__ = ()


def _refusal() -> tuple[Any, ...]:
    """What Python says of that registry."""
    try:
        warnings.warn("never heard", stacklevel=1)
    except TypeError as error:
        return error.args
    raise AssertionError("a warning is given without a registry")


_REFUSAL = _refusal()


def fold(tracer: Tracer, function: Callable[..., Any], *args: Any, **kwargs: Any) -> Any:
    """Run a C-level function on plain constants; what it raises is raised in the traced program."""
    try:
        result = function(*args, **kwargs)
    except (Raised, GraphBreak):  # of the traced program, which is asked for what stands for a value
        raise
    except Exception as error:  # noqa: BLE001  (whatever it raises, the program raises)
        # (A variable for it would be a cycle, by its traceback, that keeps the program's arguments.)
        raise in_program(tracer, error) from None
    return from_constant(tracer, result)


def evaluate(tracer: Tracer, function: Callable[..., Any], *args: Any, **kwargs: Any) -> Any:
    """As `fold`, where the result is for the caller to model."""
    try:
        return function(*args, **kwargs)
    except Exception as error:  # noqa: BLE001  (as above)
        raise in_program(tracer, error) from None


def in_program(tracer: Tracer, error: Exception) -> Raised | GraphBreak:
    """What the program sees of an exception that an operation on constants raised."""
    if type(error) is TypeError and error.args == _REFUSAL:
        return GraphBreak(FL0102, what="something that warns")
    raised = raised_from(error)
    for name, value in vars(error).items():  # a class written in Python may have set attributes
        raised.value.namespace(tracer).set_key(tracer, name, from_constant(tracer, value))
    return raised


def type_of(value: Any) -> type:
    """`type(value)`, without a guard."""
    return value.python_type() if isinstance(value, Value) else type(value)


def has_type(value: Any, *classes: type) -> bool:
    """Whether a value is of exactly one of these types. Not `in`: the metaclass of its type may have an `==`."""
    kind = type_of(value)
    return any(kind is cls for cls in classes)


def describe(value: Any) -> str:
    """What a value is, for reasons of breaks."""
    return value.describe() if isinstance(value, Value) else type(value).__name__


def unless_refused(tracer: Tracer, operation: Callable[..., Any], *args: Any) -> Any:
    """What an operator gives for plain operands; NotImplemented where they do not know each other.

    Python then names the operands as the program wrote them.
    """
    try:
        return operation(tracer, *args)
    except Raised as raised:
        if is_raised(raised, TypeError):
            return NotImplemented
        raise


def truth(tracer: Tracer, value: Any) -> bool:
    """`bool(value)`."""
    if not isinstance(value, Value):
        try:
            return bool(value)
        except TypeError as error:  # of `NotImplemented`
            raise in_program(tracer, error) from None
    value.note(tracer)
    return value.truth(tracer)


def length(tracer: Tracer, value: Any) -> Any:
    """`len(value)`."""
    if not isinstance(value, Value):
        return fold(tracer, len, value)
    value.note(tracer)
    return value.length(tracer)


def item(tracer: Tracer, container: Any, key: Any) -> Any:
    """`container[key]`."""
    if isinstance(container, Value):
        container.note(tracer)
        return container.item(tracer, key)
    if isinstance(key, Value):
        if is_constant(container) and isinstance(container, (tuple, str, bytes, range)):
            return fold(tracer, operator.getitem, container, _subscript(tracer, key))
        raise GraphBreak(FL0201, operation=f"indexing by {key.describe()}", type=type(container).__name__)
    return fold(tracer, operator.getitem, container, key)


def _subscript(tracer: Tracer, key: Value) -> Any:
    return tracer.as_index(key) if key.has_index(tracer) else key.subscript(tracer)


def set_item(tracer: Tracer, container: Any, key: Any, value: Any) -> None:
    """`container[key] = value`."""
    if not isinstance(container, Value):
        fold(tracer, operator.setitem, container, key_like(key), None)  # says that constants have no items to set
        return
    container.note(tracer)
    container.set_item(tracer, key, value)


def delete_item(tracer: Tracer, container: Any, key: Any) -> None:
    """`del container[key]`."""
    if not isinstance(container, Value):
        fold(tracer, operator.delitem, container, key_like(key))
        return
    container.note(tracer)
    container.delete_item(tracer, key)


def key_like(key: Any) -> Any:
    """A constant that stands for a key where no items can be set or deleted: Python looks whether it is a number."""
    if not isinstance(key, Value):
        return key
    if has_type(key, int, bool):
        return 0
    if any("__index__" in _namespace(base) for base in _mro(type_of(key))):
        raise GraphBreak(FL0102, what=f"an operation that fails, but asks a {describe(key)} for its number first")
    return None


def iterate(tracer: Tracer, value: Any) -> Value:
    """`iter(value)`."""
    if isinstance(value, Value):
        value.note(tracer)
        return value.iterate(tracer)
    if not hasattr(type(value), "__iter__"):
        return fold(tracer, iter, value)
    return iterator_over(value)


def next_item(tracer: Tracer, iterator: Any) -> Any:
    """The next item; raises Exhausted at the end."""
    if not isinstance(iterator, Value):
        return fold(tracer, next, iterator)  # says that constants are none
    iterator.note(tracer)
    return iterator.next(tracer)


def items(tracer: Tracer, iterable: Any) -> list[Any]:
    """All items of an iterable."""
    if type(iterable) is tuple:
        return list(iterable)
    return _rest(tracer, iterate(tracer, iterable))


def listed(tracer: Tracer, iterable: Any) -> list[Any]:
    """All items, for a list or tuple of them: who makes one also asks how many there are."""
    if type(iterable) is tuple:
        return list(iterable)
    iterator = iterate(tracer, iterable)
    if isinstance(iterable, Value):
        iterable.ask_length(tracer)
    return _rest(tracer, iterator)


def _rest(tracer: Tracer, iterator: Any) -> list[Any]:
    found = []
    try:
        while True:
            found.append(iterator.next(tracer))
            if not len(found) % _MANY:
                tracer.spend(_MANY, "too many items")
    except Exhausted:
        return found


def each(tracer: Tracer, iterable: Any, asks_length: bool = False) -> Iterator[Any]:
    """The items, one by one: for what is done with one before the next is made, and stays done if that raises."""
    iterator = iterate(tracer, iterable)
    if asks_length and isinstance(iterable, Value):
        iterable.ask_length(tracer)
    for count in itertools.count(1):
        try:
            item = iterator.next(tracer)
        except Exhausted:
            return
        yield item
        if not count % _MANY:
            tracer.spend(_MANY, "too many items")


def first_items(tracer: Tracer, iterable: Any, most: int) -> list[Any]:
    """The first items of an iterable, which is asked for no more than these."""
    if type(iterable) is tuple:
        return list(iterable[:most])
    return next_items(tracer, iterate(tracer, iterable), most)


def next_items(tracer: Tracer, iterator: Any, most: int) -> list[Any]:
    """The next items of an iterator, as far as there are any."""
    found: list[Any] = []
    try:
        while len(found) < most:
            found.append(iterator.next(tracer))
    except Exhausted:
        pass
    return found


# Items are counted by the thousand: most iterables have fewer.
_MANY = 1000


def contains(tracer: Tracer, container: Any, element: Any) -> Any:
    """`element in container`."""
    if isinstance(container, Value):
        container.note(tracer)
        return container.contains(tracer, element)
    if isinstance(element, Value):
        if isinstance(container, (str, bytes)):
            element = tracer.constant(element)
        elif isinstance(container, frozenset):
            return make_frozenset(container).contains(tracer, element)
        elif hasattr(type(container), "__iter__"):
            return any(equal(tracer, element, member) for member in items(tracer, container))
        else:
            element = None  # whatever it is, Python says what is wrong with the container
    return fold(tracer, operator.contains, container, element)


def call(tracer: Tracer, function: Any, args: list[Any], kwargs: dict[str, Any]) -> Any:
    """`function(*args, **kwargs)`."""
    if not isinstance(function, Value):
        return fold(tracer, operator.call, function)  # says that constants are not callable
    function.note(tracer)
    return function.call(tracer, args, kwargs)


def attribute(tracer: Tracer, value: Any, name: str) -> Any:
    """`value.name`."""
    try:
        if isinstance(value, Value):
            value.note(tracer)
            return value.attribute(tracer, name)
        return constant_attribute(tracer, value, name)
    except Raised as raised:
        raise name_missing(raised, name, value) from None


def constant_attribute(tracer: Tracer, value: Any, name: str) -> Any:
    """`value.name` for a plain constant."""
    if name == "__class__":
        return tracer.known_object(type(value))
    try:
        found = getattr(value, name)
    except AttributeError as error:
        raise_error(AttributeError, *error.args)
    if is_constant(found):
        return found
    return ROLES["constant method"](value, name)


def set_attribute(tracer: Tracer, value: Any, name: str, new: Any) -> None:
    """`value.name = new`."""
    if not isinstance(value, Value):
        fold(tracer, setattr, value, name, None)  # says why constants have no attributes to set
        return
    value.note(tracer)
    value.set_attribute(tracer, name, new)


def delete_attribute(tracer: Tracer, value: Any, name: str) -> None:
    """`del value.name`."""
    if not isinstance(value, Value):
        fold(tracer, delattr, value, name)
        return
    value.note(tracer)
    value.delete_attribute(tracer, name)


def format_value(tracer: Tracer, value: Any, spec: Any) -> str:
    """`format(value, spec)`."""
    if isinstance(value, Value):
        return value.format(tracer, spec)
    plain = tracer.constant(spec)
    if plain and type(value) is datetime.date:
        raise GraphBreak(FL0102, what="date.__format__")  # in the language of the day
    text: str = fold(tracer, format, value, plain)
    return text


def unary(tracer: Tracer, symbol: str, value: Any) -> Any:
    """`-value`, `+value`, `~value` or `not value`."""
    if symbol == "not":
        return not truth(tracer, value)
    if not isinstance(value, Value):
        return fold(tracer, UNARY[symbol], value)
    value.note(tracer)
    return value.unary(tracer, symbol)


def number(tracer: Tracer, slot: str, value: Any, *args: Any) -> Any:
    """`int(value)`, `round(value, *args)` and their like, by the slot that they ask for."""
    if isinstance(value, Value):
        value.note(tracer)
        result = value.number(tracer, slot, *args)
        if result is not NotImplemented:
            return result
    elif not args:
        return fold(tracer, NUMBER_SLOTS[slot], value)
    calculated = tracer.calculate(NUMBER_SLOTS[slot], value, *args)
    if calculated is not None:
        return calculated
    return fold(tracer, NUMBER_SLOTS[slot], *map(tracer.constant, (value, *args)))


def binary(tracer: Tracer, symbol: str, left: Any, right: Any) -> Any:
    """`left + right` and its like, in place with `+=` and its like."""
    left_is_value, right_is_value = isinstance(left, Value), isinstance(right, Value)
    if not left_is_value and not right_is_value:
        _refuse_huge(symbol.removesuffix("="), left, right)
        return fold(tracer, BINARY[symbol], left, right)
    if left_is_value:
        left.note(tracer)
    if right_is_value:
        right.note(tracer)
        if left_is_value and type(left) is not type(right):  # what they say of each other depends on their types
            left.guarded_type(tracer)
            right.guarded_type(tracer)
    plain = symbol.removesuffix("=")
    # A subclass on the right that overrides the operation goes first, as in CPython; but not before an operation in
    # place, which only lists have as sequences and not as numbers.
    right_first = (
        right_is_value and _is_proper_subclass(type_of(right), type_of(left)) and right.goes_first(plain, type_of(left))
    )
    if left_is_value and plain != symbol and not (right_first and type_of(left) is list):
        result = left.binary(tracer, symbol, right)
        if result is not NotImplemented:
            return result
    if right_first:
        result = right.reflected(tracer, plain, left)
        if result is not NotImplemented:
            return result
    if left_is_value:
        in_place = plain != symbol and right_first and type_of(left) is list
        result = left.binary(tracer, symbol if in_place else plain, right)
        if result is not NotImplemented:
            return result
    if plain == "%" and has_type(left, str, bytes):  # which take every operand
        return tracer.format_by_percent(left, right)
    if right_is_value and not right_first:
        result = right.reflected(tracer, plain, left)
        if result is not NotImplemented:
            return result
    if plain == "*" and not (symbol == "*=" and (type_of(left) is list or type_of(left) is deque)):
        # (In place, no object of a class says how often to repeat something: it might be a sequence itself.)
        for sequence, times in ((left, right), (right, left))[: 1 if plain != symbol else 2]:
            if is_sequence(type_of(sequence)) and isinstance(times, Value) and times.has_index(tracer):
                return binary(tracer, "*", sequence, tracer.as_index(times))
    known = _operands_are_known(left) and _operands_are_known(right)
    if known and not _has_own_ways(symbol, type_of(left), type_of(right)):
        tracer.refuse_operands(symbol, type_of(left), type_of(right))
    raise GraphBreak(FL0201, operation=f"{symbol} with {describe(right)}", type=describe(left))


# Types that repeat and join as sequences: what is wrong with the other operand is said in their words.
_SEQUENCES = (list, tuple, str, bytes, deque)


_NUMBERS = (int, bool, float, complex)


def is_sequence(cls: type) -> bool:
    return any(cls is sequence for sequence in _SEQUENCES)  # not `in`: a metaclass may have an `==`


def _repeated_size(left: Any, right: Any) -> int:
    if isinstance(left, int):
        left, right = right, left
    return len(left) * right if isinstance(right, int) and isinstance(left, (str, bytes, tuple)) else 0


def _power_size(left: Any, right: Any) -> int:
    return left.bit_length() * right // 8 if isinstance(left, int) and isinstance(right, int) else 0


def _shifted_size(left: Any, right: Any) -> int:
    return right // 8 if isinstance(left, int) and isinstance(right, int) else 0


# Operators on constants that make something large of something small, and how large.
_GROWING = {"*": _repeated_size, "**": _power_size, "<<": _shifted_size}
_HUGE = 1_000_000


def _refuse_huge(symbol: str, left: Any, right: Any) -> None:
    """What takes long to compute, or no memory suffices for, is not computed while capturing."""
    size = _GROWING.get(symbol)
    if size is not None and size(left, right) > _HUGE:
        raise GraphBreak(FL0108, what=f"{symbol} makes an object of {size(left, right)} bytes")


_mro = type.__dict__["__mro__"].__get__
_namespace = type.__dict__["__dict__"].__get__


def _is_proper_subclass(cls: type, other: type) -> bool:
    """As the interpreter means it: `issubclass` may run a metaclass."""
    return cls is not other and any(base is other for base in _mro(cls))


def _operands_are_known(value: Any) -> bool:
    return not isinstance(value, Value) or value.answers_operators


def _has_own_ways(symbol: str, left: type, right: type) -> bool:
    """Subclasses of sequences may have their own words; an object with an `__index__` says how often to repeat one.

    To shift a function is how output was redirected once: there is advice for that.
    """
    if symbol == ">>" and left is types.BuiltinFunctionType:
        return True
    if any(not is_sequence(cls) and any(map(is_sequence, _mro(cls))) for cls in (left, right)):
        return True
    if symbol.removesuffix("=") != "*" or not (is_sequence(left) or is_sequence(right)):
        return False
    if symbol == "*=" and not is_sequence(left) and not any(left is number for number in _NUMBERS):
        return True
    return any("__index__" in _namespace(base) for base in _mro(right if is_sequence(left) else left))


def compare(tracer: Tracer, symbol: str, left: Any, right: Any) -> Any:
    """`left < right` and its like."""
    left_is_value, right_is_value = isinstance(left, Value), isinstance(right, Value)
    if not left_is_value and not right_is_value:
        return fold(tracer, COMPARE[symbol], left, right)
    if left_is_value:
        left.note(tracer)
    if right_is_value:
        right.note(tracer)
        if left_is_value and type(left) is not type(right):  # what they say of each other depends on their types
            left.guarded_type(tracer)
            right.guarded_type(tracer)
    right_first = right_is_value and _is_proper_subclass(type_of(right), type_of(left))
    if right_first:
        result = right.compare(tracer, MIRRORED[symbol], left)
        if result is not NotImplemented:
            return result
    if left_is_value:
        result = left.compare(tracer, symbol, right)
        if result is not NotImplemented:
            return result
    if right_is_value and not right_first:
        result = right.compare(tracer, MIRRORED[symbol], left)
        if result is not NotImplemented:
            return result
    if symbol == "==":
        return same(tracer, left, right)
    if symbol == "!=":
        return not same(tracer, left, right)
    tracer.refuse_comparison(symbol, type_of(left), type_of(right))


def equal(tracer: Tracer, left: Any, right: Any) -> bool:
    """Equality as containers use it: identity first."""
    return left is right or truth(tracer, compare(tracer, "==", left, right))


def same(tracer: Tracer, left: Any, right: Any) -> bool:
    """`left is right`."""
    if not isinstance(left, Value) and not isinstance(right, Value):
        return left is right
    if left is right:
        return True
    if isinstance(left, Value) and isinstance(right, Value):
        return left.is_same(tracer, right)
    value, constant = (left, right) if isinstance(left, Value) else (right, left)
    return value.is_constant_object(tracer, constant)


def key_of(tracer: Tracer, value: Any) -> Any:
    """A hashable Python object standing for `value` as a key; equal keys are equal values."""
    if isinstance(value, Value):
        value.note(tracer)
        return value.key(tracer)
    try:
        hash(value)
    except TypeError as error:
        raise raised_from(error) from None
    return value


def keys(tracer: Tracer, iterable: Any) -> list[Any]:
    """The items of any iterable, as keys. A dict or a set has them already: no `__hash__` is asked again."""
    if isinstance(iterable, Value):
        iterable.note(tracer)
        stored = iterable.stored_keys(tracer)
        if stored is not None:
            return stored
    return [key_of(tracer, item) for item in items(tracer, iterable)]
