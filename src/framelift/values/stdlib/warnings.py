"""`warnings.catch_warnings`: filters of the program's own, and what is heard of warnings while they are in place.

The program's changes to the module of warnings are traced like any other. A graph runs when they are gone again, so an
operation that torch might warn about is a break as long as they last.
"""

from __future__ import annotations

import warnings
from typing import TYPE_CHECKING

from framelift.breaks import FL0102, GraphBreak
from framelift.models.stdlib.warnings import forget_shown_warnings, hears_otherwise
from framelift.values.core.base import Value
from framelift.values.core.primitives import primitive
from framelift.values.tensors.deferred import call_later

if TYPE_CHECKING:
    from framelift.values.core.tracer import Tracer

# What decides whether and how a warning is shown.
_DECISIVE = ("filters", "showwarning", "_showwarnmsg_impl", "defaultaction")


@primitive(warnings._filters_mutated)  # type: ignore[attr-defined]
def _filters_mutated(tracer: Tracer) -> None:
    tracer.has_changed_filters = True
    call_later(tracer, forget_shown_warnings, [])


@primitive(hears_otherwise)
def _hears_otherwise(tracer: Tracer) -> bool:
    if not tracer.has_changed_filters:
        return False
    module = tracer.module_namespace(warnings)
    values = [module.get_key(tracer, name) for name in _DECISIVE if name in module.written]
    values.append(module.get_key(tracer, "filters"))
    return any(isinstance(value, Value) and _is_changed(tracer, value) for value in values)


def _is_changed(tracer: Tracer, value: Value) -> bool:
    """Whether it is something the program made, or changed."""
    return value.source is None or any(changed is value for changed in tracer.journal.changed)


def refuse_unheard(tracer: Tracer) -> None:
    """Break at an operation of torch while the program hears warnings in its own way."""
    if _hears_otherwise(tracer):
        raise GraphBreak(FL0102, what="an operation of torch with filters of warnings that the program put in place")
