"""`bytes()` of objects and iterables, and slices of constants whose bounds are objects."""

from __future__ import annotations

import torch

from tests.helpers import check
from tests.values.programs import Programs, x

programs = Programs()


class Own:
    def __init__(self, made):
        self.made = made

    def __bytes__(self):
        return self.made


class Index:
    def __init__(self, number, log=None):
        self.number = number
        self.log = [] if log is None else log

    def __index__(self):
        self.log.append(self.number)
        if self.number is None:
            raise TypeError("none")
        return self.number


class Items:
    def __init__(self, *items):
        self.items = items
        self.log = []

    def __len__(self):
        self.log.append("len")
        return len(self.items)

    def __iter__(self):
        self.log.append("iter")
        return iter(self.items)


class IndexAndItems(Index):
    def __iter__(self):
        return iter((7, 8))


class Text(str):
    def __bytes__(self):
        return b"own"


class Number(int):
    __bytes__ = None


class Plain(bytes):
    pass


class Blocked(bytes):
    __bytes__ = None


class Given(bytes):
    def __bytes__(self):
        return b"given"


def _said(make, *args):
    try:
        return make(*args)
    except (TypeError, ValueError) as error:
        return type(error), str(error), error.__context__


@programs(args=(x(), [Own(b"own"), Own("text"), Index(3), Index(-1), Items(1, 255), Items(1, 256, 2), Items("a")]))
def of_objects(x, objects):
    return x + 1, [_said(bytes, item) for item in objects]


@programs(args=(x(), [IndexAndItems(2), IndexAndItems(None), Index(None), Items(Index(5)), object()]))
def of_objects_with_several_ways(x, objects):
    return x + 1, [_said(bytes, item) for item in objects]


@programs(args=(x(), [1, 2], {3: 4}, {5}))
def of_containers(x, items, entries, members):
    made = [
        bytes(items),
        bytes(entries),
        bytes(members),
        bytes(tuple(items)),
        bytes(map(ord, "ab")),
        bytes(reversed(b"xy")),
    ]
    made += [bytes(n for n in items), bytes(entries.values()), bytes(range(3)), bytes(iter(b"q"))]
    return x + 1, made, _said(bytes, [1, -1]), _said(bytes, [1, "a"]), _said(bytes, ["é"])


@programs(inputs=lambda: (x(), iter([1, 2, 300, 4])))
def an_error_stops_reading(x, items):
    return x + 1, _said(bytes, items), next(items)


@programs(args=(x(), Index(1), Index(3), Index(0)))
def slices_of_constants(x, low, high, zero):
    made = ["abcd"[low:high], b"abcd"[low:], (1, 2, 3, 4)[:high:low], range(9)[low:high], "abcd"[low]]
    return x + 1, made, _said(lambda: "abcd"[low:high:zero]), _said(lambda: [1, 2][low:high:zero]), low.log, high.log


@programs
def of_subclasses(x):
    objects = [Text("a"), Number(2), Plain(b"ab"), Blocked(b"ab"), Given(b"ab")]
    return x + 1, [_said(bytes, each) for each in objects], _said(bytes, objects[0], "utf-8")


def test_the_step_is_asked_first():
    def fn(x, items, log):
        start, stop, step = Index(0, log), Index(2, log), Index(1, log)
        return x + 1, items[start:stop:step], "abc"[start:stop:step]

    check(fn, x(), [1, 2, 3], [])


def test_a_symbol_within_a_tuple_becomes_a_number_where_an_operation_takes_none():
    def fn(x):
        return torch.nn.functional.pad(x, (0, -x.shape[1] % 8)).cos()

    check(fn, torch.ones(2, 5), fullgraph=True, changed=[(torch.ones(2, size),) for size in (6, 7, 8, 14, 15)])


def test_a_number_within_a_tuple_becomes_constant_where_an_operation_takes_no_symbol():
    def fn(x, pads):
        return torch.nn.functional.pad(x, (0, pads)).cos(), torch.nn.functional.pad(x, [pads, 1]).sin()

    check(fn, torch.ones(2, 5), 3, fullgraph=True, changed=[(torch.ones(2, 5), pads) for pads in (4, 5, 0)])


test_programs = programs.test()
