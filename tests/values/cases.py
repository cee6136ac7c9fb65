"""Tables of small programs: each is a function with the arguments of its calls, and becomes one differential test."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch

from tests.helpers import check


def vector(*items: float) -> torch.Tensor:
    return torch.tensor(items or (1.0, 2.0, 3.0))


class Cases:
    """Collects programs; `cases.test` is the parametrised test over them.

    @cases(x, [1, 2], changed=[(x, [1])])
    def appended(x, numbers): ...
    """

    def __init__(self) -> None:
        self.programs: list[Any] = []

    def __call__(self, *args: Any, **options: Any) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
        def add(function: Callable[..., Any]) -> Callable[..., Any]:
            name = f"{function.__name__}-{sum(p.values[0] is function for p in self.programs)}"
            self.programs.append(pytest.param(function, args, options, id=name))
            return function

        return add

    @property
    def test(self) -> Any:
        @pytest.mark.parametrize("function, args, options", self.programs)
        def test(function: Callable[..., Any], args: tuple[Any, ...], options: dict[str, Any]) -> None:
            check(function, *args, **options)

        return test
