"""The canonical instruction set: every operation the symbolic interpreter can meet, with its stack effect.

`OPS[op]` reads "taken -- given", the top of the stack at the right. `items[arg]` stands for `arg` items,
`items[arg.argc]` for as many as that field of the operand says, `2*arg` for twice as many, `bits(arg)` for one per bit
that is set. Where a jump leaves another
stack than going on does, the stack when it jumps follows after `|`.

A NULL is an empty stack item that only calls look at. A *slot* is a number into the frame's variables. A jump's
operand (`arg`, or `arg.target`) is the index of a step.
"""

from collections.abc import Callable
from typing import Any, Final, Literal, NamedTuple

#: Where the NULL of a plain call lies: below the callable or above it.
NullPosition = Literal["below", "above"]


class Call(NamedTuple):
    """Operand of CALL. Under the arguments lie two items a, b.

    null "below": a is NULL: b(*args), else a(b, *args). null "above": b is NULL: a(*args), else a(b, *args).
    """

    argc: int  # all arguments, keyword ones included, b excluded
    kwnames: tuple[str, ...]  # names of the last len(kwnames) arguments
    null: NullPosition


class CallEx(NamedTuple):
    """Operand of CALL_FUNCTION_EX: a, b as for CALL (b or a is always NULL), a tuple, perhaps a dict."""

    kwargs: bool
    null: NullPosition


class Method(NamedTuple):
    """Operand of LOAD_METHOD: pushes what CALL takes, [method, self] or the attribute and NULL in `null` order."""

    name: str
    null: NullPosition


class SuperAttr(NamedTuple):
    """Operand of LOAD_SUPER_ATTR: `super(cls, self).name` if `two_argument`, else `super().name`."""

    name: str
    two_argument: bool


class SuperMethod(NamedTuple):
    """Operand of LOAD_SUPER_METHOD: LOAD_SUPER_ATTR that pushes what CALL takes."""

    name: str
    two_argument: bool
    null: NullPosition


class Format(NamedTuple):
    """Operand of FORMAT_VALUE: conversion ("s", "r", "a" or None), then format(), with the spec if there is one."""

    conversion: str | None
    spec: bool


class Unpack(NamedTuple):
    """Operand of UNPACK_EX: items before the starred one, items after it."""

    before: int
    after: int


class Intrinsic(NamedTuple):
    """Operand of CALL_INTRINSIC: name without prefix, number of operands."""

    name: str
    argc: int


OPS: Final[dict[str, str]] = {
    # stack
    "NOP": "--",
    "POP_TOP": "item --",
    "COPY": "items[arg] -- items[arg] item",  # copies the lowest of them, stack[-arg]
    "SWAP": "items[arg] -- items[arg]",  # exchanges stack[-1] and stack[-arg]
    "PUSH_NULL": "-- null",
    "LOAD_CONST": "-- value",  # arg: the constant
    # variables; arg: slot
    "LOAD_FAST": "-- value",  # unbound: UnboundLocalError
    "LOAD_FAST_AND_CLEAR": "-- value",  # unbound: pushes NULL; a cell slot: pushes the cell
    "STORE_FAST": "value --",  # storing NULL unbinds; a cell slot gets the cell back
    "DELETE_FAST": "--",  # unbound: UnboundLocalError
    "LOAD_DEREF": "-- value",  # empty cell: UnboundLocalError (own cell) or NameError (free variable)
    "STORE_DEREF": "value --",
    "DELETE_DEREF": "--",
    "LOAD_CLOSURE": "-- cell",
    "LOAD_CLASSDEREF": "-- value",  # the class body's namespace first, then the cell
    "LOAD_FROM_DICT_OR_DEREF": "mapping -- value",
    "MAKE_CELL": "--",  # slot := a new cell holding what the slot held
    "COPY_FREE_VARS": "--",  # arg: how many; the function's closure into the last slots
    # variables; arg: name
    "LOAD_GLOBAL": "-- value",
    "STORE_GLOBAL": "value --",
    "DELETE_GLOBAL": "--",
    "LOAD_NAME": "-- value",
    "STORE_NAME": "value --",
    "DELETE_NAME": "--",
    "LOAD_FROM_DICT_OR_GLOBALS": "mapping -- value",
    "LOAD_LOCALS": "-- mapping",
    "SETUP_ANNOTATIONS": "--",
    # attributes; arg: name unless said
    "LOAD_ATTR": "owner -- value",
    "LOAD_METHOD": "owner -- first second",  # arg: Method
    "LOAD_SUPER_ATTR": "super class self -- value",  # arg: SuperAttr
    "LOAD_SUPER_METHOD": "super class self -- first second",  # arg: SuperMethod
    "STORE_ATTR": "value owner --",
    "DELETE_ATTR": "owner --",
    # operators
    "BINARY_OP": "left right -- result",  # arg: "+", "+=", ...
    "UNARY_NOT": "value -- result",
    "UNARY_NEGATIVE": "value -- result",
    "UNARY_INVERT": "value -- result",
    "UNARY_POSITIVE": "value -- result",
    "COMPARE_OP": "left right -- result",  # arg: "<", "<=", "==", "!=", ">", ">="
    "IS_OP": "left right -- bool",  # arg: True for "is not"
    "CONTAINS_OP": "item container -- bool",  # arg: True for "not in"
    "TO_BOOL": "value -- bool",
    # items
    "BINARY_SUBSCR": "container key -- value",
    "STORE_SUBSCR": "value container key --",
    "DELETE_SUBSCR": "container key --",
    "BINARY_SLICE": "container start stop -- value",
    "STORE_SLICE": "value container start stop --",
    # jumps; arg: step index
    "JUMP": "--",
    "POP_JUMP_IF_TRUE": "value --",  # any value; tests its truth
    "POP_JUMP_IF_FALSE": "value --",
    "POP_JUMP_IF_NONE": "value --",
    "POP_JUMP_IF_NOT_NONE": "value --",
    "JUMP_IF_TRUE_OR_POP": "value -- | value -- value",
    "JUMP_IF_FALSE_OR_POP": "value -- | value -- value",
    "FOR_ITER": "iterator -- iterator item | iterator --",  # jumps when there are no more items
    # iteration
    "GET_ITER": "iterable -- iterator",
    "GET_LEN": "sized -- sized length",
    "UNPACK_SEQUENCE": "sequence -- items[arg]",  # the first item on top
    "UNPACK_EX": "iterable -- after[arg.after] list before[arg.before]",  # arg: Unpack; the first item on top
    # containers; arg: count
    "BUILD_TUPLE": "items[arg] -- tuple",
    "BUILD_LIST": "items[arg] -- list",
    "BUILD_SET": "items[arg] -- set",
    "BUILD_MAP": "pairs[2*arg] -- dict",
    "BUILD_CONST_KEY_MAP": "values[arg] keys -- dict",  # keys: a tuple
    "BUILD_STRING": "strings[arg] -- string",
    "BUILD_SLICE": "bounds[arg] -- slice",
    "LIST_TO_TUPLE": "list -- tuple",
    # arg: where the container lies once the operand is gone, 1 for the top
    "LIST_APPEND": "item --",
    "LIST_EXTEND": "iterable --",
    "SET_ADD": "item --",
    "SET_UPDATE": "iterable --",
    "MAP_ADD": "key value --",
    "DICT_UPDATE": "mapping --",
    "DICT_MERGE": "mapping --",  # into the keyword arguments of a call: a key that is there is a TypeError
    # strings
    "FORMAT_VALUE": "value spec[arg.spec] -- string",  # arg: Format
    "CONVERT_VALUE": "value -- string",  # arg: "s", "r" or "a"
    # calls and functions
    "CALL": "first second arguments[arg.argc] -- result",  # arg: Call
    "CALL_FUNCTION_EX": "first second tuple dict[arg.kwargs] -- result",  # arg: CallEx
    "CALL_INTRINSIC": "operands[arg.argc] -- result",  # arg: Intrinsic
    # arg: which attributes, of 1 defaults, 2 kwdefaults, 4 annotations, 8 closure, in this order
    "MAKE_FUNCTION": "attributes[bits(arg)] code -- function",
    "SET_FUNCTION_ATTRIBUTE": "attribute function -- function",  # arg: one of these bits
    "LOAD_BUILD_CLASS": "-- function",
    "RETURN_VALUE": "value --",
    # imports; arg: name
    "IMPORT_NAME": "level fromlist -- module",
    "IMPORT_FROM": "module -- module value",
    # exceptions
    "RAISE_VARARGS": "operands[arg] --",  # nothing, exception, exception and cause
    "RERAISE": "exception --",  # arg: 0, or where lasti lies once the exception is gone
    "PUSH_EXC_INFO": "exception -- previous exception",
    "POP_EXCEPT": "previous --",
    "CHECK_EXC_MATCH": "exception type -- exception bool",
    "CHECK_EG_MATCH": "group type -- rest match",
    "BEFORE_WITH": "manager -- exit entered",
    "WITH_EXCEPT_START": "exit lasti previous exception -- exit lasti previous exception result",
    "LOAD_ASSERTION_ERROR": "-- type",
    # match; see the language reference
    "MATCH_CLASS": "subject type names -- values",  # arg: positional patterns; None when it does not match
    "MATCH_KEYS": "subject keys -- subject keys values",
    "MATCH_MAPPING": "subject -- subject bool",
    "MATCH_SEQUENCE": "subject -- subject bool",
    # generators and coroutines
    "RETURN_GENERATOR": "-- sent",
    "YIELD_VALUE": "value -- sent",
    "SEND": "receiver sent -- receiver yielded | receiver sent -- returned",  # arg: step index, jumped to on return
    "END_SEND": "receiver value -- value",
    "CLEANUP_THROW": "receiver sent exception -- none value",
    "GET_YIELD_FROM_ITER": "iterable -- iterator",
    "GET_AWAITABLE": "object -- awaitable",
    "GET_AITER": "object -- iterator",
    "GET_ANEXT": "iterator -- iterator awaitable",
    "END_ASYNC_FOR": "awaitable exception --",
    "BEFORE_ASYNC_WITH": "manager -- exit awaitable",
}
#: Operations after which the next step is not reached.
NEVER_GO_ON: Final = frozenset({"JUMP", "RETURN_VALUE", "RAISE_VARARGS", "RERAISE"})
#: Operations whose operand is the index of a step.
JUMP_OPS: Final = frozenset(op for op in OPS if "JUMP" in op) | {"FOR_ITER", "SEND"}


_COUNTS: Final[dict[str, Callable[[Any], int]]] = {
    "arg]": int,
    "2*arg]": lambda arg: 2 * arg,
    "bits(arg)]": lambda arg: arg.bit_count(),
    "arg.argc]": lambda arg: arg.argc,
    "arg.kwargs]": lambda arg: arg.kwargs,
    "arg.spec]": lambda arg: arg.spec,
    "arg.after]": lambda arg: arg.after,
    "arg.before]": lambda arg: arg.before,
}


# How many items a step takes or gives: a number, and what the operand adds to it.
_Count = tuple[int, tuple[Callable[[Any], int], ...]]


def _counter(items: str) -> _Count:
    names = items.split()
    counts = tuple(_COUNTS[number] for name in names if (number := name.partition("[")[2]))
    return len(names) - len(counts), counts


def _ways(line: str) -> list[tuple[_Count, _Count]]:
    """What a step takes and gives when it goes on and, if that differs, when it jumps."""
    pairs = [way.split("--") for way in line.split("|")]
    return [(_counter(taken), _counter(given)) for taken, given in pairs]


# Read once: every step of every program is looked up here.
_EFFECTS: Final = {op: _ways(line) for op, line in OPS.items()}


def effect(op: str, arg: Any, jumping: bool = False) -> tuple[int, int]:
    """How many items a step takes and gives, from its line in OPS.

    >>> effect("BUILD_MAP", 2), effect("FOR_ITER", 7, jumping=True)
    ((4, 1), (1, 0))
    """
    (taken, more_taken), (given, more_given) = _EFFECTS[op][-1 if jumping else 0]
    if more_taken:
        taken += sum(count(arg) for count in more_taken)
    if more_given:
        given += sum(count(arg) for count in more_given)
    return taken, given
