"""Keys whose `__hash__` and `__eq__` have effects: they are asked as often as in Python."""

from __future__ import annotations

import pytest
import torch

import framelift
from tests.helpers import check

ASKED = {"hash": 0, "==": 0}


class Key:
    def __init__(self, number):
        self.number = number

    def __hash__(self):
        ASKED["hash"] += 1
        return hash(self.number)

    def __eq__(self, other):
        ASKED["=="] += 1
        return self.number == other.number


USES = [
    lambda x, d, k: (x + 1, d.__setitem__(k, 1)),
    lambda x, d, k: x + d.get(k, 2),
    lambda x, d, k: (d.pop(k, None), x + 1),
    lambda x, d, k: (x + 1, {k: 1}),
    lambda x, d, k: (x + 1, {k}),
    lambda x, d, k: x + len({k, 1}),
    lambda x, d, k: x + {k: 1}[k],
    lambda x, d, k: x + (k in d),
    lambda x, d, k: (x + 1, dict(d)),
    lambda x, d, k: (d.update({k: 5}), x + 1),
    lambda x, d, k: (x + 1, frozenset([k, Key(3)])),
    lambda x, d, k: (x + 1, {k: x}.keys() & {k}),
]


def _asked(function):
    found = []
    for keys, key in (([Key(1), Key(2)], Key(2)), ([Key(1)], Key(7))):
        given = dict.fromkeys(keys, 1)
        ASKED.update({"hash": 0, "==": 0})
        function(torch.ones(2), given, key)
        found.append((ASKED.copy(), len(given)))
    return found


@pytest.mark.parametrize("use", USES)
def test_keys_are_asked_as_often_as_in_python(use):
    lifted = framelift.compile(use, backend="eager")
    assert _asked(use) == _asked(lifted) == _asked(lifted)


def test_a_container_that_stays_inside_needs_no_break():
    def f(x, k):
        return x + {k: 1}[k], ASKED["hash"]

    check(f, torch.ones(2), Key(1), fullgraph=True)
