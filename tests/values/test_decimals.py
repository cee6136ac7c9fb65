"""Decimals: computed while capturing, in the context of the call."""

from __future__ import annotations

import decimal
import threading
from decimal import Decimal
from typing import Any

import pytest
import torch

import framelift
from tests.helpers.check import check

X = torch.tensor([1.0, 2.0])
RATE = Decimal("0.075")


def test_arithmetic_of_constants() -> None:
    def f(x: torch.Tensor) -> Any:
        total = Decimal("1.1") + Decimal("2.2") * 3 - 1
        third = 1 / total
        return x * float(total), total, third, -third, +total, abs(-total), total**2, 2**total, total % 2, 7 // total

    check(f, X)


def test_inputs_are_guarded_by_their_text() -> None:
    def f(x: torch.Tensor, price: Decimal) -> Any:
        return x * float(price), str(price), price * RATE

    check(f, X, Decimal("1.0"), changed=[(X, Decimal("1.00")), (X, Decimal("-0")), (X, Decimal("NaN1"))])


def test_an_equal_decimal_hits() -> None:
    def f(x: torch.Tensor, price: Decimal) -> Any:
        return x * float(price), price

    lifted = framelift.compile(f, backend="eager", fullgraph=True)
    for text in ("1.10", "1.10"):
        price = Decimal(text)
        assert lifted(X, price)[1] is price


def test_trapped_errors() -> None:
    def f(x: torch.Tensor, text: str, divisor: int) -> Any:
        try:
            return x + 1, Decimal(text) / divisor
        except ZeroDivisionError as error:
            return x + 2, type(error).__name__, error.args
        except decimal.InvalidOperation as error:
            return x + 3, type(error).__name__, str(error)

    check(f, X, "1", 0, changed=[(X, "x", 1), (X, "0", 0), (X, "1", 3)])


def test_errors_leave_the_frame() -> None:
    def f(x: torch.Tensor, divisor: int) -> Any:
        y = x + 1
        return y, Decimal(1) / 3, Decimal(1) / divisor

    check(f, X, 0, expect_ops=0, expect_breaks=None)


@pytest.mark.parametrize("other", [1.5, "a", None, 2j])
def test_what_decimals_do_not_take(other: Any) -> None:
    def f(x: torch.Tensor, other: Any) -> Any:
        try:
            return x + 1, Decimal(1) + other
        except TypeError as error:
            return x + 1, str(error), Decimal("1.5") == other, other != Decimal("1.5")

    check(f, X, other)


def test_the_context_is_seen() -> None:
    def f(x: torch.Tensor) -> Any:
        return x * 2, Decimal(1) / 3

    lifted = framelift.compile(f, backend="eager")
    with decimal.localcontext() as context:
        for change in ({}, {"prec": 5}, {"rounding": decimal.ROUND_UP}, {"prec": 5, "Emax": 10, "Emin": -10}):
            for name, value in change.items():
                setattr(context, name, value)
            assert lifted(X)[1] == f(X)[1]
        context.traps[decimal.Inexact] = True
        with pytest.raises(decimal.Inexact):
            lifted(X)
    assert lifted(X)[1] == f(X)[1]


def test_another_thread_has_another_context() -> None:
    def f(x: torch.Tensor) -> Any:
        return x * 2, Decimal(1) / 3

    lifted = framelift.compile(f, backend="eager", fullgraph=True)
    results = []

    def elsewhere() -> None:
        decimal.getcontext().prec = 4
        results.append((lifted(X)[1], decimal.getcontext().flags[decimal.Inexact]))

    lifted(X)
    thread = threading.Thread(target=elsewhere)
    thread.start()
    thread.join()
    assert results == [(Decimal("0.3333"), True)]


def test_flags_are_raised_by_calls_not_by_capture() -> None:
    def f(x: torch.Tensor, text: str) -> Any:
        return x * 2, Decimal(text) / 3

    lifted = framelift.compile(f, backend="eager", fullgraph=True)
    with decimal.localcontext() as context:
        context.clear_flags()
        for text, inexact in (("3", False), ("1", True), ("3", False), ("1", True)):
            lifted(X, text)
            assert context.flags[decimal.Inexact] is inexact
            context.clear_flags()


# -- contexts --------------------------------------------------------------------------------------------------------


def test_a_context_is_read_and_changed() -> None:
    def f(x: torch.Tensor) -> Any:
        context = decimal.getcontext()
        before = context.prec, context.rounding, context.Emin, context.Emax, context.capitals, context.clamp
        context.prec = 5
        context.rounding = decimal.ROUND_UP
        third = Decimal(1) / 3
        context.prec += 2
        context.capitals = 0
        return x * 2, before, third, Decimal(1) / 3, str(Decimal("1E+9"))

    check(f, X, expect_hit=False)


def test_attributes_that_a_context_rejects() -> None:
    def f(x: torch.Tensor, name: str, value: Any) -> Any:
        try:
            setattr(decimal.getcontext(), name, value)
        except (ValueError, TypeError, AttributeError) as error:
            return x + 1, type(error).__name__, str(error)
        return x + 2

    check(f, X, "prec", 0, changed=[(X, "rounding", "UP"), (X, "spam", 1), (X, "prec", "a"), (X, "clamp", 1)])


def test_local_contexts() -> None:
    def f(x: torch.Tensor) -> Any:
        results = [Decimal(1) / 7]
        with decimal.localcontext() as outer:
            outer.prec = 4
            results.append(Decimal(1) / 7)
            with decimal.localcontext(prec=2, rounding=decimal.ROUND_DOWN) as inner:
                results.append(Decimal(2) / 3)
                results.append(Decimal(inner.prec))
            results.append(Decimal(2) / 3)
        with decimal.localcontext(decimal.Context(prec=3)):
            results.append(+Decimal("1.23456"))
        results.append(Decimal(2) / 3)
        return x * 2, results

    check(f, X)


def test_a_local_context_is_left_by_an_exception() -> None:
    def f(x: torch.Tensor) -> Any:
        try:
            with decimal.localcontext(prec=3):
                Decimal(1) / 0
        except decimal.DivisionByZero:
            return x + 1, Decimal(1) / 3
        return x

    check(f, X)


def test_a_break_in_a_local_context() -> None:
    def f(x: torch.Tensor) -> Any:
        Decimal(1) / 3
        with decimal.localcontext() as context:
            context.prec = 5
            y = x * 2
            framelift.graph_break()
            third = Decimal(1) / 3
            seen = decimal.getcontext() is context, context.prec, context.flags[decimal.Inexact]
            context.clear_flags()
            framelift.graph_break()
            seen += (context.flags[decimal.Inexact],)
        return y + 1, third, seen, Decimal(1) / 3

    check(f, X, expect_breaks=None, expect_hit=False)


def test_a_context_leaves_the_frame() -> None:
    def f(x: torch.Tensor) -> Any:
        with decimal.localcontext(prec=7) as local:
            Decimal(1) / 3
        Decimal("1.5").quantize(Decimal(1))
        made = decimal.Context(prec=3, traps=[decimal.Inexact])
        copied = decimal.getcontext().copy()
        return x * 2, local, made, copied, decimal.getcontext()

    check(f, X)


def test_a_context_is_set() -> None:
    def f(x: torch.Tensor, context: decimal.Context) -> Any:
        before = decimal.getcontext()
        decimal.setcontext(context)
        third = Decimal(1) / 3
        same = decimal.getcontext() is context
        decimal.setcontext(before)
        return x * 2, third, same, decimal.getcontext() is before, Decimal(1) / 3

    check(f, X, decimal.Context(prec=5), changed=[(X, decimal.Context(prec=6, rounding=decimal.ROUND_UP))])


def test_a_context_stays_set() -> None:
    def f(x: torch.Tensor, prec: int) -> Any:
        third = Decimal(1) / 3
        decimal.setcontext(decimal.Context(prec=prec))
        return x * 2, third, Decimal(1) / 3

    check(f, X, 5, changed=[(X, 6)], expect_hit=False)


def test_templates_are_copied_when_they_are_set() -> None:
    def f(x: torch.Tensor) -> Any:
        before = decimal.getcontext()
        decimal.setcontext(decimal.ExtendedContext)
        result = Decimal(1) / 0
        same = decimal.getcontext() is decimal.ExtendedContext
        decimal.setcontext(before)
        return x * 2, result, same

    check(f, X)


def test_flags_and_traps() -> None:
    def f(x: torch.Tensor) -> Any:
        context = decimal.getcontext()
        before = dict(context.flags.items())
        Decimal(1) / 3
        after = context.flags[decimal.Inexact], context.flags[decimal.Overflow]
        context.flags[decimal.Rounded] = False
        context.traps[decimal.DivisionByZero] = False
        infinite = Decimal(1) / 0
        context.traps[decimal.DivisionByZero] = True
        try:
            context.flags["Inexact"]
        except KeyError as error:
            return x * 2, before, after, infinite, str(error), list(context.traps), repr(context)
        return x

    check(f, X, expect_hit=False)


def test_operations_of_a_context() -> None:
    def f(x: torch.Tensor, context: decimal.Context) -> Any:
        results = [
            context.divide(1, 3),
            context.create_decimal("1.23456789"),
            context.create_decimal_from_float(0.1),
            context.sqrt(2),
            Decimal(2).sqrt(context=context),
            Decimal("1.2345").quantize(Decimal("0.01"), decimal.ROUND_UP, context),
            context.power(2, 100),
            Decimal("1.23456", context),
        ]
        return x * 2, results, context.to_sci_string(Decimal("1E+3")), context.Etiny()

    check(f, X, decimal.Context(prec=5), changed=[(X, decimal.Context(prec=9))])


def test_traps_of_a_context() -> None:
    def f(x: torch.Tensor, context: decimal.Context) -> Any:
        try:
            return x * 2, context.divide(1, 3)
        except decimal.Inexact as error:
            return x * 3, error.args

    check(f, X, decimal.Context(prec=5), changed=[(X, decimal.Context(prec=5, traps=[decimal.Inexact]))])


def test_a_context_made_after_the_default_one() -> None:
    def f(x: torch.Tensor) -> Any:
        return x * 2, decimal.Context(rounding=decimal.ROUND_UP)

    lifted = framelift.compile(f, backend="eager", fullgraph=True)
    assert repr(lifted(X)[1]) == repr(f(X)[1])
    before = decimal.DefaultContext.prec
    try:
        decimal.DefaultContext.prec = 12
        assert repr(lifted(X)[1]) == repr(f(X)[1])
    finally:
        decimal.DefaultContext.prec = before


def test_flags_that_are_read_are_guarded() -> None:
    def f(x: torch.Tensor) -> Any:
        return x * 2, decimal.getcontext().flags[decimal.Inexact]

    lifted = framelift.compile(f, backend="eager", fullgraph=True)
    with decimal.localcontext() as context:
        for flag in (False, True, False):
            context.flags[decimal.Inexact] = flag
            assert lifted(X)[1] is flag
