"""What `torch.distributions` looks up on its classes: properties that are computed once."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from torch.distributions.utils import _lazy_property_and_property

from framelift.values.core.base import Value
from framelift.values.core.primitives import primitive

if TYPE_CHECKING:
    from framelift.values.core.tracer import Tracer


class LazyPropertyValue(Value):
    """A lazy property, reached through a class: programs ask what it is."""

    __slots__ = ()

    def python_type(self) -> type:
        return _lazy_property_and_property


@primitive(_lazy_property_and_property)
def _lazy_property(tracer: Tracer, wrapped: Any) -> LazyPropertyValue:
    return LazyPropertyValue()
