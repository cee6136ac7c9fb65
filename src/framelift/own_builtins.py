"""framelift's own code keeps the builtins it was imported with.

A program may put another `len` into `builtins`. What is traced sees it; framelift's modules, which run while the
program waits, must not. So they are loaded with a copy of the builtins in place of the real ones. Code of torch that
framelift calls has no such copy: while builtins are replaced nothing is captured.
"""

from __future__ import annotations

import builtins
import operator
import sys
from collections.abc import Sequence
from importlib.machinery import ModuleSpec, PathFinder, SourceFileLoader
from types import ModuleType

from framelift.torch_names import TORCH_NAMES

OWN = dict(vars(builtins), __import__=TORCH_NAMES)
# What a program can replace without anybody computing anything else.
_TELLING = frozenset(
    {"print", "input", "open", "help", "exit", "quit", "copyright", "credits", "license", "breakpoint", "__import__"}
)
_NEEDED = tuple(name for name, value in OWN.items() if callable(value) and name not in _TELLING)
_FOUND = tuple(OWN[name] for name in _NEEDED)


def replaced_builtins() -> list[str]:
    """The names under which something else is found than when framelift was imported."""
    now = vars(builtins)
    if all(map(operator.is_, map(now.get, _NEEDED), _FOUND)):
        return []
    return [name for name in _NEEDED if now.get(name) is not OWN[name]]


class _Loader(SourceFileLoader):
    """Loads a module that has builtins of its own."""

    def exec_module(self, module: ModuleType) -> None:
        vars(module)["__builtins__"] = OWN
        super().exec_module(module)


class _Finder:
    """Finds framelift's modules where they are, and has them loaded so."""

    @staticmethod
    def find_spec(name: str, path: Sequence[str] | None = None, target: ModuleType | None = None) -> ModuleSpec | None:
        if not name.startswith("framelift."):
            return None
        spec = PathFinder.find_spec(name, path, target)
        if spec is not None and type(spec.loader) is SourceFileLoader:
            spec.loader = _Loader(spec.loader.name, spec.loader.path)
        return spec


def keep_builtins() -> None:
    """Have the modules of framelift that are imported from now on keep the builtins of now."""
    sys.meta_path.insert(0, _Finder)
