"""Generators: frames of the traced program that stop and go on."""

from __future__ import annotations

import sys
import types
from collections.abc import Callable, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any, NoReturn, Protocol

from framelift.breaks import FL0102, FL0107, GraphBreak
from framelift.models import is_of_models, kind_of_generators
from framelift.values.containers.iterators import IteratorValue, ask_for_length
from framelift.values.containers.sequences import ListValue
from framelift.values.core import protocol as py
from framelift.values.core.base import Exhausted, Raised, Value
from framelift.values.core.exceptions import ExceptionValue, as_end, raise_error
from framelift.values.core.lookup import is_subclass
from framelift.values.functions.frames import FrameObjectValue
from framelift.values.functions.generator_rebuild import begin, begin_at_yield, ended, go_to_yield
from framelift.values.objects.classes import ClassValue

if TYPE_CHECKING:
    from framelift.capture.frame import Frame
    from framelift.capture.lift import Lift
    from framelift.residual.generator import Generator


class GeneratorValue(IteratorValue):
    """A generator whose frame is traced as far as items are asked for."""

    __slots__ = ("frame", "started", "finished", "running", "handled", "born", "kind", "left", "sequence")
    # What errors call it, and what the names of its attributes begin with.
    noun = "generator"
    prefix = "gi_"

    def __init__(self, frame: Frame, born: int) -> None:
        super().__init__()
        self.frame = frame
        self.started = False
        self.finished = False
        self.running = False
        # Whether an exception left a model of an iterator in C: that could go on, its model cannot.
        self.left = False
        # The exception it was handling when it yielded: every generator has a stack of its own.
        self.handled: Any = None
        # The instruction of the outermost frame that made it.
        self.born = born
        # A model of an iterator in C is a generator that goes by that iterator's type.
        self.kind: type = kind_of_generators(frame.program.canonical.code)
        # What it gives the items of, where it can say how many are left.
        self.sequence: Value | None = None

    def python_type(self) -> type:
        return self.kind

    def describe(self) -> str:
        return f"{self.noun} {self.frame.program.canonical.code.co_qualname}"

    # -- going on ------------------------------------------------------------------------------------------------

    def next(self, lift: Lift) -> Any:
        return self.send_value(lift, None)

    def ask_length(self, lift: Lift) -> None:
        if self.sequence is not None and not self.finished:
            ask_for_length(lift, self.sequence)

    def send_value(self, lift: Lift, value: Any) -> Any:
        """Go on with `value` as the result of `yield`; the next item, or Exhausted with the return value."""
        self._refuse_running()
        if self.finished:
            if self.left:
                self.refuse("next() after an exception")
            raise Exhausted
        if not self.started and value is not None:
            raise_error(TypeError, f"can't send non-None value to a just-started {self.noun}")
        lift.journal.touch(self)
        if self.started:
            self.frame.stack.append(value)
            self.frame.pc += 1
        return self._run(lift, None)

    def throw_value(self, lift: Lift, exception: Any) -> Any:
        """Go on with `exception` raised at the `yield`."""
        self._refuse_running()
        lift.journal.touch(self)
        exception.be_thrown(lift)
        if self.finished or not self.started:
            self.finished = True
            raise Raised(exception)
        if self.frame.delegates:
            return self._throw_below(lift, self.frame.stack[-1], exception)
        return self._run(lift, exception)

    def _throw_below(self, lift: Lift, below: Any, exception: Any) -> Any:
        """The same while it waits for another iterator in a `yield from`: a generator is thrown at first."""
        if not isinstance(below, IteratorValue):
            self.refuse("throw() into a generator that delegates to an iterator of the program's")
        if not below.takes_throws:
            return self._run(lift, exception)
        frame, outside = self.frame, lift.handled
        self.running = True
        lift.handled = outside if self.handled is None else self.handled
        try:
            if isinstance(exception, ExceptionValue) and issubclass(exception.cls, GeneratorExit):
                below.close_value(lift)
            else:
                return below.throw_value(lift, exception)
        except Exhausted as exhausted:  # the `yield from` is over
            frame.stack[-1] = exhausted.args[0] if exhausted.args else None
            frame.pc = frame.program.steps[frame.pc - 1].arg
            exception = None
        except Raised as raised:
            exception = raised.value
        finally:
            self.running = False
            lift.handled = outside
        return self._run(lift, exception)

    def _refuse_running(self) -> None:
        if self.running:
            if not self.takes_throws:  # iterators in C have their own ways when they are re-entered
                self.refuse("next() of an iterator that is being asked already")
            raise_error(ValueError, f"{self.noun} already executing")

    def _run(self, lift: Lift, exception: Any) -> Any:
        frame = self.frame
        self.started = self.running = True
        frame.yielded = False
        outside = lift.handled
        inside = lift.handled = outside if self.handled is None else self.handled
        try:
            if exception is not None and self.handled is not None:
                lift.give_context(exception)
            result = lift.run_frame(frame) if exception is None else lift.throw_into(frame, exception)
        except Raised as raised:
            self.finished = True
            if self.kind is not types.GeneratorType:
                self.left = True
                raise as_end(raised) from None
            raise Raised(_stop_iteration_error(frame.program.canonical.code, raised.value)) from None
        finally:
            frame.enter(None)
            self.running = False
            self.handled = lift.handled if lift.handled is not inside else self.handled
            lift.handled = outside
        if frame.yielded:
            return result
        self.finished = True
        raise Exhausted(*(() if result is None else (result,)))

    # -- methods -------------------------------------------------------------------------------------------------

    @property
    def takes_throws(self) -> bool:  # type: ignore[override]
        return self.kind is types.GeneratorType

    def attribute(self, lift: Lift, name: str) -> Any:
        if not self.takes_throws:
            return super().attribute(lift, name)
        if name in DRIVERS:
            return driver(lift, self, name)
        if name.startswith(self.prefix):
            return self._of_the_frame(lift, name.removeprefix(self.prefix), name)
        if name in ("__name__", "__qualname__") and isinstance(self.frame.function, Value):
            return py.attribute(lift, self.frame.function, name)
        return super().attribute(lift, name)

    def _of_the_frame(self, lift: Lift, what: str, name: str) -> Any:
        """Where it stands, as its attributes tell."""
        waits = self.started and not self.finished and not self.running
        if what == "running":
            return self.running
        if what == "suspended":
            return waits
        if what in ("yieldfrom", "await"):
            return self.frame.stack[-1] if waits and self.frame.delegates else None
        if what == "code":
            return lift.known_object(self.frame.program.canonical.code)
        if what == "frame":
            return None if self.finished else FrameObjectValue(self.frame)
        return super().attribute(lift, name)

    def close_value(self, lift: Lift) -> Any:
        """`close()`: what it returns."""
        self._refuse_running()
        if self.finished or not self.started:
            lift.journal.touch(self)
            self.finished = True
            return None
        try:
            self.throw_value(lift, ExceptionValue(GeneratorExit, ()))
        except Exhausted as exhausted:
            return exhausted.args[0] if exhausted.args and sys.version_info >= (3, 13) else None
        except Raised as raised:
            if isinstance(raised.value, ExceptionValue) and issubclass(
                raised.value.cls, (GeneratorExit, StopIteration)
            ):
                return None
            raise
        raise_error(RuntimeError, f"{self.noun} ignored GeneratorExit")

    # -- undoing, and the way back -------------------------------------------------------------------------------

    def waits_in_try(self) -> bool:
        """Whether dropping it would run code of the user's: it stopped where an exception would be handled."""
        return self.started and not self.finished and self.frame.protected

    @property
    def death_shows(self) -> bool:  # type: ignore[override]
        return self.waits_in_try()

    def closes_quietly(self, lift: Lift, going_on: Sequence[Value]) -> bool:
        """Close it, as happens when it is dropped; whether nobody can tell when that is, because it changes nothing.

        Nothing, that is, but other generators, if they are dropped, too: not among those that go on.
        """
        journal, graph = lift.journal, lift.graph.mark()
        journal.begin_step()
        try:
            self.close_value(lift)
        except (Raised, GraphBreak):
            return False
        # Exceptions change by being raised: here the one that ends the generator, which nobody else has.
        quiet = (GeneratorValue, ExceptionValue)
        changed = any(
            not isinstance(value, quiet) or any(value is other for other in going_on) for value in journal.since_step()
        )
        return not changed and lift.graph.mark() == graph

    def state(self) -> Any:
        return self.frame.snapshot(), self.started, self.finished, self.handled, self.left

    def restore(self, state: Any) -> None:
        snapshot, self.started, self.finished, self.handled, self.left = state
        self.frame.restore(snapshot)

    def parts(self) -> list[Any]:
        return [] if self.finished else self.frame.holds()

    def rebuild(self, generate: Generator) -> None:
        frame = self.frame
        if is_of_models(frame.program.canonical.code) or self.running or frame.names is not None:
            self._refuse_rebuilding()
        if self.finished:
            self._make(generate, ended)
        elif self.started:
            self._rebuild_suspended(generate)
        else:
            self._make(generate, begin, *frame.locals[: frame.program.canonical.argument_slots])

    def _rebuild_suspended(self, generate: Generator) -> None:
        entered = generate.at_its_yield(self.frame)
        if entered is None:
            self._refuse_rebuilding()
        code, items = entered
        arguments = ListValue([])
        if self._make(generate, begin_at_yield, code, arguments):
            generate.callable(go_to_yield)
            generate.load_remembered(self)
            generate.load_remembered(arguments)
            generate.list_of(items)
            generate.call(3)
            generate.pop_top()

    def _make(self, generate: Generator, make: Callable[..., Any], *arguments: Any) -> bool:
        """Have the real generator made; False: it is there already, because the arguments lead back to it."""
        generate.callable(make)
        generate.value(self.frame.function)
        for argument in arguments:
            generate.value(argument)
        generate.call(1 + len(arguments))
        if generate.is_remembered(self):
            generate.pop_top()
            generate.load_remembered(self)
            return False
        generate.remember(self)
        return True

    def _refuse_rebuilding(self) -> NoReturn:
        raise GraphBreak(FL0107, what=self.describe(), born=self.born)


class Driven(Protocol):
    """What `send()`, `throw()` and `close()` drive."""

    def send_value(self, lift: Lift, value: Any) -> Any: ...

    def throw_value(self, lift: Lift, exception: Any) -> Any: ...

    def close_value(self, lift: Lift) -> Any: ...


def driver(lift: Lift, driven: Any, name: str) -> Value:
    """The method `send`, `throw` or `close` of something driven."""
    return lift.builtin_method(driven, name, partial(DRIVERS[name], lift, driven))


def _send(lift: Lift, driven: Driven, value: Any, /) -> Any:
    try:
        return driven.send_value(lift, value)
    except Exhausted as exhausted:
        raise_error(StopIteration, *exhausted.args)


def _throw(lift: Lift, driven: Driven, kind: Any, /, *rest: Any) -> Any:
    try:
        return driven.throw_value(lift, thrown(lift, kind, *rest))
    except Exhausted as exhausted:
        raise_error(StopIteration, *exhausted.args)


def _close(lift: Lift, driven: Driven) -> Any:
    return driven.close_value(lift)


DRIVERS: dict[str, Callable[..., Any]] = {"send": _send, "throw": _throw, "close": _close}


def thrown(lift: Lift, kind: Any, *rest: Any) -> ExceptionValue:
    """What `throw(kind, value)` means: an instance, a class, or a class and an instance of it."""
    if len(rest) > 2 or (rest and sys.version_info >= (3, 12)):
        _refuse_throw()  # newer versions warn
    value = rest[0] if rest else None
    if isinstance(kind, ExceptionValue) and value is None:
        return kind
    if isinstance(kind, ClassValue) and is_subclass(kind.concrete, BaseException):
        kind.note(lift)
        if isinstance(value, ExceptionValue) and issubclass(value.cls, kind.concrete):
            return value
        made = lift.call(kind, []) if value is None else None
        if isinstance(made, ExceptionValue):
            return made
    _refuse_throw()


def _refuse_throw() -> NoReturn:
    raise GraphBreak(FL0102, what="throw() with these arguments")


_COROUTINE, _ASYNC_GENERATOR = 0x80, 0x200


def _stop_iteration_error(code: types.CodeType, error: Any) -> Any:
    """An exception that means the end of an iterator, when it leaves a generator, is a mistake of its author's."""
    is_async = bool(code.co_flags & _ASYNC_GENERATOR)
    ends = (StopIteration, StopAsyncIteration) if is_async else (StopIteration,)
    if not isinstance(error, ExceptionValue) or not issubclass(error.cls, ends):
        return error
    noun = "async generator" if is_async else "coroutine" if code.co_flags & _COROUTINE else "generator"
    end = next(end for end in ends if issubclass(error.cls, end))
    replaced = ExceptionValue(RuntimeError, (f"{noun} raised {end.__name__}",))
    replaced.cause = replaced.context = error
    replaced.suppress_context = True
    return replaced
