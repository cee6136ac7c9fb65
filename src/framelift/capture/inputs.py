"""Objects of the user's that a capture comes across, and the values that stand for them.

An object is one value however often it is reached. Tensors become inputs of the graph when an operation takes them;
sizes and numbers become inputs, as symbols, where the policy says that they change.
"""

from __future__ import annotations

import math
import types
from collections.abc import Iterator
from typing import Any

import torch

import framelift.values.families  # noqa: F401  (registers what nothing names)
from framelift.breaks import FL0110, FL0202, GraphBreak
from framelift.capture.interpreter.tracing import GraphValues
from framelift.graph import NumberRef, TensorRef
from framelift.guards.quantity import Calculated, Quantity
from framelift.guards.source import Source
from framelift.native import _core
from framelift.shapes.history import Policy
from framelift.shapes.marks import marks_of
from framelift.shapes.symbols import Layout
from framelift.values.containers.structs import StructSequenceValue, is_struct_class
from framelift.values.core.base import MODELS, Value
from framelift.values.core.lookup import container_base, is_plain_class, name_of, scalar_base
from framelift.values.core.tracer import Tracer
from framelift.values.numbers.scalars import ScalarValue
from framelift.values.numbers.symbolic import SymbolicValue
from framelift.values.objects.classes import ClassValue
from framelift.values.objects.input_exceptions import GivenExceptionValue
from framelift.values.objects.instances import OpaqueValue, UserObjectValue
from framelift.values.objects.modules import ModuleObjectValue
from framelift.values.stdlib.enum import EnumValue
from framelift.values.stdlib.functools.partial import PartialValue, partial_base
from framelift.values.stdlib.io import TextStreamValue, stream_base
from framelift.values.stdlib.threading.local import ThreadLocalObjectValue, is_thread_local_class
from framelift.values.stdlib.weakref import WeakReferenceValue, is_reference_class
from framelift.values.subclasses.containers import ContainerObjectValue
from framelift.values.subclasses.scalars import ScalarObjectValue
from framelift.values.subclasses.tensors import TensorSubclassValue, is_tensor_class
from framelift.values.subclasses.tuples import TupleObjectValue, is_tuple_class
from framelift.values.tensors.of_class import TensorOfClassValue, is_modelled
from framelift.values.tensors.tensors import TensorValue
from framelift.values.tensors.wrappers import WrapperTensorValue, is_wrapper
from framelift.values.torch.autograd.handles import HookNumber, counts_hooks


class Inputs:
    """The values of input objects, and which of them are inputs of the graph."""

    def __init__(self, policy: Policy, graph_values: GraphValues) -> None:
        self._graph_values = graph_values
        # Which sizes and numbers are symbolic.
        self.policy = policy
        # The tensors that are inputs of the graph, by the identity of their ref.
        self.tensors: dict[int, TensorValue] = {}
        # Those that were taken for different keys because they are different objects, by the identity of the value.
        self.keyed: dict[int, Value] = {}
        self._arrays: list[TensorValue] = []
        self._values: dict[int, Value] = {}
        # Objects that somebody else may change before the program would see them, by identity.
        self._avoided: dict[int, Any] = {}
        self._numbers: dict[Quantity, SymbolicValue] = {}
        self._items: dict[Any, SymbolicValue] = {}
        self._calculated: dict[Any, SymbolicValue] = {}
        self._origins: dict[int, Quantity | Calculated] = {}

    # -- objects ---------------------------------------------------------------------------------------------------

    def wrap(self, lift: Tracer, obj: Any, source: Source) -> Any:
        """The value of an input object. Reaching an object twice is a fact to guard."""
        kind = type(obj)
        model = MODELS.get(id(kind))
        if model is ScalarValue:
            return self._wrap_scalar(lift, obj, source)
        if self._avoided and id(obj) in self._avoided:
            raise GraphBreak(FL0110, what=f"an object of type {name_of(kind)}")
        known = self._values.get(id(obj))
        if known is not None and known.concrete is obj:
            _note_alias(lift, known, source)
            return known
        if model is None:
            model = EnumValue if _core.is_enum_member(obj) else _family(kind)
        value = model.from_input(obj, source)
        value.noted = value.noted or source.access == "KNOWN"
        self._values[id(obj)] = value
        return value

    def avoid(self, obj: Any) -> None:
        """Have the program stop where it comes across an object."""
        self._avoided[id(obj)] = obj

    def release(self) -> None:
        """Let go of the objects: values know one another, in cycles that stay until the collector comes."""
        for value in self._values.values():
            value.drop()

    def value_of(self, obj: Any) -> Any:
        """The value of an object that the program came across; None: it did not."""
        return self._values.get(id(obj))

    def of_type(self, kind: type) -> Iterator[Value]:
        """The input objects of exactly that type."""
        return (value for value in self._values.values() if type(value.concrete) is kind)

    def lasting(self) -> Iterator[Value]:
        """Inputs that nothing the program does can drop: namespaces of modules, classes, what their functions know."""
        kept = ("KNOWN", "MODULE_DICT")
        return (value for value in self._values.values() if value.source is not None and value.source.access in kept)

    # -- numbers ---------------------------------------------------------------------------------------------------

    def _wrap_scalar(self, lift: Tracer, obj: Any, source: Source) -> Value:
        if type(obj) is int and counts_hooks(source):
            lift.guard(source, "TYPE", int)
            return HookNumber(source)
        if type(obj) in (int, float) and self.policy.considers_numbers:
            symbolic = self.symbolic_number(lift, Quantity(source, "VALUE"), obj)
            if symbolic is not None:
                return symbolic
        return ScalarValue(source, obj)

    def symbolic_number(self, lift: Tracer, quantity: Quantity, number: Any) -> SymbolicValue | None:
        """A number of an input as a symbol, if the policy wants it to be one."""
        known = self._numbers.get(quantity)
        if known is not None:
            return known
        name = quantity.name
        if not self.policy.considers_numbers or not self.policy.is_symbolic(name, number):
            return None
        if quantity.kind == "VALUE":
            lift.guard(quantity.source, "TYPE", type(number))
        symbolic = lift.graph.symbols.number(number, quantity, name)
        ref = lift.graph.add_number(symbolic, number, name)
        value = SymbolicValue(ref, quantity, quantity.source if quantity.kind == "VALUE" else None)
        self._graph_values.remember(ref, value)
        self._numbers[quantity] = value
        self._origins[id(ref)] = quantity
        return value

    def item_number(self, lift: Tracer, quantity: Quantity, number: float) -> SymbolicValue | None:
        """The number in a tensor of the host as a symbol; equal ones are presumed to stay so."""
        known = self._numbers.get(quantity)
        if known is not None:
            return known
        name = quantity.name
        if not self.policy.can_be_symbolic(name, number):
            return None
        # (What has another name in its object is equal by chance.)
        place = quantity.source.argument if type(quantity.source.argument) is str else None
        key = number, math.copysign(1.0, number), quantity.dim, place
        first = self._items.get(key)
        if first is not None and self.policy.go_together(quantity.name, first.words):
            lift.graph.symbols.another(first.ref(lift).known_fake, quantity, name)
            self._numbers[quantity] = first
            return first
        symbolic = lift.graph.symbols.item(number, quantity, name)
        ref = lift.graph.add_number(symbolic, number, name)
        value = self._numbers[quantity] = self._items[key] = SymbolicValue(ref, quantity)
        self._graph_values.remember(ref, value)
        self._origins[id(ref)] = quantity
        return value

    def calculated_number(self, lift: Tracer, calculated: Calculated, number: Any) -> SymbolicValue | None:
        """A number that is calculated from others, before the graph runs; None if it cannot be a symbol."""
        known = self._calculated.get(calculated.key)
        if known is not None:
            return known
        name = calculated.name
        if not self.policy.can_be_symbolic(name, number):
            return None
        args = [arg.ref(lift).known_fake if isinstance(arg, SymbolicValue) else arg for arg in calculated.args]
        symbolic = lift.graph.symbols.calculated(number, name, calculated.function, args)
        ref = lift.graph.add_number(symbolic, number, name)
        value = self._calculated[calculated.key] = SymbolicValue(ref, calculated)
        self._graph_values.remember(ref, value)
        self._origins[id(ref)] = calculated
        return value

    @property
    def calculations(self) -> list[Calculated]:
        """The numbers that are calculated, each after those it is calculated from."""
        return [value.origin for value in self._calculated.values() if isinstance(value.origin, Calculated)]

    # -- tensors ---------------------------------------------------------------------------------------------------

    def add_tensor(self, lift: Tracer, value: TensorValue) -> TensorRef:
        """Make a tensor an input of the graph."""
        source = value.source
        assert source is not None
        if not source.is_new:
            self._check_arrays(value, source)
        layout = self._layout(lift, value.concrete, source)
        ref = lift.graph.add_input(None, value.concrete, source.name, value.kind, layout)
        self.tensors[id(ref)] = value
        self._graph_values.remember(ref, value)
        return ref

    def _check_arrays(self, value: TensorValue, source: Source) -> None:
        """Which tensors share memory the graph learns from their storages, and arrays have none of torch's."""
        is_array = source.access == "AS_TENSOR"
        others = list(self.tensors.values()) if is_array else self._arrays
        if any(_core.tensors_overlap(value.concrete, other.concrete) for other in others):
            raise GraphBreak(FL0202, type="an array in the memory of another input")
        if is_array:
            self._arrays.append(value)

    def _layout(self, lift: Tracer, tensor: torch.Tensor, source: Source) -> Layout | None:
        """Sizes and strides of an input, if some of them are symbolic. Those of parameters are part of a model."""
        if source.is_new or type(tensor) is not torch.Tensor or not _is_static_and_strided(tensor):
            return None
        dimensions = self.policy.dimensions(source.name, tuple(tensor.shape), marks_of(tensor))
        free_strides = self.policy.free_strides(source.name, tensor.stride())
        if not dimensions and not free_strides:
            return None

        def origin_of(kind: str, dim: int) -> tuple[Quantity, str]:
            quantity = Quantity(source, kind, dim)
            return quantity, quantity.name

        return lift.graph.symbols.layout(tensor.shape, tensor.stride(), dimensions, free_strides, origin_of)

    def origin(self, ref: TensorRef | NumberRef) -> Quantity | Calculated:
        """Where an input of the graph comes from."""
        if isinstance(ref, NumberRef):
            return self._origins[id(ref)]
        return Quantity(self.source(ref), "VALUE")

    def source(self, ref: TensorRef | NumberRef) -> Source:
        """Where a tensor that is an input of the graph is found."""
        source = self.tensors[id(ref)].source
        assert source is not None
        return source


def _note_alias(lift: Tracer, value: Value, source: Source) -> None:
    known = value.source
    assert known is not None
    if source is known:
        return
    if source.access == "KNOWN":
        lift.guard(known, "IS", value.concrete)
    elif known.access == "KNOWN":
        lift.guard(source, "IS", value.concrete)
    else:
        lift.guards.relate("SAME", (known, source))


def _family(kind: type) -> type[Value]:
    """The value class for types that are not modelled one by one."""
    if issubclass(kind, type):
        return ClassValue
    if stream_base(kind) is not None:
        return TextStreamValue
    if issubclass(kind, types.ModuleType):
        return ModuleObjectValue
    if is_plain_class(kind):
        return UserObjectValue
    if is_tensor_class(kind):
        if is_modelled(kind):
            return TensorOfClassValue
        return WrapperTensorValue if is_wrapper(kind) else TensorSubclassValue
    if issubclass(kind, BaseException):
        return GivenExceptionValue
    if is_struct_class(kind):
        return StructSequenceValue
    if is_tuple_class(kind):
        return TupleObjectValue
    if scalar_base(kind) is not None:
        return ScalarObjectValue
    if container_base(kind) is not None:
        return ContainerObjectValue
    if is_thread_local_class(kind):
        return ThreadLocalObjectValue
    if partial_base(kind) is not None:
        return PartialValue
    if is_reference_class(kind):
        return WeakReferenceValue
    return OpaqueValue


def _is_static_and_strided(tensor: torch.Tensor) -> bool:
    """Whether sizes and strides say all about where the elements of a tensor are."""
    return (
        tensor.layout is torch.strided
        and not (tensor.is_nested or tensor.is_quantized or tensor.is_conj() or tensor.is_neg())
        and not tensor._has_symbolic_sizes_strides
    )
