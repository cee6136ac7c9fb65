"""What operations do besides computing their result, as tables.

Most of it is observed, not listed: while an operation runs on fake tensors, the operators it dispatches to are seen,
and their schemas say what they write and whether they draw random numbers (:mod:`framelift.graph.propagation.fake`).
The tables hold what the schemas do not say.
"""

from __future__ import annotations

from typing import Any

import torch
from torch import _assert, _assert_async, _check, _check_index, _check_type, _check_value
from torch._C import _set_grad_enabled
from torch.amp.autocast_mode import _enter_autocast, _exit_autocast
from torch.autograd.grad_mode import _enter_inference_mode, _exit_inference_mode

from framelift.graph.switches import SWITCHES

# Functions that switch a mode of torch. They go into the graph as they are and are not run while building it:
# whoever asks for them has switched the mode already.
MODE_SWITCHES: frozenset[Any] = frozenset(
    {
        _set_grad_enabled,
        _enter_autocast,
        _exit_autocast,
        _enter_inference_mode,
        _exit_inference_mode,
        torch.set_autocast_enabled,
        torch.set_autocast_dtype,
        torch.set_autocast_cache_enabled,
        torch.clear_autocast_cache,
        *(row.setter for row in SWITCHES),
    }
)

# Functions that check something when the graph runs: they stay although nobody uses their result.
CHECKS: frozenset[Any] = frozenset({_assert, _assert_async, _check, _check_value, _check_index, _check_type})

# A fake tensor answers these, but not as the real tensor would: its address, its gradient, its version are its own.
UNANSWERABLE: frozenset[str] = frozenset(
    {
        "data_ptr",
        "_cdata",
        "_version",
        "_base",
        "_grad",
        "_grad_fn",
        "_backward_hooks",
        "grad",
        "grad_fn",
        "output_nr",
        "retains_grad",
        "is_pinned",
        "is_shared",
        "storage",
        "untyped_storage",
        "_typed_storage",
        "__dict__",
        "__hash__",
        "__reduce__",
        "__reduce_ex__",
        "__deepcopy__",
        "numpy",
        "__array__",
        "__dlpack__",
        "register_hook",
        "register_post_accumulate_grad_hook",
        "retain_grad",
        "backward",
    }
)

# Methods that tell how a tensor lies in memory.
LAYOUT_QUESTIONS: frozenset[str] = frozenset(
    {"is_contiguous", "stride", "storage_offset", "dim_order", "is_non_overlapping_and_dense"}
)

# Operators that write to arguments although their schema does not say so: name -> (flag argument, written arguments).
# A flag of None means always. Positions are the schema's.
HIDDEN_WRITES: dict[str, tuple[int | None, tuple[int, ...]]] = {
    "aten::native_batch_norm": (5, (3, 4)),
    "aten::cudnn_batch_norm": (5, (3, 4)),
    "aten::miopen_batch_norm": (5, (3, 4)),
    "aten::_batch_norm_impl_index": (5, (3, 4)),
    "aten::batch_norm": (5, (3, 4)),
    "aten::_batch_norm_with_update": (None, (3, 4)),
    "aten::instance_norm": (5, (3, 4)),
}

# Operators that take tensors without elements as they take others, besides those that compute element by element.
TAKES_EMPTY: frozenset[str] = frozenset(
    f"aten::{name}"
    for name in (
        # views and copies
        "view _unsafe_view reshape expand permute transpose t slice select unsqueeze squeeze narrow split "
        "split_with_sizes chunk unbind detach alias as_strided diagonal clone contiguous _to_copy copy copy_ "
        "lift_fresh lift_fresh_copy to view_as tensor_split hstack vstack cat stack flip roll repeat "
        "constant_pad_nd tril triu movedim "
        # parts
        "index index_put index_put_ _unsafe_index index_add index_add_ index_select index_copy index_copy_ "
        "index_fill index_fill_ gather scatter scatter_ scatter_add scatter_add_ masked_fill masked_fill_ "
        "masked_scatter masked_select nonzero embedding repeat_interleave unique_consecutive _unique2 unique_dim "
        # new ones
        "zeros ones full empty arange empty_strided zeros_like ones_like full_like empty_like rand_like new_zeros "
        "new_ones new_full new_empty new_empty_strided empty_permuted zero_ fill_ fill scalar_tensor "
        # sums and products
        "mm addmm bmm baddbmm matmul linear dot mv sum mean prod var var_mean std std_mean cumsum cumprod any all "
        "count_nonzero bincount _softmax _log_softmax softmax log_softmax native_layer_norm layer_norm "
        "_fused_rms_norm sort argsort where result_type item _local_scalar_dense sym_size sym_stride sym_numel "
        "sym_storage_offset is_contiguous _scaled_dot_product_flash_attention_for_cpu "
    ).split()
)

# Operators tagged as random that draw nothing when this argument is zero or false.
RANDOM_ONLY_IF = ("dropout_p", "p", "dropout", "train")

# Operations that have kernels for all types of elements, by the names that programs call them by.
TAKES_ALL_TYPES: frozenset[str] = frozenset(
    (
        # views, parts and copies
        "view reshape expand expand_as permute transpose t slice select unsqueeze squeeze narrow split chunk unbind "
        "split_with_sizes tensor_split unflatten flatten ravel detach alias as_strided diagonal clone contiguous to "
        "type type_as copy_ movedim moveaxis swapaxes view_as reshape_as broadcast_to broadcast_tensors getattr "
        "getitem __getitem__ cat concat stack hstack vstack repeat tile "
        # other types
        "float double half bfloat16 int long short bool char byte cpu cuda "
        # new ones
        "zeros_like ones_like full_like empty_like new_zeros new_ones new_full new_empty new_tensor zero_ fill_ fill "
        "eq ne __eq__ __ne__"
    ).split()
)
# Those that have kernels for integers, some of them not for every other type.
TAKES_INTEGERS: frozenset[str] = frozenset(
    (
        "add iadd sub isub mul imul neg abs radd rsub rmul __add__ __sub__ __mul__ __radd__ __rsub__ __rmul__ "
        "add_ sub_ mul_ lt le gt ge sum cumsum prod cumprod any all max min amax amin argmax argmin maximum "
        "minimum sort argsort topk clamp clip clamp_ clamp_min clamp_max where masked_fill masked_fill_ "
        "masked_select tril triu flip roll sign square logical_not logical_and logical_or logical_xor bitwise_not "
        "bitwise_and bitwise_or bitwise_xor and_ or_ xor iand ior ixor invert inv __and__ __or__ __xor__ "
        "__invert__ index_select gather scatter scatter_add index_add nonzero count_nonzero isin unique truediv "
        "true_divide sqrt rsqrt exp log sin cos tanh sigmoid relu reciprocal floor ceil isnan isinf isfinite "
        "bincount matmul mm bmm mv dot outer diff embedding one_hot repeat_interleave bucketize searchsorted "
        "arange meshgrid setitem __setitem__"
    ).split()
)
TAKES_BOOLS: frozenset[str] = frozenset(
    (
        "mul add lt le gt ge sum cumsum any all max min amax amin maximum minimum sort argsort where masked_fill "
        "masked_fill_ masked_select tril triu flip roll logical_not logical_and logical_or logical_xor "
        "bitwise_not bitwise_and bitwise_or bitwise_xor and_ or_ xor iand ior ixor invert inv __and__ __or__ "
        "__xor__ __invert__ index_select gather nonzero count_nonzero isin truediv isnan isinf isfinite setitem "
        "__setitem__"
    ).split()
)
TAKES_COMPLEX: frozenset[str] = frozenset("add sub mul truediv neg abs sum prod conj real imag view_as_real".split())
