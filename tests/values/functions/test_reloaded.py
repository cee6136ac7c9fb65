"""C functions of a second copy of a module."""

from __future__ import annotations

import sys

from tests.values.cases import Cases, vector


def copy_of(name):
    original = sys.modules.pop(name)
    try:
        __import__(name)
        return sys.modules[name]
    finally:
        sys.modules[name] = original


_heapq, _bisect, _operator, _functools = map(copy_of, ("_heapq", "_bisect", "_operator", "_functools"))
cases = Cases()
X = vector()


@cases(X)
def heap(x):
    heap = [3, 1, 2]
    _heapq.heapify(heap)
    return x + _heapq.heappop(heap), heap


@cases(X)
def bisect(x):
    return x + _bisect.bisect_left([1, 2, 4], 3)


@cases(X)
def operator(x):
    return _operator.add(x, 1), _operator.is_(x, x), _operator.concat([1], [2])


@cases(X)
def functools(x):
    descending = sorted([1, 3], key=_functools.cmp_to_key(lambda a, b: b - a))
    return x + _functools.reduce(lambda a, b: a * b, [1, 2, 3]), descending


test_programs = cases.test


def test_they_are_copies():
    assert _heapq.heapify is not sys.modules["_heapq"].heapify
