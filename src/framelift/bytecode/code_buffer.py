"""Code being written: instructions so far, and what must be known to assemble them.

The machinery under `builder`: slots, constants and names are allotted as they are used; labels stand for instructions
to come; the depth of the stack and the handlers being run are tracked all the way, so that a mistake
is reported where it is made.
"""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from types import CodeType
from typing import Any, Final

from framelift.bytecode.assemble import assemble
from framelift.bytecode.instruction import NO_POSITIONS, ExceptionEntry, Instruction, Positions
from framelift.bytecode.opcodes import HAS_ARG, JUMPS, OPMAP, SLOTS, TERMINAL
from framelift.bytecode.passes import remove_dead_code, remove_pointless_jumps
from framelift.bytecode.stack_depth import StackError, stack_effect

#: Where no line was set: the function's first. (Tools that print tracebacks stumble over frames without a line.)
_FIRST_LINE: Final[Positions] = (-1, -1, None, None)
#: In a function of this kind every name is a slot and there is no namespace dict.
_FUNCTION_FLAGS: Final = 0x1 | 0x2
_VARARGS: Final = 0x4
_VARKEYWORDS: Final = 0x8
_TEMPLATE: Final = compile("lambda: None", "<framelift>", "eval").co_consts[0]
assert isinstance(_TEMPLATE, CodeType)


class Label:
    """A place in the code, possibly not known yet."""

    __slots__ = ("instruction", "placed", "depth", "active")

    def __init__(self) -> None:
        self.instruction: Instruction | None = None
        self.placed = False
        self.depth: int | None = None  # of the stack there, known from the first jump to it
        self.active: frozenset[ExceptionEntry] | None = None  # handlers being run there


class CodeBuffer:
    """Instructions for one function. `builder.Builder` has the requests that write them."""

    def __init__(self, argnames: Sequence[str] = ()) -> None:
        self.instructions: list[Instruction] = []
        self._slots: dict[str, int] = {}
        # The first constant of a function that is a string is its docstring, so it is never one of ours.
        self._consts: list[Any] = [None]
        self._const_index: dict[int, int] = {id(None): 0}
        self._names: dict[str, int] = {}
        self._jumps: list[tuple[Instruction, Label]] = []
        self._waiting: list[Label] = []
        self._regions: list[tuple[ExceptionEntry, Label]] = []
        # Regions, outermost first: those of `protect` while they are open, clean-ups of handlers for good, since
        # only the way through the code says where they hold: at labels, which handlers are being run.
        self._protecting: list[ExceptionEntry] = []
        self._cleanups: dict[ExceptionEntry, tuple[Label, ExceptionEntry | None]] = {}
        self._active: frozenset[ExceptionEntry] = frozenset()
        self._positions: Positions = _FIRST_LINE
        #: Items on the stack before the next instruction; None where that is not known to be reached.
        self.depth: int | None = 0
        self.argnames = [*argnames]
        for name in self.argnames:
            self.slot(name)
        if len(self._slots) != len(self.argnames):
            raise ValueError(f"duplicate argument names: {self.argnames}")
        self.emit("RESUME", 0)

    def emit(self, opname: str, arg: int | None = None, argval: Any = None) -> Instruction:
        """Append one real instruction of the running version. For what the requests below do not cover."""
        opcode = OPMAP[opname]
        if arg is None and HAS_ARG[opcode] and opcode not in JUMPS:
            raise ValueError(f"{opname} needs an operand")
        instruction = Instruction(
            opcode, opname, arg, argval, positions=self._positions, handler=self._current_handler()
        )
        for label in self._waiting:
            label.instruction = instruction
        self._waiting.clear()
        self.instructions.append(instruction)
        self._track(instruction)
        return instruction

    def _current_handler(self) -> ExceptionEntry | None:
        for entry in reversed(self._protecting):
            if entry not in self._cleanups or entry in self._active:
                return entry
        return None

    def _track(self, instruction: Instruction) -> None:
        if self.depth is None:
            return
        if instruction.opname == "RETURN_VALUE" and self._active:
            raise StackError("return while an exception is being handled: end_handler() first")
        if instruction.opcode in TERMINAL:
            self.depth = None
            return
        self.depth += stack_effect(instruction.opcode, instruction.arg)
        if self.depth < 0:
            raise StackError(f"{instruction} takes more from the stack than there is")

    def slot(self, name: str) -> int:
        """The number of a local variable, a new one on first use."""
        return self._slots.setdefault(name, len(self._slots))

    def add_argument(self, name: str) -> None:
        """One more argument, behind those there are."""
        if name in self._slots:
            raise ValueError(f"{name} is a local variable already")
        self.argnames.append(name)
        self.slot(name)

    def temporary(self, prefix: str = "tmp") -> str:
        """The name of a local variable that nothing else uses; no source program can spell it."""
        name = f".{prefix}{len(self._slots)}"
        self.slot(name)
        return name

    def constant(self, value: Any) -> int:
        """The number of a constant. The same object gets the same number (1, 1.0 and True are different objects)."""
        index = self._const_index.get(id(value))
        if index is None:
            index = self._const_index[id(value)] = len(self._consts)
            self._consts.append(value)
        return index

    def name(self, name: str) -> int:
        """The number of a global's or attribute's name."""
        return self._names.setdefault(name, len(self._names))

    def line(self, line: int | None) -> None:
        """Instructions emitted from now on belong to this line (None: to no line)."""
        self._positions = NO_POSITIONS if line is None else (line, line, None, None)

    def at(self, positions: Positions) -> None:
        """Like `line`, with end line and columns."""
        self._positions = positions

    @contextmanager
    def in_front(self) -> Iterator[None]:
        """What is emitted inside comes before everything else so far; the stack is empty before and after it."""
        (begin, *written), depth = self.instructions, self.depth
        self.instructions, self.depth = [begin], 0
        yield
        if self.depth != 0 or self._waiting:
            raise StackError("what comes in front does not lead to what follows")
        self.instructions += written
        self.depth = depth

    # ---- labels ----------------------------------------------------------------------------------------------

    def label(self) -> Label:
        """A label to place later."""
        return Label()

    def place(self, label: Label) -> None:
        """The label means the next instruction emitted."""
        if label.placed:
            raise ValueError("the label is already placed")
        label.placed = True
        if self.depth is not None:
            self._reach(label, self.depth)
        else:
            self.depth = label.depth
            self._active = label.active or frozenset()
        self._waiting.append(label)

    def here(self) -> Label:
        """A label for the next instruction emitted."""
        label = Label()
        self.place(label)
        return label

    # ---- exceptions ------------------------------------------------------------------------------------------

    @contextmanager
    def protect(self, handler: Label, lasti: bool = False, depth: int | None = None) -> Iterator[None]:
        """What is emitted inside goes to `handler` when it raises.

        The stack there is the one before the first instruction of the region (or its lowest `depth` items), then
        the raising offset if `lasti`, then the exception.
        """
        if depth is None:
            depth = self.depth
            if depth is None:
                raise StackError("the depth of the stack is not known here; say it")
        entry = ExceptionEntry(_UNPLACED, depth, lasti)
        self._reach(handler, depth + lasti + 1)
        self._regions.append((entry, handler))
        self._protecting.append(entry)
        try:
            yield
        finally:
            self._protecting.remove(entry)

    def begin_handler(self, label: Label) -> None:
        """exception -- previous exception. Places the label; the exception is now the one being handled."""
        self.place(label)
        if self.depth is None:
            raise StackError("nothing is protected by this handler yet, so its stack is not known")
        cleanup = ExceptionEntry(_UNPLACED, self.depth, True)  # keeps the previous exception
        self._cleanups[cleanup] = Label(), self._current_handler()
        self._regions.append((cleanup, self._cleanups[cleanup][0]))
        self._protecting.append(cleanup)
        self._active |= {cleanup}
        self.emit("PUSH_EXC_INFO")

    def end_handler(self) -> None:
        """previous --. The exception handled before is the one being handled again."""
        innermost = next((entry for entry in reversed(self._protecting) if entry in self._active), None)
        self._active -= {innermost}
        self.emit("POP_EXCEPT")

    def _emit_cleanups(self) -> None:
        """Where an exception goes that leaves a handler: end the handler, then on with the same exception."""
        for entry, (label, outer) in self._cleanups.items():
            self._protecting = [] if outer is None else [outer]
            self._active = frozenset(self._protecting)
            self.depth = None
            label.depth = entry.depth + 2
            label.active = self._active
            self.place(label)
            self.line(None)
            self.emit("COPY", 3)
            self.emit("POP_EXCEPT")
            self.emit("RERAISE", 1)
        self._cleanups = {}

    # ---- the result ------------------------------------------------------------------------------------------

    def to_code(
        self,
        name: str,
        *,
        filename: str = "<framelift>",
        firstlineno: int = 1,
        qualname: str | None = None,
        varargs: bool = False,
        varkeywords: bool = False,
        clean: bool = True,
    ) -> CodeType:
        """The code object. The last argument names are those of *args and **kwargs if asked for.

        `clean` drops code that is not reached and jumps that lead nowhere else. The builder is spent afterwards.
        """
        if self._waiting:
            raise ValueError("a label is placed after the last instruction")
        self._emit_cleanups()
        self._resolve()
        instructions = self.instructions
        for instruction in instructions:
            if instruction.positions is _FIRST_LINE:
                instruction.positions = (firstlineno, firstlineno, None, None)
        names = tuple(dict.fromkeys((*self.argnames, *self._slots)))
        if names != tuple(self._slots):
            self._renumber(names)
        if clean:
            instructions = remove_pointless_jumps(remove_dead_code(instructions))
        return assemble(
            instructions,
            _TEMPLATE,
            co_name=name,
            co_qualname=qualname or name,
            co_filename=filename,
            co_firstlineno=firstlineno,
            co_argcount=len(self.argnames) - varargs - varkeywords,
            co_posonlyargcount=0,
            co_kwonlyargcount=0,
            co_flags=_FUNCTION_FLAGS | _VARARGS * varargs | _VARKEYWORDS * varkeywords,
            co_varnames=names,
            co_nlocals=len(names),
            co_consts=tuple(self._consts),
            co_names=tuple(self._names),
            co_cellvars=(),
            co_freevars=(),
        )

    def _renumber(self, names: Sequence[str]) -> None:
        """Arguments that were added have the first numbers, too."""
        number_of = {name: number for number, name in enumerate(names)}
        numbers = [number_of[name] for name in self._slots]
        for instruction in self.instructions:
            if instruction.opcode in SLOTS and instruction.arg is not None:
                instruction.arg = numbers[instruction.arg]

    def jump_to(self, opname: str, label: Label) -> None:
        """Append a jump."""
        depth = self.depth
        jump = self.emit(opname)
        if depth is not None:
            self._reach(label, depth + stack_effect(jump.opcode, 0, jump=True))
        self._jumps.append((jump, label))

    def _reach(self, label: Label, depth: int) -> None:
        """There is a way from here to the label: all ways must agree on the stack and on what is being handled."""
        if label.depth is None:
            label.depth, label.active = depth, self._active
        elif label.depth != depth:
            raise StackError(f"the label is reached with {label.depth} and with {depth} items on the stack")
        elif label.active != self._active:
            raise StackError("the label is reached inside and outside a handler")

    def _resolve(self) -> None:
        for jump, label in self._jumps:
            jump.target = _instruction(label)
        for entry, label in self._regions:
            entry.target = _instruction(label)


def _instruction(label: Label) -> Instruction:
    if label.instruction is None:
        raise ValueError("a label is used but not placed")
    return label.instruction


_UNPLACED: Final = Instruction.make("NOP")
