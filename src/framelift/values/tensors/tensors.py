"""Tensors: operations on them become nodes of the graph."""

from __future__ import annotations

import functools
import operator
from collections.abc import Callable
from types import FunctionType, GetSetDescriptorType
from typing import TYPE_CHECKING, Any, NoReturn

import torch
from torch._C._functorch import is_functorch_wrapped_tensor

from framelift.breaks import FL0107, FL0202, FL0301, FL0304, FL0307, GraphBreak
from framelift.graph import TensorRef
from framelift.graph.operations.derivatives import HOOKS_OF_LEAVES, retain_gradient
from framelift.graph.operations.indexing import element
from framelift.graph.propagation.fake import opaque_kind
from framelift.guards.source import Source
from framelift.models.tensors import assign_data
from framelift.native.torch.calibrate import tensor_spec
from framelift.silence import silence
from framelift.values.containers.dicts import MISSING, DictValue
from framelift.values.containers.iterators import SequenceIterator
from framelift.values.containers.namespaces import NamespaceValue
from framelift.values.core import protocol as py
from framelift.values.core.base import Value
from framelift.values.core.exceptions import raise_error
from framelift.values.core.lookup import bind, class_lookup, is_subclass, raw_lookup
from framelift.values.core.methods import BoundBuiltin
from framelift.values.core.operator_methods import BINARY_METHODS
from framelift.values.core.primitives import Arity, primitive, primitive_of
from framelift.values.core.protocol import BINARY, COMPARE, UNARY
from framelift.values.core.refusals import Operation
from framelift.values.core.stand_ins import raise_no_attribute
from framelift.values.numbers.numpy_numbers import NumpyNumberValue
from framelift.values.numbers.symbolic import SymbolicValue
from framelift.values.subclasses.tensors import has_rules
from framelift.values.tensors.data_dependent import as_number, is_position, item_of, narrow, part
from framelift.values.tensors.overrides import UNASKED, ask, plain_arguments
from framelift.values.tensors.sizes import size_in, size_method, size_of
from framelift.values.tensors.torch_functions import asks_first, call_method, is_of_torch

if TYPE_CHECKING:
    from framelift.values.core.emitter import Emitter
    from framelift.values.core.tracer import Tracer

# Facts the guard on a tensor's metadata covers: reading them needs no node.
_FACTS = frozenset(
    {"shape", "dtype", "device", "requires_grad", "is_leaf", "layout", "ndim", "is_cuda", "is_cpu", "is_meta"}
    | {"is_sparse", "is_quantized", "is_mkldnn", "is_mps", "is_xpu", "itemsize", "nbytes", "is_nested"}
)

# Facts it says also of a tensor that no graph holds.
_FACTS_OF_OPAQUE = _FACTS - {"is_leaf", "nbytes", "is_nested"}

# Attributes that compute a tensor.
_VIEWS = frozenset({"T", "H", "mT", "mH", "real", "imag", "data"})


# Whether a tensor belongs to a level of vmap, grad or vjp, also one that has ended: it has no storage of its own.

# torch's own mark_static_address() sets it; libraries call that for their caches.
_STATIC = "_dynamo_static_input_type"


def asking(functions: Any) -> Callable[[Any], Any]:
    """A method of TensorValue before which function modes are asked: of one function, or that of the operator."""
    by_name = functions if isinstance(functions, dict) else None

    def decorate(method: Any) -> Any:
        @functools.wraps(method)
        def asking(self: TensorValue, tracer: Tracer, *args: Any) -> Any:
            if tracer.modes.functions:
                operands = args if by_name is None else args[1:]
                if all(_is_operand(tracer, operand) for operand in operands) or by_name is None:
                    result = ask(tracer, functions if by_name is None else by_name[args[0]], (self, *operands), {})
                    if result is not UNASKED:
                        return result
            return method(self, tracer, *args)

        return asking

    return decorate


# The functions that ask a tensor for a number, by slot.
_SLOTS = {slot: getattr(torch.Tensor, slot) for slot in py.NUMBER_SLOTS if hasattr(torch.Tensor, slot)}
# Attributes of tensors that code of torch's reads, which asks before.
_READ_BY_TORCH = (GetSetDescriptorType, property)


class TensorValue(Value, models=(torch.Tensor, torch.nn.Parameter)):
    """A tensor of the graph, or an input that becomes one when it is first used."""

    is_tensor = True
    __slots__ = ("_ref", "_namespace", "_new_gradient", "_differentiable", "told", "told_since", "_new_hooks")
    assigns = ("_new_gradient", "_ref", "_differentiable", "source", "concrete", "told", "told_since", "_new_hooks")
    shared = False  # each graph output has a variable of its own

    def __init__(self, ref: TensorRef | None, source: Source | None = None, concrete: Any = None) -> None:
        super().__init__(source, concrete)
        self._ref = ref
        self._namespace: Any = None  # what the program hung on it
        self._new_gradient: Any = MISSING  # what the program assigned to `grad`
        self.told: tuple[Any, ...] = ()  # hooks of the program's that are to be told of its gradient
        self.told_since = 0  # the step that asked for it
        self._new_hooks: dict[str, Any] = {}  # tables of hooks that the program began
        self._differentiable: TensorRef | None = None  # what it was to the graph before it stopped requiring gradients

    @classmethod
    def from_input(cls, obj: Any, source: Source) -> Value:
        return cls(None, source, obj)

    def python_type(self) -> type:
        return torch.Tensor if self.source is None else type(self.concrete)

    def is_exactly(self, cls: type) -> bool:
        return issubclass(torch.Tensor, cls)

    def as_index(self, tracer: Tracer) -> Any:
        return as_number(tracer, self, "__index__")

    def describe(self) -> str:
        return "tensor" if self.source is None else f"tensor {self.source.name}"

    def note_facts(self, tracer: Tracer) -> None:
        assert self.source is not None
        if is_functorch_wrapped_tensor(self.concrete):
            raise GraphBreak(FL0202, type="the tensors inside of a function transform")
        kind = opaque_kind(self.concrete)
        if kind == "nested":
            super().note_facts(tracer)
            return
        self._ref = tracer.inputs.add_tensor(tracer, self) if kind is None else None
        layout = None if self._ref is None else self._ref.layout
        spec = self.concrete
        if layout is not None:  # symbolic sizes are what `Symbols` says about them
            sizes, strides = [tuple([_known(size) for size in part]) for part in layout]
            spec = tensor_spec(self.concrete)._replace(sizes=sizes, strides=strides)
        tracer.guard(self.source, "TENSOR", spec)

    @property
    def kind(self) -> str:
        """What an input is to the program; all but arguments are likely to be the same tensor in the next call."""
        assert self.source is not None
        if self.source.is_new:
            return "new"
        if isinstance(self.concrete, torch.nn.Parameter):
            return "parameter"
        if self.source.is_buffer:
            return "buffer"
        return "static" if _STATIC in object.__getattribute__(self.concrete, "__dict__") else "argument"

    def ref(self, tracer: Tracer) -> TensorRef:
        self.note(tracer)
        if self._ref is None:
            self._refuse_opaque()
        return self._ref

    def _refuse_opaque(self) -> NoReturn:
        raise GraphBreak(FL0307, what=self.describe(), kind=opaque_kind(self.concrete) or "wrapped")

    @property
    def is_as_it_came(self) -> bool:
        """Whether it is an input whose sizes the program has left alone."""
        ref = self._ref
        return self.source is not None and ref is not None and not ref.storage.changes

    @property
    def is_input(self) -> bool:
        return self.source is not None

    def offset(self, tracer: Tracer) -> Any:
        """Where it begins in its memory. For what lies in that of inputs, it is guarded where these begin."""
        ref = self.ref(tracer)
        if self.is_as_it_came:
            return self._given_offset(tracer)
        for given in ref.storage.refs:
            if given.record is None and given.example is not None:
                place = tracer.inputs.value_of(given.example)._given_offset(tracer)
                if given.descriptor.is_symbolic or isinstance(place, SymbolicValue):
                    raise GraphBreak(FL0304, what="storage_offset")  # fakes of such inputs begin anywhere
                tracer.constant(place)
        return call_method(tracer, "storage_offset", (self,), {})

    def _given_offset(self, tracer: Tracer) -> Any:
        """Where an input begins: a number of the call's, like any other."""
        assert self.source is not None
        if type(self.concrete) is not torch.Tensor and type(self.concrete) is not torch.nn.Parameter:
            raise GraphBreak(FL0304, what="storage_offset")
        return tracer.wrap(self.concrete.storage_offset(), self.source.child("OFFSET"))

    @property
    def is_new(self) -> bool:
        """Whether residual code makes it before the graph runs."""
        return self.source is not None and self.source.is_new

    @property
    def computed(self) -> TensorRef | None:
        """The graph's value, for tensors the graph computes."""
        return self._ref if self.source is None else None

    def graph_argument(self, tracer: Tracer) -> Any:
        return self.ref(tracer)

    def pin(self, tracer: Tracer) -> bool:
        if self.source is None:
            return False
        tracer.guard(self.source, "IS", self.concrete)
        return True

    # -- reading -------------------------------------------------------------------------------------------------

    @asking(torch.Tensor.__bool__)
    def truth(self, tracer: Tracer) -> bool:
        raise GraphBreak(FL0301, what=f"the truth of a {self.describe()}")

    @asking(torch.Tensor.__len__)
    def length(self, tracer: Tracer) -> Any:
        shape = self.ref(tracer).descriptor.shape
        if not shape:
            raise_error(TypeError, "len() of a 0-d tensor")
        return size_in(tracer, self, 0)

    def ask_length(self, tracer: Tracer) -> None:
        if tracer.modes.functions:
            self.length(tracer)

    def get_computed(self, tracer: Tracer, descriptor: Any) -> Any:
        is_of_torch = raw_lookup(torch.Tensor, descriptor.__name__) is descriptor
        return self.attribute(tracer, descriptor.__name__) if is_of_torch else NotImplemented

    def iterate(self, tracer: Tracer) -> Any:
        if tracer.modes.functions:
            return tracer.inline(tracer.known_object(torch.Tensor.__iter__), [self], {})
        if not self.ref(tracer).descriptor.shape:
            raise_error(TypeError, "iteration over a 0-d tensor")
        parts = tracer.call_tensor_method("unbind", (self, 0), {})
        return SequenceIterator(py.items(tracer, parts), type(iter(())))

    @asking(torch.Tensor.__getitem__)
    def item(self, tracer: Tracer, key: Any) -> Any:
        if tracer.modes.positions and is_position(tracer, key):
            indices = py.items(tracer, key) if py.type_of(key) is tuple else [key]
            return tracer.call_torch(element, (self, *indices), {})
        return tracer.call_torch(operator.getitem, part(tracer, self, key), {})

    @asking(torch.Tensor.__setitem__)
    def set_item(self, tracer: Tracer, key: Any, value: Any) -> None:
        if self._is_filled_by(tracer, key, value):
            tracer.call_tensor_method("masked_fill_", (self, key, value), {})
        else:
            tracer.call_torch(operator.setitem, (*part(tracer, self, key), value), {})

    def _is_filled_by(self, tracer: Tracer, key: Any, value: Any) -> bool:
        """Whether `self[key] = value` is about a tensor without dimensions, taken for a row of unknown length."""
        if not isinstance(key, TensorValue) or py.type_of(value) not in (int, float):
            return False
        mask, mine = key.ref(tracer).descriptor, self.ref(tracer).descriptor
        return (
            mask.dtype is torch.bool
            and mine.is_plain
            and not (mask.shape or mine.shape)
            and mine.dtype.is_floating_point
        )

    @asking(torch.Tensor.__contains__)
    def contains(self, tracer: Tracer, item: Any) -> Any:
        raise GraphBreak(FL0301, what="membership in a tensor")

    def attribute(self, tracer: Tracer, name: str) -> Any:
        if tracer.modes.functions and type(getattr(torch.Tensor, name, None)) in _READ_BY_TORCH:
            result = ask(tracer, getattr, (self, name), {})
            if result is not UNASKED:
                return result
        if name in _FACTS:
            return self._fact(tracer, name)
        if name == "__class__":
            return tracer.known_object(self.python_type())
        if name == "grad":
            return self._gradient(tracer)
        if name in HOOKS_OF_LEAVES and self.source is not None:
            return self._hooks(tracer, name)
        if name == "grad_fn":
            return None if self._fact(tracer, "is_leaf") else GradientFunctionValue()
        found = class_lookup(tracer, self.python_type(), name)
        if found is None:
            return self._user_attribute(tracer, name)
        if not _is_of_torch(found.raw):  # what the program hung on the class
            return bind(tracer, found, self, self.python_type())
        found.note_identity(tracer)
        if name in _VIEWS:
            return tracer.call_torch(getattr, (self, name), {})
        if type(found.raw) is FunctionType and found.raw is not getattr(torch.Tensor, name, None):
            return bind(tracer, found, self, self.python_type())  # parameters have some of their own
        if type(found.raw) is classmethod:
            return bind(tracer, found, self, self.python_type())
        if callable(found.raw):
            return TensorMethodValue(self, name)
        raise GraphBreak(FL0304, what=f"attribute {name!r}")

    def _fact(self, tracer: Tracer, name: str) -> Any:
        self.note(tracer)
        if self._ref is None and name in _FACTS_OF_OPAQUE and not self.concrete.is_nested:
            return getattr(self.concrete, name)
        ref = self.ref(tracer)
        descriptor = ref.descriptor
        if name in ("requires_grad", "is_leaf"):
            tracer.graph.history_questions += 1
        if name == "is_leaf":
            self._note_leaf(tracer)
        if name in ("requires_grad", "is_leaf") and tracer.graph.propagation.is_outdated(ref):
            raise GraphBreak(FL0304, what=f"{name!r}, after another in its memory was given a history,")
        if descriptor.is_symbolic and name in ("shape", "nbytes"):
            return size_of(tracer, self) if name == "shape" else tracer.call_torch(getattr, (self, name), {})
        if name in ("shape", "dtype", "device", "requires_grad", "is_leaf"):
            return getattr(descriptor, name)
        if name == "ndim":
            return len(descriptor.shape)
        return getattr(ref.fake, name)

    def _gradient(self, tracer: Tracer) -> Any:
        if self._new_gradient is not MISSING:
            return self._new_gradient
        if self.is_new or (self.source is None and self._has_no_gradient(tracer)):
            return None
        if self.source is None:
            self.refuse(Operation.ATTRIBUTE, name="grad")
        with silence():
            gradient = self.concrete.grad
        if gradient is None and not (
            self.concrete.is_leaf or self.concrete.retains_grad
        ):  # torch warns, guards and all
            self.refuse(Operation.ATTRIBUTE, name="grad")
        return tracer.wrap(gradient, self.source.child("GETATTR", "grad"))

    def _note_leaf(self, tracer: Tracer) -> None:
        """Guard what tells leaves from others that require gradients: metadata does not."""
        if self.source is not None and not self.is_new and self.concrete.requires_grad:
            tracer.guard(self.source.child("GETATTR", "is_leaf"), "IS", self.concrete.is_leaf)

    def _hooks(self, tracer: Tracer, name: str) -> Any:
        """A table of hooks."""
        if name in self._new_hooks:
            return self._new_hooks[name]
        assert self.source is not None
        return None if self.is_new else tracer.wrap(getattr(self.concrete, name), self.source.child("GETATTR", name))

    def _has_no_gradient(self, tracer: Tracer) -> bool:
        """Of a tensor that the graph computes: whether nobody gives it one, and torch does not warn of that."""
        is_leaf = not self._fact(tracer, "requires_grad")
        return is_leaf or any(ref is self._ref for ref in tracer.graph.prepared(retain_gradient))

    def _user_attribute(self, tracer: Tracer, name: str) -> Any:
        """Attributes a program hung on a tensor."""
        found = MISSING if self.is_new else self.attributes(tracer).get_key(tracer, name)
        if found is not MISSING:
            return found
        raise_no_attribute(self.python_type(), name)

    def attributes(self, tracer: Tracer) -> DictValue:
        """What the program hung on it, by name."""
        if self._namespace is None:
            if self.is_new:
                self.refuse("attributes, while it is new,")
            if self.source is None:
                self._namespace = NamespaceValue(self)
            else:
                self._namespace = tracer.wrap(self.concrete.__dict__, self.source.child("INSTANCE_DICT"))
        return self._namespace

    def set_attribute(self, tracer: Tracer, name: str, value: Any) -> None:
        if tracer.modes.functions and hasattr(torch.Tensor, name):
            self.refuse(Operation.SET_ATTRIBUTE, name=name)
        if name == "grad":
            self._set_gradient(tracer, value)
            return
        if name == "data":
            if isinstance(value, TensorValue) and self._lies_as(tracer, value):
                return  # as in `x.data -= y`, which has written to the memory of `x`
            py.call(tracer, tracer.known_object(assign_data), [self, value], {})
            return
        if name == "requires_grad":
            py.call(tracer, py.attribute(tracer, self, "requires_grad_"), [value], {})
            return
        if name in HOOKS_OF_LEAVES and self.source is not None and py.same(tracer, self._hooks(tracer, name), None):
            tracer.journal.touch(self)
            self._new_hooks = {**self._new_hooks, name: value}
            return
        if hasattr(torch.Tensor, name):
            self.refuse(Operation.SET_ATTRIBUTE, name=name)
        self.attributes(tracer).set_key(tracer, name, value)

    def delete_attribute(self, tracer: Tracer, name: str) -> None:
        if name != "grad":
            self.refuse(Operation.DELETE_ATTRIBUTE, name=name)
        self._set_gradient(tracer, None)

    def _lies_as(self, tracer: Tracer, other: TensorValue) -> bool:
        """Whether two tensors are the same place in the same memory."""
        mine, theirs = self.ref(tracer), other.ref(tracer)
        facts = ("shape", "stride", "offset", "dtype", "is_conj", "is_neg")
        same = all(getattr(mine.descriptor, fact) == getattr(theirs.descriptor, fact) for fact in facts)
        return mine.storage is theirs.storage and mine.descriptor.is_plain and same

    def _set_gradient(self, tracer: Tracer, value: Any) -> None:
        """Carried out after the graph; what torch would not accept is left to it."""
        fits = py.same(tracer, value, None) or (
            isinstance(value, TensorValue) and self._fits_as_gradient(tracer, value)
        )
        if self.source is None or not fits:
            self.refuse(Operation.SET_ATTRIBUTE, name="grad")
        self.note(tracer)
        self.take_gradient(tracer, value)

    def tell(self, tracer: Tracer, hook: Any) -> None:
        """Have a hook called when backward comes by."""
        tracer.journal.touch(self)
        self.told, self.told_since = (*self.told, hook), self.told_since or tracer.steps.count

    def tell_no_more(self, tracer: Tracer, hook: Any) -> None:
        """A hook was removed."""
        tracer.journal.touch(self)
        self.told = tuple([other for other in self.told if other is not hook])

    def take_gradient(self, tracer: Tracer, value: Any) -> None:
        """`grad` is known to be something else from here on."""
        tracer.journal.touch(self)
        self._new_gradient = value

    def _fits_as_gradient(self, tracer: Tracer, value: TensorValue) -> bool:
        mine, theirs = self.ref(tracer).descriptor, value.ref(tracer).descriptor
        same = all(getattr(mine, fact) == getattr(theirs, fact) for fact in ("shape", "dtype", "device"))
        return same and mine.is_plain and theirs.is_plain and value is not self

    # -- its own history -----------------------------------------------------------------------------------------

    def become_leaf(self, tracer: Tracer, source: Source, example: torch.Tensor) -> None:
        """From now on it is a tensor that residual code makes."""
        tracer.journal.touch(self)
        self.source, self.concrete = source, example
        self._ref = tracer.inputs.add_tensor(tracer, self)

    def move_to(self, tracer: Tracer, ref: TensorRef) -> None:
        """From now on the graph knows it by another value."""
        tracer.journal.touch(self)
        self._ref = ref

    def stop_gradients(self, tracer: Tracer) -> None:
        """`requires_grad_(False)` of an input that is a leaf: done after the graph, which uses it detached."""
        assert self.source is not None
        detached = tracer.call_tensor_method("detach", (self,), {}).ref(tracer)
        tracer.journal.touch(self)
        self._differentiable, self._ref = self._ref, detached

    def restore_gradients(self, tracer: Tracer) -> bool:
        """`requires_grad_()` of an input that required them before; False where it did not."""
        if self._differentiable is None:
            return False
        tracer.journal.touch(self)
        self._ref, self._differentiable = self._differentiable, None
        return True

    def replay(self, emit: Emitter) -> None:
        if self._differentiable is not None:
            emit.constant(False)
            emit.source(self.source)
            emit.store_attribute("requires_grad")
        if self._new_gradient is not MISSING:
            emit.value(self._new_gradient)
            emit.source(self.source)
            emit.store_attribute("grad")
        for name, hooks in self._new_hooks.items():
            emit.value(hooks)
            emit.source(self.source)
            emit.store_attribute(name)

    # -- operators -----------------------------------------------------------------------------------------------

    @asking(UNARY)
    def unary(self, tracer: Tracer, operator: str) -> Any:
        return tracer.call_torch(UNARY[operator], (self,), {})

    @asking(_SLOTS)
    def number(self, tracer: Tracer, slot: str, *args: Any) -> Any:
        function = _NUMBER_FUNCTIONS.get(slot)
        if function is not None:
            return tracer.call_torch(function, (self,), {"decimals": args[0]} if args else {})
        return as_number(tracer, self, slot) if slot in ("__int__", "__float__") else NotImplemented

    @asking(BINARY)
    def binary(self, tracer: Tracer, operator: str, other: Any) -> Any:
        if isinstance(other, NumpyNumberValue) and other.plain is not None:
            other = other.plain  # here torch takes it for that
        if operator in _UNKNOWN or not _is_operand(tracer, other):
            return NotImplemented
        return tracer.call_torch(BINARY[operator], (self, other), {})

    def reflected(self, tracer: Tracer, operator: str, other: Any) -> Any:
        if tracer.modes.functions and operator not in _UNKNOWN and _is_operand(tracer, other):
            result = ask(tracer, BINARY[operator], (other, self), {})
            if result is not UNASKED:
                return result
        if operator in _UNKNOWN or not _is_operand(tracer, other):
            return NotImplemented
        return tracer.call_torch(BINARY[operator], (other, self), {})

    @asking(COMPARE)
    def compare(self, tracer: Tracer, operator: str, other: Any) -> Any:
        if not _is_operand(tracer, other):
            return NotImplemented
        return tracer.call_torch(COMPARE[operator], (self, other), {})

    @property
    def has_attributes(self) -> bool:
        """Whether the program hung something on a tensor that the graph computes."""
        return isinstance(self._namespace, NamespaceValue) and bool(self._namespace.overlay)

    def parts(self) -> list[Any]:
        return [*([self._namespace] if self.has_attributes else ()), *self._new_hooks.values()]

    def rebuild(self, emit: Emitter) -> None:
        if self._ref is not None and self._ref.record is not None and self._ref.record.is_cut:
            raise GraphBreak(FL0107, what="a tensor of a function's inside")
        if self.source is None and self._new_gradient is not MISSING:
            raise GraphBreak(FL0107, what="a tensor that keeps a gradient")
        emit.graph_output(self)
        if self.has_attributes:
            emit.remember(self)
            self._namespace.fill_real(emit)


_NUMBERS = (int, float, complex)
_UNKNOWN = frozenset(symbol for symbol, (name, _) in BINARY_METHODS.items() if not hasattr(torch.Tensor, name))


def _is_operand(tracer: Tracer, other: Any) -> bool:
    """Whether torch's operators take `other` beside a tensor: numbers of classes of one's own as well."""
    if py.has_type(other, int, float, bool, complex) or isinstance(other, TensorValue):
        return True
    if has_rules(tracer, other):
        return True
    return isinstance(other, Value) and any(is_subclass(py.type_of(other), number) for number in _NUMBERS)


def _is_of_torch(raw: Any) -> bool:
    """Whether an attribute of the class was there before a program added its own."""
    function = raw.fget if type(raw) is property else raw
    return type(function) is not FunctionType or is_of_torch(function)


def _known(size: Any) -> int | None:
    return size if type(size) is int else None


# What torch computes where a builtin function asks for the slot.
_NUMBER_FUNCTIONS = {"__abs__": torch.abs, "__round__": torch.round}


class GradientFunctionValue(Value):
    """`grad_fn` of a tensor that was computed from others: that there is one is all that is known."""

    __slots__ = ()

    def python_type(self) -> type:
        return torch.autograd.graph.Node


class TensorMethodValue(BoundBuiltin):
    """A method of torch.Tensor, bound to a tensor."""

    __slots__ = ()

    def python_type(self) -> type:
        return type(torch.Tensor.add.__get__(torch.empty(0)))

    def call(self, tracer: Tracer, args: list[Any], kwargs: dict[str, Any]) -> Any:
        if tracer.modes.has_overrides:
            method = getattr(torch.Tensor, self.name)
            result = ask(tracer, method, [self.owner, *args], kwargs) if asks_first(method) else UNASKED
            if result is not UNASKED:
                return result
            self.owner.refuse_own(self.name)
            args, kwargs = plain_arguments(tracer, args, kwargs)
            return TensorMethodValue(self.owner.without_class(tracer), self.name)._call(tracer, args, kwargs)
        return self._call(tracer, args, kwargs)

    def _call(self, tracer: Tracer, args: list[Any], kwargs: dict[str, Any]) -> Any:
        if self.name == "__iter__" and not args and not kwargs:
            return self.owner.iterate(tracer)
        if self.name == "size" and self.owner.ref(tracer).descriptor.is_symbolic and _SIZE(args, kwargs):
            return size_method(tracer, self.owner, *args, **kwargs)
        model = primitive_of(getattr(torch.Tensor, self.name))
        if model is not None:
            return model(tracer, [self.owner, *args], kwargs)
        if self.name == "item" and not args and not kwargs:
            return item_of(tracer, self.owner)
        if self.name == "narrow" and len(args) == 3 and not kwargs:
            return narrow(tracer, self.owner, *args)
        return call_method(tracer, self.name, (self.owner, *args), kwargs)


_SIZE = Arity(size_method, 2)


@primitive(torch.Tensor.storage_offset)
def _storage_offset(tracer: Tracer, tensor: Any) -> Any:
    return tensor.offset(tracer) if isinstance(tensor, TensorValue) else tensor.refuse("storage_offset()")
