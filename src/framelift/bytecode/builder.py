"""Writing bytecode: version-neutral requests in, a code object for the running interpreter out.

A request says what the stack should become; the builder knows which instructions do that here. Slots, constants and
names are allotted as they are used.

>>> import types
>>> b = Builder(argnames=("x", "items"))
>>> done = b.label()
>>> b.load_fast("items"); b.get_iter()
>>> loop = b.here()
>>> b.for_iter(done)                                   # exhausted: iterator popped, on at end_for(done)
>>> b.store_fast("item")
>>> b.load_const(print); b.begin_call()                # begin_call(): the object on top of the stack will be called
>>> b.load_fast("item"); b.load_const(" "); b.call(2, ("sep",))    # two arguments, the last one by keyword
>>> b.pop_top()
>>> b.jump(loop)
>>> b.end_for(done)
>>> b.load_fast("x"); b.load_method("upper"); b.call(0); b.return_value()
>>> f = types.FunctionType(b.to_code("f", filename="made.py"), {})
>>> f("abc", [1, 2])
1
2
'ABC'

Calls
    `begin_call()` goes right after the callable, before its arguments; `load_method` and `load_callable` include it.
    `call(n, kwnames)`: n counts all arguments, keyword ones included, `self` not.
    `call_function_ex(kwargs)`: callable, `begin_call()`, tuple of arguments [, dict].

Labels
    `label()` makes one, `place(label)` puts it before the next instruction, `here()` does both. A conditional jump
    may go backward (the assembler turns it round where the interpreter has no such instruction).

Handlers
    Instructions emitted inside `with b.protect(handler):` go to `handler` when they raise. There the stack is what it
    was where the region began, then the exception (`lasti=True`: the raising offset below it). `begin_handler(label)`
    places the label and makes the exception the one being handled. It is until `end_handler()`, on every way through
    the code; the builder sees to the clean-up when something raises in between, and refuses to return there.

>>> b = Builder(argnames=("a", "b"))
>>> failed = b.label()
>>> with b.protect(failed):
...     b.load_fast("a"); b.load_fast("b"); b.binary_op("/"); b.return_value()
>>> b.begin_handler(failed)                            # stack: previous exception, exception
>>> b.store_fast("error"); b.end_handler()             # stack: empty
>>> b.take_fast("error"); b.load_attr("args"); b.return_value()
>>> types.FunctionType(b.to_code("divide"), {})(1, 0)
('division by zero',)

Lines
    `line(7)` or `at(positions)` holds for what is emitted after it; `line(None)` for code without a line. Before the
    first of them code belongs to the function's first line.
"""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from types import CodeType
from typing import Any, Final

from framelift.bytecode.assemble import assemble
from framelift.bytecode.instruction import NO_POSITIONS, ExceptionEntry, Instruction, Positions
from framelift.bytecode.opcodes import (
    COMPARE_SHIFT,
    COMPARE_TO_BOOL,
    COMPARISONS,
    HAS_ARG,
    INTRINSICS_1,
    JUMPS,
    NULL_POSITION,
    OPERATOR_NUMBERS,
    OPMAP,
    TERMINAL,
    VERSION,
)
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
_JUMP_NAMES: Final = {
    condition: f"POP_JUMP_FORWARD_IF_{condition}" if VERSION == (3, 11) else f"POP_JUMP_IF_{condition}"
    for condition in ("TRUE", "FALSE", "NONE", "NOT_NONE")
}
#: Instructions that push one item and need none: a NULL can be slipped in before them.
_PUSHES_ONE: Final = frozenset(
    OPMAP[name]
    for name in (
        "LOAD_FAST",
        "LOAD_FAST_CHECK",
        "LOAD_FAST_AND_CLEAR",
        "LOAD_CONST",
        "LOAD_GLOBAL",
        "LOAD_DEREF",
        "LOAD_NAME",
    )
    if name in OPMAP
)
_DEFAULTS, _KWDEFAULTS, _ANNOTATIONS, _CLOSURE = 1, 2, 4, 8


class Label:
    """A place in the code, possibly not known yet."""

    __slots__ = ("instruction", "placed", "depth", "active")

    def __init__(self) -> None:
        self.instruction: Instruction | None = None
        self.placed = False
        self.depth: int | None = None  # of the stack there, known from the first jump to it
        self.active: frozenset[ExceptionEntry] | None = None  # handlers being run there


class Builder:
    """Collects instructions for one function. See the module's page for how the requests fit together."""

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
        self.argnames = tuple(argnames)
        for name in self.argnames:
            self.slot(name)
        if len(self._slots) != len(self.argnames):
            raise ValueError(f"duplicate argument names: {self.argnames}")
        self.emit("RESUME", 0)

    # ---- the machinery ---------------------------------------------------------------------------------------

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

    # ---- variables and constants -----------------------------------------------------------------------------

    def load_fast(self, name: str, checked: bool = False) -> None:
        """-- value. From 3.12 on loading an unbound variable crashes unless `checked`."""
        opname = "LOAD_FAST_CHECK" if checked and VERSION >= (3, 12) else "LOAD_FAST"
        self.emit(opname, self.slot(name), name)

    def take_fast(self, name: str) -> None:
        """-- value. The variable is unbound after it: no reference is left behind in the frame."""
        if VERSION >= (3, 12):
            self.emit("LOAD_FAST_AND_CLEAR", self.slot(name), name)
        else:
            self.emit("LOAD_FAST", self.slot(name), name)
            self.emit("DELETE_FAST", self.slot(name), name)

    def store_fast(self, name: str) -> None:
        """value --"""
        self.emit("STORE_FAST", self.slot(name), name)

    def delete_fast(self, name: str) -> None:
        """--"""
        self.emit("DELETE_FAST", self.slot(name), name)

    def load_const(self, value: Any) -> None:
        """-- value. Any object can be a constant of a code object."""
        self.emit("LOAD_CONST", self.constant(value), value)

    def load_global(self, name: str) -> None:
        """-- value"""
        self.emit("LOAD_GLOBAL", self.name(name) << 1, name)

    def store_global(self, name: str) -> None:
        """value --"""
        self.emit("STORE_GLOBAL", self.name(name), name)

    def delete_global(self, name: str) -> None:
        """--"""
        self.emit("DELETE_GLOBAL", self.name(name), name)

    # ---- stack -----------------------------------------------------------------------------------------------

    def pop_top(self) -> None:
        """value --"""
        self.emit("POP_TOP")

    def copy(self, depth: int = 1) -> None:
        """-- item. Copies the item at `depth` (1 is the top)."""
        self.emit("COPY", depth)

    def swap(self, depth: int = 2) -> None:
        """Exchanges the top with the item at `depth` (1 is the top)."""
        if depth > 1:
            self.emit("SWAP", depth)

    def push_null(self) -> None:
        """-- NULL. For rebuilding a stack; calls are better written with `begin_call`."""
        self.emit("PUSH_NULL")

    # ---- attributes, items, operators ------------------------------------------------------------------------

    def load_attr(self, name: str) -> None:
        """owner -- value"""
        self.emit("LOAD_ATTR", self.name(name) << (VERSION >= (3, 12)), name)

    def store_attr(self, name: str) -> None:
        """value owner --"""
        self.emit("STORE_ATTR", self.name(name), name)

    def delete_attr(self, name: str) -> None:
        """owner --"""
        self.emit("DELETE_ATTR", self.name(name), name)

    def binary_subscr(self) -> None:
        """container key -- value"""
        self.emit("BINARY_SUBSCR")

    def store_subscr(self) -> None:
        """value container key --"""
        self.emit("STORE_SUBSCR")

    def delete_subscr(self) -> None:
        """container key --"""
        self.emit("DELETE_SUBSCR")

    def binary_op(self, operator: str) -> None:
        """left right -- result. The operator as written in Python: "+", "@", "+=" ..."""
        self.emit("BINARY_OP", OPERATOR_NUMBERS[operator], operator)

    def unary_op(self, operator: str) -> None:
        """value -- result. One of "-", "+", "~", "not"."""
        if operator == "+":
            if "UNARY_POSITIVE" in OPMAP:
                self.emit("UNARY_POSITIVE")
            else:
                self.emit("CALL_INTRINSIC_1", INTRINSICS_1.index("UNARY_POSITIVE"))
        elif operator == "not":
            self.to_bool()
            self.emit("UNARY_NOT")
        else:
            self.emit({"-": "UNARY_NEGATIVE", "~": "UNARY_INVERT"}[operator])

    def compare(self, operator: str) -> None:
        """left right -- result. One of < <= == != > >=; "is", "is not", "in", "not in" too."""
        if operator in ("is", "is not"):
            self.emit("IS_OP", int(operator == "is not"))
        elif operator in ("in", "not in"):
            self.emit("CONTAINS_OP", int(operator == "not in"))
        else:
            number = COMPARISONS.index(operator)
            # The low bits say which outcomes are wanted, a hint for specialisation.
            mask = (2, 2 | 8, 8, 1 | 2 | 4, 4, 4 | 8)[number] if VERSION >= (3, 12) else 0
            self.emit("COMPARE_OP", number << COMPARE_SHIFT | mask, operator)

    def to_bool(self) -> None:
        """value -- value. Before 3.13 the instructions that need a truth value test it themselves."""
        if COMPARE_TO_BOOL:
            self.emit("TO_BOOL")

    # ---- containers ------------------------------------------------------------------------------------------

    def build_tuple(self, count: int) -> None:
        """items[count] -- tuple"""
        self.emit("BUILD_TUPLE", count)

    def build_list(self, count: int) -> None:
        """items[count] -- list"""
        self.emit("BUILD_LIST", count)

    def build_set(self, count: int) -> None:
        """items[count] -- set"""
        self.emit("BUILD_SET", count)

    def build_map(self, count: int) -> None:
        """(key value)[count] -- dict"""
        self.emit("BUILD_MAP", count)

    build_dict = build_map

    def build_const_key_map(self, keys: tuple[Any, ...]) -> None:
        """values[len(keys)] -- dict"""
        self.load_const(keys)
        self.emit("BUILD_CONST_KEY_MAP", len(keys))

    def build_slice(self, count: int = 2) -> None:
        """start stop [step] -- slice"""
        self.emit("BUILD_SLICE", count)

    def build_string(self, count: int) -> None:
        """strings[count] -- string"""
        self.emit("BUILD_STRING", count)

    def list_append(self, depth: int = 1) -> None:
        """item --. The list lies `depth` below the item."""
        self.emit("LIST_APPEND", depth)

    def list_extend(self, depth: int = 1) -> None:
        """iterable --"""
        self.emit("LIST_EXTEND", depth)

    def list_to_tuple(self) -> None:
        """list -- tuple"""
        if "LIST_TO_TUPLE" in OPMAP:
            self.emit("LIST_TO_TUPLE")
        else:
            self.emit("CALL_INTRINSIC_1", INTRINSICS_1.index("LIST_TO_TUPLE"))

    def set_update(self, depth: int = 1) -> None:
        """iterable --"""
        self.emit("SET_UPDATE", depth)

    def dict_update(self, depth: int = 1) -> None:
        """mapping --"""
        self.emit("DICT_UPDATE", depth)

    def dict_merge(self, depth: int = 1) -> None:
        """mapping --. Like `dict_update`, but a duplicate key is the TypeError of a call."""
        self.emit("DICT_MERGE", depth)

    def unpack_sequence(self, count: int) -> None:
        """sequence -- items[count], the first on top"""
        self.emit("UNPACK_SEQUENCE", count)

    def get_iter(self) -> None:
        """iterable -- iterator"""
        self.emit("GET_ITER")

    # ---- calls -----------------------------------------------------------------------------------------------

    def begin_call(self) -> None:
        """callable -- callable NULL, in the order this version wants."""
        if NULL_POSITION == "above":
            self.emit("PUSH_NULL")
            return
        last = self.instructions[-1]
        if last.opcode not in _PUSHES_ONE or self._waiting:
            self.emit("PUSH_NULL")
            self.emit("SWAP", 2)
            return
        # The callable was just loaded: turn that instruction, which labels may mean, into the NULL and load after it.
        opname, arg, argval = last.opname, last.arg, last.argval
        last.become(OPMAP["PUSH_NULL"])
        last.arg = last.argval = None
        positions, self._positions = self._positions, last.positions
        self.emit(opname, arg, argval).handler = last.handler
        self._positions = positions

    def load_callable(self, value: Any) -> None:
        """-- callable NULL. A constant that will be called."""
        self.load_const(value)
        self.begin_call()

    def load_method(self, name: str) -> None:
        """owner -- method self, or the attribute ready to be called."""
        if VERSION >= (3, 12):
            self.emit("LOAD_ATTR", self.name(name) << 1 | 1, name)
        else:
            self.emit("LOAD_METHOD", self.name(name), name)

    def call(self, count: int, kwnames: tuple[str, ...] = ()) -> None:
        """callable NULL arguments[count] -- result. The last len(kwnames) arguments are passed by keyword."""
        if len(kwnames) > count:
            raise ValueError(f"{len(kwnames)} keywords for {count} arguments")
        if VERSION >= (3, 13):
            if kwnames:
                self.load_const(kwnames)
            self.emit("CALL_KW" if kwnames else "CALL", count)
            return
        if kwnames:
            self.emit("KW_NAMES", self.constant(kwnames), kwnames)
        if VERSION == (3, 11):
            self.emit("PRECALL", count)
        self.emit("CALL", count)

    def call_function_ex(self, kwargs: bool = False) -> None:
        """callable NULL tuple [dict] -- result"""
        self.emit("CALL_FUNCTION_EX", int(kwargs))

    def make_function(
        self,
        code: CodeType,
        *,
        defaults: bool = False,
        kwdefaults: bool = False,
        annotations: bool = False,
        closure: bool = False,
    ) -> None:
        """[defaults tuple] [kwdefaults dict] [annotations] [tuple of cells] -- function"""
        given = (defaults, _DEFAULTS), (kwdefaults, _KWDEFAULTS), (annotations, _ANNOTATIONS), (closure, _CLOSURE)
        if bool(code.co_freevars) != closure:
            raise ValueError(f"{code.co_name} has free variables {code.co_freevars}, closure={closure}")
        self.load_const(code)
        if VERSION < (3, 13):
            self.emit("MAKE_FUNCTION", sum(bit for wanted, bit in given if wanted))
            return
        self.emit("MAKE_FUNCTION")
        for wanted, bit in reversed(given):
            if wanted:
                self.emit("SET_FUNCTION_ATTRIBUTE", bit)

    def import_name(self, name: str) -> None:
        """level fromlist -- module"""
        self.emit("IMPORT_NAME", self.name(name), name)

    # ---- control ---------------------------------------------------------------------------------------------

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

    def jump(self, label: Label) -> None:
        """--"""
        self._jump("JUMP_FORWARD", label)  # the assembler picks the direction

    def jump_if_true(self, label: Label) -> None:
        """value --"""
        self.to_bool()
        self._jump(_JUMP_NAMES["TRUE"], label)

    def jump_if_false(self, label: Label) -> None:
        """value --"""
        self.to_bool()
        self._jump(_JUMP_NAMES["FALSE"], label)

    def jump_if_none(self, label: Label) -> None:
        """value --"""
        self._jump(_JUMP_NAMES["NONE"], label)

    def jump_if_not_none(self, label: Label) -> None:
        """value --"""
        self._jump(_JUMP_NAMES["NOT_NONE"], label)

    def for_iter(self, done: Label) -> None:
        """iterator -- iterator item. When there are no more items: iterator --, and on after `end_for(done)`."""
        self._jump("FOR_ITER", done)

    def end_for(self, done: Label) -> None:
        """Ends the loop whose `for_iter` got this label."""
        self.place(done)
        if VERSION >= (3, 12):
            self.emit("END_FOR")
        if VERSION >= (3, 13):
            self.emit("POP_TOP")

    def return_value(self) -> None:
        """value --"""
        self.emit("RETURN_VALUE")

    def raise_(self, count: int = 1) -> None:
        """[exception [cause]] --. With count 0 the handled exception is raised again."""
        self.emit("RAISE_VARARGS", count)

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
            self.copy(3)
            self.emit("POP_EXCEPT")
            self.reraise(1)

    def reraise(self, lasti: int = 0) -> None:
        """[lasti] exception --. The traceback does not get another entry. `lasti`: where its offset lies, or 0."""
        self.emit("RERAISE", lasti)

    def check_exc_match(self) -> None:
        """exception type -- exception bool"""
        self.emit("CHECK_EXC_MATCH")

    def take_handled(self, name: str) -> None:
        """previous --. Leaves a handler whose exception is no longer on the stack, and stores that exception.

        What PUSH_EXC_INFO saves is the exception handled so far: pushing None makes it show it.
        """
        self.load_const(None)
        self.emit("PUSH_EXC_INFO")
        self.pop_top()
        self.store_fast(name)
        self.end_handler()

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
        self._emit_cleanups()
        self._resolve()
        instructions = self.instructions
        for instruction in instructions:
            if instruction.positions is _FIRST_LINE:
                instruction.positions = (firstlineno, firstlineno, None, None)
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
            co_varnames=tuple(self._slots),
            co_nlocals=len(self._slots),
            co_consts=tuple(self._consts),
            co_names=tuple(self._names),
            co_cellvars=(),
            co_freevars=(),
        )

    def _jump(self, opname: str, label: Label) -> None:
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
        if self._waiting:
            raise ValueError("a label is placed after the last instruction")
        for jump, label in self._jumps:
            jump.target = _instruction(label)
        for entry, label in self._regions:
            entry.target = _instruction(label)


def _instruction(label: Label) -> Instruction:
    if label.instruction is None:
        raise ValueError("a label is used but not placed")
    return label.instruction


_UNPLACED: Final = Instruction.make("NOP")
