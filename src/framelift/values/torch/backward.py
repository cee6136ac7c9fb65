"""`backward()` and `torch.autograd.grad`: operations of the graph that ask autograd for derivatives.

What `backward()` does to `grad` of the leaves is an assignment like any other: autograd adds up in the graph, and
residual code assigns afterwards. What else would run or hear of it, such as a hook, is left to Python.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, TypeVar

import torch
from torch._C import _are_functorch_transforms_active
from torch.utils.hooks import RemovableHandle

from framelift.breaks import FL0102, FL0302, GraphBreak
from framelift.graph import MetadataFailure, TensorRef, TokenRef
from framelift.graph.operations.derivatives import (
    HOOKS_OF_LEAVES,
    accumulated_gradients,
    gradients,
    has_hooks_at_node,
    hook_gradient,
    remove_hook,
    retain_gradient,
    told_of_gradient,
)
from framelift.models import backward as model
from framelift.values.core import protocol as py
from framelift.values.core.base import Raised, Value
from framelift.values.core.construct import bound_method, make_list, make_tuple
from framelift.values.core.primitives import primitive
from framelift.values.tensors.tensors import TensorValue
from framelift.values.torch.higher_order import Traced, without

if TYPE_CHECKING:
    from framelift.values.core.tracer import Tracer

T = TypeVar("T")


@primitive(torch.Tensor.backward)
def _tensor_backward(
    tracer: Tracer,
    tensor: Any,
    gradient: Any = None,
    retain_graph: Any = None,
    create_graph: Any = False,
    inputs: Any = None,
) -> None:
    _backward(tracer, tensor, gradient, retain_graph, create_graph, None, inputs)


@primitive(torch.autograd.backward)
def _backward(
    tracer: Tracer,
    tensors: Any,
    grad_tensors: Any = None,
    retain_graph: Any = None,
    create_graph: Any = False,
    grad_variables: Any = None,
    inputs: Any = None,
) -> None:
    _refuse_transforms("backward()")
    if not py.same(tracer, grad_variables, None):
        raise GraphBreak(FL0102, what="backward() with grad_variables")
    if not tracer.makes_leaves():
        raise GraphBreak(FL0102, what="backward() within a function that runs later")
    again = py.truth(tracer, create_graph)
    retain_graph = again if py.same(tracer, retain_graph, None) else py.truth(tracer, retain_graph)
    outputs = _tensors(tracer, tensors, "backward()")
    arriving = _gradients(tracer, grad_tensors, len(outputs))
    chosen = None if py.same(tracer, inputs, None) else _tensors(tracer, inputs, "backward()")
    leaves = _leaves(tracer, outputs, chosen)
    hooks = {id(leaf): _hooks(tracer, leaf) for leaf in leaves}
    retained = _asking(_reached_of, tracer, outputs, retain_gradient)
    told = _asking(_reached_of, tracer, outputs, told_of_gradient)
    if chosen is not None and (retained or told):
        raise GraphBreak(FL0102, what="backward() with inputs, past tensors with hooks,")
    hooks.update((id(tensor), (list(tensor.told), [])) for tensor in told)
    if not any(any(found) for found in hooks.values()):
        _accumulate(tracer, outputs, arriving, (retain_graph, again), [*leaves, *retained], chosen is not None)
    elif again or retained:
        raise GraphBreak(FL0102, what="backward() with hooks and more to do")
    else:
        _with_hooks(tracer, outputs, arriving, retain_graph, [*leaves, *told], hooks)


def _accumulate(
    tracer: Tracer,
    outputs: list[Any],
    arriving: list[Any],
    modes: tuple[bool, bool],
    leaves: list[Any],
    chosen: bool,
) -> None:
    """`modes`: whether the graph is retained, and whether one of the gradients is made."""
    before = [py.attribute(tracer, leaf, "grad") for leaf in leaves]
    given = make_tuple(outputs), make_tuple(arriving), *modes, make_tuple(leaves), make_tuple(before), chosen
    made = tracer.call_torch(accumulated_gradients, given, {})
    for leaf, was, now in zip(leaves, before, py.items(tracer, made), strict=True):
        if now is not was:
            leaf.take_gradient(tracer, now)


def _with_hooks(
    tracer: Tracer,
    outputs: list[Any],
    arriving: list[Any],
    retain_graph: bool,
    tensors: list[Any],
    hooks: dict[int, tuple[list[Any], list[Any]]],
) -> None:
    """Autograd computes the gradients; the hooks are called with them, leaf by leaf, in the order in which it would."""
    order = _asking(_order, tracer, outputs, arriving, tensors)
    if len(order) < len(tensors):
        raise GraphBreak(FL0102, what="backward() with hooks, to leaves it does not reach,")
    given = make_tuple(outputs), make_tuple(tensors), make_tuple(arriving), retain_graph, False
    arrived = tracer.call_torch(gradients, given, {"allow_unused": True})
    made = dict(zip(map(id, tensors), py.items(tracer, arrived), strict=True))
    steps = [make_tuple([t, t.is_input, made[id(t)], *map(make_list, hooks[id(t)])]) for t in order]
    begin = tracer.graph.mark().records
    py.call(tracer, tracer.known_object(model.hand_gradients_over), [make_tuple(steps)], {})
    _check_writes(tracer, begin, [tensor.ref(tracer).storage for tensor in tensors if tensor.is_input])


def _check_writes(tracer: Tracer, begin: int, of_leaves: list[Any]) -> None:
    """Autograd calls hooks while it is under way, here they are called afterwards: what they write to must be of no
    use to the rest of it. Of a leaf whose gradient is there, autograd wants nothing more."""
    records = tracer.graph.records
    used = {id(ref.storage) for record in records[:begin] for ref in (*record.tensors, *_tensors_of(record))}
    for storage in (storage for record in records[begin:] for storage in record.writes):
        is_leaf = len(storage.refs) == 1 and any(storage is other for other in of_leaves)
        is_gradient = all(record.target is accumulated_gradients for record in storage.changes)
        if id(storage) in used and not is_leaf and not is_gradient:
            raise GraphBreak(FL0102, what="backward() with hooks that write to tensors")


def _tensors_of(record: Any) -> list[Any]:
    return [ref for ref in record.outputs if isinstance(ref, TensorRef)]


def _order(tracer: Tracer, outputs: list[Any], arriving: list[Any], leaves: list[Any]) -> list[Any]:
    given = [None if gradient is None else gradient.ref(tracer) for gradient in arriving]
    asked, reached = ([value.ref(tracer) for value in part] for part in (outputs, leaves))
    return [tracer.from_graph(ref) for ref in tracer.graph.history.order(asked, given, reached)]


@primitive(model.accumulate)
def _accumulate_one(tracer: Tracer, leaf: Any, gradient: Any) -> None:
    _accumulate(tracer, [leaf], [gradient], (False, False), [leaf], True)


@primitive(torch.Tensor.register_hook)
def _register_hook(tracer: Tracer, tensor: Any, hook: Any) -> Any:
    """A hook of a tensor that the graph computes; others may be called from elsewhere.

    One that does nothing but compute is traced at once. What else it does is done behind the backward.
    """
    if not isinstance(tensor, TensorValue) or tensor.is_input or not tracer.makes_leaves():
        raise GraphBreak(FL0102, what="a hook")
    ref = tensor.ref(tracer)
    if not ref.requires_grad or tensor.told:
        raise GraphBreak(FL0102, what="a hook")
    mark = tracer.graph.mark()
    target: Callable[..., Any] = hook_gradient
    try:
        args = _hook_body(tracer, ref, hook)
    except (GraphBreak, Raised):
        tracer.graph.rollback(mark)
        if any(ref is other for other in tracer.graph.prepared(hook_gradient)):
            raise
        tensor.tell(tracer, hook)
        target, args = told_of_gradient, (ref,)
    return HookHandleValue(tracer.graph.call_effect(target, args, {}, tracer.program_point()))


def _hook_body(tracer: Tracer, ref: TensorRef, hook: Any) -> tuple[Any, ...]:
    gradient = tracer.graph.placeholder(ref, ref.descriptor.shape)
    with torch.no_grad():
        traced = Traced(tracer, hook, [tracer.from_graph(gradient)], {}, "a hook")
    used = without(traced.part.free(traced.outputs), [gradient])
    body = tracer.graph.body("hook_body", traced.part, [gradient, *used], traced.outputs)
    return ref, body, *used


def told_too_early(tracer: Tracer, results: Sequence[Any]) -> Any:
    """A tensor whose hooks autograd may have to call when the graph has run: derivatives of some results are to be had
    then, and hooks that do more than compute are not in the graph. None: there is no such tensor."""
    told = tracer.graph.prepared(told_of_gradient)
    refs = [result.ref(tracer) for result in results if told and isinstance(result, TensorValue)]
    later = any(ref.requires_grad and _asking(tracer.graph.history.spent, ref) is None for ref in refs)
    return tracer.from_graph(told[0]) if later else None


class HookHandleValue(Value):
    """The handle of a hook that is part of the graph."""

    __slots__ = ("token",)

    def __init__(self, token: TokenRef) -> None:
        super().__init__()
        self.token = token

    def python_type(self) -> type:
        return RemovableHandle

    def attribute(self, tracer: Tracer, name: str) -> Any:
        if name == "remove" and self.token.record is not None and self.token.record.target is hook_gradient:
            return bound_method(tracer.known_object(RemovableHandle.remove), self)
        return super().attribute(tracer, name)


@primitive(RemovableHandle.remove)
def _remove(tracer: Tracer, handle: Any) -> None:
    if not isinstance(handle, HookHandleValue):
        tracer.call_as_it_is(RemovableHandle.remove, [handle], {})
        return
    tracer.graph.call_effect(remove_hook, (handle.token,), {}, tracer.program_point())


@primitive(torch.Tensor.retain_grad)
def _retain_grad(tracer: Tracer, tensor: Any) -> None:
    """A leaf keeps its gradient anyway; what comes from elsewhere is left alone."""
    if not isinstance(tensor, TensorValue):
        raise GraphBreak(FL0102, what="retain_grad()")
    ref = tensor.ref(tracer)
    if not ref.requires_grad or (tensor.is_input and not ref.descriptor.is_leaf):
        raise GraphBreak(FL0102, what="retain_grad()")
    if not ref.descriptor.is_leaf:
        tracer.graph.call_effect(retain_gradient, (ref,), {}, tracer.program_point())


def _leaves(tracer: Tracer, outputs: Sequence[Any], chosen: Sequence[Any] | None) -> list[Any]:
    """The leaves whose gradients are to change: inputs of the graph."""
    if chosen is None:
        refs = _asking(_reached, tracer, outputs)
        leaves = [tracer.from_graph(ref) for ref in refs]
    else:
        leaves = list({id(leaf): leaf for leaf in chosen}.values())
        if not leaves:
            raise GraphBreak(FL0102, what="backward() with no inputs")
    for leaf in leaves:
        descriptor = leaf.ref(tracer).descriptor
        if not leaf.is_input or not descriptor.is_leaf or not descriptor.requires_grad:
            raise GraphBreak(FL0102, what=f"backward() to {leaf.describe()}, which is no leaf")
    return leaves


def _reached(tracer: Tracer, outputs: Sequence[Any]) -> list[Any]:
    return tracer.graph.history.leaves([output.ref(tracer) for output in outputs])


def _reached_of(tracer: Tracer, outputs: Sequence[Any], target: Callable[..., Any]) -> list[Any]:
    """The tensors that were prepared for backward and to which it comes."""
    asked, graph = [output.ref(tracer) for output in outputs], tracer.graph
    return [tracer.from_graph(ref) for ref in graph.history.reached(asked, graph.prepared(target))]


def _asking(question: Callable[..., T], *args: Any) -> T:
    """What autograd answers; where it raises, or cannot tell, that is for Python to find out."""
    try:
        return question(*args)
    except MetadataFailure as failure:
        raise GraphBreak(FL0302, op=failure.operation, error=failure.reason) from failure


def _hooks(tracer: Tracer, leaf: Any) -> tuple[list[Any], list[Any]]:
    """The hooks of a leaf: code of the program's that autograd would call."""
    found: list[list[Any]] = []
    if not leaf.is_new and leaf.concrete.requires_grad and has_hooks_at_node(leaf.concrete):
        raise GraphBreak(FL0102, what=f"backward() to {leaf.describe()}, which has hooks where gradients are added up,")
    for name in HOOKS_OF_LEAVES:
        hooks = None
        if not leaf.is_new:
            hooks = tracer.wrap(getattr(leaf.concrete, name), leaf.source.child("GETATTR", name))
        is_none = py.same(tracer, hooks, None)
        found.append(
            [] if is_none else py.items(tracer, py.call(tracer, py.attribute(tracer, hooks, "values"), [], {}))
        )
    return found[0], found[1]


@primitive(torch.autograd.grad)
def _grad(
    tracer: Tracer,
    outputs: Any,
    inputs: Any,
    grad_outputs: Any = None,
    retain_graph: Any = None,
    create_graph: Any = False,
    only_inputs: Any = True,
    allow_unused: Any = None,
    is_grads_batched: Any = False,
    materialize_grads: Any = False,
) -> Any:
    what = "torch.autograd.grad"
    _refuse_transforms(what)
    if not py.truth(tracer, only_inputs):
        raise GraphBreak(FL0102, what=f"{what} with only_inputs=False")
    again = py.truth(tracer, create_graph)
    retain = again if py.same(tracer, retain_graph, None) else py.truth(tracer, retain_graph)
    others = {
        "is_grads_batched": is_grads_batched,
        "materialize_grads": materialize_grads,
        "allow_unused": allow_unused,
    }
    modes = {name: py.truth(tracer, value) for name, value in others.items() if not py.same(tracer, value, None)}
    asked = _tensors(tracer, outputs, what)
    sources = _tensors(tracer, inputs, what)
    arriving = _gradients(tracer, grad_outputs, len(asked))
    for leaf in sources:
        if leaf.is_input and _hooks(tracer, leaf)[0]:
            raise GraphBreak(FL0102, what=f"{what} to {leaf.describe()}, which has hooks,")
    given = [make_tuple(asked), make_tuple(sources), make_tuple(arriving)]
    return tracer.call_torch(gradients, (*given, retain, again), modes)


def _refuse_transforms(what: str) -> None:
    if _are_functorch_transforms_active():
        raise GraphBreak(FL0102, what=f"{what} inside of a functorch transform")


def _tensors(tracer: Tracer, given: Any, what: str) -> list[TensorValue]:
    """One tensor, or several."""
    items = [given] if isinstance(given, TensorValue) else py.items(tracer, given)
    for item in items:
        if not isinstance(item, TensorValue):
            raise GraphBreak(FL0102, what=f"{what} of what is no plain tensor")
        item.note(tracer)
    return list(items)


def _gradients(tracer: Tracer, given: Any, count: int) -> list[Any]:
    """What arrives at each of so many tensors; None: one, as they are scalars."""
    if py.same(tracer, given, None):
        return [None] * count
    return [given] if isinstance(given, TensorValue) else py.items(tracer, given)
