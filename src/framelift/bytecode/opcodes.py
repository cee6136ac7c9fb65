"""What the running interpreter's opcodes are: the one place where versions differ below the canonical view.

Every table is indexed by opcode number (0..255). They are built once, from the interpreter's own description
(`dis`, `opcode`), so a new patch release that renumbers an opcode needs no change here.
"""

import dis
import opcode as _opcode
import sys
from typing import Any, Final

VERSION: Final = sys.version_info[:2]
if not (3, 11) <= VERSION <= (3, 13):
    raise ImportError(f"framelift supports CPython 3.11 to 3.13, this is {VERSION[0]}.{VERSION[1]}")

NAMES: Final[tuple[str, ...]] = tuple(dis.opname[:256])
OPMAP: Final[dict[str, int]] = {name: number for name, number in dis.opmap.items() if number < 256}

EXTENDED_ARG: Final = OPMAP["EXTENDED_ARG"]
RESUME: Final = OPMAP["RESUME"]
NOP: Final = OPMAP["NOP"]


_PRIVATE: Any = _opcode  # tables the interpreter does not promise to keep, but `dis` itself reads


def _cache_counts() -> tuple[int, ...]:
    entries = _PRIVATE._inline_cache_entries  # a list before 3.13, then a dict by name
    if isinstance(entries, dict):
        return tuple(entries.get(name, 0) for name in NAMES)
    return tuple(entries[:256])


def _numbers(*names: str) -> frozenset[int]:
    return frozenset(OPMAP[name] for name in names if name in OPMAP)


#: Code units of inline cache that follow each instruction.
CACHES: Final[tuple[int, ...]] = _cache_counts()
#: Whether the instruction has an operand.
HAS_ARG: Final[tuple[bool, ...]] = tuple(
    number in dis.hasarg if VERSION >= (3, 12) else number >= dis.HAVE_ARGUMENT  # type: ignore[attr-defined,unused-ignore]
    for number in range(256)
)

# An interpreter that is being traced overwrites instructions in place. `co_code` hides that, bytes taken from
# elsewhere may not: the instrumented form of an instruction means the instruction.
_PREFIX = "INSTRUMENTED_"
#: The plain opcode for each opcode (itself, unless instrumented).
BASE: Final[tuple[int, ...]] = tuple(
    OPMAP.get(name.removeprefix(_PREFIX), number) if name.startswith(_PREFIX) else number
    for number, name in enumerate(NAMES)
)
#: Opcodes that hide which instruction they stand for, or that no code object may contain.
UNREADABLE: Final = _numbers("INSTRUMENTED_LINE", "INSTRUMENTED_INSTRUCTION", "ENTER_EXECUTOR", "RESERVED") | frozenset(
    number for number, name in enumerate(NAMES) if name.startswith("<")
)

# ---- jumps ---------------------------------------------------------------------------------------------------

#: Opcodes that jump (all jumps are relative from 3.11 on).
JUMPS: Final = frozenset(number for number in dis.hasjrel if number < 256)
BACKWARD: Final = frozenset(number for number in JUMPS if "BACKWARD" in NAMES[number])
UNCONDITIONAL: Final = _numbers("JUMP_FORWARD", "JUMP_BACKWARD", "JUMP_BACKWARD_NO_INTERRUPT")
#: Opcodes after which the next instruction is not reached.
TERMINAL: Final = UNCONDITIONAL | _numbers(
    "RETURN_VALUE", "RETURN_CONST", "RAISE_VARARGS", "RERAISE", "INTERPRETER_EXIT"
)


def _opposites() -> dict[int, int]:
    """For each jump opcode the one that means the same in the other direction, where there is one."""
    pairs = {OPMAP["JUMP_FORWARD"]: OPMAP["JUMP_BACKWARD"], OPMAP["JUMP_BACKWARD"]: OPMAP["JUMP_FORWARD"]}
    pairs[OPMAP["JUMP_BACKWARD_NO_INTERRUPT"]] = OPMAP["JUMP_FORWARD"]
    for number in JUMPS:  # 3.11 has POP_JUMP_FORWARD_IF_x and POP_JUMP_BACKWARD_IF_x
        name = NAMES[number]
        if name.startswith("POP_JUMP_FORWARD"):
            other = OPMAP[name.replace("FORWARD", "BACKWARD")]
            pairs[number], pairs[other] = other, number
    return pairs


OTHER_DIRECTION: Final = _opposites()
#: Conditional jumps and their negation (3.12 on; there they only go forward).
NEGATED: Final[dict[int, int]] = {
    OPMAP[a]: OPMAP[b]
    for left, right in (("TRUE", "FALSE"), ("NONE", "NOT_NONE"))
    for a, b in (
        (f"POP_JUMP_IF_{left}", f"POP_JUMP_IF_{right}"),
        (f"POP_JUMP_IF_{right}", f"POP_JUMP_IF_{left}"),
    )
    if a in OPMAP
}

# ---- operands ------------------------------------------------------------------------------------------------

#: Two four-bit slot numbers in one operand (3.13).
PACKED: Final = _numbers("LOAD_FAST_LOAD_FAST", "STORE_FAST_LOAD_FAST", "STORE_FAST_STORE_FAST")
CONSTS: Final = frozenset(number for number in dis.hasconst if number < 256)
#: Opcodes whose operand is a slot number (local, cell or free variable), packed ones apart.
SLOTS: Final = frozenset(number for number in (*dis.haslocal, *dis.hasfree) if number < 256) - PACKED
#: Opcode -> by how many bits the index of the name is shifted in the operand.
NAME_SHIFT: Final[dict[int, int]] = {number: 0 for number in dis.hasname if number < 256}
NAME_SHIFT[OPMAP["LOAD_GLOBAL"]] = 1
if VERSION >= (3, 12):
    NAME_SHIFT[OPMAP["LOAD_ATTR"]] = 1
    NAME_SHIFT[OPMAP["LOAD_SUPER_ATTR"]] = 2

#: BINARY_OP operand -> the operator as written in Python ("+", "+=").
OPERATORS: Final[tuple[str, ...]] = tuple(text for _, text in _PRIVATE._nb_ops)
OPERATOR_NUMBERS: Final[dict[str, int]] = {text: number for number, text in enumerate(OPERATORS)}
#: COMPARE_OP: operand >> COMPARE_SHIFT indexes COMPARISONS.
COMPARISONS: Final[tuple[str, ...]] = tuple(dis.cmp_op)
COMPARE_SHIFT: Final = {(3, 11): 0, (3, 12): 4, (3, 13): 5}[VERSION]
#: COMPARE_OP bit that asks for an exact bool (3.13).
COMPARE_TO_BOOL: Final = 16 if VERSION >= (3, 13) else 0
INTRINSICS_1: Final[tuple[str, ...]] = tuple(
    name.removeprefix("INTRINSIC_") for name in getattr(_PRIVATE, "_intrinsic_1_descs", ())
)
INTRINSICS_2: Final[tuple[str, ...]] = tuple(
    name.removeprefix("INTRINSIC_") for name in getattr(_PRIVATE, "_intrinsic_2_descs", ())
)
#: Where the NULL of a plain call lies: "below" the callable (3.11, 3.12) or "above" it (3.13).
NULL_POSITION: Final = "above" if VERSION >= (3, 13) else "below"
