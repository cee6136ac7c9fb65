"""How deep the value stack is before every instruction."""

import dis
import functools
from collections.abc import Sequence

from framelift.bytecode.instruction import Instruction
from framelift.bytecode.opcodes import HAS_ARG, JUMPS, OPMAP, TERMINAL, VERSION

_PUSH_EXC_INFO = OPMAP["PUSH_EXC_INFO"]
_PRECALL = OPMAP.get("PRECALL")
_CALL = OPMAP["CALL"]
_RETURN_GENERATOR = OPMAP["RETURN_GENERATOR"]


class StackError(ValueError):
    """The stack is used in a way no run of the code could: underflow, or two depths at one instruction."""


@functools.lru_cache(maxsize=4096)
def stack_effect(opcode: int, arg: int | None, jump: bool = False) -> int:
    """By how much an instruction changes the depth of the stack, when it jumps or when it falls through.

    `dis.stack_effect`, except where the compiler's bookkeeping is not what the instruction does.
    """
    if VERSION == (3, 11):  # the compiler's table takes the arguments away at PRECALL, CALL is what takes them
        if opcode == _PRECALL:
            return 0
        if opcode == _CALL:
            return -1 - (arg or 0)
    if opcode == _RETURN_GENERATOR:  # the caller gets the generator; the resumed frame finds the value sent to it
        return 1
    return dis.stack_effect(opcode, (arg or 0) if HAS_ARG[opcode] else None, jump=jump)


def stack_depths(instructions: Sequence[Instruction]) -> list[int | None]:
    """The depth before each instruction, None where it is not reachable; a StackError if it is not consistent.

    >>> from framelift.bytecode.decode import decode
    >>> stack_depths(decode((lambda x: x).__code__))
    [0, 0, 1]
    """
    depths: list[int | None] = [None] * len(instructions)
    index_of = {instruction: index for index, instruction in enumerate(instructions)}
    work = [(0, 0)]
    while work:
        index, depth = work.pop()
        covered = None
        while True:
            known = depths[index]
            if known is not None:
                if known != depth:
                    raise StackError(
                        f"{instructions[index]} is reached with {known} and with {depth} items on the stack"
                    )
                break
            depths[index] = depth
            instruction = instructions[index]
            opcode = instruction.opcode
            handler = instruction.handler
            # PUSH_EXC_INFO lies in the range of its own clean-up, whose depth is true only once it has run.
            if handler is not covered and handler is not None and opcode != _PUSH_EXC_INFO:
                if depth < handler.depth:
                    raise StackError(
                        f"{instruction} has {depth} items on the stack, its handler expects {handler.depth}"
                    )
                work.append((index_of[handler.target], handler.depth + handler.lasti + 1))
                covered = handler
            if opcode in JUMPS:
                target = instruction.target
                if target is None:
                    raise StackError(f"{instruction} goes nowhere")
                work.append((index_of[target], depth + stack_effect(opcode, 0, True)))
            if opcode in TERMINAL:
                break
            depth += stack_effect(opcode, instruction.arg)
            if depth < 0:
                raise StackError(f"{instruction} takes more from the stack than there is")
            index += 1
            if index == len(depths):
                raise StackError(f"control runs off the end, after {instruction}")
    return depths


def max_depth(instructions: Sequence[Instruction], depths: Sequence[int | None] | None = None) -> int:
    """The stack size the instructions need.

    Every depth the stack passes through is the depth before some instruction, except after the last one of a path,
    and those only take items away.
    """
    if depths is None:
        depths = stack_depths(instructions)
    return max([depth for depth in depths if depth is not None], default=0)
