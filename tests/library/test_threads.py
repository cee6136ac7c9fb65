"""`threading.local` and its subclasses, in one graph: each thread sees its own."""

from __future__ import annotations

import threading

import pytest
import torch

import framelift
from tests.helpers import check
from tests.library.outcomes import outcomes
from tests.values.programs import x


class Depth(threading.local):
    depth = 0
    scale = 2

    @property
    def deeper(self):
        return self.depth + 1

    def enter(self):
        self.depth += 1
        return self.depth * self.scale


class Begins(threading.local):
    def __init__(self):
        self.depth = 3


def program(local):
    def fn(x):
        before = local.depth
        found = local.enter(), local.deeper
        local.new = [before]
        errors = outcomes(lambda: local.nothing, lambda: delattr(local, "nothing"))
        present = "new" in vars(local), isinstance(local, threading.local), getattr(local, "other", 7)
        del local.depth
        return x * found[0] + before, found, errors, present, local.new

    return fn


def in_thread(function):
    found = []
    thread = threading.Thread(target=lambda: found.append(function()))
    thread.start()
    thread.join()
    return found[0]


def test_an_instance_of_a_subclass():
    mine, theirs = Depth(), Depth()
    eager, lifted = program(mine), framelift.compile(program(theirs), backend="eager", fullgraph=True)
    for change in (lambda local: None, lambda local: setattr(local, "depth", 5), lambda local: None):
        change(mine)
        change(theirs)
        assert repr(lifted(x())) == repr(eager(x()))
        assert vars(mine) == vars(theirs)
    assert repr(in_thread(lambda: lifted(x()))) == repr(in_thread(lambda: eager(x())))
    Depth.scale = 3
    try:
        assert repr(lifted(x())) == repr(eager(x()))
    finally:
        Depth.scale = 2


def test_each_thread_has_its_own_value():
    local = Depth()
    local.depth = 4
    lifted = framelift.compile(lambda x: x + local.depth, backend="eager", fullgraph=True)
    assert torch.equal(lifted(x()), x() + 4)
    assert torch.equal(in_thread(lambda: lifted(x())), x())
    assert torch.equal(lifted(x()), x() + 4)


def test_an_init_that_each_thread_runs_is_left_to_python():
    local = Begins()
    lifted = framelift.compile(lambda x: x + local.depth, backend="eager")
    local.depth = 5
    assert torch.equal(lifted(x()), x() + 5)
    assert torch.equal(in_thread(lambda: lifted(x())), x() + 3)


def test_an_init_that_comes_later():
    local = Depth()
    lifted = framelift.compile(lambda x: x + local.depth, backend="eager")
    assert torch.equal(lifted(x()), x())
    Depth.__init__ = lambda self: setattr(self, "depth", 9)
    try:
        assert torch.equal(in_thread(lambda: lifted(x())), x() + 9)
    finally:
        del Depth.__init__


@pytest.mark.parametrize("kind", [threading.local])
def test_one_that_the_program_makes(kind):
    def fn(x):
        local = kind()
        local.a = x
        return local.a + 1, hasattr(local, "b")

    check(fn, x(), fullgraph=True)
