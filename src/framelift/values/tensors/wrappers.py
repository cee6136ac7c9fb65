"""Tensors with a `__torch_dispatch__` that wrap others: Python objects with the metadata of a tensor.

What such a class makes of an operation is told by torch's dispatcher itself: it runs the operation on empty wrappers of
the same metadata (`_Probe`), and each operator that arrives below is handed to the class's method, traced like all code
of the program's. So the graph has the tensors inside only, and compilers see no class. Derivatives are above the
dispatcher: where they are wanted, Python runs the operation.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from types import CodeType, FunctionType
from typing import TYPE_CHECKING, Any, NamedTuple

import torch
from torch._C import _disabled_torch_function_impl
from torch.utils._python_dispatch import return_and_correct_aliasing

from framelift.breaks import FL0306, GraphBreak
from framelift.guards.source import Source
from framelift.native.torch.calibrate import tensor_spec
from framelift.silence import silence
from framelift.values.containers.dicts import DictValue
from framelift.values.containers.sequences import ListValue, SequenceValue
from framelift.values.containers.slices import SliceValue
from framelift.values.containers.structs import StructSequenceValue, is_result_class
from framelift.values.core import protocol as py
from framelift.values.core.base import Raised, Value
from framelift.values.core.constants import is_constant
from framelift.values.core.construct import from_constant, make_tuple
from framelift.values.core.lookup import class_lookup, is_subclass, name_of, raw_lookup
from framelift.values.core.primitives import primitive
from framelift.values.subclasses.tensors import dispatches, is_tensor_class
from framelift.values.tensors.of_class import OWN, TensorOfClassValue
from framelift.values.tensors.overrides import notice
from framelift.values.tensors.tensors import TensorValue
from framelift.values.tensors.torch_functions import NOT_METHODS

if TYPE_CHECKING:
    from framelift.values.core.emitter import Emitter
    from framelift.values.core.tracer import Tracer

# What has such a tensor answer for its own metadata, by the program's code.
_POLICIES = frozenset({"dispatch_sizes_strides_policy", "dispatch_device", "dispatch_layout"})


class Layout(NamedTuple):
    """What a wrapper says of itself."""

    size: tuple[int, ...]
    strides: tuple[int, ...]
    offset: int
    dtype: torch.dtype
    device: torch.device
    requires_grad: bool

    def make(self, kind: type) -> torch.Tensor:
        """An empty tensor of a class that says the same."""
        with torch._C.DisableTorchFunctionSubclass():
            made: torch.Tensor = torch.Tensor._make_wrapper_subclass(
                kind,
                self.size,
                strides=self.strides,
                storage_offset=self.offset,
                dtype=self.dtype,
                device=self.device,
            )
        return made


def layout_of(tensor: torch.Tensor) -> Layout:
    with torch._C.DisableTorchFunctionSubclass():
        return Layout(
            tuple(tensor.size()),
            tuple(tensor.stride()),
            tensor.storage_offset(),
            tensor.dtype,
            tensor.device,
            tensor.requires_grad,
        )


def make_wrapper(
    kind: type, size: Any, strides: Any, offset: int, dtype: torch.dtype, device: torch.device
) -> torch.Tensor:
    """A wrapper without contents."""
    return Layout(size, strides, offset, dtype, device, requires_grad=False).make(kind)


def is_wrapper(cls: type) -> bool:
    """Whether tensors of a class say what they wrap, and nothing else about themselves than other tensors do."""
    if not dispatches(cls) or raw_lookup(cls, "__tensor_flatten__") is NotImplemented or _is_of_torch(cls):
        return False
    return not any(_names(function, _POLICIES) for function in _functions(cls, "__new__"))


def _is_of_torch(cls: type) -> bool:
    """Whether a class is one of those whose methods are made for torch's own compiler."""
    return any(str(base.__dict__.get("__module__")).startswith(_OF_TORCH) for base in cls.__mro__)


_OF_TORCH = ("torch.nested", "torch.distributed", "torch._subclasses", "torch.sparse", "torch.masked")


def _functions(cls: type, name: str) -> list[FunctionType]:
    found = getattr(raw_lookup(cls, name), "__func__", None)
    return [found] if type(found) is FunctionType else []


def _names(function: FunctionType, words: frozenset[str]) -> bool:
    pending: list[Any] = [function.__code__]
    while pending:
        item = pending.pop()
        if type(item) is CodeType:
            pending += [*item.co_consts, *item.co_names]
        elif type(item) is tuple:
            pending += item
        elif type(item) is str and item in words:
            return True
    return False


class WrapperTensorValue(TensorOfClassValue):
    """A wrapper; the tensors inside are attributes of it."""

    __slots__ = ("layout",)
    is_wrapper = True

    def __init__(self, cls: type, layout: Layout, source: Source | None = None, concrete: Any = None) -> None:
        super().__init__(cls, None, source, concrete)
        self.layout = layout

    @classmethod
    def from_input(cls, obj: Any, source: Source) -> Value:
        return cls(type(obj), layout_of(obj), source, obj)

    def note_facts(self, tracer: Tracer) -> None:
        assert self.source is not None
        tracer.guard(self.source, "TENSOR", tensor_spec(self.concrete))
        notice(tracer)
        if not self.has_plain_attributes(tracer):
            raise GraphBreak(FL0306, type=name_of(self.cls))
        if self.concrete.layout is not torch.strided or torch._C._functorch.is_functorch_wrapped_tensor(self.concrete):
            raise GraphBreak(FL0306, type=name_of(self.cls))

    def without_class(self, tracer: Tracer) -> Any:
        return self

    def graph_argument(self, tracer: Tracer) -> Any:
        self.refuse_in_graph()

    def dispatch(
        self, tracer: Tracer, function: Callable[..., Any], args: Sequence[Any], kwargs: Mapping[str, Any]
    ) -> Any:
        return Dispatch(tracer).of(function, args, kwargs)

    def iterate(self, tracer: Tracer) -> Any:
        is_asked = self.torch_rules(tracer) is not None or tracer.modes.functions
        if is_asked or self._own(tracer, "__iter__") is not None or not self.layout.size:
            return super().iterate(tracer) if self.layout.size else self.refuse("iteration")
        return py.iterate(tracer, self.dispatch(tracer, torch.Tensor.unbind, (self, 0), {}))

    def _of_torch(self, tracer: Tracer, name: str, raw: Any) -> Any:
        if name == "requires_grad" and self.torch_rules(tracer) is None and not tracer.modes.functions:
            return self.layout.requires_grad
        if name in ("grad", "grad_fn", "is_leaf", "data"):
            raise GraphBreak(FL0306, type=name_of(self.cls))
        return super()._of_torch(tracer, name, raw)

    def rebuild(self, emit: Emitter) -> None:
        emit.callable(make_wrapper)
        emit.known_object(self.cls)
        for fact in self.layout[:-1]:
            emit.value(fact)
        emit.call(len(self.layout))
        emit.remember(self)
        if self._has_attributes:
            self._namespace.fill_real(emit)


class _Probe(torch.Tensor):
    """Stands for a tensor below the dispatcher; the class itself for a plain one."""

    dispatch: Dispatch

    __torch_function__ = _disabled_torch_function_impl

    @classmethod
    def __torch_dispatch__(cls, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        tensors = torch.utils._pytree.tree_leaves((args, kwargs))
        dispatch = next(tensor.dispatch for tensor in tensors if isinstance(tensor, _Probe))
        return dispatch.arrived(func, types, args, kwargs or {})


_WRITES_LAYOUT = (torch.Tag.inplace_view,)


class Dispatch:
    """One operation on wrappers, run by torch's dispatcher on probes."""

    def __init__(self, tracer: Tracer) -> None:
        self._tracer = tracer
        self._kinds: dict[type, type] = {}  # of the program's -> of the probes
        self._probes: dict[int, tuple[Value, torch.Tensor]] = {}
        self._values: dict[int, tuple[torch.Tensor, Value]] = {}

    def of(self, function: Callable[..., Any], args: Sequence[Any], kwargs: Mapping[str, Any]) -> Any:
        """The operation's result."""
        if function is getattr:
            name = args[1]
        else:
            name = getattr(function, "__name__", "")
        if name in OWN or (name in NOT_METHODS and function is not getattr):
            raise GraphBreak(FL0306, type=py.describe(args[0]))
        given = [self._there(arg) for arg in args], {name: self._there(arg) for name, arg in kwargs.items()}
        self._refuse_derivatives()
        try:
            with silence(), torch._C.DisableTorchFunctionSubclass():
                result = function(*given[0], **given[1])
        except (GraphBreak, Raised):
            raise
        except (RuntimeError, TypeError, ValueError, IndexError, NotImplementedError, AttributeError) as error:
            raise GraphBreak(FL0306, type=self._words) from error
        self._refuse_derivatives()
        return self._back(result)

    @property
    def _words(self) -> str:
        return " and ".join(map(name_of, self._kinds)) or "an operand"

    def _refuse_derivatives(self) -> None:
        """What has a gradient is dealt with above the dispatcher."""
        if not torch.is_grad_enabled():
            return
        wrappers = [value for value, _ in self._probes.values() if isinstance(value, WrapperTensorValue)]
        has_history = any(ref.requires_grad for ref in self._tracer.graph.inputs)
        if has_history or any(wrapper.layout.requires_grad for wrapper in wrappers):
            raise GraphBreak(FL0306, type=self._words)

    # -- below the dispatcher --------------------------------------------------------------------------------------

    def arrived(self, func: Any, types: Sequence[type], args: Any, kwargs: Mapping[str, Any]) -> Any:
        """An operator arrived that was called with probes: what the classes make of it."""
        tracer = self._tracer
        if any(tag in func.tags for tag in _WRITES_LAYOUT):
            raise GraphBreak(FL0306, type=self._words)
        kinds = [kind for mirror in types for kind, known in self._kinds.items() if known is mirror]
        values = [self._back(arg) for arg in args], {name: self._back(arg) for name, arg in kwargs.items()}
        if not kinds:
            return self._there(tracer.call_torch(func, tuple(values[0]), values[1]))
        given = [tracer.known_object(func), make_tuple([tracer.known_object(kind) for kind in kinds])]
        given += [make_tuple(values[0]), DictValue(values[1])]
        for kind in kinds:
            rules = class_lookup(tracer, kind, "__torch_dispatch__")
            if rules is None or isinstance(rules.raw, FunctionType):
                raise GraphBreak(FL0306, type=name_of(kind))
            method = py.attribute(tracer, tracer.known_object(kind), "__torch_dispatch__")
            result = py.call(tracer, method, list(given), {})
            if py.type_of(result) is not type(NotImplemented):
                return self._there(result)
        raise GraphBreak(FL0306, type=self._words)

    def _there(self, value: Any) -> Any:
        """What stands for a value."""
        tracer = self._tracer
        if not isinstance(value, Value):
            return value
        value.note(tracer)
        if isinstance(value, TensorValue | WrapperTensorValue):
            return self._probe(value)
        if isinstance(value, SequenceValue):
            items = [self._there(item) for item in value.items(tracer)]
            return items if isinstance(value, ListValue) else tuple(items)
        if isinstance(value, SliceValue):
            return slice(*[self._there(bound) for bound in value.bounds(tracer)])
        if isinstance(value, TensorOfClassValue):
            raise GraphBreak(FL0306, type=name_of(value.cls))
        return tracer.constant(value)

    def _probe(self, value: TensorValue | WrapperTensorValue) -> torch.Tensor:
        known = self._probes.get(id(value))
        if known is not None:
            return known[1]
        if isinstance(value, WrapperTensorValue):
            made = value.layout.make(self._mirror(value.cls))
        else:
            made = self._layout_of(value).make(_Probe)
        made.dispatch = self
        self._probes[id(value)], self._values[id(made)] = (value, made), (made, value)
        return made

    def _layout_of(self, value: TensorValue) -> Layout:
        descriptor = value.ref(self._tracer).descriptor
        plain = descriptor.is_plain and not descriptor.is_symbolic
        if not plain or (descriptor.requires_grad and torch.is_grad_enabled()):
            raise GraphBreak(FL0306, type=self._words)
        size, strides = tuple(descriptor.shape), tuple(descriptor.stride)
        return Layout(size, strides, descriptor.offset, descriptor.dtype, descriptor.device, False)

    def _mirror(self, kind: type) -> type:
        known = self._kinds.get(kind)
        if known is None:
            if any(is_subclass(other, kind) for other in self._kinds):
                raise GraphBreak(FL0306, type=name_of(kind))  # made after a class that inherits from it
            above = [mirror for other, mirror in self._kinds.items() if is_subclass(kind, other)]
            known = self._kinds[kind] = type("Mirrored", (above[-1] if above else _Probe,), {})
        return known

    def _back(self, obj: Any) -> Any:
        """What a probe, or what holds some, stands for."""
        known = self._values.get(id(obj))
        if known is not None:
            return known[1]
        if type(obj) is list:
            return ListValue([self._back(item) for item in obj])
        if type(obj) is tuple:
            return make_tuple([self._back(item) for item in obj])
        if is_result_class(type(obj)):
            return StructSequenceValue(type(obj), [self._back(item) for item in obj])
        if type(obj) is torch.Tensor and obj.ndim == 0 and obj.device.type == "cpu":
            # A number that the program gave, as `t[0] = 7.0` has it filled in.
            options = {"dtype": obj.dtype, "device": obj.device}
            return self._tracer.call_torch(torch.full, ((), obj.item()), options)
        if isinstance(obj, torch.Tensor) or not is_constant(obj):
            raise GraphBreak(FL0306, type=self._words)
        return from_constant(self._tracer, obj)


@primitive(getattr(torch.Tensor, "_make_wrapper_subclass", object()))
def _make_wrapper(tracer: Tracer, cls: Any, size: Any, **kwargs: Any) -> WrapperTensorValue:
    kind = cls.concrete if isinstance(cls, Value) else cls
    if not isinstance(kind, type) or not is_tensor_class(kind) or not dispatches(kind) or _is_of_torch(kind):
        raise GraphBreak(FL0306, type=py.describe(cls))
    named = {name: tracer.constant(value) for name, value in kwargs.items()}
    if named.pop("requires_grad", False) or any(named.get(name) for name in _POLICIES):
        raise GraphBreak(FL0306, type=name_of(kind))
    sizes = [tracer.constant(item) for item in py.items(tracer, size)]
    made: Layout = py.evaluate(tracer, _sample, tuple(sizes), **named)
    notice(tracer)
    return WrapperTensorValue(kind, made)


def _sample(size: tuple[int, ...], **kwargs: Any) -> Layout:
    return layout_of(torch.Tensor._make_wrapper_subclass(_Probe, size, **kwargs))


@primitive(return_and_correct_aliasing)
def _corrected(tracer: Tracer, func: Any, args: Any, kwargs: Any, out: Any) -> Any:
    """What an operator returns is what it wrote to, where it says so."""
    schema = func.concrete._schema
    written = [result.alias_info for result in schema.returns if result.alias_info and result.alias_info.is_write]
    if not written:
        return out
    given = []
    for alias in written:
        names = [argument for argument in schema.arguments if argument.alias_info and argument.alias_info.is_write]
        (found,) = [argument for argument in names if argument.alias_info.before_set & alias.before_set]
        index = schema.arguments.index(found)
        positional = py.items(tracer, args)
        given.append(positional[index] if index < len(positional) else py.item(tracer, kwargs, found.name))
    return given[0] if len(given) == 1 else make_tuple(given)
