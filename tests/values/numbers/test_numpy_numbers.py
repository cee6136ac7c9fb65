"""NumPy on plain numbers beside tensors."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import torch

import framelift
from tests.helpers import check

X = torch.arange(12.0).reshape(3, 4) / 7 - 0.5

ONE_GRAPH: dict[str, Callable[[Any], Any]] = {
    "log": lambda x: x * -(np.log(float(10000)) / (4 - 1)),
    "sqrt of a size": lambda x: x / np.sqrt(x.shape[-1]),
    "in place": lambda x: (x + 1).mul_(2) - 2 * np.log(3.0) if False else (x + 1) / np.exp(0.5),
    "returned": lambda x: (x + 1, np.log(2.0), -np.log(2.0) * 3),
    "two arguments": lambda x: x * np.power(2.0, 3),
    "truth": lambda x: x + 1 if np.log(2.0) else x,
    "integers": lambda x: (x * 1) * np.add(1, 2),
    "compared": lambda x: x + 1 if np.log(2.0) > 0.5 else x,
    "product of sizes": lambda x: (x.reshape(np.prod(x.shape)) + np.prod(x.shape), np.prod(x.shape), np.prod([]) * 2),
    "made of numbers": lambda x: (x * np.int64(3) + np.int32(2), np.int64(3) + 1, np.int32(3) // 2, np.float32(0.1)),
    "of integers": lambda x: x.int() * np.int64(3) + np.float32(2.5) - np.float64(1),
    "as sizes": lambda x: (torch.zeros(np.int64(2)), x.sum(np.int64(1)), x[: np.int64(2)], [7, 8][np.int64(1)]),
    "in a branch": lambda x: x + 1 if np.prod(x.shape) > 6 and np.max(x.shape) == 4 else x,
    "rounded": lambda x: x * np.round(2.567, 1) + np.maximum(x.shape[0], 2) + np.clip(7, 0, 2) + np.ceil(2.5),
    "of lists": lambda x: x * np.mean([1, 2]) + np.sum((1, 2)) + np.argmax([1, 5, 2]) + int(np.min([3, 4])),
    "between": lambda x: x * np.interp(0.5, [0, 1], [2, 4]) + np.percentile([1, 2, 3], 50),
    "converted": lambda x: x * int(np.int64(3)) + float(np.float32(0.5)) + np.int16(4).item(),
    "several": lambda x: x[np.unravel_index(5, x.shape)],
}
PYTHON: dict[str, Callable[[Any], Any]] = {
    "on the left": lambda x: np.log(2.0) * (x * 1),
    "torch.tensor": lambda x: torch.tensor(np.log(2.0)) + x,
    "warns": lambda x: (x * 1) * np.log(0.0),
    "warns of itself": lambda x: (x * 1) + np.mean([]),
    "overflows": lambda x: (x * 1) + float(np.int64(2**62) * 4),
    "a truth value": lambda x: x.int() * (np.int64(3) > 2),
    "an array of constants": lambda x: [x.sum(int(dim)) for dim in np.array([0, 1])[::-1]],
    "divided by zero": lambda x: (x * 1) * (np.sqrt(2.0) / 0),
    "an array": lambda x: (x * 1) + torch.from_numpy(np.ones(4, dtype=np.float32)),
    "float": lambda x: (x * 1) * float(np.log(2.0)) + math.floor(np.log(20.0)),
}


@pytest.mark.parametrize("name", ONE_GRAPH)
def test_one_graph(name: str) -> None:
    assert len(check(ONE_GRAPH[name], X).graphs) == 1


@pytest.mark.parametrize("name", PYTHON)
def test_left_to_python(name: str) -> None:
    check(PYTHON[name], X, expect_ops=0, expect_breaks=None)


def test_other_sizes() -> None:
    def function(x):
        return x.reshape(np.prod(x.shape)) * np.prod(x.shape[1:])

    check(function, X, changed=[(torch.ones(2, 3),), (torch.ones(5, 4, 2),), (X,)])


def test_another_function_under_the_same_name() -> None:
    class Namespace:
        function: Any = np.log

    lifted = framelift.compile(lambda x: x * Namespace.function(2.0), backend="eager")
    for Namespace.function in (np.log, np.exp, np.log, lambda x: x * 5):
        assert torch.equal(lifted(X), X * Namespace.function(2.0))
