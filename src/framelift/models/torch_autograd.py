"""What a `torch.autograd.Function` is given while it is captured: a context that takes notes."""

from __future__ import annotations

from typing import Any

import torch
from torch._C import _FunctionBase

from framelift import controls

# What a real context computes in C.
_COMPUTED = frozenset(name for name in dir(_FunctionBase) if not name.startswith("__"))


class Context:
    """Stands for the context while `forward` runs, and `backward` if there is something to differentiate."""

    def __init__(self, needs_input_grad: tuple[bool, ...]) -> None:
        self.needs_input_grad = needs_input_grad
        self.to_save: tuple[Any, ...] = ()
        self.non_differentiable: tuple[Any, ...] = ()
        self.materialize_grads = True

    def save_for_backward(self, *tensors: Any) -> None:
        self.to_save = tensors

    @property
    def saved_tensors(self) -> tuple[Any, ...]:
        return self.to_save

    def save_for_forward(self, *tensors: Any) -> None:
        self.saved_for_forward = tensors

    def mark_non_differentiable(self, *tensors: Any) -> None:
        self.non_differentiable = tensors

    def set_materialize_grads(self, value: Any) -> None:
        self.materialize_grads = value

    def mark_dirty(self, *tensors: Any) -> None:
        controls.graph_break("mark_dirty() of an autograd function")

    def __getattr__(self, name: str) -> Any:
        if name in _COMPUTED:
            controls.graph_break("the context of an autograd function is asked for " + name)
        raise AttributeError(name)


def forward(function: Any, context: Context, has_setup: bool, *args: Any) -> Any:
    """What `function.apply(*args)` runs, without gradients."""
    if not has_setup:
        return function.forward(context, *args)
    output = function.forward(*args)
    function.setup_context(context, args, output)
    return output


def forward_only(function: Any, context: Context, has_setup: bool, *args: Any) -> Any:
    """`function.apply(*args)` where nothing is differentiated."""
    with torch.no_grad():
        return forward(function, context, has_setup, *args)
