"""Reading objects without asking them: no attribute lookup, comparison, hash or `len()` that a class could override."""

from __future__ import annotations

import collections
import contextvars
import functools
import gc
import math
import threading
import types
from collections.abc import Iterable, Iterator
from typing import Any, Final

from framelift.guards.equality import has_type, is_constant, is_instance, refer_to_same, same_item, same_object
from framelift.native import core
from framelift.native.torch.tensor_spec import TensorSpec

MISSING: Final = object()
"""What is answered when there is nothing to read."""

_type_dict = type.__dict__["__dict__"].__get__
_HEAPTYPE = 1 << 9
_type_mro = type.__dict__["__mro__"].__get__
C_DESCRIPTORS = (types.GetSetDescriptorType, types.MemberDescriptorType)


def own_names(cls: Any) -> list[str] | None:
    """The names that a class has of its own, in order; None for classes of C and what is no class."""
    if not is_instance(cls, type) or not type.__dict__["__flags__"].__get__(cls) & _HEAPTYPE:
        return None
    return list(_type_dict(cls))


def type_lookup(cls: type, name: str) -> Any:
    """What the classes of the MRO say about `name`, as stored; MISSING if none does."""
    for base in _type_mro(cls):
        namespace = _type_dict(base)
        if name in namespace:
            return namespace[name]
    return MISSING


def instance_dict(obj: Any) -> Any:
    """The `__dict__` of an instance, below an attribute of that name; MISSING if it has none."""
    for base in () if is_instance(obj, type) else _type_mro(type(obj)):
        descriptor = _type_dict(base).get("__dict__")
        if has_type(descriptor, C_DESCRIPTORS):
            found = descriptor.__get__(obj)
            return found if is_instance(found, dict) else MISSING
    return MISSING


def dict_lookup(mapping: Any, key: Any) -> Any:
    """`mapping[key]` of the stored items, comparing constants by value and anything else by identity.

    A weak reference is found by any other one to the same object.
    """
    if not is_instance(mapping, dict):
        return MISSING
    if type(key) is str:  # most are: equal to strings only
        for stored, value in dict.items(mapping):
            if stored is key or (type(stored) is str and stored == key):
                return value
        return MISSING
    for stored, value in dict.items(mapping):
        equal = is_constant(key) and is_constant(stored) and key == stored
        if equal or same_object(key, stored) or refer_to_same(key, stored):
            return value
    return MISSING


_Items: type = type(iter({}.items()))
OF_DICTS: Final[tuple[type, ...]] = (type(iter({})), type(iter({}.values())), _Items)
"""The iterators over dictionaries."""
WALKING: Final[tuple[type, ...]] = (
    *(type(iter([])), type(iter(())), type(iter(range(0))), type(reversed([]))),
    *OF_DICTS,
)
"""The built-in iterators that walk a sequence or a dictionary."""
COMPOSED: Final[tuple[type, ...]] = (enumerate, zip, map, filter)
"""Those that are made of other iterators."""


class LostTrack(Exception):
    """The dictionary of an iterator has changed its size since."""


def items_ahead(iterator: Any) -> tuple[Any, range]:
    """The sequence that an iterator walks and the positions it will visit, without advancing it."""
    if has_type(iterator, OF_DICTS):
        try:
            rest = iterator.__reduce__()[1][0]
        except RuntimeError as error:
            raise LostTrack from error
        return rest, range(len(rest))
    _, (sequence,), *position = iterator.__reduce__()
    start = position[0] if position and position[0] is not None else 0
    if type(iterator) is type(reversed([])) and position:
        return sequence, range(start if start < len(sequence) else -1, -1, -1)
    return sequence, range(start, len(sequence))


def item_ahead(iterator: Any, steps: int) -> Any:
    """What an iterator gives in so many steps; MISSING past its end, or where it would complain."""
    if not has_type(iterator, WALKING):
        return MISSING
    try:
        sequence, positions = items_ahead(iterator)
    except LostTrack:
        return MISSING
    return sequence[positions[steps]] if steps < len(positions) else MISSING


def sequence_of(iterator: Any) -> Any:
    """The list, tuple or dictionary an iterator walks; MISSING once it met the end."""
    if has_type(iterator, OF_DICTS):
        return next((obj for obj in gc.get_referents(iterator) if is_instance(obj, dict)), MISSING)
    if not has_type(iterator, WALKING) or type(iterator) is type(iter(range(0))):
        return MISSING
    return items_ahead(iterator)[0] if len(iterator.__reduce__()) == 3 else MISSING


def value_in_context(variable: contextvars.ContextVar[Any]) -> Any:
    """What a context variable is in this context, or by its own default; MISSING if nothing."""
    try:
        return variable.get()
    except LookupError:
        return MISSING


def mapping_of(proxy: types.MappingProxyType[Any, Any]) -> Any:
    """What a read-only view shows; only the garbage collector may look behind it."""
    (mapping,) = gc.get_referents(proxy)
    return mapping


def parts_of(obj: Any) -> Any:
    """What the copy protocol says of an object whose very type brings its own part of it, written in C."""
    method = type_lookup(type(obj), "__reduce__")
    if type(method) is not types.MethodDescriptorType or method.__objclass__ is not type(obj):
        return MISSING
    try:
        return method(obj)
    except TypeError:
        return MISSING


def contents_of_cell(cell: types.CellType) -> Any:
    """What a cell holds; MISSING if it is empty."""
    try:
        return cell.cell_contents
    except ValueError:
        return MISSING


def attributes_of_thread(obj: Any) -> dict[str, Any] | None:
    """What a `threading.local` holds for this thread; None where asking would run an `__init__` in a new thread."""
    if not is_instance(obj, threading.local) or type_lookup(type(obj), "__init__") is not object.__init__:
        return None
    found: dict[str, Any] = threading.local.__getattribute__(obj, "__dict__")
    return found


_LENGTHS: tuple[Any, ...] = (dict, list, tuple, set, frozenset, str, bytes, bytearray, collections.deque)
_EXACT_LENGTHS: tuple[type, ...] = (range, type({}.keys()), type({}.values()), type({}.items()))


def stored_length(obj: Any) -> int | None:
    """Items in the storage of a built-in container, also below a `__len__` of its own."""
    for cls in _LENGTHS:
        if is_instance(obj, cls):
            length: int = cls.__len__(obj)
            return length
    return len(obj) if has_type(obj, _EXACT_LENGTHS) else None


def stored_keys(mapping: Any) -> Iterator[Any]:
    """The keys of a dict in the order in which it is iterated over; none is asked for its hash."""
    is_ordered = is_instance(mapping, collections.OrderedDict)
    return iter(core.ordered_keys(mapping)) if is_ordered else dict.__iter__(mapping)


def stored_items(mapping: Any) -> Iterable[tuple[Any, Any]]:
    """The same with what it has under them."""
    if not is_instance(mapping, collections.OrderedDict):
        return dict.items(mapping)
    values = {id(key): value for key, value in dict.items(mapping)}
    return [(key, values[id(key)]) for key in core.ordered_keys(mapping)]


def lru_entries(wrapper: Any) -> list[tuple[Any, Any]]:
    """(key, result) pairs in the cache of a `functools.lru_cache`, which only the garbage collector may look into."""
    *links, cache, _, mark, link_type, _, _ = gc.get_referents(wrapper)
    if type(cache) is not dict or type(mark) is not object:
        return []
    if all(type(value) is not link_type for value in cache.values()):
        return list(cache.items())
    return list(zip(links[1::3], links[2::3], strict=False))


def lru_entry(wrapper: Any, key: Any) -> tuple[Any, Any] | None:
    """The entry of a cache under that key."""
    if type(wrapper) is not functools._lru_cache_wrapper:
        return None
    return next((entry for entry in lru_entries(wrapper) if same_item(key, entry[0])), None)


def number_at(obj: Any, kind: int, index: int) -> int | float | None:
    """What a program loads: a plain int or float, a size, stride or item of a tensor, a length; None: there is none."""
    if kind == core.LOAD_VALUE:
        return obj if has_type(obj, (int, float)) and not _is_too_large(obj) else None
    if kind == core.LOAD_LENGTH:
        return stored_length(obj)
    if kind == core.LOAD_ITEM:
        item = obj.item()
        return item if type(item) is float and math.isfinite(item) else None
    facts = core.tensor_facts(obj)
    if facts is None:
        return None
    entries = TensorSpec(*facts).sizes if kind == core.LOAD_SIZE else TensorSpec(*facts).strides
    return entries[index] if entries is not None and index < len(entries) else None


def _is_too_large(number: int | float) -> bool:
    return type(number) is int and not -(2**63) <= number < 2**63
