"""Which Python function stands for which function or class in C."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, TypeVar

from framelift.breaks import FL0102, GraphBreak
from framelift.values import protocol as py
from framelift.values.primitives import Arity, Model

if TYPE_CHECKING:
    from framelift.capture.lift import Lift

F = TypeVar("F", bound=Callable[..., Any])

# By identity, like primitives.
_MODELS: dict[int, tuple[Any, Model]] = {}


def models(*targets: Any) -> Callable[[F], F]:
    """Register a Python function as the behaviour of `targets`."""

    def register(function: F) -> F:
        fits = Arity(function, 0)
        name = targets[0].__qualname__

        def model(lift: Lift, args: list[Any], kwargs: dict[str, Any]) -> Any:
            if not fits(args, kwargs):
                raise GraphBreak(FL0102, what=f"{name} with these arguments")
            return py.call(lift, lift.known_object(function), args, kwargs)

        for target in targets:
            _MODELS[id(target)] = (target, model)
        return function

    return register


def python_model(target: Any) -> Model | None:
    found = _MODELS.get(id(target))
    return None if found is None else found[1]
