"""Writes that torch refuses because of types or of where tensors lie in memory, which fake tensors do not look at.

A tensor whose elements share places cannot be written to, nor can one that lies across another argument of the same
operation. Nor does a graph hold a write that reads one of the elements it writes to: what comes after it reads the new
value in eager mode, and the old one where a compiler has put the result elsewhere. Where sizes are symbolic and nothing
sure can be said, the write counts as refused: Python runs it.
"""

from __future__ import annotations

import operator
from collections.abc import Iterable
from typing import Any

import torch
from torch.fx.experimental.symbolic_shapes import statically_known_true


class RefusedWrite(RuntimeError):
    """The operation raises on real tensors, or may do so."""


def check_write(written: torch.Tensor, others: Iterable[torch.Tensor]) -> None:
    """Raise RefusedWrite if torch refuses to write to a tensor, given the other arguments that lie in its storage.

    >>> row = torch.zeros(6)
    >>> check_write(row[:3], [row[:3], row[3:]])
    >>> check_write(row[:3], [row[2:]])
    Traceback (most recent call last):
    ...
    framelift.graph.propagation.overlaps.RefusedWrite: it reads memory that it writes to
    """
    if _repeats(written) and not _is_empty(written):
        raise RefusedWrite("it writes to a tensor whose elements share memory")
    for other in others:
        if other is not written and not _is_apart(written, other) and not _is_laid_alike(written, other):
            raise RefusedWrite("it reads memory that it writes to")


def check_cast(written: torch.Tensor, operands: Iterable[Any]) -> None:
    """Raise RefusedWrite if what is computed from a tensor and the operands cannot be cast to the tensor's type.

    >>> check_cast(torch.ones(2), [3, torch.ones(2, dtype=torch.int64)])
    >>> check_cast(torch.ones(2, dtype=torch.int64), [1.5])
    Traceback (most recent call last):
    ...
    framelift.graph.propagation.overlaps.RefusedWrite: it computes what cannot be cast to torch.int64
    """
    for operand in operands:
        if not torch.can_cast(torch.result_type(written, operand), written.dtype):
            raise RefusedWrite(f"it computes what cannot be cast to {written.dtype}")


def _repeats(tensor: torch.Tensor) -> bool:
    """Whether one element is several, as in an expanded tensor."""
    sides = zip(tensor.shape, tensor.stride(), strict=True)
    return any(type(stride) is int and stride == 0 and not (type(size) is int and size < 2) for size, stride in sides)


def _is_laid_alike(one: torch.Tensor, two: torch.Tensor) -> bool:
    return _spelt(one) == _spelt(two) and one.dtype.itemsize == two.dtype.itemsize


def _spelt(tensor: torch.Tensor) -> str:
    # Comparing symbolic numbers would assume something about them.
    return str((tuple(tensor.shape), tensor.stride(), tensor.storage_offset()))


def _is_apart(one: torch.Tensor, two: torch.Tensor) -> bool:
    """Whether torch sees no overlap: between tensors with gaps it does not look for one. We look for one element."""
    if _is_empty(one) or _is_empty(two):
        return True
    if _has_gaps(one) or _has_gaps(two):
        return not (statically_known_true(two.numel() == 1) and _may_hold(one, two.storage_offset()))
    (first, end), (other_first, other_end) = _extent(one), _extent(two)
    return statically_known_true(end <= other_first) or statically_known_true(other_end <= first)


def _may_hold(tensor: torch.Tensor, place: Any) -> bool:
    """Whether an element of a tensor may lie at a place of its storage, as far as strides are known."""
    left = place - tensor.storage_offset()
    if not all(type(number) is int for number in (left, *tensor.stride())):
        return True
    for stride, size in sorted(zip(tensor.stride(), tensor.shape, strict=True), key=_first, reverse=True):
        steps = left // stride if stride else 0
        if steps < 0 or statically_known_true(size <= steps):
            return False
        left -= steps * stride
    return left == 0


_first = operator.itemgetter(0)


def _is_empty(tensor: torch.Tensor) -> bool:
    return statically_known_true(tensor.numel() == 0)


def _has_gaps(tensor: torch.Tensor) -> bool:
    first, end = _extent(tensor)
    return statically_known_true(end - first > tensor.numel() * tensor.dtype.itemsize)


def _extent(tensor: torch.Tensor) -> tuple[Any, Any]:
    """The first byte of a tensor in its storage, and the one after its last."""
    length = 1 + sum((size - 1) * stride for size, stride in zip(tensor.shape, tensor.stride(), strict=True))
    first = tensor.storage_offset()
    return first * tensor.dtype.itemsize, (first + length) * tensor.dtype.itemsize
