"""`heapq`, `bisect`, `functools.cmp_to_key`: against the originals, and in programs."""

from __future__ import annotations

import bisect
import functools
import heapq
import itertools
import random

import pytest

import framelift
from framelift.models import ordering
from tests.values.programs import Programs

programs = Programs()


@pytest.mark.parametrize("seed", range(20))
def test_the_models_do_what_the_originals_do(seed):
    choose = random.Random(seed)
    items = [choose.randrange(10) for _ in range(choose.randrange(12))]
    for model, original in ((ordering.heapify, heapq.heapify), (ordering.heapify_max, heapq._heapify_max)):
        mine, theirs = list(items), list(items)
        model(mine)
        original(theirs)
        assert mine == theirs
    mine, theirs = sorted(items), sorted(items)
    for _ in range(20):
        name, item = choose.choice(("heappush", "heappop", "heapreplace", "heappushpop")), choose.randrange(10)
        args = () if name == "heappop" else (item,)
        outcomes = []
        for module, heap in ((ordering, mine), (heapq, theirs)):
            try:
                outcomes.append(getattr(module, name)(heap, *args))
            except IndexError as error:
                outcomes.append(str(error))
        assert outcomes[0] == outcomes[1] and mine == theirs
    mine = sorted(items)
    for name in ("bisect_left", "bisect_right"):
        for wanted in range(-1, 11):
            for bounds in ((), (0, len(mine) // 2), (0, -1), (0, None)):
                assert getattr(ordering, name)(mine, wanted, *bounds) == getattr(bisect, name)(mine, wanted, *bounds)


@programs()
def heaps(x):
    h = [3, 1, 2]
    heapq.heapify(h)
    heapq.heappush(h, 0)
    smallest = heapq.heappop(h)
    tied = [(1, "b"), (1, "a"), (0, "z")]
    heapq.heapify(tied)
    return x + smallest, heapq.nlargest(2, h), heapq.nsmallest(2, [3, 1, 2]), heapq.heappushpop(h, 9), h, tied


@programs()
def merged(x):
    return x + 1, list(heapq.merge([1, 3], [2], [])), list(heapq.merge([3, 1], [2], reverse=True))


@programs()
def empty_heap(x):
    try:
        heapq.heappop([])
    except IndexError as error:
        return x + 1, str(error)


@programs()
def bisection(x):
    items = [1, 3, 5]
    bisect.insort(items, 4)
    bisect.insort_left(items, 3, key=lambda v: v)
    return (
        x + bisect.bisect_left(items, 3),
        items,
        bisect.bisect([1, 2], 5, 0, 2),
        bisect.bisect_left(items, 4, key=int),
    )


@programs()
def comparison_functions(x):
    longest_first = functools.cmp_to_key(lambda a, b: len(b) - len(a))
    return x + 1, sorted(["a", "ccc", "bb"], key=longest_first), max(["a", "ccc"], key=longest_first)


@programs()
def keys_of_comparison_functions(x):
    make = functools.cmp_to_key(mycmp=lambda a, b: a - b)
    said = [type(make).__name__, type(make(1)) is type(make), make.obj, make(obj=3).obj]
    for wrong in (lambda: make(1) < 1, lambda: make < make, lambda: hash(make(1)), lambda: 1 == make(1)):
        try:
            wrong()
        except (TypeError, AttributeError) as error:
            said.append(str(error))
    return x + 1, said, make(1) < make(2), make(1) == make(2), make(2) >= make(2)


@programs(expect_breaks=None, expect_ops=0)
def keys_of_comparison_functions_behind_a_break(x):
    make = functools.cmp_to_key(lambda a, b: b - a)
    one = make(1)
    framelift.graph_break()
    return x + 1, sorted([1, 3, 2], key=make), one < make(0), type(one)


@programs()
def tees(x):
    a, b, c = itertools.tee(iter([1, 2, 3]), 3)
    first = next(a)
    return x + first, list(b), list(a), list(c), list(a)


@programs()
def next_methods(x):
    following = iter([1]).__next__
    found = [following()]
    try:
        following()
    except StopIteration:
        found.append("end")
    return x + 1, found, list(following.__self__)


test_programs = programs.test()
