"""What autograd does with gradients that hooks are given, in Python."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import torch

from framelift import controls
from framelift.models.side_effects import stands_for


@stands_for(1)
def by_tensor(function: Callable[..., Any], *args: Any) -> Any:
    """What `Tensor.backward` calls."""
    return function(*args)


@stands_for(2)
def by_autograd(function: Callable[..., Any], *args: Any) -> Any:
    """What `torch.autograd.backward` has its engine call."""
    return function(*args)


def give_to_leaf(leaf: Any, gradient: Any, hooks: Sequence[Any], told: Sequence[Any]) -> None:
    """Give a leaf its gradient: first to hooks that may change it; then those are told that want it added up."""
    with torch.no_grad():
        for hook in hooks:
            result = hook(gradient)
            if result is not None:
                gradient = result
        accumulate(leaf, gradient)
        for hook in told:
            hook(leaf)


def accumulate(leaf: Any, gradient: Any) -> None:
    """Add to the gradient of a leaf, by autograd's rules."""
    leaf.backward(gradient)


def give_to_tensor(gradient: Any, hooks: Sequence[Any]) -> Any:
    """Call the hooks of a tensor with its gradient: what autograd goes on with."""
    with torch.no_grad():
        for hook in hooks:
            result = hook(gradient)
            if result is not None:
                gradient = result
    return gradient


def give_to_node(tensors: Sequence[Any], gradients: Sequence[Any], hooks: Sequence[Any]) -> Sequence[Any]:
    """Call the hooks of a node that hands on what arrives at the tensors it gave: what it is to hand on instead.

    Where nothing arrives it hands on zeros.
    """
    with torch.no_grad():
        arriving = tuple(gradients)
        leaving = zeros = tuple(
            [
                tensor.new_zeros(tensor.shape) if gradient is None else gradient
                for tensor, gradient in zip(tensors, arriving, strict=True)
            ]
        )
        for hook in hooks:
            result = hook(leaving, arriving)
            if result is not None:
                leaving = tuple(result)
        for new in leaving:
            if new is None:
                controls.graph_break("a hook that takes a gradient away")
    return [old if new is zero else new for zero, new, old in zip(zeros, leaving, arriving, strict=True)]


def with_node(function: Callable[[Any], Any], args: Any) -> tuple[Any, list[int] | None]:
    """What a module is given, or gives, behind a node of autograd, and the places of tensors in it.

    The function registers hooks at the node.
    """
    places = [place for place, arg in enumerate(args) if isinstance(arg, torch.Tensor)]
    tensors = [args[place] for place in places]
    if not torch.is_grad_enabled() or not any(tensor.requires_grad for tensor in tensors):
        return args, None
    behind, node = node_behind(tensors)
    function(node)
    parts = list(args)
    for place, tensor in zip(places, behind, strict=True):
        parts[place] = tensor
    return (tuple(parts) if type(args) is tuple else type(args)(*parts)), places


def node_behind(tensors: Sequence[Any]) -> tuple[Sequence[Any], Any]:
    """The same tensors as a node of autograd gives them, and the node; the interpreter knows."""
    raise NotImplementedError  # never called: values/ has a primitive for it
