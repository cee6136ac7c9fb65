"""framelift lifts running Python frames into PyTorch FX graphs.

    >>> import framelift, torch
    >>> @framelift.compile(backend="eager")
    ... def f(x):
    ...     return (x + x).relu()
    >>> f(torch.ones(2))
    tensor([2., 2.])

The public names live in `framelift.api`. They are loaded when first used, so that the parts that need no torch
(`framelift.bytecode`, `framelift.native`) can be imported without it.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING

from framelift.own_builtins import keep_builtins
from framelift.torch_names import TORCH_NAMES

keep_builtins()

if TYPE_CHECKING:
    from framelift import config as config
    from framelift.api import FrameliftWarning as FrameliftWarning
    from framelift.api import allow_in_graph as allow_in_graph
    from framelift.api import assume_constant_result as assume_constant_result
    from framelift.api import compile as compile
    from framelift.api import counters as counters
    from framelift.api import disable as disable
    from framelift.api import error_on_graph_break as error_on_graph_break
    from framelift.api import explain as explain
    from framelift.api import export as export
    from framelift.api import graph_break as graph_break
    from framelift.api import is_compiling as is_compiling
    from framelift.api import list_backends as list_backends
    from framelift.api import mark_dynamic as mark_dynamic
    from framelift.api import mark_static as mark_static
    from framelift.api import mark_unbacked as mark_unbacked
    from framelift.api import maybe_mark_dynamic as maybe_mark_dynamic
    from framelift.api import optimize as optimize
    from framelift.api import pass_stats as pass_stats
    from framelift.api import patch_torch as patch_torch
    from framelift.api import register_backend as register_backend
    from framelift.api import reset as reset
    from framelift.api import set_logs as set_logs
    from framelift.api import set_stance as set_stance

__version__ = "0.1.0"

__all__ = [
    "compile",
    "optimize",
    "patch_torch",
    "disable",
    "error_on_graph_break",
    "graph_break",
    "allow_in_graph",
    "assume_constant_result",
    "is_compiling",
    "reset",
    "export",
    "explain",
    "counters",
    "pass_stats",
    "set_logs",
    "set_stance",
    "list_backends",
    "mark_dynamic",
    "maybe_mark_dynamic",
    "mark_static",
    "mark_unbacked",
    "register_backend",
    "config",
    "FrameliftWarning",
]


def __getattr__(name: str) -> object:
    if name == "config":
        return importlib.import_module("framelift.config")
    if name in __all__:
        api = importlib.import_module("framelift.api")
        # All at once: a name that user code first uses inside lifted code must be found without coming here.
        globals().update({public: getattr(api, public) for public in api.__all__})
        lacking = TORCH_NAMES.lacking()
        if lacking is not None:
            importlib.import_module("framelift.errors").warn_user(lacking)
        return globals()[name]
    raise AttributeError(f"module 'framelift' has no attribute {name!r}")


def __dir__() -> list[str]:
    return [*__all__, "__version__"]
