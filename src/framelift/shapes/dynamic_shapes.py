"""`export(..., dynamic_shapes=...)`: the forms that torch's own export takes, as wishes for inputs by their names.

It is a dict by the names of arguments, or a sequence in their order. Containers of the call have containers of the same
kind; a tensor has a dict of its dimensions, or a sequence with an entry for each: one of torch's `Dim`s or its hints,
bounds, or None or its number for a size that stays.

    >>> by_name(({"a": [{0: (2, 8)}]}, None), {"batch": {"a": [torch.ones(3)]}, "scale": 2})
    {"batch['a'][0]": {0: (2, 8)}}
    >>> by_name({"x": (torch.export.Dim("rows", max=9), None)}, {"x": torch.ones(3, 2)})
    {'x': {0: (None, 9)}}

A `Dim` that is given to several sizes says that they are equal, or in the ratio it was derived by:

    >>> n = torch.export.Dim("n")
    >>> shapes, arguments = {"x": {0: n}, "y": {0: 2 * n}}, {"x": torch.ones(3), "y": torch.ones(6)}
    >>> common = CommonSizes.of(shapes, arguments)
    >>> common.failure(arguments), common.failure({"x": torch.ones(3), "y": torch.ones(7)})
    (None, 'y.size()[0] == 2*n, where n is x.size()[0] is 3 and y.size()[0] is 7')
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from types import MappingProxyType
from typing import Any

import torch

from framelift.errors import short

_HINTS: Mapping[str | None, bool] = MappingProxyType({"AUTO": True, "STATIC": False})
# What torch gives for a bound that nobody set.
_UNBOUNDED = 2**31


def by_name(shapes: Any, arguments: Mapping[str, Any]) -> dict[Any, Any]:
    """What is said about each input of a call with these arguments."""
    return {place: _said(place, wish, argument) for place, wish, argument in _inputs(shapes, arguments)}


class CommonSizes:
    """Sizes that were given one name, or names that are derived from it."""

    def __init__(self, members: Iterable[tuple[str, int, Any]]) -> None:
        self._groups: dict[str, list[tuple[str, int, Any]]] = {}
        for name, dim, entry in members:
            self._groups.setdefault(getattr(entry, "root", entry).__name__, []).append((name, dim, entry))

    @classmethod
    def of(cls, shapes: Any, arguments: Mapping[str, Any]) -> CommonSizes:
        """What `dynamic_shapes` says about the arguments of a call."""
        return cls(
            (name, dim, entry)
            for name, wish, argument in _inputs(shapes, arguments)
            if isinstance(argument, torch.Tensor) and isinstance(wish, list | tuple | Mapping)
            for dim, entry in (wish.items() if isinstance(wish, Mapping) else enumerate(wish))
            if hasattr(entry, "__name__") and hasattr(entry, "min")
        )

    def failure(self, inputs: Mapping[str, Any]) -> str | None:
        """The first size that is not what its name says, in words; `inputs` are all tensors by their names."""
        for root, members in self._groups.items():
            first = next((member for member in members if not hasattr(member[2], "root")), None)
            if first is None:  # only derived ones: what of is not known
                continue
            size = _size_of(inputs, *first[:2])
            for name, dim, entry in members:
                found = _size_of(inputs, name, dim)
                if found != (entry.fn(size) if hasattr(entry, "root") else size):
                    place = f"{first[0]}.size()[{first[1]}]"
                    now = f"{place} is {size} and {name}.size()[{dim}] is {found}"
                    return f"{name}.size()[{dim}] == {entry.__name__}, where {root} is {now}"
        return None


def _size_of(inputs: Mapping[str, Any], name: str, dim: int) -> Any:
    return inputs[name].shape[dim]


def _inputs(shapes: Any, arguments: Mapping[str, Any]) -> Iterator[tuple[Any, Any, Any]]:
    """Name, wish and what is found there, for each input that something is said about."""
    if isinstance(shapes, Mapping):
        wishes = shapes
    elif isinstance(shapes, list | tuple) and len(shapes) == len(arguments):
        wishes = dict(zip(arguments, shapes, strict=True))
    else:
        needed = f"a dict, or a sequence with an entry for each of {', '.join(arguments)}, is needed"
        raise TypeError(f"dynamic_shapes is {short(shapes)}: {needed}")
    for name in wishes:
        if isinstance(name, str) and name.isidentifier() and name not in arguments:
            raise TypeError(f"dynamic_shapes has the key {name!r}, but the arguments are {', '.join(arguments)}")
    for name, wish in wishes.items():
        yield from _walk(name, wish, arguments.get(name))


def _walk(name: Any, wish: Any, argument: Any) -> Iterator[tuple[Any, Any, Any]]:
    """An argument, or what a container holds."""
    if wish is None:
        return
    if isinstance(argument, list | tuple) and isinstance(wish, list | tuple) and len(argument) == len(wish):
        for index, (part, item) in enumerate(zip(wish, argument, strict=True)):
            yield from _walk(f"{name}[{index}]", part, item)
    elif isinstance(argument, Mapping) and isinstance(wish, Mapping) and wish.keys() <= argument.keys():
        for key, part in wish.items():
            yield from _walk(f"{name}[{key!r}]", part, argument[key])
    else:
        yield name, wish, argument


def _said(name: Any, wish: Any, argument: Any) -> Any:
    if isinstance(argument, torch.Tensor) and isinstance(wish, list | tuple | Mapping):
        return _dimensions(name, wish if isinstance(wish, Mapping) else dict(enumerate(wish)), argument)
    if isinstance(wish, Mapping):
        return {dim: _bounds(entry) for dim, entry in wish.items() if entry is not None}
    said = _bounds(wish)
    return said if isinstance(said, bool) or said is wish else True


def _dimensions(name: Any, wish: Mapping[Any, Any], tensor: torch.Tensor) -> dict[Any, Any]:
    """What is said about the dimensions of a tensor. A plain number is the size that a dimension has and keeps."""
    rank, found = tensor.dim(), {}
    for dim, entry in wish.items():
        if type(dim) is int and not -rank <= dim < rank:
            raise TypeError(f"dynamic_shapes speaks of dimension {dim} of {name}, which has {rank}")
        if type(entry) is int and type(dim) is int and entry != tensor.shape[dim]:
            raise ValueError(f"dynamic_shapes says that {name}.size()[{dim}] is {entry}, but it is {tensor.shape[dim]}")
        if entry is not None:
            found[dim] = False if type(entry) is int else _bounds(entry)
    return found


def _bounds(entry: Any) -> Any:
    """What one of torch's dimensions, or of its hints, says; anything else is as it is."""
    if not hasattr(entry, "min") or not hasattr(entry, "max"):
        return entry
    hint = getattr(getattr(entry, "type", None), "name", None)
    if hint in _HINTS:
        return _HINTS[hint]
    return tuple(bound if type(bound) is int and 0 < bound < _UNBOUNDED else None for bound in (entry.min, entry.max))
