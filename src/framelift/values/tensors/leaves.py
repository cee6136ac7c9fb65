"""Tensors that begin a history of their own: parameters the program makes, and what it calls `requires_grad_()` on.

A compiled graph has no leaves of its own: gradients flow out of it through its inputs only. So residual code makes such
a tensor before the graph runs, without contents, and it is an input of the graph, which computes the contents. Where
the tensor lies in the memory of an input, it is made in that memory.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import torch

from framelift.breaks import FL0304, GraphBreak
from framelift.graph import TensorRef
from framelift.models import tensors
from framelift.values.core import protocol as py
from framelift.values.core.primitives import primitive
from framelift.values.subclasses.tensors import refuse_rules
from framelift.values.tensors.sizes import size_of
from framelift.values.tensors.tensors import TensorValue

if TYPE_CHECKING:
    from framelift.values.core.emitter import Emitter
    from framelift.values.core.tracer import Tracer

# Functions whose result has no contents yet.
_EMPTY = (torch.empty, torch.empty_like, torch.empty_strided, "new_empty", "new_empty_strided")


def _empty_leaf(kind: type, layout: tuple[Any, ...], requires_grad: bool) -> torch.Tensor:
    shape, stride, dtype, device = layout
    return _leaf_in(kind, torch.empty_strided(shape, stride, dtype=dtype, device=device), requires_grad)


def _leaf_in(kind: type, tensor: torch.Tensor, requires_grad: bool) -> torch.Tensor:
    """A new tensor in the memory of another."""
    if kind is torch.nn.Parameter:
        return torch.nn.Parameter(tensor, requires_grad)
    return tensor.detach().requires_grad_(requires_grad)


class Recipe:
    """How a new leaf is made: of metadata, or in the memory of an input."""

    def __init__(self, kind: type, requires_grad: bool, layout: tuple[Any, ...], owner: TensorValue | None) -> None:
        self.kind = kind
        self.requires_grad = requires_grad
        self.layout = layout
        self.owner = owner

    def example(self) -> torch.Tensor:
        if self.owner is not None:
            return _leaf_in(self.kind, self.owner.concrete, self.requires_grad)
        return _empty_leaf(self.kind, self.layout, self.requires_grad)

    def generate(self, emit: Emitter) -> None:
        """Leave the new tensor on the stack."""
        emit.callable(_empty_leaf if self.owner is None else _leaf_in)
        emit.known_object(self.kind)
        if self.owner is not None:
            emit.source(self.owner.source)
        else:
            emit.constant(self.layout)
        emit.constant(self.requires_grad)
        emit.call(3)


def _refuse(what: str) -> Any:
    raise GraphBreak(FL0304, what=what)


def _recipe(tracer: Tracer, tensor: TensorValue, kind: type, requires_grad: bool, what: str) -> Recipe:
    """How to make a leaf with the contents of a tensor, in its memory."""
    ref = tensor.ref(tracer)
    descriptor = ref.descriptor
    ordinary = descriptor.is_complete and not (descriptor.is_conj or descriptor.is_neg or descriptor.is_inference)
    differentiable = descriptor.dtype.is_floating_point or descriptor.dtype.is_complex or not requires_grad
    if not ordinary or not differentiable or descriptor.requires_grad or not tracer.makes_leaves():
        _refuse(what)
    owner = next((value for value in tracer.inputs.tensors.values() if value.ref(tracer).storage is ref.storage), None)
    if owner is not None:
        mine, theirs = ref.descriptor, owner.ref(tracer).descriptor
        same = all(getattr(mine, fact) == getattr(theirs, fact) for fact in ("shape", "stride", "offset", "dtype"))
        if not same or not owner.is_as_it_came or owner.is_new or theirs.requires_grad:
            _refuse(what)
        return Recipe(kind, requires_grad, (), owner)
    if len(ref.storage.refs) != 1 or descriptor.is_view:
        _refuse(what)
    return Recipe(kind, requires_grad, (*_layout(tracer, tensor), descriptor.dtype, descriptor.device), None)


def _layout(tracer: Tracer, tensor: TensorValue) -> tuple[tuple[int, ...], tuple[int, ...]]:
    """The size and the strides, which are constants from here on."""
    stride = tracer.call_tensor_method("stride", (tensor,), {})
    return tuple(tracer.constant(size_of(tracer, tensor))), tuple(tracer.constant(stride))


def _fill(tracer: Tracer, leaf: TensorValue, recipe: Recipe, contents: TensorValue) -> Any:
    """Give a new leaf its contents. What comes back shares its memory, but is no part of its history."""
    alias = tracer.call_tensor_method("detach", (leaf,), {})
    record = contents.ref(tracer).record
    is_empty = record is not None and record.target in _EMPTY and not contents.ref(tracer).storage.changes
    if recipe.owner is None and not is_empty:
        tracer.call_tensor_method("copy_", (alias, contents), {})
    return alias


def require_grad(tracer: Tracer, tensor: TensorValue, flag: bool) -> TensorValue:
    """`tensor.requires_grad_(flag)`."""
    descriptor = tensor.ref(tracer).descriptor
    if descriptor.requires_grad == flag:
        return tensor
    what = "requires_grad_()"
    if not flag and descriptor.is_leaf:
        tensor.stop_gradients(tracer)
    elif not flag or (tensor.is_input and not tensor.restore_gradients(tracer)):
        _refuse(what)
    elif not tensor.is_input:
        recipe = _recipe(tracer, tensor, torch.Tensor, True, what)
        contents = TensorValue(tensor.ref(tracer))
        tensor.become_leaf(tracer, tracer.sources.new(recipe), recipe.example())
        _fill(tracer, tensor, recipe, contents)
    return tensor


@primitive(torch.nn.Parameter)
def _parameter(tracer: Tracer, data: Any = None, requires_grad: Any = True) -> Any:
    refuse_rules(tracer, data)
    if not isinstance(data, TensorValue) or data.python_type() is not torch.Tensor:
        _refuse("a parameter of this")
    recipe = _recipe(tracer, data, torch.nn.Parameter, bool(tracer.constant(requires_grad)), "a parameter")
    example = recipe.example()
    leaf = TensorValue(None, tracer.sources.new(recipe), example)
    alias = _fill(tracer, leaf, recipe, data)
    if recipe.owner is None:
        data.move_to(tracer, alias.ref(tracer))
    return leaf


@primitive(torch.Tensor.__deepcopy__)
def _deepcopy(tracer: Tracer, tensor: Any, memo: Any) -> Any:
    copied = tracer.known_object(tensors.deepcopy)
    return py.call(tracer, copied, [tensor, memo], {})


@primitive(tensors.copy_of)
def _copy_of(tracer: Tracer, tensor: Any) -> Any:
    """A copy of a tensor that has its memory for itself: where others lie in it, their copies would share theirs."""
    if not isinstance(tensor, TensorValue) or tensor.python_type() is not torch.Tensor:
        _refuse("a deep copy")
    ref = tensor.ref(tracer)
    descriptor = ref.descriptor
    alone = len(ref.storage.refs) == 1 and not descriptor.is_view and not descriptor.offset
    ordinary = descriptor.is_complete and not (descriptor.is_conj or descriptor.is_neg or descriptor.is_inference)
    if not alone or not ordinary or not descriptor.is_leaf or not _is_bare(tracer, tensor):
        _refuse("a deep copy")
    requires_grad = descriptor.requires_grad
    plain = tracer.call_tensor_method("detach", (tensor,), {}) if requires_grad else tensor
    copy = tracer.call_tensor_method("clone", (plain,), {})
    return require_grad(tracer, copy, True) if requires_grad else copy


def _is_bare(tracer: Tracer, tensor: TensorValue) -> bool:
    """Whether a tensor has no gradient and no attributes, and no gaps in its memory."""
    if tensor.is_input and not (
        py.same(tracer, py.attribute(tracer, tensor, "grad"), None) and not py.truth(tracer, tensor.attributes(tracer))
    ):
        return False
    layout = _layout(tracer, tensor)
    alike = torch.empty_strided(*layout, dtype=torch.uint8, device="meta")
    dense = alike.untyped_storage().nbytes() == alike.numel() and torch._debug_has_internal_overlap(alike) == 0
    return not tensor.has_attributes and dense


@primitive(tensors.assign_data)
def _assign_data(tracer: Tracer, tensor: TensorValue, data: Any) -> None:
    """`tensor.data = data`, for a leaf that the program made and has not used for what has a gradient."""
    what = "assignment of attribute 'data'"
    if data is tensor:
        return
    if not tensor.is_new or not isinstance(data, TensorValue) or data.is_input:
        _refuse(what)
    before = tensor.ref(tracer)
    kind, requires_grad = tensor.python_type(), before.descriptor.requires_grad
    for record in tracer.graph.records:
        uses = any(used is before for used in record.uses)
        if uses and any(_has_history(made) and made is not before for made in record.outputs):
            _refuse(what)
    recipe = _recipe(tracer, data, kind, requires_grad, what)
    # What the graph did with it so far it did with the one that was there before.
    tracer.inputs.tensors[id(before)] = TensorValue(before, tensor.source, tensor.concrete)
    tensor.become_leaf(tracer, tracer.sources.new(recipe), recipe.example())
    alias = _fill(tracer, tensor, recipe, data)
    data.move_to(tracer, alias.ref(tracer))


def _has_history(made: Any) -> bool:
    return isinstance(made, TensorRef) and made.requires_grad


@primitive(torch.Tensor.requires_grad_)
def _requires_grad_(tracer: Tracer, tensor: Any, requires_grad: Any = True) -> Any:
    if not isinstance(tensor, TensorValue):
        _refuse("requires_grad_()")
    return require_grad(tracer, tensor, bool(tracer.constant(requires_grad)))


@primitive(torch.Tensor.detach_)
def _detach_(tracer: Tracer, tensor: Any) -> Any:
    if not isinstance(tensor, TensorValue):
        _refuse("detach_()")
    descriptor = tensor.ref(tracer).descriptor
    if descriptor.is_view or (tensor.is_input and not descriptor.is_leaf):
        _refuse("detach_()")
    if descriptor.requires_grad and descriptor.is_leaf:
        tensor.stop_gradients(tracer)
    elif descriptor.requires_grad:
        tensor.move_to(tracer, tracer.call_tensor_method("detach", (tensor,), {}).ref(tracer))
    return tensor


def with_leaf(tracer: Tracer, make: Any, kwargs: dict[str, Any]) -> Any:
    """The result of a function that makes a tensor, which is a leaf if `requires_grad` says so."""
    if "requires_grad" not in kwargs or not py.truth(tracer, kwargs["requires_grad"]):
        return make(kwargs)
    made = make({name: value for name, value in kwargs.items() if name != "requires_grad"})
    if not isinstance(made, TensorValue) or made.is_input:
        _refuse("requires_grad=True")
    return require_grad(tracer, made, True)
