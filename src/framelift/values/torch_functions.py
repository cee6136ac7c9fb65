"""Functions of torch: which become nodes of the graph, and which are answered while capturing."""

from __future__ import annotations

import functools
from typing import TYPE_CHECKING, Any

import torch
import torch.overrides

from framelift.values import protocol as py
from framelift.values.primitives import Model, primitive

if TYPE_CHECKING:
    from framelift.capture.lift import Lift

# Functions that make tensors from numbers: torch's override protocol does not list them, they take no tensor.
_FACTORIES = (
    "arange as_tensor asarray bartlett_window blackman_window complex empty empty_strided eye from_file full "
    "hamming_window hann_window kaiser_window linspace logspace normal ones polar rand randint randn randperm range "
    "scalar_tensor sparse_coo_tensor tensor tril_indices triu_indices vander zeros empty_permuted _assert _assert_async"
).split()


@functools.cache
def graph_functions() -> dict[int, Any]:
    """The functions a graph calls as they are, by id: all that torch lets a tensor subclass override, and factories."""
    found: dict[int, Any] = {}
    for functions in torch.overrides.get_overridable_functions().values():
        for function in functions:
            found[id(function)] = function
    for name in _FACTORIES:
        function = getattr(torch, name, None)
        if function is not None:
            found[id(function)] = function
    for function in _ANSWERED:
        found.pop(id(function), None)
    return found


def torch_model(target: Any) -> Model | None:
    """The model of a torch function that becomes a node; None where `target` is no such function."""
    if id(target) in graph_functions() or isinstance(target, (torch._ops.OpOverload, torch._ops.OpOverloadPacket)):
        return lambda lift, args, kwargs: lift.call_torch(target, tuple(args), kwargs)
    return None


# -- answered while capturing ----------------------------------------------------------------------------------------

# True in lifted code, whatever the process is doing.
_TRUE = [torch.compiler.is_compiling, torch.compiler.is_dynamo_compiling]
_FALSE = [torch.compiler.is_exporting, torch.jit.is_scripting, torch.jit.is_tracing]
# Read from torch's state, which every capture guards.
_STATE = [
    torch.is_grad_enabled,
    torch.is_inference_mode_enabled,
    torch.is_autocast_enabled,
    torch.get_default_dtype,
    torch.get_autocast_dtype,
    torch.is_autocast_cache_enabled,
    torch.are_deterministic_algorithms_enabled,
    torch.is_deterministic_algorithms_warn_only_enabled,
    torch._C._is_torch_function_enabled,
]


@primitive(*_TRUE)
def _true(lift: Lift) -> bool:
    return True


@primitive(*_FALSE)
def _false(lift: Lift) -> Any:
    return False


@primitive(torch._C._get_tracing_state)
def _tracing_state(lift: Lift) -> None:
    return None


def _register_state() -> None:
    for function in _STATE:

        def answer(lift: Lift, *args: Any, _function: Any = function) -> Any:
            return py.fold(lift, _function, *[lift.constant(arg) for arg in args])

        primitive(function)(answer)


_register_state()


@primitive(torch.is_tensor)
def _is_tensor(lift: Lift, obj: Any) -> bool:
    return issubclass(lift.type_of(obj), torch.Tensor)


@primitive(torch.device)
def _device(lift: Lift, *args: Any, **kwargs: Any) -> Any:
    return py.fold(lift, torch.device, *map(lift.constant, args), **{k: lift.constant(v) for k, v in kwargs.items()})


@primitive(torch.Size)
def _size(lift: Lift, iterable: Any = ()) -> Any:
    return py.fold(lift, torch.Size, [lift.constant(item) for item in py.items(lift, iterable)])


@primitive(torch.finfo)
def _finfo(lift: Lift, type: Any = torch.float32) -> Any:
    return py.fold(lift, torch.finfo, lift.constant(type))


@primitive(torch.iinfo)
def _iinfo(lift: Lift, type: Any) -> Any:
    return py.fold(lift, torch.iinfo, lift.constant(type))


@primitive(torch.overrides.has_torch_function, torch._C._has_torch_function)
def _has_torch_function(lift: Lift, args: Any) -> bool:
    for item in py.items(lift, args):
        lift.type_of(item)
    return False


@primitive(torch.overrides.has_torch_function_unary, torch.overrides.has_torch_function_variadic)
def _has_torch_function_variadic(lift: Lift, *args: Any) -> bool:
    return _has_torch_function(lift, lift.tuple(args))


_ANSWERED = [*_TRUE, *_FALSE, *_STATE, torch.is_tensor]
