"""Type parameters in C (`TypeVar` and its like, since Python 3.12): known by identity, and by what they are called."""

from __future__ import annotations

import sys
import typing
from typing import TYPE_CHECKING, Any

from framelift.values.core.base import KnownObject
from framelift.values.core.construct import from_constant

if TYPE_CHECKING:
    from framelift.values.core.tracer import Tracer

_IN_C = (typing.TypeVar, typing.ParamSpec, typing.TypeVarTuple) if sys.version_info >= (3, 12) else ()
_SAID = frozenset({"__name__", "__covariant__", "__contravariant__", "__infer_variance__", "__module__"})


class TypeParameterValue(KnownObject, models=_IN_C):
    """Bounds and constraints are left to Python: reading them may run what the program wrote there."""

    __slots__ = ()
    answers_operators = False

    def attribute(self, tracer: Tracer, name: str) -> Any:
        if name in _SAID and hasattr(self.concrete, name):
            self.note(tracer)
            return from_constant(tracer, getattr(self.concrete, name))
        if name == "__class__":
            return tracer.known_object(type(self.concrete))
        return super().attribute(tracer, name)

    def text(self, tracer: Tracer, conversion: str) -> str:
        self.note(tracer)
        return repr(self.concrete)
