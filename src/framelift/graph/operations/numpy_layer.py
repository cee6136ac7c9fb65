"""The one place that knows `torch._numpy`, torch's own NumPy: functions of NumPy over tensors, for graphs.

An operation is named by its path in NumPy ("sin", "ndarray.reshape") or in `operator` ("getitem").

>>> apply("add", torch.ones(2), 1.5)
tensor([2.5000, 2.5000])
"""

from __future__ import annotations

import functools
import operator
from collections.abc import Callable
from typing import Any

import torch

try:
    import numpy
    from torch import _numpy as layer
except ImportError:  # torch works without NumPy
    numpy = layer = None  # type: ignore[assignment]

_OPERATORS: dict[str, Callable[..., Any]] = {"getitem": operator.getitem, "setitem": operator.setitem}


def apply(path: str, *args: Any, **kwargs: Any) -> Any:
    """What NumPy's function would give for arrays in the memory of these tensors; tensors in place of arrays."""
    function = _found(layer, path)
    given = _map(args, torch.Tensor, layer.ndarray)
    named = {name: _map(value, torch.Tensor, layer.ndarray) for name, value in kwargs.items()}
    return _map(function(*given, **named), layer.ndarray, _tensor_of)


def numpy_function(path: str) -> Callable[..., Any]:
    """NumPy's own function of that name."""
    return _found(numpy, path)


def has(path: str) -> bool:
    """Whether both NumPy and torch's layer have a function."""
    return numpy is not None and all(_find(module, path) is not None for module in (numpy, layer))


def _found(module: Any, path: str) -> Callable[..., Any]:
    function = _find(module, path)
    assert function is not None, path
    return function


@functools.cache
def _find(module: Any, path: str) -> Callable[..., Any] | None:
    found: Any = _OPERATORS.get(path)
    if found is None:
        found = module
        for name in path.split("."):
            found = getattr(found, name, None)
    return found if callable(found) else None


def _tensor_of(array: Any) -> torch.Tensor:
    tensor: torch.Tensor = array.tensor
    return tensor


def _map(nest: Any, kind: type, function: Callable[[Any], Any]) -> Any:
    """The nest with every object of a kind replaced."""
    if isinstance(nest, kind):
        return function(nest)
    if type(nest) in (tuple, list):
        return type(nest)(_map(item, kind, function) for item in nest)
    return nest
