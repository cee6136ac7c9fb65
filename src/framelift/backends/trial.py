"""What autograd refuses in a graph, found by running it, and its backward, on fake tensors.

Compilers work out every backward when they compile, also one that must fail if the program ever asks for it: because
what it needs is written to in the meantime. Such a graph runs as it is: autograd raises where eager mode does.

    >>> refused, allowed = [
    ...     torch.fx.symbolic_trace(function)
    ...     for function in (lambda x: x.exp().mul_(2), lambda x: x.sin().mul_(2))
    ... ]
    >>> x = torch.ones(2, requires_grad=True)
    >>> is_refused(refused, [x]), is_refused(allowed, [x])
    (True, False)
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch._subclasses.fake_tensor import FakeTensorMode
from torch.fx.experimental.symbolic_shapes import ShapeEnv
from torch.utils import _pytree as pytree

from framelift.backends.tracing import fake_of
from framelift.silence import silence


def is_refused(run: Callable[..., Any], examples: Sequence[Any]) -> bool:
    """Whether autograd raises when a graph runs, or when backward is called on what it gives."""
    mode = FakeTensorMode(shape_env=ShapeEnv(), allow_non_fake_inputs=True)
    with silence():
        fakes = [fake_of(mode, value) for value in examples]
        try:
            with mode:
                _derive(run(*fakes), fakes)
        except RuntimeError as error:
            return type(error) is RuntimeError  # others are about fake tensors, not about the graph
    return False


def _derive(results: Any, inputs: Sequence[Any]) -> None:
    """Call backward on all that a graph gives."""
    asking = [each for each in pytree.tree_leaves(results) if _has_gradient(each) and each.grad_fn is not None]
    sources = [each for each in inputs if _has_gradient(each)]
    if asking and sources:
        ones = [torch.ones_like(each) for each in asking]
        torch.autograd.grad(asking, sources, ones, allow_unused=True)


def _has_gradient(value: Any) -> bool:
    return isinstance(value, torch.Tensor) and value.requires_grad
