"""What make_suspended promises: generators made at every `yield` of a run go on as the original does."""

from __future__ import annotations

import inspect
import types

import pytest

from framelift.bytecode.decode import decode
from framelift.bytecode.stack_shapes import VALUE
from framelift.bytecode.verify import verify_bytecode
from framelift.residual.resume import CannotResume
from framelift.residual.suspended import make_suspended


def yields(function: types.FunctionType) -> list[int]:
    return [i.offset for i in decode(function.__code__) if i.opname == "YIELD_VALUE"]


def suspended(function, number, slots, stack):
    """The generator of `function` at one of its yields, with these variables and this stack."""
    tags = [VALUE] * (len(stack) + 1)
    made = make_suspended(function.__code__, yields(function)[number], sorted(slots), tags)
    verify_bytecode(decode(made.code))
    arguments: list[object] = []
    generator = types.FunctionType(made.code, globals(), function.__name__, None, function.__closure__)(arguments)
    assert inspect.getgeneratorstate(generator) == "GEN_CREATED"
    items = [*stack, None]
    arguments += [slots[n] if kind == "slot" else items[n] for kind, n in made.argument_order]
    assert next(generator) is None
    return generator


def guarded(log, n):
    try:
        for i in range(n):
            got = yield i
            log.append(got)
    except KeyError:
        yield "caught"
    finally:
        log.append("end")


def at_second(log):
    rest = iter(range(3))
    next(rest)
    return suspended(guarded, 0, {0: log, 1: 3, 2: next(rest)}, [rest])


def test_it_goes_on():
    log: list[object] = []
    assert [*at_second(log)] == [2]
    assert log == [None, None, "end"]


def test_sending_throwing_closing():
    log: list[object] = []
    generator = at_second(log)
    assert generator.send("sent") == 2
    assert generator.throw(KeyError) == "caught"
    generator.close()
    assert log == ["sent", "end"]


def test_where_it_stands():
    original = guarded([], 3)
    next(original)
    generator = at_second([])
    assert generator.gi_frame.f_lineno == original.gi_frame.f_lineno
    assert inspect.getgeneratorstate(generator) == "GEN_SUSPENDED"
    assert generator.gi_frame.f_locals == {"log": [], "n": 3, "i": 1}


def test_delegation():
    def outer():
        got = yield from guarded(log, 2)
        yield got

    log: list[object] = []
    inner = guarded(log, 2)
    next(inner)
    generator = suspended(outer, 0, {}, [inner])
    assert generator.gi_yieldfrom is inner
    assert [*generator] == [1, None]
    assert log == [None, None, "end"]


def test_cells():
    def outer(n):
        def add():
            nonlocal n
            n += 1

        yield add
        yield n

    cell = types.CellType(5)
    generator = suspended(outer, 0, {0: cell}, [])
    cell.cell_contents = 7
    assert next(generator) == 7


def test_stop_iteration_is_a_mistake():
    def raises():
        yield
        raise StopIteration

    with pytest.raises(RuntimeError, match="generator raised StopIteration"):
        next(suspended(raises, 0, {}, []))


def handles():
    try:
        raise KeyError
    except KeyError:
        yield 1


async def asynchronous():
    yield 1


@pytest.mark.parametrize("function", [handles, asynchronous])
def test_what_cannot_be(function):
    with pytest.raises(CannotResume):
        make_suspended(function.__code__, yields(function)[0], [], [VALUE])
