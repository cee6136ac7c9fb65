"""Locks the program makes, `fromkeys`, and the parts of format strings."""

from __future__ import annotations

import collections
import string
import threading

import pytest
import torch

import framelift
from tests.helpers import check


@pytest.mark.parametrize("make", [threading.RLock, threading.Lock])
def test_locks_made_here(make):
    def f(x):
        lock = make()
        with lock:
            y = x + 1
        taken = lock.acquire()
        lock.release()
        try:
            lock.release()
        except RuntimeError as error:
            text = str(error)
        return y, taken, text

    check(f, torch.ones(2))
    assert framelift.compile(lambda x: (x + 1, make()), backend="eager", fullgraph=True)(torch.ones(1))[1].acquire()


def test_fromkeys_of_other_dicts():
    class Mine(dict):
        pass

    def f(x):
        ordered = collections.OrderedDict.fromkeys("ab", x)
        return x + 1, ordered, type(Mine.fromkeys([1, 2])), list(Mine.fromkeys([1, 2]))

    check(f, torch.ones(2))


def test_parts_of_a_template():
    def f(x):
        formatter = string.Formatter()
        return x + 1, list(formatter.parse("a{b!r:>3}c")), formatter.format("{0[k]} {n.real}", {"k": 1}, n=2)

    check(f, torch.ones(2))
