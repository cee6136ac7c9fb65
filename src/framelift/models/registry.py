"""Which Python function stands for which function or class in C."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar

F = TypeVar("F", bound=Callable[..., Any])

# By identity: hashing a class may run its metaclass. The target is kept so that its id stays its own.
_MODELS: dict[int, tuple[Any, Callable[..., Any]]] = {}


def models(*targets: Any) -> Callable[[F], F]:
    """Register a Python function as the behaviour of `targets`."""

    def register(function: F) -> F:
        _MODELS.update((id(target), (target, function)) for target in targets)
        return function

    return register


def model_function(target: Any) -> Callable[..., Any] | None:
    """The function that stands for `target`, if there is one."""
    found = _MODELS.get(id(target))
    return None if found is None else found[1]
