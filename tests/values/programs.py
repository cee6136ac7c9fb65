"""Small programs as test cases, and the test of what must invalidate an entry.

programs = Programs()

@programs
def adds(x):
    return x + 1

test_programs = programs.test()
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch

import framelift
from tests.helpers import check
from tests.helpers.record import Record
from tests.helpers.same import assert_same


def x() -> torch.Tensor:
    return torch.arange(6.0).reshape(2, 3) - 2


class Programs:
    """Collects functions; each becomes a differential test. Without `args` it is called with one small tensor."""

    def __init__(self) -> None:
        self.cases: list[tuple[Callable[..., Any], tuple[Any, ...], dict[str, Any]]] = []

    def __call__(self, function: Any = None, *, args: tuple[Any, ...] | None = None, **options: Any) -> Any:
        """`options` go to `check`: expect_breaks, expect_ops, inputs ..."""

        def add(function: Any) -> Any:
            self.cases.append((function, (x(),) if args is None else args, options))
            return function

        return add if function is None else add(function)

    def test(self) -> Any:
        ids = [getattr(function, "__name__", type(function).__name__) for function, _, _ in self.cases]
        assert len(set(ids)) == len(ids), f"two programs have one name: {sorted(ids)}"

        @pytest.mark.parametrize("case", self.cases, ids=ids)
        def test_program(case: Any) -> None:
            function, args, options = case
            check(function, *args, **options)

        return test_program


def follow(function: Callable[..., Any], args: tuple[Any, ...], *changes: Callable[[], Any]) -> None:
    """Call the lifted function, then after each change once more: it must see the change, as eager does.

    Each change must cost a capture, unless it leads back to an earlier state, and the call after it none. The function
    must change nothing itself.
    """
    lifted = framelift.compile(function, backend="eager", dynamic=False)
    seen: list[Any] = []
    for number, change in enumerate((lambda: None, *changes)):
        change()
        expected = _outcome(function, args)
        record = Record()
        with record.listening():
            actual = _outcome(lifted, args)
        assert_same(expected, actual)
        assert not record.failures
        captures = record.captures
        assert captures or any(_are_same(expected, earlier) for earlier in seen), f"change {number} was not noticed"
        seen.append(expected)
        with record.listening():
            assert_same(expected, _outcome(lifted, args))
        assert record.captures == captures, f"after change {number} the entry is not used"


def _are_same(one: Any, other: Any) -> bool:
    try:
        assert_same(one, other)
    except AssertionError:
        return False
    return True


def _outcome(function: Callable[..., Any], args: tuple[Any, ...]) -> Any:
    try:
        return function(*args)
    except Exception as error:
        return type(error), str(error)
