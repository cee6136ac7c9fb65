"""Functions of torch and framelift that are answered while capturing: questions about modes, types and compilation."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import torch
import torch.overrides
from torch import (
    _has_compatible_shallow_copy_type,
    get_autocast_cpu_dtype,
    get_autocast_gpu_dtype,
    is_autocast_cpu_enabled,
)
from torch._C import (
    _get_privateuse1_backend_name,
    _get_tracing_state,
    _group_tensors_by_device_and_dtype,
    _has_torch_function,
    _has_torch_function_unary,
    _has_torch_function_variadic,
    _is_any_autocast_enabled,
    _is_autocast_available,
    _is_torch_function_enabled,
    _is_tracing,
    _len_torch_dispatch_stack,
    _log_api_usage_once,
)
from torch._C._nn import _parse_to
from torch.compiler import is_dynamo_compiling, is_exporting
from torch.cuda import _is_in_bad_fork as _is_cuda_in_bad_fork
from torch.jit import is_scripting, is_tracing
from torch.xpu import _is_in_bad_fork as _is_xpu_in_bad_fork

from framelift.breaks import FL0102_ARGUMENTS, FL0202, GraphBreak
from framelift.values.containers.dicts import DictValue
from framelift.values.containers.sequences import ListValue, SequenceValue
from framelift.values.core import protocol as py
from framelift.values.core.base import Value
from framelift.values.core.construct import make_tuple
from framelift.values.core.primitives import INSTANCE_CHECKS, primitive
from framelift.values.numbers.symbolic import SymbolicValue
from framelift.values.subclasses.tensors import TensorSubclassValue
from framelift.values.tensors.of_class import TensorOfClassValue
from framelift.values.tensors.sizes import make_size
from framelift.values.tensors.tensors import TensorValue

if TYPE_CHECKING:
    from framelift.values.core.tracer import Tracer

# True in lifted code, whatever the process is doing.
_COMPILING = [torch.compiler.is_compiling, is_dynamo_compiling]
_FALSE = [
    is_exporting,
    is_scripting,
    is_tracing,
    _get_tracing_state,
    _is_tracing,
]
# Read from torch's state, which every capture guards.
_STATE = [
    torch.is_grad_enabled,
    torch.is_inference_mode_enabled,
    torch.is_autocast_enabled,
    is_autocast_cpu_enabled,
    torch.get_autocast_dtype,
    torch.is_autocast_cache_enabled,
    torch.are_deterministic_algorithms_enabled,
    torch.is_deterministic_algorithms_warn_only_enabled,
    _len_torch_dispatch_stack,
    get_autocast_gpu_dtype,
    get_autocast_cpu_dtype,
]
# The same for the whole life of the process, or of constants alone.
_FIXED = [
    torch.cuda.is_available,
    torch.cuda.device_count,
    torch.accelerator.current_accelerator,
    torch.accelerator.is_available,
    _is_cuda_in_bad_fork,
    _is_xpu_in_bad_fork,
    torch.can_cast,
    torch.promote_types,
    torch.device,
    torch.finfo,
    torch.iinfo,
    _get_privateuse1_backend_name,
    _is_any_autocast_enabled,
    torch.amp.is_autocast_available,
    _is_autocast_available,
]


@primitive(*_COMPILING)
def _compiling(tracer: Tracer) -> bool:
    return tracer.answer_compiling()


@primitive(*_FALSE)
def _false(tracer: Tracer) -> Any:
    return False


@primitive(_get_tracing_state)
def _no_tracing(tracer: Tracer) -> Any:
    return None


@primitive(_log_api_usage_once)
def _log_usage(tracer: Tracer, event: Any) -> Any:
    """Tells whoever operates the process that a feature is in use; no program can ask about it."""
    return None


def _fold_on_constants(function: Any) -> None:
    def answer(tracer: Tracer, *args: Any, **kwargs: Any) -> Any:
        named = {name: tracer.constant(value) for name, value in kwargs.items()}
        return py.fold(tracer, function, *[tracer.constant(arg) for arg in args], **named)

    primitive(function)(answer)


for _function in (*_STATE, *_FIXED):
    _fold_on_constants(_function)


@primitive(_is_torch_function_enabled)
def _has_overrides(tracer: Tracer) -> bool:
    return tracer.modes.asks_classes and not tracer.modes.without_overrides


@primitive(torch.is_tensor)
def _is_tensor(tracer: Tracer, obj: Any) -> bool:
    return issubclass(tracer.type_of(obj), torch.Tensor)


@primitive(torch.Size)
def _size(tracer: Tracer, iterable: Any = ()) -> Any:
    items = py.items(tracer, iterable)
    if any(isinstance(item, SymbolicValue) for item in items):
        return make_size(tracer, items)
    return py.fold(tracer, torch.Size, [tracer.constant(item) for item in items])


@primitive(torch.broadcast_shapes)
def _broadcast_shapes(tracer: Tracer, *shapes: Any) -> Any:
    plain = [_sizes(tracer, shape) if isinstance(shape, Value) else shape for shape in shapes]
    return py.fold(tracer, torch.broadcast_shapes, *plain)


def _sizes(tracer: Tracer, shape: Value) -> Any:
    if isinstance(shape, SequenceValue):
        return [tracer.constant(size) for size in py.items(tracer, shape)]
    return tracer.constant(shape)


@primitive(torch.result_type)
def _result_type(tracer: Tracer, tensor1: Any, tensor2: Any) -> Any:
    operands = [_stand_in(tracer, operand) for operand in (tensor1, tensor2)]
    return py.fold(tracer, torch.result_type, *operands)


def _stand_in(tracer: Tracer, operand: Any) -> Any:
    """A tensor without memory that promotes like the operand: by its dtype and whether it has dimensions."""
    if not isinstance(operand, TensorValue):
        return tracer.constant(operand)
    descriptor = operand.ref(tracer).descriptor
    return torch.empty([1] * len(descriptor.shape), dtype=descriptor.dtype, device="meta")


@primitive(_group_tensors_by_device_and_dtype)
def _grouped(tracer: Tracer, lists: Any, with_indices: Any = False) -> Any:
    """In the groups, and the order of groups, that torch finds for tensors of these dtypes and devices."""
    tensors = [py.items(tracer, tensors) for tensors in py.items(tracer, lists)]
    samples = [[_sample(tracer, tensor) for tensor in row] for row in tensors]
    if not samples or not samples[0]:
        raise GraphBreak(FL0102_ARGUMENTS, what="_group_tensors_by_device_and_dtype")
    grouped: dict[Any, Any] = {}
    for key, (_, indices) in _group_tensors_by_device_and_dtype(samples, True).items():
        rows = ListValue([ListValue([row[i] for i in indices] if row else []) for row in tensors])
        grouped[key] = make_tuple([rows, ListValue(list(indices) if tracer.constant(with_indices) else [])])
    return DictValue(grouped)


def _sample(tracer: Tracer, tensor: Any) -> Any:
    """An empty tensor of the same dtype on the same device."""
    if py.same(tracer, tensor, None):
        return None
    if not isinstance(tensor, TensorValue):
        raise GraphBreak(FL0202, type=py.type_of(tensor).__qualname__)
    descriptor = tensor.ref(tracer).descriptor
    return torch.empty(0, dtype=descriptor.dtype, device=descriptor.device)


@primitive(_parse_to)
def _places(tracer: Tracer, *args: Any, **kwargs: Any) -> Any:
    """What `module.to(...)` is asked for: device, dtype, and how."""
    if any(isinstance(arg, TensorValue) for arg in (*args, *kwargs.values())):
        raise GraphBreak(FL0102_ARGUMENTS, what="torch.nn.Module.to")
    named = {name: tracer.constant(value) for name, value in kwargs.items()}
    return make_tuple(list(py.evaluate(tracer, _parse_to, *[tracer.constant(arg) for arg in args], **named)))


@primitive(_has_compatible_shallow_copy_type)
def _is_compatible(tracer: Tracer, tensor: Any, other: Any) -> Any:
    samples = [_sample(tracer, operand) for operand in (tensor, other)]
    return py.fold(tracer, _has_compatible_shallow_copy_type, *samples)


@primitive(torch.overrides.has_torch_function, _has_torch_function)
def _overridden(tracer: Tracer, args: Any) -> bool:
    return bool(tracer.modes.functions) or any(_overrides(tracer, item) for item in py.items(tracer, args))


@primitive(
    torch.overrides.has_torch_function_unary,
    torch.overrides.has_torch_function_variadic,
    _has_torch_function_unary,
    _has_torch_function_variadic,
)
def _any_overridden(tracer: Tracer, *args: Any) -> bool:
    return bool(tracer.modes.functions) or any(_overrides(tracer, item) for item in args)


def _overrides(tracer: Tracer, item: Any) -> bool:
    """Whether an object takes part in torch's override protocol with rules of its own."""
    return isinstance(item, Value) and item.torch_rules(tracer) is not None


def _is_flagged(tracer: Tracer, obj: Any, cls: type) -> bool:
    """`isinstance(obj, Parameter)`: of that class, or any tensor a program marked as one."""
    if issubclass(tracer.type_of(obj), cls):
        return True
    flag = _FLAGS.get(id(cls))
    if isinstance(obj, TensorSubclassValue | TensorOfClassValue):
        return obj.has_flag(tracer, flag)
    if flag is None or not isinstance(obj, TensorValue) or not tracer.has_attribute(obj, flag):
        return False
    return py.truth(tracer, py.attribute(tracer, obj, flag))


def _is_of_tensor_type(tracer: Tracer, obj: Any, cls: Any) -> bool:
    """`isinstance(x, torch.FloatTensor)`: a matter of dtype, layout and device."""
    if not isinstance(obj, TensorValue):
        return False
    facts = [py.attribute(tracer, obj, name) for name in ("dtype", "layout")]
    return facts == [cls.dtype, cls.layout] and py.attribute(tracer, obj, "device").type == _device_of(cls)


def _device_of(cls: Any) -> str:
    return "cuda" if cls.is_cuda else "cpu"


_FLAGS = {id(torch.nn.Parameter): "_is_param", id(torch.nn.Buffer): "_is_buffer"}
INSTANCE_CHECKS[type(torch.nn.Parameter)] = _is_flagged
INSTANCE_CHECKS[type(torch.nn.Buffer)] = _is_flagged
INSTANCE_CHECKS[type(torch.FloatTensor)] = _is_of_tensor_type
