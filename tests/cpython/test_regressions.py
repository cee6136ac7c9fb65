"""What CPython's own tests found, as small programs. One section per family of values."""

from __future__ import annotations

import enum
import sys

import pytest

import framelift
from framelift import config
from tests.helpers import check
from tests.values.programs import Programs, x

programs = Programs()


class Oops(Exception):
    pass


# -- exceptions ------------------------------------------------------------------------------------------------------


@programs
def no_traceback_before_it_is_raised(x):
    error = Oops(1)
    before = error.__traceback__
    try:
        raise error
    except Oops:
        during = error.__traceback__ is not None
    return x + 1, before, during, error.with_traceback(None).__traceback__


@programs
def raised_again_in_another_handler(x):
    error = Oops(1)
    contexts = []
    for kind in (KeyError, IndexError):
        try:
            try:
                raise kind
            except (KeyError, IndexError):
                raise error
        except Oops:
            contexts.append(type(error.__context__))
    return x + 1, contexts


@programs
def circle_of_contexts_is_cut(x):
    first, second = Oops(1), Oops(2)
    try:
        try:
            raise first
        except Oops:
            raise second
    except Oops:
        try:
            raise first
        except Oops:
            return x + 1, first.__context__ is second, second.__context__


@programs
def own_circle_of_contexts(x):
    first, second = Oops(1), Oops(2)
    first.__context__, second.__context__ = second, first
    try:
        try:
            raise first
        except Oops:
            raise KeyError
    except KeyError as error:
        return x + 1, error.__context__ is first


@programs
def context_removed_in_the_handler(x):
    try:
        try:
            raise KeyError
        except KeyError:
            try:
                raise Oops(1)
            except Oops as error:
                error.__context__ = None
                raise
    except Oops as error:
        return x + 1, error.__context__


# -- long loops and large objects ------------------------------------------------------------------------------------


def many_rounds(x, n):
    total = 0
    for i in range(n):
        total += i % 3
    return x + total


def many_calls(x, n):
    def fibonacci(n):
        return n if n < 2 else fibonacci(n - 1) + fibonacci(n - 2)

    return x + fibonacci(n)


def many_items(x, n):
    return x + len(set(range(n))) + len([0] * n)


@pytest.mark.parametrize(("program", "n"), [(many_rounds, 1000), (many_calls, 12), (many_items, 5000)])
def test_what_takes_too_long_to_trace_is_left_to_python(program, n):
    with config.patch(trace_limit=100):
        check(program, x(), n, expect_breaks=1, expect_ops=0)
    framelift.reset()
    check(program, x(), n, expect_breaks=0)


@programs(expect_breaks=1, expect_ops=0)
def product_without_memory(x):
    try:
        [1, 2] * (2**62)
    except (MemoryError, OverflowError):
        return x + 1


@programs(expect_breaks=1, expect_ops=0)
def constants_without_memory(x):
    try:
        "ab" * (2**62)
    except (MemoryError, OverflowError):
        return x + 1


# -- subclasses of containers ----------------------------------------------------------------------------------------


class Set(set):
    pass


class Colour(str, enum.Enum):
    RED = "r"
    NONE = ""


@programs(expect_breaks=1, expect_ops=0)
def set_made_of_too_many_arguments(x):
    s = Set()
    try:
        s.__init__(s, 2)
    except TypeError as error:
        return x + 1, str(error)


@programs(expect_breaks=1)
def two_sets_that_cross_a_break(x):
    x = x + 1
    first, second = Set([1, 2]), Set(["a"])
    framelift.graph_break()
    return x, first, second


@programs
def truth_of_a_member_that_is_a_string(x):
    return x + 1, bool(Colour.RED), not Colour.NONE, [c.name for c in Colour if c]


# -- sequences -------------------------------------------------------------------------------------------------------


@programs
def slices_without_a_step(x):
    said = []
    for act in (lambda s: s[::0], lambda s: s.__delitem__(slice(0, 1, 0)), lambda s: s.__setitem__(slice(0, 1, 0), [])):
        try:
            act([1, 2])
        except ValueError as error:
            said.append(str(error))
    try:
        (1, x)[::0]
    except ValueError as error:
        said.append(str(error))
    return x + 1, said


@programs
def ranges_longer_than_an_index(x):
    numbers = iter(range(2**70))
    return x + 1, next(numbers), next(numbers), list(zip(range(2**65), "ab"))


# -- the stack -------------------------------------------------------------------------------------------------------


def test_no_room_for_the_question_whether_a_frame_is_lifted():
    """A program may lower the limit so far that only its own calls fit."""

    def leaf(x):
        return x + 1

    def lower(x):
        before = sys.getrecursionlimit()
        depth = 1
        while True:
            try:
                sys.setrecursionlimit(depth)
                break
            except RecursionError:
                depth += 1
        try:
            sys.setrecursionlimit(depth + 2)
            return leaf(x)
        finally:
            sys.setrecursionlimit(before)

    assert framelift.compile(lower, backend="eager")(x()).equal(x() + 1)


test_programs = programs.test()
