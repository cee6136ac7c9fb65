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
    from framelift.capture.lift import Lift
    from framelift.residual.generator import Generator

_FACTS = frozenset({"digest_size", "block_size", "name"})


class DigestValue(Value):
    """What `make(*args, **kwargs)` gave, and what it was fed since: `concrete` has all of it inside."""

    __slots__ = ("make", "given", "named", "fed")

    def __init__(self, concrete: Any, make: Callable[..., Any], given: tuple[Any, ...], named: dict[str, Any]) -> None:
        super().__init__(None, concrete)
        self.make = make
        self.given = given
        self.named = named
        self.fed = b""

    def python_type(self) -> type:
        return type(self.concrete)

    def attribute(self, lift: Lift, name: str) -> Any:
        return getattr(self.concrete, name) if name in _FACTS else method_of(self, lift, name)

    @method
    def update(self, lift: Lift, data: Any, /) -> None:
        plain = lift.constant(data)
        longer = self.concrete.copy()
        py.evaluate(lift, longer.update, plain)
        lift.journal.touch(self)
        self.concrete = longer
        self.fed += plain

    @method
    def digest(self, lift: Lift, *length: Any) -> Any:
        return py.fold(lift, self.concrete.digest, *map(lift.constant, length))

    @method
    def hexdigest(self, lift: Lift, *length: Any) -> Any:
        return py.fold(lift, self.concrete.hexdigest, *map(lift.constant, length))

    @method
    def copy(self, lift: Lift) -> Any:
        made = DigestValue(self.concrete.copy(), self.make, self.given, self.named)
        made.fed = self.fed
        return made

    def state(self) -> Any:
        return self.concrete, self.fed

    def restore(self, state: Any) -> None:
        self.concrete, self.fed = state

    def rebuild(self, generate: Generator) -> None:
        if self.named:
            raise GraphBreak(FL0107, what=self.describe())
        generate.callable(self.make)
        for argument in self.given:
            generate.constant(argument)
        generate.call(len(self.given))
        generate.remember(self)
        if self.fed:
            generate.copy_top()
            generate.load_method("update")
            generate.constant(self.fed)
            generate.call(1)
            generate.pop_top()


def _register() -> None:
    for function in (hashlib.new, *[getattr(hashlib, name) for name in sorted(hashlib.algorithms_guaranteed)]):

        def make(lift: Lift, *args: Any, _function: Callable[..., Any] = function, **kwargs: Any) -> Any:
            given = tuple(map(lift.constant, args))
            named = {name: lift.constant(value) for name, value in kwargs.items()}
            return DigestValue(py.evaluate(lift, _function, *given, **named), _function, given, named)

        primitive(function)(make)


_register()
