"""Names that this version of torch does not have.

framelift uses names of torch's of which some are private: another version may be without them. So framelift's modules
are loaded with an `__import__` of their own (see `own_builtins.py`), which gives a stand-in for what is not there, and
loading them never fails for it. Nothing is the stand-in and nothing is an instance of it, so what only compares with it
goes on; whoever calls it has `NotInTorch` raised. That capture is given up, and its function runs in Python.

    >>> from torch.overrides import gone  # in a module of framelift
    >>> isinstance(3, gone)
    False
    >>> gone()
    Traceback (most recent call last):
    framelift.torch_names.NotInTorch: torch.overrides.gone is not in torch 2.99.0

So a private name that is needed while a module is loaded is imported (`from torch._C import _foo`), never read as
`torch._C._foo`.
"""

from __future__ import annotations

import builtins
import operator
import sys
from collections.abc import Callable, Mapping, Sequence
from types import SimpleNamespace
from typing import Any


class NotInTorch(ImportError):
    """Something was needed that this version of torch does not have."""


class _StandIn(type):
    """The class of stand-ins, which are classes, too: of what may stand in a table, only a class may stand anywhere."""

    def __call__(cls, *args: Any, **kwargs: Any) -> Any:
        raise NotInTorch(f"{cls.__qualname__} is not in torch {torch_version()}")

    __bool__ = __iter__ = __call__

    def __getattr__(cls, name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError(name)
        return TORCH_NAMES.stand_in(f"{cls.__qualname__}.{name}")


def is_absent(thing: Any) -> bool:
    """Whether something of torch's is a stand-in for what is not there."""
    return type(thing) is _StandIn


class TorchNames:
    """`__import__` for framelift's modules; knows for which names of torch it gave stand-ins."""

    def __init__(self, plain: Callable[..., Any]) -> None:
        self._import = plain
        self._stand_ins: dict[str, _StandIn] = {}
        # Why nothing at all can be lifted with this torch; None if something can.
        self.unfit: str | None = None

    def __call__(
        self,
        name: str,
        globals: Mapping[str, Any] | None = None,
        locals: Mapping[str, Any] | None = None,
        fromlist: Sequence[str] | None = None,
        level: int = 0,
    ) -> Any:
        if not fromlist or name.partition(".")[0] != "torch":
            return self._import(name, globals, locals, fromlist, level)
        try:
            found = self._import(name, globals, locals, fromlist)
        except ModuleNotFoundError as error:
            if error.name == "torch" or not f"{name}.".startswith(f"{error.name}."):
                raise
            found = None
        if all(hasattr(found, each) for each in fromlist):
            return found
        partly = SimpleNamespace()
        for each in fromlist:
            setattr(partly, each, getattr(found, each) if hasattr(found, each) else self.stand_in(f"{name}.{each}"))
        return partly

    def operator(self, path: str) -> Any:
        """`torch.ops.<path>`, or a stand-in: namespaces of operators are no modules."""
        try:
            return operator.attrgetter(path)(sys.modules["torch"].ops)
        except AttributeError:
            return self.stand_in(f"torch.ops.{path}")

    def stand_in(self, path: str) -> _StandIn:
        # An exception, so that it can stand in an `except` as well.
        return self._stand_ins.setdefault(path, _StandIn(path, (Exception,), {}))

    def lacking(self) -> str | None:
        """What to tell a user whose torch does not have all that framelift asked for."""
        if self.unfit is not None:
            return f"framelift lifts nothing with torch {torch_version()}, all runs in Python: {self.unfit}"
        if not self._stand_ins:
            return None
        names = ", ".join(sorted(self._stand_ins))
        return f"torch {torch_version()} is not known to framelift; what needs these names runs in Python: {names}"


def torch_version() -> str:
    """`2.13.0+cpu`"""
    return str(getattr(sys.modules.get("torch"), "__version__", ""))


TORCH_NAMES = TorchNames(builtins.__import__)
