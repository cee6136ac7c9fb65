"""The instructions of class bodies: their variables are entries of the namespace the class is made of."""

from __future__ import annotations

from typing import Any

from framelift.capture.interpreter.frame import Frame
from framelift.capture.interpreter.program import opcode
from framelift.capture.opcodes.common import load_deref, load_global
from framelift.values.containers.dicts import MISSING, DictValue
from framelift.values.core import protocol as py
from framelift.values.core.base import Raised
from framelift.values.core.exceptions import is_raised, raise_error, raise_name_error


@opcode("LOAD_BUILD_CLASS")
def load_build_class(frame: Frame, arg: Any) -> Any:
    found = frame.lift.builtins.get_key(frame.lift, "__build_class__")
    if found is MISSING:
        raise_error(NameError, "__build_class__ not found")
    return found


@opcode("LOAD_NAME")
def load_name(frame: Frame, name: str) -> Any:
    return load_from_dict_or_globals(frame, name, frame.names)


@opcode("STORE_NAME")
def store_name(frame: Frame, name: str, value: Any) -> None:
    py.set_item(frame.lift, frame.names, name, value)


@opcode("DELETE_NAME")
def delete_name(frame: Frame, name: str) -> None:
    if _look_up(frame, frame.names, name) is MISSING:
        raise_name_error(name)
    py.delete_item(frame.lift, frame.names, name)


def _look_up(frame: Frame, names: Any, name: str) -> Any:
    """A variable in the namespace, which a metaclass may have prepared; MISSING: there is none of the name."""
    if type(names) is DictValue:
        return names.get_key(frame.lift, name)
    try:
        return py.item(frame.lift, names, name)
    except Raised as raised:
        if not is_raised(raised, KeyError):
            raise
        return MISSING


@opcode("LOAD_LOCALS")
def load_locals(frame: Frame, arg: Any) -> Any:
    return frame.names


@opcode("LOAD_FROM_DICT_OR_GLOBALS")
def load_from_dict_or_globals(frame: Frame, name: str, names: Any) -> Any:
    found = _look_up(frame, names, name)
    return load_global(frame, name) if found is MISSING else found


@opcode("LOAD_CLASSDEREF")
def load_classderef(frame: Frame, slot: int) -> Any:
    return load_from_dict_or_deref(frame, slot, frame.names)


@opcode("LOAD_FROM_DICT_OR_DEREF")
def load_from_dict_or_deref(frame: Frame, slot: int, names: Any) -> Any:
    found = _look_up(frame, names, frame.program.canonical.slot_names[slot])
    return load_deref(frame, slot) if found is MISSING else found


@opcode("SETUP_ANNOTATIONS")
def setup_annotations(frame: Frame, arg: Any) -> None:
    if not py.contains(frame.lift, frame.names, "__annotations__"):
        py.set_item(frame.lift, frame.names, "__annotations__", DictValue({}))
