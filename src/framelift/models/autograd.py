"""What a `torch.autograd.Function` is given where nothing is differentiated: a context that takes notes for nobody."""

from __future__ import annotations

from typing import Any

import torch

from framelift import controls

# What a real context computes in C.
_COMPUTED = frozenset(name for name in dir(torch._C._FunctionBase) if not name.startswith("__"))


class Context:
    """Stands for the context while `forward` runs; it is gone afterwards, as nothing will run backward."""

    def __init__(self, needs_input_grad: tuple[bool, ...]) -> None:
        self.needs_input_grad = needs_input_grad

    def save_for_backward(self, *tensors: Any) -> None:
        self.to_save = tensors

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


def forward(function: Any, needs_input_grad: tuple[bool, ...], has_setup: bool, *args: Any) -> Any:
    """`function.apply(*args)` without a gradient."""
    context = Context(needs_input_grad)
    with torch.no_grad():
        if not has_setup:
            return function.forward(context, *args)
        output = function.forward(*args)
        function.setup_context(context, args, output)
        return output
