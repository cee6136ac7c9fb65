"""Functions of torch that take functions: `cond`, `vmap`, `checkpoint`. What they run becomes a body."""

from __future__ import annotations

import functools
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any

import torch
from torch._functorch.vmap import vmap_impl
from torch.utils.checkpoint import checkpoint, noop_context_fn

from framelift.breaks import FL0102, FL0102_ARGUMENTS, FL0302, GraphBreak
from framelift.graph import MetadataFailure, TensorRef
from framelift.graph.bodies import Part
from framelift.graph.operations.transformed import mapped, recomputed
from framelift.values.core import protocol as py
from framelift.values.core.base import Value
from framelift.values.core.construct import make_tuple
from framelift.values.core.primitives import primitive
from framelift.values.objects.lifetimes import held
from framelift.values.tensors.tensors import TensorValue
from framelift.values.torch.autograd.functions import later
from framelift.values.torch.pytrees import Tree, flatten

if TYPE_CHECKING:
    from framelift.values.core.tracer import Tracer


class Traced:
    """A function traced on some arguments, cut out of the graph: the part, and what it returned.

    That is tensors in containers, and constants besides where `constants` says so.
    """

    def __init__(
        self,
        tracer: Tracer,
        function: Any,
        args: list[Any],
        kwargs: dict[str, Any],
        what: str,
        constants: bool = False,
    ) -> None:
        mark, questions = tracer.graph.mark(), tracer.graph.layout_questions
        modes, before = tracer.modes.state(), held(tracer)
        with later(tracer) as journal:
            output = py.call(tracer, function, args, kwargs)
            self._leaves, self.tree = flatten(tracer, output)
            leaves = [leaf for leaf in self._leaves if isinstance(leaf, Value) or not constants]
            if journal.leaves_traces or journal.changes(before) or tracer.modes.state() != modes:
                raise GraphBreak(FL0102, what=f"{what} of a function that does more than compute")
            if not leaves or not all(isinstance(leaf, TensorValue) for leaf in leaves):
                raise GraphBreak(FL0102, what=f"{what} of a function that returns something else than tensors")
            self.outputs: list[TensorRef] = [leaf.ref(tracer) for leaf in leaves]
        self.asks_layout = tracer.graph.layout_questions > questions
        try:
            self.part: Part = tracer.graph.cut(mark)
        except MetadataFailure as failure:
            raise GraphBreak(FL0302, op=what, error=failure.reason) from failure

    def result(self, tracer: Tracer, made: Sequence[Any]) -> Any:
        """New values in the shape of what the function returned, with the constants among it."""
        rest = iter(made)
        return self.tree.build(tracer, [next(rest) if isinstance(leaf, Value) else leaf for leaf in self._leaves])


def without(refs: Sequence[Any], others: Sequence[Any]) -> list[Any]:
    return [ref for ref in refs if not any(ref is other for other in others)]


# vmap ----------------------------------------------------------------------------------------------------------------


@primitive(torch.vmap)
def _vmap(
    tracer: Tracer, func: Any, in_dims: Any = 0, out_dims: Any = 0, randomness: Any = "error", *, chunk_size: Any = None
) -> Any:
    run = tracer.known_object(vmap_impl)
    partial = tracer.known_object(functools.partial)
    return py.call(tracer, partial, [run, func, in_dims, out_dims, randomness, chunk_size], {})


@primitive(vmap_impl)
def _map(
    tracer: Tracer,
    func: Any,
    in_dims: Any,
    out_dims: Any,
    randomness: Any,
    chunk_size: Any,
    *args: Any,
    **kwargs: Any,
) -> Any:
    leaves, tree = flatten(tracer, make_tuple(args))
    dims = _per_leaf(tracer, in_dims, tree, "in_dims")
    chosen = [(leaf, dim) for leaf, dim in zip(leaves, dims, strict=True) if dim is not None]
    if not chosen or not all(isinstance(leaf, TensorValue) for leaf, _ in chosen):
        raise GraphBreak(FL0102, what="torch.vmap over other arguments than tensors")
    given = [leaf.ref(tracer) for leaf, _ in chosen]
    slices = [_slice_of(tracer, leaf.ref(tracer), dim) for leaf, dim in chosen]
    rest = iter(slices)
    inside = [leaf if dim is None else tracer.from_graph(next(rest)) for leaf, dim in zip(leaves, dims, strict=True)]
    with tracer.modes.transformed("mapped"):
        traced = Traced(tracer, func, py.items(tracer, tree.build(tracer, inside)), kwargs, "torch.vmap")
    if traced.asks_layout:
        raise GraphBreak(FL0102, what="torch.vmap of a function that asks how tensors lie in memory")
    extra = without(traced.part.free(traced.outputs), slices)
    is_single = traced.tree.is_leaf and tracer.type_of(out_dims) is tuple
    out = _per_leaf(tracer, out_dims, Tree(tuple, (), [traced.tree]) if is_single else traced.tree, "out_dims")
    body = tracer.graph.body("mapped_body", traced.part, [*slices, *extra], traced.outputs, is_final=True)
    in_chunks = tracer.constant(chunk_size)
    plan = ((*[dim for _, dim in chosen], *[None] * len(extra)), tuple(out), tracer.constant(randomness), in_chunks)
    made = tracer.call_on_bodies(mapped, (body, *plan, *given, *extra), True)
    return traced.result(tracer, py.items(tracer, made))


def _per_leaf(tracer: Tracer, dims: Any, tree: Tree, what: str) -> list[int | None]:
    """A dimension for each leaf of a tree: one says it for all in a container."""
    leaves, given = flatten(tracer, dims)
    rest = iter([tracer.constant(leaf) for leaf in leaves])
    found = list(_spread(given, tree, rest, what))
    if not all(dim is None or type(dim) is int for dim in found):
        raise GraphBreak(FL0102, what=f"torch.vmap with these {what}")
    return found


def _spread(given: Tree, tree: Tree, dims: Iterator[Any], what: str) -> Iterator[Any]:
    if given.is_leaf:
        yield from [next(dims)] * tree.count
    elif (given.kind, given.keys, len(given.parts)) != (tree.kind, tree.keys, len(tree.parts)):
        raise GraphBreak(FL0102, what=f"torch.vmap with these {what}")
    else:
        for mine, part in zip(given.parts, tree.parts, strict=True):
            yield from _spread(mine, part, dims, what)


def _slice_of(tracer: Tracer, ref: TensorRef, dim: int) -> TensorRef:
    sizes = list(ref.descriptor.shape)
    if not -len(sizes) <= dim < len(sizes):
        raise GraphBreak(FL0102, what="torch.vmap over a dimension that is not there")
    del sizes[dim]
    return tracer.graph.placeholder(ref, sizes, ref.requires_grad and torch.is_grad_enabled())


# checkpoint ----------------------------------------------------------------------------------------------------------


@primitive(checkpoint)
def _checkpoint(
    tracer: Tracer,
    function: Any,
    *args: Any,
    use_reentrant: Any = None,
    context_fn: Any = None,
    determinism_check: Any = "default",
    debug: Any = False,
    early_stop: Any = True,
    preserve_rng_state: Any = True,
    **kwargs: Any,
) -> Any:
    plain = context_fn is None or py.same(tracer, context_fn, tracer.known_object(noop_context_fn))
    reentrant = tracer.constant(use_reentrant)
    if type(reentrant) is not bool or not plain or py.truth(tracer, debug):
        raise GraphBreak(FL0102_ARGUMENTS, what="torch.utils.checkpoint")
    if reentrant and (torch.is_grad_enabled() or kwargs or not any(_requires_grad(tracer, arg) for arg in args)):
        # Its backward is one of its own, which adds to gradients as it goes; without gradients it warns.
        raise GraphBreak(FL0102, what="torch.utils.checkpoint of the reentrant kind")
    if not torch.is_grad_enabled():
        output = py.call(tracer, function, list(args), kwargs)
        if reentrant and any(leaf is arg for leaf in flatten(tracer, output)[0] for arg in args):
            raise GraphBreak(FL0102, what="torch.utils.checkpoint of a function that returns its argument")
        return output
    traced = Traced(tracer, function, list(args), kwargs, "torch.utils.checkpoint", constants=True)
    keeps_numbers = bool(tracer.constant(preserve_rng_state))
    if tracer.modes.compiled and traced.part.is_random() and not keeps_numbers:  # compilers do not draw once more
        raise GraphBreak(FL0102, what="torch.utils.checkpoint with other random numbers each time")
    given = traced.part.free(traced.outputs)
    body = tracer.graph.body("recomputed_body", traced.part, given, traced.outputs)
    leaves, _ = flatten(tracer, make_tuple([*args, *kwargs.values()]))
    own = [leaf.ref(tracer) for leaf in leaves if isinstance(leaf, TensorValue)]
    places = tuple([place for place, ref in enumerate(given) if any(ref is each for each in own)])
    plan = (keeps_numbers, traced.part.is_random(), places)
    made = tracer.call_on_bodies(recomputed, (body, *plan, *given), traced.part.may_raise())
    return traced.result(tracer, py.items(tracer, made))


def _requires_grad(tracer: Tracer, value: Any) -> bool:
    return isinstance(value, TensorValue) and bool(py.attribute(tracer, value, "requires_grad"))
