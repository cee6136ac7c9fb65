"""Objects that a call of C code makes of constants: digests, patterns and matches, decimals, generators of numbers.

Such an object is known while capturing, and so is what its methods give for constants: they run here, and those that
change it on a copy, which takes its place. Residual code makes it by a call, too.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from framelift.values.core import protocol as py
from framelift.values.core.base import Call, Value
from framelift.values.core.construct import from_constant
from framelift.values.core.methods import BoundBuiltin, method_of

if TYPE_CHECKING:
    from framelift.guards.source import Source
    from framelift.values.core.tracer import Tracer


# Templates of regular expressions warn about whoever called the caller of `sub`.
__warningregistry__ = py.__warningregistry__


class MadeByCall(Value):
    """`known` is an object in the same state, or None where that is not known; it is replaced, never changed.

    A subclass is a row of a table: which attributes are read, which methods are run, and which of them on a copy.
    """

    __slots__ = ("known", "_made_by")
    assigns: tuple[str, ...] = ("known", "_made_by")
    data: frozenset[str] = frozenset()
    methods: frozenset[str] = frozenset()
    changes: frozenset[str] = frozenset()

    def __init__(self, source: Source | None, concrete: Any, made_by: Call | None = None) -> None:
        super().__init__(source, concrete)
        self.known = concrete
        self._made_by = made_by

    def drop(self) -> None:
        super().drop()
        self.known = None

    def attribute(self, tracer: Tracer, name: str) -> Any:
        if name in self.data:
            return self.answer(tracer, name, (), getattr(self.known, name))
        return KnownMethodValue(self, name) if name in self.methods else method_of(self, tracer, name)

    def run(self, tracer: Tracer, name: str, args: list[Any], kwargs: dict[str, Any]) -> Any:
        """Call a method with arguments of the program, which are constants."""
        plain, named = constants(tracer, args, kwargs)
        if name in self.changes:
            return self.change(tracer, name, *plain, **named)
        result = py.evaluate(tracer, getattr(self.known, name), *plain, **named)
        return self.answer(tracer, name, None if named else plain, result)

    def change(self, tracer: Tracer, name: str, *args: Any, **kwargs: Any) -> Any:
        """Call a method that changes the object, with plain arguments."""
        tracer.journal.touch(self)
        self.known = self.copied()
        return py.fold(tracer, getattr(self.known, name), *args, **kwargs)

    def copied(self) -> Any:
        """A copy of what is known."""
        return self.known.copy()

    def answer(self, tracer: Tracer, name: str, args: tuple[Any, ...] | None, result: Any) -> Any:
        """The result of a method as a value; `args` are None where residual code cannot call it again."""
        return from_constant(tracer, result)

    def made_by(self) -> Call | None:
        return self._made_by

    def parts(self) -> list[Any]:
        return [] if self._made_by is None else list(self._made_by[1])


class KnownMethodValue(BoundBuiltin):
    """A method of an object that is known."""

    __slots__ = ()

    def python_type(self) -> type:
        return type(getattr(self.owner.known, self.name))

    def call(self, tracer: Tracer, args: list[Any], kwargs: dict[str, Any]) -> Any:
        return self.owner.run(tracer, self.name, args, kwargs)


def constants(tracer: Tracer, args: list[Any], kwargs: dict[str, Any]) -> tuple[tuple[Any, ...], dict[str, Any]]:
    """Arguments of the program, as the constants they are."""
    return tuple(map(tracer.constant, args)), {name: tracer.constant(value) for name, value in kwargs.items()}
