"""Inputs that a graph writes to and that share memory with others: compilers take where they lie for a constant.

Guards say that such inputs overlap, not where. What was compiled is called where they lie as they did, and the graph
itself where they do not. Derivatives of such inputs are autograd's: a compiler that writes to one when the graph has
run changes, in the eyes of autograd, what it keeps of the others for the backward.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Any

import torch
from torch.fx import Graph, GraphModule

from framelift.graph.errors import NeedsNumbers
from framelift.graph.propagation.fake import storage_of
from framelift.graph.record import Ref, Storage, TensorRef


class InputStorages:
    """The storages of inputs, by the address of the real ones: several where some inputs in it have symbolic sizes."""

    def __init__(self) -> None:
        self._storages: dict[int, list[Storage]] = {}
        # Where several inputs live that have storages of their own.
        self._crowded: list[list[Storage]] = []

    def of(self, example: torch.Tensor, source_name: str | None, is_symbolic: bool) -> Storage:
        """Where an input lives. Next to one with symbolic sizes each has a storage of its own, as nothing tells where
        in a common one it would begin: that does not matter as long as nobody writes to it."""
        untyped = storage_of(example)
        if untyped is None:
            return Storage()
        found = self._storages.setdefault(untyped._cdata, [])
        apart = bool(found) and (is_symbolic or any(ref.layout is not None for one in found for ref in one.refs))
        if apart and any(one.changes for one in found):
            raise NeedsNumbers([source_name, *_names_in(found)])
        if apart or not found:
            found.append(Storage())
            if len(found) == 2:
                self._crowded.append(found)
            return found[-1]
        return found[0]

    def check_apart(self, changed: Sequence[Storage]) -> None:
        """What is written to memory that inputs have in common is written to all of them: they need numbers."""
        for storages in self._crowded:
            if any(one is storage for one in storages for storage in changed):
                raise NeedsNumbers(_names_in(storages))


def _names_in(storages: Iterable[Storage]) -> list[str | None]:
    """The inputs that live there."""
    return [ref.source_name for storage in storages for ref in storage.refs if ref.is_input]


def as_captured(module: GraphModule) -> GraphModule:
    """The graph as it is before a backend changes it."""
    graph = Graph()
    graph.output(graph.graph_copy(module.graph, {}))
    return GraphModule(module, graph)


def where_inputs_lie_alike(
    compiled: Callable[..., Any], original: Callable[..., Any], inputs: Sequence[Any]
) -> Callable[..., Any]:
    """A graph that was compiled for `inputs`; `original` runs where others share memory in another way."""
    expected = _places(inputs)

    def run(*args: Any) -> Any:
        return (compiled if _places(args) == expected else original)(*args)

    return run


def share_history(written: Sequence[Any], inputs: Sequence[Any]) -> bool:
    """Whether derivatives are asked for, and a tensor that is written to has its memory in common with another."""
    if not torch.is_grad_enabled() or not any(value is not None and value.requires_grad for value in inputs):
        return False
    storages = [(value, value.untyped_storage()._cdata) for value in inputs if _has_storage(value)]
    own = [(value, value.untyped_storage()._cdata) for value in written if _has_storage(value)]
    return any(one is not other and storage == place for one, storage in own for other, place in storages)


def gives_views_of(shared: Sequence[TensorRef], outputs: Sequence[Ref]) -> bool:
    """Whether a result lies in the memory of an input that is written to and has it in common with another.

    AOTAutograd works on one tensor in the place of all inputs in that memory, and makes such results again from the
    inputs as if it had not: from another one, or from another place of it (torch 2.13).
    """
    storages = {id(ref.storage) for ref in shared}
    return any(isinstance(ref, TensorRef) and id(ref.storage) in storages for ref in outputs)


def gives_views_of_written(outputs: Sequence[Ref]) -> bool:
    """Whether a result that autograd may go on from was written to by way of a view, and another lies in its memory.

    AOTAutograd makes the first one a view of what the write gave, to which autograd lets nobody write.
    """
    tensors = {id(ref): ref for ref in outputs if isinstance(ref, TensorRef)}
    return any(
        ref.is_written_as_view and any(other is not ref and id(other) in tensors for other in ref.storage.refs)
        for ref in tensors.values()
    )


def _has_storage(value: Any) -> bool:
    return isinstance(value, torch.Tensor) and torch._C._has_storage(value)


def _places(inputs: Sequence[Any]) -> list[tuple[int, int, int, int]]:
    """Of each tensor that shares its memory: which it is, the first that has it, its place, how much there is."""
    sharing: dict[int, list[int]] = {}
    for index, value in enumerate(inputs):
        if _has_storage(value):
            sharing.setdefault(value.untyped_storage()._cdata, []).append(index)
    return [
        (index, indices[0], inputs[index].storage_offset(), inputs[index].untyped_storage().nbytes())
        for indices in sharing.values()
        if len(indices) > 1
        for index in indices
    ]
