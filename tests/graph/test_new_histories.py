"""A tensor is given a history by what is written to it; what may be done to its views then is for autograd to say.

Autograd says so in odd ways: an operation in place on a view of it raises, unless somebody has looked at the view.
"""

from __future__ import annotations

import random
import traceback

import pytest
import torch

import framelift

LOG: list[str] = []


def at_once(x, view, weight):
    LOG.append("begun")
    view.add_(1)
    x.copy_(x * weight)
    LOG.append("written")
    view.add_(1)
    return x


def behind_what_may_raise(x, view, weight):
    view.add_(1)
    LOG.append(str(random.randint(3, 3)))
    x.copy_(x * weight)
    view.add_(1)
    return x


def handled(x, view, weight):
    try:
        x.copy_(x * weight)
        view.add_(1)
    except RuntimeError as error:
        LOG.append(str(error))
    return x * 2


def looked_at(x, view, weight):
    x.copy_(x * weight)
    shown = view.requires_grad, view.is_leaf
    return shown, view * 2


def outcome(function):
    weight, x = torch.full((3,), 2.0, requires_grad=True), torch.ones(2, 3)
    LOG.clear()
    line = None
    try:
        result = function(x, x[:, :], weight)
    except RuntimeError as error:
        result = str(error)
        line = [entry.lineno for entry in traceback.extract_tb(error.__traceback__)][-1]
    return str(result), line, x.tolist(), x.requires_grad, LOG.copy()


# Not by `check`: looking at the arguments before would change what happens.
@pytest.mark.parametrize("program", [at_once, behind_what_may_raise, handled, looked_at])
def test_views(program):
    lifted = framelift.compile(program, backend="eager")
    expected = outcome(program)
    assert outcome(lifted) == expected
    assert outcome(lifted) == expected
