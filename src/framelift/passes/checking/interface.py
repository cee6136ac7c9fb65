"""What a graph promises to its caller: inputs, outputs, and who shares memory. Passes keep it, and this checks that."""

from __future__ import annotations

from typing import Any

import torch
from torch.fx import Graph, Node
from torch.utils import _pytree as pytree

from framelift.passes.analysis.effects import Memory
from framelift.passes.facts import tensors_in, value
from framelift.passes.rules import PassError

Facts = tuple[Any, ...]


class Interface:
    """The promises of a graph at one time."""

    def __init__(self, graph: Graph, memory: Memory, strides: bool) -> None:
        self.inputs = [(node.name, node.target) for node in graph.find_nodes(op="placeholder")]
        leaves, structure = pytree.tree_flatten(graph.output_node().args[0])
        self.structure = structure
        self.outputs = [_described(leaf, strides) for leaf in leaves]
        self.sharing = _sharing(graph, memory, leaves)

    def check(self, other: Interface) -> None:
        """Raises if another state of the graph promises something else."""
        for what in ("inputs", "structure", "outputs", "sharing"):
            before, after = getattr(self, what), getattr(other, what)
            if before != after:
                raise PassError(f"the {what} of the graph would change: {_difference(before, after)}")


def _described(leaf: Any, strides: bool) -> Any:
    found = value(leaf) if isinstance(leaf, Node) else leaf
    if not isinstance(found, torch.Tensor):
        return repr(found) if not isinstance(leaf, Node) else type(found)
    facts: Facts = (tuple(found.shape), found.dtype, found.device, found.requires_grad)
    return (*facts, tuple(found.stride())) if strides and found.layout is torch.strided else facts


def _sharing(graph: Graph, memory: Memory, leaves: list[Any]) -> list[Any]:
    """For each output, the input or the first output it shares memory with."""
    owner: dict[int, Any] = {}
    for node in graph.nodes:
        if node.op in ("placeholder", "get_attr"):
            for tensor in tensors_in(value(node)):
                owner.setdefault(memory.address(tensor), (node.op, node.target))
    found = []
    for index, leaf in enumerate(leaves):
        tensors = list(tensors_in(value(leaf))) if isinstance(leaf, Node) else []
        found.append([owner.setdefault(memory.address(tensor), ("output", index)) for tensor in tensors])
    return found


def _difference(before: Any, after: Any) -> str:
    if isinstance(before, list) and isinstance(after, list) and len(before) == len(after):
        pairs = ((index, b, a) for index, (b, a) in enumerate(zip(before, after, strict=True)) if b != a)
        return "; ".join(f"{index}: {b} -> {a}" for index, b, a in pairs)
    return f"{before} -> {after}"
