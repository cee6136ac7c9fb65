"""Graphs that compilers of derivatives are not given: they would get them wrong, or refuse, where autograd is right."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import torch
from torch._C import _set_grad_enabled

from framelift.backends.differentiated_graphs import LeftToAutograd
from framelift.capture.aliasing import written_inputs
from framelift.capture.attempt import Attempt
from framelift.capture.forward_mode import has_tangents
from framelift.capture.lift import Lift
from framelift.capture.request import Request
from framelift.capture.subclass_gradients import is_subclass_in_sight
from framelift.graph import GraphBuilder
from framelift.graph.analysis.composites import depends_on_tracing
from framelift.graph.analysis.fused_steps import has_fused_steps
from framelift.graph.analysis.recurrent_layers import has_layers_of_onednn
from framelift.graph.analysis.shared_memory import gives_views_of, gives_views_of_written, share_history
from framelift.graph.analysis.sparse_gradients import has_sparse_gradients


def leave_to_autograd(
    lift: Lift, attempt: Attempt, request: Request, module: Any, shared: Sequence[Any], outputs: Sequence[Any]
) -> None:
    """Raises LeftToAutograd, which says why, where a compiler would be wrong about derivatives, or about results that
    are views of `shared` inputs."""
    is_bitwise = request.options.backend.is_bitwise
    for reasons in (
        _of_operations(lift, module, is_bitwise),
        _of_training(lift, attempt, request, module),
        _of_memory(lift, shared, outputs, is_bitwise),
    ):
        for reason in reasons:
            raise LeftToAutograd(reason)


def _of_operations(lift: Lift, module: Any, is_bitwise: bool) -> Iterator[str]:
    if has_tangents(lift):
        yield "compilers drop the tangents of forward-mode derivatives"
    if has_fused_steps(module.graph):
        yield "a fused step of an optimizer is one kernel already"
    if is_bitwise and depends_on_tracing(module.graph):
        yield "an operation computes in another way while it is traced"


def _of_training(lift: Lift, attempt: Attempt, request: Request, module: Any) -> Iterator[str]:
    # Leaves that the program makes are inputs, too; of some the making was undone at a break.
    graph = lift.graph
    is_trained = any(value.is_new for value in _tensors(lift)) or any(value.requires_grad for value in _given(lift))
    if is_trained and has_sparse_gradients(module.graph):
        yield "gradients are sparse"
    if is_trained and not graph.differentiates and torch.is_grad_enabled() and has_layers_of_onednn(module.graph):
        yield "a layer of oneDNN keeps for its backward what a compiler does not know of"
    if graph.prepares_backward and not graph.differentiates:
        yield "hooks wait for a backward that comes after the graph"
    if is_trained and (attempt.meets_subclass or is_subclass_in_sight(request.function, request.slots)):
        yield "gradients may be of a class of their own"
    # What is written to in Python next is as much of a view as autograd takes it for; compilers give others.
    if is_trained and attempt.is_write_refused:
        yield "Python writes to a view next"
    if is_trained and _begins_derivatives(graph):
        yield "gradients are recorded from within the graph on"


def _of_memory(lift: Lift, shared: Sequence[Any], outputs: Sequence[Any], is_bitwise: bool) -> Iterator[str]:
    if gives_views_of(shared, outputs):
        yield "results are views of inputs that share memory"
    if is_bitwise and gives_views_of_written(outputs):
        yield "results are views of what was written to"
    # A view of a tensor of a class of its own knows that tensor, and compilers write to what it is a view of.
    in_classes = any(value.source is not None and value.source.access == "AS_PLAIN" for value in _tensors(lift))
    if in_classes and written_inputs(lift):
        yield "a tensor of a class of its own is written to"
    written = [value.concrete for value in written_inputs(lift)]
    if written and share_history(written, _given(lift)):
        yield "what is written to shares its history with another input"


def _tensors(lift: Lift) -> list[Any]:
    return list(lift.inputs.tensors.values())


def _given(lift: Lift) -> list[torch.Tensor]:
    """The tensors that a frame was given."""
    return [value.concrete for value in _tensors(lift) if value.concrete is not None]


def _begins_derivatives(graph: GraphBuilder) -> bool:
    """Whether a graph that begins without derivatives has some: AOTAutograd looks at the beginning only."""
    if torch.is_grad_enabled():
        return False
    return any(record.target is _set_grad_enabled and record.args == (True,) for record in graph.records)
