"""Steps of optimizers that are one kernel: there is nothing in them to compile, and compilers do not take them.

AOTAutograd takes the empty lists that some of them are given for tensors that it does not know, and some have no rule
for tensors without data (torch 2.13).
"""

from __future__ import annotations

import torch
from torch.fx import Graph

_NAMES = ("_fused_adam_", "_fused_adamw_", "_fused_sgd_", "_fused_adagrad_")
_STEPS = frozenset(getattr(torch, name) for name in _NAMES if hasattr(torch, name))


def has_fused_steps(graph: Graph) -> bool:
    """Whether the graph has such a step: then it runs as it is."""
    return any(node.op == "call_function" and node.target in _STEPS for node in graph.nodes)
