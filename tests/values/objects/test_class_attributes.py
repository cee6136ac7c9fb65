"""Assigning attributes of classes that exist, and metaclasses that answer for them."""

from __future__ import annotations

import typing

import pytest
import torch

import framelift
from tests.helpers import check
from tests.values.programs import Programs, x

programs = Programs()


class Counter:
    count = 0
    items: list = []

    def bump(self):
        type(self).count += 1
        return self.count


class Below(Counter):
    pass


class Own(Counter):
    count = 100


def reset():
    Counter.count, Own.count = 0, 100
    for cls, name in ((Counter, "added"), (Below, "count")):
        if name in vars(cls):
            delattr(cls, name)


@pytest.fixture(autouse=True)
def fresh():
    yield
    reset()


def both(fn, *args):
    """Eager's and framelift's result and the classes' state, starting from the same state."""
    outcomes = []
    for function in (fn, framelift.compile(fn, backend="eager", fullgraph=True)):
        reset()
        for _ in range(3):
            result = function(*args)
        outcomes.append((result, Counter.count, vars(Below).get("count"), Own.count, getattr(Counter, "added", None)))
    return outcomes


def test_a_counter():
    def fn(x):
        Counter.count += 1
        return x + Counter.count

    eager, lifted = both(fn, torch.ones(2))
    assert torch.equal(eager[0], lifted[0]) and eager[1:] == lifted[1:] and eager[1] == 3


def test_instances_and_subclasses_see_it():
    def fn(x):
        before = Counter().count, Below.count, Own().count
        Counter.count = 7
        Counter.added = "new"
        return x + 1, before, Counter().count, Below().count, Own.count, hasattr(Below, "added"), Own().added

    eager, lifted = both(fn, torch.ones(2))
    assert eager[0][1:] == lifted[0][1:] and eager[1:] == lifted[1:]


def test_a_subclass_gets_its_own():
    def fn(x):
        first = Below().bump()
        return x + first, Counter.count, Below.count, Own().bump()

    eager, lifted = both(fn, torch.ones(2))
    assert eager[0][1:] == lifted[0][1:] and eager[1:] == lifted[1:]


def test_a_method_is_assigned():
    def fn(x):
        Counter.added = lambda self, t: t * 2
        return Counter().added(x), Below().added(x)

    eager, lifted = both(fn, torch.ones(2))
    assert torch.equal(eager[0][1], lifted[0][1])


def test_a_break_undoes_and_redoes():
    def inner():
        Counter.count += 5
        framelift.graph_break()
        return Counter.count

    def fn(x):
        y = x + 1
        Counter.count += 1
        return y + inner()

    expected = fn(torch.ones(2))
    after, Counter.count = Counter.count, 0
    assert torch.equal(framelift.compile(fn, backend="eager")(torch.ones(2)), expected)
    assert Counter.count == after == 6


def test_special_methods_are_left_to_python():
    class Mine:
        pass

    def fn(x):
        y = x + 1
        Mine.__len__ = lambda self: 4
        return y + len(Mine())

    check(fn, x(), expect_breaks=None, expect_hit=False)


# -- metaclasses -------------------------------------------------------------------------------------------------------


class Duck(type):
    def __instancecheck__(cls, instance):
        return hasattr(instance, "quack")

    def __subclasscheck__(cls, subclass):
        return "quack" in dir(cls) or subclass is int


class Ducks(metaclass=Duck):
    pass


class Mallard:
    quack = 1


class Single(type):
    instances: dict = {}

    def __call__(cls, *args):
        made = super().__call__(*args)
        made.made_by = "Single"
        return made


class One(metaclass=Single):
    def __init__(self, v):
        self.v = v


@programs()
def instance_checks(x):
    return x + 1, isinstance(Mallard(), Ducks), isinstance(3, Ducks), isinstance(3, (str, Ducks))


@programs()
def calls_of_a_metaclass(x):
    one = One(x)
    return one.v + 1, one.made_by


def test_a_check_that_is_patched_is_seen():
    class Meta(type):
        def __instancecheck__(cls, instance):
            return True

    class Any(metaclass=Meta):
        pass

    def fn(x):
        return x + (1 if isinstance(3, Any) else 2)

    lifted = framelift.compile(fn, backend="eager", fullgraph=True)
    assert torch.equal(lifted(x()), fn(x()))
    Meta.__instancecheck__ = lambda cls, instance: False
    assert torch.equal(lifted(x()), fn(x()))


# -- items and generic classes -----------------------------------------------------------------------------------------


class Items:
    def __init__(self, n):
        self.n = n

    def __getitem__(self, index):
        if index >= self.n:
            raise IndexError(index)
        return index * 10


@programs()
def iteration_by_items(x):
    first, *rest = Items(3)
    return x + sum(Items(4)), first, rest, 20 in Items(3), list(zip(Items(2), Items(5))), max(Items(3))


def test_an_iter_that_comes_later_is_seen():
    class Mine(Items):
        pass

    def fn(x):
        return x + sum(Mine(3))

    lifted = framelift.compile(fn, backend="eager", fullgraph=True)
    assert torch.equal(lifted(x()), fn(x()))
    Mine.__iter__ = lambda self: iter([1])
    assert torch.equal(lifted(x()), fn(x()))


T = typing.TypeVar("T")


class Box(typing.Generic[T]):
    def __init__(self, inner):
        self.inner = inner


@programs()
def generic_classes(x):
    return Box[int](x).inner + 1, Box(x).inner, typing.get_origin(list[int]) is list, globals()["T"] is T


test_programs = programs.test()


class Base:
    pass


class Derived(Base):
    pass


def test_methods_of_type_that_are_not_modelled_break() -> None:
    check(lambda x: (x + 1, Base.__subclasses__()), torch.ones(2), expect_breaks=1)
    check(lambda x: (x + 1, type.__subclasses__(Base)), torch.ones(2), expect_breaks=1)
