"""Which inputs the results of a graph depend on, as autograd sees it, and gradients for these alone.

What AOTAutograd makes of a graph is one node of autograd with all inputs of the graph behind it. Where backward comes
from some of the results, inputs that only the others depend on get gradients of zeros from it, with which an optimizer
decays weights and moves on. In eager mode backward does not come by, and they get none: as here.

Graphs whose results all depend on the same inputs are called as they are.
"""

from __future__ import annotations

import functools
import weakref
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch.autograd.function import BackwardCFunction
from torch.utils.hooks import RemovableHandle

from framelift.graph.metadata import Descriptor
from framelift.graph.record import Record, Ref, TensorRef

Masks = dict[int, int]
Edge = tuple[Any, int]
Gradients = tuple[torch.Tensor | None, ...]

# What AOTAutograd calls its nodes.
_COMPILED = "CompiledFunctionBackward"
# Under what our hook of a node stands among those of the program, which have numbers.
_OURS = "framelift"


def reached_inputs(
    records: Iterable[Record],
    inputs: Sequence[Ref],
    results: Iterable[Ref],
    changes: Iterable[tuple[TensorRef, Descriptor]] = (),
) -> Masks:
    """For each result that autograd knows, the inputs it may depend on, as bits; by the result's id.

    Never too few: what is written to memory counts for all tensors in it. `changes` are those of metadata, oldest
    first: tensors and what they were before.
    """
    made: dict[int, Descriptor] = {}
    for ref, was in changes:
        made.setdefault(id(ref), was)

    def was_known(ref: TensorRef) -> bool:
        return made.get(id(ref), ref.descriptor).requires_grad

    def is_known(ref: Ref) -> bool:
        return isinstance(ref, TensorRef) and (ref.requires_grad or was_known(ref))

    own = {id(ref): 1 << place for place, ref in enumerate(inputs) if is_known(ref)}
    written: Masks = {}

    def of(ref: TensorRef) -> int:
        return own.get(id(ref), 0) | written.get(id(ref.storage), 0)

    for record in records:
        mask = functools.reduce(int.__or__, map(of, record.tensors), 0)
        made_here = [ref for ref in record.outputs if isinstance(ref, TensorRef) and ref.record is record]
        own.update((id(ref), mask) for ref in made_here if was_known(ref))
        for storage in record.writes:
            if any(map(is_known, storage.refs)):
                written[id(storage)] = written.get(id(storage), 0) | mask
    return {id(ref): of(ref) for ref in results if isinstance(ref, TensorRef) and ref.requires_grad}


def only_reached(
    compiled: Callable[..., Any],
    records: Sequence[Record],
    inputs: Sequence[Ref],
    results: Sequence[Ref],
    changes: Iterable[tuple[TensorRef, Descriptor]],
) -> Callable[..., Any]:
    """A compiled graph whose results send gradients to the inputs they depend on and to no others."""
    written = [ref for ref in inputs if isinstance(ref, TensorRef) and ref.storage.is_written]
    differentiable = [ref for ref in (*results, *written) if isinstance(ref, TensorRef) and not _is_of_input(ref)]
    if sum(ref.requires_grad for ref in differentiable) < 2:
        return compiled
    masks = reached_inputs(records, inputs, differentiable, changes)
    if len(set(masks.values())) < 2:
        return compiled
    of_results = [masks.get(id(ref), 0) for ref in results]
    of_written = {inputs.index(ref): masks[id(ref)] for ref in written if id(ref) in masks}
    return _OnlyReached(compiled, of_results, of_written)


def _is_of_input(ref: TensorRef) -> bool:
    """Whether a result lies in an input as it came: compilers make it again from the input."""
    return not ref.storage.is_written and any(other.is_input for other in ref.storage.refs)


class _OnlyReached:
    """Calls a compiled graph, and has the node of autograd that it makes forget gradients nobody asked for."""

    def __init__(self, compiled: Callable[..., Any], results: Sequence[int], written: dict[int, int]) -> None:
        self._compiled = compiled
        # The masks of results, and of the inputs that are written to, by their places.
        self._results = results
        self._written = written
        self._plan: _Plan | None = None
        self._is_unknown = False  # it makes no node, or more than one

    def __call__(self, *args: Any) -> Any:
        if self._is_unknown:
            return self._compiled(*args)
        # The places of inputs and results among those of the node are the same in all calls.
        before = [_edge(value) for value in args] if self._plan is None else None
        results = self._compiled(*args)
        given = [*results, *(args[place] for place in self._written)]
        if before is not None:
            self._plan = _plan(before, given, [*self._results, *self._written.values()])
            self._is_unknown = self._plan is None
        if self._plan is not None:
            self._plan.attach(given, args)
        return results


@dataclass(frozen=True, slots=True)
class _Plan:
    """Where the inputs and results of a graph are found at its node of autograd."""

    # The class of the node, which is this graph's own, and the way to it: a result, and edges from its node on.
    kind: Any
    start: int
    way: tuple[int, ...]
    # What each result of the node depends on: bits of its inputs' places. Others may depend on all.
    reached: Masks
    # Its inputs, and where they are among those of the graph; only those that some result does not depend on.
    inputs: Masks

    def attach(self, given: Sequence[Any], args: Sequence[Any]) -> None:
        """Watch over the node that was just made."""
        node = functools.reduce(_next, self.way, given[self.start].grad_fn)
        if type(node) is self.kind:
            upstream = node.next_functions
            behind = {place: (upstream[place][0], weakref.ref(args[one])) for place, one in self.inputs.items()}
            _hook(node, functools.partial(_forget_unreached, self.reached, behind))


def _next(node: Any, place: int) -> Any:
    return None if node is None else node.next_functions[place][0]


def _plan(before: Sequence[Edge | None], given: Sequence[Any], masks: Sequence[int]) -> _Plan | None:
    """Finds the node that a call has made behind what it gave; None if there is not just one."""
    known = {edge[0] for edge in before if edge is not None}
    found: dict[Any, tuple[int, tuple[int, ...]]] = {}
    reached: Masks = {}
    for start, (value, mask) in enumerate(zip(given, masks, strict=True)):
        for node, number, way in _compiled_nodes(_edge(value), known):
            found.setdefault(node, (start, way))
            reached[number] = reached.get(number, 0) | mask
    if len(found) != 1:
        return None
    [(node, (start, way))] = found.items()
    places = {edge: place for place, edge in enumerate(before) if edge is not None}
    inputs = {i: places[edge] for i, edge in enumerate(node.next_functions) if edge in places}
    at_node = {
        number: functools.reduce(int.__or__, (1 << i for i, place in inputs.items() if mask >> place & 1), 0)
        for number, mask in reached.items()
    }
    common = functools.reduce(int.__and__, at_node.values())
    partly = {i: place for i, place in inputs.items() if not common >> i & 1}
    return _Plan(type(node), start, way, at_node, partly) if partly else None


def _edge(value: Any) -> Edge | None:
    """Where autograd goes on from a tensor."""
    if not isinstance(value, torch.Tensor) or not value.requires_grad:
        return None
    return tuple(torch.autograd.graph.get_gradient_edge(value)[:2])


def _compiled_nodes(edge: Edge | None, known: set[Any]) -> Iterator[tuple[Any, int, tuple[int, ...]]]:
    """The nodes that compilers made behind a result, with the number of their result; none behind known ones."""
    queue: list[tuple[Any, int, tuple[int, ...]]] = [] if edge is None else [(*edge, ())]
    seen: set[Edge] = set()
    while queue:
        node, number, way = queue.pop()
        if node in known or (node, number) in seen:
            continue
        seen.add((node, number))
        if type(node).__name__ == _COMPILED:
            yield node, number, way
        else:
            queue.extend((*edge, (*way, i)) for i, edge in enumerate(node.next_functions) if edge[0] is not None)


def _forget_unreached(
    reached: Masks, behind: dict[int, tuple[Any, Any]], gradients: Gradients, arriving: Gradients
) -> Gradients | None:
    """The gradients of a node's inputs as autograd makes them: none where no arriving gradient leads."""
    mask = 0
    for number, gradient in enumerate(arriving):
        if gradient is not None:
            mask |= reached.get(number, -1)
    left_out = [i for i in behind if not mask >> i & 1]
    if not left_out:
        return None
    for i in left_out:
        node, reference = behind[i]
        _spare_hooks(reference())
        _pass_nothing_on(node)
    return tuple(None if i in left_out else gradient for i, gradient in enumerate(gradients))


def _spare_hooks(tensor: torch.Tensor | None) -> None:
    """Autograd calls the hooks of a tensor also where it has no gradient for it, since it comes by."""
    hooks: dict[Any, Any] = (None if tensor is None else tensor._backward_hooks) or {}
    for key, hook in hooks.items():
        if not isinstance(hook, _WithGradient):
            hooks[key] = _WithGradient(hook)


class _WithGradient:
    """A hook of a tensor that is called when there is a gradient."""

    def __init__(self, hook: Callable[..., Any]) -> None:
        self._hook = hook

    def __call__(self, gradient: torch.Tensor | None) -> Any:
        return None if gradient is None else self._hook(gradient)


def _pass_nothing_on(start: Any) -> None:
    """Functions in Python are given zeros for gradients that are missing: of nothing but zeros they make nothing."""
    queue = [start]
    seen: set[Any] = set()
    while queue:
        node = queue.pop()
        if node in seen:
            continue
        seen.add(node)
        if isinstance(node, BackwardCFunction):
            if not getattr(node, _OURS, False):
                setattr(node, _OURS, True)
                _hook(node, functools.partial(_nothing_of_nothing, node.next_functions))
        else:
            _spare_hooks(getattr(node, "variable", None))
            queue.extend(each for each, _ in node.next_functions if each is not None)


def _nothing_of_nothing(upstream: Sequence[Edge], gradients: Gradients, arriving: Gradients) -> Gradients | None:
    if any(gradient is not None for gradient in arriving):
        return None
    for node, _ in upstream:
        if node is not None:
            _pass_nothing_on(node)
    return (None,) * len(gradients)


def _hook(node: Any, hook: Callable[[Gradients, Gradients], Gradients | None]) -> None:
    """Adds a hook to a node and leaves the numbers of hooks to the program."""
    handle = node.register_hook(hook)
    hooks = handle.hooks_dict_ref()
    hooks[(_OURS, len(hooks))] = hooks.pop(handle.id)
    if RemovableHandle.next_id == handle.id + 1:
        RemovableHandle.next_id = handle.id
