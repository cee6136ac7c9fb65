"""List of instructions -> code object: the inverse of `decode`.

decode ─► edit ─► clean-up passes ─► assemble
                                      ├─ conditional jumps that go backward are turned round (3.12+)
                                      ├─ sizes ─► offsets ─► jump operands, until no jump needs another prefix
                                      └─ bytes, line table, exception table, stack size
"""

from collections.abc import Sequence
from types import CodeType
from typing import Any

from framelift.bytecode.exceptiontable import Row, encode_rows
from framelift.bytecode.instruction import ExceptionEntry, Instruction, Positions
from framelift.bytecode.locations import encode_positions
from framelift.bytecode.opcodes import (
    BACKWARD,
    CACHES,
    EXTENDED_ARG,
    JUMPS,
    NEGATED,
    OTHER_DIRECTION,
    UNREADABLE,
)
from framelift.bytecode.stack_depth import max_depth

_CACHE_BYTES = tuple(bytes(2 * count) for count in CACHES)


class AssemblyError(ValueError):
    """The instructions do not form a program."""


def assemble(instructions: Sequence[Instruction], like: CodeType, **replacements: Any) -> CodeType:
    """A code object that runs the instructions; everything they do not say comes from `like`.

    `replacements` are arguments of `code.replace` (names, constants, argument counts). Constants and names are
    referred to by number (`arg`), so a list with new ones needs the tables to match. Writes `offset`, and `arg`
    and direction of jumps, into the instructions.

    >>> from framelift.bytecode.decode import decode
    >>> code = (lambda x: x + 1).__code__
    >>> assemble(decode(code), code) == code
    True
    """
    program = _turn_round(instructions)
    units, widths = _lay_out(program)
    first_line = replacements.get("co_firstlineno", like.co_firstlineno)
    fields: dict[str, Any] = {
        "co_code": _encode(program, widths),
        "co_linetable": encode_positions(_spans(program, units), first_line),
        "co_exceptiontable": encode_rows(_rows(program, units)),
    }
    fields.update(replacements)
    if "co_stacksize" not in fields:
        fields["co_stacksize"] = max_depth(program)
    return like.replace(**fields)


def _turn_round(instructions: Sequence[Instruction]) -> list[Instruction]:
    """From 3.12 on conditional jumps only go forward: jump over an unconditional one instead."""
    index_of = {instruction: index for index, instruction in enumerate(instructions)}
    if len(index_of) != len(instructions):
        raise AssemblyError("an instruction appears twice")
    out: list[Instruction] = []
    for index, instruction in enumerate(instructions):
        out.append(instruction)
        if instruction.opcode not in NEGATED or instruction.target is None or index_of[instruction.target] > index:
            continue
        back = Instruction.make(
            "JUMP_BACKWARD", target=instruction.target, positions=instruction.positions, handler=instruction.handler
        )
        instruction.become(NEGATED[instruction.opcode])
        if index + 1 == len(instructions):
            raise AssemblyError(f"control runs off the end, after {instruction}")
        instruction.target = instructions[index + 1]
        out.append(back)
    return out


def _lay_out(program: list[Instruction]) -> tuple[list[int], list[int]]:
    """First code unit of every instruction (and the end), and its number of prefixes; jump operands are filled in."""
    widths: list[int] = []
    sizes: list[int] = []
    index_of: dict[Instruction, int] = {}
    jumps: list[int] = []
    for index, instruction in enumerate(program):
        opcode = instruction.opcode
        width = instruction.width
        index_of[instruction] = index
        if opcode in JUMPS:
            jumps.append(index)
        else:
            arg = instruction.arg
            if arg is not None and arg > 255:
                width = max(width, _prefixes(arg))
            if opcode == EXTENDED_ARG or opcode in UNREADABLE:
                raise AssemblyError(f"{instruction} is not an instruction to assemble")
        widths.append(width)
        sizes.append(1 + width + CACHES[opcode])
    targets = []
    for index in jumps:
        target = index_of.get(program[index].target)  # type: ignore[arg-type]
        if target is None:
            raise AssemblyError(f"{program[index]} goes to an instruction that is not in the list")
        targets.append((index, target))
        program[index].become(_direct(program[index], target > index))
        sizes[index] = 1 + widths[index] + CACHES[program[index].opcode]
    while True:
        units = [0]
        total = 0
        for size in sizes:
            total += size
            units.append(total)
        grown = False
        for index, target in targets:
            instruction = program[index]
            end = units[index + 1]
            arg = units[target] - end if target > index else end - units[target]
            instruction.arg = arg
            if arg > 255 and _prefixes(arg) > widths[index]:
                sizes[index] += _prefixes(arg) - widths[index]
                widths[index] = _prefixes(arg)
                grown = True
        if not grown:
            break
    for index, instruction in enumerate(program):
        instruction.offset = 2 * units[index]
    return units, widths


def _direct(jump: Instruction, forward: bool) -> int:
    """The opcode for this jump in the direction its target lies."""
    opcode = jump.opcode
    if (opcode not in BACKWARD) == forward:
        return opcode
    if opcode not in OTHER_DIRECTION:
        raise AssemblyError(f"{jump} cannot go {'forward' if forward else 'backward'}")
    return OTHER_DIRECTION[opcode]


def _prefixes(arg: int) -> int:
    if not 0 <= arg < 1 << 31:
        raise AssemblyError(f"operand out of range: {arg}")
    return max(0, (arg.bit_length() - 1) // 8)


def _encode(program: list[Instruction], widths: list[int]) -> bytes:
    out = bytearray()
    append, caches = out.append, _CACHE_BYTES
    for instruction, width in zip(program, widths, strict=True):
        opcode, arg = instruction.opcode, instruction.arg or 0
        while width:
            append(EXTENDED_ARG)
            append(arg >> 8 * width & 255)
            width -= 1
        append(opcode)
        append(arg & 255)
        if CACHES[opcode]:
            out += caches[opcode]
    return bytes(out)


def _spans(program: list[Instruction], units: list[int]) -> list[tuple[int, Positions]]:
    return [(units[index + 1] - units[index], instruction.positions) for index, instruction in enumerate(program)]


def _rows(program: list[Instruction], units: list[int]) -> list[Row]:
    rows: list[Row] = []
    current: ExceptionEntry | None = None
    start = 0
    for index, instruction in enumerate(program):
        handler = instruction.handler
        if handler is not current:
            if current is not None:
                rows.append(_row(current, start, units[index]))
            current, start = handler, units[index]
    if current is not None:
        rows.append(_row(current, start, units[-1]))
    return rows


def _row(entry: ExceptionEntry, start: int, end: int) -> Row:
    target = entry.target.offset
    if target is None:
        raise AssemblyError(f"{entry} is not in the list")
    return Row(start, end, target // 2, entry.depth, entry.lasti)
