"""The options of one `compile()`: one immutable, hashable object that is also the key of its entries."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, Protocol

from framelift.errors import short, unknown

MODES = ("default", "reduce-overhead", "max-autotune", "max-autotune-no-cudagraphs")


# What is wished of single inputs, hashable: (name, True, False or ((dimension, True, False or bounds), ...)).
Wishes = tuple[tuple[str, Any], ...]


class Backend(Protocol):
    """What `framelift.backends.lookup` returns: it makes a callable of a graph module and example inputs."""

    @property
    def name(self) -> str: ...

    @property
    def is_bitwise(self) -> bool:
        """Whether it promises eager's very bits."""

    @property
    def takes_subgraphs(self) -> bool:
        """Whether it knows `invoke_subgraph`."""

    @property
    def derives(self) -> bool:
        """Whether it works out derivatives when it compiles."""

    def compile(self, graph_module: Any, example_inputs: Any, original: Any = None) -> Callable[..., Any]: ...


@dataclass(frozen=True, slots=True)
class Options:
    """What was asked of one `compile()`. Two calls with equal options share their entries.

    >>> Options(backend=backend) == Options(backend=backend, fullgraph=False)
    True
    """

    backend: Backend
    fullgraph: bool = False
    dynamic: bool | Wishes | None = None
    mode: str | None = None
    inductor: tuple[tuple[str, Any], ...] = field(default=())
    recompile_limit: int | None = None
    # The passes that run on graphs before the backend: None for the default ones, () for none.
    passes: tuple[str, ...] | None = None
    # How they run (a PassOptions); None: as suits the backend.
    pass_options: Any = None
    # Layers that repeat become one subgraph that is called many times.
    deduplicate: bool = False

    def __str__(self) -> str:
        parts = [f"backend={self.backend.name!r}"]
        given: tuple[tuple[str, Any], ...] = (
            ("fullgraph", self.fullgraph or None),
            ("dynamic", self.dynamic),
            ("mode", self.mode),
            ("recompile_limit", self.recompile_limit),
            ("pre_grad_passes", self.passes),
            ("pass_options", self.pass_options),
            ("deduplicate", self.deduplicate or None),
        )
        parts += [f"{name}={value!r}" for name, value in given if value is not None]
        parts += [f"{name}={value!r}" for name, value in self.inductor]
        return ", ".join(parts)


def checked_fullgraph(value: object) -> bool:
    """`compile(fullgraph=...)`, or TypeError."""
    if not isinstance(value, bool):
        raise TypeError(f"fullgraph is {short(value)}: True or False is needed")
    return value


def checked_deduplicate(value: object) -> bool:
    if not isinstance(value, bool):
        raise TypeError(f"deduplicate is {short(value)}: True or False is needed")
    return value


def checked_dynamic(value: object) -> bool | Wishes | None:
    """`compile(dynamic=...)`, or TypeError."""
    if isinstance(value, Mapping):
        return frozen_wishes(value)
    if value is not None and not isinstance(value, bool):
        raise TypeError(f"dynamic is {short(value)}: None (decide by the inputs), True, False or a dict is needed")
    return value


def frozen_wishes(wishes: Mapping[Any, Any]) -> Wishes:
    """What is wished of single inputs, checked, in an order of its own."""
    return tuple(sorted((_checked_name(name), _checked_wish(name, wish)) for name, wish in wishes.items()))


def _checked_name(name: Any) -> str:
    if not isinstance(name, str) or not name[:1].isidentifier():
        raise TypeError(f"dynamic has the key {short(name)}: the name of an input such as 'x' or 'self.step' is needed")
    return name


def _checked_wish(name: str, wish: Any) -> Any:
    if isinstance(wish, bool):
        return wish
    if not isinstance(wish, Mapping):
        raise TypeError(f"dynamic[{name!r}] is {short(wish)}: True, False or a dict of dimensions is needed")
    return tuple(sorted((_checked_dim(name, dim), _checked_bounds(name, dim, entry)) for dim, entry in wish.items()))


def _checked_dim(name: str, dim: Any) -> int:
    if isinstance(dim, bool) or not isinstance(dim, int):
        raise TypeError(f"dynamic[{name!r}] has the key {short(dim)}: the number of a dimension is needed")
    return dim


def _checked_bounds(name: str, dim: int, entry: Any) -> Any:
    if isinstance(entry, bool):
        return entry
    if isinstance(entry, tuple | list) and len(entry) == 2 and all(b is None or type(b) is int for b in entry):
        return tuple(entry)
    raise TypeError(f"dynamic[{name!r}][{dim}] is {short(entry)}: True, False or (min, max) is needed")


def checked_recompile_limit(value: object) -> int | None:
    """`compile(recompile_limit=...)`, or TypeError."""
    if value is not None and (type(value) is not int or value < 0):
        raise TypeError(f"recompile_limit is {short(value)}: None (config.recompile_limit) or a number is needed")
    return value


def checked_mode(value: object) -> str | None:
    """`compile(mode=...)`, or an error that names the modes."""
    if value is None:
        return None
    if not isinstance(value, str):
        raise TypeError(f"mode is {short(value)}: None or one of {', '.join(map(repr, MODES))} is needed")
    if value not in MODES:
        raise ValueError(unknown("mode", value, MODES))
    return value


def checked_inductor(value: object) -> tuple[tuple[str, Any], ...]:
    """The backend's own options as a sorted tuple; whether it knows each name is the backend's to say."""
    if value is None:
        return ()
    if not isinstance(value, Mapping):
        raise TypeError(f"options is {short(value)}: None or a dict of option names to values is needed")
    for name in value:
        if not isinstance(name, str):
            raise TypeError(f"options has the key {short(name)}: option names are str")
    return tuple(sorted((name.replace("-", "_"), _frozen(item)) for name, item in value.items()))


def _frozen(value: Any) -> Any:
    """A hashable stand-in for lists, dicts and sets among option values, so that Options can key a table."""
    if isinstance(value, Mapping):
        return tuple((key, _frozen(item)) for key, item in value.items())
    if isinstance(value, list | tuple):
        return tuple(_frozen(item) for item in value)
    if isinstance(value, set | frozenset):
        return frozenset(value)
    return value
