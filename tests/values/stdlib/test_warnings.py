"""`warnings.catch_warnings` in the program: what it records, ignores and raises, as without framelift."""

from __future__ import annotations

import warnings

import pytest
import torch

import framelift
from framelift.errors import FullGraphError
from tests.helpers import check

X = torch.arange(3.0)


def careful(level=1):
    warnings.warn("careful", DeprecationWarning, stacklevel=level)
    return 2


def recorded(x):
    with warnings.catch_warnings(record=True) as found:
        warnings.simplefilter("always")
        by = careful()
        warnings.warn("plain")
        warnings.warn(UserWarning("an instance"))
    told = [(str(one.message), one.category, one.lineno, one.filename[-9:], one.source) for one in found]
    return x * by, told, len(warnings.filters)


def ignored(x):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        by = careful()
    return x * by


def raised(x):
    with warnings.catch_warnings():
        warnings.simplefilter("error", DeprecationWarning)
        try:
            careful()
        except DeprecationWarning as error:
            said = str(error)
    return x + len(said)


def nested(x):
    with warnings.catch_warnings(record=True) as outer:
        warnings.simplefilter("always")
        with warnings.catch_warnings():
            warnings.filterwarnings("ignore", message="care")
            careful()
            warnings.warn("heard")
        careful()
    return x + 1, [str(one.message) for one in outer]


def own_way(x):
    told = []
    before = warnings.showwarning
    with warnings.catch_warnings():
        warnings.simplefilter("always")
        warnings.showwarning = lambda message, category, filename, lineno, file, line: told.append(str(message))
        careful()
    return x + 1, told, warnings.showwarning is before


def afterwards(x):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        careful()
    warnings.warn("heard by all")
    return x + 1


@pytest.mark.parametrize("program", [recorded, ignored, raised, nested, own_way, afterwards])
def test_programs(program):
    check(program, X, fullgraph=True)


def shows_once(x):
    with warnings.catch_warnings(record=True) as found:
        warnings.simplefilter("default")
        for _ in range(2):
            careful()
    return x + len(found)


def with_an_operation_inside(x):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        y = x + careful()
    return y * 2


def about_the_caller(x):
    with warnings.catch_warnings(record=True) as found:
        warnings.simplefilter("always")
        careful(3)
    return x + len(found)


@pytest.mark.parametrize("program", [shows_once, with_an_operation_inside, about_the_caller])
def test_what_is_left_to_python(program):
    check(program, X, expect_breaks=None)
    with pytest.raises(FullGraphError):
        framelift.compile(program, backend="eager", fullgraph=True)(X)


def test_operations_that_torch_warns_about_are_heard_as_in_python():
    def program(x):
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            y = torch.range(0, 2)  # which is deprecated
        return x + y

    def outside(x):
        return x + torch.range(0, 2)

    for function, expected in ((program, 0), (outside, 1)):
        with warnings.catch_warnings(record=True) as found:
            warnings.simplefilter("always")
            assert torch.equal(framelift.compile(function, backend="eager")(X), X * 2)
        assert len(found) == expected


def test_filters_from_outside_are_guarded():
    lifted = framelift.compile(lambda x: x * careful(), backend="eager")
    for action, expected in (("ignore", 0), ("always", 1), ("ignore", 0)):
        with warnings.catch_warnings(record=True) as found:
            warnings.simplefilter(action)
            assert torch.equal(lifted(X), X * 2)
        assert len(found) == expected
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        with pytest.raises(DeprecationWarning):
            lifted(X)
