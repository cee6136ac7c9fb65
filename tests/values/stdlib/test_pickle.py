"""`pickle.dumps` and `pickle.loads` of what the program made."""

from __future__ import annotations

import collections
import copy
import dataclasses
import enum
import functools
import pickle
import sys

import pytest
import torch

import framelift
from framelift.errors import FullGraphError
from tests.helpers import check
from tests.values.cases import Cases, vector

cases = Cases()
X = vector()
PROTOCOLS = range(pickle.HIGHEST_PROTOCOL + 1)


class Node:
    def __init__(self, name):
        self.name = name
        self.next = self


class Slotted:
    __slots__ = ("left", "right")


class WithState:
    def __init__(self, value):
        self.value = value

    def __getstate__(self):
        return {"kept": self.value}

    def __setstate__(self, state):
        self.value = state["kept"] + 1


class Reduced:
    def __init__(self, *args):
        self.args = args

    def __reduce__(self):
        return Reduced, (1, 2), {"more": 3}


class WithArguments:
    def __new__(cls, *args, **kwargs):
        made = super().__new__(cls)
        made.given = args, kwargs
        return made

    def __getnewargs_ex__(self):
        return (1,), {"name": "b"}


class Names(list):
    pass


class Table(dict):
    pass


class Members(set):
    __slots__ = ("note",)


class Color(enum.Enum):
    RED = 1


Point = collections.namedtuple("Point", "x y")


@dataclasses.dataclass
class Record:
    number: int
    items: list


def again(value, protocol):
    return pickle.loads(pickle.dumps(value, protocol))


@cases(X)
def plain_data(x):
    values = [(1, "a", None, 2.5, b"x", True), {"k": [1, {2}]}, frozenset([1]), range(3), 3 + 4j, slice(1, 2)]
    return x + 1, [again(values, protocol) for protocol in PROTOCOLS]


@cases(X)
def objects(x):
    names, table = Names([1, 2]), Table(a=1)
    names.note, table.note = 3, 4
    values = [Color.RED, Point(1, [2]), Record(1, [2]), names, table, WithState(1), Reduced(), ValueError("x", 1)]
    values += [collections.OrderedDict(a=1), collections.defaultdict(list, a=[1]), functools.partial(int, "2")]
    return x + 1, [again(values, protocol) for protocol in PROTOCOLS]


@cases(X)
def globals_(x):
    values = [len, Node, collections.OrderedDict, FileNotFoundError, type(None), "".join, sys.intern]
    return x + 1, [again(values[:5], protocol) for protocol in PROTOCOLS]


@cases(X)
def cycles_and_shared_parts(x):
    node = Node("a")
    shared = [1]
    first = again([node, shared, shared], 4)
    nested = [1]
    nested.append(nested)
    second = again(nested, 2)
    return x + 1, first[0].next is first[0], first[1] is first[2], first[1] is shared, second[1] is second


@cases(X)
def slots(x):
    slotted = Slotted()
    slotted.left = [1]
    members = Members([3])
    members.note = "b"
    copied = copy.copy(members)
    return x + 1, again(slotted, 2), again(members, 4).note, again(members, 0).note, copied.note, copied


@cases(X)
def arguments_of_new(x):
    return x + 1, [again(WithArguments(5), protocol).given for protocol in PROTOCOLS[2:]]


@cases(X)
def as_it_was_when_it_was_pickled(x):
    items = [1]
    data = pickle.dumps(items)
    items.append(2)
    first, second = pickle.loads(data), pickle.loads(data)
    first.append(3)
    return x + 1, items, first, second, type(data) is bytes


@cases(X)
def wrong_protocols(x):
    try:
        pickle.dumps(1, 99)
    except ValueError as error:
        return x + 1, str(error)


test_programs = cases.test


def returned(x):
    return x + 1, pickle.dumps([1, 2])


def local(x):
    y = x + 1
    try:
        pickle.dumps(lambda: None)
    except (pickle.PicklingError, AttributeError) as error:
        return y, type(error)


def loaded(x, data):
    return x + pickle.loads(data)


@pytest.mark.parametrize(
    ("program", "args"), [(returned, ()), (local, ()), (loaded, (pickle.dumps(2),))], ids=lambda value: str(value)[:20]
)
def test_what_is_left_to_python(program, args):
    check(program, X, *args, expect_breaks=None)
    with pytest.raises(FullGraphError):
        framelift.compile(program, backend="eager", fullgraph=True)(X, *args)


def test_what_a_class_does_when_it_is_loaded_is_guarded():
    class Temporary:
        pass

    Temporary.__qualname__ = "Temporary"
    Temporary.__module__ = __name__
    module = sys.modules[__name__]
    module.Temporary = Temporary
    try:
        lifted = framelift.compile(lambda x: x + again(Temporary(), 2).value, backend="eager", fullgraph=True)
        Temporary.value = 1
        assert torch.equal(lifted(X), X + 1)
        Temporary.value = 2
        assert torch.equal(lifted(X), X + 2)
        Temporary.__reduce__ = lambda self: (torch.Size, ((3,),), None)
        Temporary.value = property(lambda self: 4)
        with pytest.raises(AttributeError, match="no attribute 'value'"):
            lifted(X)
    finally:
        del module.Temporary
