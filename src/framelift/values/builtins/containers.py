"""The built-in containers' constructors and the functions over iterables."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import torch

from framelift.breaks import FL0102, FL0102_OPERAND, GraphBreak
from framelift.models.builtins import asked
from framelift.values.containers.collections_deque import DequeIterator, DequeValue
from framelift.values.containers.dict_views import DictIterator, DictView
from framelift.values.containers.dicts import MISSING, DictValue
from framelift.values.containers.iterators import (
    AskedIterator,
    DerivedIterator,
    RangeIterator,
    ReversedObject,
    SequenceIterator,
    StrictZip,
    enumerate_step,
    filter_step,
    map_step,
    reversed_step,
    sentinel_step,
    strict_zip_step,
    zip_step,
)
from framelift.values.containers.sequences import ListValue, direction, sort_items
from framelift.values.containers.sets import SetValue, make_set
from framelift.values.core import protocol as py
from framelift.values.core.base import Exhausted
from framelift.values.core.constants import is_constant
from framelift.values.core.construct import make_tuple
from framelift.values.core.exceptions import raise_error
from framelift.values.core.lookup import defines, raw_lookup, special_method
from framelift.values.core.primitives import primitive
from framelift.values.core.stand_ins import raise_what, stand_in
from framelift.values.numbers.scalars import is_number
from framelift.values.numbers.symbolic import SymbolicValue
from framelift.values.objects.classes import ClassValue
from framelift.values.objects.instances import UserObjectValue

if TYPE_CHECKING:
    from framelift.values.core.tracer import Tracer

# -- containers ------------------------------------------------------------------------------------------------------


@primitive(list)
def _list(tracer: Tracer, iterable: Any = (), /) -> Any:
    return ListValue(py.listed(tracer, iterable))


@primitive(tuple)
def _tuple(tracer: Tracer, iterable: Any = (), /) -> Any:
    if py.type_of(iterable) is tuple:
        return iterable
    return make_tuple(py.listed(tracer, iterable))


@primitive(set)
def _set(tracer: Tracer, iterable: Any = (), /) -> Any:
    return make_set(tracer, iterable)


@primitive(frozenset)
def _frozenset(tracer: Tracer, iterable: Any = (), /) -> Any:
    if py.type_of(iterable) is frozenset:
        return iterable
    made = make_set(tracer, iterable, frozenset)
    members = made.members(tracer)
    return members if made.in_order(tracer) and is_constant(members) else made


# -- iterators -------------------------------------------------------------------------------------------------------


@primitive(iter)
def _iter(tracer: Tracer, iterable: Any, sentinel: Any = MISSING, /) -> Any:
    if sentinel is not MISSING:
        if not py.truth(tracer, py.call(tracer, tracer.known_object(callable), [iterable], {})):
            py.fold(tracer, iter, 0, 0)  # says so, in the words of the version
        return DerivedIterator(type(iter(int, 1)), sentinel_step, [iterable, sentinel])
    return py.iterate(tracer, iterable)


@primitive(asked)
def _asked(tracer: Tracer, iterable: Any) -> Any:
    iterator = py.iterate(tracer, iterable)
    return AskedIterator(iterator) if isinstance(iterator, UserObjectValue) else iterator


@primitive(next)
def _next(tracer: Tracer, iterator: Any, default: Any = MISSING, /) -> Any:
    try:
        return py.next_item(tracer, iterator)
    except Exhausted as exhausted:
        if default is not MISSING:
            return default
        if exhausted.raised is not None:
            raise exhausted.raised from None
        raise_error(StopIteration, *exhausted.args)


@primitive(enumerate)
def _enumerate(tracer: Tracer, iterable: Any, start: Any = 0) -> Any:
    iterator = py.iterate(tracer, iterable)
    first = start if issubclass(py.type_of(start), int) else tracer.as_index(start)
    return DerivedIterator(enumerate, enumerate_step, [iterator], first)


@primitive(zip)
def _zip(tracer: Tracer, *iterables: Any, strict: Any = False) -> Any:
    iterators = [py.iterate(tracer, iterable) for iterable in iterables]
    if py.truth(tracer, strict):
        return StrictZip(zip, strict_zip_step, iterators)
    return DerivedIterator(zip, zip_step, iterators)


@primitive(map)
def _map(tracer: Tracer, function: Any, first: Any, /, *rest: Any) -> Any:
    iterables = (first, *rest)
    return DerivedIterator(map, map_step, [function, *[py.iterate(tracer, iterable) for iterable in iterables]])


@primitive(filter)
def _filter(tracer: Tracer, function: Any, iterable: Any, /) -> Any:
    return DerivedIterator(filter, filter_step, [function, py.iterate(tracer, iterable)])


@primitive(reversed)
def _reversed(tracer: Tracer, sequence: Any, /) -> Any:
    if isinstance(sequence, UserObjectValue):
        return _reversed_object(tracer, sequence)
    if isinstance(sequence, ClassValue) and defines(py.type_of(sequence), "__reversed__"):
        return py.call(tracer, special_method(tracer, sequence, py.type_of(sequence), "__reversed__"), [], {})
    if isinstance(sequence, DictValue):
        return DictIterator(sequence, "keys", tracer, backwards=True)
    if isinstance(sequence, DictView):
        return DictIterator(sequence.owner, sequence.part, tracer, backwards=True)
    if isinstance(sequence, DequeValue):
        return DequeIterator(sequence, backwards=True)
    if type(sequence) is range:
        return RangeIterator(sequence[::-1])
    if not py.has_type(sequence, list, tuple, str, bytes, range, torch.Size):
        raise GraphBreak(FL0102_OPERAND, what="reversed()", operand=py.describe(sequence))
    items = py.items(tracer, sequence)
    if py.type_of(sequence) is list:
        return DerivedIterator(type(reversed([])), reversed_step, [sequence], len(items) - 1)
    return SequenceIterator(items[::-1], reversed)


def _reversed_object(tracer: Tracer, sequence: UserObjectValue) -> Any:
    cls = sequence.cls
    tracer.type_of(sequence)
    if raw_lookup(cls, "__reversed__") is None:
        raise GraphBreak(FL0102_OPERAND, what="reversed()", operand=py.describe(sequence))
    method = special_method(tracer, sequence, cls, "__reversed__")
    if method is not None:
        return py.call(tracer, method, [], {})
    if special_method(tracer, sequence, cls, "__getitem__") is None:
        raise_what(reversed, stand_in(cls))
    return ReversedObject(sequence, py.binary(tracer, "-", py.length(tracer, sequence), 1), tracer.steps.count)


@primitive(sorted)
def _sorted(tracer: Tracer, iterable: Any, /, *, key: Any = None, reverse: Any = False) -> Any:
    items = _in_any_order(tracer, iterable, key, py.listed)
    return ListValue(sort_items(tracer, items, key, direction(tracer, reverse)))


def _in_any_order(tracer: Tracer, iterable: Any, key: Any, read: Callable[[Tracer, Any], list[Any]]) -> list[Any]:
    """The items, for a use whose result does not depend on the order of a set."""
    members = iterable.sortable(tracer) if isinstance(iterable, SetValue) and key is None else None
    return read(tracer, iterable) if members is None else members


@primitive(sum)
def _sum(tracer: Tracer, iterable: Any, /, start: Any = 0) -> Any:
    items = py.items(tracer, iterable)
    if py.has_type(start, str, bytes, bytearray):
        raise GraphBreak(FL0102, what="sum() of strings")
    if all(map(is_number, items)) and is_number(start) and any(py.type_of(item) is float for item in items):
        # Newer versions of Python sum floats more exactly than one by one.
        return py.fold(tracer, sum, [tracer.constant(item) for item in items], tracer.constant(start))
    total = start
    for item in items:
        total = py.binary(tracer, "+", total, item)
    return total


@primitive(any)
def _any(tracer: Tracer, iterable: Any, /) -> bool:
    return _search(tracer, iterable, True)


@primitive(all)
def _all(tracer: Tracer, iterable: Any, /) -> bool:
    return not _search(tracer, iterable, False)


def _search(tracer: Tracer, iterable: Any, wanted: bool) -> bool:
    iterator = py.iterate(tracer, iterable)
    try:
        while True:
            if py.truth(tracer, py.next_item(tracer, iterator)) is wanted:
                return True
    except Exhausted:
        return False


@primitive(max)
def _max(tracer: Tracer, first: Any, /, *args: Any, key: Any = None, default: Any = MISSING) -> Any:
    return _extreme(tracer, "max", ">", (first, *args), key, default)


@primitive(min)
def _min(tracer: Tracer, first: Any, /, *args: Any, key: Any = None, default: Any = MISSING) -> Any:
    return _extreme(tracer, "min", "<", (first, *args), key, default)


def _extreme_of_data(tracer: Tracer, name: str, symbol: str, left: Any, right: Any) -> Any:
    """The larger or smaller of two numbers of which one depends on data; None: they are something else."""
    if not any(isinstance(number, SymbolicValue) and number.depends_on_data for number in (left, right)):
        return None
    if py.type_of(left) is py.type_of(right) is float:
        return _extreme_float(tracer, symbol, left, right)
    if not (py.has_type(left, int) and py.has_type(right, int)):
        return None
    result = tracer.call_on_numbers(torch.sym_max if name == "max" else torch.sym_min, (left, right))
    return None if result is NotImplemented else result


def _extreme_float(tracer: Tracer, symbol: str, left: Any, right: Any) -> Any:
    """The second only where it lies beyond the first, whichever is nan or -0.0: symbols know another order."""
    kind = {"dtype": torch.float64, "device": "cpu"}
    first, second = [tracer.call_torch(torch.scalar_tensor, (number,), kind) for number in (left, right)]
    beyond = py.compare(tracer, symbol, second, first)
    result = tracer.call_tensor_method("item", (tracer.call_torch(torch.where, (beyond, second, first), {}),), {})
    if type(left) is float and isinstance(result, SymbolicValue):
        lower, upper = (left, math.inf) if symbol == ">" else (-math.inf, left)
        tracer.graph.symbols.limit(result.ref(tracer).known_fake, lower, upper)
    return result


def _extreme(tracer: Tracer, name: str, symbol: str, args: tuple[Any, ...], key: Any, default: Any) -> Any:
    if len(args) > 1 and default is not MISSING:
        raise GraphBreak(FL0102, what=f"{name}() with a default and several arguments")
    if key is not None and py.same(tracer, key, None):
        key = None
    items = list(args) if len(args) > 1 else _in_any_order(tracer, args[0], key, py.items)
    if not items:
        if default is MISSING:
            py.fold(tracer, max if name == "max" else min, ())
        return default
    best = items[0]
    best_key = best if key is None else py.call(tracer, key, [best], {})
    for item in items[1:]:
        of_data = None if key is not None else _extreme_of_data(tracer, name, symbol, best, item)
        if of_data is not None:
            best = best_key = of_data
            continue
        item_key = item if key is None else py.call(tracer, key, [item], {})
        if py.truth(tracer, py.compare(tracer, symbol, item_key, best_key)):
            best, best_key = item, item_key
    return best
