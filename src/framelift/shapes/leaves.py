"""Tensors in nested lists, tuples and dicts, as arguments and results of operations are."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import torch


def tensors_in(found: Any) -> Iterator[torch.Tensor]:
    """The tensors in a value, however nested, in order."""
    if isinstance(found, torch.Tensor):
        yield found
    elif isinstance(found, list | tuple):
        for item in found:
            yield from tensors_in(item)
    elif isinstance(found, dict):
        for item in found.values():
            yield from tensors_in(item)
