"""Classes that say None in the place of a special method: subclasses do not inherit it, and nothing steps in."""

from __future__ import annotations

from typing import Any

import pytest
import torch

from tests.helpers import check

X = torch.arange(4.0)


def make_class() -> type:
    class Whole:
        value = 1

        def __add__(self, other: Any) -> Any:
            return "added"

        def __radd__(self, other: Any) -> Any:
            return "added to"

        def __contains__(self, item: Any) -> bool:
            return True

        def __iter__(self) -> Any:
            return iter([1])

        def __reversed__(self) -> Any:
            return iter([2])

        def __len__(self) -> int:
            return 1

        def __lt__(self, other: Any) -> bool:
            return True

        def __bool__(self) -> bool:
            return True

        def __call__(self) -> int:
            return 3

        def __getitem__(self, index: Any) -> Any:
            return index

    class Blocked(Whole):
        value = None
        __iadd__ = __radd__ = __contains__ = __iter__ = __reversed__ = __len__ = None
        __lt__ = __bool__ = __call__ = __getitem__ = __hash__ = None

    return Blocked


def added_in_place(y: Any) -> Any:
    y += 1
    return y


USES = {
    "+=": added_in_place,
    "reflected": lambda y: 1 + y,
    "in": lambda y: 1 in y,
    "not in": lambda y: 1 not in y,
    "iter": iter,
    "star": lambda y: [*y],
    "unpacked": lambda y: (lambda a: a)(*y),
    "list": list,
    "reversed": lambda y: list(reversed(y)),
    "len": len,
    "<": lambda y: y < y,
    "bool": bool,
    "not": lambda y: not y,
    "called": lambda y: y(),
    "item": lambda y: y[1],
    "hash": hash,
    "key": lambda y: {y: 1},
    "attribute": lambda y: (y.value, type(y).value, hasattr(y, "__iter__"), callable(y)),
}
GIVEN = make_class()


@pytest.mark.parametrize("is_made", [False, True], ids=["given", "made"])
@pytest.mark.parametrize("use", USES)
def test_uses(use: str, is_made: bool) -> None:
    def fn(x: torch.Tensor) -> Any:
        try:
            result = USES[use]((make_class() if is_made else GIVEN)())
        except TypeError as error:
            result = str(error)
        return x + 1, result

    check(fn, X, expect_breaks=None)


class NotIterable:
    __iter__ = None

    def __getitem__(self, index: int) -> int:
        return index


def test_looking_for_an_item_does_not_iterate_where_that_is_blocked() -> None:
    def program(x: Any) -> Any:
        try:
            return x + (1 in NotIterable())  # type: ignore[operator]
        except TypeError as error:
            return x + 1, str(error)

    check(program, X)
