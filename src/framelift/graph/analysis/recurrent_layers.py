"""Recurrent layers that oneDNN computes as a whole on the CPU: their backward needs a workspace that the forward keeps
only where gradients are recorded, as they are not when a compiler's forward runs."""

from __future__ import annotations

import torch
from torch.fx import Graph, Node


def has_layers_of_onednn(graph: Graph) -> bool:
    """Whether a graph calls a layer that oneDNN computes, and that autograd alone can differentiate."""
    return torch.backends.mkldnn.enabled and any(
        map(_is_for_onednn, graph.find_nodes(op="call_function", target=torch.lstm))
    )


def _is_for_onednn(node: Node) -> bool:
    """It does not take packed sequences, which come with their sizes in the place of states."""
    if len(node.args) < 2 or not isinstance(node.args[1], list | tuple):
        return False
    given = node.args[0].meta.get("example_value") if isinstance(node.args[0], Node) else None
    return isinstance(given, torch.Tensor) and given.device.type == "cpu"
