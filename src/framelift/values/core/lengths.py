"""Lengths of containers that came from an input and were not changed: no more than the length is guarded."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from framelift.guards.quantity import Quantity
from framelift.values.core.base import Value

if TYPE_CHECKING:
    from framelift.values.core.tracer import Tracer


def given_length(tracer: Tracer, container: Value) -> Any:
    """`len(container)`: a symbol, if it was seen to change."""
    assert container.source is not None
    length = len(container.concrete)
    symbolic = tracer.inputs.symbolic_number(tracer, Quantity(container.source, "LENGTH"), length)
    if symbolic is not None:
        return symbolic
    tracer.guard(container.source, "LENGTH", length)
    return length


def given_truth(tracer: Tracer, container: Value) -> bool:
    """`bool(container)`: how many items there are does not matter if there are any."""
    assert container.source is not None
    if container.concrete:
        tracer.guard(container.source, "NONEMPTY", None)
        return True
    tracer.guard(container.source, "LENGTH", 0)
    return False
