"""Which frames below a break are worth lifting."""

from __future__ import annotations

import sysconfig
from types import CodeType, FunctionType

import torch

from framelift.controls import disabled_mark

_STDLIB = tuple({sysconfig.get_path("stdlib") + "/", sysconfig.get_path("platstdlib") + "/"})
_SITE = ("/site-packages/", "/dist-packages/")
_TORCH = torch.__path__[0] + "/"
_OWN = __file__.removesuffix("runtime/policy.py")


def worth_lifting(code: CodeType, function: FunctionType) -> bool:
    """User code and libraries, but not the standard library, torch, framelift itself or what the user disabled."""
    filename = code.co_filename
    if filename.startswith((_TORCH, _OWN)) or filename.startswith("<frozen"):
        return False
    if filename.startswith(_STDLIB) and not any(part in filename for part in _SITE):
        return False
    return disabled_mark(function) is None
