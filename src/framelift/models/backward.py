"""What autograd does with the gradient of a leaf that has hooks, in Python."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch

Step = tuple[Any, Any, Sequence[Any], Sequence[Any]]


def hand_gradients_over(steps: Sequence[Step]) -> None:
    """Give leaves their gradients. A step: the leaf, what has arrived for it, the hooks that are given the gradient,
    and those that are told when it is there."""
    with torch.no_grad():
        for leaf, gradient, hooks, told in steps:
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
