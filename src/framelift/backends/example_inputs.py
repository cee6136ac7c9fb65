"""What a backend is given: a graph and its inputs in the form in which torch.compile hands them out.

Tensors are the real ones, and a number that changes from call to call is torch's symbol for it. Two kinds of inputs are
made into what compilers know:

* A float becomes a tensor with one number in it, out of which the graph reads the number: so operations see a number as
  before, and a number has no part in the dtype of a result, which a tensor has. The compiler gives it a symbol of its
  own, about which it can assume nothing.
* A symbolic size becomes an input of its own, in front of the first tensor that has it. Compilers look among the inputs
  for what changes.

Results that the graph writes to by way of views are copies: what AOTAutograd gives for them could not be written to.
And random numbers that are drawn for nobody become results, which whoever runs the graph does not see: AOTAutograd
drops what has no use, while eager mode draws the numbers, so that the next ones are others. So does what may raise
though nobody uses it.

    >>> module = torch.fx.symbolic_trace(lambda x, scale: x * scale)
    >>> given = Given(module, [torch.ones(2), 0.5])
    >>> given.put_floats_in_tensors()
    >>> given.examples, given.adapt(module)(torch.ones(2), 3.0)
    ([tensor([1., 1.]), tensor(0.5000, dtype=torch.float64)], tensor([3., 3.]))
"""

from __future__ import annotations

import functools
import operator
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from traceback import FrameSummary
from typing import Any

import sympy
import torch
from torch._subclasses.fake_tensor import FakeTensor
from torch.fx import Graph, GraphModule, Node

from framelift.graph.emission.emit import KEEP
from framelift.graph.emission.lowering import Lowering, metadata_at_entry

# How a tensor is asked when the graph runs for what a graph asks it.
_ANSWERS: dict[Any, Callable[..., int]] = {
    torch.ops.aten.sym_size.int: torch.Tensor.size,
    torch.ops.aten.sym_stride.int: torch.Tensor.stride,
    torch.ops.aten.sym_storage_offset.default: torch.Tensor.storage_offset,
}
# Questions about the layout of a tensor, as a program asks them.
_METHODS = frozenset({"size", "stride", "numel", "nelement", "storage_offset", "__len__"})
_CLAMPS = frozenset({"clamp", "clip", "clamp_", "clip_", torch.clamp, torch.clip})


@dataclass(frozen=True, slots=True)
class Reason:
    """Why a graph ends where it does: what backends find as `graph_module.compile_subgraph_reason`."""

    reason: str
    # The user's lines, innermost last.
    user_stack: list[FrameSummary]
    graph_break: bool


@dataclass(slots=True)
class Input:
    """An input of the graph that a backend compiles, and how it is read off those of the graph that was captured."""

    node: Node
    example: Any
    read: Callable[[Sequence[Any]], Any]


class Given:
    """A captured graph on its way to a backend."""

    def __init__(self, module: GraphModule, examples: Sequence[Any]) -> None:
        self.module = module
        nodes = module.graph.find_nodes(op="placeholder")
        pairs = zip(nodes, examples, strict=False)
        self._inputs = [Input(node, value, operator.itemgetter(i)) for i, (node, value) in enumerate(pairs)]
        self._is_changed = False
        # How many of the results are the captured graph's, if there are others.
        self._seen: int | None = None

    @property
    def examples(self) -> list[Any]:
        """The inputs it was captured with."""
        return [each.example for each in self._inputs]

    def adapt(self, compiled: Callable[..., Any]) -> Callable[..., Any]:
        """What a backend has made of the graph, as one that takes the inputs of the graph that was captured."""
        if self._seen is not None:
            compiled = functools.partial(_first_results, compiled, self._seen)
        if not self._is_changed:
            return compiled
        return functools.partial(_run, compiled, tuple(each.read for each in self._inputs))

    def put_floats_in_tensors(self) -> None:
        """Have the graph read its floats out of tensors."""
        floats = [each for each in self._inputs if type(each.example) is float]
        if not floats:
            return
        graph = self.module.graph
        _promote_clamped(self.module)
        for each in floats:
            node = each.node
            with graph.inserting_after(self._inputs[-1].node):
                number = graph.call_method("item", (node,))
            node.replace_all_uses_with(number)
            number.args = (node,)
            each.example, each.read = _tensor(each.example), _then(each.read, _tensor)
            number.meta["example_value"] = node.meta.get("example_value")
            node.meta.update(example_value=_fake(self.module, each.example), symbolic=None)
        self._change()

    def keep_unused(self) -> None:
        """Have the graph draw random numbers for nobody, and do what may raise though nobody uses it: an empty tensor
        that is made like it is a result."""
        graph = self.module.graph
        if not any(node.meta.get("is_private") for node in graph.nodes):
            return
        needed = _needed(graph)
        unused = [node for node in graph.nodes if node.meta.get("is_private") and node not in needed]
        tensors = list(filter(None, map(_first_tensor, unused)))
        if not tensors:
            return
        output = graph.output_node()
        with graph.inserting_before(output):
            kept = [graph.call_method("new_empty", (tensor, (0,))) for tensor in tensors]
        (results,) = output.args
        self._seen = len(results)
        output.args = ((*results, *kept),)
        self.module.recompile()

    def copy_written(self) -> None:
        """Have the graph return copies of what it writes to by way of views: AOTAutograd makes such a tensor a view of
        what the write gave, and whoever writes to that view is refused by autograd."""
        output = self.module.graph.output_node()
        (results,) = output.args
        if not any(isinstance(node, Node) and node.meta.get("is_written_as_view") for node in results):
            return
        copies: dict[Any, Node] = {}
        with self.module.graph.inserting_before(output):
            for node in results:
                if isinstance(node, Node) and node.meta.get("is_written_as_view") and node not in copies:
                    copies[node] = self.module.graph.call_method("clone", (node,))
                    copies[node].meta.update(node.meta)
        output.args = (tuple([copies.get(node, node) for node in results]),)
        self.module.recompile()

    def put_sizes_in_front(self) -> None:
        """Have the graph take symbolic sizes beside the tensors that have them."""
        known = {_symbol(each.node.meta.get("symbolic")) for each in self._inputs}
        made: dict[sympy.Symbol, Node] = {}
        inputs: list[Input] = []
        for each in self._inputs:
            for question, (_, *place), number in metadata_at_entry(each.node):
                symbol = _symbol(number)
                if symbol is not None and symbol not in known and symbol not in made:
                    node = made[symbol] = self._number_before(each.node, number)
                    inputs.append(Input(node, number, _then(each.read, _ANSWERS[question], *place)))
            inputs.append(each)
        if made:
            self._inputs = inputs
            self._replace_questions(made)
            self._change()

    def _number_before(self, tensor: Node, number: Any) -> Node:
        """A number as an input in front of a tensor."""
        with self.module.graph.inserting_before(tensor):
            node = self.module.graph.placeholder(str(number))
        node.target = node.name  # which is free
        node.meta.update(example_value=number, symbolic=number, input_source=None, input_kind="number")
        return node

    def _replace_questions(self, made: Mapping[sympy.Symbol, Node]) -> None:
        """Sizes that are inputs are not asked for in the graph, nor is what follows from them: a backend that traces
        the graph with real tensors would hear plain numbers."""
        graph = self.module.graph
        table = Lowering(graph, "the inputs")
        for each in self._inputs:
            table.take_input(each.node)
        for node in list(graph.nodes):
            number = node.meta.get("example_value")
            if node.op == "call_method" and node.target in _METHODS and isinstance(number, torch.SymInt):
                if table.can_compute(number.node.expr):
                    node.replace_all_uses_with(table.node_of(number.node.expr))
                    graph.erase_node(node)
        for node in graph.find_nodes(op="call_function", target=torch.ops.aten.sym_size.int):
            symbol = _symbol(node.meta.get("example_value"))
            if node.args[0].op == "placeholder" and symbol in made:
                node.replace_all_uses_with(made[symbol])
                graph.erase_node(node)

    def _change(self) -> None:
        self._is_changed = True
        self.module.recompile()


def _run(compiled: Callable[..., Any], readers: Sequence[Callable[[Sequence[Any]], Any]], *inputs: Any) -> Any:
    return compiled(*[read(inputs) for read in readers])


def _first_results(compiled: Callable[..., Any], count: int, *inputs: Any) -> Any:
    return compiled(*inputs)[:count]


def _needed(graph: Graph) -> set[Node]:
    """What results are computed from, and what is written; beside what nothing but its own effect keeps."""
    kept = [node.args[1] for node in graph.find_nodes(op="call_function", target=KEEP)]
    waiting = [graph.output_node(), *(node for node in kept if not _is_private(node))]
    needed = set[Node]()
    while waiting:
        node = waiting.pop()
        if node not in needed:
            needed.add(node)
            waiting += node.all_input_nodes
    return needed


def _is_private(node: Any) -> bool:
    return isinstance(node, Node) and bool(node.meta.get("is_private"))


def _first_tensor(node: Node) -> Node | None:
    """A tensor among the results of an operation, or the one that it writes to."""
    value = node.meta.get("example_value")
    while isinstance(value, tuple | list) and value:
        with node.graph.inserting_after(node):
            node = node.graph.call_function(operator.getitem, (node, 0))
        value = node.meta["example_value"] = value[0]
    if value is None and node.target is operator.setitem:
        return node.args[0] if isinstance(node.args[0], Node) else None
    return node if isinstance(value, torch.Tensor) else None


def _then(read: Callable[[Sequence[Any]], Any], function: Callable[..., Any], *args: Any) -> Callable[..., Any]:
    return lambda inputs: function(read(inputs), *args)


def _tensor(number: float) -> torch.Tensor:
    # On the CPU, whatever the default device is: reading it must not wait for an accelerator.
    return torch.scalar_tensor(number, dtype=torch.float64, device="cpu")


def _fake(module: GraphModule, tensor: torch.Tensor) -> torch.Tensor | None:
    """A fake beside those that the graph has of its other tensors."""
    values = (node.meta.get("example_value") for node in module.graph.nodes)
    mode = next((value.fake_mode for value in values if isinstance(value, FakeTensor)), None)
    return None if mode is None else mode.from_tensor(tensor, static_shapes=True)


def _symbol(number: Any) -> sympy.Symbol | None:
    """The symbol that a number is, and nothing else."""
    expression = number.node.expr if isinstance(number, torch.SymInt) else None
    return expression if isinstance(expression, sympy.Symbol) else None


def _promote_clamped(module: GraphModule) -> None:
    """Give integers that are clamped at a float the dtype of the result: Inductor forgets it (torch 2.13)."""
    for node in module.graph.nodes:
        if node.target not in _CLAMPS or not node.args:
            continue
        given, made = [getattr(each.meta.get("example_value"), "dtype", None) for each in (node.args[0], node)]
        if given is not None and made is not None and given != made:
            with module.graph.inserting_before(node):
                promoted = module.graph.call_method("to", (node.args[0], made))
            node.args = (promoted, *node.args[1:])
