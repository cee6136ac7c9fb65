"""What kind of item lies in every place of the value stack, before every instruction.

VALUE    an object; or NULL: whether a method call in flight has one depends on the run
NULL     no object (never found here: whoever looks at a real frame knows)
LASTI    the offset of a raising instruction, pushed on the way to a handler, in code units
HANDLED  what PUSH_EXC_INFO put under an exception: the one handled before. While it lies there a handler runs
COPIED   a COPY of the topmost HANDLED, on the way out of a handler
"""

from collections.abc import Sequence
from types import CodeType
from typing import Final, Literal

from framelift.bytecode.decode import decode
from framelift.bytecode.instruction import ExceptionEntry, Instruction
from framelift.bytecode.opcodes import JUMPS, TERMINAL
from framelift.bytecode.stack_depth import StackError, stack_effect

StackTag = Literal["value", "null", "lasti", "handled", "copied"]
VALUE: Final = "value"
NULL: Final = "null"
LASTI: Final = "lasti"
HANDLED: Final = "handled"
COPIED: Final = "copied"
_Tags = tuple[StackTag, ...]


def stack_shapes(code: CodeType) -> dict[int, _Tags]:
    """The tags of the stack before every reachable instruction, by offset.

    >>> def f(x):
    ...     try: x()
    ...     except ValueError: pass
    >>> HANDLED in stack_shapes(f.__code__)[[i.offset for i in decode(f.__code__) if i.opname == "POP_EXCEPT"][0]]
    True
    """
    shapes = shapes_of(decode(code))
    return {instruction.offset: tags for instruction, tags in shapes.items() if instruction.offset is not None}


def shapes_of(instructions: Sequence[Instruction]) -> dict[Instruction, _Tags]:
    """The same by instruction; a StackError where two ways disagree."""
    index_of = {instruction: index for index, instruction in enumerate(instructions)}
    shapes: dict[Instruction, _Tags] = {}
    work: list[tuple[int, _Tags]] = [(0, ())]
    while work:
        index, tags = work.pop()
        instruction = instructions[index]
        known = shapes.get(instruction)
        if known is not None:
            tags = _joined(known, tags, instruction)
            if tags == known:
                continue
        shapes[instruction] = tags
        handler = instruction.handler
        if handler is not None and instruction.opname != "PUSH_EXC_INFO":
            work.append((index_of[handler.target], after_raise(tags, handler)))
        if instruction.opcode in JUMPS:
            assert instruction.target is not None
            work.append((index_of[instruction.target], after_jump(tags, instruction)))
        if instruction.opcode not in TERMINAL:
            work.append((index + 1, after_instruction(tags, instruction)))
    return shapes


def _joined(known: _Tags, other: _Tags, instruction: Instruction) -> _Tags:
    """What holds both ways. A resume function computes the offset it puts on the stack: a VALUE that is a LASTI."""
    if known == other:
        return known
    offset_or_value = {LASTI, VALUE}
    if len(known) != len(other) or any(a != b and {a, b} != offset_or_value for a, b in zip(known, other, strict=True)):
        raise StackError(f"{instruction} is reached with {known} and with {other}")
    return tuple(a if a == b else LASTI for a, b in zip(known, other, strict=True))


def after_raise(tags: _Tags, handler: ExceptionEntry) -> _Tags:
    """The stack in a handler."""
    lasti: _Tags = (LASTI,) if handler.lasti else ()
    return (*tags[: handler.depth], *lasti, VALUE)


def after_jump(tags: _Tags, jump: Instruction) -> _Tags:
    """The stack at the target of a jump that is taken."""
    return _moved(tags, stack_effect(jump.opcode, 0, jump=True))


def _moved(tags: _Tags, effect: int) -> _Tags:
    values: list[StackTag] = [VALUE] * effect
    return (*tags, *values) if effect >= 0 else tags[:effect]


def after_instruction(tags: _Tags, instruction: Instruction) -> _Tags:
    """The stack behind an instruction that does not jump."""
    stack = list(tags)
    arg = instruction.arg or 0
    if instruction.opname == "PUSH_EXC_INFO":
        stack[-1:] = [HANDLED, VALUE]
    elif instruction.opname == "POP_EXCEPT":
        if stack.pop() == COPIED:  # the handler ends here, the item it was copied from is a plain value now
            stack[len(stack) - 1 - stack[::-1].index(HANDLED)] = VALUE
    elif instruction.opname == "SWAP":
        stack[-1], stack[-arg] = stack[-arg], stack[-1]
    elif instruction.opname == "COPY":
        stack.append(COPIED if stack[-arg] == HANDLED else stack[-arg])
    else:
        return _moved(tags, stack_effect(instruction.opcode, instruction.arg))
    return tuple(stack)
