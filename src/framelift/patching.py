"""`patch_torch()`: programs that call `torch.compile` or `module.compile()` get framelift.

Three names lead to torch's compiler: `torch.compile`, `torch.compiler.compile`, which calls it, and
`torch.nn.Module.compile`. A library that did `from torch import compile` before keeps what it has.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import Any

import torch

from framelift.errors import short, unknown
from framelift.locks import Lock

# Arguments of torch.compile that only name or limit what torch's own front end keeps: nothing changes without them.
WITHOUT_MEANING = frozenset({"name", "isolate_recompiles"})
# Arguments that change what is compiled, and that framelift has nothing for. None is their default.
NOT_THERE = frozenset({"shapes_spec"})
UNDERSTOOD = frozenset({"fullgraph", "dynamic", "backend", "mode", "options", "disable", "recompile_limit"})

Compile = Callable[..., Any]


def arguments_for_framelift(given: Mapping[str, Any]) -> dict[str, Any]:
    """Keyword arguments of torch.compile as framelift.compile takes them.

    >>> arguments_for_framelift({"backend": None, "dynamic": False, "name": "step"})
    {'dynamic': False}
    """
    taken: dict[str, Any] = {}
    for name, value in given.items():
        if name in UNDERSTOOD:
            taken[name] = value
        elif name in NOT_THERE:
            if value is not None:
                raise TypeError(f"torch.compile({name}={short(value)}) has no counterpart in framelift")
        elif name not in WITHOUT_MEANING:
            raise TypeError(unknown("argument of torch.compile", name, sorted(UNDERSTOOD | WITHOUT_MEANING)))
    if taken.get("backend", "") is None:  # torch's way to say "the default one"
        del taken["backend"]
    return taken


class Patches:
    """The replaced names of torch, for as long as somebody wants them replaced."""

    def __init__(self) -> None:
        self._lock = Lock()
        self._users = 0
        self._originals: Mapping[str, Any] = MappingProxyType({})

    def add(self, compile: Compile, compile_module: Callable[..., None]) -> None:
        """Replace them, unless they are already."""
        with self._lock:
            self._users += 1
            if self._users > 1:
                return
            self._originals = MappingProxyType({"compile": torch.compile, "module": torch.nn.Module.compile})
            torch.compile = _torch_compile(compile)
            torch.nn.Module.compile = _module_compile(compile_module)

    def remove(self) -> None:
        """Put torch's own back when nobody wants them replaced any more."""
        with self._lock:
            self._users -= 1
            if self._users == 0:
                torch.compile = self._originals["compile"]
                torch.nn.Module.compile = self._originals["module"]
                self._originals = MappingProxyType({})


def _torch_compile(compile: Compile) -> Compile:
    @functools.wraps(torch.compile)
    def torch_compile(model: Any = None, **given: Any) -> Any:
        return compile(model, **arguments_for_framelift(given))

    return torch_compile


def _module_compile(compile_module: Callable[..., None]) -> Callable[..., None]:
    @functools.wraps(torch.nn.Module.compile)
    def module_compile(self: torch.nn.Module, **given: Any) -> None:
        compile_module(self, **arguments_for_framelift(given))

    return module_compile


_PATCHES = Patches()


class Patched:
    """What `patch_torch()` returns: `undo()`, or the end of a `with` block, takes the patch back (once)."""

    def __init__(self, compile: Compile, compile_module: Callable[..., None]) -> None:
        self._active = True
        _PATCHES.add(compile, compile_module)

    def undo(self) -> None:
        """torch's own functions again, unless another patch is still in force."""
        if self._active:
            self._active = False
            _PATCHES.remove()

    def __enter__(self) -> Patched:
        return self

    def __exit__(self, *error: object) -> None:
        self.undo()
