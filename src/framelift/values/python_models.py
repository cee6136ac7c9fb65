"""Functions implemented in C that `framelift.models` has in Python: a call of one is a call of the other."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from framelift.breaks import FL0102, GraphBreak
from framelift.models import model_function
from framelift.values import protocol as py
from framelift.values.generators import GeneratorValue
from framelift.values.iterators import SequenceIterator
from framelift.values.primitives import Arity, Model

if TYPE_CHECKING:
    from framelift.capture.lift import Lift


def python_model(target: Any) -> Model | None:
    """The model in Python of a function or class, ready to be inlined; None: there is none."""
    function = model_function(target)
    return None if function is None else _inlined(function, target)


@functools.cache
def _inlined(function: Callable[..., Any], target: Any) -> Model:
    fits = Arity(function, 0)
    name = target.__qualname__

    def model(lift: Lift, args: list[Any], kwargs: dict[str, Any]) -> Any:
        if not fits(args, kwargs):
            raise GraphBreak(FL0102, what=f"{name} with these arguments")
        result = py.call(lift, lift.known_object(function), args, kwargs)
        if isinstance(target, type) and isinstance(result, (GeneratorValue, SequenceIterator)):
            result.kind, result.born = target, lift.steps.count
        return result

    return model
