"""What the functions of `framelift.controls`, and torch's own of the same meaning, do to a capture."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NoReturn

from framelift import controls
from framelift.breaks import FL0103, GraphBreak
from framelift.values.primitives import primitive

if TYPE_CHECKING:
    from framelift.capture.lift import Lift


@primitive(controls.graph_break)
def _graph_break(lift: Lift, reason: Any = "") -> NoReturn:
    text = lift.constant(reason)
    raise GraphBreak(FL0103, why=f": {text}" if text else "")


@primitive(controls.is_compiling)
def _is_compiling(lift: Lift) -> bool:
    return True
