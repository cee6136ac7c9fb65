"""A machine that runs canonical steps on real objects: what the canonical instruction set means, executable.

It asks no version questions, so a case that runs equally on it and on CPython, on every version, shows that `lower`
gives one meaning to what the versions write differently. The stack effect of every step is checked against `OPS`.
Plain functions only.
"""

from __future__ import annotations

import builtins
import operator
import types
from collections.abc import Callable
from typing import Any

from framelift.bytecode.builder import Builder
from framelift.bytecode.canonical import CanonicalCode, Step, lower
from framelift.bytecode.canonical_ops import JUMP_OPS, OPS, effect
from framelift.bytecode.opcodes import INTRINSICS_2, OPMAP

Cell = types.CellType


class Null:
    def __repr__(self) -> str:
        return "NULL"


NULL = Null()
UNBOUND = NULL


def _native(
    name: str, argnames: tuple[str, ...], write: Callable[[Builder], None], results: int = 1
) -> Callable[..., Any]:
    """A function whose body is a real instruction, for those that cannot be said in Python."""
    b = Builder(argnames)
    for argument in argnames:
        b.load_fast(argument)
    write(b)
    if results != 1:
        b.build_tuple(results)
    b.return_value()
    return types.FunctionType(b.to_code(name), {})


def _with_handled() -> Callable[[BaseException, Callable[[], Any]], Any]:
    """f(exception, thunk): calls the thunk while the exception is the one being handled."""
    b = Builder(("exception", "thunk"))
    b.load_fast("exception")
    b.emit("PUSH_EXC_INFO")
    b.pop_top()
    b.load_fast("thunk")
    b.begin_call()
    b.call(0)
    b.store_fast("result")
    b.end_handler()
    b.load_fast("result")
    b.return_value()
    return types.FunctionType(b.to_code("with_handled"), {})


with_handled = _with_handled()
_prep_reraise_star = _native(
    "prep_reraise_star",
    ("original", "raised"),
    lambda b: (
        b.emit("PREP_RERAISE_STAR")
        if "PREP_RERAISE_STAR" in OPMAP
        else b.emit("CALL_INTRINSIC_2", INTRINSICS_2.index("PREP_RERAISE_STAR"))
    ),
)
_match_keys = _native("match_keys", ("subject", "keys"), lambda b: b.emit("MATCH_KEYS"), results=3)
_match_mapping = _native("match_mapping", ("subject",), lambda b: b.emit("MATCH_MAPPING"), results=2)
_match_sequence = _native("match_sequence", ("subject",), lambda b: b.emit("MATCH_SEQUENCE"), results=2)
_check_eg_match = _native("check_eg_match", ("group", "kind"), lambda b: b.emit("CHECK_EG_MATCH"), results=2)


def _match_class(count: int) -> Callable[..., Any]:
    return _native("match_class", ("subject", "kind", "names"), lambda b: b.emit("MATCH_CLASS", count))


_UNARY: dict[str, Callable[[Any], Any]] = {
    "UNARY_NOT": operator.not_,
    "UNARY_NEGATIVE": operator.neg,
    "UNARY_INVERT": operator.invert,
    "UNARY_POSITIVE": operator.pos,
    "TO_BOOL": bool,
    "GET_ITER": iter,
    "LIST_TO_TUPLE": tuple,
}
_BINARY = {
    "+": operator.add, "-": operator.sub, "*": operator.mul, "/": operator.truediv, "//": operator.floordiv,
    "%": operator.mod, "@": operator.matmul, "**": operator.pow, "<<": operator.lshift, ">>": operator.rshift,
    "&": operator.and_, "|": operator.or_, "^": operator.xor,
    "+=": operator.iadd, "-=": operator.isub, "*=": operator.imul, "/=": operator.itruediv,
    "//=": operator.ifloordiv, "%=": operator.imod, "@=": operator.imatmul, "**=": operator.ipow,
    "<<=": operator.ilshift, ">>=": operator.irshift, "&=": operator.iand, "|=": operator.ior, "^=": operator.ixor,
}  # fmt: skip
_COMPARE = {
    "<": operator.lt, "<=": operator.le, "==": operator.eq, "!=": operator.ne, ">": operator.gt, ">=": operator.ge,
}  # fmt: skip
_CONVERT = {None: lambda value: value, "s": str, "r": repr, "a": ascii}


class Machine:
    """One frame. `run()` returns or raises what the function would."""

    def __init__(self, function: types.FunctionType, *args: Any, **kwargs: Any) -> None:
        self.function = function
        self.canonical: CanonicalCode = lower(function.__code__)
        self.stack: list[Any] = []
        self.slots: list[Any] = [UNBOUND] * len(self.canonical.slot_names)
        self.slots[: self.canonical.argument_slots] = _bind(function, args, kwargs)
        self.next = 0
        self.seen: set[str] = set()

    def run(self) -> Any:
        kind, value = self._run_level()
        if kind == "raise":
            raise value
        assert kind == "return" and not self.stack
        return value

    # A handled exception is a level of its own: the machine calls itself inside a real handler.

    def _run_level(self) -> tuple[str, Any]:
        while True:
            step = self.canonical.steps[self.next]
            self.seen.add(step.op)
            self.next += 1
            depth, here = len(self.stack), self.next
            if step.op == "RETURN_VALUE":
                return "return", self.stack.pop()
            if step.op == "POP_EXCEPT":
                self.stack.pop()
                return "left", None
            error: BaseException | None = None
            if step.op == "PUSH_EXC_INFO":
                exception = self.stack.pop()
                self.stack += ["previous", exception]
                outcome = with_handled(exception, self._run_level)
                if outcome[0] == "left":
                    continue
                if outcome[0] == "return":
                    return outcome
                error = outcome[1]  # no handler below it took it
                return "raise", error
            if step.op == "RERAISE":
                error = self.stack.pop()
            else:
                try:
                    getattr(self, "op_" + step.op)(step.arg)
                except BaseException as raised:
                    error = raised
            if error is None:
                jumped = step.op in JUMP_OPS and self.next != here
                taken, given = effect(step.op, step.arg, jumped)
                assert len(self.stack) == depth - taken + given, (step, OPS[step.op], depth, self.stack)
            elif not self._handle(step, error):
                return "raise", error
            error = None

    def _handle(self, step: Step, error: BaseException) -> bool:
        handler = step.handler
        if handler is None:
            return False
        del self.stack[handler.depth :]
        if handler.lasti:
            self.stack.append(step.offset)
        self.stack.append(error)
        self.next = handler.target
        return True

    def pop(self, count: int) -> list[Any]:
        if not count:
            return []
        items = self.stack[-count:]
        del self.stack[-count:]
        return items

    def __getattr__(self, name: str) -> Any:
        op = name.removeprefix("op_")
        if op not in OPS:
            raise AttributeError(name)
        if op in _UNARY:
            return lambda arg: self.stack.append(_UNARY[op](self.stack.pop()))
        raise NotImplementedError(op)

    # ---- stack and variables ---------------------------------------------------------------------------------

    def op_POP_TOP(self, arg):
        self.stack.pop()

    def op_COPY(self, arg):
        self.stack.append(self.stack[-arg])

    def op_PUSH_NULL(self, arg):
        self.stack.append(NULL)

    def op_LOAD_CONST(self, arg):
        self.stack.append(arg)

    def op_SWAP(self, arg):
        self.stack[-1], self.stack[-arg] = self.stack[-arg], self.stack[-1]

    def op_LOAD_FAST(self, arg):
        self._need(self.slots[arg], arg)
        self.stack.append(self.slots[arg])

    def _need(self, value, slot):
        if value is UNBOUND:
            name = self.canonical.slot_names[slot]
            raise UnboundLocalError(f"cannot access local variable '{name}' where it is not associated with a value")

    def op_LOAD_FAST_AND_CLEAR(self, arg):
        self.stack.append(self.slots[arg])
        self.slots[arg] = UNBOUND

    def op_STORE_FAST(self, arg):
        self.slots[arg] = self.stack.pop()

    def op_DELETE_FAST(self, arg):
        self._need(self.slots[arg], arg)
        self.slots[arg] = UNBOUND

    def op_MAKE_CELL(self, arg):
        held = self.slots[arg]
        self.slots[arg] = Cell() if held is UNBOUND else Cell(held)

    def op_COPY_FREE_VARS(self, arg):
        self.slots[-arg:] = self.function.__closure__

    def op_LOAD_CLOSURE(self, arg):
        self.stack.append(self.slots[arg])

    def op_LOAD_DEREF(self, arg):
        try:
            self.stack.append(self.slots[arg].cell_contents)
        except ValueError:
            self._need(UNBOUND, arg)

    def op_STORE_DEREF(self, arg):
        self.slots[arg].cell_contents = self.stack.pop()

    def op_DELETE_DEREF(self, arg):
        del self.slots[arg].cell_contents

    def op_LOAD_GLOBAL(self, arg):
        names = self.function.__globals__
        self.stack.append(names[arg] if arg in names else getattr(builtins, arg))

    def op_STORE_GLOBAL(self, arg):
        self.function.__globals__[arg] = self.stack.pop()

    def op_DELETE_GLOBAL(self, arg):
        del self.function.__globals__[arg]

    # ---- attributes, operators, items ------------------------------------------------------------------------

    def op_LOAD_ATTR(self, arg):
        self.stack.append(getattr(self.stack.pop(), arg))

    def op_LOAD_METHOD(self, arg):
        self._push_callable(getattr(self.stack.pop(), arg.name), arg.null)

    def _push_callable(self, value, null):
        if type(value) is types.MethodType:
            self.stack += [value.__func__, value.__self__]
        else:
            self.stack += [NULL, value] if null == "below" else [value, NULL]

    def op_LOAD_SUPER_ATTR(self, arg):
        cls, kind, owner = self.pop(3)
        self.stack.append(getattr(cls(kind, owner), arg.name))

    def op_LOAD_SUPER_METHOD(self, arg):
        cls, kind, owner = self.pop(3)
        self._push_callable(getattr(cls(kind, owner), arg.name), arg.null)

    def op_STORE_ATTR(self, arg):
        value, owner = self.pop(2)
        setattr(owner, arg, value)

    def op_DELETE_ATTR(self, arg):
        delattr(self.stack.pop(), arg)

    def op_BINARY_OP(self, arg):
        left, right = self.pop(2)
        self.stack.append(_BINARY[arg](left, right))

    def op_COMPARE_OP(self, arg):
        left, right = self.pop(2)
        self.stack.append(_COMPARE[arg](left, right))

    def op_IS_OP(self, arg):
        left, right = self.pop(2)
        self.stack.append((left is right) != arg)

    def op_CONTAINS_OP(self, arg):
        item, container = self.pop(2)
        self.stack.append((item in container) != arg)

    def op_BINARY_SUBSCR(self, arg):
        container, key = self.pop(2)
        self.stack.append(container[key])

    def op_STORE_SUBSCR(self, arg):
        value, container, key = self.pop(3)
        container[key] = value

    def op_DELETE_SUBSCR(self, arg):
        container, key = self.pop(2)
        del container[key]

    def op_BINARY_SLICE(self, arg):
        container, start, stop = self.pop(3)
        self.stack.append(container[start:stop])

    def op_STORE_SLICE(self, arg):
        value, container, start, stop = self.pop(4)
        container[start:stop] = value

    # ---- jumps and iteration ---------------------------------------------------------------------------------

    def _jump_if(self, condition, arg):
        if condition:
            self.next = arg

    def op_JUMP(self, arg):
        self.next = arg

    def op_POP_JUMP_IF_TRUE(self, arg):
        self._jump_if(self.stack.pop(), arg)

    def op_POP_JUMP_IF_FALSE(self, arg):
        self._jump_if(not self.stack.pop(), arg)

    def op_POP_JUMP_IF_NONE(self, arg):
        self._jump_if(self.stack.pop() is None, arg)

    def op_POP_JUMP_IF_NOT_NONE(self, arg):
        self._jump_if(self.stack.pop() is not None, arg)

    def op_JUMP_IF_TRUE_OR_POP(self, arg):
        if self.stack[-1]:
            self.next = arg
        else:
            self.stack.pop()

    def op_JUMP_IF_FALSE_OR_POP(self, arg):
        if self.stack[-1]:
            self.stack.pop()
        else:
            self.next = arg

    def op_FOR_ITER(self, arg):
        try:
            self.stack.append(next(self.stack[-1]))
        except StopIteration:
            self.stack.pop()
            self.next = arg

    def op_GET_LEN(self, arg):
        self.stack.append(len(self.stack[-1]))

    def op_UNPACK_SEQUENCE(self, arg):
        items = list(self.stack.pop())
        assert len(items) == arg
        self.stack += reversed(items)

    def op_UNPACK_EX(self, arg):
        items = list(self.stack.pop())
        assert len(items) >= arg.before + arg.after
        middle = len(items) - arg.after
        self.stack += reversed([*items[: arg.before], items[arg.before : middle], *items[middle:]])

    # ---- containers and strings ------------------------------------------------------------------------------

    def op_BUILD_TUPLE(self, arg):
        self.stack.append(tuple(self.pop(arg)))

    def op_BUILD_LIST(self, arg):
        self.stack.append(self.pop(arg))

    def op_BUILD_SET(self, arg):
        self.stack.append(set(self.pop(arg)))

    def op_BUILD_SLICE(self, arg):
        self.stack.append(slice(*self.pop(arg)))

    def op_BUILD_STRING(self, arg):
        self.stack.append("".join(self.pop(arg)))

    def op_BUILD_MAP(self, arg):
        items = self.pop(2 * arg)
        self.stack.append(dict(zip(items[::2], items[1::2], strict=True)))

    def op_BUILD_CONST_KEY_MAP(self, arg):
        keys = self.stack.pop()
        self.stack.append(dict(zip(keys, self.pop(arg), strict=True)))

    def op_LIST_APPEND(self, arg):
        item = self.stack.pop()
        self.stack[-arg].append(item)

    def op_LIST_EXTEND(self, arg):
        items = self.stack.pop()
        self.stack[-arg].extend(items)

    def op_SET_ADD(self, arg):
        item = self.stack.pop()
        self.stack[-arg].add(item)

    def op_SET_UPDATE(self, arg):
        items = self.stack.pop()
        self.stack[-arg].update(items)

    def op_MAP_ADD(self, arg):
        key, value = self.pop(2)
        self.stack[-arg][key] = value

    op_DICT_UPDATE = op_DICT_MERGE = op_SET_UPDATE

    def op_CONVERT_VALUE(self, arg):
        self.stack.append(_CONVERT[arg](self.stack.pop()))

    def op_FORMAT_VALUE(self, arg):
        spec = self.stack.pop() if arg.spec else ""
        self.stack.append(format(_CONVERT[arg.conversion](self.stack.pop()), spec))

    # ---- calls -----------------------------------------------------------------------------------------------

    def _callable(self, first, second, null):
        """The callable and the arguments that come before the others."""
        if null == "below":
            return (second, []) if first is NULL else (first, [second])
        return (first, []) if second is NULL else (first, [second])

    def op_CALL(self, arg):
        arguments = self.pop(arg.argc)
        function, before = self._callable(*self.pop(2), arg.null)
        positional = len(arguments) - len(arg.kwnames)
        keywords = dict(zip(arg.kwnames, arguments[positional:], strict=True))
        if function is super and not before + arguments:  # it would look at the caller's frame
            before = [self.slots[self.canonical.slot_names.index("__class__")].cell_contents, self._first_argument()]
        self.stack.append(function(*before, *arguments[:positional], **keywords))

    def _first_argument(self):
        return self.slots[0].cell_contents if self.canonical.slot_kinds[0] == "cell" else self.slots[0]

    def op_CALL_FUNCTION_EX(self, arg):
        keywords = self.stack.pop() if arg.kwargs else {}
        arguments = self.stack.pop()
        function, before = self._callable(*self.pop(2), arg.null)
        assert not before
        self.stack.append(function(*arguments, **keywords))

    def op_CALL_INTRINSIC(self, arg):
        assert arg.name == "PREP_RERAISE_STAR"
        self.stack.append(_prep_reraise_star(*self.pop(2)))

    def op_MAKE_FUNCTION(self, arg):
        code = self.stack.pop()
        given = {bit: value for bit, value in zip([b for b in (1, 2, 4, 8) if arg & b], self.pop(arg.bit_count()))}
        # A function needs its closure when it is made; 3.13 gives it later.
        empty = tuple(Cell() for _ in code.co_freevars) or None
        made = types.FunctionType(code, self.function.__globals__, closure=given.pop(8, empty))
        self.stack.append(made)
        for bit, value in given.items():
            self._set_function_attribute(bit, value)

    def op_SET_FUNCTION_ATTRIBUTE(self, arg):
        value, function = self.pop(2)
        self.stack.append(function)
        self._set_function_attribute(arg, value)

    def _set_function_attribute(self, bit, value):
        function = self.stack[-1]
        if bit == 1:
            function.__defaults__ = value
        elif bit == 2:
            function.__kwdefaults__ = value
        elif bit == 4:
            function.__annotations__ = dict(zip(value[::2], value[1::2]))
        else:
            self.stack[-1] = types.FunctionType(
                function.__code__, function.__globals__, function.__name__, function.__defaults__, value
            )

    def op_LOAD_BUILD_CLASS(self, arg):
        self.stack.append(builtins.__build_class__)

    def op_IMPORT_NAME(self, arg):
        level, fromlist = self.pop(2)
        self.stack.append(__import__(arg, self.function.__globals__, None, fromlist, level))

    def op_IMPORT_FROM(self, arg):
        self.stack.append(getattr(self.stack[-1], arg))

    # ---- exceptions and matching -----------------------------------------------------------------------------

    def op_RAISE_VARARGS(self, arg):
        if arg == 0:
            raise  # noqa: PLE0704
        if arg == 1:
            raise self.stack.pop()
        error, cause = self.pop(2)
        raise error from cause

    def op_CHECK_EXC_MATCH(self, arg):
        kind = self.stack.pop()
        self.stack.append(isinstance(self.stack[-1], kind))

    def op_CHECK_EG_MATCH(self, arg):
        self.stack += _check_eg_match(*self.pop(2))

    def op_BEFORE_WITH(self, arg):
        manager = self.stack.pop()
        self.stack += [manager.__exit__, manager.__enter__()]

    def op_WITH_EXCEPT_START(self, arg):
        error = self.stack[-1]
        self.stack.append(self.stack[-4](type(error), error, error.__traceback__))

    def op_LOAD_ASSERTION_ERROR(self, arg):
        self.stack.append(AssertionError)

    def op_MATCH_CLASS(self, arg):
        self.stack.append(_match_class(arg)(*self.pop(3)))

    def op_MATCH_KEYS(self, arg):
        self.stack += _match_keys(*self.pop(2))

    def op_MATCH_MAPPING(self, arg):
        self.stack += _match_mapping(self.stack.pop())

    def op_MATCH_SEQUENCE(self, arg):
        self.stack += _match_sequence(self.stack.pop())


def _bind(function: types.FunctionType, args: tuple[Any, ...], kwargs: dict[str, Any]) -> list[Any]:
    """The arguments as the frame would hold them. Enough for the cases: no defaults for positional ones."""
    code = function.__code__
    names = code.co_varnames[: code.co_argcount + code.co_kwonlyargcount]
    bound = dict(zip(names[: code.co_argcount], args, strict=False)) | (function.__kwdefaults__ or {}) | kwargs
    slots = [bound.pop(name) for name in names]
    if code.co_flags & 4:
        slots.append(args[code.co_argcount :])
    if code.co_flags & 8:
        slots.append(bound)
    return slots
