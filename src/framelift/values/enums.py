"""Members of enumerations: fixed objects, with a name and a value; perhaps numbers or strings at the same time."""

from __future__ import annotations

import enum
from typing import TYPE_CHECKING, Any

from framelift.values import protocol as py
from framelift.values.lookup import has_default, is_subclass, raw_lookup
from framelift.values.objects import (
    BINARY_METHODS,
    COMPARE_METHODS,
    UNARY_METHODS,
    UserObjectValue,
)

if TYPE_CHECKING:
    from framelift.capture.lift import Lift

# The C types a member may be at the same time. Their methods answer unless the enumeration has its own.
_MIXINS = (int, str, float)
_FLAG_OPERATORS = {"|", "&", "^", "~"}


class EnumValue(UserObjectValue):
    """A member, guarded by identity."""

    __slots__ = ()

    def note_facts(self, lift: Lift) -> None:
        assert self.source is not None
        lift.guard(self.source, "IS", self.concrete)

    def is_same(self, lift: Lift, other: Any) -> bool:
        self.note(lift)
        other.note(lift)
        return self.concrete is other.concrete

    def is_constant_object(self, lift: Lift, constant: Any) -> bool:
        self.note(lift)
        return False

    @property
    def mixin(self) -> type | None:
        return next((kind for kind in _MIXINS if is_subclass(self.cls, kind)), None)

    def _plain(self, lift: Lift, method: str) -> Any:
        """The member as a plain number or string, if that type's own method answers; else NotImplemented."""
        kind = self.mixin
        if kind is None or not has_default(lift, self.cls, method, raw_lookup(kind, method)):
            return NotImplemented
        return kind(self.concrete) if kind is not str else str.__str__(self.concrete)

    # -- operators -----------------------------------------------------------------------------------------------

    def truth(self, lift: Lift) -> bool:
        for method in ("__bool__", "__len__"):
            plain = self._plain(lift, method)
            if plain is not NotImplemented:
                return bool(plain)
        return super().truth(lift)

    def binary(self, lift: Lift, operator: str, other: Any) -> Any:
        symbol = operator.removesuffix("=")
        plain = self._plain(lift, BINARY_METHODS[symbol][0])
        if plain is NotImplemented:
            return super().binary(lift, operator, other)
        return py.binary(lift, symbol, plain, _plain_operand(lift, other, BINARY_METHODS[symbol][1]))

    def reflected(self, lift: Lift, operator: str, other: Any) -> Any:
        plain = self._plain(lift, BINARY_METHODS[operator][1]) if defines_reflected(self.mixin, operator) else self._plain(
            lift, BINARY_METHODS[operator][0]
        )
        return super().reflected(lift, operator, other) if plain is NotImplemented else py.binary(lift, operator, other, plain)

    def unary(self, lift: Lift, operator: str) -> Any:
        plain = self._plain(lift, UNARY_METHODS[operator])
        return super().unary(lift, operator) if plain is NotImplemented else py.unary(lift, operator, plain)

    def compare(self, lift: Lift, operator: str, other: Any) -> Any:
        method = COMPARE_METHODS[operator]
        plain = self._plain(lift, method)
        if plain is NotImplemented:
            return super().compare(lift, operator, other)
        return py.compare(lift, operator, plain, _plain_operand(lift, other, method))

    def key(self, lift: Lift) -> Any:
        if self.mixin is None and has_default(lift, self.cls, "__hash__", enum.Enum.__hash__):
            if has_default(lift, self.cls, "__eq__", object.__eq__):
                return super(UserObjectValue, self).key(lift)
        return super().key(lift)

    def constant(self, lift: Lift) -> Any:
        plain = self._plain(lift, "__index__" if self.mixin is int else "__str__")
        return super().constant(lift) if plain is NotImplemented else plain

    def graph_argument(self, lift: Lift) -> Any:
        return self.constant(lift)


def defines_reflected(kind: type | None, operator: str) -> bool:
    return kind is not None and hasattr(kind, BINARY_METHODS[operator][1])


def _plain_operand(lift: Lift, other: Any, method: str) -> Any:
    """Another member as the plain value that C code sees."""
    if isinstance(other, EnumValue):
        other.note(lift)
        plain = other._plain(lift, method if raw_lookup(other.mixin or object, method) is not NotImplemented else "__add__")
        return other if plain is NotImplemented else plain
    return other
