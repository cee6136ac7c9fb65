"""The operations of a graph that ask autograd for derivatives.

They run as they stand where a backend runs graphs one operation after the other: autograd has followed the operations
before them. For a compiler they are taken apart, as it cannot see through them (`backends/differentiated_graphs.py`).
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import torch
from torch.nn.modules._functions import BackwardHookFunction
from torch.utils.hooks import RemovableHandle

Tensors = Sequence[torch.Tensor]
Gradients = Sequence[torch.Tensor | None]


def accumulated_gradients(
    outputs: Tensors,
    arriving: Gradients,
    retain_graph: bool,
    create_graph: bool,
    leaves: Tensors,
    before: Gradients,
    chosen: bool,
) -> tuple[torch.Tensor | None, ...]:
    """What the gradients of `leaves` are after `backward()`, where they were `before`.

    Autograd itself adds them up: into the very tensor that was there, or what it has made becomes the gradient. The
    leaves are left as they were. `chosen`: these are not all leaves there are.

    >>> x = torch.ones(2, requires_grad=True)
    >>> accumulated_gradients(((x * 3).sum(),), (None,), False, False, (x,), (torch.ones(2),), False), x.grad
    ((tensor([4., 4.]),), None)
    """
    own = [leaf.grad for leaf in leaves]
    try:
        _set_gradients(leaves, before)
        with _without_hooks(leaves):
            torch.autograd.backward(outputs, arriving, retain_graph, create_graph, None, leaves if chosen else None)
        return tuple([leaf.grad for leaf in leaves])
    finally:
        _set_gradients(leaves, own)


def _set_gradients(leaves: Tensors, gradients: Gradients) -> None:
    for leaf, gradient in zip(leaves, gradients, strict=True):
        if leaf.grad is not gradient:
            leaf.grad = gradient


def gradients(
    outputs: Tensors, inputs: Tensors, arriving: Gradients, retain_graph: bool, create_graph: bool, **others: Any
) -> tuple[torch.Tensor | None, ...]:
    """`torch.autograd.grad`."""
    with _without_hooks(inputs):
        return torch.autograd.grad(outputs, inputs, arriving, retain_graph, create_graph, **others)


@contextmanager
def _without_hooks(leaves: Tensors) -> Iterator[None]:
    """Hooks of leaves are part of the graph around, where they were traced: autograd finds none."""
    found = [hooks for leaf in leaves for name in HOOKS_OF_LEAVES if (hooks := getattr(leaf, name))]
    kept = [dict(hooks) for hooks in found]
    for hooks in found:
        hooks.clear()
    try:
        yield
    finally:
        for hooks, items in zip(found, kept, strict=True):
            hooks.update(items)


def has_hooks_at_node(leaf: torch.Tensor) -> bool:
    """Whether somebody hooks into autograd's node that adds up the gradients of a leaf. It tells when one is added.

    The node holds its leaf: one that only its object in Python holds has none.
    """
    if leaf._use_count() == 1:
        return False
    node = torch.autograd.graph.get_gradient_edge(leaf).node
    found = False
    for register in (node.register_hook, node.register_prehook):
        with uncounted():
            handle = register(_no_hook)
        hooks = handle.hooks_dict_ref()
        found |= hooks is not None and len(hooks) > 1
        handle.remove()
    return found


# Numbers of hooks that the program does not know of.
_OWN_NUMBERS = itertools.count(-(2**62))


@contextmanager
def uncounted() -> Iterator[None]:
    """In this block a hook is registered that the program does not know of, and has none of its numbers."""
    count, RemovableHandle.next_id = RemovableHandle.next_id, next(_OWN_NUMBERS)
    try:
        yield
    finally:
        RemovableHandle.next_id = count


def _no_hook(*gradients: Any) -> None:
    raise AssertionError("it is removed before anybody calls it")


def hook_gradient(tensor: torch.Tensor, body: Callable[..., Tensors], *used: torch.Tensor) -> RemovableHandle:
    """`tensor.register_hook`, with a hook that does nothing but compute."""
    with uncounted():  # the program's number is counted by residual code
        handle: RemovableHandle = tensor.register_hook(lambda gradient: body(gradient, *used)[0])
    return handle


def remove_hook(handle: RemovableHandle) -> None:
    handle.remove()


def replaced_gradient(tensor: torch.Tensor, gradient: torch.Tensor) -> RemovableHandle:
    """Have backward go on with another gradient than it has for a tensor, which is what hooks made of it."""
    with uncounted():
        handle: RemovableHandle = tensor.register_hook(lambda _: gradient)
    return handle


def hooked(*tensors: torch.Tensor) -> Tensors:
    """The same tensors behind a node of autograd, where hooks of modules are called."""
    found: Tensors = BackwardHookFunction.apply(*tensors)
    return found


def retain_gradient(tensor: torch.Tensor) -> None:
    """`tensor.retain_grad()`."""
    tensor.retain_grad()


def told_of_gradient(tensor: torch.Tensor) -> None:
    """Stands where the program has a hook told of a gradient: it is called behind the backward, outside of autograd."""


# Operations that change what backward does, and compute nothing.
PREPARATIONS: frozenset[Callable[..., Any]] = frozenset(
    {hook_gradient, remove_hook, replaced_gradient, retain_gradient, told_of_gradient}
)


# Where the hooks of a leaf are found: those that are given its gradient, and those that are told when it is there.
HOOKS_OF_LEAVES = ("_backward_hooks", "_post_accumulate_grad_hooks")
DIFFERENTIATES: frozenset[Callable[..., Any]] = frozenset({accumulated_gradients, gradients})
