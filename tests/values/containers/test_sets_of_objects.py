"""Sets of objects that came from outside: members are guarded by identity, their equality is the program's."""

from __future__ import annotations

import enum

import pytest
import torch

from tests.helpers import check
from tests.values.programs import Programs, follow, x

programs = Programs()


class Key:
    def __init__(self, *parts):
        self.parts = parts

    def __eq__(self, other):
        return isinstance(other, Key) and self.parts == other.parts

    def __hash__(self):
        return hash(self.parts)

    def __repr__(self):
        return f"Key{self.parts}"


class Mode(enum.Enum):
    SUM = 1
    MEAN = 2


class Plain:
    pass


SUMS = {Mode.SUM}
KEYS = {Key(1), Key(2)}


@programs(args=(x(), {Key(1), Key(2)}, Key(2)), expect_hit=False)
def asked(x, members, key):
    return x * len(members), key in members, Key(1) in members, Key(3) not in members, members >= {Key(1)}


@programs(args=(x(), {Key(1), Key(2)}))
def changed(x, members):
    members.add(Key(1))
    members.add(Key(3))
    members.discard(Key(2))
    try:
        members.remove(Key(7))
    except KeyError as error:
        return x * len(members), str(error)


@programs(args=(x(), {Key(1), Key(2)}, {Key(2), Key(3)}))
def combined(x, left, right):
    left |= right
    rest = left - right
    right.clear()
    return x * len(left), len(rest), Key(1) in rest, len(left ^ KEYS), left.isdisjoint([Key(9)])


@programs(args=(x(), {Key(1), Key(2), Key(3)}, frozenset([Key(4)])), expect_hit=False)
def walked(x, members, frozen):
    for key in members:
        x = x * key.parts[0]
    return x, [key.parts for key in members], [key.parts for key in frozen]


@programs(args=(x(), {Key(1): {Key(2)}, "t": {(Key(1), 2)}}))
def within_other_things(x, entries):
    entries[Key(1)].add(Key(5))
    return x * len(entries[Key(1)]), (Key(1), 2) in entries["t"]


class Seen(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.seen = set()

    def forward(self, x):
        key = Key(*x.shape)
        is_new = key not in self.seen
        self.seen.add(key)
        return x * (2 if is_new else 3), len(self.seen)


@pytest.mark.parametrize("mode", Mode)
def test_enums(mode):
    def fn(x, mode):
        return (x.sum() if mode in SUMS else x.mean()), SUMS | {mode} == {Mode.SUM}

    check(fn, x(), mode, fullgraph=True, changed=[(x(), other) for other in Mode])


def test_in_a_module():
    check(Seen(), x(), fullgraph=True, expect_hit=False, changed=[(torch.ones(1, 3),), (x(),), (torch.ones(4, 3),)])


def test_what_invalidates():
    one, other, key, extra = Plain(), Plain(), Key(1), Plain()
    tensor, equal = torch.ones(2), torch.ones(2)
    members, keys, wanted = {one, tensor}, {key}, [one, tensor]

    def fn(x):
        return x + (wanted[0] in members), x * (wanted[1] in members), Key(1) in keys

    follow(
        fn,
        (x(),),
        lambda: wanted.__setitem__(0, other),
        lambda: wanted.__setitem__(1, equal),
        lambda: members.add(other),
        lambda: setattr(key, "parts", (1, 0)),
        lambda: keys.add(extra),
        lambda: members.discard(tensor),
    )


def test_another_equality_is_seen():
    class Own(Key):
        __hash__ = Key.__hash__

    members = {Own(1)}

    def fn(x):
        return x * 2 if Own(1) in members else x * 3

    follow(fn, (x(),), lambda: setattr(Own, "__eq__", lambda self, other: False))


test_programs = programs.test()
