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


test_programs = cases.test


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
