"""Which variables of a frame can still be read.

A slot is live before an instruction if some way on from there, through jumps and exception handlers, reads it before it
is written. A resume function needs its live slots only; what else the frame held can be let go. Nothing here sees
`locals()`, `sys._getframe()`, a debugger, or objects that are seen to die: who cares about those keeps more slots.
"""

from collections.abc import Sequence
from types import CodeType

from framelift.bytecode.decode import decode, slot_names
from framelift.bytecode.instruction import Instruction
from framelift.bytecode.opcodes import OPMAP, PACKED, SLOTS, TERMINAL

_STORE_FAST = OPMAP["STORE_FAST"]
_READS_THEN_CLEARS = frozenset(OPMAP[name] for name in ("LOAD_FAST_AND_CLEAR", "DELETE_FAST") if name in OPMAP)


class Liveness:
    """The live slots at every instruction of a code object. Free variables come with the function and are not counted.

    >>> def f(a, b):
    ...     c = a + 1
    ...     return c * b
    >>> code = f.__code__
    >>> multiply = [i.offset for i in decode(code) if i.opname == "BINARY_OP"][1]
    >>> Liveness(code).at(0), Liveness(code).at(multiply)
    (frozenset({0, 1}), frozenset())
    """

    def __init__(self, code: CodeType) -> None:
        instructions = decode(code)
        self._own = (1 << len(slot_names(code)) - len(code.co_freevars)) - 1
        self._live = {
            instruction.offset: live
            for instruction, live in zip(instructions, live_before(instructions, code), strict=True)
        }

    def at(self, offset: int) -> frozenset[int]:
        """The slots that are live before the instruction at an offset."""
        live = self._live[offset] & self._own
        return frozenset(slot for slot in range(live.bit_length()) if live >> slot & 1)


def live_before(instructions: Sequence[Instruction], code: CodeType) -> list[int]:
    """For every instruction the live slots before it, as a set of bits."""
    effects = [_effect(instruction) for instruction in instructions]
    index_of = {instruction: index for index, instruction in enumerate(instructions)}
    size = len(instructions)
    # super() without arguments reads the first slot behind the back of the instructions.
    hidden = 1 if "super" in code.co_names and code.co_argcount else 0
    live = [0] * (size + 1)
    changed = True
    while changed:  # as many rounds as loops are nested, and one
        changed = False
        for index in range(size - 1, -1, -1):
            instruction = instructions[index]
            after = 0 if instruction.opcode in TERMINAL else live[index + 1]
            if instruction.target is not None:
                after |= live[index_of[instruction.target]]
            read, written = effects[index]
            before = after & ~written | read | hidden
            if instruction.handler is not None:  # it may raise before it has written
                before |= live[index_of[instruction.handler.target]]
            if before != live[index]:
                live[index] = before
                changed = True
    return live[:size]


def _effect(instruction: Instruction) -> tuple[int, int]:
    """(slots read, slots written) as bits."""
    opcode, arg = instruction.opcode, instruction.arg
    if opcode in PACKED:
        assert arg is not None
        high, low = 1 << (arg >> 4), 1 << (arg & 15)
        if instruction.opname == "LOAD_FAST_LOAD_FAST":
            return high | low, 0
        if instruction.opname == "STORE_FAST_STORE_FAST":
            return 0, high | low
        return (0 if high == low else low), high  # stores first
    if opcode not in SLOTS:
        return 0, 0
    assert arg is not None
    bit = 1 << arg
    if opcode in _READS_THEN_CLEARS:
        return bit, bit
    if opcode == _STORE_FAST:
        return 0, bit
    return bit, 0  # a variable in a cell is written through the cell, so that reads the slot too
