"""Generators that are alive at a graph break, or outlive the frame: they go on in Python where they stopped."""

from __future__ import annotations

import contextlib
import inspect
import sys
import types

import framelift
from tests.helpers.record import Record
from tests.helpers.untraced import print
from tests.values.programs import Programs, x

programs = Programs()
broken = {"expect_breaks": None, "expect_ops": 1}


def scaled(x, n):
    for i in range(n):
        y = x + i
        yield y.sin()


def logging(log, n):
    try:
        for i in range(n):
            log.append(i)
            yield i
    finally:
        log.append("end")


def count_up(log):
    return logging(log, 5)


@programs(**broken)
def break_in_the_loop(x):
    out = []
    for v in scaled(x, 3):
        print("a break")
        out.append(v * 2)
    return out


@programs(**broken)
def break_in_the_first_round_only(x):
    out = []
    for i, v in enumerate(scaled(x, 4)):
        if i == 0:
            print("a break")
        out.append(v * 2)
    return out


@programs(**broken)
def zipped(x):
    out = []
    for a, b in zip(scaled(x, 3), scaled(x.cos(), 4)):
        print("a break")
        out.append(a * b)
    return out


@programs(**broken)
def interleaved(x):
    one, two = scaled(x, 3), scaled(x + 5, 3)
    a, b = next(one), next(two)
    print("a break")
    return a * next(two), b + next(one), list(one), list(two)


@programs(**broken)
def expression(x):
    squares = (x * i for i in range(4) if i != 2)
    first = next(squares)
    print("a break")
    return first + 1, list(squares)


@programs(**broken)
def nested_expression(x):
    pairs = (x * i + j for i in range(3) for j in range(i))
    first = next(pairs) + 1
    print("a break")
    return first, list(pairs)


@programs(**broken)
def sending(x):
    def accumulate():
        total = x
        while True:
            got = yield total
            if got is None:
                return "done"
            total = total + got

    g = accumulate()
    first = next(g) + g.send(2)
    print("a break")
    second = g.send(first)
    try:
        g.send(None)
    except StopIteration as stop:
        return second, stop.value, list(g)


@programs(**broken)
def throwing(x):
    log = []

    def catches():
        while True:
            try:
                yield x + 1
            except KeyError as error:
                log.append(error.args)

    g = catches()
    first = next(g)
    print("a break")
    second = g.throw(KeyError("k"))
    try:
        g.throw(ValueError("v"))
    except ValueError as error:
        log.append(str(error))
    return first, second, log, list(g)


@programs(**broken)
def closing(x):
    log = []
    g = logging(log, 3)
    y = x + next(g)
    print("a break")
    log.append("before")
    g.close()
    return y, log, list(g)


@programs(**broken)
def dropped_after_the_break(x):
    log = []
    g = logging(log, 3)
    y = x + next(g)
    print("a break")
    log.append("before")
    del g
    log.append("after")
    return y, log


@programs(**broken)
def lives_as_long_as_the_frame(x):
    log = []

    def inner():
        g = logging(log, 3)
        y = x + next(g)
        print("a break")
        log.append("before")
        return y * 2

    y = inner()
    log.append("after")
    return y, log


@programs(**broken)
def left_by_break(x):
    log = []
    for i in logging(log, 5):
        print("a break")
        x = x + i
        if i == 2:
            break
    log.append("after")
    return x, log


@programs(**broken)
def left_by_return(x):
    log = []

    def inner(x):
        for i in logging(log, 5):
            print("a break")
            if i == 1:
                return x + i

    y = inner(x)
    log.append("after")
    return y, log


@programs(**broken)
def left_by_an_exception(x):
    log = []
    try:
        for i in logging(log, 5):
            print("a break")
            x = x + i
            if i == 1:
                raise ValueError
    except ValueError:
        log.append("handled")
    return x, log


@programs(**broken)
def replaced(x):
    log = []
    g = logging(log, 3)
    y = x + next(g)
    print("a break")
    h = g
    g = None
    log.append("one is left")
    h = 1
    log.append("none is left")
    return y + h, log


@programs(args=(x(), [1, 2, 3]), changed=[(x(), count_up)], **broken)
def over_what_it_is_given(x, given):
    log = []
    for i in given(log) if callable(given) else given:
        print("a break")
        if i == 2:
            break
    log.append("after")
    return x + i, log


@programs(**broken)
def yield_in_with(x):
    log = []

    class Manager:
        def __enter__(self):
            log.append("enter")
            return self

        def __exit__(self, *what):
            log.append(what[0])
            return True

    def inside():
        with Manager() as manager:
            yield x + 1
            yield manager is not None
        yield "out"

    g = inside()
    y = next(g) * 2
    print("a break")
    return y, g.throw(KeyError), log, list(g)


@programs(**broken)
def yield_from(x):
    def inner():
        got = yield x + 1
        yield x * got
        return got

    def outer():
        n = yield from inner()
        yield from scaled(x, n)
        yield from [1, 2]

    g = outer()
    first = next(g) * 2
    print("a break")
    return first, g.send(2), list(g)


@programs(**broken)
def thrown_through_yield_from(x):
    log = []

    def outer():
        try:
            yield from logging(log, 3)
        except KeyError:
            yield "caught"

    g = outer()
    y = x + next(g)
    print("a break")
    return y, g.throw(KeyError), log


@programs(**broken)
def yield_from_list(x):
    def outer():
        yield from [x, x + 1, x + 2]

    out = []
    for y in outer():
        print("a break")
        out.append(y * 2)
    return out


@programs(**broken)
def shared_cells(x):
    total = 0

    def adds():
        nonlocal total
        for i in range(3):
            total += i
            yield x + total

    g = adds()
    next(g)
    first = next(g) * 2
    print(total)
    total += 10
    second = next(g)
    return first, second, total


@programs(**broken)
def cells_of_its_own(x):
    def gen(n):
        def add():
            nonlocal n
            n += 1
            return n

        yield add
        while n < 5:
            yield x + add()

    g = gen(1)
    add = next(g)
    y = next(g) + add()
    print("a break")
    return y, add(), list(g), add()


@programs(**broken)
def in_a_list(x):
    made = [scaled(x, 2), scaled(x + 1, 2)]
    first = next(made[1]) + 1
    print("a break")
    return first, [list(g) for g in made]


class Holder:
    pass


@programs(**broken)
def in_an_attribute(x):
    holder = Holder()
    holder.items = scaled(x, 3)
    first = next(holder.items) + 1
    print("a break")
    return first, list(holder.items)


@programs(**broken)
def in_a_closure(x):
    g = scaled(x, 3)

    def more():
        return next(g)

    y = more() + 1
    print("a break")
    return y, more(), more()


@programs(**broken)
def not_started(x):
    def gen(a, /, b, *rest, c=3, **named):
        yield x + a, b, rest, c, named

    made = [gen(1, 2), gen(1, 2, 3, 4), gen(1, b=2, c=5), gen(1, 2, a=7, d=x)]
    y = x + 1
    print("a break")
    return y, [next(g) for g in made], [next(g, "end") for g in made]


@programs(**broken)
def not_started_method(x):
    class Source:
        def __init__(self, n):
            self.n = n

        def items(self, *, step=1):
            for i in range(0, self.n, step):
                yield x + i

    g = Source(4).items(step=2)
    y = x + 1
    print("a break")
    return y, list(g)


@programs(**broken)
def uses_super(x):
    class Base:
        def items(self):
            yield x + 1
            yield x + 2

    class Derived(Base):
        def items(self):
            yield x
            yield from super().items()
            yield from super().items()

    g = Derived().items()
    y = next(g) * 2
    print("a break")
    return y, list(g)


@programs(**broken)
def finished(x):
    def gen(a, *rest, **named):
        yield x + a
        return "end"

    g = gen(1, 2, c=3)
    y = list(g)[0] + 1
    print("a break")
    return y, list(g), g.gi_frame, g.__name__


@programs(**broken)
def finished_by_an_error(x):
    def gen():
        yield x + 1
        raise ValueError("in it")

    g = gen()
    y = next(g)
    try:
        next(g)
    except ValueError:
        pass
    print("a break")
    return y * 2, list(g)


@programs(**broken)
def in_its_own_list(x):
    def gen(items):
        yield x + 1
        yield len(items), items[0] is items[-1]

    items = []
    items.append(gen(items))
    items.append(items[0])
    y = next(items[0]) + 1
    print("a break")
    return y, list(items[0])


@programs(**broken)
def not_started_in_its_own_list(x):
    def gen(items):
        yield x + 1
        yield len(items), items[0] is items[-1]

    items = []
    items.append(gen(items))
    items.append(items[0])
    y = x + 1
    print("a break")
    return y, list(items[0])


@programs(**broken)
def in_a_tuple_of_its_own(x):
    def gen():
        me = yield x + 1
        me = yield x + 2
        yield me[0] is g, me[1]

    g = gen()
    y = next(g) + g.send(None)
    h = gen()
    y = y + next(h)
    h.send((h, 1))
    print("a break")
    return y, g.send((g, 5))


@programs(**broken)
def in_its_own_closure(x):
    def gen():
        yield x + 1
        yield g.gi_running

    g = gen()
    y = next(g)
    print("a break")
    return y + 1, list(g)


@programs(**broken)
def in_a_call(x):
    def gen():
        yield max((yield x + 1), (yield x + 2), key=lambda t: t.sum().item())

    g = gen()
    y = next(g)
    g.send(y)
    print("a break")
    return g.send(x)


@programs(**broken)
def many_variables(x):
    def gen():
        a, b, c, d, e, f = (x + i for i in range(6))
        while True:
            yield a + f
            a, b, c, d, e, f = b, c, d, e, f, a
            yield b

    g = gen()
    y = next(g)
    print("a break")
    return y * 2, [next(g) for _ in range(4)]


@programs(**broken)
def unbound_variables(x):
    def gen(n):
        if n:
            late = x + 1
        yield x
        try:
            yield late
        except UnboundLocalError as error:
            yield str(error)

    one, other = gen(0), gen(1)
    y = next(one) + next(other)
    print("a break")
    return y, next(one), next(other)


@programs(**broken)
def its_variables(x):
    def gen(a):
        b = x + a
        yield b
        yield sorted(locals())

    g = gen(1)
    y = next(g) * 2
    print("a break")
    return y, next(g)


@programs(**broken)
def error_in_it(x):
    def gen():
        yield x + 1
        raise ValueError("in it")

    for y in gen():
        print("a break")
        y = y + 1


@programs(**broken)
def stop_iteration_in_it(x):
    def gen():
        yield x + 1
        raise StopIteration

    g = gen()
    y = next(g)
    print("a break")
    try:
        next(g)
    except RuntimeError as error:
        return y + 1, str(error), type(error.__cause__)


@programs(**broken)
def handling_at_its_yield(x):
    def gen():
        try:
            raise KeyError("k")
        except KeyError:
            yield x + 1
            yield repr(sys.exc_info()[1])

    y = x.cos()
    g = gen()
    y = y + next(g)
    print("a break")
    return y * 2, list(g), sys.exc_info()[1]


@programs(**broken)
def context_manager(x):
    log = []

    @contextlib.contextmanager
    def scope(name):
        log.append(name)
        try:
            yield x + 1
        finally:
            log.append(f"end of {name}")

    with scope("a") as y, scope("b"):
        y = y * 2
        print("a break")
        y = y.sin()
    return y, log


@programs(**broken)
def context_manager_with_an_error(x):
    log = []

    @contextlib.contextmanager
    def scope():
        try:
            yield
        except ValueError as error:
            log.append(str(error))

    with scope():
        x = x + 1
        print("a break")
        x = x.sin()
        raise ValueError("inside")
    return x * 2, log


@programs(**broken)
def over_a_dict(x):
    table = {"a": x, "b": x + 1, "c": x + 2}

    def gen():
        for key, value in table.items():
            yield key, value * 2

    out = []
    for key, value in gen():
        print(key)
        out.append(value + 1)
    return out


@programs(**broken)
def names_and_places(x):
    def gen():
        yield x + 1
        yield x + 2

    def outer():
        yield from gen()

    gen.__name__, gen.__qualname__ = "other", "quite.other"
    g, started, delegating = gen(), gen(), outer()
    y = next(started) + next(delegating)
    print("a break")
    lines = [made.gi_frame.f_lineno - gen.__code__.co_firstlineno for made in (g, started)]
    states = [inspect.getgeneratorstate(made) for made in (g, started, delegating)]
    within = delegating.gi_yieldfrom.__name__
    return y, g.__name__, started.__name__, started.__qualname__, lines, states, within, started.gi_code.co_name


@programs(expect_breaks=0, expect_ops=1)
def used_up_in_the_end(x):
    g = scaled(x, 3)
    return [next(g) + 1, *g]


test_programs = programs.test()


def graphs(function, *args):
    record = Record()
    with record.listening():
        framelift.compile(function, backend="eager")(*args)
    return record


def test_both_sides_of_the_break_are_captured() -> None:
    record = graphs(break_in_the_loop, x())
    assert [len(graph.graph.find_nodes(op="call_method", target="sin")) for graph in record.graphs] == [1, 0]
    assert record.ops == 3


def test_within_a_context_manager_nothing_is_lost() -> None:
    record = graphs(context_manager, x())
    assert record.ops == 3, "x + 1, y * 2; y.sin()"


def test_a_long_loop_takes_few_captures() -> None:
    def fn(x, n):
        total = x
        for v in scaled(x, n):
            framelift.graph_break()
            total = total + v * 2
        return total

    lifted = framelift.compile(fn, backend="eager")
    record = Record()
    with record.listening():
        assert lifted(x(), 1000).equal(fn(x(), 1000))
    assert record.captures < 8
    assert record.ops >= 4
    captures = record.captures
    with record.listening():
        assert lifted(x(), 1000).equal(fn(x(), 1000))
    assert record.captures == captures


def test_generators_are_returned() -> None:
    def fn(x):
        y = x + 1
        started = scaled(y, 3)
        next(started)
        return scaled(y, 3), started, (y * i for i in range(2))

    lifted = framelift.compile(fn, backend="eager", fullgraph=True)
    record = Record()
    for _ in range(2):
        with record.listening():
            made = lifted(x())
        assert [type(g) for g in made] == [types.GeneratorType] * 3
        assert made[0].gi_code is scaled.__code__
        assert [g.__qualname__ for g in made] == [g.__qualname__ for g in fn(x())]
        assert [[t.tolist() for t in g] for g in made] == [[t.tolist() for t in g] for g in fn(x())]
    assert record.captures == 1 and record.ops >= 1


def test_gradients_flow_through_a_returned_generator() -> None:
    def fn(x):
        y = x * 2
        g = scaled(y, 3)
        return next(g), g

    def gradient(function):
        given = x().requires_grad_()
        first, rest = function(given)
        (first.sum() + sum(t.sum() for t in rest)).backward()
        return given.grad

    assert gradient(framelift.compile(fn, backend="eager")).equal(gradient(fn))


def test_a_generator_sees_what_is_done_to_its_inputs_later() -> None:
    def fn(x, log):
        def gen():
            while True:
                log.append(len(log))
                yield x + len(log)

        g = gen()
        next(g)
        return g

    for function in (fn, framelift.compile(fn, backend="eager")):
        log: list[int] = []
        given = x()
        g = function(given, log)
        assert log == [0]
        given.add_(1)
        log.append(-1)
        assert next(g).equal(x() + 4)
        assert log == [0, -1, 2]


def test_every_call_makes_generators_of_its_own() -> None:
    def fn(x):
        g = scaled(x, 3)
        next(g)
        return g

    lifted = framelift.compile(fn, backend="eager")
    one, other = lifted(x()), lifted(x() + 1)
    assert next(one).equal((x() + 1).sin())
    assert next(other).equal((x() + 2).sin())
    assert len(list(one)) == len(list(other)) == 1


def test_what_a_generator_depends_on_is_guarded() -> None:
    def fn(x, n, make):
        g = make(x, n)
        y = next(g)
        return y, g

    def other(x, n):
        yield x
        yield n

    lifted = framelift.compile(fn, backend="eager", dynamic=False)
    for n, make in ((2, scaled), (3, scaled), (2, other), (2, scaled)):
        (one, rest), (same, expected) = lifted(x(), n, make), fn(x(), n, make)
        assert one.equal(same)
        assert rest.__name__ == expected.__name__
        assert len(list(rest)) == len(list(expected))
