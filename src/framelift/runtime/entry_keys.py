"""Under which key the entries of a function are kept: the options, without keeping the user's backend alive.

A code object owns its tables, and a table its key. A backend that is a closure of the user's must not live as long as
the code of every function it ever compiled, so keys refer to it weakly, and the table goes when the backend is gone.
"""

from __future__ import annotations

import weakref
from collections.abc import Callable
from dataclasses import fields
from types import MethodType
from typing import Any

from framelift.backends.registry import Backend
from framelift.options import Options


class Reference(weakref.ref[Any]):
    """A weak reference that is equal to another one to the same object; the object's own `__eq__` is not asked."""

    __slots__ = ("address",)
    address: int

    def __new__(cls, obj: Any) -> Reference:
        self = super().__new__(cls, obj)
        self.address = id(obj)
        return self

    def __eq__(self, other: object) -> bool:
        if self is other:
            return True
        return isinstance(other, Reference) and self() is not None and self() is other()

    def __hash__(self) -> int:
        return hash(self.address)


class Held:
    """The same for an object that cannot be referred to weakly: it is kept."""

    __slots__ = ("obj",)

    def __init__(self, obj: Any) -> None:
        self.obj = obj

    def __call__(self) -> Any:
        return self.obj

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Held) and self.obj is other.obj

    def __hash__(self) -> int:
        return id(self.obj)


def _refer(obj: Any) -> Reference | Held:
    try:
        return Reference(obj)
    except TypeError:
        return Held(obj)


def _parts(function: Callable[..., Any]) -> tuple[Any, ...]:
    """What a backend consists of: `obj.method` is a new object each time it is read, what it binds is not."""
    return (function.__self__, function.__func__) if isinstance(function, MethodType) else (function,)


class WeakOptions:
    """Options that do not keep their backend alive, and the key of their tables."""

    __slots__ = ("key", "_references", "_name", "_backend_mode", "_backend_options", "_rest")

    def __init__(self, options: Options) -> None:
        backend = options.backend
        assert isinstance(backend, Backend)
        self._references = tuple(_refer(part) for part in _parts(backend.function))
        self._name, self._backend_mode, self._backend_options = backend.name, backend.mode, backend.options
        self._rest = tuple(getattr(options, each.name) for each in fields(options) if each.name != "backend")
        # A plain tuple: the native table looks for weak references in it and watches them.
        self.key = (*self._references, self._backend_mode, self._backend_options, *self._rest)

    def get(self) -> Options | None:
        """The options themselves; None once the backend is gone."""
        parts: list[Any] = [reference() for reference in self._references]
        if any(part is None for part in parts):
            return None
        function = MethodType(parts[1], parts[0]) if len(parts) == 2 else parts[0]
        backend = Backend(self._name, function, self._backend_mode, self._backend_options)
        return Options(backend, *self._rest)
