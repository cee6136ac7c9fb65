"""Digests of constants: `hashlib.sha256(b"...").hexdigest()` and its like, computed while capturing."""

from __future__ import annotations

import hashlib
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from framelift.breaks import FL0107, GraphBreak
from framelift.values.core import protocol as py
from framelift.values.core.base import Value
from framelift.values.core.methods import method, method_of
from framelift.values.core.primitives import primitive

if TYPE_CHECKING:
    from framelift.values.core.emitter import Emitter
    from framelift.values.core.tracer import Tracer

_FACTS = frozenset({"digest_size", "block_size", "name"})


class DigestValue(Value):
    """What `make(*args, **kwargs)` gave, and what it was fed since: `concrete` has all of it inside."""

    __slots__ = ("make", "given", "named", "fed")
    assigns = ("concrete", "fed")

    def __init__(self, concrete: Any, make: Callable[..., Any], given: tuple[Any, ...], named: dict[str, Any]) -> None:
        super().__init__(None, concrete)
        self.make = make
        self.given = given
        self.named = named
        self.fed = b""

    def python_type(self) -> type:
        return type(self.concrete)

    def attribute(self, tracer: Tracer, name: str) -> Any:
        return getattr(self.concrete, name) if name in _FACTS else method_of(self, tracer, name)

    @method
    def update(self, tracer: Tracer, data: Any, /) -> None:
        plain = tracer.constant(data)
        longer = self.concrete.copy()
        py.evaluate(tracer, longer.update, plain)
        tracer.journal.touch(self)
        self.concrete = longer
        self.fed += plain

    @method
    def digest(self, tracer: Tracer, *length: Any) -> Any:
        return py.fold(tracer, self.concrete.digest, *map(tracer.constant, length))

    @method
    def hexdigest(self, tracer: Tracer, *length: Any) -> Any:
        return py.fold(tracer, self.concrete.hexdigest, *map(tracer.constant, length))

    @method
    def copy(self, tracer: Tracer) -> Any:
        made = DigestValue(self.concrete.copy(), self.make, self.given, self.named)
        made.fed = self.fed
        return made

    def rebuild(self, emit: Emitter) -> None:
        if self.named:
            raise GraphBreak(FL0107, what=self.describe())
        emit.callable(self.make)
        for argument in self.given:
            emit.constant(argument)
        emit.call(len(self.given))
        emit.remember(self)
        if self.fed:
            emit.copy_top()
            emit.load_method("update")
            emit.constant(self.fed)
            emit.call(1)
            emit.pop_top()


def _register() -> None:
    for function in (hashlib.new, *[getattr(hashlib, name) for name in sorted(hashlib.algorithms_guaranteed)]):

        def make(tracer: Tracer, *args: Any, _function: Callable[..., Any] = function, **kwargs: Any) -> Any:
            given = tuple(map(tracer.constant, args))
            named = {name: tracer.constant(value) for name, value in kwargs.items()}
            return DigestValue(py.evaluate(tracer, _function, *given, **named), _function, given, named)

        primitive(function)(make)


_register()
