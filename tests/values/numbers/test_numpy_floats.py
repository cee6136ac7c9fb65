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
}
PYTHON: dict[str, Callable[[Any], Any]] = {
    "on the left": lambda x: np.log(2.0) * (x * 1),
    "torch.tensor": lambda x: torch.tensor(np.log(2.0)) + x,
    "warns": lambda x: (x * 1) * np.log(0.0),
    "divided by zero": lambda x: (x * 1) * (np.sqrt(2.0) / 0),
    "an array": lambda x: (x * 1) + torch.from_numpy(np.ones(4, dtype=np.float32)),
    "integers": lambda x: (x * 1) * np.add(1, 2),
    "compared": lambda x: x + 1 if np.log(2.0) > 0.5 else x,
    "float": lambda x: (x * 1) * float(np.log(2.0)) + math.floor(np.log(20.0)),
}


@pytest.mark.parametrize("name", ONE_GRAPH)
def test_one_graph(name: str) -> None:
    assert len(check(ONE_GRAPH[name], X).graphs) == 1


@pytest.mark.parametrize("name", PYTHON)
def test_left_to_python(name: str) -> None:
    check(PYTHON[name], X, expect_ops=0, expect_breaks=None)


def test_another_function_under_the_same_name() -> None:
    class Namespace:
        function: Any = np.log

    lifted = framelift.compile(lambda x: x * Namespace.function(2.0), backend="eager")
    for Namespace.function in (np.log, np.exp, np.log, lambda x: x * 5):
        assert torch.equal(lifted(X), X * Namespace.function(2.0))
