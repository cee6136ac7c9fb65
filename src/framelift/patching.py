"""`patch_torch()`: programs that call `torch.compile`, `module.compile()` or `torch.compiler` get framelift.

`torch.compiler.compile` calls `torch.compile`; `torch.compiler.is_compiling` is answered, and
`torch.compiler.cudagraph_mark_step_begin` heard, without a patch. A library that did `from torch import compile` before
keeps what it has.
"""

from __future__ import annotations

import functools
import sys
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

Function = Callable[..., Any]
# What stands for a function of torch, made of that function: (who has it, its name) -> maker.
Replacements = Mapping[tuple[Any, str], Callable[[Function], Function]]


def arguments_for_framelift(given: Mapping[str, Any]) -> dict[str, Any]:
    """Keyword arguments of torch.compile as framelift.compile takes them.

    >>> arguments_for_framelift({"backend": None, "dynamic": False, "name": "step"})
    {'dynamic': False, 'backend': 'inductor'}
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
    if taken.get("backend") is None:  # torch's way to say "the default one"
        taken["backend"] = _default_backend()
    return taken


def _default_backend() -> Any:
    """What `torch.compiler.set_default_backend` has set: that is kept in a module which it loads."""
    registry = sys.modules.get("torch._dynamo.backends.registry")
    get: Callable[[], Any] = getattr(registry, "get_default_backend", lambda: "inductor")
    return get()


class Patches:
    """The replaced names of torch, for as long as somebody wants them replaced."""

    def __init__(self) -> None:
        self._lock = Lock()
        self._users = 0
        self._originals: list[tuple[Any, str, Function]] = []

    def add(self, replacements: Replacements) -> None:
        """Replace them, unless they are already."""
        with self._lock:
            self._users += 1
            if self._users > 1:
                return
            self._originals = [(owner, name, getattr(owner, name)) for owner, name in replacements]
            for (owner, name, original), make in zip(self._originals, replacements.values(), strict=True):
                setattr(owner, name, functools.wraps(original)(make(original)))

    def remove(self) -> None:
        """Put torch's own back when nobody wants them replaced any more."""
        with self._lock:
            self._users -= 1
            if self._users == 0:
                for owner, name, original in self._originals:
                    setattr(owner, name, original)
                self._originals = []


def replacements(
    compile: Function, compile_module: Function, set_stance: Function, others: Mapping[str, Function]
) -> Replacements:
    """What takes the place of torch's functions; `others`: of those of `torch.compiler`, by name."""
    plain = {(torch.compiler, name): functools.partial(_calling, function) for name, function in others.items()}
    return MappingProxyType(
        {
            (torch, "compile"): functools.partial(_compile, compile),
            (torch.nn.Module, "compile"): functools.partial(_compile_module, compile_module),
            (torch.compiler, "set_stance"): functools.partial(_set_stance, set_stance),
            (torch.compiler, "nested_compile_region"): _nested_compile_region,
            **plain,
        }
    )


def _calling(function: Function, original: Function) -> Function:
    def called(*args: Any, **kwargs: Any) -> Any:
        return function(*args, **kwargs)

    return called


def _compile(compile: Function, original: Function) -> Function:
    def torch_compile(model: Any = None, **given: Any) -> Any:
        return compile(model, **arguments_for_framelift(given))

    return torch_compile


def _compile_module(compile_module: Function, original: Function) -> Function:
    def module_compile(self: torch.nn.Module, **given: Any) -> None:
        compile_module(self, **arguments_for_framelift(given))

    return module_compile


def _set_stance(set_stance: Function, original: Function) -> Function:
    """`skip_guard_eval_unsafe` says that checks may be left out: none is."""

    def torch_set_stance(
        stance: str = "default", *, skip_guard_eval_unsafe: bool = False, force_backend: Any = None
    ) -> Any:
        if force_backend is not None:  # framelift hears of it from torch
            return original(stance, force_backend=force_backend)
        return set_stance(sys._getframe(1), stance)

    return torch_set_stance


def _nested_compile_region(original: Function) -> Function:
    """Gives the function itself: where a region is repeated, the option `deduplicate` finds it."""

    def region(fn: Any = None, *, options: Any = None, max_reuse_entries: int = 8, reuse_hash_fn: Any = None) -> Any:
        if options is not None:
            raise TypeError(f"nested_compile_region(options={short(options)}) has no counterpart in framelift")
        return region if fn is None else fn

    return region


_PATCHES = Patches()


class Patched:
    """What `patch_torch()` returns: `undo()`, or the end of a `with` block, takes the patch back (once)."""

    def __init__(self, replacements: Replacements) -> None:
        self._active = True
        _PATCHES.add(replacements)

    def undo(self) -> None:
        """torch's own functions again, unless another patch is still in force."""
        if self._active:
            self._active = False
            _PATCHES.remove()

    def __enter__(self) -> Patched:
        return self

    def __exit__(self, *error: object) -> None:
        self.undo()
