"""Unions of types, `int | float`, as `isinstance` takes them."""

from __future__ import annotations

import abc
import types
from collections import defaultdict, deque
from typing import TYPE_CHECKING, Any

import torch

from framelift.breaks import FL0102, GraphBreak
from framelift.guards.equality import has_type
from framelift.guards.source import Source
from framelift.values.core import protocol as py
from framelift.values.core.base import Call, Value
from framelift.values.core.construct import make_tuple
from framelift.values.core.methods import ModelMethodValue
from framelift.values.core.primitives import primitive
from framelift.values.core.refusals import Operation
from framelift.values.core.stand_ins import raise_no_attribute

if TYPE_CHECKING:
    from framelift.values.core.emitter import Emitter
    from framelift.values.core.tracer import Tracer


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

    def members(self, tracer: Tracer) -> list[Any]:
        if self.given is None:
            assert self.source is not None
            self.note(tracer)
            self.given = py.items(tracer, tracer.wrap(self.concrete.__args__, self.source.child("GETATTR", "__args__")))
        return self.given

    def attribute(self, tracer: Tracer, name: str) -> Any:
        if name == "__args__":
            return make_tuple(self.members(tracer))
        if name == "__class__":
            return tracer.known_object(types.UnionType)
        if not hasattr(types.UnionType, name):
            raise_no_attribute(types.UnionType, name)
        return super().attribute(tracer, name)

    def compare(self, tracer: Tracer, operator: str, other: Any) -> Any:
        if py.type_of(other) is not types.UnionType:
            return NotImplemented
        self.refuse(Operation.COMPARISON, operator=operator)

    def key(self, tracer: Tracer) -> Any:
        self.refuse(Operation.KEY)

    def binary(self, tracer: Tracer, operator: str, other: Any) -> Any:
        if operator != "|":
            return NotImplemented
        return union(tracer, self, other)

    def text(self, tracer: Tracer, conversion: str) -> str:
        return " | ".join("None" if _is_none(member) else _shown(tracer, member) for member in self.members(tracer))

    def parts(self) -> list[Any]:
        return self.given or []

    def rebuild(self, emit: Emitter) -> None:
        first, *rest = self.parts()
        emit.value(first)
        for part in rest:
            emit.value(part)
            emit.builder.binary_op("|")


class GenericAliasValue(Value, models=types.GenericAlias):
    """`list[int]`: a class with arguments, which the class itself does not look at."""

    __slots__ = ("origin", "args")

    def __init__(self, origin: Any, args: Any, source: Source | None = None, concrete: Any = None) -> None:
        super().__init__(source, concrete)
        self.origin = origin
        self.args = args

    @classmethod
    def from_input(cls, obj: Any, source: Source) -> Value:
        return cls(None, None, source, obj)

    def python_type(self) -> type:
        return types.GenericAlias

    def attribute(self, tracer: Tracer, name: str) -> Any:
        if name in _OWN:
            if self.source is None:
                return {"__origin__": self.origin, "__args__": self.args}.get(name, False)
            return tracer.wrap(getattr(self.concrete, name), self.source.child("GETATTR", name))
        if name == "__class__":
            return tracer.known_object(types.GenericAlias)
        if name == "__mro_entries__":
            return ModelMethodValue(self, name, lambda _: make_tuple([py.attribute(tracer, self, "__origin__")]))
        return super().attribute(tracer, name)

    def call(self, tracer: Tracer, args: list[Any], kwargs: dict[str, Any]) -> Any:
        """Makes an instance of its class, which is told of its arguments if it can keep attributes."""
        origin = py.attribute(tracer, self, "__origin__")
        if not any(origin.concrete is cls for cls in _BUILTIN):
            self.refuse(Operation.CALL)
        return py.call(tracer, origin, args, kwargs)

    def binary(self, tracer: Tracer, operator: str, other: Any) -> Any:
        return union(tracer, self, other) if operator == "|" else self.refuse(operator)

    def reflected(self, tracer: Tracer, operator: str, other: Any) -> Any:
        return union(tracer, other, self) if operator == "|" else self.refuse(operator)

    def compare(self, tracer: Tracer, operator: str, other: Any) -> Any:
        self.refuse(Operation.COMPARISON, operator=operator)

    def key(self, tracer: Tracer) -> Any:
        self.refuse(Operation.KEY)

    def text(self, tracer: Tracer, conversion: str) -> str:
        origin, args = [py.attribute(tracer, self, name) for name in ("__origin__", "__args__")]
        star = "*" if tracer.constant(py.attribute(tracer, self, "__unpacked__")) else ""
        shown = [_shown(tracer, item) for item in py.items(tracer, args)]
        return f"{star}{_shown(tracer, origin)}[{', '.join(shown) or '()'}]"

    def parts(self) -> list[Any]:
        return [self.origin, self.args]

    def made_by(self) -> Call:
        return types.GenericAlias, [self.origin, self.args]


_OWN = ("__origin__", "__args__", "__unpacked__")
# Their instances keep no attributes.
_BUILTIN = (list, dict, tuple, set, frozenset, deque, defaultdict)


@primitive(types.GenericAlias, *(cls.__dict__["__class_getitem__"] for cls in _BUILTIN))
def _generic_alias(tracer: Tracer, cls: Any, key: Any, /) -> Any:
    return GenericAliasValue(cls, key if py.type_of(key) is tuple else make_tuple([key]))


def _is_none(member: Any) -> bool:
    return member is None or (isinstance(member, Value) and member.concrete is type(None))


def _shown(tracer: Tracer, item: Any) -> str:
    """How an expression of types shows one of its parts: types by their names, all else as it is."""
    if tracer.type_of(item) is types.EllipsisType:
        return "..."
    if py.type_of(item) is list:
        raise GraphBreak(FL0102, what="the text of a generic alias with a list in it")  # older interpreters: otherwise
    is_alias = tracer.has_attribute(item, "__origin__") and tracer.has_attribute(item, "__args__")
    if is_alias or not all(tracer.has_attribute(item, name) for name in ("__qualname__", "__module__")):
        return tracer.text(item, "repr")
    name, module = [tracer.constant(py.attribute(tracer, item, name)) for name in ("__qualname__", "__module__")]
    return f"{name}" if module == "builtins" else f"{module}.{name}"


def union(tracer: Tracer, left: Any, right: Any) -> Any:
    """`left | right` between types; NotImplemented where an operand is something else."""
    sides = [_members(tracer, operand) for operand in (left, right)]
    if sides[0] is None or sides[1] is None:
        return NotImplemented
    members: list[Any] = []
    for member in (*sides[0], *sides[1]):
        if not any(_is_same(tracer, member, other) for other in members):
            members.append(member)
    return members[0] if len(members) == 1 else UnionValue(members)


def _is_same(tracer: Tracer, member: Value, other: Value) -> bool:
    """Whether one member of a union is another, which it then has once."""
    if member is other or not (isinstance(member, GenericAliasValue) and isinstance(other, GenericAliasValue)):
        return member.concrete is other.concrete and (member is other or member.concrete is not None)
    mine, its = [py.attribute(tracer, alias, "__origin__") for alias in (member, other)]
    if not all(has_type(origin.concrete, _PLAIN_METACLASSES) for origin in (mine, its)) or py.same(tracer, mine, its):
        member.refuse("| with another of its class")  # their arguments are compared
    return False


def _members(tracer: Tracer, operand: Any) -> list[Any] | None:
    if isinstance(operand, UnionValue):
        return operand.members(tracer)
    if operand is None:
        return [tracer.known_object(type(None))]
    if isinstance(operand, GenericAliasValue):
        return [operand]
    if isinstance(operand, Value) and has_type(operand.concrete, _PLAIN_METACLASSES):
        return [operand]
    return None


_PLAIN_METACLASSES = (type, abc.ABCMeta, type(torch.Tensor))
