"""The handlers of `match` statements, as the language reference defines the patterns."""

from __future__ import annotations

from typing import Any, NoReturn

from framelift.breaks import FL0102, GraphBreak
from framelift.capture.interpreter.frame import Frame
from framelift.capture.interpreter.program import opcode
from framelift.values.containers.dicts import MISSING, DictValue
from framelift.values.containers.sequences import ListValue
from framelift.values.core import protocol as py
from framelift.values.core.base import Raised, Value
from framelift.values.core.construct import make_tuple
from framelift.values.core.exceptions import is_raised, raise_error
from framelift.values.core.hash_keys import from_key
from framelift.values.core.lookup import flags_of, name_of
from framelift.values.core.stand_ins import raise_by, stand_in
from framelift.values.objects.classes import ClassValue

_SEQUENCE, _MAPPING, _MATCH_SELF = 1 << 5, 1 << 6, 1 << 22


@opcode("MATCH_SEQUENCE")
def match_sequence(frame: Frame, arg: Any, subject: Any) -> Any:
    return subject, bool(flags_of(frame.lift.type_of(subject)) & _SEQUENCE)


@opcode("MATCH_MAPPING")
def match_mapping(frame: Frame, arg: Any, subject: Any) -> Any:
    return subject, bool(flags_of(frame.lift.type_of(subject)) & _MAPPING)


@opcode("MATCH_KEYS")
def match_keys(frame: Frame, arg: Any, subject: Any, keys: Any) -> Any:
    lift = frame.lift
    wanted = [py.key_of(lift, key) for key in py.items(lift, keys)]
    for position, key in enumerate(wanted):
        if key in wanted[:position]:
            raise_error(ValueError, f"mapping pattern checks duplicate key ({key!r})")
    found = [_value_at(frame, subject, key) for key in wanted]
    values = None if any(value is MISSING for value in found) else make_tuple(found)
    return subject, keys, values


def _value_at(frame: Frame, subject: Any, key: Any) -> Any:
    """What a mapping has under a key, by its `get`: nothing is made for a key that is missing."""
    if isinstance(subject, DictValue):
        return subject.get_key(frame.lift, key)
    nothing = ListValue([])
    get = py.attribute(frame.lift, subject, "get")
    found = py.call(frame.lift, get, [from_key(key), nothing], {})
    return MISSING if found is nothing else found


@opcode("MATCH_CLASS")
def match_class(frame: Frame, positional: int, subject: Any, cls: Any, names: Any) -> Any:
    lift = frame.lift
    if not isinstance(cls, ClassValue):
        raise GraphBreak(FL0102, what=f"a class pattern with {py.describe(cls)}")
    if not py.truth(lift, py.call(lift, lift.known_object(isinstance), [subject, cls], {})):
        return None
    wanted = [lift.constant(name) for name in py.items(lift, names)]
    found: list[Any] = []
    if positional:
        listed = _match_args(frame, cls)
        if listed is None:  # the built-in types match as a whole
            _check_count(cls, positional, 1)
            found.append(subject)
        else:
            _check_count(cls, positional, len(listed))
            wanted = listed[:positional] + wanted
    for position, name in enumerate(wanted):
        if type(name) is not str:
            _raise_by_pattern(cls, (name,), 1)
        if name in wanted[:position]:
            _raise_by_pattern(cls, (name, name), 2)
        value = _attribute_or_missing(frame, subject, name)
        if value is MISSING:
            return None
        found.append(value)
    return make_tuple(found)


def _match_args(frame: Frame, cls: ClassValue) -> list[Any] | None:
    lift = frame.lift
    listed = _attribute_or_missing(frame, cls, "__match_args__")
    if listed is MISSING:
        return None if flags_of(cls.concrete) & _MATCH_SELF else []
    if py.type_of(listed) is not tuple:
        _raise_by_pattern(cls, stand_in(py.type_of(listed)), 1)
    return [lift.constant(name) for name in py.items(lift, listed)]


def _check_count(cls: ClassValue, given: int, most: int) -> None:
    if given > most:
        _raise_by_pattern(cls, ("_",) * most, given)


def _raise_by_pattern(cls: ClassValue, match_args: Any, count: int) -> NoReturn:
    """What Python says of a class pattern with so many patterns by position."""
    named = type(name_of(cls.concrete), (), {"__match_args__": match_args, "__getattr__": lambda *_: None})
    raise_by(f"match given:\n case C({'_, ' * count}): ...", C=named, given=named())


def _attribute_or_missing(frame: Frame, owner: Value | Any, name: str) -> Any:
    try:
        return py.attribute(frame.lift, owner, name)
    except Raised as raised:
        if is_raised(raised, AttributeError):
            return MISSING
        raise
