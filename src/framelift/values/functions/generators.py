"""Generators: frames of the traced program that stop and go on."""

from __future__ import annotations

import sys
import types
from collections.abc import Callable, Sequence
from functools import partial
from itertools import repeat
from typing import TYPE_CHECKING, Any, NoReturn, Protocol

from framelift.breaks import FL0102_ARGUMENTS, FL0107, GraphBreak
from framelift.models import is_of_models, kind_of_generators
from framelift.values.containers.iterators import IteratorValue, ask_for_length
from framelift.values.containers.sequences import ListValue
from framelift.values.core import protocol as py
from framelift.values.core.base import Exhausted, Raised, Value
from framelift.values.core.exceptions import ExceptionValue, as_end, give_context, raise_error
from framelift.values.core.lookup import is_subclass
from framelift.values.core.methods import ModelMethodValue
from framelift.values.functions.frames import FrameObjectValue
from framelift.values.functions.generator_rebuild import begin, begin_at_yield, ended, go_to_yield
from framelift.values.objects.classes import ClassValue
from framelift.values.objects.exceptions import ExceptionObjectValue

if TYPE_CHECKING:
    from framelift.values.core.emitter import Emitter
    from framelift.values.core.tracer import TracedFrame, Tracer


class GeneratorValue(IteratorValue):
    """A generator whose frame is traced as far as items are asked for."""

    __slots__ = ("frame", "started", "finished", "running", "handled", "born", "kind", "left", "sequence")
    assigns: tuple[str, ...] = ("started", "finished", "handled", "left")
    # What errors call it, and what the names of its attributes begin with.
    noun = "generator"
    prefix = "gi_"

    def __init__(self, frame: TracedFrame, born: int) -> None:
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

    def next(self, tracer: Tracer) -> Any:
        return self.send_value(tracer, None)

    def ask_length(self, tracer: Tracer) -> None:
        if self.sequence is not None and not self.finished:
            ask_for_length(tracer, self.sequence)

    def send_value(self, tracer: Tracer, value: Any) -> Any:
        """Go on with `value` as the result of `yield`; the next item, or Exhausted with the return value."""
        self._refuse_running()
        if self.finished:
            if self.left:
                self.refuse("next() after an exception")
            raise Exhausted
        if not self.started and value is not None:
            raise_error(TypeError, f"can't send non-None value to a just-started {self.noun}")
        tracer.journal.touch(self)
        if self.started:
            self.frame.stack.append(value)
            self.frame.pc += 1
        return self._run(tracer, None)

    def throw_value(self, tracer: Tracer, exception: Any) -> Any:
        """Go on with `exception` raised at the `yield`."""
        self._refuse_running()
        tracer.journal.touch(self)
        exception.be_thrown(tracer)
        if self.finished or not self.started:
            self.finished = True
            raise Raised(exception)
        if self.frame.delegates:
            return self._throw_below(tracer, self.frame.stack[-1], exception)
        return self._run(tracer, exception)

    def _throw_below(self, tracer: Tracer, below: Any, exception: Any) -> Any:
        """The same while it waits for another iterator in a `yield from`: a generator is thrown at first."""
        if not isinstance(below, IteratorValue):
            self.refuse("throw() into a generator that delegates to an iterator of the program's")
        if not below.takes_throws:
            return self._run(tracer, exception)
        frame, outside = self.frame, tracer.handled
        self.running = True
        tracer.handled = outside if self.handled is None else self.handled
        try:
            if isinstance(exception, ExceptionValue) and issubclass(exception.cls, GeneratorExit):
                below.close_value(tracer)
            else:
                return below.throw_value(tracer, exception)
        except Exhausted as exhausted:  # the `yield from` is over
            frame.stack[-1] = exhausted.args[0] if exhausted.args else None
            frame.pc = frame.program.steps[frame.pc - 1].arg
            exception = None
        except Raised as raised:
            exception = raised.value
        finally:
            self.running = False
            tracer.handled = outside
        return self._run(tracer, exception)

    def _refuse_running(self) -> None:
        if self.running:
            if not self.takes_throws:  # iterators in C have their own ways when they are re-entered
                self.refuse("next() of an iterator that is being asked already")
            raise_error(ValueError, f"{self.noun} already executing")

    def _run(self, tracer: Tracer, exception: Any) -> Any:
        frame = self.frame
        self.started = self.running = True
        frame.yielded = False
        outside = tracer.handled
        inside = tracer.handled = outside if self.handled is None else self.handled
        try:
            if exception is not None and self.handled is not None:
                give_context(tracer, exception)
            result = (
                tracer.run_frame(frame)
                if exception is None
                else tracer.run_frame(frame, partial(frame.throw, exception))
            )
        except Raised as raised:
            self.finished = True
            if self.kind is not types.GeneratorType:
                self.left = True
                raise as_end(raised) from None
            raise Raised(_stop_iteration_error(frame.program.canonical.code, raised.value)) from None
        finally:
            frame.enter(None)
            self.running = False
            self.handled = tracer.handled if tracer.handled is not inside else self.handled
            tracer.handled = outside
        if frame.yielded:
            return result
        self.finished = True
        raise Exhausted(*(() if result is None else (result,)))

    # -- methods -------------------------------------------------------------------------------------------------

    @property
    def takes_throws(self) -> bool:  # type: ignore[override]
        return self.kind is types.GeneratorType

    def attribute(self, tracer: Tracer, name: str) -> Any:
        if not self.takes_throws:
            return super().attribute(tracer, name)
        if name in DRIVERS:
            return driver(tracer, self, name)
        if name.startswith(self.prefix):
            return self._of_the_frame(tracer, name.removeprefix(self.prefix), name)
        if name in ("__name__", "__qualname__") and isinstance(self.frame.function, Value):
            return py.attribute(tracer, self.frame.function, name)
        return super().attribute(tracer, name)

    def _of_the_frame(self, tracer: Tracer, what: str, name: str) -> Any:
        """Where it stands, as its attributes tell."""
        waits = self.started and not self.finished and not self.running
        if what == "running":
            return self.running
        if what == "suspended":
            return waits
        if what in ("yieldfrom", "await"):
            return self.frame.stack[-1] if waits and self.frame.delegates else None
        if what == "code":
            return tracer.known_object(self.frame.program.canonical.code)
        if what == "frame":
            return None if self.finished else FrameObjectValue(self.frame)
        return super().attribute(tracer, name)

    def close_value(self, tracer: Tracer) -> Any:
        """`close()`: what it returns."""
        self._refuse_running()
        if self.finished or not self.started:
            tracer.journal.touch(self)
            self.finished = True
            return None
        try:
            self.throw_value(tracer, ExceptionObjectValue(GeneratorExit, ()))
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

    def closes_quietly(self, tracer: Tracer, going_on: Sequence[Value]) -> bool:
        """Close it, as happens when it is dropped; whether nobody can tell when that is, because it changes nothing.

        Nothing, that is, but other generators, if they are dropped, too: not among those that go on.
        """
        journal, graph = tracer.journal, tracer.graph.mark()
        journal.begin_step()
        try:
            self.close_value(tracer)
        except (Raised, GraphBreak):
            return False
        # Exceptions change by being raised: here the one that ends the generator, which nobody else has.
        quiet = (GeneratorValue, ExceptionValue)
        changed = any(
            not isinstance(value, quiet) or any(value is other for other in going_on) for value in journal.since_step()
        )
        return not changed and tracer.graph.mark() == graph

    def state(self) -> Any:
        return self.frame.snapshot(), *map(getattr, repeat(self), self.assigns)

    def restore(self, state: Any) -> None:
        snapshot, *others = state
        super().restore(others)
        self.frame.restore(snapshot)

    def parts(self) -> list[Any]:
        return [] if self.finished else self.frame.holds()

    def rebuild(self, emit: Emitter) -> None:
        frame = self.frame
        if is_of_models(frame.program.canonical.code) or self.running or frame.names is not None:
            self._refuse_rebuilding()
        if self.finished:
            self._make(emit, ended)
        elif self.started:
            self._rebuild_suspended(emit)
        else:
            self._make(emit, begin, *frame.locals[: frame.program.canonical.argument_slots])

    def _rebuild_suspended(self, emit: Emitter) -> None:
        entered = emit.at_its_yield(self.frame)
        if entered is None:
            self._refuse_rebuilding()
        code, items = entered
        arguments = ListValue([])
        if self._make(emit, begin_at_yield, code, arguments):
            emit.callable(go_to_yield)
            emit.load_remembered(self)
            emit.load_remembered(arguments)
            emit.list_of(items)
            emit.call(3)
            emit.pop_top()

    def _make(self, emit: Emitter, make: Callable[..., Any], *arguments: Any) -> bool:
        """Have the real generator made; False: it is there already, because the arguments lead back to it."""
        emit.callable(make)
        emit.value(self.frame.function)
        for argument in arguments:
            emit.value(argument)
        emit.call(1 + len(arguments))
        if emit.is_remembered(self):
            emit.pop_top()
            emit.load_remembered(self)
            return False
        emit.remember(self)
        return True

    def _refuse_rebuilding(self) -> NoReturn:
        raise GraphBreak(FL0107, what=self.describe(), born=self.born)


class Driven(Protocol):
    """What `send()`, `throw()` and `close()` drive."""

    def send_value(self, tracer: Tracer, value: Any) -> Any: ...

    def throw_value(self, tracer: Tracer, exception: Any) -> Any: ...

    def close_value(self, tracer: Tracer) -> Any: ...


def driver(tracer: Tracer, driven: Any, name: str) -> Value:
    """The method `send`, `throw` or `close` of something driven."""
    return ModelMethodValue(driven, name, partial(DRIVERS[name], tracer, driven))


def _send(tracer: Tracer, driven: Driven, value: Any, /) -> Any:
    try:
        return driven.send_value(tracer, value)
    except Exhausted as exhausted:
        raise_error(StopIteration, *exhausted.args)


def _throw(tracer: Tracer, driven: Driven, kind: Any, /, *rest: Any) -> Any:
    try:
        return driven.throw_value(tracer, thrown(tracer, kind, *rest))
    except Exhausted as exhausted:
        raise_error(StopIteration, *exhausted.args)


def _close(tracer: Tracer, driven: Driven) -> Any:
    return driven.close_value(tracer)


DRIVERS: dict[str, Callable[..., Any]] = {"send": _send, "throw": _throw, "close": _close}


def thrown(tracer: Tracer, kind: Any, *rest: Any) -> ExceptionValue:
    """What `throw(kind, value)` means: an instance, a class, or a class and an instance of it."""
    if len(rest) > 2 or (rest and sys.version_info >= (3, 12)):
        _refuse_throw()  # newer versions warn
    value = rest[0] if rest else None
    if isinstance(kind, ExceptionValue) and value is None:
        return kind
    if isinstance(kind, ClassValue) and is_subclass(kind.concrete, BaseException):
        kind.note(tracer)
        if isinstance(value, ExceptionValue) and issubclass(value.cls, kind.concrete):
            return value
        made = py.call(tracer, kind, [], {}) if value is None else None
        if isinstance(made, ExceptionValue):
            return made
    _refuse_throw()


def _refuse_throw() -> NoReturn:
    raise GraphBreak(FL0102_ARGUMENTS, what="throw()")


_COROUTINE, _ASYNC_GENERATOR = 0x80, 0x200


def _stop_iteration_error(code: types.CodeType, error: Any) -> Any:
    """An exception that means the end of an iterator, when it leaves a generator, is a mistake of its author's."""
    is_async = bool(code.co_flags & _ASYNC_GENERATOR)
    ends = (StopIteration, StopAsyncIteration) if is_async else (StopIteration,)
    if not isinstance(error, ExceptionValue) or not issubclass(error.cls, ends):
        return error
    noun = "async generator" if is_async else "coroutine" if code.co_flags & _COROUTINE else "generator"
    end = next(end for end in ends if issubclass(error.cls, end))
    replaced = ExceptionObjectValue(RuntimeError, (f"{noun} raised {end.__name__}",))
    replaced.cause = replaced.context = error
    replaced.suppress_context = True
    return replaced
