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

from framelift.values.exceptions import raise_error

if TYPE_CHECKING:
    from framelift.capture.lift import Lift

# A callable as the interpreter uses it: arguments are values and constants.
Model = Callable[["Lift", list[Any], dict[str, Any]], Any]
F = TypeVar("F", bound=Callable[..., Any])

# By identity: hashing a class may run its metaclass. The object itself is kept so that its id stays its own.
_PRIMITIVES: dict[int, tuple[Any, Model]] = {}


def primitive(*targets: Any) -> Callable[[F], F]:
    """Register `function(lift, *args, **kwargs)` as the behaviour of `targets`."""

    def register(function: F) -> F:
        signature = inspect.signature(function)

        def model(lift: Lift, args: list[Any], kwargs: dict[str, Any]) -> Any:
            try:
                signature.bind(lift, *args, **kwargs)
            except TypeError as error:
                raise_error(TypeError, f"{getattr(targets[0], '__name__', 'call')}(): {error}")
            return function(lift, *args, **kwargs)

        for target in targets:
            _PRIMITIVES[id(target)] = (target, model)
        return function

    return register


def primitive_of(target: Any) -> Model | None:
    found = _PRIMITIVES.get(id(target))
    return None if found is None else found[1]
