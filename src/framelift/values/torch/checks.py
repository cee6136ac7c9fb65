"""`torch._check` and its kin: what they say about numbers that depend on data is presumed, and checked by the graph."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from torch import _check, _check_index, _check_not_implemented, _check_type, _check_value

from framelift.values.core import protocol as py
from framelift.values.core.primitives import primitive
from framelift.values.numbers.symbolic import SymbolicValue

if TYPE_CHECKING:
    from framelift.capture.lift import Lift

_CHECKS = (
    _check,
    _check_value,
    _check_index,
    _check_type,
    _check_not_implemented,
)


def _register(function: Any) -> None:
    def check(lift: Lift, cond: Any, message: Any = None) -> Any:
        if isinstance(cond, SymbolicValue) and cond.depends_on_data:
            lift.presume(cond.ref(lift))
            return None
        if py.type_of(cond) is bool and py.truth(lift, cond):
            return None
        return lift.inline(lift.known_object(function), [lift.constant(cond), message], {})

    primitive(function)(check)


for _function in _CHECKS:
    _register(_function)
