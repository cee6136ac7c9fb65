"""Which Python function stands for which function or class in C."""

from __future__ import annotations

import os
from collections.abc import Callable
from types import CodeType, FunctionType, GeneratorType
from typing import Any, TypeVar

F = TypeVar("F", bound=Callable[..., Any])

_FOLDER = os.path.join(os.path.dirname(__file__), "")
# By identity: hashing a class may run its metaclass. The target is kept so that its id stays its own.
_MODELS: dict[int, tuple[Any, Callable[..., Any]]] = {}


class Missing:
    """Stands, in models, for an argument that was not given and for what is not there."""


def models(*targets: Any) -> Callable[[F], F]:
    """Register a Python function as the behaviour of `targets`."""

    def register(function: F) -> F:
        _MODELS.update((id(target), (target, function)) for target in targets)
        return function

    return register


# By the identity of code objects, for functions that are made anew by each call of another one.
_INNER: dict[int, tuple[CodeType, Callable[..., Any]]] = {}


def models_inner(outer: FunctionType | Callable[..., Any], name: str) -> Callable[[F], F]:
    """Register a function as the behaviour of those that `outer` defines as `name`.

    Its parameters by keyword are variables that they share with `outer`.
    """
    assert isinstance(outer, FunctionType)
    code = next(part for part in outer.__code__.co_consts if isinstance(part, CodeType) and part.co_name == name)

    def register(function: F) -> F:
        _INNER[id(code)] = code, function
        return function

    return register


def inner_model(code: CodeType) -> Callable[..., Any] | None:
    """The function that stands for all functions with this code, if there is one."""
    found = _INNER.get(id(code))
    return None if found is None else found[1]


def model_function(target: Any) -> Callable[..., Any] | None:
    """The function that stands for `target`, if there is one."""
    found = _MODELS.get(id(target))
    return None if found is None else found[1]


# By the identity of code objects: what the generators of a model are to the program.
_GENERATORS: dict[int, tuple[CodeType, type]] = {}


def goes_by(kind: type, model: FunctionType | Callable[..., Any], inner: str = "") -> None:
    """Generators of a model, or of the function `inner` that it defines, are iterators of type `kind` in C."""
    assert isinstance(model, FunctionType)
    code = model.__code__
    if inner:
        code = next(part for part in code.co_consts if isinstance(part, CodeType) and part.co_name == inner)
    _GENERATORS[id(code)] = code, kind


def kind_of_generators(code: CodeType) -> type:
    """The type that a program sees of generators with this code."""
    found = _GENERATORS.get(id(code))
    return GeneratorType if found is None else found[1]


def is_of_models(code: CodeType) -> bool:
    """Whether a code object stands for something in C, or is part of what does."""
    return code.co_filename.startswith(_FOLDER)
