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

from framelift.passes.analysis import order
from framelift.passes.analysis.effects import Memory
from framelift.passes.analysis.metadata import Metadata
from framelift.passes.deduplication.regions import Borders, Region, Tokens, blockers, nodes_behind
from framelift.passes.deduplication.repeats import Repeat, best_repeat
from framelift.passes.deduplication.subgraphs import FRAME, INVOKED, Convention, Plan, plans
from framelift.passes.facts import value
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
    """What may become a subgraph, and which of two possibilities is better.

    That is the one with which the fewest nodes remain over all graphs, of those that save operations.
    """

    convention: Convention
    min_region_nodes: int
    ignore_profit: bool

    def best(self, sequence: list[tuple[Node, int]], memory: Memory) -> list[Plan]:
        """The plans for the best repeat."""
        nodes = [node for node, _ in sequence]
        borders = Borders(nodes)

        def planned(repeat: Repeat) -> list[Plan]:
            regions = [Region(nodes[start : start + repeat.length]) for start in repeat.starts]
            found = plans(self.convention, regions, memory)
            return [plan for plan in found if self.ignore_profit or plan.saves() > 0]

        def bound(repeat: Repeat) -> int:
            """What the repeat saves if all copies are wired alike and need no views outside."""
            counts = [borders.results(start, repeat.length) for start in repeat.starts]
            frame = FRAME + min(borders.inputs(start, repeat.length) for start in repeat.starts)
            return repeat.worth(0) - sum(min(self.convention.price(each), repeat.length) for each in counts) - frame

        def saved(repeat: Repeat) -> int | None:
            found = planned(repeat)
            return sum(plan.saves() - plan.frame() for plan in found) if found else None

        def is_possible(repeat: Repeat) -> int | None:
            return repeat.worth(0) if planned(repeat) else None

        numbers = [number for _, number in sequence]
        if self.ignore_profit:
            best = best_repeat(numbers, self.min_region_nodes, 0, [is_possible])
        else:
            best = best_repeat(numbers, self.min_region_nodes, self.convention.price(1), [bound, saved])
        return planned(best) if best is not None else []


class _Look:
    """One look at the graph as it stands: the plans for what is best done next."""

    def __init__(self, graph: Graph, memory: Memory, choice: _Choice) -> None:
        self.dependencies = order.dependencies(graph, memory)
        self.plans: list[Plan] = []
        tokens = Tokens(graph, memory)
        walls: set[Node] = set()
        while best := choice.best(tokens.sequence(walls), memory):
            regions = [region for plan in best for region in plan.regions]
            in_the_way = {node for region in regions for node in blockers(region, self.dependencies)}
            if not in_the_way:
                self.plans = best
                break
            walls |= in_the_way


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
