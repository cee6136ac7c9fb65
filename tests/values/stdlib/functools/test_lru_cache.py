"""Functions with a cache: a hit is traced, a miss runs, and what the cache holds is guarded."""

from __future__ import annotations

import collections
import enum
import functools
import inspect
import typing

import pytest
import torch

import framelift
from tests.helpers import check
from tests.helpers.record import Record
from tests.values.programs import Programs, x

programs = Programs()
SETTING = {"factor": 2}


class Scale:
    """An object with a cached method."""

    def __init__(self, factor):
        self.factor = factor

    @functools.lru_cache(None)  # noqa: B019
    def times(self, number):
        return self.factor * number


SCALE = Scale(3)


def lifted(function):
    return framelift.compile(function, backend="eager")


@pytest.mark.parametrize("maxsize", [None, 128, 1])
def test_a_hit_is_the_cached_result(maxsize):
    @functools.lru_cache(maxsize)
    def factor():
        return SETTING["factor"]

    def f(t):
        return t * factor()

    SETTING["factor"] = 2
    factor()
    SETTING["factor"] = 5  # not seen: the cache says 2
    g = lifted(f)
    with Record().listening() as record:
        assert g(x()).equal(x() * 2)
    assert not record.breaks
    factor.cache_clear()
    assert g(x()).equal(x() * 5)
    assert g(x()).equal(x() * 5)
    SETTING["factor"] = 2


def test_a_cache_from_a_module_with_the_name_of_another():
    """What `typing` caches may be computed while capturing; not what only says that it is from there."""
    calls = []

    def factor(n):
        calls.append(n)
        return n + 1

    factor.__module__ = "typing"
    factor = functools.lru_cache(factor)
    record = Record()
    with record.listening():
        assert lifted(lambda t: t * factor(2))(x()).equal(x() * 3)
    assert calls == [2] and factor.cache_info().misses == 1
    assert len(record.breaks) == 1


def test_a_miss_runs_and_fills_the_cache():
    calls = []

    @functools.lru_cache
    def factor(n):
        calls.append(n)
        return n + 1

    def f(t, n):
        return t * factor(n)

    g = lifted(f)
    for n in (1, 2, 1, 2, 1):
        assert g(x(), n).equal(x() * (n + 1))
    assert calls == [1, 2]


def test_evicted_results_are_computed_anew():
    current = [1]

    @functools.lru_cache(2)
    def factor(n):
        return n * current[0]

    def f(t, n):
        return t * factor(n)

    g, reference = lifted(f), []
    for n in (1, 2, 1, 1, 3, 2, 1):
        reference.append(g(x(), n))
        current[0] += 1
    current[0] = 1
    factor.cache_clear()
    for n, seen in zip((1, 2, 1, 1, 3, 2, 1), reference, strict=True):
        assert f(x(), n).equal(seen)
        current[0] += 1


def test_cached_methods():
    def f(t, scale):
        return t * scale.times(2)

    SCALE.times(2)
    g = lifted(f)
    with Record().listening() as record:
        assert g(x(), SCALE).equal(x() * 6)
    assert not record.breaks
    assert g(x(), Scale(4)).equal(x() * 8)


def test_cached_tensors_and_lists():
    @functools.lru_cache
    def parts():
        return [x(), 2]

    def f(t):
        tensor, number = parts()
        return t + tensor * number, parts() is parts()

    parts()
    g = lifted(f)
    assert g(x())[0].equal(x() * 3)
    parts()[1] = 3
    assert g(x())[0].equal(x() * 4)


def test_hits_are_counted_and_keep_their_results():
    def make():
        @functools.lru_cache(2)
        def factor(n, scale=1):
            return n * scale

        def f(t, n):
            return t * factor(n) + factor(5, scale=2)

        return f, factor

    f, plain = make()
    h, cached = make()
    g = lifted(h)
    for n in (1, 1, 2, 1, 2, 2, 3, 1):
        assert g(x(), n).equal(f(x(), n))
        assert cached.cache_info() == plain.cache_info()


def test_keywords_and_many_arguments():
    @functools.lru_cache
    def weighted(scale, a, b, *, c=1, d=2):
        calls.append((a, b, c, d))
        return scale.factor + a * b + c * d

    def f(t):
        return t * weighted(SCALE, 1, 2, c=3) + weighted(SCALE, 1, b=2)

    calls = []
    expected = f(x())
    g = lifted(f)
    with Record().listening() as record:
        assert g(x()).equal(expected)
        assert g(x()).equal(expected)
    assert not record.breaks
    assert record.captures == 1
    assert len(calls) == 2
    weighted.cache_clear()
    assert g(x()).equal(expected)
    assert len(calls) == 4


@programs
def a_cache_made_in_the_program(x):
    calls = []

    @functools.lru_cache(maxsize=2)
    def double(n, *, up=0):
        calls.append(n)
        return n * 2 + up

    results = [double(n) for n in (1, 2, 1, 3, 2, 1.0, True)] + [double(1, up=3), double(1, up=3)]
    info = double.cache_info()
    double.cache_clear()
    return x + sum(results), calls, info, double.cache_info(), double.cache_parameters(), double.__name__


@programs
def a_recursive_function_with_a_cache(x):
    @functools.cache
    def fibonacci(n):
        return n if n < 2 else fibonacci(n - 1) + fibonacci(n - 2)

    return x + fibonacci(20), fibonacci.cache_info().misses, fibonacci.__wrapped__(1)


@programs
def caches_of_tensors_by_type_and_without_room(x):
    @functools.lru_cache(maxsize=None, typed=True)
    def typed(value):
        return type(value).__name__

    @functools.lru_cache(0)
    def never(tensor):
        return tensor * 2

    @functools.lru_cache
    def scaled(tensor, by=2):
        return tensor * by

    same = scaled(x) is scaled(x), scaled(x) is scaled(x, by=2), never(x) is never(x)
    try:
        scaled([x])
    except TypeError as error:
        wrong = str(error)
    return scaled(x), same, typed(1), typed(1.0), typed(True), typed.cache_info().currsize, wrong


@programs
def a_cached_method_of_a_class_made_here(x):
    class Layer:
        calls = 0

        @functools.cache  # noqa: B019
        def scale(self, n):
            Layer.calls += 1
            return n + 1

    layer = Layer()
    return x * layer.scale(2) * layer.scale(2), Layer.calls


@programs
def an_unused_cache_leaves_the_frame(x):
    @functools.lru_cache(maxsize=3)
    def double(n):
        return n * 2

    return x + 1, double.cache_info(), [double]


@programs(expect_breaks=None)
def a_used_cache_leaves_the_frame(x):
    @functools.lru_cache(maxsize=3)
    def double(n):
        return n * 2

    return x + double(3), [double], double(3), double.cache_info()


def forward(a, /, b, *args, c=1, **kwargs):
    """A function with every kind of parameter."""


class Model:
    """Its method is asked for its signature."""

    def chunk(self, a, b=2):
        return a + b


@programs
def signature_of_a_function(x):
    found = inspect.signature(forward)
    kinds = [(p.name, p.kind is p.VAR_KEYWORD, p.default is inspect.Parameter.empty) for p in found.parameters.values()]
    return (
        x + len(found.parameters),
        kinds,
        "c" in found.parameters,
        set(found.parameters),
        found.parameters["c"].default,
    )


@programs
def signature_of_a_method(x):
    return x + len(inspect.signature(Model().chunk).parameters), list(inspect.signature(Model.chunk).parameters)


@programs
def signature_of_a_local_function(x):
    def local(a, b=3):
        return a

    return x + inspect.signature(local).parameters["b"].default, inspect.signature(local)


test_programs = programs.test()


def test_signatures_are_guarded():
    def callee(a, b=1):
        return a

    def f(t):
        return t + len(inspect.signature(callee).parameters)

    check(f, x())
    g = lifted(f)
    assert g(x()).equal(x() + 2)
    callee.__code__ = (lambda a: a).__code__
    callee.__defaults__ = None
    assert g(x()).equal(x() + 1)


def test_type_expressions_of_classes_the_program_made():
    def fn(x):
        made = collections.namedtuple("made", ["a"])
        return x + 1, made | str == typing.Union[made, str]  # noqa: UP007

    check(fn, torch.ones(2), expect_breaks=None, expect_hit=False)


def test_type_expressions_of_members_the_program_made():
    def fn(x):
        class Level(enum.IntEnum):
            LOW = 0

        return x + 1, (typing.Literal[0] | typing.Literal[Level.LOW]).__args__ == (0,)  # noqa: UP007

    check(fn, torch.ones(2), expect_breaks=None, expect_hit=False)
