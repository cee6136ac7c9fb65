"""Sizes of tensors some of whose dimensions are symbolic: `torch.Size` with symbolic numbers in it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import torch

from framelift.values.containers.sequences import TupleValue
from framelift.values.core import protocol as py
from framelift.values.core.exceptions import raise_error
from framelift.values.core.methods import method
from framelift.values.numbers.symbolic import SizedTensor, SizeOf, SymbolicValue

if TYPE_CHECKING:
    from framelift.values.core.emitter import Emitter
    from framelift.values.core.tracer import Tracer


class SizeValue(TupleValue):
    """A `torch.Size` that holds symbolic numbers."""

    __slots__ = ()

    def python_type(self) -> type:
        return torch.Size

    def make(self, tracer: Tracer, items: list[Any]) -> Any:
        return make_size(tracer, items)

    def graph_argument(self, tracer: Tracer) -> Any:
        return tuple([tracer.graph_argument(item) for item in self.items(tracer)])

    def constant(self, tracer: Tracer) -> Any:
        return torch.Size([tracer.constant(item) for item in self.items(tracer)])

    def text(self, tracer: Tracer, conversion: str) -> str:
        return repr(self.constant(tracer))

    @method
    def numel(self, tracer: Tracer) -> Any:
        count: Any = 1
        for item in self.items(tracer):
            count = py.binary(tracer, "*", count, item)
        return count

    def rebuild(self, emit: Emitter) -> None:
        emit.callable(torch.Size)
        super().rebuild(emit)
        emit.builder.call(1)


def make_size(tracer: Tracer, items: list[Any]) -> Any:
    """`torch.Size(items)`."""
    if any(isinstance(item, SymbolicValue) for item in items):
        return SizeValue(list(items))
    return py.fold(tracer, torch.Size, [tracer.constant(item) for item in items])


def size_of(tracer: Tracer, tensor: SizedTensor) -> Any:
    """`tensor.shape`."""
    shape = tensor.ref(tracer).descriptor.shape
    return make_size(tracer, [size_in(tracer, tensor, dim) for dim in range(len(shape))])


def size_in(tracer: Tracer, tensor: SizedTensor, dim: int) -> Any:
    """`tensor.shape[dim]`."""
    size = tensor.ref(tracer).descriptor.shape[dim]
    if type(size) is int:
        return size
    number = tracer.call_on_numbers(torch.ops.aten.sym_size.int, (tensor, dim))
    assert number is not NotImplemented, "every tensor has sizes"
    if isinstance(number, SymbolicValue):
        number.origin = SizeOf(tensor, dim)
    return number


def size_method(tracer: Tracer, tensor: SizedTensor, dim: Any = None) -> Any:
    """`tensor.size()` and `tensor.size(dim)`."""
    if py.same(tracer, dim, None):
        return size_of(tracer, tensor)
    wanted = tracer.as_index(dim)
    rank = len(tensor.ref(tracer).descriptor.shape)
    if not -rank <= wanted < rank:
        low, high = (-rank, rank - 1) if rank else (-1, 0)
        message = f"Dimension out of range (expected to be in range of [{low}, {high}], but got {wanted})"
        raise_error(IndexError, message)
    return size_in(tracer, tensor, wanted % rank)
