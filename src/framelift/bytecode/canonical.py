"""Code object -> the same program in one instruction set for all versions.

The symbolic interpreter runs on this view and asks no version questions: what 3.11 writes as KW_NAMES, PRECALL, CALL,
3.12 as KW_NAMES, CALL and 3.13 as LOAD_CONST, CALL_KW is one CALL step everywhere (`canonical_ops` lists them all).
What stays visible is the real stack, item by item, because a resume function rebuilds it: the NULL of a call lies
where this version puts it, and the operand says where.

>>> def f(x): return x + 1
>>> for step in lower(f.__code__).steps: print(step.op, step.arg)
LOAD_FAST 0
LOAD_CONST 1
BINARY_OP +
RETURN_VALUE None
"""

import weakref
from bisect import bisect_left
from collections.abc import Callable
from dataclasses import dataclass
from types import CodeType
from typing import Any, Final, Literal, NamedTuple

from framelift.bytecode import canonical_ops
from framelift.bytecode.canonical_ops import Call, CallEx, Format, Intrinsic, Method, SuperAttr, SuperMethod, Unpack
from framelift.bytecode.decode import decode, slot_names
from framelift.bytecode.instruction import Instruction, Positions
from framelift.bytecode.opcodes import (
    COMPARE_SHIFT,
    COMPARE_TO_BOOL,
    COMPARISONS,
    INTRINSICS_1,
    INTRINSICS_2,
    NAMES,
    NULL_POSITION,
    OPERATORS,
    OPMAP,
    VERSION,
)

OPS = canonical_ops.OPS
_NULL: Final[canonical_ops.NullPosition] = "above" if NULL_POSITION == "above" else "below"


class NotLowered(ValueError):
    """The code has no canonical form: an opcode that no compiler emits, or a shape none produces."""


class Handler(NamedTuple):
    """Where an exception goes: the stack is cut to depth, then lasti (if so) and the exception are pushed."""

    target: int
    depth: int
    lasti: bool


class Step(NamedTuple):
    """One canonical operation.

    `first` is the index of the first step of the same real instruction, `offset` where that instruction (or the
    group of instructions that make up one call) begins in the real code: a resume function is entered there.
    """

    op: str
    arg: Any
    first: int
    offset: int
    positions: Positions
    handler: Handler | None

    @property
    def line(self) -> int | None:
        return self.positions[0]


SlotKind = Literal["local", "cell", "free"]


@dataclass(frozen=True, slots=True)
class CanonicalCode:
    """A lowered code object. Slots are numbered as in the real frame: locals, cells, free variables."""

    #: Weak, so that a lowered form can be kept for as long as the code object lives.
    reference: weakref.ref[CodeType]
    steps: list[Step]
    #: The first step behind the frame's set-up (MAKE_CELL, COPY_FREE_VARS, RETURN_GENERATOR); none before it can break.
    body: int
    slot_names: tuple[str, ...]
    #: "cell" also for an argument that is a cell.
    slot_kinds: tuple[SlotKind, ...]
    #: Slots 0..argument_slots-1 hold the arguments at entry: positional, keyword-only, *args, **kwargs.
    argument_slots: int

    @property
    def code(self) -> CodeType:
        code = self.reference()
        assert code is not None, "whoever runs a lowered code object holds the code object"
        return code

    def step_at(self, offset: int) -> int:
        """The index of the first step at or behind a real offset (some real instructions have no step)."""
        index = bisect_left(self.steps, offset, key=lambda step: step.offset)
        if index == len(self.steps):
            raise IndexError(f"there is no step at offset {offset}")
        return index

    def dump(self) -> str:
        """The steps as text, one a line, for people and for failing tests."""
        lines = []
        for index, step in enumerate(self.steps):
            handler = f"  -> {step.handler.target}@{step.handler.depth}" if step.handler else ""
            lines.append(f"{index:4} {step.offset:5} L{step.line or '-'} {step.op} {step.arg!r}{handler}")
        return "\n".join(lines)


def lower(code: CodeType) -> CanonicalCode:
    """The canonical form of a code object. Callers keep it: it is a few microseconds per instruction."""
    names = slot_names(code)
    local, free = len(code.co_varnames), len(code.co_freevars)
    cells = frozenset(code.co_cellvars)
    kinds: list[SlotKind] = ["cell" if name in cells else "local" for name in code.co_varnames]
    kinds += ["cell"] * (len(names) - local - free)
    kinds += ["free"] * free
    lowering = _Lowering(decode(code), kinds)
    arguments = code.co_argcount + code.co_kwonlyargcount + bool(code.co_flags & 4) + bool(code.co_flags & 8)
    return CanonicalCode(weakref.ref(code), lowering.steps(), max(0, lowering.body), names, tuple(kinds), arguments)


# ---- what becomes of each opcode -------------------------------------------------------------------------------

_Lowered = tuple[tuple[str, Any], ...]


def _present(*names: str) -> frozenset[str]:
    return frozenset(name for name in names if name in OPMAP)


def _listed(names: str) -> frozenset[str]:
    return _present(*names.split())


#: Kept, without operand.
_PLAIN: Final = _listed("""
    POP_TOP PUSH_NULL UNARY_NOT UNARY_NEGATIVE UNARY_INVERT UNARY_POSITIVE TO_BOOL
    BINARY_SUBSCR STORE_SUBSCR DELETE_SUBSCR BINARY_SLICE STORE_SLICE GET_ITER GET_LEN LIST_TO_TUPLE
    LOAD_BUILD_CLASS LOAD_ASSERTION_ERROR LOAD_LOCALS SETUP_ANNOTATIONS RETURN_VALUE
    PUSH_EXC_INFO POP_EXCEPT CHECK_EXC_MATCH CHECK_EG_MATCH BEFORE_WITH WITH_EXCEPT_START
    MATCH_KEYS MATCH_MAPPING MATCH_SEQUENCE
    RETURN_GENERATOR GET_YIELD_FROM_ITER END_SEND CLEANUP_THROW GET_AITER GET_ANEXT END_ASYNC_FOR BEFORE_ASYNC_WITH
""")
# From 3.13 on LOAD_FAST also means LOAD_CLOSURE and needs a rule.
#: Kept, with the number in the operand (a count, a depth, a slot, flags).
_NUMBER: Final = _listed("""
    COPY SWAP LOAD_FAST_AND_CLEAR STORE_FAST DELETE_FAST
    LOAD_DEREF STORE_DEREF DELETE_DEREF LOAD_CLOSURE LOAD_CLASSDEREF LOAD_FROM_DICT_OR_DEREF MAKE_CELL COPY_FREE_VARS
    UNPACK_SEQUENCE BUILD_TUPLE BUILD_LIST BUILD_SET BUILD_MAP BUILD_CONST_KEY_MAP BUILD_STRING BUILD_SLICE
    LIST_APPEND LIST_EXTEND SET_ADD SET_UPDATE MAP_ADD DICT_UPDATE DICT_MERGE
    SET_FUNCTION_ATTRIBUTE RAISE_VARARGS RERAISE MATCH_CLASS GET_AWAITABLE
""") | (_present("LOAD_FAST") if VERSION < (3, 13) else frozenset())
#: Kept, with the constant or name the operand stands for.
_VALUE: Final = _listed("""
    LOAD_CONST STORE_GLOBAL DELETE_GLOBAL LOAD_NAME STORE_NAME DELETE_NAME LOAD_FROM_DICT_OR_GLOBALS
    STORE_ATTR DELETE_ATTR IMPORT_NAME IMPORT_FROM
""")
#: Jumps and what they are called here.
_JUMPS: Final[dict[str, str]] = {
    name: canonical
    for name, canonical in {
        "JUMP_FORWARD": "JUMP",
        "JUMP_BACKWARD": "JUMP",
        "JUMP_BACKWARD_NO_INTERRUPT": "JUMP",
        "JUMP_IF_TRUE_OR_POP": "JUMP_IF_TRUE_OR_POP",
        "JUMP_IF_FALSE_OR_POP": "JUMP_IF_FALSE_OR_POP",
        "FOR_ITER": "FOR_ITER",
        "SEND": "SEND",
        **{
            f"POP_JUMP_{direction}IF_{condition}": f"POP_JUMP_IF_{condition}"
            for direction in ("", "FORWARD_", "BACKWARD_")
            for condition in ("TRUE", "FALSE", "NONE", "NOT_NONE")
        },
    }.items()
    if name in OPMAP
}
#: Gone: nothing the interpreter would do for them.
_DROPPED: Final = _present("NOP", "RESUME")
#: Not on their own: part of a call, of a loop's end, or of decoding.
_FOLDED: Final = _present("KW_NAMES", "PRECALL", "CALL", "CALL_KW", "END_FOR", "EXTENDED_ARG")
#: Never in the code of a function; the reason is for people.
_REJECTED: Final[dict[str, str]] = {
    name: reason
    for name, reason in {
        "CACHE": "cache entries are no instructions",
        "INTERPRETER_EXIT": "only in the interpreter's own entry code",
        "EXIT_INIT_CHECK": "only in the interpreter's own shim around __init__",
        "RESERVED": "not an instruction",
        "ENTER_EXECUTOR": "stands for an instruction the optimiser replaced",
        "INSTRUMENTED_LINE": "stands for an instruction that tracing replaced",
        "INSTRUMENTED_INSTRUCTION": "stands for an instruction that tracing replaced",
    }.items()
    if name in OPMAP
}

_Rule = Callable[[Instruction], _Lowered]
_RULES: Final[dict[str, _Rule]] = {}


def _rule(*names: str) -> Callable[[_Rule], _Rule]:
    def register(function: _Rule) -> _Rule:
        _RULES.update(dict.fromkeys(_present(*names), function))
        return function

    return register


def _number(instruction: Instruction) -> int:
    assert instruction.arg is not None
    return instruction.arg


@_rule("LOAD_FAST_CHECK", *(("LOAD_FAST",) if VERSION >= (3, 13) else ()))
def _load_fast(i: Instruction) -> _Lowered:
    return (("LOAD_FAST", i.arg),)


_PAIRS: Final = {
    "LOAD_FAST_LOAD_FAST": ("LOAD_FAST", "LOAD_FAST"),
    "STORE_FAST_LOAD_FAST": ("STORE_FAST", "LOAD_FAST"),
    "STORE_FAST_STORE_FAST": ("STORE_FAST", "STORE_FAST"),
}


@_rule(*_PAIRS)
def _two_slots(i: Instruction) -> _Lowered:
    (first, second), arg = _PAIRS[i.opname], _number(i)
    return (first, arg >> 4), (second, arg & 15)


@_rule("LOAD_GLOBAL")
def _load_global(i: Instruction) -> _Lowered:
    if not _number(i) & 1:
        return (("LOAD_GLOBAL", i.argval),)
    if _NULL == "below":
        return ("PUSH_NULL", None), ("LOAD_GLOBAL", i.argval)
    return ("LOAD_GLOBAL", i.argval), ("PUSH_NULL", None)


@_rule("LOAD_ATTR")
def _load_attr(i: Instruction) -> _Lowered:
    if VERSION >= (3, 12) and _number(i) & 1:
        return _load_method(i)
    return (("LOAD_ATTR", i.argval),)


@_rule("LOAD_METHOD")
def _load_method(i: Instruction) -> _Lowered:
    return (("LOAD_METHOD", Method(i.argval, _NULL)),)


@_rule("LOAD_SUPER_ATTR")
def _load_super_attr(i: Instruction) -> _Lowered:
    two_argument = bool(_number(i) & 2)
    if _number(i) & 1:
        return (("LOAD_SUPER_METHOD", SuperMethod(i.argval, two_argument, _NULL)),)
    return (("LOAD_SUPER_ATTR", SuperAttr(i.argval, two_argument)),)


@_rule("BINARY_OP")
def _binary_op(i: Instruction) -> _Lowered:
    return (("BINARY_OP", OPERATORS[_number(i)]),)


@_rule("COMPARE_OP")
def _compare_op(i: Instruction) -> _Lowered:
    compare = ("COMPARE_OP", COMPARISONS[_number(i) >> COMPARE_SHIFT])
    return (compare, ("TO_BOOL", None)) if _number(i) & COMPARE_TO_BOOL else (compare,)


@_rule("IS_OP", "CONTAINS_OP")
def _invertible(i: Instruction) -> _Lowered:
    return ((i.opname, bool(i.arg)),)


@_rule("UNPACK_EX")
def _unpack_ex(i: Instruction) -> _Lowered:
    return (("UNPACK_EX", Unpack(_number(i) & 255, _number(i) >> 8)),)


_CONVERSIONS = (None, "s", "r", "a")


@_rule("FORMAT_VALUE")
def _format_value(i: Instruction) -> _Lowered:
    return (("FORMAT_VALUE", Format(_CONVERSIONS[_number(i) & 3], bool(_number(i) & 4))),)


@_rule("CONVERT_VALUE")
def _convert_value(i: Instruction) -> _Lowered:
    return (("CONVERT_VALUE", _CONVERSIONS[_number(i)]),)


@_rule("FORMAT_SIMPLE", "FORMAT_WITH_SPEC")
def _format_simple(i: Instruction) -> _Lowered:
    return (("FORMAT_VALUE", Format(None, i.opname == "FORMAT_WITH_SPEC")),)


@_rule("CALL_FUNCTION_EX")
def _call_function_ex(i: Instruction) -> _Lowered:
    return (("CALL_FUNCTION_EX", CallEx(bool(_number(i) & 1), _NULL)),)


@_rule("CALL_INTRINSIC_1")
def _call_intrinsic_1(i: Instruction) -> _Lowered:
    name = INTRINSICS_1[_number(i)]
    if name in ("UNARY_POSITIVE", "LIST_TO_TUPLE"):
        return ((name, None),)
    return (("CALL_INTRINSIC", Intrinsic(name, 1)),)


@_rule("CALL_INTRINSIC_2")
def _call_intrinsic_2(i: Instruction) -> _Lowered:
    return (("CALL_INTRINSIC", Intrinsic(INTRINSICS_2[_number(i)], 2)),)


# What 3.11 has opcodes for where later versions have intrinsics.


@_rule("PRINT_EXPR")
def _print_expr(_: Instruction) -> _Lowered:
    return ("CALL_INTRINSIC", Intrinsic("PRINT", 1)), ("POP_TOP", None)


@_rule("IMPORT_STAR")
def _import_star(_: Instruction) -> _Lowered:
    return ("CALL_INTRINSIC", Intrinsic("IMPORT_STAR", 1)), ("POP_TOP", None)


@_rule("ASYNC_GEN_WRAP")
def _async_gen_wrap(_: Instruction) -> _Lowered:
    return (("CALL_INTRINSIC", Intrinsic("ASYNC_GEN_WRAP", 1)),)


@_rule("PREP_RERAISE_STAR")
def _prep_reraise_star(_: Instruction) -> _Lowered:
    return (("CALL_INTRINSIC", Intrinsic("PREP_RERAISE_STAR", 2)),)


@_rule("MAKE_FUNCTION")
def _make_function(i: Instruction) -> _Lowered:
    return (("MAKE_FUNCTION", i.arg or 0),)


@_rule("YIELD_VALUE")
def _yield_value(_: Instruction) -> _Lowered:
    return (("YIELD_VALUE", None),)


@_rule("RETURN_CONST")
def _return_const(i: Instruction) -> _Lowered:
    return ("LOAD_CONST", i.argval), ("RETURN_VALUE", None)


def treatment(opname: str) -> str:
    """What becomes of an opcode: "kept", "lowered", "folded", "dropped" or "rejected: why".

    >>> treatment("POP_TOP"), treatment("RESUME")
    ('kept', 'dropped')
    """
    if opname in _REJECTED:
        return f"rejected: {_REJECTED[opname]}"
    if opname in _PLAIN or opname in _NUMBER or opname in _VALUE or _JUMPS.get(opname) == opname:
        return "kept"
    if opname in _RULES or opname in _JUMPS:
        return "lowered"
    if opname in _FOLDED:
        return "folded"
    if opname in _DROPPED:
        return "dropped"
    if opname in OPMAP and opname.startswith("INSTRUMENTED_"):
        return treatment(opname.removeprefix("INSTRUMENTED_"))
    return "rejected: only the compiler uses it" if opname not in OPMAP else "unknown"


# ---- the lowering ----------------------------------------------------------------------------------------------

_IS_PLAIN, _IS_NUMBER, _IS_VALUE, _IS_JUMP, _IS_RULE, _IS_FOLDED, _IS_DROPPED, _IS_REJECTED = range(8)


def _kind(name: str) -> int:
    for kind, table in enumerate((_PLAIN, _NUMBER, _VALUE, _JUMPS, _RULES, _FOLDED, _DROPPED)):
        if name in table:
            return kind
    return _IS_REJECTED


_KINDS: Final = tuple(_kind(name) for name in NAMES)


#: A step before the indices of steps are known: op, arg, first, offset, instruction.
_Draft = tuple[str, Any, int, int, Instruction]


class _Lowering:
    """One pass that drafts the steps, one that resolves jumps and handlers."""

    def __init__(self, instructions: list[Instruction], kinds: list[SlotKind]) -> None:
        self.body = -1
        self.kinds = kinds
        self.drafts: list[_Draft] = []
        self.start: dict[Instruction, int] = {}  # instruction -> index of its first step
        self.inside: set[Instruction] = set()  # instructions that are not the first of their group
        self._draft(instructions)

    def _draft(self, instructions: list[Instruction]) -> None:
        drafts, start, kinds = self.drafts, self.start, _KINDS
        names: Instruction | None = None  # a KW_NAMES whose CALL comes
        begin: Instruction | None = None  # the first instruction of a call whose CALL comes
        loop_end = False
        for instruction in instructions:
            index = len(drafts)
            start[instruction] = index
            kind, opname = kinds[instruction.opcode], instruction.opname
            offset = instruction.offset or 0
            if loop_end:  # 3.13: END_FOR POP_TOP, both skipped by FOR_ITER
                loop_end = False
                if opname == "POP_TOP":
                    self.inside.add(instruction)
                    continue
                raise NotLowered(f"{opname} follows END_FOR at {offset}")
            if kind == _IS_PLAIN:
                drafts.append((opname, None, index, offset, instruction))
            elif kind == _IS_NUMBER:
                drafts.append((opname, instruction.arg, index, offset, instruction))
            elif kind == _IS_VALUE:
                drafts.append((opname, instruction.argval, index, offset, instruction))
            elif kind == _IS_JUMP:
                drafts.append((_JUMPS[opname], instruction.target, index, offset, instruction))
            elif kind == _IS_RULE:
                for op, arg in _RULES[opname](instruction):
                    if op == "LOAD_FAST" and self.kinds[arg] != "local":
                        op = "LOAD_CLOSURE"  # 3.13 loads a cell itself like a local
                    drafts.append((op, arg, index, offset, instruction))
            elif kind == _IS_DROPPED:
                if opname == "RESUME" and self.body < 0:
                    self.body = index
            elif opname == "END_FOR":
                loop_end = VERSION >= (3, 13)
            elif opname == "CALL_KW":
                self._call_kw(instruction)
            elif opname == "KW_NAMES":
                names = begin = instruction
            elif opname == "PRECALL":
                if begin is None:
                    begin = instruction
                else:
                    self.inside.add(instruction)
            elif opname == "CALL":
                if begin is not None:
                    self.inside.add(instruction)
                    offset = begin.offset or 0
                kwnames = () if names is None else names.argval
                drafts.append(("CALL", Call(_number(instruction), kwnames, _NULL), index, offset, instruction))
                names = begin = None
            else:
                raise NotLowered(f"{opname} at {offset}: {_REJECTED.get(opname, 'not an instruction of a function')}")

    def _call_kw(self, instruction: Instruction) -> None:
        """3.13 pushes the names as a constant right before the call; that is one step, entered at the constant."""
        index = len(self.drafts) - 1
        op, names, _, offset, constant = self.drafts[index] if self.drafts else ("", (), 0, 0, instruction)
        if op != "LOAD_CONST" or constant.opname != "LOAD_CONST":
            raise NotLowered(f"the keyword names of CALL_KW at {instruction.offset} are not a constant")
        self.inside.add(instruction)
        self.start[instruction] = index
        self.drafts[index] = ("CALL", Call(_number(instruction), names, _NULL), index, offset, instruction)

    def steps(self) -> list[Step]:
        start, inside = self.start, self.inside
        handlers: dict[Any, Handler] = {}
        out: list[Step] = []
        new = tuple.__new__
        for op, arg, first, offset, instruction in self.drafts:
            if arg.__class__ is Instruction:
                if arg in inside:
                    raise NotLowered(f"{instruction} goes into the middle of a call")
                target = start[arg]
                if op == "SEND" and arg.opname == "END_SEND":  # the step itself drops the receiver
                    target += 1
                arg = target
            entry = instruction.handler
            handler = None
            if entry is not None:
                handler = handlers.get(entry)
                if handler is None:
                    handler = handlers[entry] = Handler(start[entry.target], entry.depth, entry.lasti)
            out.append(new(Step, (op, arg, first, offset, instruction.positions, handler)))
        return out
