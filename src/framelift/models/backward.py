"""What autograd does with gradients that hooks are given, in Python."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch

from framelift import controls

Step = tuple[Any, bool, Any, Sequence[Any], Sequence[Any]]


def hand_gradients_over(steps: Sequence[Step]) -> None:
    """Give tensors their gradients. A step: the tensor, whether it is a leaf, what has arrived for it, the hooks that
    are given the gradient, and those that are told when it is there."""
    with torch.no_grad():
        for tensor, is_leaf, gradient, hooks, told in steps:
            for hook in hooks:
                result = hook(gradient)
                if result is None:
                    continue
                if not is_leaf:
                    controls.graph_break("a hook changes a gradient and does something else")
                gradient = result
            if is_leaf:
                accumulate(tensor, gradient)
            for hook in told:
                hook(tensor)


def accumulate(leaf: Any, gradient: Any) -> None:
    """Add to the gradient of a leaf, by autograd's rules."""
    leaf.backward(gradient)
