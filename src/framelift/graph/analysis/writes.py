"""What a graph writes to, and whether copies taken before it runs would be enough to put all of it back.

A graph that raises is undone by running Python, so what it wrote must be as it was. Training a network with batch norm
and a loss in one function needs that: statistics are written long before the loss may find a class out of range.
"""

from __future__ import annotations

from collections.abc import Collection
from math import prod

from framelift.graph.metadata import Descriptor
from framelift.graph.record import TensorRef

# Bytes copied before every call: statistics of the largest networks are far below, caches of language models above.
MOST = 4 << 20


def can_be_put_back(written: Collection[TensorRef]) -> bool:
    """Whether copying these inputs, and copying them back, undoes whatever the graph so far does to them."""
    return all(map(_is_simple, written)) and sum(ref.descriptor.storage_bytes for ref in written) <= MOST


def _is_simple(ref: TensorRef) -> bool:
    """One contiguous block of memory that no other input shares, no gradient flows into and nothing reaches beyond."""
    descriptor = ref.descriptor
    if not descriptor.is_plain or descriptor.requires_grad or descriptor.is_inference:
        return False
    if descriptor.device.type != "cpu" or not _is_contiguous(descriptor):
        return False
    first, end = _extent(descriptor)
    for other in ref.storage.refs:
        if other is ref:
            continue
        if not other.descriptor.is_plain:
            return False
        other_first, other_end = _extent(other.descriptor)
        if other.is_input or other_first < first or other_end > end:
            return False
    return True


def _is_contiguous(descriptor: Descriptor) -> bool:
    expected = 1
    for size, stride in zip(reversed(descriptor.shape), reversed(descriptor.stride), strict=True):
        if size != 1 and stride != expected:
            return False
        expected *= size
    return True


def _extent(descriptor: Descriptor) -> tuple[int, int]:
    """The first byte of a tensor in its storage, and the one after its last."""
    if not prod(descriptor.shape):
        return descriptor.offset * descriptor.dtype.itemsize, descriptor.offset * descriptor.dtype.itemsize
    last = sum((size - 1) * stride for size, stride in zip(descriptor.shape, descriptor.stride, strict=True))
    size = descriptor.dtype.itemsize
    return descriptor.offset * size, (descriptor.offset + last + 1) * size
