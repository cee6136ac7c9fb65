"""Accessors: the steps by which guards go from an object to another, one definition each.

The native guard tree (`framelift.native._core.GuardTree`) does the same in C; `framelift.guards.reference` runs these
definitions node by node and compares. Nothing here runs code of the user's.

    >>> dict_item.words("L['config']", "size")
    "L['config']['size']"
"""

from __future__ import annotations

import collections
import contextvars
import sys
import types
import weakref
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from framelift.guards.equality import has_type, is_constant, is_instance
from framelift.guards.reading import (
    C_DESCRIPTORS,
    MISSING,
    attributes_of_thread,
    contents_of_cell,
    dict_lookup,
    instance_dict,
    item_ahead,
    lru_entry,
    mapping_of,
    parts_of,
    sequence_of,
    type_lookup,
    value_in_context,
)
from framelift.guards.words import name_of
from framelift.native import core


@dataclass(frozen=True)
class Accessor:
    """One step from an object to another."""

    name: str
    number: int
    words: Callable[[str, Any], str]
    """(source, argument) -> the path to the next object, as a Python expression where there is one."""
    step: Callable[[Any, Any], Any]
    """(object, argument) -> the next object, or MISSING."""


ACCESSORS: dict[int, Accessor] = {}


def accessor(name: str, words: Callable[[str, Any], str]) -> Callable[[Callable[[Any, Any], Any]], Accessor]:
    """Defines an accessor from its words and its step."""

    def define(step: Callable[[Any, Any], Any]) -> Accessor:
        number = getattr(core, f"ACCESS_{name}")
        ACCESSORS[number] = kind = Accessor(name, number, words, step)
        return kind

    return define


@accessor("ARG", lambda source, arg: f"argument {arg}")
def argument_at(slots: Any, index: int) -> Any:
    return slots[index]


@accessor("FUNCTION", lambda source, arg: "the function")
def called_function(function: Any, _: Any) -> Any:
    return function


@accessor("KNOWN", lambda _, obj: name_of(obj))
def known_object(_: Any, obj: Any) -> Any:
    return obj


@accessor("DICT_ITEM", lambda source, key: f"{source}[{repr(key) if is_constant(key) else name_of(key)}]")
def dict_item(obj: Any, key: Any) -> Any:
    return dict_lookup(obj, key)


@accessor("INSTANCE_DICT", lambda source, arg: f"{source}.__dict__")
def object_dict(obj: Any, _: Any) -> Any:
    return instance_dict(obj)


@accessor("TYPE_LOOKUP", lambda source, arg: f"{source}.{arg}")
def class_attribute(obj: Any, name: str) -> Any:
    return type_lookup(obj, name) if is_instance(obj, type) else MISSING


@accessor("TYPE_OF", lambda source, arg: f"type({source})")
def type_of(obj: Any, _: Any) -> Any:
    return type(obj)


@accessor("LIST_ITEM", lambda source, arg: f"{source}[{arg}]")
def list_item(obj: Any, index: int) -> Any:
    return list.__getitem__(obj, index) if is_instance(obj, list) and index < list.__len__(obj) else MISSING


@accessor("TUPLE_ITEM", lambda source, arg: f"{source}[{arg}]")
def tuple_item(obj: Any, index: int) -> Any:
    return tuple.__getitem__(obj, index) if is_instance(obj, tuple) and index < tuple.__len__(obj) else MISSING


@accessor("DEQUE_ITEM", lambda source, arg: f"{source}[{arg}]")
def deque_item(obj: Any, index: int) -> Any:
    holds_it = is_instance(obj, collections.deque) and index < collections.deque.__len__(obj)
    return collections.deque.__getitem__(obj, index) if holds_it else MISSING


@accessor("AHEAD", lambda source, arg: f"the item of {source} in {arg} steps")
def ahead(obj: Any, steps: int) -> Any:
    return item_ahead(obj, steps)


@accessor("ITERATED", lambda source, arg: f"the sequence of {source}")
def iterated(obj: Any, _: Any) -> Any:
    return sequence_of(obj)


@accessor("REDUCED", lambda source, arg: f"{source}.__reduce__()")
def reduced(obj: Any, _: Any) -> Any:
    return parts_of(obj)


@accessor("REFERENT", lambda source, arg: f"{source}()")
def referent(obj: Any, _: Any) -> Any:
    return weakref.ref.__call__(obj) if is_instance(obj, weakref.ref) else MISSING


@accessor("OFFSET", lambda source, arg: f"{source}.storage_offset()")
def offset_in_memory(obj: Any, _: Any) -> Any:
    torch = sys.modules.get("torch")
    is_plain = torch is not None and (type(obj) is torch.Tensor or type(obj) is torch.nn.Parameter)
    return obj.storage_offset() if is_plain else MISSING


@accessor("RESULT", lambda source, arg: f"{source}()")
def result_of(function: Any, _: Any) -> Any:
    return function() if type(function) is types.BuiltinFunctionType else MISSING


@accessor("CELL_CONTENTS", lambda source, arg: f"{source}.cell_contents")
def cell_contents(obj: Any, _: Any) -> Any:
    return contents_of_cell(obj) if type(obj) is types.CellType else MISSING


def _function_part(name: str) -> Callable[[Any, Any], Any]:
    return lambda obj, _: getattr(obj, name) if type(obj) is types.FunctionType else MISSING


def _method_part(name: str) -> Callable[[Any, Any], Any]:
    return lambda obj, _: getattr(obj, name) if type(obj) is types.MethodType else MISSING


function_code = accessor("FUNC_CODE", lambda source, arg: f"{source}.__code__")(_function_part("__code__"))
function_globals = accessor("FUNC_GLOBALS", lambda source, _: "G" if source == "F" else f"{source}.__globals__")(
    _function_part("__globals__")
)
function_closure = accessor("FUNC_CLOSURE", lambda source, arg: f"{source}.__closure__")(_function_part("__closure__"))
function_defaults = accessor("FUNC_DEFAULTS", lambda source, arg: f"{source}.__defaults__")(
    _function_part("__defaults__")
)
function_kwdefaults = accessor("FUNC_KWDEFAULTS", lambda source, arg: f"{source}.__kwdefaults__")(
    _function_part("__kwdefaults__")
)
method_self = accessor("METHOD_SELF", lambda source, arg: f"{source}.__self__")(_method_part("__self__"))
method_func = accessor("METHOD_FUNC", lambda source, arg: f"{source}.__func__")(_method_part("__func__"))


@accessor("MODULE_DICT", lambda source, arg: f"{source}.__dict__")
def module_dict(obj: Any, _: Any) -> Any:
    return instance_dict(obj) if is_instance(obj, types.ModuleType) else MISSING


@accessor("SLOT", lambda source, descriptor: f"{source}.{descriptor.__name__}")
def slot_value(obj: Any, slot: Any) -> Any:
    return core.read_slot(obj, *slot, MISSING)


@accessor("GETATTR", lambda source, arg: f"{source}.{arg}")
def c_attribute(obj: Any, name: str) -> Any:
    descriptor = type_lookup(type(obj), name)
    if not has_type(descriptor, C_DESCRIPTORS):
        return MISSING
    try:
        return descriptor.__get__(obj)
    except AttributeError:
        return MISSING


@accessor("LRU_RESULT", lambda source, key: f"{source}.cache[{repr(key) if is_constant(key) else '...'}]")
def cached_result(obj: Any, key: Any) -> Any:
    found = lru_entry(obj, key)
    return MISSING if found is None else found[1]


@accessor("CONTEXT_VALUE", lambda source, arg: f"{source}.get()")
def context_value(obj: Any, _: Any) -> Any:
    return value_in_context(obj) if type(obj) is contextvars.ContextVar else MISSING


@accessor("CONTEXT_OWN", lambda source, arg: f"{source}.get(...)")
def context_own(obj: Any, _: Any) -> Any:
    return obj.get(MISSING) if type(obj) is contextvars.ContextVar else MISSING


@accessor("THREAD_DICT", lambda source, arg: f"{source}.__dict__")
def thread_dict(obj: Any, _: Any) -> Any:
    found = attributes_of_thread(obj)
    return MISSING if found is None else found


@accessor("PROXIED", lambda source, arg: f"the mapping of {source}")
def proxied(obj: Any, _: Any) -> Any:
    return mapping_of(obj) if type(obj) is types.MappingProxyType else MISSING


@accessor("AS_TENSOR", lambda source, arg: f"torch.from_numpy({source})")
def array_as_tensor(obj: Any, make: Callable[[Any], Any]) -> Any:
    kind = type(obj)
    if type.__dict__["__flags__"].__get__(kind) & _HEAP_TYPE or f"{kind.__module__}.{kind.__name__}" != "numpy.ndarray":
        return MISSING
    try:
        return make(obj)
    except (TypeError, ValueError, RuntimeError):
        return MISSING


@accessor("AS_PLAIN", lambda source, arg: f"{source}.as_subclass(torch.Tensor)")
def tensor_as_plain(obj: Any, make: Callable[[Any], Any]) -> Any:
    try:
        return make(obj)
    except (TypeError, RuntimeError):
        return MISSING


_HEAP_TYPE = 1 << 9
