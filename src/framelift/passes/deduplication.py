"""Graph deduplication: layers that repeat become one subgraph that is called many times.

What it is good for is compile time and the size of generated code: a compiler that knows `invoke_subgraph` compiles
the layer once. Nothing is computed otherwise.

    apply_graph_deduplication(gm)        on a graph module with metadata
    options={"deduplicate": True}        on every graph of a capture
"""

from __future__ import annotations

import operator
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Literal

import torch
from torch.fx import Graph, GraphModule, Node
from torch.fx.node import map_arg

from framelift.graph.emit import append_node
from framelift.passes import ops, order
from framelift.passes.effects import SUBGRAPH_IS_PURE, Memory
from framelift.passes.facts import value
from framelift.passes.metadata import Metadata
from framelift.passes.regions import Region, Tokens, blockers, nodes_behind
from framelift.passes.repeats import best_repeat
from framelift.report import stream
from framelift.report.events import PassRan

NAME = "graph_deduplication"
MIN_REGION_NODES = 4
# What a call costs: the call itself and at least one node that takes a result out of it.
PRICE = 2


def call_subgraph(subgraph: Callable[..., Any], name: str, *operands: Any) -> Any:
    """A call of a subgraph, for whoever runs the graph as it is: autograd sees the operations themselves."""
    return subgraph(*operands)


def apply_graph_deduplication(
    gm: GraphModule,
    example_inputs: Sequence[Any] = (),
    *,
    min_region_nodes: int = MIN_REGION_NODES,
    ignore_profit: bool = False,
    call: Any = torch.ops.higher_order.invoke_subgraph,
) -> dict[str, GraphModule]:
    """Replaces stretches of the graph that repeat by calls of one subgraph, in place; gives the subgraphs by name.

    A graph without metadata gets it from `example_inputs`, or the error that these are needed. `call` is what calls
    the subgraphs: `invoke_subgraph`, which torch's compilers know, or :func:`call_subgraph`.
    With `ignore_profit` also where the graph does not become smaller (tests of legality want that).
    """
    price = 0 if ignore_profit else PRICE
    began, before = time.perf_counter(), len(gm.graph.nodes)
    Metadata(gm, example_inputs)
    calls = 0
    found: dict[str, GraphModule] = {}
    memory = Memory()
    tokens = Tokens(gm.graph, memory)
    taken: set[Node] = set()
    walls: set[Node] = set()
    replaced: dict[Node, Node] = {}
    dependencies = order.dependencies(gm.graph, memory)
    while True:
        sequence = tokens.sequence(taken, walls)
        repeat = best_repeat([number for _, number in sequence], min_region_nodes, price)
        if repeat is None:
            break
        nodes = [node for node, _ in sequence]
        regions = [Region(nodes[start : start + repeat.length]) for start in repeat.starts]
        in_the_way = {node for region in regions for node in blockers(region, dependencies)}
        if in_the_way:
            walls |= in_the_way
            continue
        taken.update(node for region in regions for node in region.nodes)
        for plan in _plans(regions, memory):
            if not ignore_profit and plan.saves() <= 0:
                continue
            name = _free_name(gm)
            found[name] = plan.subgraph()
            gm.add_module(name, found[name])
            _replace(gm.graph, plan, name, call, dependencies, replaced)
            calls += len(plan.regions)
    if calls:
        order.remove_dead(gm.graph, memory)
        gm.graph.lint()
        gm.recompile()
    stream.emit(PassRan(NAME, calls, before, len(gm.graph.nodes), time.perf_counter() - began))
    return found


@dataclass(frozen=True, slots=True)
class Plan:
    """Regions that one subgraph can stand for: what it takes, in the operands of each region, and what it returns."""

    regions: list[Region]
    operands: list[tuple[Node, ...]]  # per input, the operand of each region
    inputs: list[int | None]  # per slot, the number of its input; None for what comes from inside
    outputs: list[int]  # nodes of the region, by place
    kept: frozenset[int]  # nodes that stay outside as well: views of what comes in or goes out

    def saves(self) -> int:
        size, copies = len(self.regions[0].nodes), len(self.regions)
        return (copies - 1) * size - copies * (1 + len(self.outputs) + len(self.kept))

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
        graph.output(tuple(made[index] for index in self.outputs))
        order.remove_dead(graph, Memory())
        graph.lint()
        return GraphModule({}, graph)


def _plans(regions: list[Region], memory: Memory) -> list[Plan]:
    """The regions in groups that are wired alike, as far as calls of a subgraph may stand for them."""
    groups: dict[tuple[int | None, ...], list[Region]] = {}
    for region in regions:
        groups.setdefault(region.wiring, []).append(region)
    plans = [_plan(group, memory) for group in groups.values() if len(group) > 1]
    return [plan for plan in plans if plan is not None]


def _plan(regions: list[Region], memory: Memory) -> Plan | None:
    numbers: dict[tuple[Node, ...], int] = {}
    inputs: list[int | None] = []
    for slots in zip(*(region.slots for region in regions), strict=True):
        # Two slots share an input only if they share their operand in every region.
        operands = tuple(slot for slot in slots if isinstance(slot, Node))
        inputs.append(numbers.setdefault(operands, len(numbers)) if operands else None)
    if not all(isinstance(value(operand), torch.Tensor | torch.SymInt) for given in numbers for operand in given):
        return None
    found = _outputs(regions, list(numbers), memory)
    return Plan(regions, list(numbers), inputs, *found) if found is not None and found[0] else None


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


def _replace(
    graph: Graph, plan: Plan, name: str, call: Any, dependencies: dict[Node, set[Node]], replaced: dict[Node, Node]
) -> None:
    """Calls of the subgraph in place of the regions; `replaced` says what stands for which results by now."""
    first = next(node for node in graph.nodes if node.op not in ("placeholder", "get_attr"))
    with graph.inserting_before(first):
        subgraph = graph.create_node("get_attr", name, name=name)
    subgraph.meta["example_value"] = None
    for at, region in enumerate(plan.regions):
        last = region.nodes[-1]
        behind = nodes_behind(region, dependencies)
        with graph.inserting_after(last):
            operands = tuple(replaced.get(given[at], given[at]) for given in plan.operands)
            called = graph.create_node("call_function", call, (subgraph, name, *operands))
        called.meta = {key: last.meta[key] for key in ("stack_trace", "nn_module_stack") if key in last.meta}
        called.meta["example_value"] = tuple(value(region.nodes[index]) for index in plan.outputs)
        called.meta[SUBGRAPH_IS_PURE] = True
        place = called
        for number, index in enumerate(plan.outputs):
            old = region.nodes[index]
            place = replaced[old] = _item(graph, called, number, old, place)
        for index in sorted(plan.kept):
            place.append(region.nodes[index])
            place = region.nodes[index]
        for node in behind:
            place.append(node)
            place = node
        for index in reversed(range(len(region.nodes))):
            if index not in plan.kept:
                graph.erase_node(region.nodes[index])


def _item(graph: Graph, called: Node, number: int, old: Node, after: Node) -> Node:
    with graph.inserting_after(after):
        item = graph.create_node("call_function", operator.getitem, (called, number))
    item.meta = dict(old.meta)
    old.replace_all_uses_with(item)
    return item


def _free_name(gm: GraphModule) -> str:
    number = 0
    while hasattr(gm, f"subgraph_{number}"):
        number += 1
    return f"subgraph_{number}"
