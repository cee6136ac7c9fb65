"""Switching torch's modes inside traced code."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import torch

from framelift.values.primitives import primitive

if TYPE_CHECKING:
    from framelift.capture.lift import Lift


@primitive(torch._C._set_grad_enabled)
def _set_grad_enabled(lift: Lift, enabled: Any) -> None:
    mode = bool(lift.constant(enabled))
    lift.journal.touch(lift.grad_mode)
    torch._C._set_grad_enabled(mode)
    lift.graph.call_function(torch._C._set_grad_enabled, (mode,), {}, lift.program_point())
