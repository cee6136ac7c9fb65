"""Running lifted code: entry tables, captures on a miss, frames below a break, export."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractContextManager
from types import FunctionType
from typing import Any

from framelift.native import _core
from framelift.options import Options
from framelift.runtime.entry_uses import entry_uses
from framelift.runtime.export import export_call
from framelift.runtime.lifting import Runtime, untold_calls

__all__ = ["entry_uses", "export", "hooked", "lift_function", "reset", "untold_calls"]

_RUNTIME = Runtime()


def lift_function(function: FunctionType, options: Options) -> Callable[..., Any]:
    """A callable that runs `function` lifted."""
    lifted: Callable[..., Any] = _RUNTIME.lift(function, options)
    return lifted


def reset() -> None:
    """Drop every entry of every function, and what is remembered about operations."""
    _RUNTIME.reset()


def hooked(options: Options) -> AbstractContextManager[Any]:
    """A block in which frames are lifted as they are called."""
    return _core.hooked(_RUNTIME.context(options), options)


def export(
    function: Callable[..., Any],
    args: tuple[Any, ...],
    kwargs: dict[str, Any],
    aten_graph: bool,
    dynamic_shapes: Any,
) -> Any:
    """`(graph_module, guards)` of one call."""
    return export_call(_RUNTIME, function, args, kwargs, aten_graph, dynamic_shapes)
