"""Contexts of decimals: read, changed, set and entered by the program."""

from __future__ import annotations

import copy
import decimal
import pickle
from decimal import Decimal
from typing import Any

import pytest
import torch

import framelift
from tests.helpers.check import check

X = torch.tensor([1.0, 2.0])


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


class _OwnContext(decimal.Context):
    def __reduce__(self) -> Any:
        raise AssertionError("asked by a guard")


def test_a_context_of_a_class_of_its_own() -> None:
    def f(x: torch.Tensor) -> Any:
        return x * 2, Decimal(1) / 3, decimal.getcontext().prec

    lifted = framelift.compile(f, backend="eager")
    for context in (decimal.Context(prec=4), _OwnContext(prec=5), decimal.Context(prec=4)):
        with decimal.localcontext():
            decimal.setcontext(context)
            assert lifted(X)[1:] == f(X)[1:]


def test_a_context_that_is_an_argument_and_current() -> None:
    def f(x: torch.Tensor, context: decimal.Context) -> Any:
        context.prec = 3
        return x * 2, Decimal(1) / 3

    lifted = framelift.compile(f, backend="eager", fullgraph=True)
    for is_current in (True, False, True):
        with decimal.localcontext(prec=9) as context:
            context.clear_flags()
            other = context.copy()
            given = context if is_current else other
            assert lifted(X, given)[1] == Decimal("0.333" if is_current else "0.333333333")
            assert given.prec == 3
            assert context.flags[decimal.Inexact]
            assert other.flags[decimal.Inexact] is False


def test_breaks_in_loops_of_contexts() -> None:
    def f(x: torch.Tensor) -> Any:
        results = []
        for prec in (3, 5, 7):
            with decimal.localcontext(prec=prec):
                framelift.graph_break()
                results.append(Decimal(1) / 3)
                x = x + prec
        return x, results, Decimal(1) / 3

    check(f, X, expect_breaks=None)


def test_generators_in_a_context() -> None:
    def f(x: torch.Tensor) -> Any:
        def numbers() -> Any:
            for i in range(1, 4):
                yield Decimal(1) / (3 * i)

        with decimal.localcontext(prec=4):
            made = numbers()
            first = next(made)
        return x * 2, first, list(made)

    check(f, X)


def test_signals_are_a_mapping() -> None:
    def f(x: torch.Tensor) -> Any:
        context = decimal.getcontext()
        Decimal(1) / 3
        known = decimal.Inexact in context.flags, KeyError in context.flags, len(context.flags)
        shown = str(context.flags), context.flags.get(decimal.Inexact), context.traps.copy()
        return x * 2, known, shown, [signal for signal, is_set in context.traps.items() if is_set]

    check(f, X, expect_hit=False)


def test_signals_are_assigned() -> None:
    def f(x: torch.Tensor, signals: Any) -> Any:
        context = decimal.getcontext()
        try:
            context.traps = signals
        except TypeError as error:
            return x * 2, str(error), repr(context)
        context.flags = context.traps
        return x * 3, repr(context)

    check(f, X, [decimal.Inexact], changed=[(X, None)])
    check(f, X, dict(decimal.Context(traps=[decimal.Inexact]).traps), expect_breaks=None, expect_hit=False)


def test_signals_are_compared() -> None:
    def f(x: torch.Tensor) -> Any:
        context = decimal.getcontext()
        before = context.copy()
        context.clear_flags()
        cleared = context.copy()
        Decimal(1) / 3
        flags = context.flags == cleared.flags, before.flags == before.flags, context.flags != before.flags
        Decimal("nan") == Decimal("nan")
        return x * 2, flags, context.traps == before.traps, context.flags == context.flags

    check(f, X, expect_hit=False)  # it reads flags that it raises


def test_an_invalid_operation_is_compared_by_python() -> None:
    def f(x: torch.Tensor) -> Any:
        y = x * 2
        with decimal.localcontext(traps=[]) as context:
            assigned = context.copy()
            assigned.flags[decimal.InvalidOperation] = True
            Decimal("x")
            return y, context.flags == assigned.flags, dict(context.flags) == dict(assigned.flags)

    check(f, X, expect_breaks=None)


def test_contexts_are_copied_and_pickled() -> None:
    def f(x: torch.Tensor, context: decimal.Context) -> Any:
        copies = copy.copy(context), copy.deepcopy(context), pickle.loads(pickle.dumps(context))
        return x * 2, copies, [made is context for made in copies]

    given = decimal.Context(prec=5, flags=[decimal.Rounded])
    check(f, X, given, changed=[(X, decimal.Context(prec=5)), (X, given)], expect_breaks=None)


def test_capture_asks_nobody_who_replaced_names(monkeypatch: pytest.MonkeyPatch) -> None:
    def f(x: torch.Tensor) -> Any:
        with decimal.localcontext(decimal.ExtendedContext, prec=3) as context:
            return x * 2, Decimal(1) / 3, context.prec

    expected = f(X)[1:]
    calls: list[str] = []

    def replaced(name: str, original: Any) -> Any:
        def counted(*args: Any, **kwargs: Any) -> Any:
            calls.append(name)
            return original(*args, **kwargs)

        return counted

    for name in ("getcontext", "setcontext", "localcontext", "Context"):
        monkeypatch.setattr(decimal, name, replaced(name, getattr(decimal, name)))
    lifted = framelift.compile(f, backend="eager")
    for _ in range(2):
        assert lifted(X)[1:] == expected
        assert calls == ["localcontext"]
        calls.clear()
