"""Handlers for exceptions, `with` blocks, generators, `await` and imports."""

from __future__ import annotations

import sys
from collections.abc import Callable
from types import BuiltinFunctionType, ModuleType
from typing import TYPE_CHECKING, Any

from framelift.breaks import FL0102, FL0102_OPERAND, GraphBreak
from framelift.bytecode.canonical_ops import Intrinsic
from framelift.capture.interpreter.frame import LEAVE, Frame
from framelift.capture.interpreter.program import control, opcode
from framelift.models.exceptions import matched, raised_together
from framelift.values.containers.dicts import MISSING
from framelift.values.core import protocol as py
from framelift.values.core.base import Exhausted, Raised
from framelift.values.core.exceptions import ExceptionValue, as_end, give_context, is_raised, raise_error
from framelift.values.core.lookup import class_lookup, name_of
from framelift.values.core.stand_ins import raise_by
from framelift.values.functions.coroutines import (
    DrivenBelow,
    GivenOut,
    async_iterator,
    awaited,
    delegated,
    next_awaitable,
)
from framelift.values.functions.generators import GeneratorValue
from framelift.values.objects.classes import ClassValue
from framelift.values.objects.instances import method_of_protocol

if TYPE_CHECKING:
    from framelift.capture.interpreter.tracing import Tracing

# -- exceptions ------------------------------------------------------------------------------------------------------


@opcode("RAISE_VARARGS")
def raise_varargs(frame: Frame, count: int, *operands: Any) -> None:
    if count == 0:
        handled = frame.lift.handled_exception()
        if handled is None:
            raise_error(RuntimeError, "No active exception to reraise")
        raise Raised(handled)
    exception = _as_exception(frame, operands[0])
    if count == 2:
        cause = operands[1] if operands[1] is None else _as_exception(frame, operands[1], "raise Exception from given")
        frame.lift.journal.touch(exception)
        exception.cause, exception.suppress_context = cause, True
    give_context(frame.lift, exception)
    raise Raised(exception)


def _as_exception(frame: Frame, value: Any, statement: str = "raise given") -> ExceptionValue:
    if isinstance(value, ClassValue) and issubclass(value.concrete, BaseException):
        value = py.call(frame.lift, value, [], {})
    if isinstance(value, ExceptionValue):
        return value
    if not issubclass(py.type_of(value), BaseException):
        raise_by(statement, given=0)
    raise GraphBreak(FL0102_OPERAND, what="raise", operand=py.describe(value))


@opcode("RERAISE")
def reraise(frame: Frame, arg: int, exception: Any) -> None:
    raise Raised(exception)


@opcode("PUSH_EXC_INFO")
def push_exc_info(frame: Frame, arg: Any, exception: Any) -> Any:
    previous = frame.lift.handled
    frame.lift.handled = exception
    return previous, exception


@opcode("POP_EXCEPT")
def pop_except(frame: Frame, arg: Any, previous: Any) -> None:
    frame.lift.handled = previous


@opcode("CHECK_EXC_MATCH")
def check_exc_match(frame: Frame, arg: Any, exception: Any, expected: Any) -> Any:
    return exception, _matches(frame, exception, expected)


def _matches(frame: Frame, exception: Any, expected: Any) -> bool:
    """Whether a handler for `expected`, a class or a tuple of classes, is meant. All of them are looked at first."""
    classes = py.items(frame.lift, expected) if py.type_of(expected) is tuple else [expected]
    for cls in classes:
        if not isinstance(cls, ClassValue) or not issubclass(cls.concrete, BaseException):
            raise_by("try: 1 / 0\nexcept None: ...")
        cls.note(frame.lift)
    return any(issubclass(frame.lift.type_of(exception), cls.concrete) for cls in classes)


@opcode("CHECK_EG_MATCH")
def check_eg_match(frame: Frame, arg: Any, exception: Any, expected: Any) -> Any:
    lift = frame.lift
    handled, rest = py.items(lift, py.call(lift, lift.known_object(matched), [exception, expected], {}))
    if handled is not None:
        lift.handled = handled
    return rest, handled


@opcode("LOAD_ASSERTION_ERROR")
def load_assertion_error(frame: Frame, arg: Any) -> Any:
    return frame.lift.known_object(AssertionError)


# What the interpreter does by itself where code raises or leaves.
_INTRINSICS: dict[str, Callable[..., Any]] = {
    "STOPITERATION_ERROR": lambda lift, error: error,  # who runs the generator sees to it: not all code has this step
    "ASYNC_GEN_WRAP": lambda lift, value: GivenOut(value),
    "PREP_RERAISE_STAR": lambda lift, *errors: py.call(lift, lift.known_object(raised_together), list(errors), {}),
}


@opcode("CALL_INTRINSIC")
def call_intrinsic(frame: Frame, arg: Intrinsic, *operands: Any) -> Any:
    intrinsic = _INTRINSICS.get(arg.name)
    if intrinsic is None:
        raise GraphBreak(FL0102, what=f"the intrinsic {arg.name}")
    return intrinsic(frame.lift, *operands)


# -- with ------------------------------------------------------------------------------------------------------------


@opcode("BEFORE_WITH")
def before_with(frame: Frame, arg: Any, manager: Any) -> Any:
    enter, leave = _entering(frame, manager, "__enter__", "__exit__", "context manager")
    return leave, py.call(frame.lift, enter, [], {})


def _entering(frame: Frame, manager: Any, enter: str, leave: str, what: str) -> list[Any]:
    """The two methods of a context manager, both looked up before the first is called."""
    lift = frame.lift
    kind = lift.type_of(manager)
    for name, addition in ((enter, ""), (leave, f" (missed {leave} method)")):
        if class_lookup(lift, kind, name) is None:
            raise_error(TypeError, f"'{name_of(kind)}' object does not support the {what} protocol{addition}")
    return [method_of_protocol(lift, manager, name, what) for name in (enter, leave)]


@control("WITH_EXCEPT_START")
def with_except_start(frame: Frame, arg: Any) -> None:
    exit_, _, _, exception = frame.stack[-4:]
    cls = frame.lift.known_object(frame.lift.type_of(exception))
    frame.stack.append(py.call(frame.lift, exit_, [cls, exception, exception.trace(frame.lift)], {}))


# -- generators ------------------------------------------------------------------------------------------------------


@opcode("RETURN_GENERATOR")
def return_generator(frame: Frame, arg: Any) -> Any:
    return None  # the generator exists before its frame runs


@control("YIELD_VALUE")
def yield_value(frame: Frame, arg: Any) -> int:
    frame.result = frame.stack.pop()
    frame.yielded = True
    return LEAVE


@opcode("GET_YIELD_FROM_ITER")
def get_yield_from_iter(frame: Frame, arg: Any, iterable: Any) -> Any:
    return delegated(frame.lift, frame.program.canonical.code, iterable)


@control("SEND")
def send(frame: Frame, target: int) -> int | None:
    receiver, sent = frame.stack[-2:]
    try:
        frame.stack[-1] = _send(frame.lift, receiver, sent)
    except Exhausted as exhausted:
        frame.stack[-2:] = [exhausted.args[0] if exhausted.args else None]
        return target
    return None


def _send(lift: Tracing, receiver: Any, value: Any) -> Any:
    if isinstance(receiver, (GeneratorValue, DrivenBelow)):
        return receiver.send_value(lift, value)
    if value is None:
        return py.next_item(lift, receiver)
    try:
        return py.call(lift, py.attribute(lift, receiver, "send"), [value], {})
    except Raised as raised:
        raise as_end(raised) from None


@opcode("CLEANUP_THROW")
def cleanup_throw(frame: Frame, arg: Any, receiver: Any, sent: Any, exception: Any) -> Any:
    """An exception came to a `yield from`: StopIteration, wherever it comes from, is its end."""
    if not is_raised(Raised(exception), StopIteration):
        raise Raised(exception)
    return None, py.attribute(frame.lift, exception, "value")


@opcode("END_SEND")
def end_send(frame: Frame, arg: Any, receiver: Any, value: Any) -> Any:
    return value


# -- await -----------------------------------------------------------------------------------------------------------


@opcode("GET_AWAITABLE")
def get_awaitable(frame: Frame, place: int, value: Any) -> Any:
    """What `await` asks, where that may be in an `async with`."""
    return awaited(frame.lift, value, _PLACES.get(place))


_PLACES = {1: "__aenter__", 2: "__aexit__"}


@opcode("BEFORE_ASYNC_WITH")
def before_async_with(frame: Frame, arg: Any, manager: Any) -> Any:
    enter, leave = _entering(frame, manager, "__aenter__", "__aexit__", "asynchronous context manager")
    return leave, py.call(frame.lift, enter, [], {})


@opcode("GET_AITER")
def get_aiter(frame: Frame, arg: Any, value: Any) -> Any:
    return async_iterator(frame.lift, value)


@opcode("GET_ANEXT")
def get_anext(frame: Frame, arg: Any, iterator: Any) -> Any:
    return iterator, next_awaitable(frame.lift, iterator)


@opcode("END_ASYNC_FOR")
def end_async_for(frame: Frame, arg: Any, awaitable: Any, exception: Any) -> None:
    if not is_raised(Raised(exception), StopAsyncIteration):
        raise Raised(exception)


# -- imports ---------------------------------------------------------------------------------------------------------


@opcode("IMPORT_NAME")
def import_name(frame: Frame, name: str, level: Any, fromlist: Any) -> Any:
    """`import` of a module that is loaded already."""
    lift = frame.lift
    importer = lift.builtins.get_key(lift, "__import__")
    if importer is MISSING or type(importer.concrete) is not BuiltinFunctionType:
        raise GraphBreak(FL0102, what=f"import of {name} by a function of the program's")
    importer.note(lift)
    level, fromlist = lift.constant(level), lift.constant(fromlist)
    if level != 0:
        package = lift.constant(frame.globals.get_key(lift, "__package__"))
        base = package.rsplit(".", level - 1)[0] if level > 1 else package
        name = f"{base}.{name}" if name else base
    wanted = name if fromlist else name.partition(".")[0]
    if name not in sys.modules or not isinstance(sys.modules.get(wanted), ModuleType):
        raise GraphBreak(FL0102, what=f"import of {name}, which is not loaded yet")
    for part in fromlist or ():
        if part not in sys.modules[wanted].__dict__ and "__path__" in sys.modules[wanted].__dict__:
            raise GraphBreak(FL0102, what=f"import of {part} from the package {name}")
    loaded = lift.module_namespace(sys).get_key(lift, "modules")
    loaded.note(lift)
    return py.item(lift, loaded, wanted)


@opcode("IMPORT_FROM")
def import_from(frame: Frame, name: str, module: Any) -> Any:
    try:
        return module, py.attribute(frame.lift, module, name)
    except Raised as raised:
        raise GraphBreak(FL0102, what=f"import of {name} from {py.describe(module)}") from raised
