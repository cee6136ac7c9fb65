"""Every test runs strict, on one thread, from a clean start. The tests of native/ and bytecode/ run without torch."""

from __future__ import annotations

import pathlib
from collections.abc import Iterator

import pytest

from framelift import config

try:
    import torch
except ImportError:  # an interpreter without torch: only the torch-free tests are collected
    torch = None  # type: ignore[assignment]

TORCH_FREE = ("native", "bytecode")
HERE = pathlib.Path(__file__).parent

collect_ignore = [] if torch is not None else [path.name for path in HERE.iterdir() if path.name not in TORCH_FREE]


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    for item in items:
        if not _is_torch_free(item):
            item.add_marker(pytest.mark.torch)


def _is_torch_free(item: pytest.Item) -> bool:
    return item.path.relative_to(HERE).parts[0] in TORCH_FREE


@pytest.fixture(autouse=True)
def strict(request: pytest.FixtureRequest) -> Iterator[None]:
    """Internal failures are raised, every stage is verified; `@pytest.mark.lenient` looks at the fallback instead."""
    lenient = request.node.get_closest_marker("lenient") is not None
    with config.patch(strict=not lenient, check=True):
        yield


@pytest.fixture(autouse=True)
def clean(request: pytest.FixtureRequest) -> Iterator[None]:
    """No entries and no counts from an earlier test; torch's global state as it was."""
    if torch is None or _is_torch_free(request.node):
        yield
        return
    framelift.reset()
    torch.set_num_threads(1)
    torch.manual_seed(0)
    grad, dtype = torch.is_grad_enabled(), torch.get_default_dtype()
    yield
    torch.set_grad_enabled(grad)
    torch.set_default_dtype(dtype)


if torch is not None:
    import framelift  # noqa: E402  (after the test for torch, which the public names need)
