"""Step functions: one instruction of a frame, run by Python, and then away.

A step function enters a frame like a resume function, at an instruction that could not be traced. Python runs the
instruction. Where it leads to next (the following instruction, the target of a jump) a *site* stands in place of the
original code: it takes variables and stack out of the frame and has a resume function called with them.

    [prologue of a resume function] RESUME ─► the instruction ─┬─► LOAD_CONST site; CALL 0; RETURN_VALUE
                                                               └─► if it raises: which handler? ─► site

Whether a handler is meant is decided in Python, too. One that does something is left for its own resume function, which
is told the exception it handles.
What only returns after the instruction, or ends a handler, is not worth leaving for.

A frame that waits for a call it made, because the call was left within, is entered in the same way; in place of the
call stands one of `inner`, an argument that goes on with what was called.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from types import CodeType
from typing import Any, Final

from framelift.bytecode.decode import decode
from framelift.bytecode.instruction import Instruction
from framelift.bytecode.opcodes import NULL_POSITION, TERMINAL, VERSION
from framelift.bytecode.passes import remove_dead_code
from framelift.bytecode.stack_shapes import HANDLED, NULL, VALUE, StackTag, after_instruction, after_jump, after_raise
from framelift.residual.resume import CannotResume, ResumeCode, ResumeMaker

_Tags = tuple[StackTag, ...]
#: What makes the callable that leaves: (offset to go on at, the stack there).
MakeSite = Callable[[int, _Tags], Any]

# Instructions nobody captures a frame for: what follows them is a return.
_TRIVIAL: Final = frozenset({
    "POP_TOP", "NOP", "LOAD_CONST", "LOAD_FAST", "LOAD_FAST_CHECK", "LOAD_FAST_LOAD_FAST", "STORE_FAST",
    "STORE_FAST_LOAD_FAST", "STORE_FAST_STORE_FAST", "LOAD_DEREF", "BUILD_TUPLE", "SWAP", "COPY", "JUMP_FORWARD",
})  # fmt: skip
# What a raised exception comes to: it is handled; or `except*` puts it with others, for later.
_HANDLING: Final = frozenset({"PUSH_EXC_INFO", "LIST_APPEND"})
_RETURNS: Final = frozenset({"RETURN_VALUE", "RETURN_CONST"})
# What comes before the question which exceptions a handler is for ...
_NAMES_EXCEPTIONS: Final = frozenset({
    "LOAD_GLOBAL", "LOAD_NAME", "LOAD_FAST", "LOAD_FAST_CHECK", "LOAD_DEREF", "LOAD_ATTR", "LOAD_CONST", "PUSH_NULL",
    "BUILD_TUPLE", "NOP",
})  # fmt: skip
# ... and before the end of one that does nothing.
_ENDS_HANDLER: Final = frozenset({"POP_TOP", "STORE_FAST", "LOAD_CONST", "SWAP", "COPY", "NOP"})
#: The stack on which `inner` is called: it lies where the operands of the original call lay.
INNER: Final[tuple[StackTag, ...]] = (NULL, VALUE) if NULL_POSITION == "below" else (VALUE, NULL)


def make_step(
    code: CodeType, offset: int, live_slots: Iterable[int], tags: Sequence[StackTag], site: MakeSite, inner: bool
) -> ResumeCode:
    """The code that runs the instruction at `offset` and leaves. With `inner` the stack ends with INNER."""
    return _StepMaker(code, offset, live_slots, tags, site, inner).make()


class _StepMaker(ResumeMaker):
    """A resume code with sites."""

    def __init__(
        self,
        code: CodeType,
        offset: int,
        live: Iterable[int],
        tags: Sequence[StackTag],
        site: MakeSite,
        inner: bool,
    ) -> None:
        super().__init__(code, offset, live, tags, False)
        self.make_site = site
        self.inner = inner
        self._shift_free()
        self.index_of = {instruction: index for index, instruction in enumerate(self.body)}
        start = self.index_of[self.entry]
        self.group = self.body[start : _end_of_group(self.body, start)]

    def _copied_body(self, jump: Instruction) -> list[Instruction]:
        leaving = {instruction: self._leave(instruction, tags) for instruction, tags in self._exits().items()}
        body: list[Instruction] = []
        for instruction in self.body:
            if instruction.target in leaving:
                instruction.target = leaving[instruction.target][0]
            body += [*leaving.get(instruction, ()), instruction]
        if self.inner:
            self._call_inner(jump, body)
        return remove_dead_code([jump, *body])[1:]

    # ---- where the frame is left -----------------------------------------------------------------------------

    def _exits(self) -> dict[Instruction, _Tags]:
        """The instructions before which the frame is left, and the stack there."""
        exits: dict[Instruction, _Tags] = {}
        seen: set[Instruction] = set()
        tags: _Tags = tuple(self.tags)
        work: list[tuple[Instruction, _Tags, bool]] = [(self.entry, tags, False)]
        first = True
        while work:
            instruction, tags, raised = work.pop()
            if not first and self._is_exit(instruction, tags, raised):
                # What was NULL may be the result of a call by now: the site looks.
                tags = tuple(VALUE if tag == NULL else tag for tag in tags)
                if exits.setdefault(instruction, tags) != tags:
                    raise CannotResume(f"{instruction} is reached with two kinds of stack")
                continue
            first = False
            if instruction not in seen:
                seen.add(instruction)
                work += self._onward(instruction, tags, raised)
        return exits

    def _is_exit(self, instruction: Instruction, tags: _Tags, raised: bool) -> bool:
        if raised or instruction in self.group[1:]:
            return False
        index = self.index_of[instruction]
        if self.inner and self.body[index - 1] is self.group[-1]:
            return True  # what `inner` gave may be word that it was left
        if instruction.opname == "END_FOR" or (self.body[index - 1].opname == "END_FOR" and VERSION >= (3, 13)):
            return False  # jumped over, not run
        if HANDLED in tags:
            return not (self._asks_for_exception(index) or self._ends_handler(index))
        if instruction.opname == "RERAISE":
            return False  # `except*` is done with handling, but what it raises in the end lies on the stack
        return not self._only_returns(index)

    def _only_returns(self, index: int) -> bool:
        for _ in range(len(self.body)):
            instruction = self.body[index]
            if instruction.opname in _RETURNS:
                return True
            if instruction.opname not in _TRIVIAL:
                return False
            index = index + 1 if instruction.target is None else self.index_of[instruction.target]
        return False

    def _asks_for_exception(self, index: int) -> bool:
        """Whether it is still to be seen if the exception is one that the handler is for."""
        while self.body[index].opname in _NAMES_EXCEPTIONS:
            index += 1
        return "CHECK_EXC_MATCH" in (self.body[index].opname, self.body[index - 1].opname)

    def _ends_handler(self, index: int) -> bool:
        """Whether the handler is over, or the exception is raised again."""
        while self.body[index].opname in _ENDS_HANDLER:
            index += 1
        return self.body[index].opname in ("POP_EXCEPT", "RERAISE")

    def _onward(self, instruction: Instruction, tags: _Tags, raised: bool) -> Iterator[tuple[Instruction, _Tags, bool]]:
        """What may run after an instruction. An exception is `raised` until it is handled, or raised again."""
        if instruction is self.group[0] and self.inner:  # the call of `inner` takes its place
            last = self.group[-1]
            yield self.body[self.index_of[last] + 1], (*tags[: -len(INNER)], VALUE), False
        else:
            if instruction.target is not None:
                yield instruction.target, after_jump(tags, instruction), raised
            if instruction.opcode not in TERMINAL:
                after = self.body[self.index_of[instruction] + 1]
                yield after, after_instruction(tags, instruction), raised and instruction.opname not in _HANDLING
        if instruction.handler is not None and instruction.opname != "PUSH_EXC_INFO":
            yield instruction.handler.target, after_raise(tags, instruction.handler), True

    # ---- leaving ---------------------------------------------------------------------------------------------

    def _leave(self, instruction: Instruction, tags: _Tags) -> list[Instruction]:
        assert instruction.offset is not None
        number = self._constant(self.make_site(instruction.offset, tags))
        line = instruction.positions[0]
        made = [Instruction.make("LOAD_CONST", number)]
        made.insert(0 if NULL_POSITION == "below" else 1, Instruction.make("PUSH_NULL"))
        made += [*_call_nothing(), Instruction.make("RETURN_VALUE")]
        for part in made:
            part.positions = (line, line, None, None)
        return made

    def _call_inner(self, jump: Instruction, body: list[Instruction]) -> None:
        """Put a call of `inner`, with the line and the handler of the original call, in place of that."""
        last = self.group[-1]
        calls = _call_nothing()
        for part in calls:
            part.positions, part.handler = last.positions, last.handler
        start = body.index(self.group[0])
        body[start : start + len(self.group)] = calls
        jump.target = self.entry = calls[0]


def call_before(code: CodeType, offset: int) -> int:
    """The offset of the call whose next instruction stands at `offset`, as it is entered at."""
    body = decode(code)
    index = next(number for number, instruction in enumerate(body) if instruction.offset == offset) - 1
    while index and _end_of_group(body, index - 1) > index:
        index -= 1
    found = body[index].offset
    assert found is not None
    return found


def _call_nothing() -> list[Instruction]:
    """callable NULL -- result"""
    call = [Instruction.make("CALL", 0)]
    return [Instruction.make("PRECALL", 0), *call] if VERSION == (3, 11) else call


def _end_of_group(body: Sequence[Instruction], start: int) -> int:
    """Where the instructions end that run as one: the parts of a call."""
    end = start
    while body[end].opname in ("KW_NAMES", "PRECALL") or (body[end].opname == "LOAD_CONST" and _is_kw(body, end + 1)):
        end += 1
    return end + 1


def _is_kw(body: Sequence[Instruction], index: int) -> bool:
    return index < len(body) and body[index].opname == "CALL_KW"
