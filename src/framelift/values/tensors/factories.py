"""Tensors made of numbers that may change: `torch.tensor(n)`, `torch.tensor([height, width])`.

torch needs the very numbers for these; a tensor with one number in it can be made of a symbol.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import torch

from framelift.values.containers.sequences import ListValue, SequenceValue
from framelift.values.core import protocol as py
from framelift.values.numbers.scalars import is_number
from framelift.values.numbers.symbolic import SymbolicValue

if TYPE_CHECKING:
    from framelift.values.core.tracer import Tracer


def tensor_of_numbers(tracer: Tracer, data: Any, kwargs: dict[str, Any]) -> Any:
    """`torch.tensor(data, **kwargs)`, if symbols are in it; None: there are none, or it cannot be done so."""
    if kwargs.keys() - {"dtype", "device"}:
        return None
    if isinstance(data, SymbolicValue):
        return _one(tracer, data, _dtype(tracer, [data], kwargs), kwargs)
    if not isinstance(data, SequenceValue):
        return None
    items = data.items(tracer)
    if not any(isinstance(item, SymbolicValue) for item in items):
        return None
    if not all(isinstance(item, SymbolicValue) or is_number(item) for item in items):
        return None
    dtype = _dtype(tracer, items, kwargs)
    return tracer.call_torch(torch.stack, (ListValue([_one(tracer, item, dtype, kwargs) for item in items]),), {})


def _dtype(tracer: Tracer, items: list[Any], kwargs: dict[str, Any]) -> Any:
    """The dtype that torch gives numbers of these types; None: the default one."""
    if "dtype" in kwargs and not py.same(tracer, kwargs["dtype"], None):
        return kwargs["dtype"]
    kinds = {py.type_of(item) for item in items}
    if float in kinds:
        return None
    return torch.int64 if int in kinds else torch.bool


def _one(tracer: Tracer, number: Any, dtype: Any, kwargs: dict[str, Any]) -> Any:
    given = {name: value for name, value in (("dtype", dtype), ("device", kwargs.get("device"))) if value is not None}
    return tracer.call_torch(torch.scalar_tensor, (number,), given)
