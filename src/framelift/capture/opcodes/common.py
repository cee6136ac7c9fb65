"""The handlers of canonical operations: one to five lines each, over operands the program binder has laid out.

Sections: stack and variables, attributes and items, operators, jumps, calls and functions, strings.
Containers are in `containers`; exceptions, `with`, generators and imports are in `flow`.
"""

from __future__ import annotations

from typing import Any

from framelift.bytecode.canonical_ops import Call, CallEx, Format, Method, SuperAttr, SuperMethod
from framelift.capture.interpreter.assertions import is_data, presumed_truth
from framelift.capture.interpreter.frame import LEAVE, Frame
from framelift.capture.interpreter.program import control, opcode
from framelift.capture.opcodes.containers import name_in_calls
from framelift.values.containers.dicts import MISSING, DictValue, pairs
from framelift.values.containers.slices import make_slice
from framelift.values.core import protocol as py
from framelift.values.core.base import NULL, Exhausted, Value
from framelift.values.core.exceptions import raise_error, raise_name_error
from framelift.values.core.lookup import defines, name_of
from framelift.values.core.stand_ins import raise_by
from framelift.values.functions.cells import EMPTY, CellValue
from framelift.values.functions.functions import ClosureValue
from framelift.values.tensors.deferred import DeferredValue, formatted, joined, text_of

# -- stack and variables ---------------------------------------------------------------------------------------------


@opcode("NOP")
def nop(frame: Frame, arg: Any) -> None:
    pass


@opcode("POP_TOP")
def pop_top(frame: Frame, arg: Any, item: Any) -> None:
    frame.drop(item)


@control("COPY")
def copy(frame: Frame, depth: int) -> None:
    frame.stack.append(frame.stack[-depth])


@control("SWAP")
def swap(frame: Frame, depth: int) -> None:
    stack = frame.stack
    stack[-1], stack[-depth] = stack[-depth], stack[-1]


@opcode("PUSH_NULL")
def push_null(frame: Frame, arg: Any) -> Any:
    return NULL


@opcode("LOAD_CONST")
def load_const(frame: Frame, constant: Any) -> Any:
    return constant


@opcode("LOAD_FAST")
def load_fast(frame: Frame, slot: int) -> Any:
    value = frame.locals[slot]
    if value is NULL:
        _unbound(frame, slot)
    return value


@opcode("LOAD_FAST_AND_CLEAR")
def load_fast_and_clear(frame: Frame, slot: int) -> Any:
    value = frame.locals[slot]
    frame.locals[slot] = NULL
    return value


@opcode("STORE_FAST")
def store_fast(frame: Frame, slot: int, value: Any) -> None:
    frame.drop(frame.locals[slot])
    frame.locals[slot] = value


@opcode("DELETE_FAST")
def delete_fast(frame: Frame, slot: int) -> None:
    frame.drop(load_fast(frame, slot))
    frame.locals[slot] = NULL


def _unbound(frame: Frame, slot: int) -> None:
    canonical = frame.program.canonical
    name = canonical.slot_names[slot]
    if canonical.slot_kinds[slot] == "free":
        where = "where it is not associated with a value in enclosing scope"
        raise_error(NameError, f"cannot access free variable '{name}' {where}")
    raise_error(UnboundLocalError, f"cannot access local variable '{name}' where it is not associated with a value")


@opcode("MAKE_CELL")
def make_cell(frame: Frame, slot: int) -> None:
    contents = frame.locals[slot]
    frame.locals[slot] = CellValue(EMPTY if contents is NULL else contents)


@opcode("COPY_FREE_VARS")
def copy_free_vars(frame: Frame, count: int) -> None:
    frame.locals[len(frame.locals) - count :] = frame.function.cells(frame.lift)


@opcode("LOAD_CLOSURE")
def load_closure(frame: Frame, slot: int) -> Any:
    return frame.locals[slot]


@opcode("LOAD_DEREF")
def load_deref(frame: Frame, slot: int) -> Any:
    value = frame.locals[slot].get(frame.lift)
    if value is EMPTY:
        _unbound(frame, slot)
    return value


@opcode("STORE_DEREF")
def store_deref(frame: Frame, slot: int, value: Any) -> None:
    frame.locals[slot].set(frame.lift, value)


@opcode("DELETE_DEREF")
def delete_deref(frame: Frame, slot: int) -> None:
    load_deref(frame, slot)
    frame.locals[slot].set(frame.lift, EMPTY)


@opcode("LOAD_GLOBAL")
def load_global(frame: Frame, name: str) -> Any:
    value = frame.globals.get_key(frame.lift, name)
    if value is MISSING:
        value = frame.lift.builtins.get_key(frame.lift, name)
        if value is MISSING:
            raise_name_error(name)
    return value


@opcode("STORE_GLOBAL")
def store_global(frame: Frame, name: str, value: Any) -> None:
    frame.globals.set_key(frame.lift, name, value)


@opcode("DELETE_GLOBAL")
def delete_global(frame: Frame, name: str) -> None:
    delete_variable(frame, frame.globals, name)


def delete_variable(frame: Frame, namespace: DictValue, name: str) -> None:
    """`del name` of a variable that is an entry of a namespace."""
    if namespace.get_key(frame.lift, name) is MISSING:
        raise_name_error(name)
    namespace.delete_key(frame.lift, name)


# -- attributes and items --------------------------------------------------------------------------------------------


@opcode("LOAD_ATTR")
def load_attr(frame: Frame, name: str, owner: Any) -> Any:
    return py.attribute(frame.lift, owner, name)


@opcode("LOAD_METHOD")
def load_method(frame: Frame, arg: Method, owner: Any) -> Any:
    return _for_call(py.attribute(frame.lift, owner, arg.name), arg.null)


def _for_call(attribute: Any, null: str) -> tuple[Any, Any]:
    # A bound method stays whole: the pair (function, self) of CPython is an optimisation only.
    return (NULL, attribute) if null == "below" else (attribute, NULL)


def _super_object(frame: Frame, two_argument: bool, super_: Any, cls: Any, instance: Any) -> Any:
    """What goes by the name `super` is given the arguments only if they were written, unless it is `super` itself."""
    is_super = isinstance(super_, Value) and super_.concrete is super
    return py.call(frame.lift, super_, [cls, instance] if two_argument or is_super else [], {})


@opcode("LOAD_SUPER_ATTR")
def load_super_attr(frame: Frame, arg: SuperAttr, super_: Any, cls: Any, instance: Any) -> Any:
    found = _super_object(frame, arg.two_argument, super_, cls, instance)
    return py.attribute(frame.lift, found, arg.name)


@opcode("LOAD_SUPER_METHOD")
def load_super_method(frame: Frame, arg: SuperMethod, super_: Any, cls: Any, instance: Any) -> Any:
    found = _super_object(frame, arg.two_argument, super_, cls, instance)
    return _for_call(py.attribute(frame.lift, found, arg.name), arg.null)


@opcode("STORE_ATTR")
def store_attr(frame: Frame, name: str, value: Any, owner: Any) -> None:
    py.set_attribute(frame.lift, owner, name, value)


@opcode("DELETE_ATTR")
def delete_attr(frame: Frame, name: str, owner: Any) -> None:
    py.delete_attribute(frame.lift, owner, name)


@opcode("BINARY_SUBSCR")
def binary_subscr(frame: Frame, arg: Any, container: Any, key: Any) -> Any:
    return py.item(frame.lift, container, key)


@opcode("STORE_SUBSCR")
def store_subscr(frame: Frame, arg: Any, value: Any, container: Any, key: Any) -> None:
    py.set_item(frame.lift, container, key, value)


@opcode("DELETE_SUBSCR")
def delete_subscr(frame: Frame, arg: Any, container: Any, key: Any) -> None:
    py.delete_item(frame.lift, container, key)


@opcode("BINARY_SLICE")
def binary_slice(frame: Frame, arg: Any, container: Any, start: Any, stop: Any) -> Any:
    return py.item(frame.lift, container, make_slice(start, stop, None))


@opcode("STORE_SLICE")
def store_slice(frame: Frame, arg: Any, value: Any, container: Any, start: Any, stop: Any) -> None:
    py.set_item(frame.lift, container, make_slice(start, stop, None), value)


# -- operators -------------------------------------------------------------------------------------------------------


@opcode("BINARY_OP")
def binary_op(frame: Frame, symbol: str, left: Any, right: Any) -> Any:
    return py.binary(frame.lift, symbol, left, right)


@opcode("UNARY_NOT")
def unary_not(frame: Frame, arg: Any, value: Any) -> Any:
    return not py.truth(frame.lift, value)


@opcode("UNARY_NEGATIVE")
def unary_negative(frame: Frame, arg: Any, value: Any) -> Any:
    return py.unary(frame.lift, "-", value)


@opcode("UNARY_POSITIVE")
def unary_positive(frame: Frame, arg: Any, value: Any) -> Any:
    return py.unary(frame.lift, "+", value)


@opcode("UNARY_INVERT")
def unary_invert(frame: Frame, arg: Any, value: Any) -> Any:
    return py.unary(frame.lift, "~", value)


@opcode("COMPARE_OP")
def compare_op(frame: Frame, symbol: str, left: Any, right: Any) -> Any:
    return py.compare(frame.lift, symbol, left, right)


@opcode("IS_OP")
def is_op(frame: Frame, invert: bool, left: Any, right: Any) -> Any:
    return py.same(frame.lift, left, right) != invert


@opcode("CONTAINS_OP")
def contains_op(frame: Frame, invert: bool, item: Any, container: Any) -> Any:
    return py.truth(frame.lift, py.contains(frame.lift, container, item)) != invert


@opcode("TO_BOOL")
def to_bool(frame: Frame, arg: Any, value: Any) -> Any:
    jump = frame.program.steps[frame.pc + 1]
    if is_data(value) and jump.op in ("POP_JUMP_IF_TRUE", "POP_JUMP_IF_FALSE"):
        ways = (int(jump.arg), frame.pc + 2)
        if_true, if_false = ways if jump.op == "POP_JUMP_IF_TRUE" else reversed(ways)
        return presumed_truth(frame, value, if_true, if_false)
    return py.truth(frame.lift, value)


# -- jumps -----------------------------------------------------------------------------------------------------------


@control("JUMP")
def jump(frame: Frame, target: int) -> int:
    return target


@control("POP_JUMP_IF_TRUE")
def pop_jump_if_true(frame: Frame, target: int) -> int | None:
    value = frame.stack[-1]
    if is_data(value):
        taken = presumed_truth(frame, value, if_true=target, if_false=frame.pc + 1)
    else:
        taken = py.truth(frame.lift, value)
    frame.stack.pop()
    return target if taken else None


@control("POP_JUMP_IF_FALSE")
def pop_jump_if_false(frame: Frame, target: int) -> int | None:
    value = frame.stack[-1]
    if is_data(value):
        taken = not presumed_truth(frame, value, if_true=frame.pc + 1, if_false=target)
    else:
        taken = not py.truth(frame.lift, value)
    frame.stack.pop()
    return target if taken else None


@control("POP_JUMP_IF_NONE")
def pop_jump_if_none(frame: Frame, target: int) -> int | None:
    taken = py.same(frame.lift, frame.stack[-1], None)
    frame.stack.pop()
    return target if taken else None


@control("POP_JUMP_IF_NOT_NONE")
def pop_jump_if_not_none(frame: Frame, target: int) -> int | None:
    taken = not py.same(frame.lift, frame.stack[-1], None)
    frame.stack.pop()
    return target if taken else None


@control("JUMP_IF_TRUE_OR_POP")
def jump_if_true_or_pop(frame: Frame, target: int) -> int | None:
    if py.truth(frame.lift, frame.stack[-1]):
        return target
    frame.stack.pop()
    return None


@control("JUMP_IF_FALSE_OR_POP")
def jump_if_false_or_pop(frame: Frame, target: int) -> int | None:
    if not py.truth(frame.lift, frame.stack[-1]):
        return target
    frame.stack.pop()
    return None


@opcode("GET_ITER")
def get_iter(frame: Frame, arg: Any, iterable: Any) -> Any:
    return py.iterate(frame.lift, iterable)


@control("FOR_ITER")
def for_iter(frame: Frame, target: int) -> int | None:
    try:
        item = py.next_item(frame.lift, frame.stack[-1])
    except Exhausted:
        frame.stack.pop()
        return target
    frame.stack.append(item)
    return None


@control("RETURN_VALUE")
def return_value(frame: Frame, arg: Any) -> int:
    frame.let_all_go()
    frame.result = frame.stack.pop()
    return LEAVE


# -- calls and functions ---------------------------------------------------------------------------------------------


@opcode("CALL")
def call(frame: Frame, arg: Call, first: Any, second: Any, *arguments: Any) -> Any:
    function, extra = _callee(arg.null, first, second)
    split = len(arguments) - len(arg.kwnames)
    kwargs = dict(zip(arg.kwnames, arguments[split:], strict=True))
    return py.call(frame.lift, function, [*extra, *arguments[:split]], kwargs)


@opcode("CALL_FUNCTION_EX")
def call_function_ex(frame: Frame, arg: CallEx, first: Any, second: Any, args: Any, *kwargs: Any) -> Any:
    function, extra = _callee(arg.null, first, second)
    named = {frame.lift.constant(key): value for key, value in pairs(frame.lift, kwargs[0])} if kwargs else {}
    kind = frame.lift.type_of(args)
    if not defines(kind, "__iter__") and not defines(kind, "__getitem__"):
        name = name_in_calls(frame, function)
        raise_error(TypeError, f"{name} argument after * must be an iterable, not {name_of(kind)}")
    if not all(type(name) is str for name in named):
        raise_by("dict(**{0: 0})")
    return py.call(frame.lift, function, [*extra, *py.listed(frame.lift, args)], named)


def _callee(null: str, first: Any, second: Any) -> tuple[Any, list[Any]]:
    """The callable and its implicit first argument."""
    if null == "below":
        return (second, []) if first is NULL else (first, [second])
    return (first, []) if second is NULL else (first, [second])


@opcode("MAKE_FUNCTION")
def make_function(frame: Frame, flags: int, *operands: Any) -> Any:
    *parts, code = operands
    function = ClosureValue(frame.lift.constant(code), frame.globals)
    set_bits = [bit for bit in (1, 2, 4, 8) if flags & bit]
    for bit, part in zip(set_bits, parts, strict=True):
        function.set_part(bit, part, frame.lift)
    return function


@opcode("SET_FUNCTION_ATTRIBUTE")
def set_function_attribute(frame: Frame, bit: int, part: Any, function: Any) -> Any:
    if not isinstance(function, ClosureValue):  # Python has made it, between a break and here
        function.refuse("completion")
    function.set_part(bit, part, frame.lift)
    return function


# -- strings ---------------------------------------------------------------------------------------------------------


@opcode("FORMAT_VALUE")
def format_value(frame: Frame, arg: Format, value: Any, *spec: Any) -> Any:
    if arg.conversion is not None:
        value = convert_value(frame, arg.conversion, value)
    return formatted(frame.lift, value, spec[0] if spec else "")


@opcode("CONVERT_VALUE")
def convert_value(frame: Frame, conversion: str, value: Any) -> Any:
    if conversion != "a":
        return text_of(frame.lift, value, "str" if conversion == "s" else "repr")
    text = frame.lift.text(value, "repr")
    return text.encode("ascii", "backslashreplace").decode("ascii")


@opcode("BUILD_STRING")
def build_string(frame: Frame, count: int, *strings: Any) -> Any:
    if any(isinstance(part, DeferredValue) for part in strings):
        return joined(strings)
    return "".join(frame.lift.constant(part) for part in strings)
