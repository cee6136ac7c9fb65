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
