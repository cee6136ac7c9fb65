"""The order of nodes: data first, then effects, then as they stood. And which nodes nobody needs."""

from __future__ import annotations

import heapq
import itertools
from collections.abc import Iterable

from torch.fx import Graph, Node

from framelift.passes.analysis.effects import Memory, is_pure, is_random, traits, written_by


class Cycle(Exception):
    """No order satisfies data and effects: a rewrite that makes one is wrong."""


def dependencies(graph: Graph, memory: Memory) -> dict[Node, set[Node]]:
    """What must stand before each node: its operands, and what its effects keep it behind."""
    found: dict[Node, set[Node]] = {}
    last_writer: dict[int, Node] = {}
    readers: dict[int, list[Node]] = {}
    since_fence: list[Node] = []
    fence: Node | None = None
    last_random: Node | None = None
    last_check: Node | None = None
    for node in graph.nodes:
        before = found[node] = set(node.all_input_nodes)
        written = {address for target in written_by(node) for address in memory.of(target)}
        for operand in node.all_input_nodes:
            for address in memory.of(operand):
                if address in last_writer:
                    before.add(last_writer[address])
                if address not in written:
                    readers.setdefault(address, []).append(node)
        for address in written:
            before.update(readers.pop(address, ()))
            if address in last_writer:
                before.add(last_writer[address])
            last_writer[address] = node
        known = traits(node)
        if known.is_mode or known.is_opaque or node.op == "output":
            before.update(since_fence)
            since_fence = []
            fence_before, fence = fence, node
            if fence_before is not None:
                before.add(fence_before)
        elif node.op not in ("placeholder", "get_attr"):
            since_fence.append(node)
            if fence is not None:
                before.add(fence)
        if is_random(node):
            if last_random is not None:
                before.add(last_random)
            last_random = node
        if known.is_check:
            if last_check is not None:
                before.add(last_check)
            last_check = node
        before.discard(node)
    return found


def is_sorted(graph: Graph) -> bool:
    """Whether every node stands after its operands."""
    seen: set[Node] = set()
    for node in graph.nodes:
        if not seen.issuperset(node.all_input_nodes):
            return False
        seen.add(node)
    return True


def sort(graph: Graph, memory: Memory) -> None:
    """Puts nodes behind what they need and leaves all else as it stands."""
    if is_sorted(graph):
        return
    nodes = list(graph.nodes)
    position = {node: index for index, node in enumerate(nodes)}
    waiting = dependencies(graph, memory)
    followers: dict[Node, list[Node]] = {}
    for node, before in waiting.items():
        for other in before:
            followers.setdefault(other, []).append(node)
    ready = [position[node] for node in nodes if not waiting[node]]
    heapq.heapify(ready)
    ordered: list[Node] = []
    while ready:
        node = nodes[heapq.heappop(ready)]
        ordered.append(node)
        for follower in followers.get(node, ()):
            waiting[follower].discard(node)
            if not waiting[follower]:
                heapq.heappush(ready, position[follower])
    if len(ordered) != len(nodes):
        raise Cycle("operands and effects need each other")
    _rearrange(ordered)


def _rearrange(ordered: list[Node]) -> None:
    for before, node in itertools.pairwise(ordered):
        if before.next is not node:
            before.append(node)


def remove_dead(graph: Graph, memory: Memory, candidates: Iterable[Node] | None = None) -> int:
    """Erases nodes that nobody uses and that do nothing else; of `candidates` and what they alone used, or of all."""
    queue = list(graph.nodes) if candidates is None else list(candidates)
    removed = 0
    while queue:
        node = queue.pop()
        if node.users or node._erased or not is_pure(node):
            continue
        operands = node.all_input_nodes
        memory.keep_alive(node)
        graph.erase_node(node)
        removed += 1
        queue.extend(operands)
    return removed
