"""Calls with the wrong number or names of arguments: what C functions say of them, each in its own words."""

from __future__ import annotations

import collections
import functools
import itertools
import operator

import pytest
import torch

import framelift
from tests.helpers import check
from tests.values.programs import x

CALLS = {
    "operators": [operator.add, operator.is_, operator.neg, operator.setitem, operator.truth],
    "builtins": [len, range, slice, map, filter, sum, max, isinstance, getattr, enumerate, reversed, abs],
    "iterators": [itertools.cycle, itertools.repeat, itertools.islice, itertools.combinations, itertools.takewhile],
    "library": [functools.reduce, functools.cmp_to_key, functools.partial],
}


def _words(function, *args, **kwargs):
    try:
        function(*args, **kwargs)
    except (TypeError, LookupError) as error:
        return str(error)


@pytest.mark.parametrize("functions", CALLS.values(), ids=CALLS)
@pytest.mark.parametrize("count", [0, 9])
def test_wrong_number_for_functions(functions, count):
    def f(x):
        return x + 1, [_words(function, *[None] * count) for function in functions]

    check(f, x())


METHODS = {
    list: ["append", "insert", "index", "sort", "__setitem__", "__len__", "__contains__"],
    dict: ["get", "items", "keys", "setdefault", "update", "__getitem__", "__contains__"],
    set: ["add", "clear", "__contains__"],
    collections.deque: ["append", "rotate", "count"],
    collections.OrderedDict: ["items", "setdefault", "move_to_end"],
}


@pytest.mark.parametrize("kind", METHODS)
@pytest.mark.parametrize("count", [0, 9])
def test_wrong_number_for_methods(kind, count):
    names = [name for name in METHODS[kind] if _words(getattr(kind(), name), *[None] * count)]

    def f(x):
        return x + 1, [_words(getattr(kind(), name), *[None] * count) for name in names]

    check(f, x())


@pytest.mark.parametrize("kind", METHODS)
def test_methods_of_a_class(kind):
    names = [name for name in METHODS[kind] if _words(getattr(kind, name), kind(), *[None] * 9)]

    def f(x):
        return x + 1, [_words(getattr(kind, name), kind(), *[None] * 9) for name in names]

    check(f, x())


def test_names_that_are_not_known():
    def f(x):
        said = [_words(list, sequence=[]), _words(float, x=1), _words(int, x=1), _words([].sort, wrong=1)]
        return x + 1, said, _words({}.get, key=1), _words(operator.add, a=1, b=2)

    check(f, x())


def test_classes_with_an_init_of_their_own_may_take_names():
    class Named:
        def __init__(self, items, note=None):
            self.note = note

    kinds = [type("Named", (Named, base), {}) for base in (tuple, frozenset, float)]

    def f(x):
        return x + 1, [kind("12", note=3).note for kind in kinds]

    assert framelift.compile(f, backend="eager")(torch.ones(1))[1] == [3, 3, 3]


def test_what_is_valid_but_not_modelled_is_run_by_python():
    def f(x):
        return x + 1, compile("1", "f", "eval", 0, True, 2).co_filename

    assert framelift.compile(f, backend="eager")(torch.ones(1))[1] == "f"


def test_the_receiver_is_guarded():
    def f(x, items):
        return x + 1, _words(items.pop, 1, 2, 3)

    lifted = framelift.compile(f, backend="eager", fullgraph=True)
    assert lifted(x(), [])[1] == _words([].pop, 1, 2, 3)
    assert lifted(x(), {})[1] == _words({}.pop, 1, 2, 3)
