"""Iterators of the program's, as functions in C ask them: `__iter__` once, and for no item more than they need."""

from __future__ import annotations

import functools
import itertools
import math
import operator
import sys

import pytest

from tests.helpers import check
from tests.values.programs import Programs, x

programs = Programs()


class Anew:
    """The usual iterator, which begins anew where it is iterated over; it notes what it is asked."""

    def __init__(self, length):
        self.length = length
        self.position = length
        self.log = []

    def __iter__(self):
        self.log.append("iter")
        self.position = 0
        return self

    def __next__(self):
        self.log.append("next")
        if self.position == self.length:
            raise StopIteration
        self.position += 1
        return self.position


def _groups(items):
    return [(key, list(group)) for key, group in itertools.groupby(items, lambda item: item // 2)]


def _retold(items):
    first, second = itertools.tee(items)
    return list(first), list(second)


USES = {
    "reduce": lambda items: functools.reduce(operator.add, items),
    "reduce_from": lambda items: functools.reduce(operator.add, items, 5),
    "accumulate": lambda items: list(itertools.accumulate(items)),
    "islice": lambda items: list(itertools.islice(items, 1, 3)),
    "cycle": lambda items: list(itertools.islice(itertools.cycle(items), 7)),
    "takewhile": lambda items: list(itertools.takewhile(lambda item: item < 3, items)),
    "dropwhile": lambda items: list(itertools.dropwhile(lambda item: item < 3, items)),
    "dropwhile_all": lambda items: list(itertools.dropwhile(bool, items)),
    "filterfalse": lambda items: list(itertools.filterfalse(None, items)),
    "starmap": lambda items: list(itertools.starmap(max, zip(items, [5, 0]))),
    "compress": lambda items: list(itertools.compress(items, [1, 0, 1])),
    "pairwise": lambda items: list(itertools.pairwise(items)),
    "zip_longest": lambda items: list(itertools.zip_longest(items, "a")),
    "chain": lambda items: list(itertools.chain(items, items)),
    "product": lambda items: list(itertools.product(items, "ab")),
    "groupby": _groups,
    "tee": _retold,
    "batched": lambda items: list(itertools.batched(items, 3)) if sys.version_info >= (3, 12) else None,
    "countOf": lambda items: operator.countOf(items, 2),
    "indexOf": lambda items: operator.indexOf(items, 2),
    "fsum": math.fsum,
    "dist": lambda items: math.dist((1, 2, 3, 4), items),
    "isdisjoint": {2, 9}.isdisjoint,
    "isdisjoint_all": lambda items: {9}.isdisjoint(items),
    "isdisjoint_frozen": lambda items: frozenset([2]).isdisjoint(items),
    "isdisjoint_keys": lambda items: {2: 3}.keys().isdisjoint(items),
    "issuperset": lambda items: {1, 9}.issuperset(items),
    "issuperset_all": lambda items: {1, 2, 3, 4, 5}.issuperset(items),
    "intersection": lambda items: {1, 2}.intersection(items),
    "intersection_all": lambda items: {1, 9}.intersection(items),
    "intersection_of_nothing": lambda items: set().intersection(items),
    "intersection_frozen": lambda items: frozenset([1]).intersection(items),
    "union_frozen": lambda items: frozenset([1]).union(items),
    "unpacked": lambda items: (lambda first, *rest: (first, rest))(*items),
}


@pytest.mark.parametrize("use", USES)
def test_asked(use):
    use = USES[use]

    def fn(x, items):
        return x + 1, use(items)

    check(fn, x(), Anew(4))


@programs(inputs=lambda: (x(), iter([1, 2, 3, 4])))
def iterators_stay_where_sets_stopped(x, items):
    return x + 1, {2}.isdisjoint(items), next(items), {9}.issuperset(items), next(items, None)


@programs
def what_comes_after_the_answer_needs_no_hash(x):
    said = [{1}.isdisjoint([1, []]), {1}.issuperset([2, []])]
    for ask in ({1}.isdisjoint, {1}.issuperset):
        try:
            ask([1, 2, []] if ask({2}) is False else [3, []])
        except TypeError as error:
            said.append(str(error))
    return x + 1, said


@programs
def intersections_one_after_the_other(x):
    first, second = iter([1, 2, 3]), iter([2, 1])
    members = {1, 2}
    members.intersection_update(first, [2], second)
    return x + 1, members, list(first), list(second), {1, 2, 3}.intersection([3, 1], iter([1]))


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
