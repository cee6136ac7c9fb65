"""Values of built-in types, for those who stand below the families that model them: made by the registry."""

from __future__ import annotations

from collections.abc import Iterable
from types import MethodType
from typing import TYPE_CHECKING, Any

from framelift.breaks import FL0102, FL0201, GraphBreak
from framelift.values.core.base import MODELS, ROLES, Value
from framelift.values.core.constants import is_constant

if TYPE_CHECKING:
    from framelift.values.core.tracer import Tracer

_models: dict[int, Any] = MODELS


def make_tuple(items: Iterable[Any]) -> Any:
    """A tuple: plain where all its items are."""
    plain = tuple(items)
    return _models[id(tuple)](list(plain)) if any(isinstance(i, Value) or not is_constant(i) for i in plain) else plain


def make_list(items: Iterable[Any]) -> Any:
    """A list the program made."""
    return _models[id(list)]([*items])


def make_frozenset(constant: frozenset[Any]) -> Any:
    """A constant set, as a value."""
    return _models[id(frozenset)](constant, frozenset)


def bound_method(function: Any, instance: Any) -> Any:
    """A function with its first argument."""
    return _models[id(MethodType)](function, instance)


def iterator_over(constant: Any) -> Any:
    """The iterator over a constant that can be iterated over."""
    if type(constant) is range:
        return ROLES["range iterator"](constant)
    return ROLES["iterator"](list(constant), type(iter(constant)))


def from_constant(tracer: Tracer, result: Any) -> Any:
    """What an operation on constants gave, as a value of the program."""
    if is_constant(result):
        return result
    kind = type(result)
    if kind is list:
        return make_list([from_constant(tracer, item) for item in result])
    if kind is tuple:
        return make_tuple([from_constant(tracer, item) for item in result])
    if kind is dict:
        return _models[id(dict)]({key: from_constant(tracer, item) for key, item in result.items()})
    if kind is set:
        return _models[id(set)](result)
    if isinstance(result, type):
        return tracer.known_object(result)
    if hasattr(kind, "__next__"):
        try:
            items = list(result)
        except Exception:  # noqa: BLE001  (whatever it raises, the program hears of it later, from Python)
            raise GraphBreak(FL0102, what=f"{kind.__name__}, which raises before its end") from None
        return ROLES["iterator"]([from_constant(tracer, item) for item in items], kind)
    raise GraphBreak(FL0201, operation="a result", type=kind.__name__)
