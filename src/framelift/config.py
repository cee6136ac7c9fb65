"""Settings of framelift: process defaults, overridden per context.

    >>> from framelift import config
    >>> config.recompile_limit = 512              # the process default
    >>> with config.patch(strict=True):           # this context (thread, task) only
    ...     config.strict
    True

A setting is read as an attribute of this module (`config.strict`), so it is looked up when it is used.
Assigning an unknown name, or a value of the wrong type, is an error at once.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass
from types import MappingProxyType, ModuleType

from framelift.errors import short, unknown


@dataclass(frozen=True, slots=True)
class Setting:
    """One setting: its name, its default (whose type is the setting's type), its meaning, its environment variable."""

    name: str
    default: bool | int
    meaning: str

    @property
    def variable(self) -> str:
        return f"FRAMELIFT_{self.name.upper()}"

    def from_environment(self) -> bool | int:
        text = os.environ.get(self.variable, "").strip().lower()
        if not text:
            return self.default
        if isinstance(self.default, bool):
            if text not in _BOOLS:
                raise ValueError(unknown(f"value of {self.variable}", text, list(_BOOLS)))
            return _BOOLS[text]
        if not text.isdigit():
            raise ValueError(f"{self.variable} is {text!r}: a whole number is needed")
        return int(text)

    def checked(self, value: object) -> bool | int:
        """The value, if it is of the setting's type (a bool is no int here: `recompile_limit = True` is a slip)."""
        if type(value) is not type(self.default):
            raise TypeError(f"config.{self.name} is {_KINDS[type(self.default)]}, got {short(value)}")
        return value


_KINDS = {bool: "a bool", int: "an int"}
_BOOLS = {"1": True, "true": True, "yes": True, "on": True, "0": False, "false": False, "no": False, "off": False}

SETTINGS: Mapping[str, Setting] = MappingProxyType(
    {
        setting.name: setting
        for setting in (
            Setting("strict", False, "raise framelift's own failures, and those of compiled graphs, instead of running "
                    "Python; "
                    "check every native guard against its reference definition"),
            Setting("check", False, "verify bytecode, graph and journal after each stage"),
            Setting("full_traceback", False, "keep framelift's own frames in the tracebacks of errors it raises"),
            Setting("recompile_limit", 64, "entries a function (or module) may have before calls that fit none of them "
                    "run in Python"),
            Setting("total_recompile_limit", 512, "captures of a function (or module) in all, those counted whose "
                    "entries are gone"),
            Setting("evict_entries", False, "at recompile_limit drop the entry that was not used for the longest time "
                    "instead of running Python"),
            Setting("data_dependent", True, "keep sizes and numbers that depend on data in the graph, and check what "
                    "is presumed about them; else the graph breaks there"),
            Setting("trace_limit", 50_000, "rounds of loops, inlined calls and items made at once that one capture "
                    "may trace before it leaves the rest to Python"),
        )
    }
)  # fmt: skip

# What type checkers see; the values live in `_Config` below.
strict: bool
check: bool
full_traceback: bool
recompile_limit: int
total_recompile_limit: int
evict_entries: bool
data_dependent: bool
trace_limit: int

_NO_OVERRIDES: Mapping[str, bool | int] = MappingProxyType({})
_overrides: ContextVar[Mapping[str, bool | int]] = ContextVar("framelift_config", default=_NO_OVERRIDES)
_process: dict[str, bool | int] = {name: setting.from_environment() for name, setting in SETTINGS.items()}


def _known(name: str) -> Setting:
    if name not in SETTINGS:
        raise AttributeError(unknown("setting", name, SETTINGS))
    return SETTINGS[name]


@contextmanager
def patch(**settings: bool | int) -> Iterator[None]:
    """Set some settings for a block (or, as a decorator, for a function), in this context only."""
    checked = {name: _known(name).checked(value) for name, value in settings.items()}
    token = _overrides.set({**_overrides.get(), **checked})
    try:
        yield
    finally:
        _overrides.reset(token)


def current() -> dict[str, bool | int]:
    """All settings as they are in this context."""
    return {**_process, **_overrides.get()}


class _Config(ModuleType):
    """The class of this module, so that settings read and assign as module attributes."""

    def __getattr__(self, name: str) -> bool | int:
        if name in SETTINGS:
            return _overrides.get().get(name, _process[name])
        if name.startswith("__"):  # the import system asks modules for optional dunders
            raise AttributeError(name)
        _known(name)
        raise AssertionError("unreachable: _known raises for a name that is no setting")

    def __setattr__(self, name: str, value: object) -> None:
        if name.startswith("__"):
            return super().__setattr__(name, value)
        checked = _known(name).checked(value)
        overridden = _overrides.get()
        if name in overridden:
            # Inside a patch() of this name the assignment belongs to the patch, and ends with it.
            _overrides.set({**overridden, name: checked})
        else:
            _process[name] = checked
        return None

    def __delattr__(self, name: str) -> None:
        raise AttributeError(f"config.{name} cannot be deleted")

    def __dir__(self) -> list[str]:
        return [*SETTINGS, "current", "patch"]


sys.modules[__name__].__class__ = _Config
