"""Objects that count what is done to them, to prove that capture never runs user code.

The counts are plain ints in a dict in the instance, so a lifted program changes them like any other state, and
`check()` compares them with eager's after each call. A count that is too high means that framelift called the method
itself: to look at the object, to compare or hash it, to print it.
"""

from __future__ import annotations

import copy
import functools
import types
from typing import Any


class Canary:
    """Counts calls of its property, of `__getattr__` and of the special methods a careless tool would use."""

    def __init__(self, value: Any = 1) -> None:
        self.calls = dict.fromkeys(_COUNTED, 0)
        self.inner = value

    @property
    def value(self) -> Any:
        self.calls["value"] += 1
        return self.inner

    def __getattr__(self, name: str) -> Any:
        # Not for dunders: copy and pickle look for optional ones.
        if name.startswith("__"):
            raise AttributeError(name)
        self.calls["__getattr__"] += 1
        if name == "missing":
            raise AttributeError(name)
        return 7

    def __eq__(self, other: object) -> bool:
        self.calls["__eq__"] += 1
        return self is other

    def __hash__(self) -> int:
        self.calls["__hash__"] += 1
        return 17

    def __len__(self) -> int:
        self.calls["__len__"] += 1
        return 3

    def __bool__(self) -> bool:
        self.calls["__bool__"] += 1
        return True

    def __iter__(self) -> Any:
        self.calls["__iter__"] += 1
        return iter((1, 2, 3))

    def __contains__(self, item: object) -> bool:
        self.calls["__contains__"] += 1
        return item == 1

    def __getitem__(self, index: int) -> Any:
        self.calls["__getitem__"] += 1
        return index

    def __call__(self, x: Any) -> Any:
        self.calls["__call__"] += 1
        return x + self.inner

    def __repr__(self) -> str:
        self.calls["__repr__"] += 1
        return "Canary()"

    def __deepcopy__(self, memo: dict[int, Any]) -> Canary:
        made = object.__new__(type(self))
        memo[id(self)] = made
        made.__dict__.update(copy.deepcopy(self.__dict__, memo))
        return made

    @property
    def sung(self) -> dict[str, int]:
        """The counts that are not zero, as `{"__eq__": 2}`."""
        return {name: count for name, count in self.calls.items() if count}


_COUNTED = (
    "value", "__getattr__", "__eq__", "__hash__", "__len__", "__bool__", "__iter__", "__contains__", "__getitem__",
    "__call__", "__repr__",
)  # fmt: skip


def watched(cls: type) -> type:
    """A class decorator: every function and property of the class counts its calls in `cls.calls[name]`.

    For classes that need their own methods to be seen (descriptors, metaclasses, modules). The counts are the
    class's, so compare them by hand: run eager, note them, `cls.calls.clear()`, run lifted.
    """
    calls: dict[str, int] = {}

    def counting(name: str, function: types.FunctionType) -> Any:
        @functools.wraps(function)
        def counted(*args: Any, **kwargs: Any) -> Any:
            calls[name] = calls.get(name, 0) + 1
            return function(*args, **kwargs)

        return counted

    for name, member in list(vars(cls).items()):
        if isinstance(member, types.FunctionType):
            setattr(cls, name, counting(name, member))
        elif isinstance(member, property) and member.fget is not None:
            setattr(cls, name, property(counting(name, member.fget), member.fset, member.fdel))
    cls.calls = calls  # type: ignore[attr-defined]
    return cls
