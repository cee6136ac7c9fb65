"""The special methods of built-in types, called by name: `d.__getitem__(k)`, `super().__setitem__(k, v)`."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from framelift.values.core.base import Exhausted, Value
from framelift.values.core.exceptions import raise_error
from framelift.values.core.primitives import Arity

if TYPE_CHECKING:
    from framelift.values.core.tracer import Tracer

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
    "divmod": ("__divmod__", "__rdivmod__"),
}
INPLACE_METHODS = {f"{symbol}=": "__i" + name[2:] for symbol, (name, _) in BINARY_METHODS.items() if symbol != "divmod"}
COMPARE_METHODS = {"<": "__lt__", "<=": "__le__", "==": "__eq__", "!=": "__ne__", ">": "__gt__", ">=": "__ge__"}
UNARY_METHODS = {"-": "__neg__", "+": "__pos__", "~": "__invert__"}

OperatorMethod = Callable[..., Any]


def _next(tracer: Tracer, value: Value) -> Any:
    try:
        return value.next(tracer)
    except Exhausted as exhausted:
        raise_error(StopIteration, *exhausted.args)


OPERATOR_METHODS: dict[str, OperatorMethod] = {
    "__len__": lambda tracer, value: value.length(tracer),
    "__bool__": lambda tracer, value: value.truth(tracer),
    "__getitem__": lambda tracer, value, key: value.item(tracer, key),
    "__setitem__": lambda tracer, value, key, item: value.set_item(tracer, key, item),
    "__delitem__": lambda tracer, value, key: value.delete_item(tracer, key),
    "__contains__": lambda tracer, value, item: value.contains(tracer, item),
    "__iter__": lambda tracer, value: value.iterate(tracer),
    "__next__": _next,
    "__length_hint__": lambda tracer, value: value.length_hint(tracer),
    "__repr__": lambda tracer, value: tracer.text(value, "repr"),
    "__str__": lambda tracer, value: value.text(tracer, "str"),
}


def _add_operators() -> None:
    for symbol, name in COMPARE_METHODS.items():
        OPERATOR_METHODS[name] = lambda tracer, value, other, _s=symbol: value.compare(tracer, _s, other)
    for symbol, (name, reflected) in BINARY_METHODS.items():
        OPERATOR_METHODS[name] = lambda tracer, value, other, _s=symbol: value.binary(tracer, _s, other)
        OPERATOR_METHODS[reflected] = lambda tracer, value, other, _s=symbol: value.reflected(tracer, _s, other)
    for symbol, name in INPLACE_METHODS.items():
        OPERATOR_METHODS[name] = lambda tracer, value, other, _s=symbol: value.binary(tracer, _s, other)


_add_operators()
# The operator a lambda stands for is a default of it, not an argument of the method.
_ARITY = {name: Arity(function, 2) for name, function in OPERATOR_METHODS.items()}


def takes(name: str, args: list[Any], kwargs: dict[str, Any]) -> bool:
    """Whether the arguments fit the special method."""
    count = _ARITY[name].required
    return len(args) == count and not kwargs
