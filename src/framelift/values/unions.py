"""Unions of types, `int | float`, as `isinstance` takes them."""

from __future__ import annotations

import abc
import types
from typing import TYPE_CHECKING, Any

from framelift.guards.source import Source
from framelift.values import protocol as py
from framelift.values.base import Value
from framelift.values.exceptions import raise_error

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

    def attribute(self, lift: Lift, name: str) -> Any:
        if name == "__args__" and self.source is not None:
            return lift.wrap(self.concrete.__args__, self.source.child("GETATTR", name))
        if name == "__class__":
            return lift.known_object(types.UnionType)
        if not hasattr(types.UnionType, name):
            raise_error(AttributeError, f"'types.UnionType' object has no attribute '{name}'")
        return super().attribute(lift, name)

    def compare(self, lift: Lift, operator: str, other: Any) -> Any:
        self.refuse(f"comparison {operator}")

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


class GenericAliasValue(Value, models=types.GenericAlias):
    """`list[int]`: a class with arguments, which the class itself does not look at."""

    __slots__ = ()

    def attribute(self, lift: Lift, name: str) -> Any:
        assert self.source is not None
        if name in ("__origin__", "__args__"):
            return lift.wrap(getattr(self.concrete, name), self.source.child("GETATTR", name))
        if name == "__class__":
            return lift.known_object(types.GenericAlias)
        return super().attribute(lift, name)

    def call(self, lift: Lift, args: list[Any], kwargs: dict[str, Any]) -> Any:
        self.refuse("calling")

    def compare(self, lift: Lift, operator: str, other: Any) -> Any:
        self.refuse(f"comparison {operator}")

    def key(self, lift: Lift) -> Any:
        self.refuse("use as a key")


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
