"""After a capture nothing of it keeps the objects of the program alive."""

from __future__ import annotations

import gc
import weakref

import pytest
import torch

import framelift


class Given:
    number = 1


class Made:
    pass


def in_an_object(x, given):
    made = Made()
    made.given = given
    return x + given.number


def in_a_closure(x, given):
    def f():
        return given

    f.mark = 1
    return x + f().number


def in_a_generator(x, given):
    def items():
        yield given.number
        yield given

    return x + next(items())


def in_its_own_attribute(x, given):
    given.call = lambda: given.number
    x = x + given.call()
    del given.call
    return x


def before_a_break(x, given):
    made = Made()
    made.given = given
    framelift.graph_break()
    return x + given.number


@pytest.mark.parametrize("function", [in_an_object, in_a_closure, in_a_generator, in_its_own_attribute, before_a_break])
def test_what_was_given_dies_with_its_last_reference(function):
    framelift.compile(lambda x: x + 1, backend="eager")(torch.ones(2))  # what the first capture of all leaves behind
    lifted = framelift.compile(function, backend="eager")
    gc.collect()
    gc.disable()
    try:
        given = Given()
        given.tensor = torch.ones(2)
        seen = weakref.ref(given), weakref.ref(given.tensor)
        assert lifted(torch.ones(2), given).tolist() == [2, 2]
        del given
        assert [ref() for ref in seen] == [None, None]
    finally:
        gc.enable()
