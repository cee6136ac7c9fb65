"""The special methods of built-in types, called by name: `d.__getitem__(k)`, `super().__setitem__(k, v)`."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from framelift.values.core.base import Exhausted, Value
from framelift.values.core.exceptions import raise_error
from framelift.values.core.primitives import Arity

if TYPE_CHECKING:
    from framelift.capture.lift import Lift

BINARY_METHODS = {
    "+": ("__add__", "__radd__"),
    "-": ("__sub__", "__rsub__"),
    "*": ("__mul__", "__rmul__"),
    "/": ("__truediv__", "__rtruediv__"),
    "//": ("__floordiv__", "__rfloordiv__"),
    "%": ("__mod__", "__rmod__"),
    "**": ("__pow__", "__rpow__"),
    "@": ("__matmul__", "__rmatmul__"),
    "<<": ("__lshift__", "__rlshift__"),
    ">>": ("__rshift__", "__rrshift__"),
    "&": ("__and__", "__rand__"),
    "|": ("__or__", "__ror__"),
    "^": ("__xor__", "__rxor__"),
}
INPLACE_METHODS = {symbol + "=": "__i" + names[0][2:] for symbol, names in BINARY_METHODS.items()}
COMPARE_METHODS = {"<": "__lt__", "<=": "__le__", "==": "__eq__", "!=": "__ne__", ">": "__gt__", ">=": "__ge__"}
UNARY_METHODS = {"-": "__neg__", "+": "__pos__", "~": "__invert__"}

OperatorMethod = Callable[..., Any]


def _next(lift: Lift, value: Value) -> Any:
    try:
        return value.next(lift)
    except Exhausted as exhausted:
        raise_error(StopIteration, *exhausted.args)


OPERATOR_METHODS: dict[str, OperatorMethod] = {
    "__len__": lambda lift, value: value.length(lift),
    "__bool__": lambda lift, value: value.truth(lift),
    "__getitem__": lambda lift, value, key: value.item(lift, key),
    "__setitem__": lambda lift, value, key, item: value.set_item(lift, key, item),
    "__delitem__": lambda lift, value, key: value.delete_item(lift, key),
    "__contains__": lambda lift, value, item: value.contains(lift, item),
    "__iter__": lambda lift, value: value.iterate(lift),
    "__next__": _next,
    "__length_hint__": lambda lift, value: value.length_hint(lift),
    "__repr__": lambda lift, value: lift.text(value, "repr"),
    "__str__": lambda lift, value: value.text(lift, "str"),
}


def _add_operators() -> None:
    for symbol, name in COMPARE_METHODS.items():
        OPERATOR_METHODS[name] = lambda lift, value, other, _s=symbol: value.compare(lift, _s, other)
    for symbol, (name, reflected) in BINARY_METHODS.items():
        OPERATOR_METHODS[name] = lambda lift, value, other, _s=symbol: value.binary(lift, _s, other)
        OPERATOR_METHODS[reflected] = lambda lift, value, other, _s=symbol: value.reflected(lift, _s, other)
    for symbol, name in INPLACE_METHODS.items():
        OPERATOR_METHODS[name] = lambda lift, value, other, _s=symbol: value.binary(lift, _s, other)


_add_operators()
# The operator a lambda stands for is a default of it, not an argument of the method.
_ARITY = {name: Arity(function, 2) for name, function in OPERATOR_METHODS.items()}


def takes(name: str, args: list[Any], kwargs: dict[str, Any]) -> bool:
    """Whether the arguments fit the special method."""
    count = _ARITY[name].required
    return len(args) == count and not kwargs
