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

from types import CodeType
from typing import Any, Final

from framelift.bytecode.code_buffer import CodeBuffer, Label
from framelift.bytecode.opcodes import (
    COMPARE_SHIFT,
    COMPARE_TO_BOOL,
    COMPARISONS,
    INTRINSICS_1,
    NULL_POSITION,
    OPERATOR_NUMBERS,
    OPMAP,
    VERSION,
)

__all__ = ["Builder", "Label"]

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


class Builder(CodeBuffer):
    """Collects instructions for one function. See the module's page for how the requests fit together.

    What concerns the whole code comes from `CodeBuffer`: `to_code`, `line` and `at`, `label`, `place` and `here`,
    `protect`, `begin_handler` and `end_handler`, `temporary`, `depth`, and `emit` for a real instruction by name.
    """

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

    def jump(self, label: Label) -> None:
        """--"""
        self.jump_to("JUMP_FORWARD", label)  # the assembler picks the direction

    def jump_if_true(self, label: Label) -> None:
        """value --"""
        self.to_bool()
        self.jump_to(_JUMP_NAMES["TRUE"], label)

    def jump_if_false(self, label: Label) -> None:
        """value --"""
        self.to_bool()
        self.jump_to(_JUMP_NAMES["FALSE"], label)

    def jump_if_none(self, label: Label) -> None:
        """value --"""
        self.jump_to(_JUMP_NAMES["NONE"], label)

    def jump_if_not_none(self, label: Label) -> None:
        """value --"""
        self.jump_to(_JUMP_NAMES["NOT_NONE"], label)

    def for_iter(self, done: Label) -> None:
        """iterator -- iterator item. When there are no more items: iterator --, and on after `end_for(done)`."""
        self.jump_to("FOR_ITER", done)

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

    def reraise(self, lasti: int = 0) -> None:
        """[lasti] exception --. The traceback does not get another entry. `lasti`: where its offset lies, or 0."""
        self.emit("RERAISE", lasti)

    def check_exc_match(self) -> None:
        """exception type -- exception bool"""
        self.emit("CHECK_EXC_MATCH")
