"""Coroutines and asynchronous generators, driven by hand inside the frame, and those that leave it."""

from __future__ import annotations

import contextlib
import inspect
import types
import warnings

import pytest
import torch

import framelift
from tests.helpers import check
from tests.values.programs import Programs, follow, x

programs = Programs()


class Ask:
    """Awaiting it gives what is sent for the question."""

    def __init__(self, question):
        self.question = question

    def __await__(self):
        answer = yield self.question
        return answer


def finish(coroutine):
    """Drive a coroutine that waits for nobody to its end."""
    try:
        coroutine.send(None)
    except StopIteration as stop:
        return stop.value
    except StopAsyncIteration:
        return "the end"
    raise AssertionError("it waits")


async def doubled(t):
    return t * 2


@programs
def awaits_others(x):
    async def main():
        first = await doubled(x)
        return first + await doubled(first)

    return finish(main())


@programs
def asks_and_is_answered(x):
    async def inner(question):
        return (await Ask(question)) * 2

    async def outer():
        return await inner(x) + await inner(x + 1)

    coroutine = outer()
    asked = [coroutine.send(None), coroutine.send(3)]
    try:
        coroutine.send(4)
    except StopIteration as stop:
        return asked, stop.value


@programs
def thrown_at(x):
    async def main():
        try:
            await Ask(1)
        except ValueError as error:
            return x + 1, str(error)
        finally:
            x.add_(1)

    coroutine = main()
    coroutine.send(None)
    try:
        coroutine.throw(ValueError("late"))
    except StopIteration as stop:
        return stop.value


@programs
def thrown_through_two(x):
    log = []

    async def inner():
        try:
            await Ask(1)
        except KeyError:
            log.append("inner")
            return await Ask(2)

    async def outer():
        return await inner()

    coroutine = outer()
    log.append(coroutine.send(None))
    log.append(coroutine.throw(KeyError("k")))
    try:
        coroutine.send("sent")
    except StopIteration as stop:
        return x + 1, log, stop.value


@programs
def closed(x):
    log = []

    async def main():
        try:
            await Ask(1)
        finally:
            log.append("closed")

    coroutine = main()
    coroutine.send(None)
    coroutine.close()
    coroutine.close()
    for again in (lambda: coroutine.send(None), lambda: coroutine.throw(ValueError)):
        try:
            again()
        except RuntimeError as error:
            log.append(str(error))
    return x + 1, log


@programs
def misused(x):
    async def main(kind):
        if kind == "await":
            await 3
        elif kind == "with":
            async with x:
                pass
        elif kind == "for":
            async for _ in [1]:
                pass
        elif kind == "stop":
            raise StopIteration(1)
        elif kind == "from __aenter__":
            async with Plain():
                pass

    class Plain:
        def __aenter__(self):
            return 5

        def __aexit__(self, *_):
            return 6

    log = []
    for kind in ("await", "with", "for", "stop", "from __aenter__"):
        try:
            finish(main(kind))
        except (TypeError, RuntimeError) as error:
            log.append((str(error), repr(error.__cause__), error.__suppress_context__))
    coroutine = main("")
    for misuse in (iter, next, list, lambda it: 1 in it, lambda it: it.send(1)):
        try:
            misuse(coroutine)
        except TypeError as error:
            log.append(str(error))
    coroutine.close()
    return x + 1, log


@programs
def awaited_twice(x):
    async def waits():
        await Ask(1)

    async def other(coroutine):
        await coroutine

    coroutine = waits()
    first, second = other(coroutine), other(coroutine)
    first.send(None)
    try:
        second.send(None)
    except RuntimeError as error:
        words = str(error)
    first.close()
    return x + 1, words


@programs
def managers(x):
    log = []

    class Manager:
        async def __aenter__(self):
            log.append("in")
            return x * 2

        async def __aexit__(self, kind, error, trace):
            log.append((kind.__name__, str(error)))
            return True

    @contextlib.asynccontextmanager
    async def scoped(name):
        log.append(name)
        try:
            yield x + 1
        except KeyError as error:
            log.append(repr(error))
        finally:
            log.append("left")

    async def main():
        async with Manager() as t, scoped("a") as u:
            result = t + u
            raise ValueError("inside")
        async with scoped("b"):
            raise KeyError("k")
        return result

    return finish(main()), log


@programs
def loops(x):
    async def count(n):
        for i in range(n):
            yield x + i

    class Countdown:
        def __init__(self, n):
            self.n = n

        def __aiter__(self):
            return self

        async def __anext__(self):
            if not self.n:
                raise StopAsyncIteration
            self.n -= 1
            return self.n

    async def main():
        total = x * 0
        async for t in count(3):
            total = total + t
        else:
            total = total * 2
        numbers = [n async for n in Countdown(4) if n != 2]
        pairs = {n: await doubled(n) async for n in Countdown(2)}
        first = await anext(aiter(count(1)))
        return total, numbers, pairs, first

    return finish(main())


@programs
def asynchronous_generators_by_hand(x):
    log = []

    async def steps():
        try:
            sent = yield x
            log.append(sent)
            while True:
                try:
                    sent = yield sent * 2
                except KeyError as error:
                    sent = x
                    log.append(str(error))
        finally:
            log.append("closed")

    generator = steps()
    found = [finish(generator.__anext__()), finish(generator.asend(x + 1)), finish(generator.athrow(KeyError("k")))]
    finish(generator.aclose())
    log.append(finish(generator.__anext__()))
    used = generator.asend(None)
    log.append(finish(used))
    try:
        used.send(None)
    except RuntimeError as error:
        log.append(str(error))
    return found, log


@programs
def asynchronous_generators_that_fail(x):
    log = []

    async def stubborn():
        try:
            yield 1
        except GeneratorExit:
            yield 2

    async def stops(kind):
        yield 1
        raise kind("s")

    generator = stubborn()
    finish(generator.__anext__())
    try:
        finish(generator.aclose())
    except RuntimeError as error:
        log.append(str(error))
    for kind in (StopIteration, StopAsyncIteration, ValueError):
        generator = stops(kind)
        finish(generator.__anext__())
        try:
            finish(generator.__anext__())
        except (RuntimeError, ValueError) as error:
            log.append((str(error), repr(error.__cause__)))
    return x + 1, log


@types.coroutine
def pause(t):
    sent = yield t
    return t * sent


@programs
def generators_that_may_be_awaited(x):
    async def main():
        return await pause(x)

    coroutine = main()
    asked = coroutine.send(None)
    try:
        coroutine.send(3)
    except StopIteration as stop:
        return asked, stop.value


@programs
def states(x):
    async def main():
        await Ask(1)

    def plain():
        yield from [1, 2]

    coroutine, generator = main(), plain()
    log = [inspect.getcoroutinestate(coroutine), inspect.getgeneratorstate(generator)]
    coroutine.send(None)
    next(generator)
    log += [inspect.getcoroutinestate(coroutine), inspect.getgeneratorstate(generator)]
    log += [coroutine.cr_await is None, generator.gi_yieldfrom is None, generator.gi_running]
    coroutine.close()
    generator.close()
    log += [inspect.getcoroutinestate(coroutine), inspect.getgeneratorstate(generator)]
    return x + 1, log, coroutine.cr_frame, generator.gi_yieldfrom


@programs
def iterators_of_coroutines(x):
    async def main():
        return x + await Ask("q")

    class Wraps:
        def __await__(self):
            return main().__await__()

    async def outer():
        return await Wraps()

    coroutine = outer()
    asked = coroutine.send(None)
    try:
        coroutine.send(5)
    except StopIteration as stop:
        return asked, stop.value


class Clerk:
    """An iterator with a `send` of its own, which ends by saying what it was sent."""

    def __iter__(self):
        return self

    def __next__(self):
        return "asked"

    def send(self, value):
        raise StopIteration(value)

    __await__ = __iter__


@programs
def delegates_to_iterators_of_the_program(x):
    async def main():
        return await Clerk()

    def plain():
        result = yield from Clerk()
        yield result

    def wrong():
        yield from doubled_once

    coroutine, generator, doubled_once = main(), plain(), doubled(x)
    found = [coroutine.send(None), next(generator), generator.send(x + 1)]
    try:
        coroutine.send(5)
    except StopIteration as stop:
        found.append(stop.value)
    try:
        list(wrong())
    except TypeError as error:
        found.append(str(error))
    doubled_once.close()
    return found, generator.gi_code.co_name


@programs
def awaitables_of_a_loop_that_fail(x):
    class Fails:
        def __init__(self, given):
            self.given = given

        def __aiter__(self):
            return self

        def __anext__(self):
            return self.given

        def __await__(self):
            return 1 / 0

    async def main(given):
        async for _ in Fails(given):
            pass

    log = []
    for given in (1, Fails(1)):
        try:
            finish(main(given))
        except TypeError as error:
            log.append((str(error), repr(error.__cause__), error.__suppress_context__))
    return x + 1, log


@programs(expect_breaks=None)
def breaks_inside(x):
    x = x + 1

    async def main():
        y = await doubled(x)
        framelift.graph_break()
        return y + await doubled(y)

    return finish(main())


test_programs = programs.test()


def test_one_that_never_began_is_warned_of():
    def fn(x):
        doubled(x)
        return x + 1

    check(fn, x(), expect_breaks=None)


def test_one_that_leaves_the_frame_before_it_began():
    def fn(x):
        return doubled(x + 1)

    found = framelift.compile(fn, backend="eager", fullgraph=True)(torch.ones(2))
    assert finish(found).tolist() == [4.0, 4.0]


@pytest.mark.parametrize("steps", [0, 1, 2])
def test_one_that_leaves_the_frame_half_way(steps):
    def fn(x, steps):
        async def inner():
            first = await Ask("first")
            second = await Ask("second")
            return x * first + second

        async def outer():
            return (await inner()) + 1

        coroutine = outer()
        for sent in (None, 2)[:steps]:
            coroutine.send(sent)
        return x + 1, coroutine

    _, coroutine = framelift.compile(fn, backend="eager", fullgraph=True)(torch.ones(2), steps)
    assert type(coroutine) is types.CoroutineType
    answers = [None, 2, 3]
    asked = [coroutine.send(answer) for answer in answers[steps:2]]
    assert asked == ["first", "second"][steps:]
    with pytest.raises(StopIteration) as stop:
        coroutine.send(3)
    assert stop.value.value.tolist() == [6.0, 6.0]
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        coroutine.close()


def test_functions_that_become_asynchronous_are_seen():
    class Settings:
        pass

    def plain(t):
        return t + 1

    async def asynchronous(t):
        return t + 2

    settings = Settings()
    settings.function = plain

    def fn(x):
        made = settings.function(x)
        return made if isinstance(made, torch.Tensor) else finish(made)

    def change():
        settings.function = asynchronous

    follow(fn, (x(),), change)
