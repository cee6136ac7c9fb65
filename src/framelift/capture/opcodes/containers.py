"""The handlers of operations that build containers and take them apart."""

from __future__ import annotations

from typing import Any

from framelift.breaks import FL0102, GraphBreak
from framelift.bytecode.canonical_ops import Unpack
from framelift.capture.interpreter.frame import Frame
from framelift.capture.interpreter.program import opcode
from framelift.values.containers.dicts import DictValue, pairs
from framelift.values.containers.sequences import ListValue
from framelift.values.containers.sets import SetValue
from framelift.values.containers.slices import make_slice
from framelift.values.core import protocol as py
from framelift.values.core.base import NULL, Value
from framelift.values.core.construct import make_tuple
from framelift.values.core.exceptions import raise_error
from framelift.values.core.lookup import class_lookup, defines, name_of
from framelift.values.core.stand_ins import raise_by, stand_in
from framelift.values.numbers.scalars import ScalarValue
from framelift.values.numbers.symbolic import SymbolicValue
from framelift.values.objects.instances import UserObjectValue


@opcode("BUILD_TUPLE")
def build_tuple(frame: Frame, count: int, *items: Any) -> Any:
    return make_tuple(items)


@opcode("BUILD_LIST")
def build_list(frame: Frame, count: int, *items: Any) -> Any:
    return ListValue(list(items))


@opcode("BUILD_SET")
def build_set(frame: Frame, count: int, *items: Any) -> Any:
    made: set[Any] = set()
    for item in items:
        made.add(py.key_of(frame.lift, item))
    return SetValue(made)


@opcode("BUILD_MAP")
def build_map(frame: Frame, count: int, *items: Any) -> Any:
    return DictValue({py.key_of(frame.lift, key): value for key, value in zip(items[::2], items[1::2], strict=True)})


@opcode("BUILD_CONST_KEY_MAP")
def build_const_key_map(frame: Frame, count: int, *items: Any) -> Any:
    *values, keys = items  # the keys are an argument, where a frame goes on right here
    return DictValue(dict(zip(frame.lift.constant(keys), values, strict=True)))


@opcode("BUILD_SLICE")
def build_slice(frame: Frame, count: int, *bounds: Any) -> Any:
    start, stop, step = (*bounds, None) if count == 2 else bounds
    return make_slice(start, stop, step)


@opcode("LIST_TO_TUPLE")
def list_to_tuple(frame: Frame, arg: Any, value: Any) -> Any:
    return make_tuple(py.items(frame.lift, value))


@opcode("LIST_APPEND")
def list_append(frame: Frame, depth: int, item: Any) -> None:
    frame.stack[-1 - depth].append(frame.lift, item)


@opcode("LIST_EXTEND")
def list_extend(frame: Frame, depth: int, iterable: Any) -> None:
    if isinstance(iterable, ScalarValue | SymbolicValue):
        iterable = frame.lift.constant(iterable)
    if not _can_be_walked(frame, iterable):
        raise_by("[*given]", given=stand_in(py.type_of(iterable)))
    frame.stack[-1 - depth].extend(frame.lift, iterable)


def _can_be_walked(frame: Frame, iterable: Any) -> bool:
    if not isinstance(iterable, Value):
        return hasattr(type(iterable), "__iter__")
    if type(iterable) is not UserObjectValue:
        return True
    cls = frame.lift.type_of(iterable)
    return any(class_lookup(frame.lift, cls, name) is not None for name in ("__iter__", "__getitem__"))


@opcode("SET_ADD")
def set_add(frame: Frame, depth: int, item: Any) -> None:
    frame.stack[-1 - depth].add(frame.lift, item)


@opcode("SET_UPDATE")
def set_update(frame: Frame, depth: int, iterable: Any) -> None:
    frame.stack[-1 - depth].update(frame.lift, iterable)


@opcode("MAP_ADD")
def map_add(frame: Frame, depth: int, key: Any, value: Any) -> None:
    frame.stack[-2 - depth].set_item(frame.lift, key, value)


@opcode("DICT_UPDATE")
def dict_update(frame: Frame, depth: int, mapping: Any) -> None:
    if not isinstance(mapping, DictValue) and not frame.lift.has_attribute(mapping, "keys"):
        raise_by("{**given}", given=stand_in(py.type_of(mapping)))
    frame.stack[-1 - depth].update(frame.lift, mapping)


@opcode("DICT_MERGE")
def dict_merge(frame: Frame, depth: int, mapping: Any) -> None:
    target, lift = frame.stack[-1 - depth], frame.lift
    if not isinstance(mapping, Value) or not lift.has_attribute(mapping, "keys"):
        found = name_of(lift.type_of(mapping))
        raise_error(TypeError, f"{_merged_for(frame, depth)} argument after ** must be a mapping, not {found}")
    for key, value in pairs(lift, mapping):
        name = lift.constant(key)
        if name in target.overlay:
            if type(name) is not str:
                raise GraphBreak(FL0102, what=f"a function with the keyword {name!r} twice")
            words = f"got multiple values for keyword argument '{name}'"
            raise_error(TypeError, f"{_merged_for(frame, depth)} {words}")
        target.set_key(lift, name, value)


def _merged_for(frame: Frame, depth: int) -> str:
    """The name of the function whose keyword arguments are put together `depth` below the top of the stack."""
    below = frame.stack[-3 - depth]
    return name_in_calls(frame, frame.stack[-4 - depth] if below is NULL else below)


def name_in_calls(frame: Frame, function: Any) -> str:
    """What errors call a function that is called with * or ** of something wrong."""
    lift = frame.lift
    if not isinstance(function, Value) or not lift.has_attribute(function, "__qualname__"):
        raise GraphBreak(FL0102, what="a function with * or ** of something wrong")  # Python knows the words for it
    name = lift.constant(py.attribute(lift, function, "__qualname__"))
    module = (
        lift.constant(py.attribute(lift, function, "__module__"))
        if lift.has_attribute(function, "__module__")
        else None
    )
    return f"{name}()" if module in (None, "builtins") else f"{module}.{name}()"


@opcode("GET_LEN")
def get_len(frame: Frame, arg: Any, sized: Any) -> Any:
    return sized, py.length(frame.lift, sized)


@opcode("UNPACK_SEQUENCE")
def unpack_sequence(frame: Frame, count: int, sequence: Any) -> Any:
    # One more shows that there are too many; an iterator that goes on is not asked for the rest.
    items = py.first_items(frame.lift, _iterable(frame, sequence), count + 1)
    if len(items) != count:
        raise_by(f"[{'_, ' * count}] = iter(given)", given=[None] * len(items))
    return items[0] if count == 1 else items[::-1]


@opcode("UNPACK_EX")
def unpack_ex(frame: Frame, arg: Unpack, iterable: Any) -> Any:
    iterator = py.iterate(frame.lift, _iterable(frame, iterable))
    items = py.next_items(frame.lift, iterator, arg.before)
    needed = arg.before + arg.after
    if len(items) == arg.before:
        items += py.listed(frame.lift, iterator)  # what is left is made a list: it is asked how much that is
    if len(items) < needed:
        raise_by(f"[{'_, ' * needed} *_] = given", given=[None] * len(items))
    stop = len(items) - arg.after
    middle = ListValue(items[arg.before : stop])
    result = items[stop:][::-1] + [middle] + items[: arg.before][::-1]
    return result[0] if len(result) == 1 else result


def _iterable(frame: Frame, iterable: Any) -> Any:
    """What is to be unpacked, if it can be."""
    if isinstance(iterable, ScalarValue | SymbolicValue):
        iterable = frame.lift.constant(iterable)
    if not isinstance(iterable, Value) and not hasattr(type(iterable), "__iter__"):
        raise_by("[_] = given", given=iterable)
    if isinstance(iterable, UserObjectValue):
        frame.lift.type_of(iterable)
        if not defines(iterable.cls, "__iter__") and not defines(iterable.cls, "__getitem__"):
            raise_by("[_] = given", given=stand_in(iterable.cls))
    return iterable
