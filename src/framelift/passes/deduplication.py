"""Graph deduplication: layers that repeat become one subgraph that is called many times.

What it is good for is compile time and the size of generated code: a compiler that knows `invoke_subgraph` compiles
the layer once. Nothing is computed otherwise.

    apply_graph_deduplication(gm)        on a graph module with metadata
    options={"deduplicate": True}        on every graph of a capture
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from torch.fx import Graph, GraphModule, Node

from framelift.passes import order
from framelift.passes.effects import Memory
from framelift.passes.facts import value
from framelift.passes.metadata import Metadata
from framelift.passes.regions import Region, Tokens, blockers, nodes_behind
from framelift.passes.repeats import Repeat, best_repeat
from framelift.passes.subgraphs import INVOKED, Convention, Plan, plans
from framelift.report import stream
from framelift.report.events import PassRan

NAME = "graph_deduplication"
MIN_REGION_NODES = 4


def apply_graph_deduplication(
    gm: GraphModule,
    example_inputs: Sequence[Any] = (),
    *,
    min_region_nodes: int = MIN_REGION_NODES,
    ignore_profit: bool = False,
    convention: Convention = INVOKED,
) -> dict[str, GraphModule]:
    """Replaces stretches of the graph that repeat by calls of one subgraph, in place; gives the subgraphs by name.

    A graph without metadata gets it from `example_inputs`, or the error that these are needed. `convention` is how
    the subgraphs are called: by `invoke_subgraph`, which torch's compilers know, or plainly.
    With `ignore_profit` also where the graph does not become smaller (tests of legality want that).
    """
    began, before = time.perf_counter(), len(gm.graph.nodes)
    Metadata(gm, example_inputs)
    calls = 0
    found: dict[str, GraphModule] = {}
    memory = Memory()
    choice = _Choice(convention, min_region_nodes, ignore_profit)
    while (look := _Look(gm.graph, memory, choice)).plans:
        replaced: dict[Node, Node] = {}
        for plan in look.plans:
            name = _free_name(gm)
            found[name] = plan.subgraph()
            gm.add_module(name, found[name])
            _replace(gm.graph, plan, name, look.dependencies, replaced)
            calls += len(plan.regions)
        order.remove_dead(gm.graph, memory)
    if calls:
        gm.graph.lint()
        gm.recompile()
    stream.emit(PassRan(NAME, calls, before, len(gm.graph.nodes), time.perf_counter() - began))
    return found


@dataclass(frozen=True, slots=True)
class _Choice:
    """What may become a subgraph, and which of two possibilities is better."""

    convention: Convention
    min_region_nodes: int
    ignore_profit: bool

    @property
    def price(self) -> int:
        """The least that a call costs."""
        return 0 if self.ignore_profit else self.convention.price(1)

    def plans(self, regions: list[Region], memory: Memory) -> list[Plan]:
        found = plans(self.convention, regions, memory)
        return [plan for plan in found if self.ignore_profit or plan.saves() > 0]

    def saved(self, repeat: Repeat, found: list[Plan]) -> int | None:
        """How many nodes fewer there are over all graphs: what counts among plans that save operations."""
        if not found:
            return None
        return repeat.worth(0) if self.ignore_profit else sum(plan.saves() - plan.frame() for plan in found)


class _Look:
    """One look at the graph as it stands: the plans for what is best done next."""

    def __init__(self, graph: Graph, memory: Memory, choice: _Choice) -> None:
        self.memory = memory
        self.choice = choice
        self.dependencies = order.dependencies(graph, memory)
        self.plans: list[Plan] = []
        tokens = Tokens(graph, memory)
        walls: set[Node] = set()
        while best := self._best(tokens.sequence(walls)):
            regions = [region for plan in best for region in plan.regions]
            in_the_way = {node for region in regions for node in blockers(region, self.dependencies)}
            if not in_the_way:
                self.plans = best
                break
            walls |= in_the_way

    def _best(self, sequence: list[tuple[Node, int]]) -> list[Plan]:
        nodes = [node for node, _ in sequence]

        def plans_for(repeat: Repeat) -> list[Plan]:
            regions = [Region(nodes[start : start + repeat.length]) for start in repeat.starts]
            return self.choice.plans(regions, self.memory)

        numbers = [number for _, number in sequence]
        best = best_repeat(
            numbers,
            self.choice.min_region_nodes,
            self.choice.price,
            lambda repeat: self.choice.saved(repeat, plans_for(repeat)),
        )
        return plans_for(best) if best is not None else []


def _replace(
    graph: Graph, plan: Plan, name: str, dependencies: dict[Node, set[Node]], replaced: dict[Node, Node]
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
            called = graph.create_node("call_function", plan.convention.call, (subgraph, name, *operands))
        results = [region.nodes[index] for index in plan.outputs]
        called.meta = {key: last.meta[key] for key in ("stack_trace", "nn_module_stack") if key in last.meta}
        called.meta["example_value"] = plan.convention.packed([value(result) for result in results])
        items = plan.convention.unpack(graph, called, len(results))
        for old, new in zip(results, items, strict=True):
            new.meta = dict(old.meta)
            old.replace_all_uses_with(new)
            replaced[old] = new
        place = items[-1]
        for node in (*(region.nodes[index] for index in sorted(plan.kept)), *behind):
            place.append(node)
            place = node
        for index in reversed(range(len(region.nodes))):
            if index not in plan.kept:
                graph.erase_node(region.nodes[index])


def _free_name(gm: GraphModule) -> str:
    number = 0
    while hasattr(gm, f"subgraph_{number}"):
        number += 1
    return f"subgraph_{number}"
