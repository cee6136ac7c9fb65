"""Stretches of a graph that compute the same thing: which nodes may be among them, and when two are alike.

Two nodes are alike if they call the same thing with equal constants on tensors of equal metadata, in the same modes.
Two regions are alike if their nodes are, one by one, and take what they take from inside the region at the same places.
"""

from __future__ import annotations

from collections.abc import Hashable
from typing import Any, TypeAlias

import torch
from torch.fx import Graph, Node
from torch.fx.node import map_arg

from framelift.passes.analysis.effects import Effects, Memory, is_pure, traits
from framelift.passes.facts import is_described, is_plain, tensors_in, value

# A node of the region, by its place in it, or one outside.
Slot: TypeAlias = int | Node


class Tokens:
    """A number for every node: equal for nodes that are alike. What nothing may stand for has none."""

    def __init__(self, graph: Graph, memory: Memory) -> None:
        effects = Effects(graph, memory)
        numbers: dict[Hashable, int] = {}
        self._all: list[tuple[Node, int | None]] = []
        eligible: set[Node] = set()
        modes: Hashable = 0
        for node in graph.nodes:
            if traits(node).is_mode:
                modes = _modes_after(modes, node)
            number = None
            if _is_eligible(node, effects) and all(each in eligible or is_input(each) for each in node.all_input_nodes):
                eligible.add(node)
                try:
                    key: Hashable = (node.op, node.target, _skeleton(node.args), _skeleton(node.kwargs), modes)
                    number = numbers.setdefault(key, len(numbers))
                except TypeError:  # an argument that cannot be compared: the node is like no other
                    number = numbers[node] = len(numbers)
            self._all.append((node, number))

    def sequence(self, walls: set[Node]) -> list[tuple[Node, int]]:
        """The nodes in order. Walls, which no region may span, are like no other; others that have no number may stand
        among the nodes of a region."""
        fresh = len(self._all)
        found = []
        for index, (node, number) in enumerate(self._all):
            if node in walls:
                found.append((node, fresh + index))
            elif number is not None:
                found.append((node, number))
        return found


def _modes_after(modes: Hashable, switch: Node) -> Hashable:
    """What tells nodes behind a switch from others: whether gradients are recorded; of other modes, which switch."""
    if switch.target is torch._C._set_grad_enabled:
        return (switch.args, modes[1] if isinstance(modes, tuple) else modes)
    return (modes[0] if isinstance(modes, tuple) else None, switch)


def _is_eligible(node: Node, effects: Effects) -> bool:
    if node.op not in ("call_function", "call_method") or not is_pure(node) or not is_described(node):
        return False
    tensors = list(tensors_in(value(node)))
    return all(map(is_plain, tensors)) and effects.unstable.isdisjoint(effects.memory.of(node))


def is_input(node: Node) -> bool:
    """Whether a node's value may be handed to a subgraph."""
    return isinstance(value(node), torch.Tensor | torch.SymInt)


def _skeleton(found: Any) -> Hashable:
    """Arguments without their tensors: what must be equal for two calls to be the same call on other tensors."""
    if isinstance(found, Node):
        return ("node", _signature(value(found)))
    if isinstance(found, list | tuple):
        return (type(found), tuple(map(_skeleton, found)))
    if isinstance(found, dict):
        return (dict, tuple((name, _skeleton(item)) for name, item in found.items()))
    if isinstance(found, slice):
        return (slice, _skeleton((found.start, found.stop, found.step)))
    if isinstance(found, float | complex):
        return (type(found), repr(found))  # tells -0.0 from 0.0, and NaN is itself
    hash(found)
    return (type(found), found)


def _signature(found: Any) -> Hashable:
    if isinstance(found, torch.Tensor):
        # Symbolic sizes are compared as expressions, which assumes nothing.
        layout = tuple(map(str, (*found.shape, *found.stride()))) if found.layout is torch.strided else ()
        return (type(found), found.dtype, found.device, found.requires_grad, found.layout, found.dim(), layout)
    if isinstance(found, list | tuple):
        return tuple(map(_signature, found))
    return (type(found), str(found))


class Borders:
    """How many values go into and come out of stretches of some nodes."""

    def __init__(self, nodes: list[Node]) -> None:
        places = {node: place for place, node in enumerate(nodes)}
        self._operands = [node.all_input_nodes for node in nodes]
        self._places = places
        self._last_use = [max((places.get(user, len(nodes)) for user in node.users), default=0) for node in nodes]

    def inputs(self, start: int, length: int) -> int:
        operands = {each for given in self._operands[start : start + length] for each in given}
        return sum(1 for each in operands if self._places.get(each, -1) < start)

    def results(self, start: int, length: int) -> int:
        end = start + length
        return sum(1 for last in self._last_use[start:end] if last >= end)


class Region:
    """One copy of a stretch: its nodes in order, and where each argument comes from."""

    def __init__(self, nodes: list[Node]) -> None:
        self.nodes = nodes
        self.inside = {node: index for index, node in enumerate(nodes)}
        self.slots: list[Slot] = []
        for node in nodes:
            map_arg((node.args, node.kwargs), self._note)

    def _note(self, operand: Node) -> Node:
        self.slots.append(self.inside.get(operand, operand))
        return operand

    @property
    def wiring(self) -> tuple[int | None, ...]:
        """For each argument its place in the region; None for what comes from outside."""
        return tuple(slot if isinstance(slot, int) else None for slot in self.slots)

    def is_used_outside(self, index: int) -> bool:
        return any(user not in self.inside for user in self.nodes[index].users)


def nodes_behind(region: Region, dependencies: dict[Node, set[Node]]) -> list[Node]:
    """The nodes that stand among the region's and need one of them, in order: they must come after all of it."""
    found: list[Node] = []
    needed = set(region.nodes)
    node = region.nodes[0]
    while node is not region.nodes[-1]:
        node = node.next
        if node not in region.inside and not dependencies[node].isdisjoint(needed):
            found.append(node)
            needed.add(node)
    return found


def blockers(region: Region, dependencies: dict[Node, set[Node]]) -> set[Node]:
    """Of these, the ones that the region needs in turn, so that it cannot run as one."""
    behind = nodes_behind(region, dependencies)
    return {node for node in behind if any(node in dependencies[member] for member in region.nodes)}
