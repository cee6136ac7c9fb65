"""Who makes a list or a tuple of something first asks how long it will be: methods of the program's hear it."""

from __future__ import annotations

import collections
import math
import operator

import pytest

import framelift
from tests.helpers import check
from tests.values.programs import Programs, x

programs = Programs()


class Sequence:
    """Has items and a length, and notes what it is asked for."""

    def __init__(self, length):
        self.length = length
        self.log = []

    def __len__(self):
        self.log.append("len")
        return self.length

    def __getitem__(self, index):
        self.log.append(index)
        if not 0 <= index < self.length:
            raise IndexError(index)
        return index * 10


class Iterable(Sequence):
    def __iter__(self):
        self.log.append("iter")
        return (index for index in range(self.length))


class Hinting:
    """An iterator that says how many are left."""

    def __init__(self, length):
        self.left = length
        self.log = []

    def __iter__(self):
        self.log.append("iter")
        return self

    def __next__(self):
        if self.left == 0:
            raise StopIteration
        self.left -= 1
        return self.left

    def __length_hint__(self):
        self.log.append("hint")
        return self.left


def _assign_a_slice(items):
    result = [1, 2]
    result[:1] = items
    return result


def _take_the_rest(items):
    first, *rest = items
    return first, rest


def _take_too_many(items):
    try:
        a, b, c, d, *rest = items
    except ValueError as error:
        return str(error)
    return a, b, c, d, rest


def _extend(items):
    result = [1]
    result.extend(items)
    result += items
    return result


USES = {
    "list": list,
    "tuple": tuple,
    "set": set,
    "deque": collections.deque,
    "star": lambda items: [*items],
    "arguments": lambda items: (lambda *args: args)(*items),
    "sorted": sorted,
    "sum": sum,
    "slice": _assign_a_slice,
    "rest": _take_the_rest,
    "too_many": _take_too_many,
    "extend": _extend,
    "dist": lambda items: math.dist((1, 2, 3), items),
    "join": lambda items: "-".join(map(str, items)),
    "dict": lambda items: dict(enumerate(items)),
    "countOf": lambda items: operator.countOf(items, 10),
    "in": lambda items: 10 in items,
}
WAYS = {
    "itself": lambda items: items,
    "reversed": reversed,
    "iter": iter,
    "half": lambda items: (iterator := iter(items), next(iterator))[0],
}


@pytest.mark.parametrize("cls", [Sequence, Iterable, Hinting])
@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("use", USES)
def test_asked(use, way, cls):
    if way == "reversed" and cls is Hinting:
        return
    use, way = USES[use], WAYS[way]

    def fn(x, items):
        try:
            return x + 1, use(way(items))
        except ValueError as error:  # of math.dist
            return x - 1, str(error)

    check(fn, x(), cls(3))


class Words(Sequence):
    def __getitem__(self, index):
        return str(super().__getitem__(index))


@programs(args=(x(), Words(3)))
def joined(x, words):
    return x + 1, ",".join(words), b",".join(word.encode() for word in words)


@programs(args=(x(), Sequence(2)))
def finished_iterators_ask_nobody(x, items):
    forwards, backwards = iter(items), reversed(items)
    return x + 1, list(forwards), list(backwards), list(forwards), list(backwards)


class Failing(Sequence):
    """Has a length once."""

    def __init__(self, length, error):
        super().__init__(length)
        self.error = error

    def __len__(self):
        length = super().__len__()
        if self.log.count("len") > 1:
            raise self.error("no length")
        return length


@programs(args=(x(), Failing(2, TypeError)))
def no_length_is_no_error(x, items):
    return x + 1, list(reversed(items)), list(iter(items))


@programs(args=(x(), Failing(2, KeyError)))
def another_error_is_one(x, items):
    iterator = reversed(items)
    try:
        list(iterator)
    except KeyError as error:
        return x + 1, str(error), next(iterator)


class GivesNoIterator:
    def __iter__(self):
        return 5


class Raises:
    def __init__(self, error):
        self.error = error

    def __iter__(self):
        raise self.error("mine")


@programs(args=(x(), [GivesNoIterator(), Raises(TypeError), Raises(ValueError)]))
def what_cannot_be_searched(x, objects):
    said = []
    for search in (operator.contains, operator.countOf, operator.indexOf):
        for item in objects:
            try:
                search(item, 1)
            except (TypeError, ValueError) as error:
                said.append((type(error), str(error), error.__context__))
    return x + 1, said


@programs(expect_breaks=None)
def reversed_over_a_break(x):
    sequence = Sequence(3)
    backwards = reversed(sequence)
    first = next(backwards)
    framelift.graph_break()
    return x + first, list(backwards), sequence.log


@programs(expect_breaks=None)
def reversed_and_returned(x):
    sequence = Sequence(3)
    return x + 1, reversed(sequence), sequence.log


test_programs = programs.test()
