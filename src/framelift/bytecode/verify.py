"""Is a list of instructions a program? For tests and for check mode, after every stage that edits bytecode."""

from collections.abc import Sequence

from framelift.bytecode.instruction import Instruction
from framelift.bytecode.opcodes import (
    EXTENDED_ARG,
    HAS_ARG,
    JUMPS,
    NAMES,
    OPMAP,
    PACKED,
    TERMINAL,
    UNREADABLE,
    VERSION,
)
from framelift.bytecode.stack_depth import StackError, stack_depths
from framelift.bytecode.stack_shapes import shapes_of

_CALL_PARTS = {"KW_NAMES": ("PRECALL", "CALL") if VERSION == (3, 11) else ("CALL",), "PRECALL": ("CALL",)}


_RETURNS = {"RETURN_VALUE": 1, "RETURN_CONST": 0}


class InvalidBytecode(AssertionError):
    """A rule of bytecode is broken; the message names the instruction."""


def verify_bytecode(instructions: Sequence[Instruction]) -> None:
    """Check that the instructions can be assembled and run; raises InvalidBytecode, returns nothing.

    * every instruction appears once, with an opcode that exists, its name, and an operand where it takes one
    * jumps and handlers lead to instructions of the list; only jumps have a target
    * control cannot run off the end
    * the parts of a call stay together
    * at every instruction the stack has one depth, whichever way it was reached, and handlers fit
    * no return leaves anything on the stack, nor an exception being handled: the caller would see it as its own
    """
    if not instructions:
        raise InvalidBytecode("no instructions")
    present = set(instructions)
    if len(present) != len(instructions):
        seen: set[Instruction] = set()
        twice = next(i for i in instructions if i in seen or seen.add(i))  # type: ignore[func-returns-value]
        raise InvalidBytecode(f"{twice} appears twice")
    for index, instruction in enumerate(instructions):
        _verify_one(instruction, present)
        parts = _CALL_PARTS.get(instruction.opname)
        if parts is not None:
            after = instructions[index + 1].opname if index + 1 < len(instructions) else "the end"
            if after != parts[0]:
                raise InvalidBytecode(f"{instruction} is followed by {after}, not by {parts[0]}")
    if instructions[-1].opcode not in TERMINAL:
        raise InvalidBytecode(f"control runs off the end, after {instructions[-1]}")
    try:
        stack_depths(instructions)
        shapes = shapes_of(instructions)
    except StackError as error:
        raise InvalidBytecode(str(error)) from error
    for instruction, tags in shapes.items():
        if instruction.opname in _RETURNS and len(tags) != _RETURNS[instruction.opname]:
            raise InvalidBytecode(f"{instruction} leaves {', '.join(tags)} on the stack")


def _verify_one(instruction: Instruction, present: set[Instruction]) -> None:
    opcode, arg = instruction.opcode, instruction.arg
    if not 0 <= opcode < 256 or opcode in UNREADABLE or opcode in (EXTENDED_ARG, OPMAP["CACHE"]):
        raise InvalidBytecode(f"{instruction} is not an instruction")
    if NAMES[opcode] != instruction.opname:
        raise InvalidBytecode(f"{instruction} is called {instruction.opname}, its opcode is {NAMES[opcode]}")
    if opcode in JUMPS:
        if instruction.target is None:
            raise InvalidBytecode(f"{instruction} goes nowhere")
    elif instruction.target is not None:
        raise InvalidBytecode(f"{instruction} has a target but does not jump")
    elif HAS_ARG[opcode] and (arg is None or not 0 <= arg < 1 << 31):
        raise InvalidBytecode(f"{instruction} needs an operand from 0 to {(1 << 31) - 1}")
    elif opcode in PACKED and arg is not None and arg > 255:
        raise InvalidBytecode(f"{instruction} has room for two slots below 16 only")
    if instruction.target is not None and instruction.target not in present:
        raise InvalidBytecode(f"{instruction} leads out of the list")
    handler = instruction.handler
    if handler is not None and (handler.target not in present or handler.depth < 0):
        raise InvalidBytecode(f"{instruction} has a handler that leads out of the list: {handler}")
