"""Classes and instances changed at random between calls: every change that matters must be seen, from every entry."""

from __future__ import annotations

import random
from typing import Any

import pytest
import torch

import framelift
from framelift import config
from tests.helpers.same import assert_same

NAMES = ("a", "b", "m")


def make_value(rng: random.Random, number: int) -> Any:
    """Something to store under a name: data, a method, a property, descriptors of all kinds."""

    class Data:
        def __get__(self, instance, owner):
            return number * 10

        def __set__(self, instance, value):
            instance.__dict__["stored"] = value

    class NonData:
        def __get__(self, instance, owner):
            return number * 100 + (instance is None)

    class Plain:
        pass

    makers = [
        lambda: number,
        lambda: number / 2,
        lambda: lambda self: number,
        lambda: property(lambda self: number + 1),
        lambda: property(lambda self: number + 2, lambda self, v: self.__dict__.update(written=v)),
        lambda: staticmethod(lambda: number + 3),
        lambda: classmethod(lambda cls: (cls.__name__, number)),
        Data,
        NonData,
        Plain,
        lambda: None,
    ]
    return rng.choice(makers)()


def special(rng: random.Random, number: int) -> tuple[str, Any]:
    return rng.choice(
        [
            ("__getattr__", lambda self, name: f"{name}{number}"),
            ("__len__", lambda self: number % 2),
            ("__bool__", lambda self: number % 2 == 1),
            ("__eq__", lambda self, other: number),
            ("__call__", lambda self: number),
            ("__iter__", lambda self: iter([number])),
            ("__setattr__", lambda self, name, value: object.__setattr__(self, name, (value, number))),
        ]
    )


class World:
    """A diamond of classes, an instance, and random changes to them."""

    def __init__(self, seed: int) -> None:
        self.random = random.Random(seed)
        self.number = 0
        base = type("Base", (), {})
        left, right = type("Left", (base,), {}), type("Right", (base,), {})
        self.bottom = type("Bottom", (left, right), {})
        self.other = type("Other", (right,), {})
        self.classes = [base, left, right, self.bottom, self.other]
        self.obj = self.bottom()

    def change(self) -> str:
        self.number += 1
        kind = self.random.choice(["set class", "set class", "set instance", "delete", "special", "swap", "bases"])
        cls, name = self.random.choice(self.classes), self.random.choice(NAMES)
        if kind == "set class":
            setattr(cls, name, make_value(self.random, self.number))
        elif kind == "set instance":
            vars(self.obj)[name] = self.random.choice([self.number, str(self.number), None, lambda: 7])
        elif kind == "delete":
            owner = self.random.choice([*self.classes, None])
            if owner is None:
                vars(self.obj).pop(name, None)
            elif name in vars(owner):
                delattr(owner, name)
        elif kind == "special":
            name, value = special(self.random, self.number)
            if name in vars(cls):
                delattr(cls, name)
            else:
                setattr(cls, name, value)
        elif kind == "swap":
            other = self.other if type(self.obj) is self.bottom else self.bottom
            object.__setattr__(self.obj, "__class__", other)
        else:
            base, left, right = self.classes[:3]
            self.bottom.__bases__ = (left, right) if self.bottom.__bases__ == (right, left) else (right, left)
        return f"{self.number}: {kind} {cls.__name__} {name}"


def uses(obj, x):
    """Reads everything, in every way; what raises is part of the result."""
    out = [x + 1]
    for read in (
        lambda: obj.a,
        lambda: obj.b,
        lambda: obj.m(),
        lambda: type(obj).a,
        lambda: hasattr(obj, "b"),
        lambda: getattr(obj, "zz", "default"),
        lambda: bool(obj),
        lambda: len(obj),
        lambda: obj == 3,
        lambda: obj != 3,
        lambda: obj(),
        lambda: list(obj),
        lambda: super(type(obj), obj).a,
        lambda: super(type(obj), obj).m(),
    ):
        try:
            out.append(read())
        except (AttributeError, TypeError) as error:
            out.append((type(error).__name__, str(error)))
    return out


def writes(obj, x):
    """Writes and deletes on the instance, and puts back what was there."""
    before = dict(vars(obj))
    out = [x + 1]
    try:
        obj.a = 5
        out.append(obj.a)
        del obj.b
    except (AttributeError, TypeError) as error:
        out.append((type(error).__name__, str(error)))
    after = dict(vars(obj))
    vars(obj).clear()
    vars(obj).update(before)
    return out, after


@pytest.mark.parametrize("function", [uses, writes])
@pytest.mark.parametrize("seed", range(8))
def test_random_changes(seed, function):
    world = World(seed)
    lifted = framelift.compile(function, backend="eager")
    x = torch.ones(2)
    with config.patch(recompile_limit=10_000):
        for _ in range(25):
            done = world.change()
            expected = function(world.obj, x)
            for call in ("capture", "hit"):
                try:
                    assert_same(expected, lifted(world.obj, x))
                except AssertionError as error:
                    raise AssertionError(f"after {done} ({call}): {error}") from error
