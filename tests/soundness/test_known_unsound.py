"""Programs that torch.compile 2.13 is known to get wrong, each as eager does it.

The rows about changes between calls (methods, attributes, hooks, aliases) are in the other modules here.
"""

from __future__ import annotations

import decimal
import functools
import os
from typing import Any

import pytest
import torch

import framelift
from tests.helpers import check

X = torch.linspace(-1, 1, 4)


def test_the_value_of_yield_from() -> None:
    def inner() -> Any:
        yield 1
        return 3

    def outer() -> Any:
        result = yield from inner()
        yield result

    check(lambda x: [x * item for item in outer()], X, expect_ops=0, expect_breaks=None)


class Key:
    def __init__(self, n: int) -> None:
        self.n = n

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Key) and self.n == other.n

    def __hash__(self) -> int:
        return hash(self.n)


def test_objects_with_their_own_equality_as_keys() -> None:
    def f(x: torch.Tensor) -> Any:
        y = x * 2
        return y + len({Key(1), Key(1), Key(2)}), {Key(1): 5}.get(Key(1)), Key(1) in {Key(1)}

    check(f, X, expect_breaks=None)


def test_environment_variables(monkeypatch: pytest.MonkeyPatch) -> None:
    def f(x: torch.Tensor) -> torch.Tensor:
        y = x + 1
        return y * 2 if os.environ.get("FRAMELIFT_SOUNDNESS") == "1" else y * 3

    lifted = framelift.compile(f, backend="eager")
    for value in ("0", "1", "0", "1"):
        monkeypatch.setenv("FRAMELIFT_SOUNDNESS", value)
        assert torch.equal(lifted(X), f(X))
    monkeypatch.delenv("FRAMELIFT_SOUNDNESS")
    assert torch.equal(lifted(X), f(X))


@pytest.mark.parametrize("backend", ["eager", "aot_eager"])
def test_effects_before_an_operation_that_raises(backend: str) -> None:
    def f(x: torch.Tensor, seen: list[int]) -> torch.Tensor:
        seen.append(1)
        return torch.linalg.cholesky(x)

    check(f, torch.eye(2), [], changed=[(-torch.eye(2), []), (torch.eye(2), [])], backend=backend)


def test_an_error_of_shapes_reaches_the_users_handler() -> None:
    def f(x: torch.Tensor, y: torch.Tensor) -> Any:
        z = x + 1
        try:
            return torch.mm(z, y)
        except RuntimeError as error:
            return z * 2, str(error)

    check(f, torch.ones(2, 3), torch.ones(2, 3), changed=[(torch.ones(2, 3), torch.ones(3, 2))], expect_breaks=None)


def test_a_cached_function_keeps_what_it_cached() -> None:
    limit = [1]

    @functools.lru_cache
    def cached(key: int) -> int:
        return limit[0] + key

    def f(x: torch.Tensor) -> torch.Tensor:
        return x * 2 + cached(1)

    lifted = framelift.compile(f, backend="eager")
    assert torch.equal(lifted(X), X * 2 + 2)
    limit[0] = 10
    assert torch.equal(lifted(X), X * 2 + 2)
    cached.cache_clear()
    assert torch.equal(lifted(X), X * 2 + 11)


def test_decimals() -> None:
    def f(x: torch.Tensor) -> Any:
        total = decimal.Decimal("1.1") + decimal.Decimal("2.2")
        return x * float(total), total

    check(f, X)


def test_identity_decides_and_a_mutation_follows() -> None:
    def f(a: list[int], b: list[int], x: torch.Tensor) -> torch.Tensor:
        target = a if a is not b else []
        target.append(1)
        b.append(2)
        return x * len(a) + len(b)

    shared: list[int] = []
    check(f, [], [], X, changed=[(shared, shared, X)])


def test_a_class_that_lies_about_itself() -> None:
    class Liar:
        @property
        def __class__(self) -> type:  # type: ignore[override]
            return int

    def f(obj: Any, x: torch.Tensor) -> Any:
        return x * 2 if isinstance(obj, int) else x * 3

    lifted = framelift.compile(f, backend="eager")
    assert torch.equal(lifted(Liar(), X), f(Liar(), X))
    assert torch.equal(lifted(3, X), f(3, X))


def test_builtins_of_a_function() -> None:
    names: dict[str, Any] = {"__builtins__": {"len": lambda values: 10}}
    exec("def f(x, values): return x * len(values)", names)
    lifted = framelift.compile(names["f"], backend="eager")
    assert torch.equal(lifted(X, [1]), X * 10)
    names["__builtins__"]["len"] = lambda values: 20
    assert torch.equal(lifted(X, [1]), X * 20)
