"""The instructions of class bodies: their variables are entries of the namespace the class is made of."""

from __future__ import annotations

import builtins
from typing import Any

from framelift.capture.frame import Frame
from framelift.capture.opcodes import delete_variable, load_deref, load_global
from framelift.capture.program import opcode
from framelift.values import protocol as py
from framelift.values.dicts import MISSING, DictValue


@opcode("LOAD_BUILD_CLASS")
def load_build_class(frame: Frame, arg: Any) -> Any:
    return frame.lift.known_object(builtins.__build_class__)


@opcode("LOAD_NAME")
def load_name(frame: Frame, name: str) -> Any:
    return load_from_dict_or_globals(frame, name, frame.names)


@opcode("STORE_NAME")
def store_name(frame: Frame, name: str, value: Any) -> None:
    frame.names.set_key(frame.lift, name, value)


@opcode("DELETE_NAME")
def delete_name(frame: Frame, name: str) -> None:
    delete_variable(frame, frame.names, name)


@opcode("LOAD_LOCALS")
def load_locals(frame: Frame, arg: Any) -> Any:
    return frame.names


@opcode("LOAD_FROM_DICT_OR_GLOBALS")
def load_from_dict_or_globals(frame: Frame, name: str, names: Any) -> Any:
    found = names.get_key(frame.lift, name)
    return load_global(frame, name) if found is MISSING else found


@opcode("LOAD_CLASSDEREF")
def load_classderef(frame: Frame, slot: int) -> Any:
    return load_from_dict_or_deref(frame, slot, frame.names)


@opcode("LOAD_FROM_DICT_OR_DEREF")
def load_from_dict_or_deref(frame: Frame, slot: int, names: Any) -> Any:
    found = names.get_key(frame.lift, frame.program.canonical.slot_names[slot])
    return load_deref(frame, slot) if found is MISSING else found


@opcode("SETUP_ANNOTATIONS")
def setup_annotations(frame: Frame, arg: Any) -> None:
    if not py.contains(frame.lift, frame.names, "__annotations__"):
        frame.names.set_key(frame.lift, "__annotations__", DictValue({}))
