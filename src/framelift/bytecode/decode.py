"""Code object -> list of instructions."""

import itertools
from types import CodeType
from typing import Any

from framelift.bytecode import opcodes
from framelift.bytecode.exceptiontable import decode_rows
from framelift.bytecode.instruction import NO_POSITIONS, ExceptionEntry, Instruction
from framelift.bytecode.locations import decode_positions
from framelift.bytecode.opcodes import (
    BACKWARD,
    BASE,
    CACHES,
    CONSTS,
    EXTENDED_ARG,
    HAS_ARG,
    JUMPS,
    NAME_SHIFT,
    NAMES,
    PACKED,
    SLOTS,
    UNREADABLE,
)


def slot_names(code: CodeType) -> tuple[str, ...]:
    """Names of the frame's slots: locals, cells that are not also locals, free variables.

    >>> slot_names((lambda a, b: a).__code__)
    ('a', 'b')
    """
    local = code.co_varnames
    return (*local, *(name for name in code.co_cellvars if name not in local), *code.co_freevars)


def argument_names(code: CodeType) -> tuple[str, ...]:
    """Names of the slots that a call fills: positional, keyword-only, `*args`, `**kwargs`.

    >>> argument_names((lambda a, *rest, b=1, **more: a).__code__)
    ('a', 'b', 'rest', 'more')
    """
    count = code.co_argcount + code.co_kwonlyargcount + bool(code.co_flags & 4) + bool(code.co_flags & 8)
    return code.co_varnames[:count]


def decode(code: CodeType) -> list[Instruction]:
    """The instructions of a code object, without caches and EXTENDED_ARG, jumps and handlers resolved.

    >>> [i.opname for i in decode((lambda x: x).__code__)]
    ['RESUME', 'LOAD_FAST', 'RETURN_VALUE']
    """
    raw = code.co_code
    positions = decode_positions(code.co_linetable, code.co_firstlineno)
    if len(positions) * 2 < len(raw):
        positions.extend([NO_POSITIONS] * (len(raw) // 2 - len(positions)))
    instructions: list[Instruction] = []
    at: dict[int, Instruction] = {}  # code unit of the first prefix -> instruction
    jumps: list[tuple[Instruction, int]] = []
    argval = _resolver(code)
    append, has_arg, caches, resolved = instructions.append, HAS_ARG, CACHES, _RESOLVED
    unit, arg, width, units = 0, 0, 0, len(raw) // 2
    while unit < units:
        op = raw[2 * unit]
        byte = raw[2 * unit + 1]
        arg = arg << 8 | byte
        if op == EXTENDED_ARG:
            width += 1
            unit += 1
            continue
        if op != BASE[op] or op in UNREADABLE:
            op = _plain(op, unit)
        start = unit - width
        instruction = Instruction(
            op, NAMES[op], arg if has_arg[op] or arg else None, None, None, positions[unit], None, 2 * start, width
        )
        unit += 1 + caches[op]
        if resolved[op]:
            if op in JUMPS:
                jumps.append((instruction, unit - arg if op in BACKWARD else unit + arg))
            else:
                instruction.argval = argval(op, arg)
        append(instruction)
        at[start] = instruction
        arg = width = 0
    if width:
        raise ValueError("the code ends in an EXTENDED_ARG")
    for instruction, target in jumps:
        instruction.target = at[target]
    if code.co_exceptiontable:
        _attach_handlers(instructions, at, code.co_exceptiontable)
    return instructions


_RESOLVED = tuple(
    op in JUMPS or op in CONSTS or op in NAME_SHIFT or op in SLOTS or op in PACKED or NAMES[op] == "COMPARE_OP"
    for op in range(256)
)


def _plain(op: int, unit: int) -> int:
    if op in UNREADABLE:
        raise ValueError(f"{NAMES[op]} at offset {2 * unit} does not say which instruction it stands for")
    return BASE[op]


def _resolver(code: CodeType) -> Any:
    """A function (opcode, arg) -> what the operand stands for."""
    consts, names, slots = code.co_consts, code.co_names, slot_names(code)

    def argval(op: int, arg: int) -> Any:
        if op in SLOTS:
            return slots[arg]
        if op in CONSTS:
            return consts[arg]
        shift = NAME_SHIFT.get(op)
        if shift is not None:
            return names[arg >> shift]
        if op in PACKED:
            return slots[arg >> 4], slots[arg & 15]
        return opcodes.COMPARISONS[arg >> opcodes.COMPARE_SHIFT]

    return argval


def _attach_handlers(instructions: list[Instruction], at: dict[int, Instruction], table: bytes) -> None:
    """Give every instruction the first row that covers it, as the interpreter's search would find it."""
    rows = decode_rows(table)
    entries = [ExceptionEntry(at[row.target], row.depth, row.lasti) for row in rows]
    ordered = all(a.end <= b.start for a, b in itertools.pairwise(rows))
    current = 0
    for instruction in instructions:
        assert instruction.offset is not None
        unit = instruction.offset // 2 + instruction.width
        if ordered:
            while current < len(rows) and rows[current].end <= unit:
                current += 1
            if current == len(rows):
                break
            if rows[current].start <= unit:
                instruction.handler = entries[current]
        else:
            for row, entry in zip(rows, entries, strict=True):
                if row.start <= unit < row.end:
                    instruction.handler = entry
                    break
