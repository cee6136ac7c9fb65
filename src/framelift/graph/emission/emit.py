"""Turns the records of a capture into an FX graph, once: dead records never become nodes."""

from __future__ import annotations

import operator
from collections.abc import Sequence
from typing import Any

from torch import _assert
from torch.fx import Graph, GraphModule, Node

from framelift.graph.bodies import Body
from framelift.graph.emission.kernels import may_lack_kernel
from framelift.graph.names import Names
from framelift.graph.nest import map_refs
from framelift.graph.record import Location, NumberRef, Record, Ref, TensorRef

Modules = dict[str, tuple[str, str]]
Input = TensorRef | NumberRef

# Dead code elimination of torch.fx looks at a node's users and at a table of functions known to have effects. A write
# by a method (x.add_(1)) or by a flag (relu(x, inplace=True)) is in no table, so such a node gets a user that is: an
# assertion that always holds and takes the node as its message. It costs nothing, compilers and caches know it.
KEEP = _assert


class GraphWriter:
    """Writes one graph."""

    def __init__(self) -> None:
        self.graph = Graph()
        self._names = Names()
        # The bodies among the arguments, under the names the graph calls them by.
        self.bodies: dict[str, GraphModule] = {}
        self._emitted: list[tuple[Record, Node]] = []
        self._traces: dict[int, tuple[str | None, Modules | None]] = {}

    def emit(self, inputs: Sequence[Input], records: Sequence[Record], live: set[Ref], outputs: Sequence[Ref]) -> Graph:
        """Emits inputs and records that were found alive."""
        for ref in inputs:
            self._placeholder(ref)
        self._emitted = [(record, self._record(record, live)) for record in records]
        for record, node in self._emitted:
            if needs_keeping(record, node):
                self._keep(node)
        self.graph.output(tuple([ref.node for ref in outputs]))
        for result in outputs:
            if isinstance(result, TensorRef) and result.is_written_as_view:
                _node_of(result).meta["is_written_as_view"] = True
        return self.graph

    def without_effect(self) -> set[Node]:
        """The nodes that matter only to those who use them."""
        return {node for record, node in self._emitted if not has_effect(record)}

    def _placeholder(self, ref: Input) -> None:
        name = self._names.unique(ref.input_name or "given")
        node = ref.node = self._node("placeholder", name, name, (), {})
        node.meta["input_source"] = ref.source_name
        node.meta["input_kind"] = ref.kind
        node.meta["example_value"] = ref.fake
        # How the input was at entry; the fake shows what the graph made of it.
        node.meta["symbolic"] = ref.known_fake if isinstance(ref, NumberRef) else ref.layout

    def _record(self, record: Record, live: set[Ref]) -> Node:
        args = map_refs(record.args, self._argument)
        kwargs = map_refs(record.kwargs, self._argument) if record.kwargs else {}
        node = self._node(record.op, self._names.for_operation(record.target), record.target, args, kwargs)
        trace, modules = self._place(record.location)
        self._describe(node, record.result, record, trace, modules)
        items: dict[tuple[int | str, ...], Node] = {(): node}
        for ref in record.outputs:
            if not ref.path or ref.record is not record:
                # The result itself, or an argument returned by an in-place operation: later uses follow the write.
                if record.result is ref:
                    ref.node = node
            elif ref in live:
                ref.node = self._item(items, ref, trace, modules)
        return node

    def _argument(self, value: Ref | Body) -> Node:
        return self._body(value) if isinstance(value, Body) else _node_of(value)

    def _body(self, body: Body) -> Node:
        if body.node is None or body.node.graph is not self.graph:
            name = self._names.unique(body.name)
            self.bodies[name] = body.module
            body.node = self._node("get_attr", name, name, (), {})
            body.node.meta["example_value"] = None
        return body.node

    def _item(
        self, items: dict[tuple[int | str, ...], Node], ref: Ref, trace: str | None, modules: Modules | None
    ) -> Node:
        """The node that takes one value out of a result with several."""
        for length in range(1, len(ref.path) + 1):
            path = ref.path[:length]
            if path not in items:
                whole = items[path[:-1]]
                args = (whole, path[-1])
                node = self._node("call_function", self._names.unique("getitem"), operator.getitem, args, {})
                self._describe(node, ref if length == len(ref.path) else None, ref.record, trace, modules)
                items[path] = node
        return items[ref.path]

    def _keep(self, node: Node) -> None:
        with self.graph.inserting_after(node):
            keep = self.graph.create_node("call_function", KEEP, (True, node), name=self._names.unique("keep"))
        keep.meta["example_value"] = None
        for key in ("stack_trace", "nn_module_stack"):
            if key in node.meta:
                keep.meta[key] = node.meta[key]

    def _describe(
        self,
        node: Node,
        result: Any,
        record: Record | None,
        trace: str | None,
        modules: Modules | None,
    ) -> None:
        meta = node.meta
        meta["example_value"] = map_refs(result, _value)
        if trace is not None:
            meta["stack_trace"] = trace
        if modules:
            meta["nn_module_stack"] = modules
        if record is not None:
            meta["source_fn_stack"] = [(node.name, record.target)]
            if record.bindings and result is record.result:
                meta["unbacked_bindings"] = record.bindings
            if (record.is_random or record.must_run) and result is record.result:
                # Nothing of it is seen but how far the random state moves, or what it raises, unless it writes to what
                # the caller has.
                meta["is_private"] = not any(ref.is_input for storage in record.changed for ref in storage.refs)

    def _place(self, location: Location | str | None) -> tuple[str | None, Modules | None]:
        if location is None or isinstance(location, str):
            return location, None
        known = self._traces.get(id(location))
        if known is None:
            known = self._traces[id(location)] = (location.stack_trace(), location.module_stack())
        return known

    def _node(self, op: str, name: str, target: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Node:
        return append_node(self.graph, op, name, target, args, kwargs)


def append_node(
    graph: Graph, op: str, name: str, target: Any, args: tuple[Any, ...], kwargs: dict[str, Any], type: Any = None
) -> Node:
    """A node at the end of a graph, whose name is known to be free there and whose arguments are known to be good.

    Graph.create_node spends most of its time on finding out both.
    """
    node = Node(graph, name, op, target, args, kwargs, type)
    namespace = graph._graph_namespace
    namespace._used_names.add(name)
    namespace._obj_to_name[node] = name
    graph._insert(node)
    graph._find_nodes_lookup_table.insert(node)
    graph._len += 1
    return node


def alive(records: Sequence[Record], outputs: Sequence[Ref]) -> tuple[list[Record], set[Ref]]:
    """The records that must be in the graph, in order, and the values they use or that are returned."""
    needed: set[Record] = set()
    while True:
        live: set[Ref] = set(outputs)
        kept: list[Record] = []
        dead: list[Record] = []
        for record in reversed(records):
            if has_effect(record) or record in needed or any(ref in live for ref in record.outputs):
                kept.append(record)
                live.update(record.uses)
            elif may_lack_kernel(record):
                record.must_run = True
                kept.append(record)
                live.update(record.uses)
            elif record.changed:
                dead.append(record)
        more = _writes_to_saved(dead, kept)
        if not more:
            kept.reverse()
            return kept, live
        needed |= more


def _writes_to_saved(dead: Sequence[Record], kept: Sequence[Record]) -> set[Record]:
    """The writes that nobody reads, but a backward may raise over: autograd may have saved what they write to."""
    if not dead:
        return set()
    first: dict[int, int] = {}
    for record in kept:
        if any(isinstance(ref, TensorRef) and ref.requires_grad for ref in record.outputs):
            first.update((id(ref), record.index) for ref in (*record.uses, *record.outputs))
    return {record for record in dead if first.get(id(record.result), record.index) < record.index}


def has_effect(record: Record) -> bool:
    """Whether a record matters although nobody uses its result."""
    if record.is_effect or record.is_random or record.must_run:
        return True
    return bool(record.changed) and not is_private_write(record)


def is_private_write(record: Record) -> bool:
    """Whether a record writes only to a tensor of the graph that has no alias, and returns it.

    Whoever reads that tensor later uses this record's result, so the write is an ordinary data dependency.
    """
    if len(record.changed) != 1:
        return False
    refs = record.changed[0].refs
    return len(refs) == 1 and record.result is refs[0] and not refs[0].is_input


def needs_keeping(record: Record, node: Node) -> bool:
    """Whether torch.fx might remove a node that must stay."""
    if node.is_impure() or not (has_effect(record) or record.changed):
        return False
    return not node.users or (bool(record.changed) and has_effect(record))


def _node_of(ref: Ref) -> Node:
    assert ref.node is not None, f"{ref} is used before it is computed"
    return ref.node


def _value(ref: Ref) -> Any:
    return ref.fake if isinstance(ref, TensorRef | NumberRef) else None
