"""Context variables."""

from __future__ import annotations

import contextvars

import framelift
from tests.helpers.record import Record
from tests.values.cases import Cases, vector

cases = Cases()
X = vector()
DEPTH: contextvars.ContextVar = contextvars.ContextVar("depth", default=1)
UNSET: contextvars.ContextVar = contextvars.ContextVar("unset")


@cases(X)
def set_and_reset(x):
    token = DEPTH.set(5)
    try:
        inner = DEPTH.set([x])
        x = x + len(DEPTH.get())
        DEPTH.reset(inner)
        x = x * DEPTH.get()
    finally:
        DEPTH.reset(token)
    return x + DEPTH.get()


@cases(X, expect_breaks=None, expect_ops=0)
def without_a_value(x):
    try:
        return x + UNSET.get()
    except LookupError:
        return x + UNSET.get(7)


@cases(X)
def reset_out_of_order(x):
    first, second, third = DEPTH.set(2), DEPTH.set(3), DEPTH.set(4)
    DEPTH.reset(second)
    x = x + DEPTH.get()
    DEPTH.reset(third)
    x = x * DEPTH.get()
    DEPTH.reset(first)
    return x + DEPTH.get(), first.var is DEPTH, second.old_value


@cases(X, expect_breaks=None)
def reset_by_a_token_that_does_not_fit(x):
    token = DEPTH.set(2)
    found = []
    try:
        UNSET.reset(token)
    except ValueError as error:
        found.append(type(error))
    DEPTH.reset(token)
    try:
        DEPTH.reset(token)
    except RuntimeError as error:
        found.append(type(error))
    return x + DEPTH.get(), found


@cases(X)
def variables_of_the_program(x):
    own, bare = contextvars.ContextVar("own", default=x), contextvars.ContextVar("bare")
    token = own.set([2])
    found = own.get()[0], bare.get(5), own.name, token.var is own
    own.reset(token)
    try:
        bare.get()
    except LookupError as error:
        found += (error.args[0] is bare,)
    return own.get() + 1, found


@cases(X)
def copied(x):
    token = DEPTH.set(2)

    def inside(amount, *, more):
        seen = DEPTH.get()
        DEPTH.set(seen + amount + more)
        UNSET.set("inside")
        return x + DEPTH.get()

    copy = contextvars.copy_context()
    DEPTH.set(9)
    results = copy.run(inside, 1, more=2), copy.run(inside, 1, more=2)
    found = copy[DEPTH], copy.get(UNSET), UNSET in copy, DEPTH.get(), UNSET.get(None), copy.copy()[DEPTH]
    DEPTH.reset(token)
    return results, found, DEPTH.get()


@cases(X)
def copies_of_copies(x):
    own = contextvars.ContextVar("own", default=1)

    def outer():
        own.set(2)
        inner = contextvars.copy_context()
        own.set(3)
        return inner.run(own.get), own.get(), inner.run(own.set, 4).var is own, inner[own]

    return x + 1, contextvars.copy_context().run(outer), own.get()


@cases(X)
def a_copy_that_raises(x):
    def fails():
        DEPTH.set(7)
        raise ValueError("a")

    copy = contextvars.copy_context()
    try:
        copy.run(fails)
    except ValueError as error:
        return x + DEPTH.get(), str(error), copy[DEPTH]


@cases(X)
def not_in_a_copy(x):
    copy = contextvars.copy_context()
    try:
        copy[UNSET]
    except KeyError as error:
        return x + 1, error.args[0] is UNSET, copy.get(UNSET, 4), UNSET in copy


test_programs = cases.test


def test_a_new_variable_leaves_the_frame():
    def f(x):
        own = contextvars.ContextVar("own", default=x)
        return x + 1, own

    made = framelift.compile(f, backend="eager", fullgraph=True)(X)[1]
    assert made.name == "own" and made.get() is X


def test_what_is_left_after_resets_out_of_order():
    def f(x):
        first = DEPTH.set(2)
        DEPTH.set(3)
        DEPTH.reset(first)
        kept = DEPTH.set(4)
        DEPTH.set(5)
        return x + 1, kept

    def run():
        kept = framelift.compile(f, backend="eager", fullgraph=True)(X)[1]
        found = [DEPTH.get()]
        DEPTH.reset(kept)
        return [*found, DEPTH.get()]

    assert contextvars.copy_context().run(run) == [5, 1]


def test_a_copy_sees_the_context_of_the_call():
    def f(x):
        return x + contextvars.copy_context().run(DEPTH.get), contextvars.copy_context().get(DEPTH)

    lifted = framelift.compile(f, backend="eager", fullgraph=True)

    def run(depth):
        DEPTH.set(depth)
        return lifted(X)

    for depth in (3, 4, 3):
        total, seen = contextvars.copy_context().run(run, depth)
        assert total.equal(X + depth) and seen == depth
    assert lifted(X)[1] is None


def test_the_context_is_guarded():
    def f(x):
        return x + DEPTH.get()

    lifted = framelift.compile(f, backend="eager")
    assert lifted(X).equal(X + 1)
    token = DEPTH.set(4)
    assert lifted(X).equal(X + 4)
    assert contextvars.Context().run(lifted, X).equal(X + 1)
    with Record().listening() as record:
        assert lifted(X).equal(X + 4)
    DEPTH.reset(token)
    assert not record.captures


def test_what_is_left_set():
    def f(x):
        DEPTH.set(x + 1)
        return x

    def run():
        framelift.compile(f, backend="eager")(X)
        return DEPTH.get()

    assert contextvars.copy_context().run(run).equal(X + 1)


def test_tokens_live_over_a_break():
    def f(x):
        outer = DEPTH.set(2)
        inner = DEPTH.set(3)
        x = x + DEPTH.get()
        framelift.graph_break()
        x = x * DEPTH.get()
        DEPTH.reset(inner)
        x = x + DEPTH.get()
        DEPTH.reset(outer)
        return x + DEPTH.get()

    lifted = framelift.compile(f, backend="eager")
    assert lifted(X).equal((X + 3) * 3 + 3)
    assert lifted(X).equal((X + 3) * 3 + 3)
    assert DEPTH.get() == 1
