"""Constructors of tensors from the first days of torch, which take a size and data alike.

`x.new(size)` reads a `torch.Size` as a size and any other sequence as data. A graph holds sizes as plain tuples, so it
is told by another name which of the two is meant.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import torch

from framelift.values.core import protocol as py
from framelift.values.core.primitives import primitive

if TYPE_CHECKING:
    from framelift.values.core.tracer import Tracer


@primitive(torch.Tensor.new)
def _new(tracer: Tracer, tensor: Any, *args: Any, **kwargs: Any) -> Any:
    given = args[0] if args else kwargs.get("size")
    name = "new_empty" if py.type_of(given) is torch.Size else "new"
    return tracer.call_tensor_method(name, (tensor, *args), kwargs)
