"""Checks: the facts about single objects that guards may state, one definition each.

A definition gives the words of the fact, what it means in Python, and what to say when it does not hold. The native
guard tree (`framelift.native._core.GuardTree`) does the same in C; `framelift.guards.reference` runs these definitions
node by node and compares. Nothing here runs code of the user's.

    >>> length_is.words("L['xs']", 3)
    "len(L['xs']) == 3"
    >>> length_is.change("L['xs']", 3, [1, 2, 3, 4])
    "len(L['xs']) was 3, now 4"
"""

from __future__ import annotations

import abc
import contextvars
import operator
import types
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from framelift.guards.equality import constants_equal, has_type, is_instance, refer_to_same, same_item, same_object
from framelift.guards.reading import (
    MISSING,
    WALKING,
    LostTrack,
    contents_of_cell,
    dict_lookup,
    instance_dict,
    items_ahead,
    own_names,
    stored_keys,
    stored_length,
    type_lookup,
    value_in_context,
)
from framelift.guards.words import list_shown, set_shown, shown
from framelift.native import core
from framelift.native.torch.tensor_spec import TensorSpec


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


CHECKS: dict[int, Check] = {}


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


def _becomes(measure: str) -> Callable[[str, Any, Any], str]:
    """Words for a check of the whole value: `{source} was {arg}, now {found}`."""
    return lambda source, argument, found: f"{measure.format(source=source)} was {shown(argument)}, now {shown(found)}"


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
    if not has_type(obj, (int, float, bool, str)):
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


@guard("NONEMPTY", "len({source}) > 0", lambda source, _, found: f"{source} was not empty, now {_emptiness(found)}")
def not_empty(obj: Any, _: None) -> bool:
    return bool(stored_length(obj))


def _emptiness(found: Any) -> str:
    return "it is" if stored_length(found) == 0 else shown(found)


def _length_words(found: Any) -> str:
    length = stored_length(found)
    return shown(found) if length is None else str(length)


@guard(
    "DICT_KEYS",
    lambda source, keys: f"list({source}) == {list_shown(keys)}",
    lambda source, keys, found: (
        f"keys of {source} were {list_shown(keys)}, now "
        + (list_shown(stored_keys(found)) if is_instance(found, dict) else shown(found))
    ),
)
def dict_keys_are(obj: Any, keys: tuple[Any, ...]) -> bool:
    if not is_instance(obj, dict) or dict.__len__(obj) != len(keys):
        return False
    return all(map(same_item, keys, stored_keys(obj)))


@guard(
    "KEY_ABSENT",
    lambda source, key: f"{shown(key)} not in {source}",
    lambda source, key, found: (
        f"{shown(key)} was not in {source}, now it is"
        if is_instance(found, dict)
        else f"{source} was a dict, now {shown(found)}"
    ),
)
def key_absent(obj: Any, key: Any) -> bool:
    return is_instance(obj, dict) and dict_lookup(obj, key) is MISSING


def _has_member(obj: Any, member: Any) -> bool:
    members = (set if is_instance(obj, set) else frozenset).__iter__(obj)
    return any(same_item(member, found) or refer_to_same(member, found) for found in members)


def _membership(was: str, now: str) -> Callable[[str, Any, Any], str]:
    def change(source: str, member: Any, found: Any) -> str:
        if not is_instance(found, (set, frozenset)):
            return f"{source} was a set, now {shown(found)}"
        return f"{shown(member)} was {was} {source}, now it is {now}"

    return change


@guard("MEMBER", lambda source, key: f"{shown(key)} in {source}", _membership("in", "not"))
def has_member(obj: Any, member: Any) -> bool:
    return is_instance(obj, (set, frozenset)) and _has_member(obj, member)


@guard("NO_MEMBER", lambda source, key: f"{shown(key)} not in {source}", _membership("not in", "there"))
def has_no_member(obj: Any, member: Any) -> bool:
    return is_instance(obj, (set, frozenset)) and not _has_member(obj, member)


@guard(
    "SET_EQUALS",
    lambda source, items: f"{source} == {set_shown(items)}",
    lambda source, items, found: (
        f"{source} was {set_shown(items)}, now "
        + (set_shown(found) if has_type(found, (set, frozenset)) else shown(found))
    ),
)
def set_equals(obj: Any, items: Any) -> bool:
    if not is_instance(obj, (set, frozenset)):
        return False
    cls = set if is_instance(obj, set) else frozenset
    stored = list(cls.__iter__(obj))
    return len(stored) == len(items) and all(any(same_item(item, other) for item in items) for other in stored)


@guard(
    "SET_ORDER",
    lambda source, items: f"list({source}) == [{', '.join(map(shown, items))}]",
    lambda source, items, found: f"the members of {source}, or their order, are others now",
)
def set_order(obj: Any, items: Any) -> bool:
    if not is_instance(obj, (set, frozenset)):
        return False
    stored = list((set if is_instance(obj, set) else frozenset).__iter__(obj))
    return len(stored) == len(items) and all(map(same_item, items, stored))


@guard(
    "TYPE_KEYS",
    lambda source, names: f"{source} has the attributes {', '.join(map(str, names))}",
    lambda source, names, found: f"{source} has other attributes of its own now",
)
def type_keys(obj: Any, names: Any) -> bool:
    stored = own_names(obj)
    return stored is not None and len(stored) == len(names) and all(map(same_item, names, stored))


@guard(
    "TYPE_LACKS",
    lambda source, name: f"{source} has no {name!r} of its own",
    lambda source, name, found: f"{source} had no {name!r} of its own, now it has",
)
def type_lacks(obj: Any, name: str) -> bool:
    stored = own_names(obj)
    return stored is not None and name not in stored


@guard(
    "TYPE_OWNS",
    lambda source, name: f"{source} has a {name!r} of its own",
    lambda source, name, found: f"{source} had a {name!r} of its own, now it has not",
)
def type_owns(obj: Any, name: str) -> bool:
    return name in (own_names(obj) or ())


@guard(
    "UNWATCHED",
    "nothing is called when {source} dies",
    lambda source, _, found: f"nothing was called when {source} died, now a weak reference to it has a callback",
)
def is_unwatched(obj: Any, _: None) -> bool:
    return core.is_unwatched(obj)  # in Python proxies do not say what they call


@guard(
    "TYPE_ABSENT",
    lambda source, name: f"{source} has no attribute {name!r}",
    lambda source, name, found: f"{source} had no attribute {name!r}, now it has",
)
def type_absent(obj: Any, name: str) -> bool:
    return is_instance(obj, type) and type_lookup(obj, name) is MISSING


def _has_attribute(obj: Any, name: str) -> bool:
    if type_lookup(type(obj), name) is not MISSING or (
        is_instance(obj, type) and type_lookup(obj, name) is not MISSING
    ):
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
    return type(obj) is types.CellType and contents_of_cell(obj) is MISSING


@guard(
    "NOTHING_AHEAD",
    "{source} ends after {arg} items",
    lambda source, steps, found: f"{source} ended after {steps} items, now it does not",
)
def nothing_ahead(obj: Any, steps: int) -> bool:
    if not has_type(obj, WALKING):
        return False
    try:
        return steps >= len(items_ahead(obj)[1])
    except LostTrack:
        return False


@guard(
    "CONTEXT_UNSET",
    lambda source, no_default: f"{source} is not set in this context{', nor has a default' if no_default else ''}",
    lambda source, no_default, found: f"{source} was not set in the context, now it has a value",
)
def context_unset(obj: Any, no_default: int) -> bool:
    """With 1 instead of 0: and has no default either."""
    if type(obj) is not contextvars.ContextVar:
        return False
    return (value_in_context(obj) if no_default else obj.get(MISSING)) is MISSING


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
