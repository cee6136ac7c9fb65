"""Operations whose gradients are sparse because the program asked for that: compilers would give dense ones."""

from __future__ import annotations

import torch
from torch.fx import Graph, Node
from torch.nn import functional

# What the request is called, and its place among the arguments if it has one.
_REQUESTS = {
    torch.embedding: ("sparse", 4),
    functional.embedding: ("sparse", 6),
    torch.embedding_bag: ("sparse", 5),
    functional.embedding_bag: ("sparse", 7),
    torch.gather: ("sparse_grad", None),
    "gather": ("sparse_grad", None),
}


def has_sparse_gradients(graph: Graph) -> bool:
    """Whether a gradient that flows through the graph may be sparse."""
    return any(node.target in _REQUESTS and _is_asked_for(node) for node in graph.nodes)


def _is_asked_for(node: Node) -> bool:
    name, place = _REQUESTS[node.target]
    if place is not None and len(node.args) > place:
        return bool(node.args[place])
    return bool(node.kwargs.get(name))
