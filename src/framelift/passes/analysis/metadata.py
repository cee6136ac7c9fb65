"""The fake tensors on the nodes: filled in where a graph has none, made for new nodes, carried on where they change."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import chain
from typing import Any

import torch
from torch._subclasses.fake_tensor import FakeTensor, FakeTensorMode
from torch.func import functional_call
from torch.fx import Graph, GraphModule, Node
from torch.fx.node import map_arg
from torch.utils._pytree import tree_map_only

from framelift.errors import FrameliftError
from framelift.graph.propagation.fake import Fakes
from framelift.passes.analysis.effects import traits
from framelift.passes.facts import KEYS, is_described, tensors_in, value
from framelift.silence import silence

CALLS = ("call_function", "call_method", "call_module")
# How buffers begin that hold what was computed from frozen weights.
FOLDED = "folded_"


class MetadataError(FrameliftError):
    """A graph has no metadata and none can be made for it."""


class Metadata:
    """Runs calls on the fake tensors of a graph."""

    def __init__(self, module: GraphModule, example_inputs: Sequence[Any] = ()) -> None:
        self.module = module
        self.example_inputs = example_inputs
        self.key = _key(module.graph)
        self.mode = _mode(module.graph, example_inputs)
        if not all(is_described(node) for node in module.graph.nodes if node.op != "output"):
            self._describe_all(example_inputs)

    def run(self, node: Node, is_differentiable: bool) -> Any:
        """What a call computes on the fake tensors of its operands."""
        args, kwargs = map_arg((node.args, node.kwargs), value)
        with silence(), self.mode, torch.set_grad_enabled(is_differentiable):
            return self._call(node, args, kwargs)

    def evaluate(self, node: Node, args: tuple[Any, ...], kwargs: dict[str, Any], is_differentiable: bool) -> Any:
        """What a call computes on given values; None if it does not take them."""
        try:
            with silence(), self.mode, torch.set_grad_enabled(is_differentiable):
                return self._call(node, args, kwargs)
        except (RuntimeError, TypeError, ValueError, IndexError):
            return None

    def copied(self, found: Any) -> Any:
        """A fake tensor, or a list of them, again in memory of its own."""
        with silence(), self.mode, torch.enable_grad():
            return tree_map_only(torch.Tensor, torch.clone, found)

    def describe(self, node: Node, found: Any) -> None:
        node.meta[self.key] = found

    def _call(self, node: Node, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        if node.op == "call_method":
            return getattr(args[0], str(node.target))(*args[1:], **kwargs)
        if node.op == "call_module":
            return self._call_module(str(node.target), args, kwargs)
        return node.target(*args, **kwargs)

    def _call_module(self, path: str, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        """A module's call with fake tensors in the place of what it holds."""
        module = self.module.get_submodule(path)
        held = {**dict(module.named_parameters()), **dict(module.named_buffers())}
        return functional_call(module, {name: self._fake(each) for name, each in held.items()}, args, kwargs)

    def attribute(self, path: str) -> Any:
        """The real value of an attribute of the module."""
        return _attribute(self.module, path)

    def describe_attribute(self, node: Node) -> None:
        self.describe(node, self._fake(self.attribute(str(node.target))))

    def _describe_all(self, example_inputs: Sequence[Any]) -> None:
        """Fills in every node, from the inputs on; where all inputs are described, what is missing."""
        placeholders = self.module.graph.find_nodes(op="placeholder")
        is_anew = not all(map(is_described, placeholders))
        if is_anew:
            self._describe_inputs(placeholders, example_inputs)
        for node in self.module.graph.nodes:
            if is_described(node) and not is_anew:
                continue
            if node.op == "get_attr":
                self.describe_attribute(node)
            elif node.op in CALLS:
                self.describe_call(node, torch.is_grad_enabled())

    def _describe_inputs(self, placeholders: Sequence[Node], example_inputs: Sequence[Any]) -> None:
        if len(placeholders) != len(example_inputs):
            raise MetadataError(
                f"the graph has no metadata, and to make it {len(placeholders)} example inputs are needed, "
                f"not {len(example_inputs)}"
            )
        for node, example in zip(placeholders, example_inputs, strict=True):
            self.describe(node, self._fake(example))

    def describe_call(self, node: Node, is_differentiable: bool) -> None:
        if traits(node).is_mode:
            self.describe(node, None)
            return
        try:
            self.describe(node, self.run(node, is_differentiable))
        except (RuntimeError, TypeError, ValueError, NotImplementedError, AttributeError, IndexError) as error:
            raise MetadataError(f"the metadata of {node.name} ({node.target}) cannot be made: {error}") from error

    def _fake(self, example: Any) -> Any:
        if isinstance(example, torch.Tensor) and not isinstance(example, FakeTensor):
            return self.mode.from_tensor(example, static_shapes=True)
        return example


def _key(graph: Graph) -> str:
    """Where this graph keeps its metadata."""
    for node in graph.nodes:
        for key in KEYS:
            if key in node.meta:
                return key
    return KEYS[0]


def _mode(graph: Graph, example_inputs: Sequence[Any]) -> FakeTensorMode:
    """The mode of the fake tensors that are there, or a new one."""
    for found in chain(map(value, graph.nodes), example_inputs):
        for tensor in tensors_in(found):
            if isinstance(tensor, FakeTensor):
                return tensor.fake_mode
    return Fakes().mode


def _attribute(module: torch.nn.Module, path: str) -> Any:
    found: Any = module
    for name in path.split("."):
        found = getattr(found, name)
    return found
