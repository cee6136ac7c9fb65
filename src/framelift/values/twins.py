"""C functions of a module that is loaded twice: the second copy's do what the first copy's do."""

from __future__ import annotations

import sys
import types
from typing import Any

from framelift.native import _core


def twin_of(target: Any) -> Any:
    """The function of the module that goes by its name, for one of another copy of that module; else None."""
    if type(target) is not types.BuiltinFunctionType or type(target.__self__) is not types.ModuleType:
        return None
    known = sys.modules.get(target.__self__.__name__)
    twin = known.__dict__.get(target.__name__) if type(known) is types.ModuleType else None
    return twin if twin is not target and _core.is_same_function(twin, target) else None
