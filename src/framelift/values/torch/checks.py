"""`torch._check` and its kin: what they say about numbers that depend on data is presumed, and checked by the graph.

All of them ask torch's `expect_true`; what they raise is theirs to say.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from torch import _assert
from torch.fx.experimental.symbolic_shapes import expect_true

from framelift.values.core import protocol as py
from framelift.values.core.exceptions import raise_error
from framelift.values.core.primitives import primitive
from framelift.values.numbers.symbolic import SymbolicValue
from framelift.values.tensors.data_dependent import presume_truth
from framelift.values.tensors.tensors import TensorValue

if TYPE_CHECKING:
    from framelift.values.core.tracer import Tracer


@primitive(expect_true)
def _expected(tracer: Tracer, a: Any, skip: Any = 0) -> bool:
    if isinstance(a, SymbolicValue) and a.depends_on_data:
        tracer.presume(a.ref(tracer), is_said=True)
        return True
    return py.truth(tracer, a)


@primitive(_assert)
def _asserted(tracer: Tracer, condition: Any, message: Any) -> None:
    """Checked while capturing where the condition is known; else when the graph runs."""
    if isinstance(condition, TensorValue) and condition.ref(tracer).descriptor.shape.numel() == 1:
        presume_truth(tracer, condition, True, str(tracer.constant(message)))
    elif not _expected(tracer, condition):
        raise_error(AssertionError, tracer.constant(message))
