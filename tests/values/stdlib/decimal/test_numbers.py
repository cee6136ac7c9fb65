"""Decimals: computed while capturing, in the context of the call."""

from __future__ import annotations

import copy
import decimal
import enum
import math
import numbers
import operator
import pickle
import statistics
import threading
from collections.abc import Callable
from decimal import Decimal
from fractions import Fraction
from typing import Any

import pytest
import torch

import framelift
from tests.helpers.check import check
from tests.helpers.record import Record

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


def test_a_decimal_that_changes_all_the_time() -> None:
    def f(x: torch.Tensor, price: Decimal) -> Any:
        return x * float(price * 2)

    lifted, record = framelift.compile(f, backend="eager"), Record()
    with record.listening():
        for cents in range(40):
            price = Decimal(cents) / 100
            assert torch.equal(lifted(X, price), f(X, price))
    assert record.captures < 20


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


# -- everything else that decimals do ---------------------------------------------------------------------------------


def _tried(function: Callable[[], Any]) -> Any:
    """What a function gives or raises."""
    try:
        return function()
    except (ArithmeticError, TypeError, ValueError, AttributeError) as error:
        return type(error).__name__, str(error)


def _in_place(a: Decimal, b: Decimal) -> Decimal:
    a += b
    a *= 2
    a //= Decimal("1.5")
    a **= 2
    a -= 1
    a /= 3
    a %= 7
    return a


_OF_ONE = (
    "exp ln log10 next_minus next_plus normalize to_integral to_integral_exact to_integral_value sqrt is_canonical "
    "is_finite is_infinite is_nan is_qnan is_snan is_signed is_zero is_normal is_subnormal adjusted canonical "
    "conjugate radix copy_abs copy_negate logb number_class to_eng_string as_tuple as_integer_ratio __floor__ __ceil__ "
    "__trunc__ __reduce__ __bool__ __repr__ __complex__"
).split()
_OF_TWO = (
    "compare compare_signal max max_mag min min_mag next_toward remainder_near compare_total compare_total_mag "
    "copy_sign same_quantum __add__ __rsub__ __eq__ __lt__ __divmod__"
).split()

PROGRAMS: dict[str, Callable[[Decimal, Decimal], Any]] = {
    "methods of one": lambda a, b: [getattr(a, name)() for name in _OF_ONE],
    "methods of two": lambda a, b: [getattr(a, name)(b) for name in _OF_TWO],
    "other methods": lambda a, b: (a.quantize(Decimal("0.1")), a.fma(2, b), a.scaleb(2), a.shift(1), a.rotate(1)),
    "digits": lambda a, b: (Decimal("1010").logical_and(Decimal(11)), Decimal(10).logical_invert()),
    "to numbers": lambda a, b: (
        float(a),
        int(a),
        round(a),
        round(b, 1),
        bool(a),
        complex(a),
        math.sqrt(a),
        math.log(a),
    ),
    "to integers": lambda a, b: (math.floor(a), math.ceil(b), math.trunc(b), math.isnan(a), math.log(a)),
    "functions": lambda a, b: (abs(b), divmod(a, b), divmod(7, a), pow(a, 2), pow(Decimal(3), 2, Decimal(5))),
    "in place": _in_place,
    "operator": lambda a, b: (operator.add(a, b), operator.lt(a, b), operator.neg(a), operator.truediv(1, a)),
    "comparisons": lambda a, b: (
        a < b,
        a <= b,
        a == b,
        a != b,
        a > b,
        a >= b,
        a < 1,
        1 < a,
        a == 1.5,
        1.5 < a,
        a == 2j,
    ),
    "of fractions": lambda a, b: (a == Fraction(3, 2), Fraction(3, 2) == a, a < Fraction(1, 3), Fraction(a)),
    "identity": lambda a, b: (
        a is a,
        a is b,
        Decimal(a) is a,
        Decimal(value=a) is a,
        +a is a,
        copy.copy(a) is a,
        copy.deepcopy([a])[0] is a,
    ),
    "text": lambda a, b: (str(a), repr(a), f"{a}", f"{a:.2f}", f"{a!r:>12}", format(a, "+,.3e"), f"{a:%}", str([a])),
    "old text": lambda a, b: ("%s|%r|%d|%.3f" % (a, b, a, a), "{:>10} {!r} {:.1f}".format(a, b, b)),  # noqa: UP031, UP032
    "keys": lambda a, b: ({a: 1, b: 2, Decimal(1): 3}[1], {1: 2}[Decimal(1)], {Decimal("1.0"): 5}.get(1.0)),
    "members": lambda a, b: (a in {a, b}, {a, b, a} == {b, a}, len({Decimal(1), 1, 1.0}), Decimal(2) in [1, 2]),
    "places": lambda a, b: ([1, Decimal(2)].index(2), (1, Decimal(3)).count(3), hash(a) == hash(Decimal("1.50"))),
    "reductions": lambda a, b: (
        sum([a, b]),
        sum([a, b], Decimal(0)),
        min(a, b),
        max(a, b, Decimal(5)),
        math.prod([a, b]),
    ),
    "order": lambda a, b: (sorted([b, a, Decimal(0)]), statistics.mean([a, b]), math.prod([a, b])),
    "made": lambda a, b: (
        Decimal(),
        Decimal(5),
        Decimal(" 1_000.5 "),
        Decimal(0.1),
        Decimal((0, (1, 2), -2)),
        Decimal(True),
    ),
    "made otherwise": lambda a, b: (
        Decimal.from_float(0.5),
        Decimal("NaN"),
        Decimal("-Infinity"),
        Decimal(value="3"),
        Decimal(True),
    ),
    "pickled": lambda a, b: pickle.loads(pickle.dumps(a)),
    "classes": lambda a, b: (isinstance(a, Decimal), isinstance(a, numbers.Number), isinstance(a, numbers.Real)),
    "attributes": lambda a, b: (
        a.real,
        a.imag,
        a.__class__ is Decimal,
        hasattr(a, "spam"),
        type(a.sqrt),
        type(a.__add__),
        Decimal.sqrt(a),
    ),
    "no numbers": lambda a, b: (Decimal("nan") == Decimal("nan"), (lambda n: (n in [n], {n: 1}[n]))(Decimal("nan"))),
    "bools": lambda a, b: (a + True, True * a),
    "what is refused": lambda a, b: [
        _tried(lambda: Decimal("snan") == 1),
        _tried(lambda: Decimal("nan") < 1),
        _tried(lambda: hash(Decimal("snan"))),
        _tried(lambda: int(Decimal("nan"))),
        _tried(lambda: int(Decimal("inf"))),
        _tried(lambda: float(Decimal("snan"))),
        _tried(lambda: a.sqrt(1, 2)),
        _tried(lambda: a.spam),
        _tried(lambda: a + "x"),
        _tried(lambda: ~a),
        _tried(lambda: a < "x"),
        _tried(lambda: "x" < a),
        _tried(lambda: [] >= a),
        _tried(lambda: a > None),
        _tried(lambda: Decimal(a, b, a)),
        _tried(lambda: Decimal("x")),
        _tried(lambda: Decimal(Fraction(1, 2))),
        _tried(lambda: a[0]),
        _tried(lambda: len(a)),
        _tried(lambda: [1, 2][a]),
        _tried(lambda: a.quantize(Decimal("1E-40"))),
        _tried(lambda: pow(a, b, 3)),
        _tried(lambda: format(a, "zz")),
        _tried(lambda: round(a, "x")),
        _tried(lambda: "text" % a),  # noqa: F507
        _tried(lambda: "%x" % a),
    ],
}


@pytest.mark.parametrize("name", PROGRAMS)
def test_programs(name: str) -> None:
    program = PROGRAMS[name]

    def f(x: torch.Tensor, a: Decimal, b: Decimal) -> Any:
        return x + 1, program(a, b)

    check(f, X, Decimal("1.5"), Decimal("-2.25"))


def test_what_breaks() -> None:
    """In the language of the day, and with what is no plain number."""

    def f(x: torch.Tensor, a: Decimal) -> Any:
        return (
            x + 1,
            format(a, "n"),
            _tried(lambda: a + [1]),
            _tried(lambda: float(a.as_tuple())),
            _tried(lambda: x * a),
            x + 2,
        )

    check(f, X, Decimal("1.5"), expect_breaks=None)


class _One:
    def __hash__(self) -> int:
        return 1

    def __eq__(self, other: object) -> bool:
        return other == 1


@pytest.mark.parametrize("key", [Decimal(1), Fraction(1), _One()])
def test_given_keys_that_a_number_may_equal(key: Any) -> None:
    def f(x: torch.Tensor, given: dict[Any, str], members: set[Any]) -> Any:
        return x + 1, given.get(1), 1 in given, given.get(2), 1 in members, Decimal(1) in members, x + 2

    # Objects in sets are guarded by identity, and each call has another copy.
    check(f, X, {key: "one", 2: "two"}, {key}, expect_breaks=None, expect_hit=type(key) is not _One)


class _Level(enum.IntEnum):
    HIGH = 3

    def __radd__(self, other: Any) -> Any:
        raise AssertionError("decimals take it for an int")


class _Name(str):
    def __radd__(self, other: Any) -> Any:
        return "added to", str(other)


class _Share(float):
    pass


# Guarded by identity, so they are no arguments, of which each call gets copies.
NAME, SHARE = _Name("1.50"), _Share(2.5)


def test_numbers_and_texts_of_other_classes() -> None:
    def f(x: torch.Tensor, a: Decimal) -> Any:
        level = _Level.HIGH
        results = a + level, level * a, a < level, a == level, level == a, Decimal(level), Decimal(NAME), a + NAME
        return x * 2, results, a == SHARE, a < SHARE, SHARE < a, _tried(lambda: a + SHARE), Decimal(SHARE)

    check(f, X, Decimal("2.5"), expect_breaks=None)


class _OwnDecimal(Decimal):
    """A decimal with ways of its own, which nobody but the program asks."""

    calls = 0

    def __add__(self, other: Any) -> Any:
        type(self).calls += 1
        return super().__add__(other)

    def __reduce__(self) -> Any:
        raise AssertionError("asked by a guard")

    def __deepcopy__(self, memo: Any) -> Any:
        return self


def test_subclasses_are_left_to_python() -> None:
    def f(x: torch.Tensor, price: Decimal) -> Any:
        return x * 2, price + 1, 1 + price, price == Decimal(3), Decimal(price), x + 1

    _OwnDecimal.calls = 0
    check(f, X, Decimal(3), changed=[(X, _OwnDecimal(3)), (X, Decimal(3))], expect_breaks=None)
    assert _OwnDecimal.calls == 2
