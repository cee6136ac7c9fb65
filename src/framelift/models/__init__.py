"""Functions implemented in C, written again as ordinary Python: the interpreter inlines them like a user's code.

    @models(functools.reduce)
    def reduce(function, iterable, initial=MISSING): ...

A model must do what the original does on everything it accepts; what it cannot do it leaves out of its signature, so
that the call is not traced.
"""

from __future__ import annotations

from framelift.models import builtins, exceptions, stdlib, torch_comparisons  # noqa: F401  (register their models)
from framelift.models.registry import inner_model, is_of_models, kind_of_generators, model_function, models

__all__ = ["inner_model", "is_of_models", "kind_of_generators", "models", "model_function"]
