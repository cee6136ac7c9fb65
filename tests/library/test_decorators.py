"""What decorates functions and methods (`functools`), namespaces (`types`) and the environment, in one graph."""

from __future__ import annotations

import functools
import os
import types

import torch

import framelift
from tests.helpers import check
from tests.library.outcomes import outcomes
from tests.values.programs import Programs, x

programs = Programs()


def counted(step=1):
    def decorate(function):
        @functools.wraps(function, assigned=("__name__", "__doc__"), updated=("__dict__",))
        def wrapper(*args, **kwargs):
            wrapper.calls += step
            return function(*args, **kwargs)

        wrapper.calls = 0
        return wrapper

    return decorate


class Lazy:
    @functools.cached_property
    def doubled(self):
        """Twice the weight."""
        print("computed")
        return self.weight * 2


@functools.singledispatch
def show(value, *rest):
    return "object", type(value).__name__


@show.register(int)
@show.register(float)
def _number(value, *rest):
    return "number", value, rest


@show.register
def _sequence(value: list | tuple, *rest):
    return "sequence", [show(item) for item in value]


@show.register
def _tensor(value: torch.Tensor):
    return value * 2


class Shows:
    offset = 2

    @functools.singledispatchmethod
    def show(self, value):
        return "object"

    @show.register
    def _(self, value: int):
        return "number", self.offset

    @show.register
    def _(self, value: torch.Tensor):
        return value + self.offset


@functools.lru_cache(maxsize=4)
def table(size):
    return torch.ones(size)


table(3)


@programs(fullgraph=True)
def wrappers(x):
    @counted(2)
    def double(value):
        """Doubles."""
        return value * 2

    partly = functools.update_wrapper(functools.partial(double, x), double)
    found = double(x), double.calls, double.__name__, double.__doc__, double.__wrapped__.__name__
    return found, partly(), partly.__name__, partly.__wrapped__ is double, double.calls


@programs(args=(x(), Lazy()), fullgraph=True)
def cached_properties(x, given):
    given.weight = x
    made = Lazy()
    errors = outcomes(lambda: made.doubled)
    made.weight = 3
    first = made.doubled, "doubled" in vars(made)
    del made.doubled
    return given.doubled + given.doubled, errors, first, made.doubled, Lazy.doubled.__doc__, Lazy.doubled.attrname


@programs(args=(x(), Shows()), fullgraph=True)
def dispatching(x, given):
    shown = (
        show(x),
        show(1, 2),
        show(2.5),
        show(True),
        show([1, "a"]),
        show((x,)),
        show(None),
        show.dispatch(bool) is _number,
    )
    return shown, given.show(x), given.show(1), Shows().show("a"), outcomes(lambda: show(), lambda: show.register(3))


@programs(fullgraph=True)
def comparisons_as_keys(x):
    key = functools.cmp_to_key(lambda a, b: (a > b) - (a < b))
    ordered = (
        sorted([3, 1, 2], key=functools.cmp_to_key(lambda a, b: b - a)),
        max([1, 5], key=key),
        sorted("bca", key=key),
    )
    return x + 1, ordered, key(1) < key(2), key(1) == key(1), key(3).obj, outcomes(lambda: key(1) < 3)


@programs(fullgraph=True)
def namespaces(x):
    made = types.SimpleNamespace(a=1, b=x)
    made.c = 2
    del made.a
    view = types.MappingProxyType({"k": 1})
    bound = types.MethodType(lambda self, value: (self, value), 5)
    errors = outcomes(lambda: view.__setitem__("a", 1), lambda: made.a)
    kinds = isinstance(len, types.BuiltinFunctionType), isinstance(lambda: 1, types.LambdaType), types.NoneType
    return made.b + 1, vars(made), view["k"], dict(view), view | {"z": 1}, bound(2), bound.__self__, errors, kinds


test_programs = programs.test()


def test_a_hit_of_a_cache_is_traced_and_a_miss_runs():
    lifted = framelift.compile(lambda x: x[0] + table(3), backend="eager", fullgraph=True)
    before = table.cache_info()
    assert torch.equal(lifted(x()), x()[0] + 1)
    assert table.cache_info().hits == before.hits + 1
    table.cache_clear()
    check(lambda x: x + table(3).sum(), x(), expect_breaks=None)


def test_changes_of_the_environment_are_seen(monkeypatch):
    def fn(x):
        found = os.environ.get("LIBRARY_B", "none"), os.getenv("LIBRARY_B"), "LIBRARY_B" in os.environ
        return x * int(os.environ["LIBRARY_A"]), found, outcomes(lambda: os.environ["LIBRARY_C"])

    monkeypatch.setenv("LIBRARY_A", "3")
    lifted = framelift.compile(fn, backend="eager", fullgraph=True)
    for name, value in (("LIBRARY_A", "3"), ("LIBRARY_A", "4"), ("LIBRARY_B", "set"), ("LIBRARY_B", "again")):
        monkeypatch.setenv(name, value)
        assert repr(lifted(x())) == repr(fn(x()))
    monkeypatch.delenv("LIBRARY_B")
    assert repr(lifted(x())) == repr(fn(x()))
