"""Resume functions: a code object entered in the middle.

From 3.11 on exceptions are table-driven, so the state of a frame between two instructions is its variables, its value
stack and the exceptions being handled. A resume function takes these as arguments, puts them back and jumps to the
instruction:

    [dead MAKE_CELLs] [COPY_FREE_VARS] [variables to their slots] [stack, bottom first] RESUME ─► original instructions

* Every slot of the original keeps its number: variables arrive in their own slots wherever they can, and cells (the
  cell objects themselves) too. Stack items fill the argument slots that are left and are moved from there to the stack,
  so that no reference stays behind.
* RESUME comes last, with the stack in place and inside the handler of the instruction to go on at: an interrupt that is
  delivered there reaches the `try` it must reach, and a tracer sees nothing of the rest.
* What cannot be reached any more from the entry is not copied.

Items of the stack by tag (`bytecode.stack_shapes`), bottom first. NULL depends on the run, so whoever broke the frame
must say where they are:

    VALUE    one argument
    NULL     no argument
    LASTI    no argument: where an exception was raised, of which only the line that a debugger shows depends, is said
             to be the instruction to go on at
    HANDLED  one argument: the exception that is handled *there*; for the topmost `sys.exception()`, for a lower one
             what the HANDLED item above it holds
    COPIED   no argument

>>> import types
>>> def f(x):
...     y = x * 2
...     return y + 1
>>> add = [i.offset for i in decode(f.__code__) if i.opname == "BINARY_OP"][1]
>>> resume = make_resume(f.__code__, add, live_slots=(), stack_tags=(VALUE, VALUE))
>>> resume.argument_order
(Argument(kind='stack', number=0), Argument(kind='stack', number=1))
>>> types.FunctionType(resume.code, globals())(40, 2)
42
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from types import CodeType
from typing import Final, Literal, NamedTuple

from framelift.bytecode.assemble import assemble
from framelift.bytecode.decode import decode, slot_names
from framelift.bytecode.instruction import Instruction, Positions
from framelift.bytecode.opcodes import OPMAP, PACKED, SLOTS, VERSION
from framelift.bytecode.passes import remove_dead_code
from framelift.bytecode.stack_shapes import COPIED, HANDLED, LASTI, NULL, VALUE, StackTag

_IS_ARGUMENT: Final = (VALUE, HANDLED)

_FUNCTION: Final = 0x1 | 0x2  # optimised, new locals: every variable has a slot
_GENERATORS: Final = 0x20 | 0x80 | 0x200  # generator, coroutine, asynchronous generator
_STARRED: Final = 0x4 | 0x8  # *args, **kwargs


class CannotResume(ValueError):
    """The frame cannot be entered there; let it run as it is."""


class Argument(NamedTuple):
    """What one argument of a resume function must be: the variable in a slot, or an item of the stack."""

    kind: Literal["slot", "stack"]
    number: int


@dataclass(frozen=True, slots=True)
class ResumeCode:
    """A resume function's code. Functions made of it need the globals and the closure of the original."""

    code: CodeType
    argument_order: tuple[Argument, ...]
    #: Offset in the resume code -> offset in the original, for the copied instructions.
    original_offsets: dict[int, int]


def make_raising(code: CodeType, offset: int, live_slots: Iterable[int], stack_tags: Sequence[StackTag]) -> ResumeCode:
    """The same for a frame in which an exception is raised at `offset`: the topmost item of the stack."""
    return _RaisingMaker(code, offset, live_slots, stack_tags, False).make()


def make_resume(
    code: CodeType, offset: int, live_slots: Iterable[int], stack_tags: Sequence[StackTag], *, boxed: bool = False
) -> ResumeCode:
    """The code that goes on at `offset` of `code` with these slots bound and this stack.

    `live_slots` are numbers of variables that are bound (no free variables: those come with the closure); a cell's
    slot is passed the cell. A slot that is not named is unbound.

    `boxed`: the function takes one argument, an iterable of the arguments. A call keeps its arguments alive until it
    returns; an iterator that gives its references away does not, so that `del x` frees x after a break, too.
    """
    return ResumeMaker(code, offset, live_slots, stack_tags, boxed).make()


class ResumeMaker:
    """Builds one resume code: which argument goes where, the prologue, the copy of the original."""

    # What kind of function the original must be, and which of the flags of generators that may have.
    kind = "plain function"
    generator_flags: tuple[int, ...] = (0,)

    def __init__(self, code: CodeType, offset: int, live: Iterable[int], tags: Sequence[StackTag], boxed: bool) -> None:
        if code.co_flags & _FUNCTION != _FUNCTION or code.co_flags & _GENERATORS not in self.generator_flags:
            raise CannotResume(f"{code.co_name} is not a {self.kind}")
        self.original = code
        self.body = decode(code)
        self.entry = _entry(self.body, offset)
        self.tags = tags
        self.boxed = boxed
        self.own_slots = len(slot_names(code)) - len(code.co_freevars)
        self.live = sorted(live)
        if self.live and not 0 <= self.live[0] <= self.live[-1] < self.own_slots:
            raise CannotResume(f"slots {self.live} are not those of {code.co_name}")
        self.order = self._order()
        self.extra = max(0, max(len(self.order), boxed) - self.own_slots)
        # Constants beyond those of the original.
        self.constants: list[object] = []
        self.begin = Instruction.make("RESUME", 0)
        self.prologue: list[Instruction] = []

    def make(self) -> ResumeCode:
        code = self.original
        self._emit_frame()
        self._emit_box()
        self._emit_slots()
        self._emit_stack()
        head = self._emit_entry()
        body = self._copied_body(head[-1])
        if body and body[0] is head[-1].target:
            head.pop()  # the jump
        was_at = [(instruction, instruction.offset) for instruction in body if instruction.offset is not None]
        names = slot_names(code)[: self.own_slots]
        made = assemble(
            [*self.prologue, *head, *body],
            code,
            co_varnames=(*names, *(f".{n}" for n in range(len(names), len(names) + self.extra))),
            co_nlocals=len(names) + self.extra,
            co_cellvars=code.co_cellvars,
            co_freevars=code.co_freevars,
            co_argcount=1 if self.boxed else len(self.order),
            co_posonlyargcount=0,
            co_kwonlyargcount=0,
            co_flags=code.co_flags & ~_STARRED,
        )
        made = made.replace(co_consts=(*code.co_consts, *(_known(constant) for constant in self.constants)))
        offsets = {now.offset: then for now, then in was_at if now.offset is not None and then is not None}
        return ResumeCode(made, tuple(self.order), offsets)

    def _constant(self, constant: object) -> int:
        """Where a constant is; an instruction stands for the place it gets."""
        self.constants.append(constant)
        return len(self.original.co_consts) + len(self.constants) - 1

    def _order(self) -> list[Argument]:
        """A variable arrives in its own slot if that is an argument's; the stack takes the other arguments."""
        items = [Argument("stack", n) for n, tag in enumerate(self.tags) if tag in _IS_ARGUMENT]
        count = len(self.live) + len(items)
        bound = set(self.live)
        others = iter(items + [Argument("slot", slot) for slot in self.live if slot >= count])
        return [Argument("slot", place) if place in bound else next(others) for place in range(count)]

    # ---- the prologue ----------------------------------------------------------------------------------------

    def _emit(self, opname: str, arg: int | None = None) -> None:
        self.prologue.append(Instruction.make(opname, arg))

    def _take(self, slot: int) -> None:
        """-- value, leaving the slot unbound."""
        if VERSION >= (3, 12):
            self._emit("LOAD_FAST_AND_CLEAR", slot)
        else:
            self._emit("LOAD_FAST", slot)
            self._emit("DELETE_FAST", slot)

    def _emit_frame(self) -> None:
        # locals() on 3.11 and 3.12 looks for MAKE_CELL before RESUME to know which slots hold cells. The cells are
        # made already, so these are jumped over.
        cells = []
        for instruction in self.body:
            if instruction.opname == "RESUME":
                break
            if instruction.opname == "MAKE_CELL":
                cells.append(Instruction.make("MAKE_CELL", instruction.arg))
        if cells:
            after = Instruction.make("NOP")
            self.prologue += [Instruction.make("JUMP_FORWARD", target=after), *cells, after]
        if self.original.co_freevars:
            self._emit("COPY_FREE_VARS", len(self.original.co_freevars))

    def _emit_box(self) -> None:
        if self.boxed:
            self._take(0)
            self._emit("UNPACK_SEQUENCE", len(self.order))
            for slot in range(len(self.order)):
                self._emit("STORE_FAST", slot)

    def _emit_slots(self) -> None:
        for place, argument in enumerate(self.order):
            if argument.kind == "slot" and argument.number != place:
                self._take(place)
                self._emit("STORE_FAST", argument.number)

    def _emit_stack(self) -> None:
        place = {argument.number: place for place, argument in enumerate(self.order) if argument.kind == "stack"}
        handled = None
        for depth, tag in enumerate(self.tags):
            if tag in _IS_ARGUMENT:
                self._take(place[depth])
            if tag == NULL:
                self._emit("PUSH_NULL")
            elif tag == LASTI:
                self._emit("LOAD_CONST", self._constant(self.begin))
            elif tag == HANDLED:  # makes the argument the handled exception and saves the one handled so far
                self._emit("PUSH_EXC_INFO")
                self._emit("POP_TOP")
                handled = depth
            elif tag == COPIED:
                if handled is None:
                    raise CannotResume("a copy of a handled exception with no handled exception below it")
                self._emit("COPY", depth - handled)
        if self.entry.opname == "PUSH_EXC_INFO":
            # It lies in the range of its own clean-up, whose depth is only true once it has run: run it here.
            self._emit("PUSH_EXC_INFO")
            self.entry = self.body[self.body.index(self.entry) + 1]

    def _emit_entry(self) -> list[Instruction]:
        line = self.entry.positions[0]
        positions: Positions = (line, line, None, None)
        handler = self.entry.handler
        self.begin.positions, self.begin.handler = positions, handler
        return [
            self.begin,
            Instruction.make("JUMP_FORWARD", target=self.entry, positions=positions, handler=handler),
        ]

    # ---- the copy --------------------------------------------------------------------------------------------

    def _copied_body(self, jump: Instruction) -> list[Instruction]:
        self._shift_free()
        return remove_dead_code([jump, *self.body])[1:]

    def _shift_free(self) -> None:
        if self.extra and self.original.co_freevars:
            self.body = [part for instruction in self.body for part in _unpacked(instruction)]
            for instruction in self.body:
                self._move_free(instruction)

    def _move_free(self, instruction: Instruction) -> None:
        """Free variables lie behind all other slots: more of those move them."""
        arg = instruction.arg
        if arg is not None and instruction.opcode in SLOTS and arg >= self.own_slots:
            instruction.arg = arg + self.extra


class _RaisingMaker(ResumeMaker):
    """A resume code that raises instead of going on."""

    def _emit_entry(self) -> list[Instruction]:
        *head, jump = super()._emit_entry()
        raising = Instruction.make("RAISE_VARARGS", 1, positions=jump.positions, handler=jump.handler)
        return [*head, raising]


def _known(constant: object) -> object:
    """A constant; for an instruction its place, in code units."""
    if not isinstance(constant, Instruction):
        return constant
    assert constant.offset is not None
    return constant.offset // 2


def _unpacked(instruction: Instruction) -> list[Instruction]:
    """Two instructions for one that names two slots: a slot that moves may not fit into half an operand."""
    if instruction.opcode not in PACKED:
        return [instruction]
    assert instruction.arg is not None
    first, second = instruction.opname.split("_FAST", 1)[0], instruction.opname.rsplit("_", 2)[-2]
    other = instruction.copy()
    other.offset = None
    other.become(OPMAP[f"{second}_FAST"])
    other.arg = instruction.arg & 15
    instruction.become(OPMAP[f"{first}_FAST"])
    instruction.arg >>= 4
    return [instruction, other]


def _entry(body: list[Instruction], offset: int) -> Instruction:
    """The instruction to enter at. KW_NAMES leaves its operand where no frame keeps it: go back to it."""
    index = next((n for n, instruction in enumerate(body) if instruction.offset == offset), None)
    if index is None:
        raise CannotResume(f"{offset} is not an instruction's offset")
    if not any(instruction.opname == "RESUME" for instruction in body[:index]):
        raise CannotResume("the frame is not set up yet: run it from the start")
    if body[index].opname in ("PRECALL", "CALL"):
        while body[index - 1].opname in ("KW_NAMES", "PRECALL"):
            index -= 1
    return body[index]
