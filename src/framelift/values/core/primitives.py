"""Primitives: functions and classes whose behaviour is given directly, as Python over values.

    @primitive(len)
    def _len(lift, obj):
        return py.length(lift, obj)

What can be written as ordinary Python belongs into `framelift.models` instead: the interpreter inlines it.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, TypeVar

from framelift.values.core.arity import reject
from framelift.values.core.tracer import Model

if TYPE_CHECKING:
    from framelift.values.core.tracer import Tracer

F = TypeVar("F", bound=Callable[..., Any])

# By identity: hashing a class may run its metaclass. The object itself is kept so that its id stays its own.
_PRIMITIVES: dict[int, tuple[Any, Model]] = {}


def primitive(*targets: Any) -> Callable[[F], F]:
    """Register `function(lift, *args, **kwargs)` as the behaviour of `targets`."""

    def register(function: F) -> F:
        fits = Arity(function, 1)
        for target in targets:
            _PRIMITIVES[id(target)] = (target, _model(function, fits, target))
        return function

    return register


def _model(function: Callable[..., Any], fits: Arity, target: Any) -> Model:
    def model(tracer: Tracer, args: list[Any], kwargs: dict[str, Any]) -> Any:
        if not fits(args, kwargs):
            reject(target, args, kwargs, getattr(target, "__qualname__", "a function"))
        return function(tracer, *args, **kwargs)

    return model


class Arity:
    """Whether arguments fit a Python function after its first `given` parameters, which are always there."""

    def __init__(self, function: Callable[..., Any], given: int) -> None:
        parameters = list(inspect.signature(function).parameters.values())[given:]
        positional = [p for p in parameters if p.kind in (p.POSITIONAL_ONLY, p.POSITIONAL_OR_KEYWORD)]
        self.variadic = any(p.kind is p.VAR_POSITIONAL for p in parameters)
        self.most = len(positional)
        self.required = sum(p.default is p.empty for p in positional)
        self.keyword_required = any(p.kind is p.KEYWORD_ONLY and p.default is p.empty for p in parameters)
        self.signature = inspect.Signature(parameters)

    def __call__(self, args: list[Any], kwargs: dict[str, Any]) -> bool:
        if not kwargs and not self.keyword_required:
            return self.required <= len(args) and (self.variadic or len(args) <= self.most)
        try:
            self.signature.bind(*args, **kwargs)
        except TypeError:
            return False
        return True


def primitive_of(target: Any) -> Model | None:
    """The primitive that is registered for a function or class; None: there is none."""
    found = _PRIMITIVES.get(id(target))
    return None if found is None else found[1]


# How `isinstance(obj, cls)` is answered for classes of a metaclass with rules of its own, by metaclass.
INSTANCE_CHECKS: dict[type, Callable[[Tracer, Any, type], bool]] = {}
