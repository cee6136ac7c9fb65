"""Indices that are tensors without dimensions, for the functions that attention asks of its scores and masks.

Usually such an index is read from its tensor. In those functions it stands for all positions at once.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
from torch.overrides import _get_current_function_mode_stack

# The mode in which attention runs its functions: with it, an index has a derivative that compilers know.
_MODE = "TransformGetItemToIndex"


def element(tensor: torch.Tensor, *indices: Any) -> torch.Tensor:
    """`tensor[i, j]` where each index stands for a position.

    >>> element(torch.arange(6).view(2, 3), torch.tensor(1), torch.tensor(2))
    tensor(5)
    """
    if any(type(mode).__name__ == _MODE for mode in _get_current_function_mode_stack()):
        found: torch.Tensor = tensor[indices]
        return found
    return indexed(tensor, *indices)


def indexed(tensor: torch.Tensor, *indices: Any) -> torch.Tensor:
    """The same as one operator, outside of that mode."""
    result: torch.Tensor = torch.ops.aten.index.Tensor(tensor, _as_tensors(tensor, indices))
    return result


def _as_tensors(tensor: torch.Tensor, indices: Sequence[Any]) -> list[torch.Tensor]:
    return [
        index if isinstance(index, torch.Tensor) else torch.tensor(index, dtype=torch.int64, device=tensor.device)
        for index in indices
    ]
