"""Operations on constants that run while capturing: what they warn about is heard in each call, from the program."""

import re
import sys
import warnings

import pytest
import torch

import framelift
from framelift.values.core import protocol
from tests.helpers import check


class Text(str):
    def __rmod__(self, other):
        return f"{other} and then {str(self)}"

    def __radd__(self, other):
        return f"{other}, {str(self)}"


class Grown(str):
    def __iadd__(self, other):
        return f"{str(self)} grew by {other}"


class Sum(str):
    def __add__(self, other):
        return f"{str(self)} with {other}"


def _template(x):
    return x + len(re.sub("(?P<a>x)", r"\g<+1>", "xx"))


def _pattern(x):
    return x + len(re.findall("[a||b]", "a|b"))


def _truth(x):
    return x + bool(NotImplemented)


def _truth_of_an_input(x, given=NotImplemented):
    return x + 1 if given else x


def _inverted(x):
    return x + ~True


_WARNED = [_pattern, *([_template] if sys.version_info < (3, 12) else [])]
_WARNED += [_truth, _truth_of_an_input] if sys.version_info < (3, 14) else []
_WARNED += [_inverted] if sys.version_info >= (3, 12) else []


@pytest.mark.parametrize("fn", _WARNED)
def test_a_constant_operation_that_warns(fn):
    re.purge()
    with warnings.catch_warnings(record=True) as expected:
        warnings.simplefilter("always")
        eager = fn(torch.ones(2))
    lifted = framelift.compile(fn, backend="eager")
    for _ in range(2):
        re.purge()
        with warnings.catch_warnings(record=True) as heard:
            warnings.simplefilter("always")
            assert torch.equal(lifted(torch.ones(2)), eager)
        assert [(str(w.message), w.category, w.filename) for w in heard] == [
            (str(w.message), w.category, w.filename) for w in expected
        ]
    assert not protocol.__warningregistry__


@pytest.mark.parametrize("fn", _WARNED)
def test_a_constant_operation_that_warns_within_filters_of_the_program(fn):
    def heard(x):
        re.purge()
        with warnings.catch_warnings(record=True) as told:
            warnings.simplefilter("always")
            y = fn(x)
        return y, [str(warning.message) for warning in told]

    check(heard, torch.ones(2), expect_breaks=None, expect_ops=0)


def test_a_subclass_on_the_right_goes_first():
    def fn(x):
        text = Text("more")
        return x + 1, "%s" % text, "a" + text, b"a" + text if False else 0, "%s" % Sum("s"), "a" + Sum("s")  # noqa: UP031

    check(fn, torch.ones(2), expect_breaks=None)


def test_an_operation_in_place_of_a_text():
    def fn(x):
        grown = Grown("a")
        grown += "b"
        total = Sum("a")
        total += "b"
        return x + 1, grown, total, Sum("a") + Sum("b")

    check(fn, torch.ones(2))


def test_shifting_print():
    def fn(x):
        y = x + 1
        try:
            print >> sys.stderr  # noqa: F633
        except TypeError as error:
            return y, str(error)

    check(fn, torch.ones(2), expect_breaks=None)


def test_a_number_of_an_input_in_bytes():
    def fn(x, number):
        try:
            found = number + 1 in b"abc"
        except ValueError as error:
            found = str(error)
        return x + 1, found

    check(fn, torch.ones(2), 96, changed=[(torch.ones(2), sys.maxsize), (torch.ones(2), 1)])
