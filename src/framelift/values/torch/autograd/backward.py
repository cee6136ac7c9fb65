"""`backward()` and `torch.autograd.grad`: operations of the graph that ask autograd for derivatives.

What `backward()` does to `grad` of the leaves is an assignment like any other: autograd adds up in the graph, and
residual code assigns afterwards. What else would run or hear of it, such as a hook, is left to Python.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

import torch
from torch._C import _are_functorch_transforms_active

from framelift.breaks import FL0102, GraphBreak
from framelift.graph.operations.derivatives import (
    HOOKS_OF_LEAVES,
    accumulated_gradients,
    gradients,
    has_hooks_at_node,
    retain_gradient,
    told_of_gradient,
)
from framelift.graph.operations.transformed import recomputed
from framelift.models import backward as model
from framelift.values.core import protocol as py
from framelift.values.core.construct import make_tuple
from framelift.values.core.primitives import primitive
from framelift.values.tensors.tensors import TensorValue
from framelift.values.torch.autograd.hooks import Caller, HookedBackward, LeafStep, asking, steps_of

if TYPE_CHECKING:
    from framelift.values.core.tracer import Tracer


@primitive(torch.Tensor.backward)
def _tensor_backward(
    tracer: Tracer,
    tensor: Any,
    gradient: Any = None,
    retain_graph: Any = None,
    create_graph: Any = False,
    inputs: Any = None,
) -> None:
    _backward(Caller(tracer, model.by_tensor, model.by_autograd), tensor, gradient, retain_graph, create_graph, inputs)


@primitive(torch.autograd.backward)
def _autograd_backward(
    tracer: Tracer,
    tensors: Any,
    grad_tensors: Any = None,
    retain_graph: Any = None,
    create_graph: Any = False,
    grad_variables: Any = None,
    inputs: Any = None,
) -> None:
    if not py.same(tracer, grad_variables, None):
        raise GraphBreak(FL0102, what="backward() with grad_variables")
    _backward(Caller(tracer, model.by_autograd), tensors, grad_tensors, retain_graph, create_graph, inputs)


def _backward(call: Caller, tensors: Any, grad_tensors: Any, retain_graph: Any, create_graph: Any, inputs: Any) -> None:
    tracer = call.tracer
    _refuse_surroundings("backward()")
    _refuse_changed(tracer, "backward()")
    if not tracer.makes_leaves():
        raise GraphBreak(FL0102, what="backward() within a function that runs later")
    again = py.truth(tracer, create_graph)
    retain_graph = again if py.same(tracer, retain_graph, None) else py.truth(tracer, retain_graph)
    outputs = _tensors(tracer, tensors, "backward()")
    arriving = _gradients(tracer, grad_tensors, len(outputs))
    chosen = None if py.same(tracer, inputs, None) else _tensors(tracer, inputs, "backward()")
    leaves = _leaves(tracer, outputs, chosen)
    retained = asking(_reached_of, tracer, outputs, retain_gradient)
    told = [tensor for tensor in asking(_reached_of, tracer, outputs, told_of_gradient) if tensor.told]
    if chosen is not None and (retained or told):
        raise GraphBreak(FL0102, what="backward() with inputs, past tensors with hooks,")
    of_leaves = {id(leaf): hooks for leaf in leaves if any(hooks := _hooks(tracer, leaf))}
    if not of_leaves and not told:
        _accumulate(tracer, outputs, arriving, (retain_graph, again), [*leaves, *retained], chosen is not None)
    elif again or retained:
        raise GraphBreak(FL0102, what="backward() with hooks and more to do")
    else:
        backward = HookedBackward(call, outputs, arriving, retain_graph)
        backward.run([*[LeafStep(leaf, of_leaves.get(id(leaf), ([], []))) for leaf in leaves], *steps_of(tracer, told)])


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


@primitive(model.accumulate)
def _accumulate_one(tracer: Tracer, leaf: Any, gradient: Any) -> None:
    _accumulate(tracer, [leaf], [gradient], (False, False), [leaf], True)


def _leaves(tracer: Tracer, outputs: Sequence[Any], chosen: Sequence[Any] | None) -> list[Any]:
    """The leaves whose gradients are to change: inputs of the graph."""
    if chosen is None:
        leaves = _reached(tracer, outputs)
    else:
        _stay_within(tracer, outputs, chosen, "backward()")
        leaves = list({id(leaf): leaf for leaf in chosen}.values())
        if not leaves:
            raise GraphBreak(FL0102, what="backward() with no inputs")
    for leaf in leaves:
        descriptor = leaf.ref(tracer).descriptor
        if not leaf.is_input or not descriptor.is_leaf or not descriptor.requires_grad:
            raise GraphBreak(FL0102, what=f"backward() to {leaf.describe()}, which is no leaf")
    return leaves


def _reached(tracer: Tracer, outputs: Sequence[Any]) -> list[Any]:
    """The inputs that backward comes to."""
    refs = asking(tracer.graph.history.leaves, [output.ref(tracer) for output in outputs])
    return [tracer.from_graph(ref) for ref in refs]


def _stay_within(tracer: Tracer, outputs: Sequence[Any], chosen: Sequence[Any], what: str) -> None:
    """Behind an input that was computed elsewhere there may be any other one: then derivatives go a way through what
    the graph does not know."""
    graph, asked = tracer.graph, [output.ref(tracer) for output in outputs]
    computed = [ref for ref in graph.inputs if ref.requires_grad and not ref.descriptor.is_leaf]
    for ref in asking(graph.history.reached, asked, computed) if computed else ():
        if any(other.is_input and other.ref(tracer) is not ref for other in chosen):
            words = tracer.from_graph(ref).describe()
            raise GraphBreak(FL0102, what=f"{what} through {words}, which was computed before,")


def _reached_of(tracer: Tracer, outputs: Sequence[Any], target: Callable[..., Any]) -> list[Any]:
    """The tensors that were prepared for backward and to which it comes."""
    asked, graph = [output.ref(tracer) for output in outputs], tracer.graph
    return [tracer.from_graph(ref) for ref in graph.history.reached(asked, graph.prepared(target))]


def _hooks(tracer: Tracer, leaf: Any) -> tuple[list[Any], list[Any]]:
    """The hooks of a leaf: code of the program's that autograd would call."""
    found: list[list[Any]] = []
    if not leaf.is_new and leaf.concrete.requires_grad and has_hooks_at_node(leaf.concrete):
        raise GraphBreak(FL0102, what=f"backward() to {leaf.describe()}, which has hooks where gradients are added up,")
    for name in HOOKS_OF_LEAVES:
        hooks = py.attribute(tracer, leaf, name)
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
    _refuse_surroundings(what)
    _refuse_changed(tracer, what)
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
    if any(tensor.told for tensor in asking(_reached_of, tracer, asked, told_of_gradient)):
        raise GraphBreak(FL0102, what=f"{what} past tensors with hooks")
    _stay_within(tracer, asked, sources, what)
    for leaf in sources:
        if leaf.is_input and _hooks(tracer, leaf)[0]:
            raise GraphBreak(FL0102, what=f"{what} to {leaf.describe()}, which has hooks,")
    given = [make_tuple(asked), make_tuple(sources), make_tuple(arriving)]
    return tracer.call_torch(gradients, (*given, retain, again), modes)


def _refuse_changed(tracer: Tracer, what: str) -> None:
    """What a checkpoint computes again, it computes from what is there then."""
    for record in tracer.graph.records:
        if record.target is recomputed:
            changes = (change.index for ref in record.tensors for change in ref.storage.changes)
            if any(index > record.index for index in changes):
                raise GraphBreak(FL0102, what=f"{what} by way of a checkpoint whose tensors were written to")


def _refuse_surroundings(what: str) -> None:
    if _are_functorch_transforms_active():
        raise GraphBreak(FL0102, what=f"{what} inside of a functorch transform")
    if torch.is_inference_mode_enabled():  # fakes have no history there to ask
        raise GraphBreak(FL0102, what=f"{what} in inference mode")


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
