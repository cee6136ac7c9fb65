"""What random programs find around them. The text of this file stands in front of every program."""
# ruff: noqa: F401  (programs use what is imported here)

import collections
import contextlib
import copy
import enum
import functools
import itertools
import operator
import random
import sys
import traceback
import warnings
from dataclasses import dataclass, field, replace

import torch

import framelift

calls = 0
registry = {"k": 1}


class Thing:
    factor = 2

    def __init__(self, count, items, tensor):
        self.count = count
        self.items = items
        self.tensor = tensor

    def bump(self, by=1):
        self.count += by
        return self.count

    def __len__(self):
        return len(self.items)

    def __contains__(self, item):
        return item in self.items

    def __getitem__(self, index):
        return self.items[index]

    @property
    def double(self):
        return self.tensor * self.factor

    @property
    def level(self):
        return self.count % 3

    @level.setter
    def level(self, value):
        self.count = value
        self.items.append(value % 5)


class Special(Thing):
    def __init__(self, *args, **kwargs):
        super().__init__(*args, **kwargs)
        self.special = True

    def bump(self, by=1, *, twice=False):
        before = super().bump(by)
        return super().bump(before % 3) if twice else before

    def __getattr__(self, name):
        if name.startswith("any_"):
            return len(name)
        raise AttributeError(name)


class Point:
    __slots__ = ("a", "b")

    def __init__(self, a, b):
        self.a, self.b = a, b

    def __eq__(self, other):
        return isinstance(other, Point) and (self.a, self.b) == (other.a, other.b)

    def __hash__(self):
        return hash(self.a) % 4

    def __lt__(self, other):
        return self.a < other.a

    def __add__(self, other):
        return Point(self.a + other, self.b)

    __radd__ = __add__

    def __iadd__(self, other):
        self.b += other
        return self

    def __bool__(self):
        return self.a != self.b

    def __call__(self, value, *rest):
        return self.a * value + len(rest)


class Color(enum.Enum):
    RED = 1
    BLUE = 2

    @property
    def other(self):
        return Color.BLUE if self is Color.RED else Color.RED


@dataclass
class Record:
    name: str
    size: int = 2
    parts: list = field(default_factory=list)


Pair = collections.namedtuple("Pair", ["left", "right"])


class Table(dict):
    def __missing__(self, key):
        return len(self)

    def __setitem__(self, key, value):
        super().__setitem__(key, value if value is None else value % 9)


class Stack(list):
    def push(self, item):
        self.append(item)
        return len(self)


class Guarded:
    def __init__(self, log, swallow):
        self.log = log
        self.swallow = swallow

    def __enter__(self):
        self.log.append(len(self.log))
        return self

    def __exit__(self, kind, value, trace):
        self.log.append(-1 if kind is None else -2)
        return self.swallow


class Breaking(Guarded):
    def __enter__(self):
        framelift.graph_break()
        return super().__enter__()

    def __exit__(self, *error):
        result = super().__exit__(*error)
        framelift.graph_break()
        return result


class Halting:
    """Breaks wherever Python asks it something."""

    def __init__(self, value):
        self.value = value

    def __iter__(self):
        framelift.graph_break()
        return iter([self.value, 1])

    def __bool__(self):
        framelift.graph_break()
        return bool(self.value)

    def __eq__(self, other):
        framelift.graph_break()
        return self.value == other

    def __add__(self, other):
        framelift.graph_break()
        return self.value + other

    def __getitem__(self, key):
        framelift.graph_break()
        return [self.value, 2][key]

    @property
    def half(self):
        framelift.graph_break()
        return self.value / 2


class Oops(Exception):
    def __init__(self, *args):
        super().__init__(*args)
        self.amount = len(args)


def saved(tensor, copied, write):
    """The gradient of a product with a copy, of which the original is written between forward and backward."""
    leaf = tensor.detach().double().requires_grad_()
    original = leaf.detach().clone()
    framelift.graph_break()
    product = (leaf * copied(original)).sum()
    framelift.graph_break()
    write(original)
    product.backward()
    return leaf.grad


def sparse_step(tensor, steps):
    """What an optimizer for sparse gradients makes of the rows of a tensor."""
    table = torch.nn.Parameter(tensor.detach().clone().float())
    optimizer = torch.optim.SparseAdam([table], lr=0.1)
    for _ in range(steps):
        optimizer.zero_grad()
        torch.nn.functional.embedding(torch.tensor([1, 1]), table, sparse=True).sum().backward()
        optimizer.step()
    return table.detach()


MAKERS = [
    lambda: torch.ones(2),
    lambda: torch.zeros(2, 1),
    lambda: torch.arange(3),
    lambda: torch.tensor([1.5]),
    lambda: torch.randn(2),
    lambda: torch.empty(2),
    lambda: torch.full((2,), 3),
    lambda: torch.nn.Linear(2, 2).weight,
    lambda: torch.ones(2, device="cpu"),
]


def placed(device, number):
    """Where tensors are that are made in the context of a device."""
    with torch.device(device):
        made = MAKERS[number % len(MAKERS)]()
    return str(made.device)


class Net(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.inner = torch.nn.Linear(3, 3)
        self.register_buffer("seen", torch.zeros(3))
        self.scale = 2
        self.log = []

    def forward(self, x, extra=0):
        self.seen += 1
        if self.training:
            self.log.append(extra)
        return self.inner(x) * self.scale + extra


@contextlib.contextmanager
def noted(items):
    items.append(5)
    try:
        yield len(items)
    except ValueError:
        items.append(6)
    finally:
        items.append(8)


@contextlib.contextmanager
def halted(items):
    framelift.graph_break()
    try:
        yield broken(len(items))
    finally:
        items.append(broken(2))


def countdown(n):
    while n > 0:
        got = yield n
        n -= 1 if got is None else got


def relay(n, log):
    try:
        result = yield from countdown(n)
        yield result
    finally:
        log.append(n)


def halting(items):
    for item in items:
        framelift.graph_break()
        yield item


def note(value):
    global calls
    calls += 1
    return value


def broken(value):
    framelift.graph_break()
    return value


def held(value, log):
    """A break in the middle of all that has to be left in order."""
    with Guarded(log, False), contextlib.suppress(KeyError):
        try:
            value = broken(value)
            if len(log) % 2:
                raise ValueError(value)
        except ValueError:
            log.append(broken(3))
        finally:
            framelift.graph_break()
            log.append(4)
    return value


def deep(value, depth):
    """A break under calls."""
    return deep(value, depth - 1) + 1 if depth else broken(value)


def recursing(value):
    return recursing(value) + 1


@framelift.disable
def opaque(items):
    items.append(9)
    return len(items)


def gather(*args, key=3, **rest):
    return len(args) + key + sum(rest.values())


def scaled(tensor, by=2, *, plus=1):
    return tensor * by + plus


def traced(function):
    @functools.wraps(function)
    def wrapper(*args, **kwargs):
        note(1)
        return function(*args, **kwargs)

    return wrapper


@traced
def shifted(number, by=1):
    return number + by


def negated(value):
    return -value


def answer_any(self, name):
    if name.startswith("__"):
        raise AttributeError(name)
    return 8


def slope(tensor):
    """The gradient of a function of the tensor."""
    leaf = tensor.detach().double().requires_grad_()
    (leaf * leaf).sum().backward()
    return leaf.grad


def net_hook(module, args, output):
    return output + 1


def net_pre_hook(module, args):
    return (args[0] * 2,)
