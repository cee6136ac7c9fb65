"""`copy.copy` and `copy.deepcopy` of plain data and objects."""

from __future__ import annotations

import copy
import enum

import torch

import framelift
from tests.values.cases import Cases, vector

cases = Cases()
X = vector()


class Mode(enum.Enum):
    FAST = 1


class Config:
    """Attributes, some under another name."""

    attribute_map = {"size": "hidden"}

    def __init__(self, hidden, **kwargs):
        self.hidden = hidden
        self.__dict__.update(kwargs)

    def __setattr__(self, key, value):
        if key in super().__getattribute__("attribute_map"):
            key = super().__getattribute__("attribute_map")[key]
        super().__setattr__(key, value)

    def __getattribute__(self, key):
        if key != "attribute_map" and key in super().__getattribute__("attribute_map"):
            key = super().__getattribute__("attribute_map")[key]
        return super().__getattribute__(key)


class Stateful:
    def __init__(self, n):
        self.n = n

    def __setstate__(self, state):
        self.n = state["n"] + 1


class Own:
    def __deepcopy__(self, memo):
        return 5

    def __copy__(self):
        return 6


def config(**kwargs):
    return Config(4, names=["a", "b"], nested={"k": (1, [2])}, dtype=torch.float32, mode=Mode.FAST, **kwargs)


@cases(X, config(), changed=[(X, config(extra=1)), (X, Config(5))])
def deep_copied_object(x, c):
    d = copy.deepcopy(c)
    d.size = 7
    d.hidden = d.hidden + 1
    if hasattr(d, "names"):
        d.names.append("c")
    return x * d.size, c.size, d


@cases(X, config())
def shallow_copied_object(x, c):
    d = copy.copy(c)
    d.size = 7
    return x * d.size, d.names is c.names, d


@cases(X, [1, [2, {"a": [3]}], (4, [5]), (6, 7)], changed=[(X, [1]), (X, [1, 2])])
def deep_copied_data(x, data):
    made = copy.deepcopy(data)
    made.append(x + 1)
    return made, data, [a is b for a, b in zip(made, data)]


@cases(X, [1, [2]])
def shallow_copied_data(x, data):
    return x + 1, copy.copy(data), copy.copy((1, data)), copy.copy({"a": data}), copy.copy({1}), copy.copy(3)


@cases(X)
def shared_parts(x):
    inner = [1]
    both = {"a": inner, "b": inner}
    made = copy.deepcopy(both)
    made["a"].append(2)
    cyclic = [x]
    cyclic.pop()
    cyclic.append(cyclic)
    other = copy.deepcopy(cyclic)
    return x + len(made["b"]), inner, other[0] is other


@cases(X, Stateful(1))
def set_state(x, s):
    return x + copy.deepcopy(s).n + copy.copy(s).n


@cases(X, Own(), expect_breaks=None, expect_ops=0)
def copies_itself(x, own):
    return x + copy.deepcopy(own) + copy.copy(own)


test_programs = cases.test


def test_aliases_are_guarded():
    def f(x, a, b):
        made = copy.deepcopy([a, b])
        made[0].append(1)
        return x + len(made[1])

    lifted = framelift.compile(f, backend="eager")
    assert lifted(X, [], []).equal(X)
    same = []
    assert lifted(X, same, same).equal(X + 1)


def test_a_method_added_later_is_seen():
    class Plain:
        def __init__(self):
            self.n = 1

    def f(x, p):
        return x + copy.deepcopy(p).n

    lifted = framelift.compile(f, backend="eager")
    assert lifted(X, Plain()).equal(X + 1)
    Plain.__deepcopy__ = lambda self, memo: type("Other", (), {"n": 9})
    assert lifted(X, Plain()).equal(X + 9)
