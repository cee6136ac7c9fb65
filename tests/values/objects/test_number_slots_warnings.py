"""Numbers that objects give, also those that are numbers themselves; what Python warns about is left to it."""

from __future__ import annotations

import collections
import collections.abc
import fractions
import math
from typing import Any

import pytest
import torch

from tests.helpers import check

X = torch.ones(2)


class Own(float):
    def __ceil__(self) -> int:
        return 42

    __floor__ = __trunc__ = __ceil__

    def __round__(self, digits: Any = None) -> Any:
        return 43 if digits is None else (43, digits)

    def __divmod__(self, other: Any) -> Any:
        return "mine", other

    __rdivmod__ = __divmod__


class Plain(float):
    pass


class Whole(int):
    pass


class Strange:
    def __init__(self, answer: Any) -> None:
        self.answer = answer

    def __int__(self) -> Any:
        return self.answer

    __float__ = __int__


class Truncated:
    def __trunc__(self) -> int:
        return 42


USES = [
    math.ceil,
    math.floor,
    math.trunc,
    round,
    int,
    float,
    complex,
    lambda value: round(value, 1),
    lambda value: divmod(value, 2),
    lambda value: divmod(7.5, value),
]
STRANGE = [Strange(answer) for answer in (3, 2.5, True, Whole(4), Plain(4.5))]
OBJECTS = [Own(2.5), Plain(2.5), Whole(3), *STRANGE, Truncated()]


@pytest.mark.parametrize("use", USES)
@pytest.mark.parametrize(
    "value", [Own(2.5), Plain(2.5), Whole(3), *STRANGE, Truncated()], ids=lambda value: type(value).__name__
)
@pytest.mark.filterwarnings("ignore::DeprecationWarning")
def test_uses(use: Any, value: Any) -> None:
    def fn(x: torch.Tensor) -> Any:
        try:
            result = use(value)
        except TypeError as error:
            result = str(error)
        return x + 1, result, type(result)

    check(fn, X, expect_breaks=None)


class Changing:
    def __init__(self, deque: Any) -> None:
        self.deque = deque

    def __eq__(self, other: object) -> bool:
        self.deque.clear()
        return True


@pytest.mark.parametrize("method", ["remove", "index"])
def test_deques_that_change_while_they_are_searched(method: str) -> None:
    def fn(x: torch.Tensor) -> Any:
        y = x + 1
        deque: Any = collections.deque("ab")
        result: Any = None
        try:
            getattr(deque, method)(Changing(deque))
        except (IndexError, RuntimeError, ValueError) as error:
            result = type(error), str(error)
        return y * 2, result, deque

    check(fn, X, expect_breaks=None)


class Meta(type):
    def __new__(cls, name: str, bases: Any, namespace: Any, cell: Any) -> Any:
        namespace["__classcell__"] = cell
        return super().__new__(cls, name, bases, namespace)


@pytest.mark.parametrize("cell", [None, 0, ""])
def test_cells_of_classes_that_are_none(cell: Any) -> None:
    def fn(x: torch.Tensor) -> Any:
        y = x + 1
        try:

            class Made(metaclass=Meta, cell=cell):
                pass
        except TypeError as error:
            return y + 1, str(error)
        return y

    check(fn, X, expect_breaks=None)


def test_flags_of_patterns_that_exclude_each_other() -> None:
    def fn(x: torch.Tensor) -> Any:
        try:

            class Both(collections.abc.Collection):
                __abc_tpflags__ = collections.abc.Sequence.__flags__ | collections.abc.Mapping.__flags__
        except TypeError as error:
            return x + 1, str(error)
        return x + 1

    check(fn, X, expect_breaks=None)


def thrown() -> Any:
    try:
        yield 1
    except ValueError as error:
        yield str(error)


@pytest.mark.filterwarnings("ignore")
def test_what_newer_versions_warn_of_or_have_not() -> None:
    def fn(x: torch.Tensor) -> Any:
        y = x + 1
        generator = thrown()
        next(generator)
        answer = generator.throw(ValueError, ValueError("mine"), None)
        made = type("Made", (), {1: 2})
        return y * 2, answer, vars(made)[1], getattr(type, "__annotations__", None), type.__doc__, object.__doc__

    check(fn, X, expect_breaks=None, expect_hit=False)


class Measure:
    def __init__(self, value):
        self.value = value

    def __float__(self):
        return float(self.value)

    def __index__(self):
        return int(self.value)


class Whole:
    def __index__(self):
        return 6


def test_functions_of_math_ask_objects_for_numbers():
    def f(x, given):
        half = fractions.Fraction(1, 4)
        numbers = [math.sqrt(given), math.hypot(given, 3), math.copysign(half, -1), math.isnan(half), math.exp(Whole())]
        return x * math.cos(given), numbers, math.gcd(Whole(), 4), math.factorial(given), math.isqrt(Whole())

    check(f, torch.ones(3), Measure(4), changed=[(torch.ones(3), Measure(9))], fullgraph=True)


def test_an_object_without_a_number():
    def f(x):
        try:
            return x, math.sqrt(object())
        except TypeError as error:
            return x + 1, str(error)

    check(f, torch.ones(3), expect_breaks=None)


def test_what_is_wrong_with_one_argument_comes_before_the_next():
    class Told:
        asked = 0

        def __float__(self):
            Told.asked += 1
            return 1.0

    def f(x, text):
        try:
            math.hypot(text, Told())
        except TypeError as error:
            return x + 1, str(error), Told.asked

    check(f, torch.ones(3), "text", expect_breaks=None)
