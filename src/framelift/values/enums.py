"""Members of enumerations: fixed objects, with a name and a value; perhaps numbers or strings at the same time."""

from __future__ import annotations

import enum
from typing import TYPE_CHECKING, Any

from framelift.values import instances
from framelift.values import protocol as py
from framelift.values.base import KnownObject
from framelift.values.lookup import has_default, is_subclass, raw_lookup
from framelift.values.objects import UserObjectValue
from framelift.values.operator_methods import BINARY_METHODS, COMPARE_METHODS, UNARY_METHODS

if TYPE_CHECKING:
    from framelift.capture.lift import Lift

# The C types a member may be at the same time. Their methods answer unless the enumeration has its own.
_MIXINS = (int, str, float)


class EnumValue(KnownObject, UserObjectValue):
    """A member, guarded by identity."""

    __slots__ = ()

    def _plain(self, lift: Lift, method: str) -> Any:
        """The member as a plain number or string, where that type's own `method` answers; else NotImplemented."""
        kind = next((kind for kind in _MIXINS if is_subclass(self.cls, kind)), None)
        own = NotImplemented if kind is None else raw_lookup(kind, method)
        if kind is None or own is NotImplemented or not has_default(lift, self.cls, method, own):
            return NotImplemented
        # The base type's own conversion: `str(member)` would ask the enumeration.
        return str.__str__(self.concrete) if kind is str else raw_lookup(kind, f"__{kind.__name__}__")(self.concrete)

    def attribute(self, lift: Lift, name: str) -> Any:
        if self._plain(lift, "__getattribute__") is NotImplemented:
            return super().attribute(lift, name)
        return self._with_fallback(lift, name, instances.find)

    def index(self, lift: Lift) -> Any:
        plain = self._plain(lift, "__index__")
        return super().index(lift) if plain is NotImplemented else plain

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
        return py.binary(lift, symbol, plain, other)

    def reflected(self, lift: Lift, operator: str, other: Any) -> Any:
        # A sequence type has no reflected addition: the left operand's own method takes the member as what it is.
        method = next(name for name in reversed(BINARY_METHODS[operator]) if name == "__add__" or hasattr(int, name))
        plain = self._plain(lift, method)
        if plain is NotImplemented or py.type_of(other) is self.cls:
            return super().reflected(lift, operator, other)
        return py.binary(lift, operator, other, plain)

    def unary(self, lift: Lift, operator: str) -> Any:
        plain = self._plain(lift, UNARY_METHODS[operator])
        return super().unary(lift, operator) if plain is NotImplemented else py.unary(lift, operator, plain)

    def compare(self, lift: Lift, operator: str, other: Any) -> Any:
        plain = self._plain(lift, COMPARE_METHODS[operator])
        if plain is NotImplemented:
            return super().compare(lift, operator, other)
        return py.compare(lift, operator, plain, other)

    def key(self, lift: Lift) -> Any:
        if has_default(lift, self.cls, "__hash__", enum.Enum.__hash__) and has_default(
            lift, self.cls, "__eq__", object.__eq__
        ):
            return super(UserObjectValue, self).key(lift)
        return super().key(lift)

    def hashed(self, lift: Lift) -> int:
        plain = self._plain(lift, "__hash__")
        return super().hashed(lift) if plain is NotImplemented else hash(plain)

    def constant(self, lift: Lift) -> Any:
        plain = self._plain(lift, "__getattribute__")
        return super().constant(lift) if plain is NotImplemented else plain

    def graph_argument(self, lift: Lift) -> Any:
        return self.constant(lift)
