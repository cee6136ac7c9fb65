"""Sizes of tensors some of whose dimensions are symbolic: `torch.Size` with symbolic numbers in it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import torch

from framelift.values.containers.sequences import TupleValue
from framelift.values.core import protocol as py
from framelift.values.core.exceptions import raise_error
from framelift.values.core.methods import method
from framelift.values.numbers.symbolic import SizeOf, SymbolicValue

if TYPE_CHECKING:
    from framelift.capture.lift import Lift
    from framelift.residual.generator import Generator
    from framelift.values.tensors.tensors import TensorValue


class SizeValue(TupleValue):
    """A `torch.Size` that holds symbolic numbers."""

    __slots__ = ()

    def python_type(self) -> type:
        return torch.Size

    def make(self, lift: Lift, items: list[Any]) -> Any:
        return make_size(lift, items)

    def graph_argument(self, lift: Lift) -> Any:
        return tuple([lift.graph_argument(item) for item in self.items(lift)])

    def constant(self, lift: Lift) -> Any:
        return torch.Size([lift.constant(item) for item in self.items(lift)])

    def text(self, lift: Lift, conversion: str) -> str:
        return repr(self.constant(lift))

    @method
    def numel(self, lift: Lift) -> Any:
        count: Any = 1
        for item in self.items(lift):
            count = py.binary(lift, "*", count, item)
        return count

    def rebuild(self, generate: Generator) -> None:
        generate.callable(torch.Size)
        super().rebuild(generate)
        generate.builder.call(1)


def make_size(lift: Lift, items: list[Any]) -> Any:
    """`torch.Size(items)`."""
    if any(isinstance(item, SymbolicValue) for item in items):
        return SizeValue(list(items))
    return py.fold(lift, torch.Size, [lift.constant(item) for item in items])


def size_of(lift: Lift, tensor: TensorValue) -> Any:
    """`tensor.shape`."""
    shape = tensor.ref(lift).descriptor.shape
    return make_size(lift, [size_in(lift, tensor, dim) for dim in range(len(shape))])


def size_in(lift: Lift, tensor: TensorValue, dim: int) -> Any:
    """`tensor.shape[dim]`."""
    size = tensor.ref(lift).descriptor.shape[dim]
    if type(size) is int:
        return size
    number = lift.call_on_numbers(torch.ops.aten.sym_size.int, (tensor, dim))
    assert number is not NotImplemented, "every tensor has sizes"
    if isinstance(number, SymbolicValue):
        number.origin = SizeOf(tensor, dim)
    return number


def size_method(lift: Lift, tensor: TensorValue, dim: Any = None) -> Any:
    """`tensor.size()` and `tensor.size(dim)`."""
    if py.same(lift, dim, None):
        return size_of(lift, tensor)
    wanted = lift.as_index(dim)
    rank = len(tensor.ref(lift).descriptor.shape)
    if not -rank <= wanted < rank:
        low, high = (-rank, rank - 1) if rank else (-1, 0)
        message = f"Dimension out of range (expected to be in range of [{low}, {high}], but got {wanted})"
        raise_error(IndexError, message)
    return size_in(lift, tensor, wanted % rank)
