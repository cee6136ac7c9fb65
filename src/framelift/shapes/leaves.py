"""What lies in nested lists, tuples and dicts, as arguments and results of operations are."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import torch


def leaves(found: Any) -> Iterator[Any]:
    """What is no container, in order."""
    if isinstance(found, list | tuple):
        for item in found:
            yield from leaves(item)
    elif isinstance(found, dict):
        yield from leaves(list(found.values()))
    else:
        yield found


def tensors_in(found: Any) -> Iterator[torch.Tensor]:
    """The tensors in a value, however nested."""
    return (leaf for leaf in leaves(found) if isinstance(leaf, torch.Tensor))
