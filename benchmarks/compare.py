"""Whether two results of a model are the same, bit by bit."""

from __future__ import annotations

from typing import Any

import torch
from torch.utils import _pytree as pytree


def leaves(result: Any) -> list[Any]:
    """What a model returned, flat: model outputs are dicts, caches hold their tensors in layers."""
    found: list[Any] = []
    for leaf in pytree.tree_leaves(dict(result) if isinstance(result, dict) else result):
        if hasattr(leaf, "layers"):
            for layer in leaf.layers:
                found += [value for _, value in sorted(vars(layer).items()) if isinstance(value, torch.Tensor)]
        elif hasattr(leaf, "self_attention_cache"):
            found += leaves([leaf.self_attention_cache, leaf.cross_attention_cache])
        else:
            found.append(leaf)
    return found


def difference(actual: Any, expected: Any, allowed: float = 0.0) -> str:
    """The first difference in words; empty if there is none. `allowed` is for floating point, relative and absolute."""
    if type(actual) is not type(expected):
        return f"type {type(actual).__name__} instead of {type(expected).__name__}"
    ours, theirs = leaves(actual), leaves(expected)
    if len(ours) != len(theirs):
        return f"{len(ours)} values instead of {len(theirs)}"
    for index, (one, other) in enumerate(zip(ours, theirs, strict=True)):
        if isinstance(other, torch.Tensor):
            if not isinstance(one, torch.Tensor) or one.shape != other.shape or one.dtype != other.dtype:
                return f"value {index} is of another kind"
            if not _is_same(one.nan_to_num(), other.nan_to_num(), allowed):
                return f"value {index} differs by {(one.double() - other.double()).abs().max().item():.1e}"
        elif type(one) is not type(other):
            return f"value {index} is {type(one).__name__} instead of {type(other).__name__}"
    return ""


def _is_same(one: torch.Tensor, other: torch.Tensor, allowed: float) -> bool:
    if allowed and other.is_floating_point():
        return torch.allclose(one, other, rtol=allowed, atol=allowed)
    return torch.equal(one, other)
