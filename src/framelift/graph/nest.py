"""Nests: the tuples, lists, dicts and slices that arguments and results of operations are made of."""

from __future__ import annotations

import enum
from collections.abc import Callable
from typing import Any

import torch

from framelift.graph.bodies import Body
from framelift.graph.record import NumberRef, Ref, TensorRef, TokenRef
from framelift.shapes.symbols import SYMBOLIC

# Exact types of the constants a graph can hold: they print as Python and never change.
CONSTANTS: frozenset[type] = frozenset(
    {
        int,
        float,
        bool,
        complex,
        str,
        bytes,
        type(None),
        type(Ellipsis),
        range,
        torch.Size,
        torch.dtype,
        torch.device,
        torch.layout,
        torch.memory_format,
        torch.qscheme,
    }
)


class NotAConstant(Exception):
    """A nest holds an object that is neither a value of the graph nor a constant."""

    def __init__(self, value: object) -> None:
        super().__init__(f"a {type(value).__qualname__}")
        self.value = value


def scan(nest: Any, refs: list[Any], parts: list[Any]) -> None:
    """Goes over a nest: values of the graph go to ``refs``, and what the nest is made of to ``parts``.

    Equal parts mean an equal nest, up to values with the same metadata. Objects that are neither values of the graph
    nor constants raise :class:`NotAConstant`.

    >>> parts = []
    >>> scan(([1, 2.0], slice(None, 3)), [], parts)
    >>> len(parts)
    15
    """
    kind = type(nest)
    if kind is TensorRef:
        refs.append(nest)
        parts.append(nest.descriptor)
    elif kind is float or kind is complex:
        parts.append(kind)
        parts.append(repr(nest))  # 0.0 and -0.0 are equal, NaN is not equal to itself
    elif kind in CONSTANTS:
        parts.append(kind)  # 1 and True are equal
        parts.append(nest)
    elif kind is tuple or kind is list:
        parts.append(kind)
        parts.append(len(nest))
        for item in nest:
            scan(item, refs, parts)
    elif kind is dict:
        parts.append(kind)
        parts.append(len(nest))
        for key, item in nest.items():
            if type(key) not in CONSTANTS:
                raise NotAConstant(key)
            parts.append(key)
            scan(item, refs, parts)
    elif kind is slice:
        parts.append(kind)
        scan(nest.start, refs, parts)
        scan(nest.stop, refs, parts)
        scan(nest.step, refs, parts)
    elif kind is NumberRef:
        refs.append(nest)
        parts.append(nest.descriptor)
    elif kind is TokenRef:
        refs.append(nest)
        parts.append(nest)
    elif isinstance(nest, tuple):  # named tuples and torch.return_types: an operation takes them as tuples
        scan(tuple(nest), refs, parts)
    elif isinstance(nest, enum.Enum) or kind is Body:
        parts.append(nest)
    else:
        raise NotAConstant(nest)


def map_refs(nest: Any, function: Callable[[Any], Any]) -> Any:
    """The nest with every value and body of the graph replaced by ``function(value)``; tuples become plain tuples."""
    kind = type(nest)
    if kind is TensorRef:
        return function(nest)
    if kind in CONSTANTS:
        return nest
    if kind is tuple:
        return tuple([map_refs(item, function) for item in nest])
    if kind is list:
        return [map_refs(item, function) for item in nest]
    if kind is dict:
        return {key: map_refs(item, function) for key, item in nest.items()}
    if kind is slice:
        parts = nest.start, nest.stop, nest.step
        return slice(*[map_refs(item, function) for item in parts])
    if isinstance(nest, Ref) or kind is Body:
        return function(nest)
    if isinstance(nest, tuple):
        return tuple([map_refs(item, function) for item in nest])
    return nest


def map_result(
    result: Any,
    on_tensor: Callable[[torch.Tensor, tuple[int | str, ...]], Any],
    path: tuple[int | str, ...] = (),
) -> Any:
    """The result of an operation with ``on_tensor(tensor, path)`` in place of tensors and symbolic numbers.

    Tuple types are kept.
    """
    if isinstance(result, torch.Tensor):
        return on_tensor(result, path)
    kind = type(result)
    if kind is torch.Size and not all(type(size) is int for size in result):
        raise NotAConstant(result)
    if kind in CONSTANTS:
        return result
    if kind is tuple or kind is list:
        return kind([map_result(item, on_tensor, (*path, index)) for index, item in enumerate(result)])
    if isinstance(result, tuple):
        items = [map_result(item, on_tensor, (*path, index)) for index, item in enumerate(result)]
        # torch.return_types take one sequence, named tuples take their fields.
        return kind._make(items) if hasattr(kind, "_make") else kind(items)
    if kind is dict:
        return {key: map_result(item, on_tensor, (*path, key)) for key, item in result.items()}
    if isinstance(result, SYMBOLIC):
        return on_tensor(result, path)
    if isinstance(result, enum.Enum):
        return result
    raise NotAConstant(result)


def pairs(result: Any, tensors: Any) -> list[tuple[TensorRef, torch.Tensor]]:
    """The values of a result paired with the tensors of another result of the same shape."""
    if isinstance(result, TensorRef):
        return [(result, tensors)]
    found: list[tuple[TensorRef, torch.Tensor]] = []
    if isinstance(result, tuple | list):
        for item, tensor in zip(result, tensors, strict=True):
            found += pairs(item, tensor)
    elif isinstance(result, dict):
        for key, item in result.items():
            found += pairs(item, tensors[key])
    return found
