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
from framelift.graph import MetadataFailure, TensorRef
from framelift.graph.operations.derivatives import HOOKS_OF_LEAVES, accumulated_gradients, gradients, hook_gradient
from framelift.models import backward as model
from framelift.values.core import protocol as py
from framelift.values.core.base import Value
from framelift.values.core.construct import make_list, make_tuple
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
    if py.truth(tracer, create_graph):
        raise GraphBreak(FL0102, what="backward() with create_graph=True")
    if not tracer.makes_leaves():
        raise GraphBreak(FL0102, what="backward() within a function that runs later")
    retain_graph = not py.same(tracer, retain_graph, None) and py.truth(tracer, retain_graph)
    outputs = _tensors(tracer, tensors, "backward()")
    arriving = _gradients(tracer, grad_tensors, len(outputs))
    chosen = None if py.same(tracer, inputs, None) else _tensors(tracer, inputs, "backward()")
    leaves = _leaves(tracer, outputs, chosen)
    hooks = {id(leaf): _hooks(tracer, leaf) for leaf in leaves}
    if any(any(found) for found in hooks.values()):
        _with_hooks(tracer, outputs, arriving, retain_graph, leaves, hooks)
    else:
        _accumulate(tracer, outputs, arriving, retain_graph, leaves, chosen is not None)


def _accumulate(
    tracer: Tracer, outputs: list[Any], arriving: list[Any], retain_graph: bool, leaves: list[Any], chosen: bool
) -> None:
    before = [py.attribute(tracer, leaf, "grad") for leaf in leaves]
    given = make_tuple(outputs), make_tuple(arriving), retain_graph, make_tuple(leaves), make_tuple(before), chosen
    made = tracer.call_torch(accumulated_gradients, given, {})
    for leaf, was, now in zip(leaves, before, py.items(tracer, made), strict=True):
        if now is not was:
            leaf.take_gradient(tracer, now)


def _with_hooks(
    tracer: Tracer,
    outputs: list[Any],
    arriving: list[Any],
    retain_graph: bool,
    leaves: list[Any],
    hooks: dict[int, tuple[list[Any], list[Any]]],
) -> None:
    """Autograd computes the gradients; the hooks are called with them, leaf by leaf, in the order in which it would."""
    order = _asking(_order, tracer, outputs, arriving, leaves)
    if len(order) < len(leaves):
        raise GraphBreak(FL0102, what="backward() with hooks, to leaves it does not reach,")
    given = make_tuple(outputs), make_tuple(leaves), make_tuple(arriving), retain_graph, False, True
    made = dict(zip(map(id, leaves), py.items(tracer, tracer.call_torch(gradients, given, {})), strict=True))
    steps = [make_tuple([leaf, made[id(leaf)], *map(make_list, hooks[id(leaf)])]) for leaf in order]
    begin = tracer.graph.mark().records
    py.call(tracer, tracer.known_object(model.hand_gradients_over), [make_tuple(steps)], {})
    _check_writes(tracer, begin, [leaf.ref(tracer).storage for leaf in leaves])


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
    _accumulate(tracer, [leaf], [gradient], False, [leaf], True)


@primitive(torch.Tensor.register_hook)
def _register_hook(tracer: Tracer, tensor: Any, hook: Any) -> Any:
    """A hook of a tensor that the graph computes, which is traced at once; others may be called from elsewhere."""
    what = "a hook"
    if (
        not isinstance(tensor, TensorValue)
        or tensor.is_input
        or not py.truth(tracer, py.attribute(tracer, tensor, "requires_grad"))
    ):
        raise GraphBreak(FL0102, what=what)
    ref = tensor.ref(tracer)
    gradient = tracer.graph.placeholder(ref, ref.descriptor.shape)
    with torch.no_grad():
        traced = Traced(tracer, hook, [tracer.from_graph(gradient)], {}, what)
    used = without(traced.part.free(traced.outputs), [gradient])
    body = tracer.graph.body("hook_body", traced.part, [gradient, *used], traced.outputs)
    tracer.call_on_bodies(hook_gradient, (body, ref, *used), False)
    return HookHandleValue()


class HookHandleValue(Value):
    """The handle of a hook that is part of the graph."""

    __slots__ = ()

    def python_type(self) -> type:
        return RemovableHandle


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


def _asking(question: Callable[..., T], *args: Any) -> T:
    """What autograd answers; where it raises, or cannot tell, that is for Python to find out."""
    try:
        return question(*args)
    except MetadataFailure as failure:
        raise GraphBreak(FL0302, op=failure.operation, error=failure.reason) from failure


def _hooks(tracer: Tracer, leaf: Any) -> tuple[list[Any], list[Any]]:
    """The hooks of a leaf: code of the program's that autograd would call."""
    found: list[list[Any]] = []
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
    if not py.truth(tracer, only_inputs) or py.truth(tracer, is_grads_batched) or py.truth(tracer, materialize_grads):
        raise GraphBreak(FL0102, what=f"{what} in a special mode")
    again = py.truth(tracer, create_graph)
    retain = again if py.same(tracer, retain_graph, None) else py.truth(tracer, retain_graph)
    unused = not py.same(tracer, allow_unused, None) and py.truth(tracer, allow_unused)
    asked = _tensors(tracer, outputs, what)
    sources = _tensors(tracer, inputs, what)
    arriving = _gradients(tracer, grad_outputs, len(asked))
    for leaf in sources:
        if leaf.is_input and _hooks(tracer, leaf)[0]:
            raise GraphBreak(FL0102, what=f"{what} to {leaf.describe()}, which has hooks,")
    given = [make_tuple(asked), make_tuple(sources), make_tuple(arriving)]
    return tracer.call_torch(gradients, (*given, retain, again, unused), {})


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
