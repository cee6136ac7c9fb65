"""Autograd functions: `forward` and `backward` are traced at once, and become two bodies of one operation.

Where nothing is differentiated, `forward` is inlined like any other function.
"""

from __future__ import annotations

import contextlib
import inspect
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any

import torch
from torch._C import _are_functorch_transforms_active, _FunctionBase
from torch._C._functorch import unwrap_if_dead
from torch.autograd.function import FunctionMeta, _SingleLevelFunction, once_differentiable

from framelift.breaks import FL0102, FL0302, GraphBreak
from framelift.effects.journal import Journal
from framelift.graph import MetadataFailure, TensorRef
from framelift.graph.bodies import Part
from framelift.graph.operations.differentiated import Plan, differentiated
from framelift.graph.operations.indexing import element
from framelift.models import torch_autograd
from framelift.values.classes.new_classes import MadeClassValue
from framelift.values.core import protocol as py
from framelift.values.core.base import Value
from framelift.values.core.construct import make_tuple
from framelift.values.core.primitives import primitive
from framelift.values.functions.functions import FunctionValue
from framelift.values.tensors.tensors import TensorValue

if TYPE_CHECKING:
    from framelift.values.core.tracer import Tracer

_ONCE = once_differentiable(lambda ctx: None).__code__


# Where torch has a function that takes elements at positions that tensors say, for masks of attention.
_INDEXING = "torch._dynamo._trace_wrapped_higher_order_op"

# A class method of Python's or, since torch 2.14, of C's; and what of it Python calls.
_APPLY = inspect.getattr_static(torch.autograd.Function, "apply")


@primitive(getattr(_APPLY, "__func__", _APPLY))
def _apply(tracer: Tracer, function: Any, *args: Any) -> Any:
    if _are_functorch_transforms_active():
        raise GraphBreak(FL0102, what="an autograd function inside of a functorch transform")
    if function.concrete.__module__ == _INDEXING and len(args) == 2:
        return tracer.call_torch(element, (args[0], *py.items(tracer, args[1])), {})
    default = py.attribute(tracer, tracer.known_object(_SingleLevelFunction), "setup_context")
    has_setup = not py.same(tracer, py.attribute(tracer, function, "setup_context"), default)
    given = _with_defaults(tracer, function, list(args)) if has_setup else list(args)
    needs = tuple([_requires_grad(tracer, arg) for arg in given])
    context = py.call(tracer, tracer.known_object(torch_autograd.Context), [needs], {})
    what = f"the autograd function {function.concrete.__qualname__}"
    if tracer.modes.transforms:
        _check_transformed(tracer, function, has_setup, what)
    if torch.is_grad_enabled() and any(needs):
        _refuse_ways_of_backward(tracer, function, what)
        return _Differentiation(tracer, function, context, what).run(has_setup, given)
    run = tracer.known_object(torch_autograd.forward_only)
    output = py.call(tracer, run, [function, context, has_setup, *given], {})
    results = _results(tracer, output, what)
    if any(_requires_grad(tracer, result) for result in results):
        raise GraphBreak(FL0102, what=f"{what}, which returns a tensor that requires gradients")
    # Torch makes views of the arguments that are returned.
    apart = [_view_of(tracer, result) if any(result is arg for arg in given) else result for result in results]
    if all(new is old for new, old in zip(apart, results, strict=True)):
        return output
    return make_tuple(apart) if tracer.type_of(output) is tuple else apart[0]


def _check_transformed(tracer: Tracer, function: Any, has_setup: bool, what: str) -> None:
    """Transforms ask functions for more: to be run on several calls' tensors at once, for derivatives forwards."""
    ways = tracer.modes.transforms
    is_mapped = "mapped" in ways and not py.truth(tracer, py.attribute(tracer, function, "generate_vmap_rule"))
    if not has_setup or is_mapped or "forwards" in ways:
        raise GraphBreak(FL0102, what=f"{what} in a transform that it has rules of its own for, or none")


def _view_of(tracer: Tracer, value: Any) -> Any:
    return tracer.call_tensor_method("view_as", (value, value), {}) if isinstance(value, TensorValue) else value


# Attributes of a function by which torch calls backward in another way than with gradients and what was saved.
_WAYS_OF_BACKWARD = tuple(
    name for name in ("boxed_grads_call", "clear_saved_tensors_on_access") if hasattr(torch.autograd.Function, name)
)


def _refuse_ways_of_backward(tracer: Tracer, function: Any, what: str) -> None:
    for name in _WAYS_OF_BACKWARD:
        if py.truth(tracer, py.attribute(tracer, function, name)):
            raise GraphBreak(FL0102, what=f"{what}, which has {name}")


def _with_defaults(tracer: Tracer, function: Any, args: list[Any]) -> list[Any]:
    """A function with a `setup_context` hands it all arguments of `forward`, defaults included."""
    forward = py.attribute(tracer, function, "forward")
    if not isinstance(forward, FunctionValue) or forward.code.co_flags & 0x0C or forward.code.co_kwonlyargcount:
        return args
    return tracer.bound_arguments(forward, args)


def _requires_grad(tracer: Tracer, value: Any) -> bool:
    return isinstance(value, TensorValue) and bool(py.attribute(tracer, value, "requires_grad"))


def _results(tracer: Tracer, output: Any, what: str) -> list[Any]:
    kind = tracer.type_of(output)
    if kind is tuple:
        return py.items(tracer, output)
    if not isinstance(output, TensorValue):
        raise GraphBreak(FL0102, what=f"{what}, which returns a {kind.__name__}")
    return [output]


class _Differentiation:
    """One call of an autograd function that somebody may differentiate."""

    def __init__(self, tracer: Tracer, function: Any, context: Any, what: str) -> None:
        self.lift = tracer
        self.function = function
        self.context = context
        self.what = what
        self.asks_layout = False

    def run(self, has_setup: bool, args: list[Any]) -> Any:
        tracer = self.lift
        mark = tracer.graph.mark()
        tracer.journal.touch(tracer.modes)  # so that undoing what forward switches does not lead back into this block
        with torch.no_grad():
            run = tracer.known_object(torch_autograd.forward)
            output = py.call(tracer, run, [self.function, self.context, has_setup, *args], {})
        results = _results(tracer, output, self.what)
        outputs = [result.ref(tracer) for result in results if isinstance(result, TensorValue)]
        forward = self._cut(mark)
        self._check_modes_of(outputs)
        gradients = [tracer.graph.placeholder(ref, ref.descriptor.shape) for ref in outputs]
        backward, arriving = self._backward(results, gradients, len(args))
        inputs = [arg.ref(tracer) for arg in args if isinstance(arg, TensorValue)]
        made = self._emit(forward, backward, inputs, outputs, gradients, self._paired(args, arriving))
        if tracer.type_of(output) is not tuple:
            return made[0]
        rest = iter(made)
        return make_tuple([next(rest) if isinstance(result, TensorValue) else result for result in results])

    def _cut(self, mark: Any) -> Part:
        try:
            return self.lift.graph.cut(mark)
        except MetadataFailure as failure:
            raise GraphBreak(FL0302, op=self.what, error=failure.reason) from failure

    def _check_modes_of(self, outputs: list[TensorRef]) -> None:
        if not outputs:
            raise GraphBreak(FL0102, what=f"{self.what}, which returns no tensor")
        count = len(outputs) - len(self._marked())
        if not py.truth(self.lift, py.attribute(self.lift, self.context, "materialize_grads")) and count != 1:
            raise GraphBreak(FL0102, what=f"{self.what}, which may be given None for a gradient")

    def _marked(self) -> list[TensorRef]:
        return self._noted("non_differentiable")

    def _noted(self, name: str) -> list[TensorRef]:
        """The tensors the program noted on the context."""
        items = py.items(self.lift, py.attribute(self.lift, self.context, name))
        return [item.ref(self.lift) for item in items if isinstance(item, TensorValue)]

    def _backward(self, results: list[Any], gradients: list[TensorRef], count: int) -> tuple[Part, list[Any]]:
        """Trace backward, which will run later and must not do anything now. It is given None for what is no tensor."""
        tracer = self.lift
        rest = iter(gradients)
        given = [tracer.from_graph(next(rest)) if isinstance(result, TensorValue) else None for result in results]
        method = py.attribute(tracer, self.function, "backward")
        mark, questions = tracer.graph.mark(), tracer.graph.layout_questions
        with torch.no_grad(), later(tracer) as journal:
            result = py.call(tracer, method, [self.context, *given], {})
            kind = tracer.type_of(result)
            arriving = py.items(tracer, result) if kind is tuple or kind is list else [result]
            if journal.changed or len(arriving) < count:
                raise GraphBreak(FL0102, what=f"{self.what}, whose backward does more than compute gradients")
        self.asks_layout = tracer.graph.layout_questions > questions
        part = self._cut(mark)
        if part.switches_modes() and not self._is_once():
            raise GraphBreak(FL0102, what=f"{self.what}, whose backward switches modes")
        return part, arriving

    def _paired(self, args: list[Any], arriving: list[Any]) -> list[tuple[TensorRef, TensorRef]]:
        """Which tensor each gradient is for."""
        tracer = self.lift
        pairs = []
        for index, gradient in enumerate(arriving):
            if py.same(tracer, gradient, None):
                continue
            arg = args[index] if index < len(args) else None
            if not isinstance(gradient, TensorValue) or not isinstance(arg, TensorValue):
                raise GraphBreak(FL0102, what=f"{self.what}, whose backward returns a gradient for what has none")
            if _requires_grad(tracer, arg):
                pairs.append((arg.ref(tracer), gradient.ref(tracer)))
        return pairs

    def _emit(
        self,
        forward: Part,
        backward: Part,
        inputs: list[TensorRef],
        outputs: list[TensorRef],
        gradients: list[TensorRef],
        pairs: list[tuple[TensorRef, TensorRef]],
    ) -> list[Any]:
        tracer = self.lift
        arriving = [gradient for _, gradient in pairs]
        used = _without(backward.free(arriving), gradients)
        kept = _without([ref for ref in used if forward.computes(ref)], outputs)
        outside = [ref for ref in used if not forward.computes(ref) and not _holds(outputs, ref)]
        given = _unique([*inputs, *forward.free(outputs), *outside])
        results = [*outputs, *kept]
        saved, marked = self._noted("to_save"), self._marked()
        plan = Plan(
            outputs=len(outputs),
            non_differentiable=tuple([i for i, ref in enumerate(outputs) if _holds(marked, ref)]),
            used=tuple([_place(ref, given, results) for ref in used]),
            saved=tuple([i for i, ref in enumerate(used) if _holds(saved, ref)]),
            gradients=tuple([_position(given, ref) for ref, _ in pairs]),
            contiguous=self.asks_layout,
            twice=not self._is_once(),
        )
        if tracer.modes.transforms and not (plan.twice and len(plan.saved) == len(plan.used) and not kept):
            raise GraphBreak(FL0102, what=f"{self.what}, whose backward uses what it did not save, in a transform")
        bodies = (
            tracer.graph.body("forward_body", forward, given, results),
            tracer.graph.body("backward_body", backward, [*gradients, *used], arriving),
        )
        made = tracer.call_on_bodies(differentiated, (*bodies, tuple(plan), *given), forward.may_raise())
        return py.items(tracer, made)

    def _is_once(self) -> bool:
        method = py.attribute(self.lift, self.function, "backward")
        return isinstance(method, FunctionValue) and method.code is _ONCE


@contextlib.contextmanager
def later(tracer: Tracer) -> Iterator[Journal]:
    """Trace what will not happen now: every change is undone."""
    before, tracer.journal = tracer.journal, Journal()
    try:
        yield tracer.journal
    finally:
        tracer.journal.roll_back()
        tracer.journal = before


def _holds(refs: Sequence[TensorRef], ref: TensorRef) -> bool:
    return any(other is ref for other in refs)


def _without(refs: Sequence[TensorRef], others: Sequence[TensorRef]) -> list[TensorRef]:
    return [ref for ref in refs if not _holds(others, ref)]


def _unique(refs: Sequence[TensorRef]) -> list[TensorRef]:
    return list({id(ref): ref for ref in refs}.values())


def _position(refs: Sequence[TensorRef], ref: TensorRef) -> int:
    return next(index for index, other in enumerate(refs) if other is ref)


def _place(ref: TensorRef, given: Sequence[TensorRef], results: Sequence[TensorRef]) -> tuple[str, int]:
    """Where backward finds a tensor: among forward's results, or among what forward was given."""
    if _holds(given, ref):
        return "given", _position(given, ref)
    return "result", _position(results, ref)


@primitive(_FunctionBase.__new__)
def _new_function(tracer: Tracer, function: Any, *args: Any, **kwargs: Any) -> Any:
    """Instances are contexts, which autograd makes; classes of the program's may derive from it."""
    raise GraphBreak(FL0102, what="an autograd function, as if it were a class of objects,")


@primitive(FunctionMeta.__init__)
def _init_function(tracer: Tracer, function: Any, *args: Any, **kwargs: Any) -> None:
    """Each function has a class for the nodes of its backward, which autograd alone uses."""
    if not isinstance(function, MadeClassValue):
        raise GraphBreak(FL0102, what="FunctionMeta.__init__")
    function.add_by_metaclass(tracer, "_backward_cls", _BackwardClass(None, None))
    function.initialisers.append(_init_class)


def _init_class(function: Any) -> None:
    FunctionMeta.__init__(function, function.__name__, function.__bases__, {})


class _BackwardClass(Value):
    """The class of nodes of a function that the program makes; residual code makes both."""

    __slots__ = ()

    def python_type(self) -> type:
        return type


@primitive(unwrap_if_dead)
def _unwrap_if_dead(tracer: Tracer, tensor: Any) -> Any:
    """Wrappers of functorch's are no inputs of a graph."""
    return tensor


@primitive(_are_functorch_transforms_active)
def _transforms_active(tracer: Tracer) -> bool:
    if _are_functorch_transforms_active():
        raise GraphBreak(FL0102, what="a function inside of a functorch transform")
    return False
