"""While a `torch.nn.Module` is called, operations are labelled with it."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from typing import TYPE_CHECKING

import torch

from framelift.guards.source import Source

if TYPE_CHECKING:
    from framelift.values.core.tracer import Tracer


@contextlib.contextmanager
def label_with(tracer: Tracer, cls: type, source: Source | None) -> Iterator[None]:
    """Label what is traced meanwhile with an object of a class, if that is a module."""
    if not issubclass(cls, torch.nn.Module):
        yield
        return
    name = source.name if source is not None else cls.__name__
    before = tracer.modules
    kind = f"{cls.__module__}.{cls.__qualname__}"
    tracer.modules = (*before, (name, _name_in_model(name), kind))
    try:
        yield
    finally:
        tracer.modules = before


def _name_in_model(path: str) -> str:
    """`L['self'].layers[0]` -> `layers.0`, the name a user gives the module."""
    for prefix in ("L['self']", "L['fn']"):
        path = path.removeprefix(prefix)
    cleaned = path.replace("._modules", "").replace("['", ".").replace("']", "").replace("[", ".").replace("]", "")
    return cleaned.strip(".")
