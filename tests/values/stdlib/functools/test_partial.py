"""`functools.partial`, its subclasses, and objects that are given another `__dict__`."""

from __future__ import annotations

import copy
import functools

import pytest
import torch

import framelift
from tests.helpers import check
from tests.values.cases import Cases, vector
from tests.values.functions.test_reloaded import copy_of

other_partial = copy_of("_functools").partial
cases = Cases()
X = vector()


def scaled(x, by=1, *more, plus=0):
    return x * by + plus + len(more)


class Named(functools.partial):
    label = "named"

    def twice(self, *args):
        return self(*args) * 2


class Counted(functools.partial):
    def __call__(self, *args, **kwargs):
        return super().__call__(*args, **kwargs) + 1


class Plain:
    pass


@cases(X)
def made(x):
    first = functools.partial(scaled, plus=2)
    second = functools.partial(first, x, 3)
    return second(), second.func is scaled, second.args[1:], second.keywords, first


@cases(X)
def of_a_subclass(x):
    named = Named(scaled, x, plus=1)
    named.note = "here"
    shown = repr(Named(int, 2))
    return named.twice(3), named.label, named, vars(named), isinstance(named, functools.partial), shown


@cases(X)
def with_a_call_of_its_own(x):
    inner = Counted(scaled, x)
    return inner(2), functools.partial(inner, 4)(), functools.partial(inner).func is inner


@cases(X)
def of_another_copy(x):
    partial = other_partial(scaled, x, plus=1)
    return partial(2), type(partial) is other_partial, isinstance(partial, functools.partial), partial


@cases(X, functools.partial(scaled, by=3), Named(scaled, plus=4))
def given(x, partial, named):
    return partial(x), named(x, 2), named.twice(x), partial.keywords, repr(functools.partial(int, 2))


@cases(X)
def copied(x):
    partial = functools.partial(scaled, x, plus=1)
    partial.note = [1]
    other, deep = copy.copy(partial), copy.deepcopy(functools.partial(max, 3))
    return other(2), other.note is partial.note, other.__dict__ is partial.__dict__, deep, partial.__reduce__()[1:]


@cases(X)
def with_attributes_it_is_not_taken_apart(x):
    inner = functools.partial(scaled, x)
    inner.note = 1
    return functools.partial(inner, 2)(), functools.partial(inner).func is inner


@cases(X)
def errors(x):
    said = []
    for wrong in (
        lambda: functools.partial(),
        lambda: functools.partial(3),
        lambda: setattr(functools.partial(int), "func", 1),
        lambda: functools.partial(int).__setstate__((1, 2)),
        lambda: len.nothing,
    ):
        try:
            wrong()
        except (TypeError, AttributeError) as error:
            said.append(f"{type(error).__name__}: {error}")
    return x + 1, said


@cases(X)
def another_dict(x):
    one, two = Plain(), Plain()
    one.a = 1
    two.__dict__ = one.__dict__
    two.b = 2
    three = Plain()
    three.__dict__ = {"c": x}
    return x + one.b, one, two, three, vars(one) is vars(two)


test_programs = cases.test


def test_what_it_calls_is_guarded():
    lifted = framelift.compile(lambda x, partial: partial(x), backend="eager", fullgraph=True)
    for by in (2, 3, 2):
        assert torch.equal(lifted(X, Named(scaled, by=by)), X * by)


def test_a_subclass_that_gets_a_call_of_its_own():
    class Changing(functools.partial):
        pass

    lifted = framelift.compile(lambda x, partial: partial(x), backend="eager", fullgraph=True)
    partial = Changing(scaled, by=2)
    assert torch.equal(lifted(X, partial), X * 2)
    Changing.__call__ = lambda self, x: x - 1
    assert torch.equal(lifted(X, partial), X - 1)


def test_the_reason_of_a_break_inside_a_generator_is_told():
    import contextlib  # noqa: PLC0415

    @contextlib.contextmanager
    def block():
        yield

    def program(x):
        with block():
            open("nowhere")  # noqa: SIM115, PTH123
        return x + 1

    with pytest.raises(framelift.errors.FullGraphError, match="open"):
        framelift.compile(program, backend="eager", fullgraph=True)(X)


def test_a_partial_as_attribute_of_a_class_made_in_the_program():
    """From 3.13 on one warns, found through an instance."""

    def program(x):
        class Holder:
            scaled_twice = functools.partial(scaled, by=2)
            static = staticmethod(functools.partial(scaled, by=3))

        return Holder().scaled_twice(x), Holder.scaled_twice(x), Holder().static(x)

    check(program, X, expect_breaks=None, expect_hit=False)
