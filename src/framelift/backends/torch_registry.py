"""The backends that torch's own compiler knows: its own, and those that somebody registered there.

They are looked for where torch keeps them. framelift does not load that compiler for it: a program that wants one of
its backends, or has registered one, has loaded it.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Sequence
from typing import Any

_REGISTRY = "torch._dynamo.backends.registry"
_TO_LOAD_IT = "backends of torch itself are known after `import torch._dynamo`"


def find(name: str) -> Callable[..., Any] | None:
    """torch's backend of that name, if it is loaded and has one."""
    registry = sys.modules.get(_REGISTRY)
    if registry is None or name not in registry.list_backends(exclude_tags=()):
        return None
    found: Callable[..., Any] = registry.lookup_backend(name)
    return found


def names(exclude_tags: Sequence[str] = ()) -> list[str]:
    """The names of torch's backends, if it is loaded."""
    registry = sys.modules.get(_REGISTRY)
    return [] if registry is None else list(registry.list_backends(exclude_tags=tuple(exclude_tags)))


def hint() -> str:
    """What to say where no backend has the name that is asked for."""
    return "" if _REGISTRY in sys.modules else f"; {_TO_LOAD_IT}"
