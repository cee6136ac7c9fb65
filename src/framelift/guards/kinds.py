"""Accessors and checks of guards, one definition each: its words, what it means in Python, what to say when it fails.

The native guard tree (`framelift.native._core.GuardTree`) does the same in C; `framelift.guards.reference` runs these
definitions node by node and compares. Nothing here runs code of the user's: no attribute lookup, comparison, hash or
`len()` that a class could override.

    >>> length_is.words("L['xs']", 3)
    "len(L['xs']) == 3"
    >>> length_is.change("L['xs']", 3, [1, 2, 3, 4])
    "len(L['xs']) was 3, now 4"
"""

from __future__ import annotations

import abc
import collections
import contextvars
import functools
import gc
import operator
import struct
import types
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any, Final

from framelift.native import core
from framelift.native.tensor_spec import TensorSpec

MISSING: Final = object()
"""What an accessor answers when there is nothing to access: the guard does not hold."""


@dataclass(frozen=True)
class Accessor:
    """One step from an object to another."""

    name: str
    number: int
    spelling: str
    step: Callable[[Any, Any], Any]
    """(object, argument) -> the next object, or MISSING."""

    def words(self, source: str, argument: Any) -> str:
        return self.spelling.format(source=source, arg=argument)


@dataclass(frozen=True)
class Check:
    """One fact about an object."""

    name: str
    number: int
    words: Callable[[str, Any], str]
    """(source, argument) -> the fact, as a Python expression where there is one."""
    holds: Callable[[Any, Any], bool]
    """(object, argument) -> whether it is so."""
    change: Callable[[str, Any, Any], str]
    """(source, argument, object found) -> what was and what is, in words."""


ACCESSORS: dict[int, Accessor] = {}
CHECKS: dict[int, Check] = {}


def accessor(name: str, spelling: str) -> Callable[[Callable[[Any, Any], Any]], Accessor]:
    def define(step: Callable[[Any, Any], Any]) -> Accessor:
        number = getattr(core, f"ACCESS_{name}")
        ACCESSORS[number] = kind = Accessor(name, number, spelling, step)
        return kind

    return define


def guard(
    name: str,
    words: str | Callable[[str, Any], str],
    change: Callable[[str, Any, Any], str],
) -> Callable[[Callable[[Any, Any], bool]], Check]:
    """Defines a check from its words (a template over {source} and {arg}, or a function) and its meaning."""

    def spell(source: str, argument: Any) -> str:
        return words.format(source=source, arg=argument) if isinstance(words, str) else words(source, argument)

    def define(holds: Callable[[Any, Any], bool]) -> Check:
        number = getattr(core, f"CHECK_{name}")
        CHECKS[number] = kind = Check(name, number, spell, holds, change)
        return kind

    return define


# ---- words ----


_qualname = type.__dict__["__qualname__"].__get__


def shown(value: Any, limit: int = 80) -> str:
    """A value in words, without its `__repr__` being asked unless it is a constant."""
    if is_constant(value):
        text = repr(value)
        return text if len(text) <= limit else text[: limit - 1] + "…"
    if _is(value, type):  # not by getattr: a metaclass may answer
        return str(_qualname(value))
    if _is(value, (types.FunctionType, types.BuiltinFunctionType, types.ModuleType)):
        return str(getattr(value, "__qualname__", None) or value.__name__)
    if type(value) is core.ByParts:
        return "what it was"
    return f"a {_qualname(type(value))} object"


def _list_shown(values: Any) -> str:
    items = [shown(value, 40) for value in values]
    return f"[{', '.join(items[:8])}{', …' if len(items) > 8 else ''}]"


def _set_shown(values: Any) -> str:
    items = sorted(shown(value, 40) for value in values)
    return f"{{{', '.join(items[:8])}{', …' if len(items) > 8 else ''}}}"


def _becomes(measure: str) -> Callable[[str, Any, Any], str]:
    """Words for a check of the whole value: `{source} was {arg}, now {found}`."""
    return lambda source, argument, found: f"{measure.format(source=source)} was {shown(argument)}, now {shown(found)}"


# ---- constants ----


def _is(obj: Any, classes: type | tuple[type, ...]) -> bool:
    """`isinstance` by the real class: an object may pretend to another `__class__` with code of its own."""
    return issubclass(type(obj), classes)


_ATOMS = (int, str, bool, float, type(None), bytes, complex, range, type(Ellipsis), type(NotImplemented))
_CONTAINERS = (tuple, frozenset)


def is_constant(value: Any) -> bool:
    """Whether `value` is compared by value: its type is C code all the way down."""
    if type(value) in _CONTAINERS or (_is(value, tuple) and core.is_constant_type(type(value))):
        return all(map(is_constant, value))
    if type(value) is slice:
        return is_constant(value.start) and is_constant(value.stop) and is_constant(value.step)
    return type(value) in _ATOMS or core.is_constant_type(type(value))


def constants_equal(expected: Any, found: Any) -> bool:
    """The same type and value all the way down; floats bit for bit."""
    kind = type(expected)
    if kind is not type(found):
        return False
    if expected is found:
        return True
    if kind is float:
        return struct.pack("d", expected) == struct.pack("d", found)
    if kind is complex:
        return constants_equal(expected.real, found.real) and constants_equal(expected.imag, found.imag)
    if _is(expected, tuple):
        return len(expected) == len(found) and all(map(constants_equal, expected, found))
    if kind is frozenset:
        return len(expected) == len(found) and all(any(constants_equal(a, b) for b in found) for a in expected)
    if kind is slice:
        return all(constants_equal(getattr(expected, part), getattr(found, part)) for part in ("start", "stop", "step"))
    return is_constant(expected) and bool(expected == found)


def same_object(expected: Any, found: Any) -> bool:
    """Identity; what the tree cannot hold it tells by its address."""
    return id(found) == expected.address if type(expected) is core.ByParts else expected is found


def same_item(expected: Any, found: Any) -> bool:
    return constants_equal(expected, found) if is_constant(expected) else same_object(expected, found)


# ---- reading objects without asking them ----

_type_dict = type.__dict__["__dict__"].__get__
_type_mro = type.__dict__["__mro__"].__get__
_DESCRIPTORS = (types.GetSetDescriptorType, types.MemberDescriptorType)


def type_lookup(cls: type, name: str) -> Any:
    """What the classes of the MRO say about `name`, as stored; MISSING if none does."""
    for base in _type_mro(cls):
        namespace = _type_dict(base)
        if name in namespace:
            return namespace[name]
    return MISSING


def instance_dict(obj: Any) -> Any:
    for base in () if _is(obj, type) else _type_mro(type(obj)):
        descriptor = _type_dict(base).get("__dict__")
        if type(descriptor) in _DESCRIPTORS:
            found = descriptor.__get__(obj)
            return found if _is(found, dict) else MISSING
    return MISSING


def dict_lookup(mapping: Any, key: Any) -> Any:
    """`mapping[key]` of the stored items, comparing constants by value and anything else by identity."""
    if not _is(mapping, dict):
        return MISSING
    for stored, value in dict.items(mapping):
        if same_object(key, stored) or (is_constant(key) and is_constant(stored) and key == stored):
            return value
    return MISSING


_LENGTHS = (dict, list, tuple, set, frozenset, str, bytes, bytearray)
_EXACT_LENGTHS: tuple[type, ...] = (range, collections.deque, type({}.keys()), type({}.values()), type({}.items()))


def stored_length(obj: Any) -> int | None:
    """Items in the storage of a built-in container, also below a `__len__` of its own."""
    for cls in _LENGTHS:
        if _is(obj, cls):
            return cls.__len__(obj)
    return len(obj) if type(obj) in _EXACT_LENGTHS else None


def stored_keys(mapping: Any) -> Iterator[Any]:
    cls = collections.OrderedDict if _is(mapping, collections.OrderedDict) else dict
    return cls.__iter__(mapping)


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


# ---- accessors ----


@accessor("ARG", "argument {arg}")
def argument_at(slots: Any, index: int) -> Any:
    return slots[index]


@accessor("FUNCTION", "the function")
def called_function(function: Any, _: Any) -> Any:
    return function


@accessor("KNOWN", "{arg}")
def known_object(_: Any, obj: Any) -> Any:
    return obj


@accessor("DICT_ITEM", "{source}[{arg!r}]")
def dict_item(obj: Any, key: Any) -> Any:
    return dict_lookup(obj, key)


@accessor("INSTANCE_DICT", "{source}.__dict__")
def object_dict(obj: Any, _: Any) -> Any:
    return instance_dict(obj)


@accessor("TYPE_LOOKUP", "{source}.{arg}")
def class_attribute(obj: Any, name: str) -> Any:
    return type_lookup(obj, name) if _is(obj, type) else MISSING


@accessor("TYPE_OF", "type({source})")
def type_of(obj: Any, _: Any) -> Any:
    return type(obj)


@accessor("LIST_ITEM", "{source}[{arg}]")
def list_item(obj: Any, index: int) -> Any:
    return list.__getitem__(obj, index) if _is(obj, list) and index < list.__len__(obj) else MISSING


@accessor("TUPLE_ITEM", "{source}[{arg}]")
def tuple_item(obj: Any, index: int) -> Any:
    return tuple.__getitem__(obj, index) if _is(obj, tuple) and index < tuple.__len__(obj) else MISSING


@accessor("CELL_CONTENTS", "{source}.cell_contents")
def cell_contents(obj: Any, _: Any) -> Any:
    return obj.cell_contents if type(obj) is types.CellType and not cell_empty.holds(obj, None) else MISSING


def _function_part(name: str) -> Callable[[Any, Any], Any]:
    return lambda obj, _: getattr(obj, name) if type(obj) is types.FunctionType else MISSING


def _method_part(name: str) -> Callable[[Any, Any], Any]:
    return lambda obj, _: getattr(obj, name) if type(obj) is types.MethodType else MISSING


function_code = accessor("FUNC_CODE", "{source}.__code__")(_function_part("__code__"))
function_globals = accessor("FUNC_GLOBALS", "{source}.__globals__")(_function_part("__globals__"))
function_closure = accessor("FUNC_CLOSURE", "{source}.__closure__")(_function_part("__closure__"))
function_defaults = accessor("FUNC_DEFAULTS", "{source}.__defaults__")(_function_part("__defaults__"))
function_kwdefaults = accessor("FUNC_KWDEFAULTS", "{source}.__kwdefaults__")(_function_part("__kwdefaults__"))
method_self = accessor("METHOD_SELF", "{source}.__self__")(_method_part("__self__"))
method_func = accessor("METHOD_FUNC", "{source}.__func__")(_method_part("__func__"))


@accessor("MODULE_DICT", "{source}.__dict__")
def module_dict(obj: Any, _: Any) -> Any:
    return instance_dict(obj) if _is(obj, types.ModuleType) else MISSING


@accessor("SLOT", "{source}.<slot>")
def slot_value(obj: Any, slot: Any) -> Any:
    return core.read_slot(obj, *slot, MISSING)


@accessor("GETATTR", "{source}.{arg}")
def c_attribute(obj: Any, name: str) -> Any:
    descriptor = type_lookup(type(obj), name)
    if type(descriptor) not in _DESCRIPTORS:
        return MISSING
    try:
        return descriptor.__get__(obj)
    except AttributeError:
        return MISSING


@accessor("LRU_RESULT", "{source}.cache[{arg!r}]")
def cached_result(obj: Any, key: Any) -> Any:
    found = lru_entry(obj, key)
    return MISSING if found is None else found[1]


@accessor("CONTEXT_VALUE", "{source}.get()")
def context_value(obj: Any, _: Any) -> Any:
    return _of_variable(obj, MISSING) if type(obj) is contextvars.ContextVar else MISSING


def _of_variable(variable: contextvars.ContextVar[Any], missing: Any) -> Any:
    try:
        return variable.get()  # with its own default, if it has one
    except LookupError:
        return missing


# ---- checks ----


@guard(
    "TYPE",
    lambda source, cls: f"type({source}) is {shown(cls)}",
    lambda source, cls, found: f"type({source}) was {shown(cls)}, now {shown(type(found))}",
)
def type_is(obj: Any, cls: type) -> bool:
    return type(obj) is cls


@guard(
    "IS",
    lambda source, expected: f"{source} is {shown(expected)}",
    lambda source, expected, found: f"{source} was {shown(expected)}, now {_another(expected, found)}",
)
def is_object(obj: Any, expected: Any) -> bool:
    return same_object(expected, obj)


def _another(expected: Any, found: Any) -> str:
    text = shown(found)
    return text if text != shown(expected) else f"another {text.removeprefix('a ')}"


@guard(
    "NOT_IS",
    lambda source, other: f"{source} is not {shown(other)}",
    lambda source, other, _: f"{source} was not {shown(other)}, now it is",
)
def is_not_object(obj: Any, other: Any) -> bool:
    return not same_object(other, obj)


@guard("EQUALS", lambda source, constant: f"{source} == {shown(constant)}", _becomes("{source}"))
def equals(obj: Any, constant: Any) -> bool:
    return constants_equal(constant, obj)


COMPARISONS: dict[str, Callable[[Any, Any], Any]] = {
    "<": operator.lt,
    "<=": operator.le,
    "==": operator.eq,
    "!=": operator.ne,
    ">": operator.gt,
    ">=": operator.ge,
}


@guard(
    "COMPARE",
    lambda source, spec: (
        f"{source} {spec[0]} {shown(spec[1])}" if spec[2] else f"not {source} {spec[0]} {shown(spec[1])}"
    ),
    lambda source, spec, found: f"({source} {spec[0]} {shown(spec[1])}) was {spec[2]}, now {source} is {shown(found)}",
)
def compares(obj: Any, spec: tuple[str, Any, bool]) -> bool:
    op, constant, expected = spec
    if type(obj) not in (int, float, bool, str):
        return False
    try:
        return COMPARISONS[op](obj, constant) is expected
    except TypeError:
        return False


@guard(
    "LENGTH",
    "len({source}) == {arg}",
    lambda source, n, found: f"len({source}) was {n}, now {_length_words(found)}",
)
def length_is(obj: Any, n: int) -> bool:
    return stored_length(obj) == n


def _length_words(found: Any) -> str:
    length = stored_length(found)
    return shown(found) if length is None else str(length)


@guard(
    "DICT_KEYS",
    lambda source, keys: f"list({source}) == {_list_shown(keys)}",
    lambda source, keys, found: (
        f"keys of {source} were {_list_shown(keys)}, now "
        + (_list_shown(stored_keys(found)) if _is(found, dict) else shown(found))
    ),
)
def dict_keys_are(obj: Any, keys: tuple[Any, ...]) -> bool:
    if not _is(obj, dict) or dict.__len__(obj) != len(keys):
        return False
    return all(map(same_item, keys, stored_keys(obj)))


@guard(
    "KEY_ABSENT",
    lambda source, key: f"{shown(key)} not in {source}",
    lambda source, key, found: (
        f"{shown(key)} was not in {source}, now it is"
        if _is(found, dict)
        else f"{source} was a dict, now {shown(found)}"
    ),
)
def key_absent(obj: Any, key: Any) -> bool:
    return _is(obj, dict) and dict_lookup(obj, key) is MISSING


def _has_member(obj: Any, member: Any) -> bool:
    return any(same_item(member, found) for found in (set if _is(obj, set) else frozenset).__iter__(obj))


@guard("MEMBER", lambda source, key: f"{shown(key)} in {source}", _becomes("{source}, a member of it,"))
def has_member(obj: Any, member: Any) -> bool:
    return _is(obj, (set, frozenset)) and _has_member(obj, member)


@guard("NO_MEMBER", lambda source, key: f"{shown(key)} not in {source}", _becomes("{source}, no member of it,"))
def has_no_member(obj: Any, member: Any) -> bool:
    return _is(obj, (set, frozenset)) and not _has_member(obj, member)


@guard(
    "SET_EQUALS",
    lambda source, items: f"{source} == {_set_shown(items)}",
    lambda source, items, found: (
        f"{source} was {_set_shown(items)}, now "
        + (_set_shown(found) if type(found) in (set, frozenset) else shown(found))
    ),
)
def set_equals(obj: Any, items: Any) -> bool:
    if not _is(obj, (set, frozenset)):
        return False
    cls = set if _is(obj, set) else frozenset
    stored = list(cls.__iter__(obj))
    return len(stored) == len(items) and all(any(same_item(item, other) for item in items) for other in stored)


@guard(
    "TYPE_ABSENT",
    lambda source, name: f"{source} has no attribute {name!r}",
    lambda source, name, found: f"{source} had no attribute {name!r}, now it has",
)
def type_absent(obj: Any, name: str) -> bool:
    return _is(obj, type) and type_lookup(obj, name) is MISSING


def _has_attribute(obj: Any, name: str) -> bool:
    if type_lookup(type(obj), name) is not MISSING or (_is(obj, type) and type_lookup(obj, name) is not MISSING):
        return True
    stored = instance_dict(obj)
    return stored is not MISSING and dict_lookup(stored, name) is not MISSING


@guard(
    "HASATTR",
    "hasattr({source}, {arg!r})",
    lambda source, name, _: f"{source} had an attribute {name!r}, now it has not",
)
def has_attribute(obj: Any, name: str) -> bool:
    return _has_attribute(obj, name)


@guard(
    "NO_ATTR",
    "not hasattr({source}, {arg!r})",
    lambda source, name, _: f"{source} had no attribute {name!r}, now it has",
)
def no_attribute(obj: Any, name: str) -> bool:
    return not _has_attribute(obj, name)


@guard(
    "CELL_EMPTY",
    "{source} is an empty cell",
    lambda source, _, found: f"{source} was an empty cell, now it holds something",
)
def cell_empty(obj: Any, _: Any) -> bool:
    if type(obj) is not types.CellType:
        return False
    try:
        return obj.cell_contents is MISSING
    except ValueError:
        return True


@guard(
    "REGISTRATIONS",
    "no class was registered with an abstract class since {source} was asked",
    lambda source, token, found: f"a class was registered with an abstract class, perhaps with {source}",
)
def registrations_are(obj: Any, token: int) -> bool:
    """An abstract class that said no to a class says so again until `register` is called, on whatever class."""
    return abc.get_cache_token() == token


@guard(
    "TENSOR",
    lambda source, spec: f"{source} is {TensorSpec(*spec).words()}",
    lambda source, spec, found: _tensor_change(source, TensorSpec(*spec), found),
)
def tensor_is(obj: Any, spec: tuple[Any, ...]) -> bool:
    facts = core.tensor_facts(obj)
    return facts is not None and TensorSpec(*spec).matches(TensorSpec(*facts))


def _tensor_change(source: str, spec: TensorSpec, found: Any) -> str:
    facts = core.tensor_facts(found)
    if facts is None:
        return f"type({source}) was {shown(spec.type)}, now {shown(type(found))}"
    return "; ".join(spec.differences(source, TensorSpec(*facts)))


# ---- numbers in objects, for programs ----


def number_at(obj: Any, kind: int, index: int) -> int | float | None:
    """What a program loads: a plain int or float, a size or stride, a length; None where there is none."""
    if kind == core.LOAD_VALUE:
        return obj if type(obj) in (int, float) and not _is_too_large(obj) else None
    if kind == core.LOAD_LENGTH:
        return stored_length(obj)
    facts = core.tensor_facts(obj)
    if facts is None:
        return None
    entries = TensorSpec(*facts).sizes if kind == core.LOAD_SIZE else TensorSpec(*facts).strides
    return entries[index] if entries is not None and index < len(entries) else None


def _is_too_large(number: int | float) -> bool:
    return type(number) is int and not -(2**63) <= number < 2**63


# ---- relations ----


def relation_words(kind: int, names: tuple[str, ...], expected: bool = True) -> str:
    """A relation as a fact."""
    if kind == core.REL_SAME:
        return f"{names[0]} is {names[1]}"
    if kind == core.REL_OVERLAP:
        return f"{names[0]} and {names[1]} {'share' if expected else 'do not share'} memory"
    text = f"{', '.join(names[:4])}{f', … ({len(names)} in all)' if len(names) > 4 else ''}"
    return f"{'all different objects' if kind == core.REL_DISTINCT else 'no shared memory'}: {text}"


def relation_change(kind: int, names: tuple[str, ...], expected: bool = True) -> str:
    """A relation that holds no more."""
    if kind == core.REL_SAME:
        return f"{names[0]} was {names[1]}, now it is another object"
    if kind == core.REL_OVERLAP:
        return f"{names[0]} and {names[1]} {'shared memory, now they do not' if expected else 'now share memory'}"
    text = f"two of {', '.join(names[:8])}{', …' if len(names) > 8 else ''}"
    return f"{text} {'are now the same object' if kind == core.REL_DISTINCT else 'now share memory'}"
