"""Functions with a cache: a hit is traced, a miss runs, and what the cache holds is guarded."""

from __future__ import annotations

import functools
import inspect

import pytest

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
