"""Keys whose class has an `__eq__` and `__hash__` of its own, and numbers that stand for identity."""

from __future__ import annotations

import dataclasses
import enum
import threading

import pytest
import torch

import framelift
from tests.helpers import check
from tests.values.programs import Programs, follow, x

programs = Programs()


class LargeHash:
    def __hash__(self):
        return 2**62 + 5

    def __eq__(self, other):
        return True


class Key:
    def __init__(self, k):
        self.k = k

    def __eq__(self, other):
        return isinstance(other, Key) and self.k == other.k

    def __hash__(self):
        return hash(self.k)

    def __repr__(self):
        return f"Key({self.k})"


class Colliding(Key):
    def __eq__(self, other):
        return self.k == getattr(other, "k", None)

    def __hash__(self):
        return -1


@dataclasses.dataclass(frozen=True)
class Config:
    a: int
    b: str


class Name(str, enum.Enum):
    FIRST = "first"


@programs()
def dict_keys(x):
    d = {Key(1): x, Key(2): x + 1}
    first = next(iter(d))
    d[Key(1)] = x * 3
    d[Key(3)] = x
    del d[Key(2)]
    return d[first] + len(d), Key(2) in d, [key.k for key in d], d.get(Key(9)), next(iter(d)) is first, str(d.keys())


@programs()
def set_members(x):
    s = {Key(1), Key(1), Key(2)}
    s.add(Key(3))
    s.discard(Key(1))
    return x + len(s), Key(2) in s, [key.k for key in s], s == {Key(3), Key(2)}, len(s | {Key(7)}), len(s & {Key(2)})


@programs()
def collisions(x):
    d = {Colliding(i): i for i in range(4)}
    d[Colliding(2)] = 9
    return x + d[Colliding(2)], len(d), hash(Colliding(1)), list(d.values())


@programs()
def large_hashes(x):
    return x + 1, hash(LargeHash()), LargeHash() in {LargeHash(): 1}


@programs()
def frozen_dataclasses(x):
    d = {Config(1, "a"): x, (Config(1, "b"), 2): x * 2}
    return d[Config(1, "a")] + d[Config(1, "b"), 2], hash(Config(1, "a")) == hash(Config(1, "a"))


@programs()
def enumeration_members(x):
    d = {Name.FIRST: x}
    return d["first"] + d[Name.FIRST], {"first": 3}[Name.FIRST], hash(Name.FIRST) == hash("first")


@programs()
def an_equality_that_raises(x):
    class Bad:
        def __eq__(self, other):
            raise ValueError("no")

        def __hash__(self):
            return 1

    d = {Bad(): 1}
    try:
        d[Bad()]
    except ValueError as error:
        return x + len(d), str(error)


@programs()
def equality_without_a_hash(x):
    class Unhashable:
        def __eq__(self, other):
            return True

    try:
        {Unhashable(): 1}
    except TypeError as error:
        return x + 1, str(error)


TABLE = {Config(1, "a"): 2, Config(2, "a"): 3}


@programs()
def a_table_from_outside(x):
    return x * TABLE[Config(2, "a")] + len(TABLE), Config(5, "a") in TABLE, [key.a for key in TABLE]


def test_a_given_dict_is_changed():
    def fn(x, d):
        d[Config(1, "a")] = x + 1
        d[Config(7, "z")] = 3
        del d[Config(2, "a")]
        return x * 2

    check(fn, x(), {Config(1, "a"): 1, Config(2, "a"): 2})


def test_classes_as_keys_are_deleted():
    def fn(x, d):
        del d[int]
        return x + len(d)

    check(fn, x(), {int: 1, str: 2})


def test_what_invalidates():
    table = {Key(1): 2}

    def fn(x):
        return x * table[Key(1)]

    follow(
        fn,
        (x(),),
        lambda: table.update({Key(1): 5}),
        lambda: table.update({Key(2): 5}),
        lambda: (table.clear(), table.update({Key(1): 7})),
    )


def test_a_hash_that_is_patched_is_seen():
    class Mine(Key):
        pass

    key = Mine(1)

    def fn(x):
        return x + hash(key)

    lifted = framelift.compile(fn, backend="eager", fullgraph=True)
    assert torch.equal(lifted(x()), fn(x()))
    key.k = 5
    assert torch.equal(lifted(x()), fn(x()))
    Mine.__hash__ = lambda self: 40
    assert torch.equal(lifted(x()), fn(x()))


# -- identity numbers --------------------------------------------------------------------------------------------------


@programs()
def ids(x):
    a, b = [1], [1]
    memo = {id(a): "a", id(b): "b", id(x): "x"}
    return x + len(memo), memo[id(a)], memo[id(x)], id(a) == id(b), id(a) != id(a), id(b) in memo, id(None) == id(x)


@programs()
def an_id_leaves_the_frame(x):
    y = x + 1
    return y, isinstance(id(y), int)


@programs()
def threads(x):
    running = {threading.get_ident(): 1}
    return x + running[threading.get_ident()]


def test_a_table_of_real_numbers_is_not_searched():
    table = {threading.get_ident(): 3}

    def fn(x):
        return (x + 1) * table[threading.get_ident()], id(x) in {1, 2}

    check(fn, x(), expect_breaks=None)


def test_ids_of_inputs():
    def fn(x, a, b):
        return x + (1 if id(a) == id(b) else 2)

    lifted = framelift.compile(fn, backend="eager", fullgraph=True)
    one, two = [1], [1]
    assert torch.equal(lifted(x(), one, two), fn(x(), one, two))
    assert torch.equal(lifted(x(), one, one), fn(x(), one, one))
    assert framelift.compile(lambda a: id(a), backend="eager")(one) == id(one)


@dataclasses.dataclass
class Plain:
    a: int
    b: list


@programs()
def a_dataclass_with_a_text(x):
    return x + 1, repr(Plain(1, [2])), Plain(1, [2]) == Plain(1, [2])


class Plane:
    pass


BY_CLASSES = {(int, float, Plane): 1, int: 2}
BY_OBJECT = {object(): 1, "a": 2}
OF_CLASSES = {(int, float, Plane), int}


def test_keys_that_a_guard_cannot_hold():
    check(lambda x: [x + value for value in BY_CLASSES.values()], x(), expect_breaks=None)
    check(lambda x: x + BY_CLASSES[int, float, Plane], x(), expect_breaks=None)
    check(lambda x: [x + value for value in BY_OBJECT.values()], x(), expect_breaks=None)
    check(lambda x: x + len(list(OF_CLASSES)), x(), expect_breaks=None)


def members(a, b, x):
    return x + len({a, b}), a in {b: 1}, {a: 1, b: 2}[a], len(dict.fromkeys((a, b))), {(a, 1), (b, 1)} == {(a, 1)}


@pytest.mark.parametrize(
    "make",
    [Plane, lambda: torch.ones(2), torch.nn.Identity, lambda: lambda: 1],
    ids=["object", "tensor", "module", "f"],
)
def test_two_keys_become_one_and_part_again(make):
    one, other = make(), make()
    check(members, one, other, x(), changed=[(one, one, x()), (other, one, x())], expect_ops=1)
    check(members, one, one, x(), changed=[(one, other, x()), (other, other, x())], expect_ops=1)


test_programs = programs.test()
