"""The options of one `compile()`: one immutable, hashable object that is also the key of its entries."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, Protocol

from framelift.errors import short, unknown

MODES = ("default", "reduce-overhead", "max-autotune", "max-autotune-no-cudagraphs")


class Backend(Protocol):
    """What `framelift.backends.lookup` returns: called with a graph module and example inputs, gives a callable."""

    @property
    def name(self) -> str: ...

    @property
    def takes_symbolic_floats(self) -> bool:
        """Whether a graph may take floats as inputs."""

    def __call__(self, graph_module: Any, example_inputs: Any) -> Callable[..., Any]: ...


@dataclass(frozen=True, slots=True)
class Options:
    """What was asked of one `compile()`. Two calls with equal options share their entries.

    >>> Options(backend=backend) == Options(backend=backend, fullgraph=False)
    True
    """

    backend: Backend
    fullgraph: bool = False
    dynamic: bool | None = None
    mode: str | None = None
    inductor: tuple[tuple[str, Any], ...] = field(default=())

    def __str__(self) -> str:
        parts = [f"backend={self.backend.name!r}"]
        given = (("fullgraph", self.fullgraph or None), ("dynamic", self.dynamic), ("mode", self.mode))
        parts += [f"{name}={value!r}" for name, value in given if value is not None]
        parts += [f"{name}={value!r}" for name, value in self.inductor]
        return ", ".join(parts)


def checked_fullgraph(value: object) -> bool:
    if not isinstance(value, bool):
        raise TypeError(f"fullgraph is {short(value)}: True or False is needed")
    return value


def checked_dynamic(value: object) -> bool | None:
    if value is not None and not isinstance(value, bool):
        raise TypeError(f"dynamic is {short(value)}: None (decide by the inputs), True or False is needed")
    return value


def checked_mode(value: object) -> str | None:
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
