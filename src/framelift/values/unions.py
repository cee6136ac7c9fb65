"""Unions of types, `int | float`, as `isinstance` takes them."""

from __future__ import annotations

import abc
import types
from typing import TYPE_CHECKING, Any

from framelift.guards.source import Source
from framelift.values import protocol as py
from framelift.values.base import Value

if TYPE_CHECKING:
    from framelift.capture.lift import Lift
    from framelift.residual.generator import Generator


class UnionValue(Value, models=types.UnionType):
    """`given`: the members of a union the program made."""

    __slots__ = ("given",)

    def __init__(self, given: list[Any] | None, source: Source | None = None, concrete: Any = None) -> None:
        super().__init__(source, concrete)
        self.given = given

    @classmethod
    def from_input(cls, obj: Any, source: Source) -> Value:
        return cls(None, source, obj)

    def python_type(self) -> type:
        return types.UnionType

    def members(self, lift: Lift) -> list[Any]:
        if self.given is None:
            assert self.source is not None
            self.note(lift)
            self.given = py.items(lift, lift.wrap(self.concrete.__args__, self.source.child("GETATTR", "__args__")))
        return self.given

    def binary(self, lift: Lift, operator: str, other: Any) -> Any:
        if operator != "|":
            return NotImplemented
        return union(lift, self, other)

    def parts(self) -> list[Any]:
        return self.given or []

    def rebuild(self, generate: Generator) -> None:
        first, *rest = self.parts()
        generate.value(first)
        for part in rest:
            generate.value(part)
            generate.builder.binary_op("|")


def union(lift: Lift, left: Any, right: Any) -> Any:
    """`left | right` between types; NotImplemented where an operand is something else."""
    sides = [_members(lift, operand) for operand in (left, right)]
    if sides[0] is None or sides[1] is None:
        return NotImplemented
    return UnionValue([*sides[0], *sides[1]])


def _members(lift: Lift, operand: Any) -> list[Any] | None:
    if isinstance(operand, UnionValue):
        return operand.members(lift)
    if operand is None:
        return [lift.known_object(type(None))]
    if isinstance(operand, Value) and type(operand.concrete) in _PLAIN_METACLASSES:
        return [operand]
    return None


_PLAIN_METACLASSES = (type, abc.ABCMeta)
