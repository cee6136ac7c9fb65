"""The built-in containers' constructors and the functions over iterables."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import torch

from framelift.breaks import FL0102, GraphBreak
from framelift.models.by_items import asked
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
from framelift.values.core.exceptions import raise_error
from framelift.values.core.lookup import defines, name_of, raw_lookup, special_method
from framelift.values.core.primitives import primitive
from framelift.values.numbers.scalars import is_number
from framelift.values.numbers.symbolic import SymbolicValue
from framelift.values.objects.classes import ClassValue
from framelift.values.objects.instances import UserObjectValue

if TYPE_CHECKING:
    from framelift.capture.lift import Lift

# -- containers ------------------------------------------------------------------------------------------------------


@primitive(list)
def _list(lift: Lift, iterable: Any = (), /) -> Any:
    return ListValue(py.listed(lift, iterable))


@primitive(tuple)
def _tuple(lift: Lift, iterable: Any = (), /) -> Any:
    if py.type_of(iterable) is tuple:
        return iterable
    return lift.tuple(py.listed(lift, iterable))


@primitive(set)
def _set(lift: Lift, iterable: Any = (), /) -> Any:
    return make_set(lift, iterable)


@primitive(frozenset)
def _frozenset(lift: Lift, iterable: Any = (), /) -> Any:
    if py.type_of(iterable) is frozenset:
        return iterable
    made = make_set(lift, iterable, frozenset)
    members = made.members(lift)
    return members if made.in_order(lift) and lift.is_constant(members) else made


# -- iterators -------------------------------------------------------------------------------------------------------


@primitive(iter)
def _iter(lift: Lift, iterable: Any, sentinel: Any = MISSING, /) -> Any:
    if sentinel is not MISSING:
        if not py.truth(lift, py.call(lift, lift.known_object(callable), [iterable], {})):
            py.fold(lift, iter, 0, 0)  # says so, in the words of the version
        return DerivedIterator(type(iter(int, 1)), sentinel_step, [iterable, sentinel])
    return py.iterate(lift, iterable)


@primitive(asked)
def _asked(lift: Lift, iterable: Any) -> Any:
    iterator = py.iterate(lift, iterable)
    return AskedIterator(iterator) if isinstance(iterator, UserObjectValue) else iterator


@primitive(next)
def _next(lift: Lift, iterator: Any, default: Any = MISSING, /) -> Any:
    try:
        return py.next_item(lift, iterator)
    except Exhausted as exhausted:
        if default is not MISSING:
            return default
        if exhausted.raised is not None:
            raise exhausted.raised from None
        raise_error(StopIteration, *exhausted.args)


@primitive(enumerate)
def _enumerate(lift: Lift, iterable: Any, start: Any = 0) -> Any:
    iterator = py.iterate(lift, iterable)
    first = start if issubclass(py.type_of(start), int) else lift.as_index(start)
    return DerivedIterator(enumerate, enumerate_step, [iterator], first)


@primitive(zip)
def _zip(lift: Lift, *iterables: Any, strict: Any = False) -> Any:
    iterators = [py.iterate(lift, iterable) for iterable in iterables]
    if py.truth(lift, strict):
        return StrictZip(zip, strict_zip_step, iterators)
    return DerivedIterator(zip, zip_step, iterators)


@primitive(map)
def _map(lift: Lift, function: Any, first: Any, /, *rest: Any) -> Any:
    iterables = (first, *rest)
    return DerivedIterator(map, map_step, [function, *[py.iterate(lift, iterable) for iterable in iterables]])


@primitive(filter)
def _filter(lift: Lift, function: Any, iterable: Any, /) -> Any:
    return DerivedIterator(filter, filter_step, [function, py.iterate(lift, iterable)])


@primitive(reversed)
def _reversed(lift: Lift, sequence: Any, /) -> Any:
    if isinstance(sequence, UserObjectValue):
        return _reversed_object(lift, sequence)
    if isinstance(sequence, ClassValue) and defines(py.type_of(sequence), "__reversed__"):
        return py.call(lift, special_method(lift, sequence, py.type_of(sequence), "__reversed__"), [], {})
    if isinstance(sequence, DictValue):
        return DictIterator(sequence, "keys", lift, backwards=True)
    if isinstance(sequence, DictView):
        return DictIterator(sequence.owner, sequence.part, lift, backwards=True)
    if isinstance(sequence, DequeValue):
        return DequeIterator(sequence, backwards=True)
    if type(sequence) is range:
        return RangeIterator(sequence[::-1])
    if not py.has_type(sequence, list, tuple, str, bytes, range, torch.Size):
        raise GraphBreak(FL0102, what=f"reversed() of {py.describe(sequence)}")
    items = py.items(lift, sequence)
    if py.type_of(sequence) is list:
        return DerivedIterator(type(reversed([])), reversed_step, [sequence], len(items) - 1)
    return SequenceIterator(items[::-1], reversed)


def _reversed_object(lift: Lift, sequence: UserObjectValue) -> Any:
    cls = sequence.cls
    lift.type_of(sequence)
    if raw_lookup(cls, "__reversed__") is None:
        raise GraphBreak(FL0102, what=f"reversed() of {py.describe(sequence)}")
    method = special_method(lift, sequence, cls, "__reversed__")
    if method is not None:
        return py.call(lift, method, [], {})
    if special_method(lift, sequence, cls, "__getitem__") is None:
        raise_error(TypeError, f"'{name_of(cls)}' object is not reversible")
    return ReversedObject(sequence, py.binary(lift, "-", py.length(lift, sequence), 1), lift.steps.count)


@primitive(sorted)
def _sorted(lift: Lift, iterable: Any, /, *, key: Any = None, reverse: Any = False) -> Any:
    items = _in_any_order(lift, iterable, key, py.listed)
    return ListValue(sort_items(lift, items, key, direction(lift, reverse)))


def _in_any_order(lift: Lift, iterable: Any, key: Any, read: Callable[[Lift, Any], list[Any]]) -> list[Any]:
    """The items, for a use whose result does not depend on the order of a set."""
    members = iterable.sortable(lift) if isinstance(iterable, SetValue) and key is None else None
    return read(lift, iterable) if members is None else members


@primitive(sum)
def _sum(lift: Lift, iterable: Any, /, start: Any = 0) -> Any:
    items = py.items(lift, iterable)
    if py.has_type(start, str, bytes, bytearray):
        raise GraphBreak(FL0102, what="sum() of strings")
    if all(map(is_number, items)) and is_number(start) and any(py.type_of(item) is float for item in items):
        # Newer versions of Python sum floats more exactly than one by one.
        return py.fold(lift, sum, [lift.constant(item) for item in items], lift.constant(start))
    total = start
    for item in items:
        total = py.binary(lift, "+", total, item)
    return total


@primitive(any)
def _any(lift: Lift, iterable: Any, /) -> bool:
    return _search(lift, iterable, True)


@primitive(all)
def _all(lift: Lift, iterable: Any, /) -> bool:
    return not _search(lift, iterable, False)


def _search(lift: Lift, iterable: Any, wanted: bool) -> bool:
    iterator = py.iterate(lift, iterable)
    try:
        while True:
            if py.truth(lift, py.next_item(lift, iterator)) is wanted:
                return True
    except Exhausted:
        return False


@primitive(max)
def _max(lift: Lift, first: Any, /, *args: Any, key: Any = None, default: Any = MISSING) -> Any:
    return _extreme(lift, "max", ">", (first, *args), key, default)


@primitive(min)
def _min(lift: Lift, first: Any, /, *args: Any, key: Any = None, default: Any = MISSING) -> Any:
    return _extreme(lift, "min", "<", (first, *args), key, default)


def _extreme_of_data(lift: Lift, function: Any, left: Any, right: Any) -> Any:
    """The larger or smaller of two ints of which one depends on data; None: they are something else."""
    if not any(isinstance(number, SymbolicValue) and number.depends_on_data for number in (left, right)):
        return None
    if not (py.has_type(left, int) and py.has_type(right, int)):
        return None
    result = lift.call_on_numbers(function, (left, right))
    return None if result is NotImplemented else result


def _extreme(lift: Lift, name: str, symbol: str, args: tuple[Any, ...], key: Any, default: Any) -> Any:
    if len(args) == 2 and key is None and default is MISSING:
        found = _extreme_of_data(lift, torch.sym_max if name == "max" else torch.sym_min, *args)
        if found is not None:
            return found
    if len(args) > 1 and default is not MISSING:
        raise GraphBreak(FL0102, what=f"{name}() with a default and several arguments")
    if key is not None and py.same(lift, key, None):
        key = None
    items = list(args) if len(args) > 1 else _in_any_order(lift, args[0], key, py.items)
    if not items:
        if default is MISSING:
            py.fold(lift, max if name == "max" else min, ())
        return default
    best = items[0]
    best_key = best if key is None else py.call(lift, key, [best], {})
    for item in items[1:]:
        item_key = item if key is None else py.call(lift, key, [item], {})
        if py.truth(lift, py.compare(lift, symbol, item_key, best_key)):
            best, best_key = item, item_key
    return best
