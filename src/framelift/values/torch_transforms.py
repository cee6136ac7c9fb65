"""Functions of torch that take functions: `cond`, `vmap`, `grad`, `checkpoint`. What they run becomes a body."""

from __future__ import annotations

import functools
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import torch
from torch._functorch import eager_transforms, vmap
from torch.utils.checkpoint import checkpoint, noop_context_fn

from framelift.breaks import FL0102, FL0302, GraphBreak
from framelift.graph import MetadataFailure, TensorRef
from framelift.graph.bodies import Part
from framelift.graph.transformed import gradient, mapped, recomputed
from framelift.values import protocol as py
from framelift.values.primitives import primitive
from framelift.values.sequences import ListValue
from framelift.values.tensors import TensorValue
from framelift.values.torch_autograd import later

if TYPE_CHECKING:
    from framelift.capture.lift import Lift


class _Traced:
    """A function traced on some arguments, cut out of the graph: the part, and what it returned."""

    def __init__(self, lift: Lift, function: Any, args: list[Any], kwargs: dict[str, Any], what: str) -> None:
        mark, questions = lift.graph.mark(), lift.graph.layout_questions
        modes = lift.modes.state()
        with later(lift) as journal:
            self.output = py.call(lift, function, args, kwargs)
            kind = lift.type_of(self.output)
            self.is_tuple = kind is tuple or kind is list
            values = py.items(lift, self.output) if self.is_tuple else [self.output]
            if journal.changed or lift.modes.state() != modes:
                raise GraphBreak(FL0102, what=f"{what} of a function that does more than compute")
            if not values or not all(isinstance(value, TensorValue) for value in values):
                raise GraphBreak(FL0102, what=f"{what} of a function that returns something else than tensors")
            self.outputs: list[TensorRef] = [value.ref(lift) for value in values]
        self.kind = lift.type_of(self.output)
        self.asks_layout = lift.graph.layout_questions > questions
        try:
            self.part: Part = lift.graph.cut(mark)
        except MetadataFailure as failure:
            raise GraphBreak(FL0302, op=what, error=failure.reason) from failure

    def result(self, lift: Lift, made: Sequence[Any]) -> Any:
        """New values in the shape of what the function returned."""
        if not self.is_tuple:
            return made[0]
        return lift.tuple(made) if self.kind is tuple else ListValue(list(made))


def _tensors(lift: Lift, args: Sequence[Any], what: str) -> list[TensorRef]:
    if not args or not all(isinstance(arg, TensorValue) for arg in args):
        raise GraphBreak(FL0102, what=f"{what} with other arguments than tensors")
    return [arg.ref(lift) for arg in args]


def _without(refs: Sequence[Any], others: Sequence[Any]) -> list[Any]:
    return [ref for ref in refs if not any(ref is other for other in others)]


# cond ----------------------------------------------------------------------------------------------------------------


@primitive(torch.cond)
def _cond(lift: Lift, pred: Any, true_fn: Any, false_fn: Any, operands: Any = ()) -> Any:
    args = py.items(lift, operands)
    if not isinstance(pred, TensorValue):
        return py.call(lift, true_fn if py.truth(lift, pred) else false_fn, args, {})
    branches = [_Traced(lift, function, args, {}, "torch.cond") for function in (true_fn, false_fn)]
    free: dict[int, Any] = {}
    for branch in branches:
        free.update((id(ref), ref) for ref in branch.part.free(branch.outputs))
    given = list(free.values())
    if len(branches[0].outputs) != len(branches[1].outputs) or branches[0].kind is not branches[1].kind:
        raise GraphBreak(FL0102, what="torch.cond with branches that return different things")
    bodies = [
        lift.graph.body(name, branch.part, given, branch.outputs)
        for name, branch in zip(("true_body", "false_body"), branches, strict=True)
    ]
    raises = any(branch.part.may_raise() for branch in branches)
    made = lift.call_on_bodies(torch.ops.higher_order.cond, (pred.ref(lift), *bodies, tuple(given)), raises)
    return branches[0].result(lift, py.items(lift, made))


# vmap ----------------------------------------------------------------------------------------------------------------


@primitive(torch.vmap)
def _vmap(
    lift: Lift, func: Any, in_dims: Any = 0, out_dims: Any = 0, randomness: Any = "error", *, chunk_size: Any = None
) -> Any:
    run = lift.known_object(vmap.vmap_impl)
    partial = lift.known_object(functools.partial)
    return py.call(lift, partial, [run, func, in_dims, out_dims, randomness, chunk_size], {})


@primitive(vmap.vmap_impl)
def _map(lift: Lift, func: Any, in_dims: Any, out_dims: Any, randomness: Any, chunk_size: Any, *args: Any) -> Any:
    if not py.same(lift, chunk_size, None):
        raise GraphBreak(FL0102, what="torch.vmap in chunks")
    given = _tensors(lift, args, "torch.vmap")
    dims = _per_item(lift, in_dims, len(given), "in_dims")
    if all(dim is None for dim in dims):
        raise GraphBreak(FL0102, what="torch.vmap over nothing")
    slices = [ref if dim is None else _slice_of(lift, ref, dim) for ref, dim in zip(given, dims, strict=True)]
    traced = _Traced(lift, func, [lift.from_graph(ref) for ref in slices], {}, "torch.vmap")
    if traced.asks_layout:
        raise GraphBreak(FL0102, what="torch.vmap of a function that asks how tensors lie in memory")
    extra = _without(traced.part.free(traced.outputs), slices)
    out = _per_item(lift, out_dims, len(traced.outputs), "out_dims")
    body = lift.graph.body("mapped_body", traced.part, [*slices, *extra], traced.outputs)
    dims = [*dims, *[None] * len(extra)]
    plan = (tuple(dims), tuple(out), lift.constant(randomness))
    made = lift.call_on_bodies(mapped, (body, *plan, *given, *extra), True)
    return traced.result(lift, py.items(lift, made))


def _per_item(lift: Lift, dims: Any, count: int, what: str) -> list[int | None]:
    """One dimension for each tensor."""
    if lift.type_of(dims) is tuple:
        found = [lift.constant(dim) for dim in py.items(lift, dims)]
    else:
        found = [lift.constant(dims)] * count
    if len(found) != count or not all(dim is None or type(dim) is int for dim in found):
        raise GraphBreak(FL0102, what=f"torch.vmap with these {what}")
    return found


def _slice_of(lift: Lift, ref: TensorRef, dim: int) -> TensorRef:
    sizes = list(ref.descriptor.shape)
    if not -len(sizes) <= dim < len(sizes):
        raise GraphBreak(FL0102, what="torch.vmap over a dimension that is not there")
    del sizes[dim]
    return lift.graph.placeholder(ref, sizes)


# grad ----------------------------------------------------------------------------------------------------------------


@primitive(eager_transforms.grad_impl)
def _grad(lift: Lift, func: Any, argnums: Any, has_aux: Any, args: Any, kwargs: Any) -> Any:
    gradients, aux, _ = _differentiate(lift, func, argnums, has_aux, args, kwargs)
    return gradients if aux is None else lift.tuple([gradients, aux])


@primitive(eager_transforms.grad_and_value_impl)
def _grad_and_value(lift: Lift, func: Any, argnums: Any, has_aux: Any, args: Any, kwargs: Any) -> Any:
    gradients, aux, value = _differentiate(lift, func, argnums, has_aux, args, kwargs)
    return lift.tuple([gradients, value if aux is None else lift.tuple([value, aux])])


def _differentiate(lift: Lift, func: Any, argnums: Any, has_aux: Any, args: Any, kwargs: Any) -> tuple[Any, Any, Any]:
    """The gradients in the shape of `argnums`, what else the function returned, and its value."""
    what = "torch.func.grad"
    if py.length(lift, kwargs) or py.truth(lift, has_aux):
        raise GraphBreak(FL0102, what=f"{what} with keywords or results besides the one to differentiate")
    given = _tensors(lift, py.items(lift, args), what)
    wanted = lift.constant(argnums)
    numbers = wanted if type(wanted) is tuple else (wanted,)
    if not all(type(number) is int and 0 <= number < len(given) for number in numbers):
        raise GraphBreak(FL0102, what=f"{what} with these argnums")
    inside = [lift.graph.placeholder(ref, list(ref.descriptor.shape)) for ref in given]
    with torch.enable_grad():
        traced = _Traced(lift, func, [lift.from_graph(ref) for ref in inside], {}, what)
    if traced.asks_layout or traced.is_tuple or len(traced.outputs[0].descriptor.shape):
        raise GraphBreak(FL0102, what=f"{what} of a function that does not just return one number")
    extra = _without(traced.part.free(traced.outputs), inside)
    body = lift.graph.body("differentiated_body", traced.part, [*inside, *extra], traced.outputs)
    made = lift.call_on_bodies(gradient, (body, numbers, True, *given, *extra), traced.part.may_raise())
    results = py.items(lift, made)
    gradients = results[: len(numbers)]
    return (lift.tuple(gradients) if type(wanted) is tuple else gradients[0]), None, results[len(numbers)]


# checkpoint ----------------------------------------------------------------------------------------------------------


@primitive(checkpoint)
def _checkpoint(
    lift: Lift,
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
    plain = context_fn is None or py.same(lift, context_fn, lift.known_object(noop_context_fn))
    if lift.constant(use_reentrant) is not False or not plain or py.truth(lift, debug):
        raise GraphBreak(FL0102, what="torch.utils.checkpoint with these arguments")
    if not torch.is_grad_enabled():
        return py.call(lift, function, list(args), kwargs)
    traced = _Traced(lift, function, list(args), kwargs, "torch.utils.checkpoint")
    given = traced.part.free(traced.outputs)
    body = lift.graph.body("recomputed_body", traced.part, given, traced.outputs)
    plan = (bool(lift.constant(preserve_rng_state)), traced.part.is_random())
    made = lift.call_on_bodies(recomputed, (body, *plan, *given), traced.part.may_raise())
    return traced.result(lift, py.items(lift, made))
