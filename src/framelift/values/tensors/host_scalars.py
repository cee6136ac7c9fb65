"""Numbers in tensors of the host: `step.item()` is known before the graph runs, if `step` is given to it.

Optimizers count their steps in tensors of one element, and calculate with the number in Python. Such a number is a
symbol: residual code reads it before the graph runs, and calculates what the program does. Where the graph writes to
the tensor first (`step += 1`), residual code calculates what it writes.

Facts about it are guarded as of any number. What needs the number itself (a text, `range`) has it from the graph: see
`data_dependent`.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any

import torch

from framelift.graph import NumberRef, TensorRef
from framelift.graph.record import Record, operation_name
from framelift.guards.quantity import Calculated, Quantity
from framelift.shapes.guard_program import single
from framelift.values.core import protocol as py
from framelift.values.numbers.symbolic import SizedTensor, SymbolicValue

if TYPE_CHECKING:
    from framelift.values.core.tracer import Tracer

_FLOATS = (torch.float32, torch.float64)
# Ints up to here are floats without loss.
_EXACT = 2**53


def host_number(tracer: Tracer, tensor: SizedTensor) -> Any:
    """What `tensor.item()` gives, as far as residual code knows it before the graph runs; None: it does not."""
    return _number_of(tracer, tensor.ref(tracer), None) if tracer.has_residual else None


def _number_of(tracer: Tracer, ref: TensorRef, until: Record | None) -> Any:
    """The number in a tensor before a record; at the end, for None."""
    # What writes to one of several that share the memory writes the number of all.
    if not all(_is_host_scalar(alias) and alias.dtype is ref.dtype for alias in ref.storage.refs):
        return None
    if len(ref.storage.refs) > 1 and len({alias.descriptor.offset for alias in ref.storage.refs}) > 1:
        return None
    record = ref.record
    for change in ref.storage.changes:
        if until is not None and change.index >= until.index:
            break
        record = change
    return _given(tracer, ref) if record is None else _left_by(tracer, record, ref)


def _is_host_scalar(ref: TensorRef) -> bool:
    descriptor = ref.descriptor
    is_plain = descriptor.is_plain and not descriptor.is_neg and descriptor.dtype in _FLOATS
    return is_plain and descriptor.device.type == "cpu" and math.prod(descriptor.shape) == 1


def _given(tracer: Tracer, ref: TensorRef) -> Any:
    """The number in an input, at entry."""
    tensor = ref.example
    if tensor is None or type(tensor) not in (torch.Tensor, torch.nn.Parameter) or ref.is_new:
        return None
    source = tracer.inputs.source(ref)
    if source.access == "AS_TENSOR":
        return None
    return tracer.inputs.item_number(tracer, Quantity(source, "ITEM", tensor.element_size()), tensor.item())


def _left_by(tracer: Tracer, record: Record, ref: TensorRef) -> Any:
    """What an operation leaves in a tensor that it makes or writes to."""
    name, args = operation_name(record.target), list(record.args)
    if name.startswith("_foreach_") and name.endswith("_"):
        name, args = name.removeprefix("_foreach_"), [_part_of(arg, record, ref) for arg in args]
    if name in _CONSTANTS:
        return _CONSTANTS[name]
    rule, count = _RULES.get(name.rstrip("_"), (None, 0))
    if rule is None or len(args) != count or not all(_means_nothing(*pair) for pair in record.kwargs.items()):
        return None
    operands = [_operand(tracer, arg, record, ref) for arg in args]
    result = None if any(operand is None for operand in operands) else rule(tracer, *operands)
    return None if result is None else _rounded(tracer, result, ref)


def _means_nothing(keyword: str, value: Any) -> bool:
    """Whether a keyword argument does not change the number."""
    return keyword in ("dtype", "device", "memory_format") or (keyword == "alpha" and value == 1)


def _part_of(arg: Any, record: Record, ref: TensorRef) -> Any:
    """What an argument of an operation on lists has for one of the tensors that it writes to."""
    places = [index for index, tensor in enumerate(record.args[0]) if tensor.storage is ref.storage]
    if len(places) != 1:
        return None
    return arg[places[0]] if isinstance(arg, list | tuple) else arg


def _operand(tracer: Tracer, arg: Any, record: Record, ref: TensorRef) -> Any:
    """The number that an operation sees in an argument."""
    if isinstance(arg, TensorRef):
        return _number_of(tracer, arg, record) if arg.dtype is ref.dtype else None
    number = tracer.from_graph(arg) if isinstance(arg, NumberRef) else arg
    if py.type_of(number) is float:
        return _rounded(tracer, number, ref)
    return _rounded(tracer, float(number), ref) if type(number) is int and abs(number) <= _EXACT else None


def _rounded(tracer: Tracer, number: Any, ref: TensorRef) -> Any:
    """A float as a tensor holds it."""
    if ref.dtype is torch.float64 or _is_single(number):
        return number
    if isinstance(number, SymbolicValue):
        return tracer.calculate(single, number)
    try:
        return single(number)
    except OverflowError:
        return None


def _is_single(number: Any) -> bool:
    origin = getattr(number, "origin", None)
    if isinstance(origin, Quantity):
        return origin.kind == "ITEM" and origin.dim == torch.float32.itemsize
    return isinstance(origin, Calculated) and origin.function is single


# -- what operations compute, one rounding after the other -----------------------------------------------------------


def _by(symbol: str) -> Callable[..., Any]:
    """Of two floats of half as many bits, the rounded result is that of the rounded operands."""
    return lambda tracer, left, right: py.binary(tracer, symbol, left, right)


def _itself(tracer: Tracer, number: Any) -> Any:
    return number


def _negated(tracer: Tracer, number: Any) -> Any:
    return py.unary(tracer, "-", number)


def _second(tracer: Tracer, _: Any, number: Any) -> Any:
    return number


_CONSTANTS = {"zeros": 0.0, "zeros_like": 0.0, "zero_": 0.0, "ones": 1.0, "ones_like": 1.0}
# By the name of an operation and of its like in place: what it computes, of how many arguments.
_RULES: Mapping[str, tuple[Callable[..., Any], int]] = {
    **dict.fromkeys(("add", "iadd"), (_by("+"), 2)),
    **dict.fromkeys(("sub", "isub"), (_by("-"), 2)),
    **dict.fromkeys(("mul", "imul"), (_by("*"), 2)),
    **dict.fromkeys(("div", "truediv", "itruediv", "true_divide"), (_by("/"), 2)),
    **dict.fromkeys(("tensor", "as_tensor", "scalar_tensor", "clone", "detach", "squeeze"), (_itself, 1)),
    "neg": (_negated, 1),
    **dict.fromkeys(("copy", "fill"), (_second, 2)),
}
