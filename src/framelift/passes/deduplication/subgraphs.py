"""Regions as calls of one subgraph: what it takes and returns, how it is called, and what that saves."""

from __future__ import annotations

import operator
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Literal, TypeVar

import torch
from torch.fx import Graph, GraphModule, Node
from torch.fx.node import map_arg

from framelift.graph.emission.emit import append_node
from framelift.passes import ops
from framelift.passes.analysis import order
from framelift.passes.analysis.effects import Memory
from framelift.passes.deduplication.regions import Region, is_input
from framelift.passes.facts import value

T = TypeVar("T")

# What a subgraph has besides its inputs and what it computes: its output, and the node that holds it in the graph.
FRAME = 2


@dataclass(frozen=True, slots=True)
class Convention:
    """How subgraphs are called, and how they hand over what they compute: in a tuple, or a single result as it is."""

    call: Callable[..., Any]
    is_one_bare: bool

    def is_bare(self, results: int) -> bool:
        return self.is_one_bare and results == 1

    def price(self, results: int) -> int:
        """The nodes of one call: itself, and one for each result that has to be taken out of a tuple."""
        return 1 if self.is_bare(results) else 1 + results

    def packed(self, results: Sequence[T]) -> T | tuple[T, ...]:
        """Results as the subgraph returns them."""
        return results[0] if self.is_bare(len(results)) else tuple(results)

    def unpack(self, graph: Graph, called: Node, results: int) -> list[Node]:
        """The nodes that are the results of a call, which stand behind it."""
        if self.is_bare(results):
            return [called]
        items = [called]
        for number in range(results):
            with graph.inserting_after(items[-1]):
                items.append(graph.create_node("call_function", operator.getitem, (called, number)))
        return items[1:]


def call_subgraph(subgraph: Callable[..., Any], name: str, *operands: Any) -> Any:
    """A call of a subgraph, for whoever runs the graph as it is: autograd sees the operations themselves."""
    return subgraph(*operands)


PLAIN = Convention(call_subgraph, is_one_bare=True)
# What torch's compilers know; they count on a tuple.
INVOKED = Convention(torch.ops.higher_order.invoke_subgraph, is_one_bare=False)


@dataclass(frozen=True, slots=True)
class Plan:
    """Regions that one subgraph can stand for: what it takes, in the operands of each region, and what it returns."""

    convention: Convention
    regions: list[Region]
    operands: list[tuple[Node, ...]]  # per input, the operand of each region
    inputs: list[int | None]  # per slot, the number of its input; None for what comes from inside
    outputs: list[int]  # nodes of the region, by place
    kept: frozenset[int]  # nodes that stay outside as well: views of what comes in or goes out

    def saves(self) -> int:
        """How many operations fewer there are, in the graph and the subgraph together."""
        size, copies = len(self.regions[0].nodes), len(self.regions)
        return (copies - 1) * size - copies * (self.convention.price(len(self.outputs)) + len(self.kept))

    def frame(self) -> int:
        """The nodes that the subgraph needs besides."""
        return len(self.operands) + FRAME

    def subgraph(self) -> GraphModule:
        """The first region as a graph of its own."""
        first = self.regions[0]
        graph = Graph()
        inputs = [append_node(graph, "placeholder", f"arg{i}", f"arg{i}", (), {}) for i in range(len(self.operands))]
        for node, operands in zip(inputs, self.operands, strict=True):
            node.meta = {"example_value": value(operands[0]), "val": value(operands[0])}
        made: list[Node] = []
        slot = iter(range(len(first.slots)))

        def inner(_: Node) -> Node:
            number = next(slot)
            source = first.slots[number]
            at = self.inputs[number]
            return made[source] if isinstance(source, int) else inputs[at if at is not None else 0]

        for node in first.nodes:
            args, kwargs = map_arg((node.args, node.kwargs), inner)
            name = node.name if not node.name.startswith("arg") else f"{node.name}_"
            made.append(append_node(graph, node.op, name, node.target, args, kwargs, node.type))
            made[-1].meta = {**node.meta, "val": value(node)}
        graph.output(self.convention.packed([made[index] for index in self.outputs]))
        order.remove_dead(graph, Memory())
        graph.lint()
        return GraphModule({}, graph)


def plans(convention: Convention, regions: list[Region], memory: Memory) -> list[Plan]:
    """The regions in groups that are wired alike, as far as calls of a subgraph may stand for them."""
    groups: dict[tuple[int | None, ...], list[Region]] = {}
    for region in regions:
        groups.setdefault(region.wiring, []).append(region)
    found = [_plan(convention, group, memory) for group in groups.values() if len(group) > 1]
    return [plan for plan in found if plan is not None]


def _plan(convention: Convention, regions: list[Region], memory: Memory) -> Plan | None:
    numbers: dict[tuple[Node, ...], int] = {}
    inputs: list[int | None] = []
    for slots in zip(*(region.slots for region in regions), strict=True):
        # Two slots share an input only if they share their operand in every region.
        operands = tuple(slot for slot in slots if isinstance(slot, Node))
        inputs.append(numbers.setdefault(operands, len(numbers)) if operands else None)
    if not all(is_input(operand) for given in numbers for operand in given):
        return None
    found = _outputs(regions, list(numbers), memory)
    return Plan(convention, regions, list(numbers), inputs, *found) if found is not None and found[0] else None


def _outputs(
    regions: list[Region], operands: list[tuple[Node, ...]], memory: Memory
) -> tuple[list[int], frozenset[int]] | None:
    """Which nodes a subgraph returns, and which stay outside besides; None if that cannot be.

    A result must be a tensor with memory of its own. A view of an input or of another result, or what is no tensor, is
    computed again outside from what it is made of: that costs nothing.
    """
    size = len(regions[0].nodes)
    returned: set[int] = set()
    kept: set[int] = set()
    queue = [index for index in range(size) if any(region.is_used_outside(index) for region in regions)]
    while queue:
        index = queue.pop(0)
        if index in returned or index in kept:
            continue
        sharing = [
            _sharing(region.nodes[index], [each[at] for each in operands], memory) for at, region in enumerate(regions)
        ]
        if sharing == ["own"] * len(regions):
            returned.add(index)
        elif "computed" in sharing:
            return None
        else:
            kept.add(index)
            made_of = {regions[0].inside.get(operand) for operand in regions[0].nodes[index].all_input_nodes}
            queue += sorted(each for each in made_of if each is not None)
    return sorted(returned), frozenset(kept)


def _sharing(node: Node, given: list[Node], memory: Memory) -> Literal["own", "view", "computed"]:
    """What kind of result a node is: a tensor of its own; a view or a number, which cost nothing; something else."""
    whole = node.args[0] if ops.index_of(node) is not None else node
    assert isinstance(whole, Node)
    own = memory.of(node)
    is_view = any(own & memory.of(other) for other in (*given, *whole.all_input_nodes))
    if isinstance(value(node), torch.Tensor):
        return "view" if is_view else "own"
    return "view" if is_view or not own else "computed"
