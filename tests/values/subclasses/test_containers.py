"""Classes that inherit from built-in containers."""

from __future__ import annotations

from collections import Counter, OrderedDict, defaultdict
from dataclasses import dataclass, fields

import torch

import framelift
from tests.helpers import check
from tests.values.cases import Cases, vector

cases = Cases()
X = vector()


class Plain(dict):
    """Nothing of its own."""


class Upper(dict):
    """Overrides what operators use, and calls the base's."""

    def __getitem__(self, key):
        return super().__getitem__(key.upper())

    def __setitem__(self, key, value):
        super().__setitem__(key.upper(), value)

    def __missing__(self, key):
        return len(key)


class Ordered(OrderedDict):
    """Counts what is set."""

    count = 0

    def __setitem__(self, key, value):
        self.count += 1
        super().__setitem__(key, value)


class Stack(list):
    """A list with a name, and a method."""

    def __init__(self, items=(), name="stack"):
        super().__init__(items)
        self.name = name

    def push(self, item):
        self.append(item)
        return self

    def __len__(self):
        return super().__len__() + 100


class Names(set):
    """A set that counts."""

    def add(self, item):
        super().add(item)
        self.added = getattr(self, "added", 0) + 1


class Groups(defaultdict):
    """A default dict with a default of its own."""

    def __init__(self):
        super().__init__(list)


@dataclass
class Output(OrderedDict):
    """An ordered dict whose fields are its items."""

    state: torch.Tensor | None = None
    pooled: torch.Tensor | None = None
    count: int | None = None

    def __post_init__(self):
        for field in fields(self):
            value = self.__dict__.get(field.name)
            if value is not None:
                self[field.name] = value

    def __setattr__(self, name, value):
        if name in {field.name for field in fields(self)} and value is not None:
            super().__setitem__(name, value)
        super().__setattr__(name, value)

    def __setitem__(self, key, value):
        super().__setitem__(key, value)
        super().__setattr__(key, value)

    def __getitem__(self, key):
        if isinstance(key, str):
            return dict(self.items())[key]
        return self.to_tuple()[key]

    def to_tuple(self):
        return tuple(self[key] for key in self.keys())


@cases(X)
def output_made(x):
    out = Output(state=x + 1, count=3)
    return out, out[0] * 2, out["state"], out.to_tuple(), len(out), list(out), out.pooled is None


@cases(X, Output(state=X, count=2), changed=[(X, Output(state=X, count=3)), (X, Output(pooled=X)), (X, Output())])
def output_read(x, out):
    total = x + len(out)
    for key, value in out.items():
        total = total * value + len(key)
    return total, "state" in out, out.count


@cases(X, Output(state=X, count=2))
def output_changed(x, out):
    out.pooled = x * 2
    out["count"] = 7
    return out


@cases(X, Plain(a=1, b=X), changed=[(X, Plain(a=2, b=X)), (X, Plain(b=X, a=1)), (X, Plain(c=1))])
def plain_read(x, d):
    return x + d.get("a", 5), list(d), dict(d), {**d}, len(d), bool(d), "b" in d


@cases(X, Plain(a=1))
def plain_changed(x, d):
    d["b"] = x + 1
    d.update(c=x)
    del d["a"]
    d.extra = x * 2
    return d.pop("c"), d


@cases(X)
def plain_made(x):
    d = Plain({"a": x + 1}, b=2)
    d.note = "n"
    e = Plain([("k", x)])
    return d, e, d == {"a": 1}, type(d.copy()) is dict, d | {"c": 1}


@cases(X, Upper({"A": 1}), changed=[(X, Upper({"A": 2})), (X, Upper())])
def overridden(x, d):
    d["b"] = x + 1
    return d["a"] + x, d["b"], d["long"], list(d), d.get("a", 9), dict(d)


@cases(X)
def ordered_made(x):
    d = Ordered(a=x + 1, b=2)
    d.move_to_end("a")
    return d, d.count, list(d), list(reversed(list(d))), repr(Ordered(a=1))


@cases(X, Ordered(a=1, b=2))
def ordered_changed(x, d):
    d.move_to_end("a")
    d["c"] = x + 1
    return d, d.count


@cases(X, Stack([1, 2]), changed=[(X, Stack([1, 3])), (X, Stack([1])), (X, Stack([1, 2], name="other"))])
def list_read(x, s):
    return x + sum(s) + len(s) + len(s.name), s[0], s[-1:], [*s], 1 in s


@cases(X, Stack([1, 2]))
def list_changed(x, s):
    s.push(x + 1).push(3)
    s += [4]
    s[0] = x
    return s, s.pop()


@cases(X, Stack([1, 2]))
def list_only_appended(x, s):
    s.append(x + 1)


@cases(X)
def list_made(x):
    s = Stack([x + 1], "n")
    s.extend([1, 2])
    return s, len(s), s == [1], repr(Stack([1, 2])), s[1:] + [3]


@cases(X, Names({"a"}), changed=[(X, Names({"b"}))])
def set_changed(x, s):
    s.add("c")
    return x + s.added, "a" in s, s | {"z"}


@cases(X)
def set_made(x):
    s = Names(["a"])
    s.add("b")
    return x + len(s), s, s == {"a", "b"}, s & {"a"}


@cases(X)
def default_dict_made(x):
    groups = Groups()
    groups["a"].append(x + 1)
    groups["a"].append(2)
    return groups, groups.default_factory is list


@cases(X, {"a": 1})
def special_methods_by_name(x, d):
    d.__setitem__("b", 2)
    return x + d.__getitem__("a"), d.__len__(), d.__contains__("b"), [1].__add__([2]), [1].__eq__(3), [3].__iter__()


@cases(X)
def counted(x):
    counter = Counter("abca")
    counter["z"] += 2
    return x + counter["a"], counter["missing"], dict(counter)


test_programs = cases.test


def test_a_method_added_later_is_seen():
    class Box(dict):
        pass

    def read(x, box):
        return x + box["a"]

    lifted = framelift.compile(read, backend="eager")
    box = Box(a=1)
    assert lifted(X, box).equal(X + 1)
    Box.__getitem__ = lambda self, key: 10
    assert lifted(X, box).equal(X + 10)


def test_storage_is_guarded():
    def read(x, d):
        return x + len(d.keys())

    lifted = framelift.compile(read, backend="eager")
    assert lifted(X, Plain(a=1)).equal(X + 1)
    assert lifted(X, Plain(a=1, b=2)).equal(X + 2)


class Elsewhere:
    """Iterates over other items than it holds."""

    def __iter__(self):
        return iter(["p", "q"])


class OtherKeys(Elsewhere, dict):
    def keys(self):
        return ["a"]


class OtherItems(Elsewhere, list):
    pass


class OtherMembers(Elsewhere, set):
    pass


class OtherLetters(Elsewhere, str):
    pass


def test_what_c_code_asks_the_class_for_and_what_it_reads_itself():
    def f(x, d, items, members, letters):
        return (
            x + 1,
            [{"z": 0} | d, d | {"z": 0}, d.copy(), {**d}, dict(d)],
            ["".join(items), "-".join(letters), letters.join(items), list(items)],
            [set(members), frozenset(members), {"r"}.union(members), {"r"} | members, list(members)],
        )

    given = OtherKeys(a=1, b=2), OtherItems(["x"]), OtherMembers(["x"]), OtherLetters("ab")
    check(f, X, *given, fullgraph=True)
    check(
        lambda x: f(x, OtherKeys(a=1, b=2), OtherItems(["x"]), OtherMembers(["x"]), OtherLetters("ab")),
        X,
        fullgraph=True,
    )
