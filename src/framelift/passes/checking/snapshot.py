"""A graph as it was at one time: cheap to take, because most are never looked at again."""

from __future__ import annotations

from torch.fx import Graph, Node
from torch.fx.node import map_arg

from framelift.graph.emission.emit import append_node


class Snapshot:
    """What every node was. Arguments are never changed in place, so noting them is enough; metadata is copied."""

    def __init__(self, graph: Graph) -> None:
        self._codegen = graph._codegen
        self._tracer_cls = graph._tracer_cls
        self._nodes = [
            (node, node.op, node.name, node.target, node.args, node.kwargs, node.type, dict(node.meta))
            for node in graph.nodes
        ]

    def changed(self, graph: Graph) -> set[Node] | None:
        """The nodes that are new or other than they were; None if the graph is the same."""
        before = {node: facts for node, *facts, _ in self._nodes}
        now = {node: [node.op, node.name, node.target, node.args, node.kwargs, node.type] for node in graph.nodes}
        changed = {node for node, facts in now.items() if before.get(node) != facts}
        return None if not changed and list(before) == list(now) else changed

    def graph(self) -> Graph:
        """The graph again, of new nodes with the old names."""
        copy = Graph(tracer_cls=self._tracer_cls)
        nodes: dict[Node, Node] = {}
        for node, op, name, target, args, kwargs, kind, meta in self._nodes:
            args, kwargs = map_arg((args, kwargs), nodes.__getitem__)
            nodes[node] = append_node(copy, op, name, target, args, kwargs, kind)
            nodes[node].meta = dict(meta)
        copy._codegen = self._codegen
        return copy
