"""`in` for every pair of kinds, given and made."""

from __future__ import annotations

from typing import Any

import pytest
import torch

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
