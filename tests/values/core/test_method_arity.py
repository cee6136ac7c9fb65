"""Methods of C objects that are called with arguments they do not take: Python says what is wrong."""

from __future__ import annotations

import io
import re
import sys
from collections.abc import Callable, Iterator
from typing import Any

import pytest
import torch

from tests.helpers import check

X = torch.ones(3)
STREAM = io.StringIO()


def numbers() -> Iterator[Any]:
    try:
        yield 1
    except ValueError as error:
        yield repr(error)


def started() -> Any:
    generator = numbers()
    next(generator)
    return generator


WRONG: dict[str, Callable[[], Any]] = {
    "send": lambda: started().send(),
    "throw": lambda: started().throw(),
    "throw a number": lambda: started().throw(3),
    "throw an instance and a value": lambda: started().throw(ValueError(), 3),
    "close": lambda: started().close(3),
    "bind a function": lambda: started.__get__(),  # type: ignore[call-arg]
    "bind a method": lambda: str.upper.__get__(),  # type: ignore[call-arg]
    "module attribute": lambda: sys.__getattribute__(),  # type: ignore[call-arg]
    "write": lambda: STREAM.write(),  # type: ignore[call-arg]
    "flags": lambda: re.compile("a", flags="x"),  # type: ignore[call-overload]
    "class method of a number": lambda: int.__dict__["from_bytes"](5, b"1"),
}


@pytest.mark.parametrize("wrong", WRONG.values(), ids=WRONG)
def test_wrong_arguments(wrong: Callable[[], Any]) -> None:
    def f(x: torch.Tensor) -> Any:
        y = x + 1
        try:
            wrong()
        except TypeError as error:
            return y, str(error)
        return y

    check(f, X, expect_breaks=None)


@pytest.mark.parametrize("value", ["text", (1, 2), None, ValueError(3), KeyError(4)])
def test_throw_of_a_class_and_a_value(value: Any) -> None:
    def f(x: torch.Tensor) -> Any:
        return x + 1, started().throw(ValueError, value)

    check(f, X, expect_breaks=None)


def test_size_with_two_dimensions() -> None:
    def f(x: torch.Tensor) -> Any:
        y = x + 1
        try:
            return x.size(0, 1)  # type: ignore[call-overload]
        except TypeError:
            return y

    check(f, X, dynamic=True, expect_breaks=None)
