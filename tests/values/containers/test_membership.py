"""`in` for every pair of kinds, given and made."""

from __future__ import annotations

import collections
from typing import Any

import pytest
import torch

import framelift
from tests.helpers import check

X = torch.ones(2)
VALUES: list[Any] = [3, 97, "k", "", None, 2.5, True, b"a", b"", 1j, (1,), (3, "k"), range(4), [3], {"k": 1}, {3}, len]


@pytest.mark.parametrize("container", VALUES, ids=repr)
def test_of_two_inputs(container: Any) -> None:
    def fn(x: torch.Tensor, container: Any, elements: list[Any]) -> Any:
        found: list[Any] = []
        for element in elements:
            try:
                found.append((element in container, element not in container))
            except TypeError as error:
                found.append(str(error))
        return x + 1, found

    check(fn, X, container, VALUES, expect_breaks=None)


@pytest.mark.parametrize("container", VALUES[:-1], ids=repr)
def test_of_a_constant(container: Any) -> None:
    def fn(x: torch.Tensor, elements: list[Any]) -> Any:
        found: list[Any] = []
        for element in elements:
            try:
                found.append(element in container)
            except TypeError as error:
                found.append(str(error))
        return x + 1, found

    check(fn, X, VALUES, expect_breaks=None)


def test_what_equals_nothing_is_found_where_it_is_itself() -> None:
    def fn(x: torch.Tensor) -> Any:
        nan = float("nan")
        other = float("nan")
        items = [1.0, nan]
        found = (nan in items, items.count(nan), items.index(nan), items == [1.0, nan], (nan,) == (nan,))
        missed = (other in items, items.count(other), items == [1.0, other], nan == nan)
        return x + 1, found, missed

    check(fn, X)


CONTAINERS: dict[str, Any] = {
    "dict": {3: 1, 7: 2},
    "counter": collections.Counter([3, 7, 7]),
    "set": {3, 7},
    "frozenset": frozenset({3, 7}),
    "mixed": {3: 0, "k": 0, None: 0, True: 0},
    "floats": {3.0: 1, 7: 2},
    "many": dict.fromkeys(range(0, 60, 2)),
}


@pytest.mark.parametrize("kind", CONTAINERS)
def test_of_a_number_that_changes(kind: str) -> None:
    """It is compared with each key, where these are few: numbers that are none of them are one case."""

    def fn(x: torch.Tensor, container: Any, number: int) -> torch.Tensor:
        return x * 2 if number in container else x + number

    container = CONTAINERS[kind]
    check(fn, X, container, 4, changed=[(X, container, number) for number in (5, 3, 6, 7, 1, 0, 8)], expect_breaks=None)
    lifted = framelift.compile(fn, backend="eager")
    for number in (4, 5, 6, 8, 9, 11, 13):
        assert lifted(X, container, number).equal(fn(X, container, number))
    if kind not in ("floats", "many"):
        assert framelift.counters().captures <= 3


def test_a_key_that_comes_or_goes() -> None:
    def fn(x: torch.Tensor, container: dict[int, int], number: int) -> torch.Tensor:
        return x * 2 if number in container else x + number

    lifted, container = framelift.compile(fn, backend="eager"), {3: 1}
    for change in (None, (5, 1), (6, 1), None):
        if change is not None:
            container.update([change])
        for number in (4, 5, 6):
            assert lifted(X, container, number).equal(fn(X, container, number))
    container.clear()
    assert lifted(X, container, 5).equal(X + 5)
