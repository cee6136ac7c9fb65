"""Small guard trees, residual functions and contexts for the tests of entries, tables and the frame hook."""

from __future__ import annotations

import gc
import inspect
import os
import pathlib
import subprocess
import sys
import textwrap
from collections.abc import Callable
from types import CodeType, FunctionType
from typing import Any

from framelift.native import _core


def nslots(code: CodeType) -> int:
    flags = code.co_flags
    extra = bool(flags & inspect.CO_VARARGS) + bool(flags & inspect.CO_VARKEYWORDS)
    return code.co_argcount + code.co_kwonlyargcount + extra


def tree(slots: int, *checks: tuple[int, int, object], fetch_function: bool = False) -> _core.GuardTree:
    """Checks (slot, CHECK_..., argument); with fetch_function the function called is fetched as object 0."""
    nodes: list[tuple[int, int, object, list[tuple[int, object]], int]] = [
        (-1, _core.ACCESS_ARG, slot, [(kind, argument)], -1) for slot, kind, argument in checks
    ]
    if fetch_function:
        nodes.append((-1, _core.ACCESS_FUNCTION, None, [], 0))
    return _core.GuardTree(nodes, [], slots, int(fetch_function), None)


def private(function: FunctionType) -> FunctionType:
    """The function with globals of its own, as residual functions have: only what it names is in them."""
    names = {name: function.__globals__[name] for name in function.__code__.co_names if name in function.__globals__}
    return FunctionType(function.__code__, {"__builtins__": __builtins__, **names}, function.__name__)


def accept(function: FunctionType, residual: FunctionType, key: object = "test") -> _core.Entry:
    """An entry of the function's code that takes every call."""
    code = function.__code__
    return _core.table_for(code, key).install(tree(nslots(code)), residual, residual.__name__)


def no_miss(lifted: _core.Lifted, slots: tuple[Any, ...]) -> None:
    return None


def lift(function: FunctionType, miss: Callable[..., Any] = no_miss, key: object = "test") -> _core.Lifted:
    return _core.Lifted(function, _core.table_for(function.__code__, key), miss)


class Context:
    """Lifts the functions it was given residual functions for, leaves others alone, and notes what it is asked."""

    def __init__(self, *replacements: tuple[FunctionType, FunctionType], key: object = None) -> None:
        self.key = key or ("hook", object())  # a test's functions may have the code of another run's
        self.replacements = {original.__code__: residual for original, residual in replacements}
        self.asked: list[str] = []

    def __call__(self, code: CodeType, function: FunctionType, slots: tuple[Any, ...]) -> _core.Entry | bool | None:
        self.asked.append(code.co_name)
        residual = self.replacements.get(code)
        if residual is None:
            return False
        return _core.table_for(code, self.key).install(tree(nslots(code)), residual, code.co_name)

    def run(self, callable: Callable[..., Any], *args: Any, **kwargs: Any) -> Any:
        return _core.run_hooked(self, callable, *args, **kwargs)


def references(*objects: object) -> list[int]:
    gc.collect()
    return [sys.getrefcount(item) for item in objects]


def run_python(script: str) -> subprocess.CompletedProcess[str]:
    """Runs a script in a process of its own that finds the same modules."""
    return run_in(None, "-c", textwrap.dedent(script))


def run_in(folder: pathlib.Path | None, *command: str, **variables: str) -> subprocess.CompletedProcess[str]:
    """Runs Python in a folder (None: this one), where it finds the same modules."""
    path = os.pathsep.join(os.path.abspath(entry) for entry in sys.path if entry)
    environment = {**os.environ, "PYTHONPATH": path, **variables}
    return subprocess.run(
        [sys.executable, *command], capture_output=True, text=True, check=False, cwd=folder, env=environment
    )


def resident_kib() -> int:
    with open("/proc/self/statm") as statm:
        return int(statm.read().split()[1]) * 4
