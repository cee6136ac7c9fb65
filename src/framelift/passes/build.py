"""Makes the nodes of a rewrite: each with its metadata, where it came from, and without steps that change nothing."""

from __future__ import annotations

import functools
import operator
from collections.abc import Callable, Sequence
from typing import Any, Protocol

import torch
from torch.fx import Graph, Node
from torch.nn import functional

from framelift.passes import facts, ops
from framelift.passes.analysis.metadata import Metadata
from framelift.passes.facts import Reject
from framelift.passes.report import PassRecord


class Site(Protocol):
    """The graph that nodes are made in."""

    @property
    def graph(self) -> Graph: ...

    @property
    def metadata(self) -> Metadata: ...

    @property
    def record(self) -> PassRecord: ...

    def erase(self, node: Node) -> None:
        """Erases a new node that nobody uses, and what was folded for it."""

    def can_fold(self, weights: Sequence[Node]) -> bool:
        """Whether weights may be put together ahead of time: held by the module, and never changed, says the user."""

    def fold(self, weights: Sequence[Node], steps: Sequence[tuple[Any, ...]], at: Node) -> Node:
        """A node for something computed from frozen weights here and now, kept as a buffer of the module."""


class Builder:
    """Makes nodes at one place of the graph.

    `build.reshape(x, (2, 3))` and its like return x itself where there is nothing to do. What the table below does not
    offer is made by `build.call(torch.cumsum, x, 1)`.
    """

    def __init__(self, work: Site, before: Node, is_differentiable: bool, origins: Sequence[Node]) -> None:
        self.made: list[Node] = []
        self._work = work
        self._before = before
        self._is_differentiable = is_differentiable
        self._origins = [node.name for node in origins]

    def call(self, function: Callable[..., Any], *args: Any, **kwargs: Any) -> Node:
        """A node that calls a function of torch."""
        graph = self._work.graph
        args, kwargs = ops.named(function, args, kwargs)
        with graph.inserting_before(self._before):
            node = graph.create_node("call_function", function, args, kwargs)
        self.made.append(node)
        return self._described(node)

    def method(self, name: str, *args: Any, **kwargs: Any) -> Node:
        """A node that calls a method of its first argument."""
        graph = self._work.graph
        with graph.inserting_before(self._before):
            node = graph.create_node("call_method", name, args, kwargs)
        self.made.append(node)
        return self._described(node)

    def attribute(self, path: str) -> Node:
        """A node that reads a parameter or buffer of the module."""
        with self._work.graph.inserting_before(self._before):
            node = self._work.graph.get_attr(path)
        self.made.append(node)
        self._work.metadata.describe_attribute(node)
        return node

    def _described(self, node: Node) -> Node:
        try:
            found = self._work.metadata.run(node, self._is_differentiable)
        except (RuntimeError, TypeError, ValueError, IndexError) as error:
            raise Reject(f"{node.target} does not take these operands: {error}") from error
        return self._note(node, found)

    def _note(self, node: Node, found: Any) -> Node:
        self._work.metadata.describe(node, found)
        node.meta["framelift_pass"] = self._work.record.name
        node.meta["from"] = self._origins
        return node

    def undo(self) -> None:
        """Takes back what was made, the last first."""
        for node in reversed(self.made):
            self._work.erase(node)
        self.made.clear()

    # -- pieces and joins ------------------------------------------------------------------------------------------

    def narrow(self, x: Node, dim: int, start: int, length: int) -> Node:
        if start == 0 and facts.shape(x)[dim] == length:
            return x
        return self.call(torch.narrow, x, dim, start, length)

    def split(self, x: Node, sections: Sequence[int], dim: int) -> list[Node]:
        """The pieces of x."""
        whole = self.call(torch.split, x, list(sections), dim)
        return [self.item(whole, index) for index in range(len(sections))]

    def unbind(self, x: Node, dim: int) -> list[Node]:
        whole = self.call(torch.unbind, x, dim)
        return [self.item(whole, index) for index in range(facts.shape(x)[dim])]

    def item(self, whole: Node, index: int) -> Node:
        graph = self._work.graph
        with graph.inserting_before(self._before):
            node = graph.create_node("call_function", operator.getitem, (whole, index))
        self.made.append(node)
        return self._note(node, facts.value(whole)[index])

    def cat(self, tensors: Sequence[Node], dim: int) -> Node:
        self._alike(tensors)
        return tensors[0] if len(tensors) == 1 else self.call(torch.cat, list(tensors), dim)

    def stack(self, tensors: Sequence[Node], dim: int) -> Node:
        self._alike(tensors)
        return self.call(torch.stack, list(tensors), dim)

    def _alike(self, tensors: Sequence[Node]) -> None:
        """cat and stack convert what differs, which a rewrite never means."""
        first = facts.tensor(tensors[0])
        if not all(facts.same_kind(first, facts.tensor(other)) for other in tensors[1:]):
            raise Reject("operands differ in dtype or device")

    # -- shapes ----------------------------------------------------------------------------------------------------

    def reshape(self, x: Node, shape: Sequence[int]) -> Node:
        return x if facts.shape(x) == tuple(shape) else self.call(torch.reshape, x, tuple(shape))

    def flatten(self, x: Node, first: int, last: int) -> Node:
        return x if first == last else self.call(torch.flatten, x, first, last)

    def unflatten(self, x: Node, dim: int, sizes: Sequence[int]) -> Node:
        return x if len(sizes) == 1 else self.call(torch.unflatten, x, dim, tuple(sizes))

    def unsqueeze(self, x: Node, dim: int) -> Node:
        return self.call(torch.unsqueeze, x, dim)

    def permute(self, x: Node, dims: Sequence[int]) -> Node:
        return x if list(dims) == sorted(dims) else self.call(torch.permute, x, tuple(dims))

    def move(self, x: Node, source: int, destination: int) -> Node:
        """x with one axis elsewhere and the others in their order."""
        dims = [dim for dim in range(facts.rank(x)) if dim != source]
        dims.insert(destination, source)
        return self.permute(x, dims)

    def swap(self, x: Node) -> Node:
        """x with its last two axes exchanged."""
        rank = facts.rank(x)
        return self.permute(x, [*range(rank - 2), rank - 1, rank - 2])

    # -- values ----------------------------------------------------------------------------------------------------

    def sum(self, terms: Sequence[Node]) -> Node:
        """One term after the other added up."""
        return functools.reduce(lambda total, term: self.call(torch.add, total, term), terms)

    def linear(self, x: Node, weight: Node, bias: Node | None = None) -> Node:
        return (
            self.call(functional.linear, x, weight) if bias is None else self.call(functional.linear, x, weight, bias)
        )

    def pack(self, weights: Sequence[Node], *steps: tuple[Any, ...]) -> Node:
        """Weights put together, by steps such as `(torch.cat, 0)` and `(torch.permute, (1, 0))`.

        Once and for all if the user says they are frozen, otherwise on every call.
        """
        self._alike(weights)
        if not self._work.can_fold(weights):
            return self._packed(weights, steps)
        node = self._work.fold(weights, steps, self._before)
        self.made.append(node)
        return node

    def folds(self, weights: Sequence[Node]) -> bool:
        """Whether `pack` does its work here and now."""
        return self._work.can_fold(weights)

    def _packed(self, weights: Sequence[Node], steps: Sequence[tuple[Any, ...]]) -> Node:
        found: Any = list(weights)
        for function, *args in steps:
            found = self.call(function, found, *args)
        assert isinstance(found, Node)
        return found

    def contiguous(self, x: Node) -> Node:
        return self.method("contiguous", x)

    def copied(self, x: Node) -> Node:
        """A copy of a new value, right behind it."""
        copy = self.clone(x)
        if x in self.made:
            x.append(copy)
        return copy

    def clone(self, x: Node) -> Node:
        """A copy that lies in memory as a new tensor does."""
        tensor = facts.tensor(x)
        if facts.contiguity(tensor) is False:
            return self.contiguous(x)
        # Axes of length one may have any stride, and a plain clone keeps it.
        if facts.same_numbers(tensor.stride(), facts.dense_strides(tensor.shape)):
            return self.call(torch.clone, x)
        return self.call(torch.clone, x, memory_format=torch.contiguous_format)
