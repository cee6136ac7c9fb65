"""Capture asks no metaclass: comparing and hashing classes is code of the user's."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import pytest
import torch

from tests.helpers import check

ASKED: list[str] = []


class Loud(type):
    def __eq__(cls, other: object) -> bool:
        ASKED.append("==")
        return cls is other

    def __hash__(cls) -> int:
        ASKED.append("hash")
        return 1

    def __instancecheck__(cls, instance: object) -> bool:
        ASKED.append("isinstance")
        return type(instance) is cls

    def __subclasscheck__(cls, subclass: type) -> bool:
        ASKED.append("issubclass")
        return subclass is cls


class Quiet(metaclass=Loud):
    def __iter__(self) -> Iterator[int]:
        return iter([1, 2])

    def __getitem__(self, index: int) -> int:
        return [1, 2][index]

    def __len__(self) -> int:
        return 2

    def __add__(self, other: Any) -> str:
        return "sum"

    def __radd__(self, other: Any) -> str:
        return "added"

    def __rmul__(self, other: Any) -> str:
        return "multiplied"

    def __rmod__(self, other: Any) -> str:
        return "taken"


OBJECT: Any = Quiet()
KEYS: Any = {OBJECT: 1, "a": OBJECT}

USES: dict[str, Callable[[torch.Tensor], Any]] = {
    "list + object": lambda x: [1] + OBJECT,
    "list * object": lambda x: [1] * OBJECT,
    "tuple + object": lambda x: (1,) + OBJECT,
    "text % object": lambda x: "%s" % OBJECT,
    "tensor + object": lambda x: x + OBJECT,
    "tensor * object": lambda x: x * OBJECT,
    "set": lambda x: set(OBJECT),
    "sum": lambda x: sum([1], OBJECT),
    "reversed": lambda x: list(reversed(OBJECT)),
    "sequence": lambda x: (OBJECT[0], len(OBJECT), list(OBJECT)),
    "a dict it is a key of": lambda x: (KEYS[OBJECT], len(KEYS), KEYS["a"] is OBJECT),
    "text": lambda x: f"{OBJECT!r}"[:3] + "{}".format(len(OBJECT)),
    "isinstance": lambda x: (isinstance(OBJECT, list), isinstance(OBJECT, (int, str))),
}


@pytest.mark.parametrize("use", USES.values(), ids=USES)
def test_no_metaclass_is_asked(use: Callable[[torch.Tensor], Any]) -> None:
    def f(x: torch.Tensor) -> Any:
        return x + 1, use(x)

    use(torch.ones(2))
    ASKED.clear()
    check(f, torch.ones(2), inputs=lambda: (torch.ones(2),), expect_breaks=None)
    assert ASKED == []
