"""Coroutines, asynchronous generators, and what `await` asks: generators under other names, with rules of their own."""

from __future__ import annotations

import types
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from framelift.breaks import FL0102, GraphBreak
from framelift.values.containers.iterators import IteratorValue
from framelift.values.core import protocol as py
from framelift.values.core.base import Exhausted, Raised, Value
from framelift.values.core.exceptions import is_raised, raise_error
from framelift.values.core.lookup import class_lookup, name_of
from framelift.values.core.methods import ModelMethodValue
from framelift.values.core.primitives import primitive
from framelift.values.core.stand_ins import answering, raise_by, raise_what, stand_in
from framelift.values.functions.generators import DRIVERS, GeneratorValue, driver, thrown
from framelift.values.objects.exceptions import ExceptionObjectValue
from framelift.values.objects.instances import method_of_protocol

if TYPE_CHECKING:
    from framelift.values.core.emitter import Emitter
    from framelift.values.core.tracer import Tracer

_COROUTINE, _ITERABLE_COROUTINE, _ASYNC_GENERATOR = 0x80, 0x100, 0x200


def kind_of_generator(code: types.CodeType) -> type[GeneratorValue]:
    """What a call of a function with this code gives."""
    if code.co_flags & _COROUTINE:
        return CoroutineValue
    return AsyncGeneratorValue if code.co_flags & _ASYNC_GENERATOR else GeneratorValue


class _NoIterator(GeneratorValue):
    """A generator in all but this: it is no iterator."""

    __slots__ = ()
    is_read_by_items = False

    def iterate(self, tracer: Tracer) -> Any:
        return Value.iterate(self, tracer)

    def next(self, tracer: Tracer) -> Any:
        return Value.next(self, tracer)

    def contains(self, tracer: Tracer, item: Any) -> Any:
        return Value.contains(self, tracer, item)


class CoroutineValue(_NoIterator):
    """What a call of an `async def` gives."""

    __slots__ = ()
    noun = "coroutine"
    prefix = "cr_"
    takes_throws = True

    def python_type(self) -> type:
        return types.CoroutineType

    def attribute(self, tracer: Tracer, name: str) -> Any:
        if name == "__await__":
            return ModelMethodValue(self, name, lambda: AwaitedValue(self))
        return super().attribute(tracer, name)

    def send_value(self, tracer: Tracer, value: Any) -> Any:
        self._refuse_ended()
        return super().send_value(tracer, value)

    def throw_value(self, tracer: Tracer, exception: Any) -> Any:
        self._refuse_ended()
        return super().throw_value(tracer, exception)

    def _refuse_ended(self) -> None:
        if self.finished:
            raise_by("async def f(): ...\nc = f()\nc.close()\nc.send(None)")

    # Python warns of a coroutine that is dropped before it began.

    def waits_in_try(self) -> bool:
        return (not self.started and not self.finished) or super().waits_in_try()

    def closes_quietly(self, tracer: Tracer, going_on: Sequence[Value]) -> bool:
        return self.started and super().closes_quietly(tracer, going_on)


class DrivenBelow(IteratorValue):
    """An iterator that drives a coroutine or an asynchronous generator when it is driven."""

    __slots__ = ()
    takes_throws = True

    def next(self, tracer: Tracer) -> Any:
        return self.send_value(tracer, None)

    def send_value(self, tracer: Tracer, value: Any) -> Any:
        raise NotImplementedError

    def attribute(self, tracer: Tracer, name: str) -> Any:
        return driver(tracer, self, name) if name in DRIVERS else super().attribute(tracer, name)


async def _sample() -> None:
    """Whose objects tell the types of what Python makes."""


async def _sample_steps() -> Any:
    yield


def _types() -> tuple[type, type, type]:
    coroutine, generator = _sample(), _sample_steps()
    steps = generator.asend(None), generator.aclose()
    found = type(coroutine.__await__()), type(steps[0]), type(steps[1])
    for opened in (coroutine, *steps):
        opened.close()
    return found


_Wrapper, _Asend, _Athrow = _types()


class AwaitedValue(DrivenBelow):
    """`coroutine.__await__()`."""

    __slots__ = ("coroutine",)

    def __init__(self, coroutine: CoroutineValue) -> None:
        super().__init__()
        self.coroutine = coroutine

    def python_type(self) -> type:
        return _Wrapper

    def send_value(self, tracer: Tracer, value: Any) -> Any:
        return self.coroutine.send_value(tracer, value)

    def throw_value(self, tracer: Tracer, exception: Any) -> Any:
        return self.coroutine.throw_value(tracer, exception)

    def close_value(self, tracer: Tracer) -> Any:
        return self.coroutine.close_value(tracer)

    def parts(self) -> list[Any]:
        return [self.coroutine]

    def rebuild(self, emit: Emitter) -> None:
        emit.value(self.coroutine)
        emit.load_method("__await__")
        emit.call(0)


# -- asynchronous generators -------------------------------------------------------------------------------------------


class GivenOut(Value):
    """What an asynchronous generator yields to who asks it: all else that leaves its frame is for who runs it."""

    __slots__ = ("given",)

    def __init__(self, given: Any) -> None:
        super().__init__()
        self.given = given


class AsyncGeneratorValue(_NoIterator):
    """What a call of an `async def` with a `yield` gives."""

    __slots__ = ("asked", "closed")
    assigns = (*_NoIterator.assigns, "asked", "closed")
    noun = "async generator"
    prefix = "ag_"
    takes_throws = False

    def __init__(self, *args: Any) -> None:
        super().__init__(*args)
        self.asked = False  # by an awaitable of its own that is not done yet
        self.closed = False

    def python_type(self) -> type:
        return types.AsyncGeneratorType

    def attribute(self, tracer: Tracer, name: str) -> Any:
        if name in ("asend", "__anext__"):
            return ModelMethodValue(self, name, lambda *sent: AskedValue(self, *sent or (None,)))
        if name == "athrow":
            return ModelMethodValue(self, name, lambda *given: ThrownValue(self, thrown(tracer, *given)))
        if name == "aclose":
            return ModelMethodValue(self, name, lambda: ClosedValue(self, ExceptionObjectValue(GeneratorExit, ())))
        if name == "__aiter__":
            return ModelMethodValue(self, name, lambda: self)
        return super().attribute(tracer, name)

    def rebuild(self, emit: Emitter) -> None:
        if self.started or self.finished:
            self._refuse_rebuilding()
        super().rebuild(emit)


class _Step(DrivenBelow):
    """An awaitable of an asynchronous generator, done once the generator has yielded."""

    __slots__ = ("generator", "given", "begun", "done")
    assigns = ("begun", "done")
    # What errors call it: of one that is done, and of one whose generator is busy.
    names = ("", "")

    def __init__(self, generator: AsyncGeneratorValue, given: Any) -> None:
        super().__init__()
        self.generator = generator
        self.given = given
        self.begun = self.done = False

    def send_value(self, tracer: Tracer, value: Any) -> Any:
        self._refuse_done()
        tracer.journal.touch(self)
        if self.begun:
            return self._outcome(tracer, lambda: self.generator.send_value(tracer, value))
        return self._begin(tracer, value)

    def throw_value(self, tracer: Tracer, exception: Any) -> Any:
        self._refuse_done()
        tracer.journal.touch(self)
        return self._outcome(tracer, lambda: self.generator.throw_value(tracer, exception))

    def close_value(self, tracer: Tracer) -> Any:
        if not self.begun:
            tracer.journal.touch(self)
            self.done = True
            return None
        raise GraphBreak(FL0102, what="close() of what an asynchronous generator waits in")

    def _begin(self, tracer: Tracer, value: Any) -> Any:
        raise NotImplementedError

    def _refuse_done(self) -> None:
        if self.done:
            raise_error(RuntimeError, f"cannot reuse already awaited {self.names[0]}")

    def _refuse_busy(self) -> None:
        if self.generator.asked:
            self.done = True
            raise_error(RuntimeError, f"{self.names[1]}: asynchronous generator is already running")

    def _outcome(self, tracer: Tracer, go_on: Any) -> Any:
        """Have the generator go on. What it yields is what this awaitable gives; all else is passed on."""
        generator = self.generator
        tracer.journal.touch(generator)
        generator.asked = True
        try:
            passed = go_on()
        except Exhausted:
            self._end()
            generator.closed = True
            raise_error(StopAsyncIteration)
        except Raised as raised:
            self._end()
            if is_raised(raised, (StopAsyncIteration, GeneratorExit)):
                generator.closed = True
            raise
        if not isinstance(passed, GivenOut):
            return passed
        self._end()
        return self._yielded(passed.given)

    def _yielded(self, value: Any) -> Any:
        raise Exhausted(*(() if value is None else (value,)))

    def _end(self) -> None:
        self.done = True
        self.generator.asked = False

    def parts(self) -> list[Any]:
        return [self.generator, self.given]


class AskedValue(_Step):
    """`generator.asend(given)`, or `generator.__anext__()`."""

    __slots__ = ()
    names = ("__anext__()/asend()", "anext()")

    def python_type(self) -> type:
        return _Asend

    def _begin(self, tracer: Tracer, value: Any) -> Any:
        self._refuse_busy()
        self.begun = True
        sent = self.given if value is None else value
        return self._outcome(tracer, lambda: self.generator.send_value(tracer, sent))


class ThrownValue(_Step):
    """`generator.athrow(given)`."""

    __slots__ = ()
    names = ("aclose()/athrow()", "athrow()")

    def python_type(self) -> type:
        return _Athrow

    def _begin(self, tracer: Tracer, value: Any) -> Any:
        if self.generator.finished:
            self.done = True
            raise Exhausted
        self._refuse_busy()
        if self.generator.closed:
            self.done = True
            raise_error(StopAsyncIteration)
        if value is not None:
            raise_error(RuntimeError, "can't send non-None value to a just-started coroutine")
        self.begun = True
        return self._first(tracer)

    def _first(self, tracer: Tracer) -> Any:
        return self._outcome(tracer, lambda: self.generator.throw_value(tracer, self.given))


class ClosedValue(ThrownValue):
    """`generator.aclose()`."""

    __slots__ = ()
    names = ("aclose()/athrow()", "aclose()")

    def _first(self, tracer: Tracer) -> Any:
        tracer.journal.touch(self.generator)
        self.generator.closed = True
        return super()._first(tracer)

    def _outcome(self, tracer: Tracer, go_on: Any) -> Any:
        try:
            return super()._outcome(tracer, go_on)
        except Raised as raised:
            if is_raised(raised, (StopAsyncIteration, GeneratorExit)):
                raise Exhausted from None
            raise

    def _yielded(self, value: Any) -> Any:
        raise_error(RuntimeError, "async generator ignored GeneratorExit")


# -- what `await`, `async for` and `async with` ask --------------------------------------------------------------------


async def _awaiting(value: Any) -> None:
    await value


async def _iterating(value: Any) -> None:
    async for _ in value:
        pass


def awaited(tracer: Tracer, value: Any, method: str | None = None) -> Any:
    """The iterator that `await value` drives; `method` gave the value, if it stands in an `async with`."""
    if isinstance(value, CoroutineValue):
        if value.attribute(tracer, "cr_await") is not None:
            raise_error(RuntimeError, "coroutine is being awaited already")
        return value
    if isinstance(value, _Step) or _is_iterable_coroutine(value):
        return value
    kind = tracer.type_of(value)
    if class_lookup(tracer, kind, "__await__") is None:
        if method is None:
            raise_what(_awaiting(stand_in(kind)).send, None)
        what = f"an object from {method} that does not implement __await__"
        raise_error(TypeError, f"'async with' received {what}: {name_of(kind)}")
    iterator = py.call(tracer, method_of_protocol(tracer, value, "__await__", "await"), [], {})
    if isinstance(iterator, CoroutineValue) or _is_iterable_coroutine(iterator):
        raise_error(TypeError, "__await__() returned a coroutine")
    found = tracer.type_of(iterator)
    if class_lookup(tracer, found, "__next__") is None:
        raise_what(_awaiting(answering(kind, "__await__", stand_in(found))).send, None)
    return iterator


def _is_iterable_coroutine(value: Any) -> bool:
    """Whether it is a generator that may be awaited: `types.coroutine` marked its function."""
    if not isinstance(value, GeneratorValue):
        return False
    return bool(value.frame.program.canonical.code.co_flags & _ITERABLE_COROUTINE)


def delegated(tracer: Tracer, code: types.CodeType, value: Any) -> Any:
    """The iterator that `yield from value` drives in a generator with this code."""
    if not isinstance(value, CoroutineValue):
        return py.iterate(tracer, value)
    if not code.co_flags & (_COROUTINE | _ITERABLE_COROUTINE):
        raise_by("async def f(): ...\nc = f()\nc.close()\ndef g(): yield from c\nnext(g())")
    return value


def async_iterator(tracer: Tracer, value: Any) -> Any:
    """What an `async for` over `value` asks."""
    kind = tracer.type_of(value)
    if class_lookup(tracer, kind, "__aiter__") is None:
        raise_what(_iterating(stand_in(kind)).send, None)
    iterator = py.call(tracer, method_of_protocol(tracer, value, "__aiter__", "async for"), [], {})
    found = tracer.type_of(iterator)
    if class_lookup(tracer, found, "__anext__") is None:
        raise_what(_iterating(answering(kind, "__aiter__", stand_in(found))).send, None)
    return iterator


def next_awaitable(tracer: Tracer, iterator: Any) -> Any:
    """What an `async for` awaits."""
    given = _anext(tracer, iterator)
    try:
        return awaited(tracer, given)
    except Raised as raised:
        kind = name_of(tracer.type_of(given))
        error = ExceptionObjectValue(TypeError, (f"'async for' received an invalid object from __anext__: {kind}",))
        error.cause = error.context = raised.value
        error.suppress_context = True
        raise Raised(error) from None


@primitive(anext)
def _anext(tracer: Tracer, iterator: Any, /) -> Any:
    kind = tracer.type_of(iterator)
    if class_lookup(tracer, kind, "__anext__") is None:
        raise_what(anext, stand_in(kind))
    return py.call(tracer, method_of_protocol(tracer, iterator, "__anext__", "async for"), [], {})


@primitive(aiter)
def _aiter(tracer: Tracer, iterable: Any, /) -> Any:
    kind = tracer.type_of(iterable)
    if class_lookup(tracer, kind, "__aiter__") is None:
        raise_what(aiter, stand_in(kind))
    iterator = py.call(tracer, method_of_protocol(tracer, iterable, "__aiter__", "async for"), [], {})
    found = tracer.type_of(iterator)
    if class_lookup(tracer, found, "__anext__") is None:
        raise_what(aiter, answering(kind, "__aiter__", stand_in(found)))
    return iterator
