"""Functions of torch: which of them become nodes of the graph.

A function may become a node if all it does is compute tensors from tensors and constants: running it on fake tensors
then tells everything about it. torch says which functions those are: what a tensor subclass can override, and what
the C++ operator tables export. Left out is what reads or changes the world (files, memory, hooks, printing).
"""

from __future__ import annotations

import functools
import sys
import types
from typing import TYPE_CHECKING, Any

import torch
import torch.overrides
from torch._C import _fft, _linalg, _nn, _special, _VariableFunctions  # type: ignore[attr-defined]

from framelift.breaks import FL0102, FL0103, FL0201, FL0301, FL0304, FL0308, GraphBreak
from framelift.models import is_of_models
from framelift.models.torch_sizes import in_other_words
from framelift.silence import raising_no_warnings
from framelift.torch_names import is_absent
from framelift.values.core import protocol as py
from framelift.values.core.primitives import Model

if TYPE_CHECKING:
    from framelift.values.core.tracer import Tracer

_TORCH = torch.__path__[0] + "/"
# Private operators that modules of torch and well-known libraries call.
_PRIVATE = frozenset(
    "_assert _assert_async _transformer_encoder_layer_fwd _native_multi_head_attention _weight_norm "
    "_shape_as_tensor _weight_norm_interface _pack_padded_sequence _pad_packed_sequence _softmax _log_softmax "
    "_masked_softmax _trilinear _adaptive_avg_pool2d _adaptive_avg_pool3d _int_mm _scaled_mm _grouped_mm "
    "_scaled_grouped_mm _conj _neg_view _fft_r2c _fft_c2r _fft_c2c _standard_gamma _sample_dirichlet _unique2 "
    "_amp_foreach_non_finite_check_and_unscale_ _amp_update_scale_ "
    "_convolution _is_all_true _is_any_true _fused_adam_ _fused_adamw_ _fused_sgd_ _fused_adagrad_ _chunk_cat "
    "_native_batch_norm_legit _unsafe_masked_index _unsafe_masked_index_put_accumulate".split()
)
# Functions whose result is not a matter of their arguments, or that run a function they are given.
_NOT_NODES = frozenset(
    "from_file from_numpy frombuffer is_vulkan_available cudnn_is_acceptable sym_constrain_range "
    "sym_constrain_range_for_size triplet_margin_with_distance_loss get_device_module result_type".split()
)
# Functions that AOTAutograd takes apart in a wrong way (torch 2.13): this one where a row of targets ends early, as in
# the example of its documentation.
_TAKEN_APART_WRONGLY = frozenset({"multilabel_margin_loss"})
# Fake tensors know nothing of quantisation: they answer as if there were none.
_QUANTISED = (
    "quantize_",
    "quantized_",
    "fbgemm_",
    "q_scale",
    "q_zero_point",
    "q_per_channel",
    "empty_quantized",
    "dequantize",
)
# Methods of a tensor that look at more than its metadata and contents, or change more than its contents.
NOT_METHODS = frozenset(
    "__array__ __array_wrap__ __deepcopy__ __dlpack__ __dlpack_device__ __format__ __reduce_ex__ __repr__ "
    "__setstate__ _clear_non_serializable_cached_data apply_ backward data_ptr is_pinned is_shared map2_ map_ "
    "module_load numpy pin_memory register_hook register_post_accumulate_grad_hook retain_grad share_memory_ "
    "storage storage_type untyped_storage _is_view const_data_ptr mutable_data_ptr rename rename_ align_to "
    "align_as refine_names names dequantize q_scale q_zero_point q_per_channel_axis q_per_channel_scales "
    "q_per_channel_zero_points qscheme int_repr detach_".split()
)
# Methods torch's override protocol does not list.
_MORE_METHODS = frozenset(
    "new new_empty new_empty_strided new_full new_ones new_tensor new_zeros stride unflatten to_sparse_bsc "
    "to_sparse_bsr to_sparse_coo to_sparse_csc to_sparse_csr to_padded_tensor _conj _conj_physical _neg_view "
    "_is_all_true _is_any_true __reversed__".split()
)


@functools.cache
def _overridable() -> Any:
    """What torch lists; it warns of things of its own that it comes across."""
    with raising_no_warnings():
        return torch.overrides.get_overridable_functions()


@functools.cache
def tensor_methods() -> frozenset[str]:
    """The names of the methods of a tensor that become nodes."""
    listed = {id(function) for function in _overridable()[torch.Tensor]}
    names = {name for name in dir(torch.Tensor) if id(getattr(torch.Tensor, name)) in listed}
    return frozenset((names | _MORE_METHODS) - NOT_METHODS)


@functools.cache
def graph_functions() -> dict[int, Any]:
    """The functions a graph calls as they are, by id; the methods of torch.Tensor are not among them."""
    found: dict[int, Any] = {}
    for namespace, functions in _overridable().items():
        if isinstance(namespace, types.ModuleType):
            found.update((id(function), function) for function in functions)
    for table in (_VariableFunctions, _nn, _fft, _linalg, _special):
        for name in () if is_absent(table) else dir(table):
            if not name.startswith("_") or name in _PRIVATE or name.startswith("_foreach_"):
                for function in (getattr(table, name), getattr(torch, name, None)):
                    found[id(function)] = function
    for name in _PRIVATE:
        found[id(getattr(torch, name, None))] = getattr(torch, name, None)
    return {key: function for key, function in found.items() if _may_be_node(function)}


def _may_be_node(function: Any) -> bool:
    if not callable(function) or isinstance(function, type):
        return False
    name = function.__name__
    return name not in _NOT_NODES and not name.startswith(_QUANTISED)


@functools.cache
def _unbound_methods() -> dict[int, str]:
    """The methods of torch.Tensor as the class has them, by id."""
    return {
        id(getattr(torch.Tensor, name)): name for name in dir(torch.Tensor) if callable(getattr(torch.Tensor, name))
    }


@functools.cache
def _asking() -> frozenset[int]:
    """The functions of torch that ask operands and modes before they do anything, or may, by id."""
    listed = {id(function) for functions in _overridable().values() for function in functions}
    ignored = {id(function) for function in torch.overrides.get_ignored_functions()}
    makers = {id(getattr(torch, name, None)) for name in dir(_VariableFunctions)}
    return frozenset(listed | ignored | makers | graph_functions().keys() | _unbound_methods().keys())


def asks_first(target: Any) -> bool:
    """Whether a function may ask operands and modes before it does anything."""
    return id(target) in _asking() and target not in _NEVER_ASK


# What is called to learn of overrides, or to switch them.
_NEVER_ASK = (
    torch.overrides.has_torch_function,
    torch.overrides.has_torch_function_unary,
    torch.overrides.has_torch_function_variadic,
    torch.overrides.handle_torch_function,
    torch.Tensor.as_subclass,
    torch.vmap,  # the functions it is given do
)


def is_of_torch(function: types.FunctionType) -> bool:
    """Whether torch itself defines a function."""
    return _is_code_of_torch(function.__code__)


def _is_code_of_torch(code: types.CodeType) -> bool:
    return code.co_filename.startswith(_TORCH)


def torch_model(target: Any) -> Model | None:
    """The model of a torch function that becomes a node; None where `target` is no such function."""
    if id(target) in graph_functions():
        if target.__name__ in _TAKEN_APART_WRONGLY:
            return functools.partial(_unless_taken_apart, target)
        return lambda tracer, args, kwargs: call_function(tracer, target, tuple(args), kwargs)
    name = _unbound_methods().get(id(target))
    if name is not None and (name in tensor_methods() or name in NOT_METHODS):
        return lambda tracer, args, kwargs: call_method(tracer, name, tuple(args), kwargs)
    if type(target) is types.FunctionType and str(target.__module__).startswith("torch._dynamo"):
        return _dynamo_model(target)
    return None


def _unless_taken_apart(target: Any, tracer: Tracer, args: list[Any], kwargs: dict[str, Any]) -> Any:
    if tracer.modes.compiled:
        raise GraphBreak(FL0102, what=f"{target.__name__} by a graph that is compiled")
    return call_function(tracer, target, tuple(args), kwargs)


# Why no node can be made of a function whose own code may be traced: what the value of a tensor decides may be no more
# than whether there is an error, and an object among the arguments no more than a record of numbers.
_SEEN_FROM_INSIDE = (FL0201, FL0301, FL0308)


def call_function(tracer: Tracer, target: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    """`target(*args, **kwargs)` as a node."""
    try:
        return tracer.with_leaf(lambda kwargs: tracer.call_torch(target, args, kwargs), kwargs)
    except GraphBreak as reason:
        found = _in_other_words(tracer, target, reason)
        if found is not None:
            target = found
        elif reason.reason not in _SEEN_FROM_INSIDE or type(target) is not types.FunctionType:
            raise
    return tracer.inline(tracer.known_object(target), list(args), kwargs)


def _in_other_words(tracer: Tracer, target: Any, reason: GraphBreak) -> Any:
    """The function to trace in the place of an operation that graphs cannot hold, or not as it was called here."""
    if reason.reason not in (FL0301, FL0308) or tracer.frame is None:
        return None
    return None if is_of_models(tracer.frame.program.canonical.code) else in_other_words(target)


def call_method(tracer: Tracer, name: str, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    """`args[0].name(*args[1:], **kwargs)` as a node."""
    if name not in tensor_methods():
        raise GraphBreak(FL0304, what=name)
    if not args:
        raise GraphBreak(FL0102, what=f"torch.Tensor.{name} without a tensor")
    if name == "type" and any(py.type_of(arg) is type for arg in (*args[1:], *kwargs.values())):
        raise GraphBreak(FL0102, what="torch.Tensor.type with a class")
    try:
        return tracer.with_leaf(lambda kwargs: tracer.call_tensor_method(name, args, kwargs), kwargs)
    except GraphBreak as reason:
        found = _in_other_words(tracer, name, reason)
        if found is None:
            raise
    return tracer.inline(tracer.known_object(found), list(args), kwargs)


def _dynamo_model(target: types.FunctionType) -> Model | None:
    """What torch.compile's own controls mean here. Whoever has such a function has loaded the module it is from."""
    if target.__name__ == "graph_break" and target is _loaded("torch._dynamo.decorators", "graph_break"):
        return _graph_break
    if target.__name__ == "is_compiling" and target is _loaded("torch._dynamo.external_utils", "is_compiling"):
        return lambda tracer, args, kwargs: tracer.answer_compiling()
    if target.__name__ == "tag" and target is getattr(_module_tags(), "__func__", None):
        return lambda tracer, args, kwargs: None
    return None


def _module_tags() -> Any:
    """Once torch.compile was used, every new module is entered in a table of its own, which no program reads."""
    return getattr(_loaded("torch._dynamo.mutation_guard", "GenerationTracker"), "tag", None)


def _loaded(module: str, name: str) -> Any:
    return getattr(sys.modules.get(module), name, None)


def _graph_break(tracer: Tracer, args: list[Any], kwargs: dict[str, Any]) -> Any:
    """Where a program asks for it. What torch's own code asks for eases the work of torch's compiler."""
    if tracer.frame is not None and _is_code_of_torch(tracer.frame.program.canonical.code):
        return None
    reason = kwargs.get("msg", args[0] if args else "")
    raise GraphBreak(FL0103, why=f": {reason}" if isinstance(reason, str) and reason else "")
