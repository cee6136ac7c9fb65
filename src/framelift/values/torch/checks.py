"""`torch._check` and its kin: what they say about numbers that depend on data is presumed, and checked by the graph."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from torch import _check, _check_index, _check_not_implemented, _check_type, _check_value

from framelift.values.core import protocol as py
from framelift.values.core.primitives import primitive
from framelift.values.numbers.symbolic import SymbolicValue

if TYPE_CHECKING:
    from framelift.values.core.tracer import Tracer

_CHECKS = (
    _check,
    _check_value,
    _check_index,
    _check_type,
    _check_not_implemented,
)


def _register(function: Any) -> None:
    def check(tracer: Tracer, cond: Any, message: Any = None) -> Any:
        if isinstance(cond, SymbolicValue) and cond.depends_on_data:
            tracer.presume(cond.ref(tracer))
            return None
        if py.type_of(cond) is bool and py.truth(tracer, cond):
            return None
        return tracer.inline(tracer.known_object(function), [tracer.constant(cond), message], {})

    primitive(function)(check)


for _function in _CHECKS:
    _register(_function)
