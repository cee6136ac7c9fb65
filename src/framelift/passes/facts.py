"""What a pass may know about a value: the fake tensor on its node, read so that doubt ends in a :class:`Reject`.

A pass asks `tensor(node)`, `shape(node)`, `ints(value)`. What is missing, symbolic or exotic raises `Reject` with the
reason; the driver counts it and leaves the graph alone. So no pass tests for odd cases, and none trips over them.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
from torch._subclasses.fake_tensor import FakeTensor
from torch.fx import Node
from torch.fx.experimental.symbolic_shapes import statically_known_true

from framelift.shapes.leaves import tensors_in as tensors_in

PLAIN = (torch.Tensor, torch.nn.Parameter, FakeTensor)
KEYS = ("example_value", "val")


class Reject(Exception):
    """A candidate is not rewritten; the reason is counted in the statistics."""

    @property
    def reason(self) -> str:
        return str(self.args[0])


class NoMatch(Reject):
    """A node is nothing for a pass: not even a candidate, so not counted."""


def value(node: Node) -> Any:
    """What the node was seen to compute: a fake tensor, a tuple of them, a number; None if nothing is known."""
    meta = node.meta
    return meta["example_value"] if "example_value" in meta else meta.get("val")


def is_described(node: Node) -> bool:
    """Whether anything is known of the node's value."""
    return "example_value" in node.meta or "val" in node.meta


def is_plain(tensor: Any) -> bool:
    """A strided tensor with nothing special about it."""
    if type(tensor) not in PLAIN:
        return False
    # Asked many times of every tensor of a graph, and the answer never changes.
    known: bool | None = tensor.__dict__.get("_framelift_is_plain")
    if known is None:
        known = tensor.__dict__["_framelift_is_plain"] = (
            tensor.layout is torch.strided
            and not tensor.is_nested
            and not tensor.is_quantized
            and not tensor.is_conj()
            and not tensor.is_neg()
        )
    return known


def tensor(node: Any) -> torch.Tensor:
    """The fake tensor of a node that computes one plain tensor."""
    if not isinstance(node, Node):
        raise Reject("an operand is not computed by the graph")
    found = value(node)
    if not isinstance(found, torch.Tensor):
        raise Reject("not known to be a tensor")
    if not is_plain(found):
        raise Reject("not a plain tensor")
    return found


def shape(node: Any) -> tuple[int, ...]:
    """The sizes of a plain tensor, all of them numbers."""
    sizes = tuple(tensor(node).shape)
    if not all(type(size) is int for size in sizes):
        raise Reject("a size is not a number")
    return sizes


def rank(node: Any) -> int:
    return tensor(node).dim()


def integer(found: Any) -> int:
    if type(found) is not int:
        raise Reject("an argument is not a plain number")
    return found


def ints(found: Any) -> tuple[int, ...]:
    """A list of numbers that stands in the graph as such."""
    if not isinstance(found, list | tuple):
        raise Reject("an argument is not a list of numbers")
    return tuple(integer(item) for item in found)


def wrapped(dim: Any, rank: int) -> int:
    """A dimension counted from the front."""
    dim = integer(dim)
    if not -rank <= dim < rank:
        raise Reject("a dimension is out of range")
    return dim % rank


def nodes(found: Any) -> list[Node]:
    """A literal list of nodes."""
    if not isinstance(found, list | tuple) or not all(isinstance(item, Node) for item in found):
        raise Reject("operands are not a literal list of tensors")
    return list(found)


def same_number(one: Any, other: Any) -> bool:
    """Equal without adding a guard: two unknown sizes are equal only where that is known."""
    if type(one) is int and type(other) is int:
        return one == other
    return bool(statically_known_true(one == other))


def same_numbers(some: Sequence[Any], others: Sequence[Any]) -> bool:
    return len(some) == len(others) and all(map(same_number, some, others))


def dense_strides(sizes: Sequence[int]) -> tuple[int, ...]:
    """The strides of a new tensor of this shape."""
    strides = []
    step = 1
    for size in reversed(sizes):
        strides.append(step)
        step *= max(size, 1)
    return tuple(reversed(strides))


def contiguity(tensor: torch.Tensor) -> bool | None:
    """Whether a tensor is contiguous; None where that would have to be assumed of symbolic strides."""
    if all(type(number) is int for number in (*tensor.shape, *tensor.stride())):
        return tensor.is_contiguous()
    return True if same_numbers(tensor.stride(), dense_strides(tensor.shape)) else None


def same_kind(one: torch.Tensor, other: torch.Tensor) -> bool:
    """Equal in dtype, device and layout: may stand in one stack or cat without a conversion."""
    return one.dtype == other.dtype and one.device == other.device and one.layout == other.layout


def same_geometry(one: Any, other: Any) -> bool:
    """Whether two values are plain tensors alike in everything but their contents: one could stand for the other."""
    return (
        is_plain(one)
        and is_plain(other)
        and same_numbers(one.shape, other.shape)
        and same_kind(one, other)
        and one.requires_grad == other.requires_grad
        and same_numbers(one.stride(), other.stride())
        and same_number(one.storage_offset(), other.storage_offset())
    )
