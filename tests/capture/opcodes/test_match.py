"""`match` statements."""

from __future__ import annotations

from collections import ChainMap, OrderedDict, defaultdict
from collections.abc import Mapping
from dataclasses import dataclass

from tests.values.cases import Cases, vector

cases = Cases()
X = vector()


@dataclass
class Point:
    x: int
    y: int = 0


@cases(X, 1, changed=[(X, 2), (X, "a"), (X, None), (X, 1.0), (X, True)])
def constants(x, value):
    match value:
        case 1:
            return x + 1
        case "a" | "b":
            return x + 2
        case None:
            return x + 3
        case True:
            return x + 4
        case _:
            return x


@cases(X, [1, 2], changed=[(X, [1]), (X, []), (X, (1, 2, 3)), (X, "ab"), (X, {"a": 1}), (X, range(2))])
def sequences(x, value):
    match value:
        case []:
            return x
        case [one]:
            return x + one
        case [first, 2]:
            return x * first + 5
        case (first, *rest):
            return x + first, rest
        case str():
            return x + 9, value
    return x - 1


@cases(X, {"kind": "add", "n": 2}, changed=[(X, {"kind": "mul", "n": 3}), (X, {"kind": "add"}), (X, {}), (X, [1])])
def mappings(x, value):
    match value:
        case {"kind": "add", "n": n}:
            return x + n
        case {"kind": "mul", "n": n, **rest}:
            return x * n, rest
        case {"kind": other}:
            return x, other
        case {}:
            return x - 1
    return x - 2


@cases(X, Point(1, 2), changed=[(X, Point(1, 5)), (X, Point(3, 3)), (X, 4)])
def classes(x, value):
    match value:
        case Point(1, 2):
            return x + 1
        case Point(x=1, y=n):
            return x + n
        case Point(a, b) if a == b:
            return x + a
        case int(n):
            return x * n
    return x


@cases(X, 5, changed=[(X, 2.5), (X, "s"), (X, [1]), (X, (1, [2, 3]))])
def kinds(x, value):
    match value:
        case int() as n:
            return x + n
        case float(n):
            return x + n
        case str(s):
            return x, s
        case [int(a)]:
            return x + a
        case (int(a), [b, c]):
            return x + a + b + c


@cases(X, [1, 2, 3, 4], changed=[(X, [1, 9, 4])])
def captures(x, value):
    match value:
        case [first, *middle, last]:
            return x + first, middle, last


@cases(X)
def too_many_patterns(x):
    y = x + 1
    try:
        match Point(1, 2):
            case Point(1, 2, 3):
                return 0
    except TypeError as error:
        return y, str(error)


@cases(X)
def on_tensors(x):
    match x.dim(), x.shape:
        case 1, (n,):
            return x + n
        case 2, (n, m):
            return x + n * m


class Settings(Mapping):
    def __init__(self, **items):
        self.items_ = items

    def __getitem__(self, key):
        return self.items_[key]

    def __iter__(self):
        return iter(self.items_)

    def __len__(self):
        return len(self.items_)


class Loud(dict):
    def get(self, key, default=None):
        return super().get(key.lower(), default)


@cases(X)
def mappings_of_other_classes(x):
    found = []
    for value in (Settings(a=1, b=2), Settings(b=3), Loud(a=4), defaultdict(int), OrderedDict(a=5), ChainMap({"a": 6})):
        match value:
            case {"a": number, **rest}:
                found.append((number, rest))
            case {"A": number}:
                found.append(("loud", number))
            case {"b": number}:
                found.append(number)
            case {}:
                found.append(len(value))
    return x + 1, found


test = cases.test
