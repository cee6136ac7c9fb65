"""While a `torch.nn.Module` is called, operations are labelled with it."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from typing import TYPE_CHECKING

import torch

if TYPE_CHECKING:
    from framelift.values.core.tracer import Tracer
    from framelift.values.objects.instances import UserObjectValue


@contextlib.contextmanager
def label_with(tracer: Tracer, value: UserObjectValue) -> Iterator[None]:
    """Label what is traced meanwhile with `value`, if that is a module."""
    if not issubclass(value.cls, torch.nn.Module):
        yield
        return
    name = value.source.name if value.source is not None else value.cls.__name__
    before = tracer.modules
    cls = f"{value.cls.__module__}.{value.cls.__qualname__}"
    tracer.modules = (*before, (name, _name_in_model(name), cls))
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
