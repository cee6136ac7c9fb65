"""Functions implemented in C that `framelift.models` has in Python: a call of one is a call of the other."""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from framelift.models import inner_model, model_function
from framelift.values.containers.iterators import SequenceIterator
from framelift.values.core import protocol as py
from framelift.values.core.arity import reject
from framelift.values.core.primitives import Arity, Model
from framelift.values.functions.functions import FunctionLike
from framelift.values.functions.generators import GeneratorValue

if TYPE_CHECKING:
    from framelift.values.core.tracer import Tracer


def python_model(target: Any) -> Model | None:
    """The model in Python of a function or class, ready to be inlined; None: there is none."""
    function = model_function(target)
    return None if function is None else _inlined(function, target)


@functools.cache
def _inlined(function: Callable[..., Any], target: Any) -> Model:
    fits = Arity(function, 0)

    def model(tracer: Tracer, args: list[Any], kwargs: dict[str, Any]) -> Any:
        if not fits(args, kwargs):
            reject(target, args, kwargs, target.__qualname__)
        result = py.call(tracer, tracer.known_object(function), args, kwargs)
        if isinstance(target, type) and isinstance(result, (GeneratorValue, SequenceIterator)):
            result.kind, result.born = target, tracer.steps.count
        return result

    return model


def model_of_inner(tracer: Tracer, function: FunctionLike) -> Model | None:
    """The model of a function by its code; what it shares with other functions is given to the model by keyword."""
    model = inner_model(function.code)
    if model is None:
        return None
    variables = dict(zip(function.code.co_freevars, function.cells(tracer), strict=True))
    parameters = inspect.signature(model).parameters.values()
    shared = {p.name: variables[p.name].get(tracer) for p in parameters if p.kind is p.KEYWORD_ONLY}
    inlined = _inlined(model, model)
    return lambda tracer, args, kwargs: inlined(tracer, args, kwargs | shared)
