"""Clean-up passes over a list of instructions.

    remove_dead_code ─► remove_pointless_jumps ─► assemble

Both return a new list of the same instruction objects, so jump targets stay valid. A handler covers the instructions
that carry it, so its range shrinks by itself when some of them go.
"""

import itertools
from collections.abc import Iterator, Sequence

from framelift.bytecode.instruction import Instruction
from framelift.bytecode.opcodes import JUMPS, NOP, TERMINAL, UNCONDITIONAL


def remove_dead_code(instructions: Sequence[Instruction], keep_nops: bool = True) -> list[Instruction]:
    """The instructions that can be reached from the first one, in order.

    Reached are: the next instruction unless this one never goes on, the target of a jump, the handler of an instruction
    that is reached. With `keep_nops=False` NOPs go too, even those that only give a line to a debugger.

    >>> from framelift.bytecode.instruction import Instruction
    >>> made = [Instruction.make(name) for name in ("PUSH_NULL", "RETURN_VALUE", "PUSH_NULL", "RETURN_VALUE")]
    >>> remove_dead_code(made) == made[:2]
    True
    """
    index_of = {instruction: index for index, instruction in enumerate(instructions)}
    live = [False] * len(instructions)
    work = [0] if instructions else []
    while work:
        index = work.pop()
        while index < len(instructions) and not live[index]:
            live[index] = True
            instruction = instructions[index]
            if instruction.target is not None:
                work.append(index_of[instruction.target])
            if instruction.handler is not None:
                work.append(index_of[instruction.handler.target])
            if instruction.opcode in TERMINAL:
                break
            index += 1
    reached = [instruction for instruction, alive in zip(instructions, live, strict=True) if alive]
    return reached if keep_nops else _drop(reached, {i for i in reached if i.opcode == NOP})


def remove_pointless_jumps(instructions: Sequence[Instruction]) -> list[Instruction]:
    """Drop unconditional jumps to the next instruction, and send every jump straight to where it ends up.

    A jump that only leads to an unconditional jump is sent on to that one's target (`thread_jumps`). What jumped to
    a dropped instruction, or had it as its handler, goes to the one after it.

    >>> from framelift.bytecode.instruction import Instruction
    >>> end = Instruction.make("RETURN_VALUE")
    >>> remove_pointless_jumps([Instruction.make("JUMP_FORWARD", target=end), end]) == [end]
    True
    """
    out = list(instructions)
    while True:
        thread_jumps(out)
        pointless = {
            jump for jump, after in itertools.pairwise(out) if jump.target is after and jump.opcode in UNCONDITIONAL
        }
        if not pointless:
            return out
        out = _drop(out, pointless)


def thread_jumps(instructions: Sequence[Instruction]) -> None:
    """Send jumps to unconditional jumps on to their final target, where the interpreter has such a jump.

    A jump backward is also where a loop can be interrupted, so one is only skipped by a jump that goes backward
    itself; and from 3.12 on conditional jumps go forward only.
    """
    index_of = {instruction: index for index, instruction in enumerate(instructions)}
    for index, jump in enumerate(instructions):
        if jump.opcode not in JUMPS or jump.target is None:
            continue
        seen = {jump}
        target = jump.target
        while target.opcode in UNCONDITIONAL and target not in seen and target.target is not None:
            seen.add(target)
            ahead = index_of[target.target] > index
            if ahead != (index_of[target] > index):
                break
            if not ahead and jump.opcode not in UNCONDITIONAL:
                break
            if index_of[target.target] <= index_of[target] and ahead:
                break  # a loop in front of us stays a loop
            target = target.target
        jump.target = target


def _drop(instructions: list[Instruction], gone: set[Instruction]) -> list[Instruction]:
    """The list without some instructions that do nothing; references to them move to the next one that stays."""
    if not gone:
        return instructions
    moved: dict[Instruction, Instruction] = {}
    after: Instruction | None = None
    for instruction in reversed(instructions):
        if instruction not in gone:
            after = instruction
        elif after is None:
            raise ValueError(f"{instruction} is last: nothing would follow it")
        else:
            moved[instruction] = after
    kept = [instruction for instruction in instructions if instruction not in gone]
    for reference in _references(kept):
        if reference.target in moved:
            reference.target = moved[reference.target]
    return kept


def _references(instructions: list[Instruction]) -> Iterator:
    seen = set()
    for instruction in instructions:
        if instruction.target is not None:
            yield instruction
        if instruction.handler is not None and instruction.handler not in seen:
            seen.add(instruction.handler)
            yield instruction.handler
