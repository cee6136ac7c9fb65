"""`TorchFunctionMode`s that the program pushes: torch's stack of them, as values.

None is pushed while capturing: operations ask the values (`values/tensors/overrides.py`). Where the graph ends inside
of such a block, the frame is left before it, and Python enters it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from torch._C import (
    _get_function_stack_at,
    _is_torch_function_mode_enabled,
    _len_torch_function_stack,
    _pop_torch_function_stack,
    _push_on_torch_function_stack,
)
from torch.overrides import _get_current_function_mode

from framelift.breaks import FL0102, GraphBreak
from framelift.effects.modes import Pushed
from framelift.values.core import protocol as py
from framelift.values.core.base import Value
from framelift.values.core.primitives import primitive
from framelift.values.tensors.overrides import notice

if TYPE_CHECKING:
    from framelift.values.core.tracer import Tracer


@primitive(_push_on_torch_function_stack)
def _push(tracer: Tracer, mode: Any) -> None:
    if _len_torch_function_stack() or not isinstance(mode, Value):  # device contexts are on the real one
        raise GraphBreak(FL0102, what="a function mode within another kind of mode")
    notice(tracer)
    tracer.journal.touch(tracer.modes)
    tracer.modes.functions = (*tracer.modes.functions, Pushed(mode, tracer.steps.count))


@primitive(_pop_torch_function_stack)
def _pop(tracer: Tracer) -> Any:
    functions = tracer.modes.functions
    if not functions:
        raise GraphBreak(FL0102, what="the end of a function mode that the frame did not begin")
    tracer.journal.touch(tracer.modes)
    tracer.modes.functions = functions[:-1]
    return functions[-1].mode


@primitive(_len_torch_function_stack)
def _depth(tracer: Tracer) -> int:
    depth: int = py.fold(tracer, _len_torch_function_stack)
    return depth + len(tracer.modes.functions)


@primitive(_get_function_stack_at)
def _at(tracer: Tracer, index: Any) -> Any:
    number = tracer.as_index(index)
    if _len_torch_function_stack() or not 0 <= number < len(tracer.modes.functions):
        raise GraphBreak(FL0102, what="torch.overrides._get_current_function_mode")
    return tracer.modes.functions[number].mode


@primitive(_is_torch_function_mode_enabled)
def _is_in_one(tracer: Tracer) -> bool:
    return bool(tracer.modes.functions) or py.fold(tracer, _is_torch_function_mode_enabled)


@primitive(_get_current_function_mode)
def _current(tracer: Tracer) -> Any:
    functions = tracer.modes.functions
    if not functions or _len_torch_function_stack():
        raise GraphBreak(FL0102, what="torch.overrides._get_current_function_mode")
    return functions[-1].mode
