"""Hooks of tensors and of nodes of autograd: code of the program's that autograd calls on its way back.

A hook of a tensor that does nothing but compute, and would do the same at any time, is part of the graph. Any other is
told of its gradient behind the backward (`HookedBackward`), as long as that is in the frame; else Python registers it.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple, TypeVar

import torch
from torch.utils.hooks import BackwardHook, RemovableHandle

from framelift.breaks import FL0102, FL0107, FL0302, GraphBreak
from framelift.graph import MetadataFailure, TensorRef
from framelift.graph.operations.derivatives import (
    accumulated_gradients,
    gradients,
    hook_gradient,
    hooked,
    remove_hook,
    replaced_gradient,
    retain_gradient,
    told_of_gradient,
)
from framelift.models import backward as model
from framelift.values.core import protocol as py
from framelift.values.core.base import Raised, Value
from framelift.values.core.construct import bound_method, make_list, make_tuple
from framelift.values.core.methods import ModelMethodValue
from framelift.values.core.primitives import primitive
from framelift.values.tensors.tensors import TensorValue
from framelift.values.torch.autograd.functions import later
from framelift.values.torch.autograd.handles import count_hook
from framelift.values.torch.autograd.unchanging import is_unchanging
from framelift.values.torch.higher_order import Traced, without

if TYPE_CHECKING:
    from framelift.values.core.tracer import Tracer

T = TypeVar("T")


def asking(question: Callable[..., T], *args: Any) -> T:
    """What autograd answers; where it raises, or cannot tell, that is for Python to find out."""
    try:
        return question(*args)
    except MetadataFailure as failure:
        raise GraphBreak(FL0302, op=failure.operation, error=failure.reason) from failure


# registered in the frame ----------------------------------------------------------------------------------------------


class Told(NamedTuple):
    """A hook that is called behind the backward: one of a tensor, or of the node that gave it."""

    hook: Any
    node: NodeValue | None
    # How often the memory of the tensor was written to: the hook is for the tensor as it was then.
    writes: int


@primitive(torch.Tensor.register_hook)
def _register_hook(tracer: Tracer, tensor: Any, hook: Any) -> Any:
    """A hook of a leaf is kept in a table there. Of other tensors, those that the graph computes are known."""
    if not isinstance(tensor, TensorValue) or not tracer.makes_leaves():
        raise GraphBreak(FL0102, what="a hook")
    ref = tensor.ref(tracer)
    if ref.requires_grad and ref.descriptor.is_leaf and tensor.is_input:
        return tracer.inline(tracer.known_object(torch.Tensor.register_hook), [tensor, hook], {})
    if not ref.requires_grad or tensor.is_input:
        raise GraphBreak(FL0102, what="a hook")
    if tensor.told or not is_unchanging(tracer, hook):
        return _tell(tracer, tensor, hook, None)
    mark = tracer.graph.mark()
    try:
        args = _hook_body(tracer, ref, hook)
    except (GraphBreak, Raised):
        tracer.graph.rollback(mark)
        return _tell(tracer, tensor, hook, None)
    token = tracer.graph.call_effect(hook_gradient, args, {}, tracer.program_point())
    count_hook(tracer)
    return HookHandleValue(tracer, lambda: tracer.graph.call_effect(remove_hook, (token,), {}, tracer.program_point()))


@primitive(torch.Tensor.register_post_accumulate_grad_hook)
def _register_post_accumulate_grad_hook(tracer: Tracer, tensor: Any, hook: Any) -> Any:
    if not isinstance(tensor, TensorValue) or not tensor.is_input or not tracer.makes_leaves():
        raise GraphBreak(FL0102, what="a hook")
    register = tracer.known_object(torch.Tensor.register_post_accumulate_grad_hook)
    return tracer.inline(register, [tensor, hook], {})


def _hook_body(tracer: Tracer, ref: TensorRef, hook: Any) -> tuple[Any, ...]:
    gradient = tracer.graph.placeholder(ref, ref.descriptor.shape)
    with torch.no_grad():
        traced = Traced(tracer, hook, [tracer.from_graph(gradient)], {}, "a hook")
    used = without(traced.part.free(traced.outputs), [gradient])
    body = tracer.graph.body("hook_body", traced.part, [gradient, *used], traced.outputs)
    return ref, body, *used


def _tell(tracer: Tracer, tensor: TensorValue, hook: Any, node: NodeValue | None) -> HookHandleValue:
    told = Told(hook, node, len(tensor.ref(tracer).storage.changes))
    if not tensor.told:
        tracer.graph.call_effect(told_of_gradient, (tensor.ref(tracer),), {}, tracer.program_point())
    tensor.tell(tracer, told)
    count_hook(tracer)
    return HookHandleValue(tracer, lambda: tensor.tell_no_more(tracer, told))


class HookHandleValue(Value):
    """The handle of a hook that the graph, or the frame, knows of."""

    __slots__ = ("born", "take_away")

    def __init__(self, tracer: Tracer, take_away: Callable[[], Any]) -> None:
        super().__init__()
        self.born = tracer.steps.count
        self.take_away = take_away

    def python_type(self) -> type:
        return RemovableHandle

    def attribute(self, tracer: Tracer, name: str) -> Any:
        if name in ("remove", "__enter__", "__exit__"):
            return bound_method(tracer.known_object(getattr(RemovableHandle, name)), self)
        return super().attribute(tracer, name)

    def rebuild(self, emit: Any) -> None:
        raise GraphBreak(FL0107, what=self.describe(), born=self.born)


@primitive(RemovableHandle.remove)
def _remove(tracer: Tracer, handle: Any) -> None:
    if not isinstance(handle, HookHandleValue):
        tracer.call_as_it_is(RemovableHandle.remove, [handle], {})
        return
    handle.take_away()


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


# hooks of modules: each module with some has a node of autograd before it, and one behind it --------------------------


class NodeValue(Value):
    """The node that gave some tensors, which are those it was given."""

    __slots__ = ("tensors",)

    def __init__(self, tensors: list[TensorValue]) -> None:
        super().__init__()
        self.tensors = tensors

    def python_type(self) -> type:
        return torch.autograd.graph.Node

    def attribute(self, tracer: Tracer, name: str) -> Any:
        if name == "register_hook":
            return ModelMethodValue(self, name, lambda hook: self.register_hook(tracer, hook))
        return super().attribute(tracer, name)

    def register_hook(self, tracer: Tracer, hook: Any) -> HookHandleValue:
        first = next(tensor for tensor in self.tensors if tensor.ref(tracer).requires_grad)
        return _tell(tracer, first, hook, self)


@primitive(getattr(BackwardHook, "_apply_on_tensors", object()))
def _apply_on_tensors(tracer: Tracer, hook: Any, function: Any, args: Any) -> Any:
    return py.call(tracer, tracer.known_object(model.with_node), [function, args], {})


@primitive(model.node_behind)
def _node_behind(tracer: Tracer, tensors: Any) -> Any:
    """The node that module hooks are registered at."""
    given = py.items(tracer, tensors)
    if not tracer.makes_leaves() or not all(isinstance(tensor, TensorValue) for tensor in given):
        raise GraphBreak(FL0102, what="a hook of a module")
    made = tracer.call_torch(hooked, tuple(given), {})
    return make_tuple([made, NodeValue(py.items(tracer, made))])


# called behind the backward -------------------------------------------------------------------------------------------


class Caller:
    """Calls models from where autograd would call hooks."""

    def __init__(self, tracer: Tracer, *outside: Callable[..., Any]) -> None:
        self.tracer = tracer
        self.outside = [tracer.known_object(function) for function in outside]

    def __call__(self, function: Callable[..., Any], args: list[Any]) -> Any:
        given: list[Any] = [*self.outside, self.tracer.known_object(function), *args]
        return py.call(self.tracer, given[0], given[1:], {})


class Step:
    """Where backward comes to some tensors: what it does there, and the gradients it goes on with."""

    def __init__(self, tensors: list[TensorValue]) -> None:
        self.tensors = tensors

    def run(self, call: Caller, gradients: list[Any]) -> list[Any]:
        raise NotImplementedError


class LeafStep(Step):
    """A leaf is given its gradient."""

    def __init__(self, leaf: Any, hooks: tuple[list[Any], list[Any]]) -> None:
        super().__init__([leaf])
        self.hooks = hooks

    def run(self, call: Caller, gradients: list[Any]) -> list[Any]:
        call(model.give_to_leaf, [self.tensors[0], gradients[0], *map(make_list, self.hooks)])
        return gradients


class TensorStep(Step):
    """The hooks of a tensor."""

    def run(self, call: Caller, gradients: list[Any]) -> list[Any]:
        hooks = make_list([told.hook for told in self.tensors[0].told if told.node is None])
        return [call(model.give_to_tensor, [gradients[0], hooks])]


class NodeStep(Step):
    """The hooks of a node."""

    def __init__(self, node: NodeValue, first: TensorValue) -> None:
        super().__init__(node.tensors)
        self.node, self.first = node, first

    def run(self, call: Caller, gradients: list[Any]) -> list[Any]:
        hooks = [told.hook for told in self.first.told if told.node is self.node]
        made = call(model.give_to_node, [make_list(self.tensors), make_list(gradients), make_list(hooks)])
        return list(made.items(call.tracer))


def steps_of(tracer: Tracer, tensors: Sequence[TensorValue]) -> list[Step]:
    """What is done at tensors whose hooks are told."""
    found: list[Step] = []
    for tensor in tensors:
        writes = len(tensor.ref(tracer).storage.changes)
        if any(told.writes != writes for told in tensor.told):
            raise GraphBreak(FL0102, what="backward() past a hook of a tensor that was written to")
        nodes = {id(told.node): told.node for told in tensor.told if told.node is not None}
        if any(told.node is None for told in tensor.told):
            found.append(TensorStep([tensor]))
        found += [NodeStep(node, tensor) for node in nodes.values()]
    return found


class HookedBackward:
    """A backward past hooks: autograd computes gradients, and the hooks are called with them, in its order.

    Where a hook changes a gradient, autograd computes those behind it once more, with the gradient changed.
    """

    def __init__(self, call: Caller, outputs: list[Any], arriving: list[Any], retain_graph: bool) -> None:
        self.call, self.tracer = call, call.tracer
        self.outputs = outputs
        self.arriving = arriving
        self.retain_graph = retain_graph

    def run(self, steps: list[Step]) -> None:
        tracer = self.tracer
        steps = self._in_order(steps)
        changing = self._changing(steps)
        given, tokens = self._gradients(steps, bool(changing)), []
        begin = tracer.graph.mark().records
        for index, step in enumerate(steps):
            for tensor, gradient in self._changed(step, given.pop(0)):
                tokens.append(self._note(replaced_gradient, tensor.ref(tracer), gradient.ref(tracer)))
            if index in changing:
                changing.remove(index)
                given = self._gradients(steps[index + 1 :], bool(changing))
        for token in tokens:
            self._note(remove_hook, token)
        leaves = [step.tensors[0].ref(tracer).storage for step in steps if isinstance(step, LeafStep) and not tokens]
        _check_writes(tracer, begin, leaves)

    def _note(self, effect: Callable[..., Any], *args: Any) -> Any:
        return self.tracer.graph.call_effect(effect, args, {}, self.tracer.program_point())

    def _in_order(self, steps: list[Step]) -> list[Step]:
        """The steps that backward comes to, in its order: hooks of tensors before those of the node they are from."""
        tracer = self.tracer
        given = [None if gradient is None else gradient.ref(tracer) for gradient in self.arriving]
        tensors = {id(tensor): tensor for step in steps for tensor in step.tensors}
        refs = [tensor.ref(tracer) for tensor in tensors.values() if tensor.ref(tracer).requires_grad]
        order = asking(tracer.graph.history.order, [it.ref(tracer) for it in self.outputs], given, refs)
        places = {id(tracer.from_graph(ref)): place for place, ref in enumerate(order)}
        reached: list[tuple[int, bool, int, Step]] = []
        for step in steps:
            found = [places[id(tensor)] for tensor in step.tensors if id(tensor) in places]
            if found:
                reached.append((max(found), isinstance(step, NodeStep), len(reached), step))
            elif isinstance(step, LeafStep):
                raise GraphBreak(FL0102, what="backward() with hooks, to leaves it does not reach,")
        return [step for *_, step in sorted(reached, key=lambda one: one[:3])]

    def _gradients(self, steps: list[Step], goes_on: bool) -> list[list[Any]]:
        """What arrives at the tensors of each step; None where nothing does."""
        tracer = self.tracer
        asked = {id(it): it for step in steps for it in step.tensors if it.ref(tracer).requires_grad}
        tensors = list(asked.values())
        given = make_tuple(self.outputs), make_tuple(tensors), make_tuple(self.arriving)
        modes = self.retain_graph or goes_on, False
        made = py.items(tracer, tracer.call_torch(gradients, (*given, *modes), {"allow_unused": True}))
        found = dict(zip(asked, made, strict=True))
        return [[found.get(id(tensor)) for tensor in step.tensors] for step in steps]

    def _changed(self, step: Step, before: list[Any]) -> list[tuple[TensorValue, Any]]:
        """The tensors behind which autograd is to go on with other gradients."""
        found = []
        for tensor, old, new in zip(step.tensors, before, step.run(self.call, before), strict=True):
            if new is not old and new is not None:
                if old is None or not isinstance(new, TensorValue):
                    raise GraphBreak(FL0102, what="a hook that makes a gradient where there is none")
                found.append((tensor, new))
        return found

    def _changing(self, steps: list[Step]) -> list[int]:
        """The steps whose hooks change gradients that autograd goes on with: they are tried, and taken back."""
        tracer = self.tracer
        found: list[int] = []
        if all(isinstance(step, LeafStep) for step in steps):
            return found
        mark = tracer.graph.mark()
        given = self._gradients(steps, True)
        with later(tracer):
            try:
                for index, (step, before) in enumerate(zip(steps[:-1], given, strict=False)):
                    if self._changed(step, before):
                        found.append(index)
            except Raised:
                pass  # as it will when it is not taken back
        tracer.graph.rollback(mark)
        return found


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


def told_too_early(tracer: Tracer, results: Sequence[Any]) -> Any:
    """A tensor whose hooks autograd may have to call when the graph has run: derivatives of some results are to be had
    then, and hooks that do more than compute are not in the graph. None: there is no such tensor."""
    told = [found for ref in tracer.graph.prepared(told_of_gradient) if (found := tracer.from_graph(ref)).told]
    refs = [result.ref(tracer) for result in results if told and isinstance(result, TensorValue)]
    later_on = any(ref.requires_grad and asking(tracer.graph.history.spent, ref) is None for ref in refs)
    return told[0] if later_on else None
