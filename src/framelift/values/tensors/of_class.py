"""Tensors of a class of the program's own with a `__torch_function__`, or with none: Python around a plain tensor.

The graph has the plain tensor. Whoever does something with such a tensor asks its class first (`overrides`); what that
does in the end is done with the plain one. Classes with a `__torch_dispatch__` are in `values/subclasses/tensors.py`.
"""

from __future__ import annotations

import functools
import types
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, NoReturn

import torch
from torch._C import _disabled_torch_function_impl

from framelift.breaks import FL0306, FL0307, GraphBreak, Overridden
from framelift.graph.propagation.fake import opaque_kind
from framelift.guards.source import Source
from framelift.values.containers.dicts import MISSING, DictValue
from framelift.values.containers.namespaces import NamespaceValue
from framelift.values.core import protocol as py
from framelift.values.core.base import Value
from framelift.values.core.lookup import (
    Found,
    bind,
    class_lookup,
    flags_of,
    has_default,
    instance_dict,
    is_subclass,
    mro_of,
    name_of,
    note_if_data_descriptor,
    raw_lookup,
)
from framelift.values.core.methods import BoundBuiltin
from framelift.values.core.operator_methods import BINARY_METHODS, COMPARE_METHODS, INPLACE_METHODS, UNARY_METHODS
from framelift.values.core.primitives import primitive
from framelift.values.core.protocol import BINARY, COMPARE, UNARY
from framelift.values.core.refusals import Operation
from framelift.values.core.stand_ins import raise_no_attribute
from framelift.values.subclasses.tensors import dispatches, is_tensor_class
from framelift.values.tensors.overrides import UNASKED, ask, notice, plain
from framelift.values.tensors.tensors import TensorMethodValue, TensorValue

if TYPE_CHECKING:
    from framelift.values.core.emitter import Emitter
    from framelift.values.core.tracer import Tracer

_HEAPTYPE = 1 << 9
# What is of a tensor itself, and not of another one in its memory and its history.
OWN = frozenset(
    "grad _grad grad_fn is_leaf retains_grad _base _version output_nr requires_grad_ retain_grad register_hook "
    "register_post_accumulate_grad_hook backward detach_ set_ data_ptr _is_view _backward_hooks data".split()
)


def is_modelled(cls: type) -> bool:
    """Whether tensors of a class are plain tensors with Python around them."""
    return (
        is_tensor_class(cls)
        and not dispatches(cls)
        and not is_subclass(cls, torch.nn.parameter.UninitializedTensorMixin)
        and all(base in _KNOWN_BASES or flags_of(base) & _HEAPTYPE for base in mro_of(cls))
    )


_KNOWN_BASES = mro_of(torch.nn.Parameter)


def as_plain(tensor: Any) -> torch.Tensor:
    """The plain tensor in the memory of another, and with its history."""
    if not issubclass(type(tensor), torch.Tensor):
        raise TypeError(type(tensor))
    with torch._C.DisableTorchFunctionSubclass(), torch.enable_grad():
        return tensor.as_subclass(torch.Tensor)


def of_class(tensor: torch.Tensor, cls: type) -> torch.Tensor:
    """A result of the graph, which nobody else has, as a tensor of a class."""
    with torch._C.DisableTorchFunctionSubclass():
        try:
            tensor.__class__ = cls
        except TypeError:
            return tensor.as_subclass(cls)
        return tensor


def without_overrides(function: Callable[..., Any]) -> Callable[..., Any]:
    """A compiled graph, run where no class is asked: views of tensors of some class know these."""

    @functools.wraps(function)
    def run(*args: Any) -> Any:
        with torch._C.DisableTorchFunctionSubclass():
            return function(*args)

    return run


class TensorOfClassValue(Value):
    """A tensor of a class of the program's own; `tensor` is the plain one that the graph knows."""

    __slots__ = ("cls", "_tensor", "_namespace")
    assigns = ("_tensor", "_namespace")

    def __init__(
        self, cls: type, tensor: TensorValue | None, source: Source | None = None, concrete: Any = None
    ) -> None:
        super().__init__(source, concrete)
        self.cls = cls
        self._tensor = tensor
        self._namespace: Any = None

    @classmethod
    def from_input(cls, obj: Any, source: Source) -> Value:
        return cls(type(obj), None, source, obj)

    @classmethod
    def made(cls, tracer: Tracer, kind: type, tensor: TensorValue) -> TensorOfClassValue:
        """A tensor of a class in the place of one that the graph has just made."""
        notice(tracer)
        value = cls(kind, tensor)
        tracer.stands_for(tensor.ref(tracer), value)
        return value

    def python_type(self) -> type:
        return self.cls

    def is_exactly(self, cls: type) -> bool:
        return False

    def note_facts(self, tracer: Tracer) -> None:
        super().note_facts(tracer)
        notice(tracer)
        if not self.has_plain_attributes(tracer):
            raise GraphBreak(FL0306, type=name_of(self.cls))
        kind = opaque_kind(as_plain(self.concrete))
        if kind is not None:
            raise GraphBreak(FL0307, what=self.describe(), kind=kind)

    def has_plain_attributes(self, tracer: Tracer) -> bool:
        """Whether neither its class nor its attributes are what a method of the program's says."""
        claimed = class_lookup(tracer, self.cls, "__class__")
        answers = claimed is None or claimed.raw is not _CLASS
        return not answers and has_default(tracer, self.cls, "__getattribute__", object.__getattribute__)

    # -- what it is to torch ---------------------------------------------------------------------------------------

    def torch_rules(self, tracer: Tracer) -> type | None:
        if not tracer.modes.asks_classes or tracer.modes.without_overrides:
            return None
        found = class_lookup(tracer, self.cls, "__torch_function__")
        assert found is not None
        return None if found.raw is _disabled_torch_function_impl else self.cls

    def without_class(self, tracer: Tracer) -> TensorValue:
        if self._tensor is None:
            self.note(tracer)
            assert self.source is not None
            tensor: TensorValue = tracer.wrap(as_plain(self.concrete), self.source.child("AS_PLAIN", as_plain))
            tracer.stands_for(tensor.ref(tracer), self)
            self._tensor = tensor
        return self._tensor

    def graph_argument(self, tracer: Tracer) -> Any:
        if self.torch_rules(tracer) is not None:
            raise Overridden(name_of(self.cls))
        return self.without_class(tracer).graph_argument(tracer)

    def refuse_in_graph(self) -> NoReturn:
        raise Overridden(name_of(self.cls))

    def pin(self, tracer: Tracer) -> bool:
        if self.source is None:
            return False
        tracer.guard(self.source, "IS", self.concrete)
        return True

    def _ask(self, tracer: Tracer, function: Callable[..., Any], *args: Any) -> Any:
        """What torch's `function` gives for it, or UNASKED."""
        return ask(tracer, function, (self, *args), {})

    def _special(self, tracer: Tracer, name: str, *args: Any) -> Any:
        """What a special method that its class brings gives; UNASKED where that is torch's."""
        found = self._own(tracer, name)
        return UNASKED if found is None else py.call(tracer, bind(tracer, found, self, self.cls), list(args), {})

    def _own(self, tracer: Tracer, name: str) -> Found | None:
        """What its class has in the place of torch's attribute, or beside them."""
        found = class_lookup(tracer, self.cls, name)
        if found is None or any(found.raw is raw_lookup(base, name) for base in (torch.Tensor, torch.nn.Parameter)):
            return None
        return found

    def _do(self, tracer: Tracer, name: str, otherwise: Callable[..., Any], *args: Any) -> Any:
        """A special method: its class's own, or what torch's gives when its class was asked."""
        result = self._special(tracer, name, *args)
        if result is UNASKED:
            result = self._ask(tracer, getattr(torch.Tensor, name), *args)
        if result is UNASKED:
            return otherwise(self.without_class(tracer), *[plain(tracer, arg) for arg in args])
        return result

    # -- the protocol ----------------------------------------------------------------------------------------------

    def truth(self, tracer: Tracer) -> bool:
        return py.truth(tracer, self._do(tracer, "__bool__", lambda tensor: tensor.truth(tracer)))

    def length(self, tracer: Tracer) -> Any:
        return self._do(tracer, "__len__", lambda tensor: tensor.length(tracer))

    def ask_length(self, tracer: Tracer) -> None:
        self.length(tracer)

    def item(self, tracer: Tracer, key: Any) -> Any:
        return self._do(tracer, "__getitem__", lambda tensor, key: tensor.item(tracer, key), key)

    def set_item(self, tracer: Tracer, key: Any, value: Any) -> None:
        self._do(tracer, "__setitem__", lambda tensor, key, value: tensor.set_item(tracer, key, value), key, value)

    def iterate(self, tracer: Tracer) -> Any:
        result = self._special(tracer, "__iter__")
        if result is not UNASKED:
            return result
        if self.torch_rules(tracer) is None and not tracer.modes.functions:
            return self.without_class(tracer).iterate(tracer)
        return tracer.inline(tracer.known_object(torch.Tensor.__iter__), [self], {})

    def contains(self, tracer: Tracer, item: Any) -> Any:
        return self._do(tracer, "__contains__", lambda tensor, item: tensor.contains(tracer, item), item)

    def unary(self, tracer: Tracer, operator: str) -> Any:
        result = self._special(tracer, UNARY_METHODS[operator])
        if result is UNASKED:
            result = self._ask(tracer, UNARY[operator])
        return self.without_class(tracer).unary(tracer, operator) if result is UNASKED else result

    def number(self, tracer: Tracer, slot: str, *args: Any) -> Any:
        if raw_lookup(torch.Tensor, slot) is NotImplemented:
            return NotImplemented
        return self._do(tracer, slot, lambda tensor, *args: tensor.number(tracer, slot, *args), *args)

    def goes_first(self, operator: str, other: type) -> bool:
        name = BINARY_METHODS[operator][1]
        return raw_lookup(self.cls, name) is not raw_lookup(other, name)

    def binary(self, tracer: Tracer, operator: str, other: Any) -> Any:
        in_place = INPLACE_METHODS.get(operator)
        own = self._special(tracer, in_place or BINARY_METHODS[operator][0], other)
        if own is not UNASKED:
            return tracer.constant(own) if py.type_of(own) is type(NotImplemented) else own
        return self._by_torch(tracer, BINARY[operator], (self, other))

    def reflected(self, tracer: Tracer, operator: str, other: Any) -> Any:
        own = self._special(tracer, BINARY_METHODS[operator][1], other)
        if own is not UNASKED:
            return tracer.constant(own) if py.type_of(own) is type(NotImplemented) else own
        return self._by_torch(tracer, BINARY[operator], (other, self))

    def compare(self, tracer: Tracer, operator: str, other: Any) -> Any:
        own = self._special(tracer, COMPARE_METHODS[operator], other)
        if own is not UNASKED:
            return tracer.constant(own) if py.type_of(own) is type(NotImplemented) else own
        return self._by_torch(tracer, COMPARE[operator], (self, other))

    def _by_torch(self, tracer: Tracer, function: Callable[..., Any], operands: tuple[Any, Any]) -> Any:
        if not all(_is_operand(operand) for operand in operands):
            raise GraphBreak(FL0306, type=name_of(self.cls))
        result = ask(tracer, function, operands, {})
        if result is not UNASKED:
            return result
        return tracer.call_torch(function, tuple([plain(tracer, operand) for operand in operands]), {})

    # -- attributes ------------------------------------------------------------------------------------------------

    def attributes(self, tracer: Tracer) -> DictValue:
        """What the program hung on it, by name."""
        if self._namespace is None:
            if self.source is None:
                self._namespace = NamespaceValue(self)
            else:
                self._namespace = tracer.wrap(instance_dict(self.concrete), self.source.child("INSTANCE_DICT"))
        namespace: DictValue = self._namespace
        return namespace

    def attribute(self, tracer: Tracer, name: str) -> Any:
        if name == "__class__":
            return tracer.known_object(self.cls)
        if name == "__dict__":
            return self.attributes(tracer)
        found = class_lookup(tracer, self.cls, name)
        if found is not None and note_if_data_descriptor(tracer, found):
            if found.raw is raw_lookup(torch.Tensor, name):
                return self._of_torch(tracer, name, found.raw)
            return bind(tracer, found, self, self.cls)
        value = self.attributes(tracer).get_key(tracer, name)
        if value is not MISSING:
            return value
        if found is not None:
            if found.raw is raw_lookup(torch.Tensor, name) and name != "__torch_function__":
                return self._of_torch(tracer, name, found.raw)
            return bind(tracer, found, self, self.cls)
        fallback = class_lookup(tracer, self.cls, "__getattr__")
        if fallback is None:
            raise_no_attribute(self.cls, name)
        return py.call(tracer, bind(tracer, fallback, self, self.cls), [name], {})

    def _of_torch(self, tracer: Tracer, name: str, raw: Any) -> Any:
        """An attribute that every tensor has: of a method nobody is asked before it is called."""
        if type(raw) not in (types.GetSetDescriptorType, property):
            return TensorMethodValue(self, name)
        result = ask(tracer, getattr, (self, name), {})
        if result is not UNASKED:
            return result
        self.refuse_own(name)
        return self.without_class(tracer).attribute(tracer, name)

    def get_computed(self, tracer: Tracer, descriptor: Any) -> Any:
        return self._of_torch(tracer, descriptor.__name__, descriptor)

    def refuse_own(self, name: str) -> None:
        if name in OWN and self.source is not None:
            raise GraphBreak(FL0306, type=name_of(self.cls))

    def set_attribute(self, tracer: Tracer, name: str, value: Any) -> None:
        found = class_lookup(tracer, self.cls, name)
        plain_set = has_default(tracer, self.cls, "__setattr__", object.__setattr__)
        if not plain_set or (found is not None and note_if_data_descriptor(tracer, found)):
            self.refuse(Operation.SET_ATTRIBUTE, name=name)
        self.attributes(tracer).set_key(tracer, name, value)

    def delete_attribute(self, tracer: Tracer, name: str) -> None:
        if self.attributes(tracer).get_key(tracer, name) is MISSING:
            self.refuse(Operation.DELETE_ATTRIBUTE, name=name)
        self.attributes(tracer).delete_key(tracer, name)

    def has_flag(self, tracer: Tracer, name: str | None) -> bool:
        """`getattr(tensor, name, False)`, of the tensor itself."""
        if name is None or not tracer.has_attribute(self, name):
            return False
        return py.truth(tracer, py.attribute(tracer, self, name))

    # -- the way back ----------------------------------------------------------------------------------------------

    def parts(self) -> list[Any]:
        made = [] if self._tensor is None else [self._tensor]
        return made + ([self._namespace] if self._has_attributes else [])

    @property
    def _has_attributes(self) -> bool:
        return isinstance(self._namespace, NamespaceValue) and bool(self._namespace.overlay)

    def rebuild(self, emit: Emitter) -> None:
        emit.callable(of_class)
        emit.value(self._tensor)
        emit.known_object(self.cls)
        emit.call(2)
        emit.remember(self)
        if self._has_attributes:
            self._namespace.fill_real(emit)


_CLASS = object.__dict__["__class__"]
_NUMBERS = (int, float, bool, complex)


def _is_operand(value: Any) -> bool:
    """Whether torch's operators take something beside a tensor, or ask what it says."""
    if py.has_type(value, *_NUMBERS):
        return True
    return isinstance(value, Value) and (value.is_tensor or is_tensor_class(value.python_type()))


@primitive(torch.Tensor.as_subclass)
def _as_subclass(tracer: Tracer, tensor: Any, cls: Any) -> Any:
    kind = tracer.constant(cls) if not isinstance(cls, Value) else cls.concrete
    if not isinstance(tensor, TensorValue) or not isinstance(kind, type) or not is_tensor_class(kind):
        raise GraphBreak(FL0306, type=py.describe(cls))
    alias = tracer.call_torch(torch.ops.aten.alias.default, (tensor,), {})
    if kind is torch.Tensor:
        return alias
    if not is_modelled(kind) or is_subclass(kind, torch.nn.Parameter):
        raise GraphBreak(FL0306, type=name_of(kind))
    return TensorOfClassValue.made(tracer, kind, alias)


class UnwrappedValue(Value):
    """`get_default_nowrap_functions()`: a set of functions made anew whenever they are looked up."""

    __slots__ = ()

    def python_type(self) -> type:
        return set

    def contains(self, tracer: Tracer, item: Any) -> bool:
        if not isinstance(item, BoundBuiltin) or item.name != "__get__" or not isinstance(item.owner, Value):
            return False
        return any(item.owner.concrete is getattr(torch.Tensor, name) for name in ("_base", "grad", "_grad"))


@primitive(torch.overrides.get_default_nowrap_functions)
def _unwrapped(tracer: Tracer) -> UnwrappedValue:
    return UnwrappedValue()
