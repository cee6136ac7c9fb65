"""The operations the graph builder is tried on: one line each, as they would be called in eager mode."""

from __future__ import annotations

import operator
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import torch
import torch.nn.functional as F


@dataclass(frozen=True)
class T:
    """A tensor to be made afresh for every run of a case."""

    shape: tuple[int, ...]
    dtype: torch.dtype = torch.float32
    high: int = 3
    positive: bool = False
    of: Callable[[torch.Tensor], torch.Tensor] | None = None  # what the input is, made from the tensor (a view, ...)
    grad: bool = True  # whether it requires grad when gradients are tried

    def make(self, requires_grad: bool) -> torch.Tensor:
        if self.dtype is torch.bool:
            tensor = torch.rand(self.shape) > 0.5
        elif not (self.dtype.is_floating_point or self.dtype.is_complex):
            tensor = torch.randint(0, self.high, self.shape, dtype=self.dtype)
        else:
            tensor = torch.randn(self.shape, dtype=self.dtype)
            if self.positive:
                tensor = tensor.abs() + 0.5
        if requires_grad and self.grad and (tensor.is_floating_point() or tensor.is_complex()):
            tensor.requires_grad_()
        return tensor if self.of is None else self.of(tensor)


@dataclass(frozen=True)
class Case:
    """A call: of a function, or of the method named by a string on the first argument."""

    name: str
    target: Any
    args: tuple[Any, ...]
    kwargs: dict[str, Any] = field(default_factory=dict)


CASES: list[Case] = []


def case(target: Any, *args: Any, **kwargs: Any) -> None:
    label = target if isinstance(target, str) else getattr(target, "__name__", str(target))
    CASES.append(Case(f"{len(CASES):03d}-{label}", target, args, kwargs))


def t(*shape: int, **options: Any) -> T:
    return T(shape, **options)


def ints(*shape: int, high: int = 3, **options: Any) -> T:
    return T(shape, dtype=torch.int64, high=high, **options)


def bools(*shape: int) -> T:
    return T(shape, dtype=torch.bool)


def cplx(*shape: int, **options: Any) -> T:
    return T(shape, dtype=torch.complex64, **options)


X = t(4, 6)
P = t(4, 6, positive=True)
COLUMN = t(6, 4, of=lambda x: x.t())  # transposed: a view whose base is no input
SLICED = t(4, 12, of=lambda x: x[:, ::2])

# Pointwise
for name in """abs neg sign exp exp2 expm1 sin cos tan sinh cosh tanh asinh atan erf erfc floor ceil round trunc frac
    sigmoid relu square isnan isinf isfinite signbit rad2deg nan_to_num positive logit sgn""".split():
    case(getattr(torch, name), X)
for name in "log log2 log10 log1p sqrt rsqrt reciprocal lgamma digamma".split():
    case(getattr(torch, name), P)
for name in "acos asin acosh atanh bitwise_not logical_not".split():
    case(getattr(torch, name), ints(3, 4))
for name in "add sub mul div true_divide pow maximum minimum fmod remainder atan2 hypot eq ne lt le gt ge".split():
    case(getattr(torch, name), X, t(6))
for function in (operator.add, operator.sub, operator.mul, operator.truediv, operator.floordiv, operator.mod):
    case(function, X, P)
    case(function, P, 2)
    case(function, 2.5, P)
for function in (operator.and_, operator.or_, operator.xor):
    case(function, ints(4), ints(4))
    case(function, bools(4), bools(4))
case(operator.neg, X)
case(operator.invert, ints(3))
case(operator.pow, P, 2)
case(operator.pow, 2, P)
case(operator.lshift, ints(3), 2)
case(operator.matmul, X, t(6, 5))
case(torch.add, X, ints(6))
case(torch.add, X, t(6), alpha=2)
case(torch.add, ints(4), 1.5)
case(torch.add, ints(4), True)
case(torch.mul, T((3,), dtype=torch.float16), t(3))
case(torch.mul, T((3,), dtype=torch.bfloat16), T((), dtype=torch.float64))
case(torch.add, COLUMN, X)
case(torch.add, COLUMN, COLUMN)
case(torch.relu, SLICED)
case(torch.where, bools(4, 6), X, t(6))
case(torch.where, bools(4, 6), X, 0.0)
case(torch.clamp, X, min=-0.5, max=0.5)
case(torch.clamp, X, t(6), None)
case(torch.lerp, X, P, 0.3)
case(torch.addcmul, X, X, P, value=0.5)
case(torch.addcdiv, X, X, P)
case(torch.xlogy, X, P)
case(torch.polar, P, X)
case(torch.isclose, X, X)
case(torch.bitwise_and, ints(4), 1)
case(torch.float_power, P, 2)
case("masked_fill", X, bools(4, 6), -1.0)
case("masked_fill", X, bools(6), T((), grad=False))
case("clamp_min", X, 0)
case("add", X, 1)
case("__add__", X, 1)
case("__radd__", X, 1)
case("__rsub__", X, 1)
case("__rtruediv__", P, 1)
case("__eq__", X, X)
case("__invert__", bools(3))

# dtype, device, memory format
for name in "float double half bfloat16 int long bool cfloat".split():
    case(name, X)
case("to", X, torch.float64)
case("to", X, torch.float32)
case("to", X, "cpu")
case("to", X, torch.device("cpu"), torch.float16)
case("to", X, dtype=torch.bfloat16, copy=True)
case("to", X, T((2,), dtype=torch.float64))
case("type_as", X, ints(2))
case("type", X, torch.float64)
case("contiguous", X)
case("contiguous", COLUMN)
case("contiguous", t(2, 3, 4, 5), memory_format=torch.channels_last)
case("clone", COLUMN)
case("clone", COLUMN, memory_format=torch.contiguous_format)
case("detach", X)
case("requires_grad_", t(3, grad=False))
case("cpu", X)
case("view", X, torch.int32)
case(getattr, X, "T")
case(getattr, X, "mT")
case(getattr, X, "data")
case(getattr, cplx(3), "real")
case(getattr, cplx(3), "imag")
case(getattr, X, "H")

# Metadata: plain Python results
for (
    name
) in "dim size stride numel nelement storage_offset is_floating_point is_complex is_contiguous element_size".split():
    case(name, COLUMN)
case("size", X, 1)
case("stride", COLUMN, 0)
case("__len__", X)
for name in "shape dtype device ndim requires_grad is_leaf layout is_cuda itemsize nbytes is_sparse is_meta".split():
    case(getattr, X, name)
case(torch.is_tensor, X)
case(torch.numel, X)
case(torch.result_type, X, 1)

# Views
case("view", X, 2, 12)
case("view", X, (2, -1))
case("view", X, -1)
case("reshape", X, 3, 8)
case("reshape", COLUMN, 24)
case("reshape", COLUMN, 4, 6)
case("view_as", X, t(2, 12))
case("transpose", X, 0, 1)
case("permute", t(2, 3, 4), 2, 0, 1)
case(torch.permute, t(2, 3, 4), (1, 0, 2))
case(torch.movedim, t(2, 3, 4), 0, -1)
case(torch.swapaxes, X, 0, 1)
case("t", X)
case("unsqueeze", X, 1)
case("squeeze", t(1, 3, 1))
case("squeeze", t(1, 3, 1), 0)
case("flatten", t(2, 3, 4), 1)
case("flatten", t(2, 3, 4, of=lambda x: x.transpose(0, 2)))
case("unflatten", X, 1, (2, 3))
case("expand", t(1, 6), 4, 6)
case("expand", t(1, 6), 4, -1)
case("expand_as", t(1, 6), X)
case(torch.broadcast_to, t(6), (4, 6))
case(torch.broadcast_tensors, t(4, 1), t(6))
case("narrow", X, 1, 1, 3)
case("select", X, 0, 1)
case("unfold", t(10), 0, 3, 2)
case("diagonal", t(4, 4))
case(torch.as_strided, X, (2, 2), (6, 1), 3)
case("unbind", X, 0)
case("split", X, 2, 1)
case("split", X, [1, 3], 0)
case(torch.split, X, 4, dim=1)
case(torch.tensor_split, X, 3, dim=1)
case("chunk", X, 4, dim=0)
case("chunk", t(3, 5), 2, dim=1)
case(torch.hsplit, X, 2)
case(torch.atleast_2d, t(3))
case(torch.ravel, X)
case(torch.ravel, COLUMN)
case(torch.view_as_real, cplx(3))
case(torch.view_as_complex, t(3, 2))
case("conj", cplx(3))
case("resolve_conj", cplx(3, of=lambda x: x.conj()))
case("adjoint", cplx(2, 3))
case(torch.flip, X, (0,))
case(torch.roll, X, 1, 0)
case(torch.rot90, X)
case(torch.tile, X, (2, 1))
case("repeat", X, 2, 1, 1)
case("repeat_interleave", X, 2, dim=1)
case("view", SLICED, 4, 2, 3)

# Indexing
case(operator.getitem, X, 0)
case(operator.getitem, X, -1)
case(operator.getitem, X, (slice(None), 1))
case(operator.getitem, X, (slice(1, 3), slice(None, None, 2)))
case(operator.getitem, X, (Ellipsis, None))
case(operator.getitem, X, None)
case(operator.getitem, X, slice(None))
case(operator.getitem, X, Ellipsis)
case(operator.getitem, X, ints(3))
case(operator.getitem, X, (slice(None), ints(2, 2)))
case(operator.getitem, X, (ints(3), ints(3)))
case(operator.getitem, X, [0, 2])
case(operator.getitem, X, ([0, 1], [2, 3]))
case(operator.getitem, X, (0, slice(None), None))
case(operator.getitem, X, True)
case("__getitem__", X, 0)
case(torch.index_select, X, 1, ints(3))
case(torch.gather, X, 1, ints(4, 2))
case(torch.take, X, ints(5))
case(torch.take_along_dim, X, ints(4, 1), dim=1)
case("scatter", X, 1, ints(4, 2), 1.5)
case("scatter", X, 1, ints(4, 2), t(4, 2))
case("scatter_add", X, 1, ints(4, 2), t(4, 2))
case("scatter_reduce", X, 1, ints(4, 2), t(4, 2), reduce="amax")
case("index_add", X, 0, T((2,), dtype=torch.int64), t(2, 6))
case("index_fill", X, 0, ints(2), 0.0)
case("index_copy", X, 0, ints(2, high=1), t(2, 6))
case("index_put", X, (ints(2),), t(2, 6))
case("masked_scatter", X, bools(4, 6), t(4, 6))
case(torch.tril, X)
case(torch.triu, X, diagonal=1)
case(torch.diag, t(3))
case(torch.diag_embed, t(2, 3))
case(torch.bucketize, X, T((3,), grad=False))
case(torch.searchsorted, t(6, grad=False), t(3, grad=False))

# Reductions, sorting
for (
    name
) in "sum mean prod std var amax amin logsumexp norm all any argmax argmin median cumsum cumprod max min".split():
    if name not in ("amax", "amin", "logsumexp", "cumsum", "cumprod"):
        case(getattr(torch, name), X)
    case(getattr(torch, name), X, dim=1)
case("sum", X, (0, 1), True)
case("sum", ints(3, 4), 0)
case("sum", bools(4))
case("mean", X, -1, keepdim=True)
case("sum", X, dtype=torch.float64)
case(torch.var_mean, X, dim=1)
case(torch.std, X, 1, correction=0)
case(torch.max, X, 0, True)
case(torch.max, X, P)
case(torch.aminmax, X)
case(torch.count_nonzero, X)
case(torch.sort, X, dim=1, descending=True)
case("sort", X)
case(torch.argsort, X, 1)
case(torch.topk, X, 2, dim=1)
case(torch.kthvalue, X, 2)
case(torch.mode, ints(4, 5))
case(torch.quantile, X, 0.5, dim=1)
case(torch.cummax, X, 0)
case(torch.diff, X)
case(torch.trapz, X)
case(torch.linalg.vector_norm, X, dim=1)
case(torch.linalg.norm, X)
case(torch.isin, ints(4), ints(2))
case(torch.histc, t(5, grad=False), 4)

# Linear algebra
case(torch.matmul, X, t(6))
case(torch.matmul, t(6), t(6, 3))
case(torch.matmul, t(2, 4, 6), t(6, 3))
case(torch.matmul, t(2, 4, 6), t(2, 6, 3))
case(torch.mm, X, t(6, 5))
case(torch.mm, COLUMN, t(6, 5))
case(torch.bmm, t(2, 3, 4), t(2, 4, 5))
case(torch.baddbmm, t(2, 3, 5), t(2, 3, 4), t(2, 4, 5))
case(torch.addmm, t(5), X, t(6, 5), beta=0.5)
case(torch.mv, X, t(6))
case(torch.dot, t(6), t(6))
case(torch.outer, t(3), t(4))
case(torch.kron, t(2, 2), t(3, 3))
case(torch.einsum, "ij,jk->ik", X, t(6, 3))
case(torch.einsum, "bhid,bhjd->bhij", t(2, 2, 3, 4), t(2, 2, 5, 4))
case(torch.einsum, "ii->i", t(3, 3))
case(torch.tensordot, X, t(6, 3), 1)
case(torch.cdist, X, t(5, 6))
case(torch.linalg.inv, t(3, 3, of=lambda x: x + 3 * torch.eye(3)))
case(torch.linalg.det, t(3, 3))
case(torch.linalg.solve, t(3, 3, of=lambda x: x + 3 * torch.eye(3)), t(3))
case(torch.linalg.qr, t(4, 3))
case(torch.linalg.svd, t(4, 3), full_matrices=False)
case(torch.linalg.eigh, t(3, 3, of=lambda x: x + x.T))
case(torch.linalg.cholesky, t(3, 3, of=lambda x: x @ x.T + 3 * torch.eye(3)))
case(torch.linalg.multi_dot, [t(2, 3), t(3, 4), t(4, 2)])
case(torch.linalg.slogdet, t(3, 3))
case(torch.trace, t(3, 3))
case(torch.cross, t(4, 3), t(4, 3), dim=1)

# Joining
case(torch.cat, [X, P], 1)
case(torch.cat, (X, P), dim=0)
case(torch.cat, [X, ints(4, 6)], 1)
case(torch.stack, [X, P, X], 1)
case(torch.hstack, (t(3), t(2)))
case(torch.vstack, (t(3), t(3)))
case(torch.column_stack, (t(3), t(3)))
case(torch.meshgrid, t(2), t(3), indexing="ij")
case(torch.cartesian_prod, t(2), t(3))
case(torch.block_diag, t(2, 2), t(1, 3))

# Neural networks
case(F.linear, X, t(5, 6), t(5))
case(F.linear, t(2, 3, 6), t(5, 6))
case(torch._C._nn.linear, X, t(5, 6))
for function in (
    F.relu,
    F.relu6,
    F.gelu,
    F.silu,
    F.mish,
    F.elu,
    F.selu,
    F.celu,
    F.softplus,
    F.softsign,
    F.tanhshrink,
    F.hardtanh,
    F.hardswish,
    F.hardsigmoid,
    F.leaky_relu,
    F.logsigmoid,
    F.softshrink,
    F.tanh,
    F.sigmoid,
):
    case(function, X)
case(F.gelu, X, approximate="tanh")
case(F.prelu, X, t(1))
case(F.glu, X, 1)
case(F.threshold, X, 0.1, 0.0)
case(F.softmax, X, -1)
case(F.softmax, X, dim=1, dtype=torch.float64)
case(F.log_softmax, X, 1)
case(F.softmin, X, 1)
case(F.normalize, X, dim=1)
case(F.cosine_similarity, X, P)
case(F.pairwise_distance, X, P)
case(F.layer_norm, X, (6,), t(6), t(6), 1e-5)
case(F.layer_norm, X, (6,))
case(F.rms_norm, X, (6,), t(6))
case(F.group_norm, t(2, 4, 5), 2, t(4), t(4))
case(F.instance_norm, t(2, 3, 5))
case(F.instance_norm, t(2, 3, 5), T((3,), grad=False), T((3,), grad=False, positive=True), use_input_stats=True)
case(F.batch_norm, t(4, 3), T((3,), grad=False), T((3,), grad=False, positive=True), t(3), t(3))
case(F.batch_norm, t(4, 3), T((3,), grad=False), T((3,), grad=False, positive=True), training=True)
case(F.batch_norm, t(4, 3, 2, 2), T((3,), grad=False), T((3,), grad=False, positive=True), t(3), t(3), training=True)
case(F.local_response_norm, t(2, 4, 5), 2)
case(F.conv1d, t(2, 3, 8), t(4, 3, 3), t(4), padding=1)
case(F.conv2d, t(2, 3, 8, 8), t(4, 3, 3, 3), None, stride=2)
case(F.conv2d, t(2, 4, 8, 8), t(4, 1, 3, 3), padding="same", groups=4)
case(F.conv2d, t(2, 3, 8, 8, of=lambda x: x.to(memory_format=torch.channels_last)), t(4, 3, 3, 3))
case(F.conv3d, t(1, 2, 4, 4, 4), t(3, 2, 2, 2, 2))
case(F.conv_transpose2d, t(1, 3, 4, 4), t(3, 2, 2, 2), stride=2)
case(F.max_pool2d, t(1, 2, 6, 6), 2)
case(F.max_pool2d, t(1, 2, 6, 6), 2, return_indices=True)
case(F.avg_pool2d, t(1, 2, 6, 6), 2)
case(F.adaptive_avg_pool2d, t(1, 2, 6, 6), (1, 1))
case(F.adaptive_max_pool1d, t(1, 2, 6), 3)
case(F.lp_pool1d, t(1, 2, 6, positive=True), 2, 2)
case(F.interpolate, t(1, 2, 4, 4), scale_factor=2)
case(F.interpolate, t(1, 2, 4, 4), size=(7, 7), mode="bilinear", align_corners=False)
case(F.pad, X, (1, 2))
case(F.pad, t(1, 2, 4, 4), (1, 1, 1, 1), mode="reflect")
case(F.pixel_shuffle, t(1, 4, 3, 3), 2)
case(F.unfold, t(1, 2, 4, 4), 2)
case(F.fold, t(1, 8, 9), (4, 4), 2)
case(F.grid_sample, t(1, 2, 4, 4), t(1, 3, 3, 2), align_corners=False)
case(F.affine_grid, t(1, 2, 3), (1, 2, 4, 4), align_corners=False)
case(F.embedding, ints(2, 3), t(5, 4))
case(F.embedding, ints(2, 3), t(5, 4), padding_idx=0)
case(F.embedding_bag, ints(2, 3), t(5, 4), mode="mean")
case(F.one_hot, ints(2, 3), 5)
case(F.bilinear, t(2, 3), t(2, 4), t(5, 3, 4))
case(F.scaled_dot_product_attention, t(1, 2, 4, 8), t(1, 2, 4, 8), t(1, 2, 4, 8))
case(F.scaled_dot_product_attention, t(1, 2, 4, 8), t(1, 2, 4, 8), t(1, 2, 4, 8), is_causal=True)
case(F.scaled_dot_product_attention, t(1, 2, 4, 8), t(1, 2, 4, 8), t(1, 2, 4, 8), attn_mask=bools(4, 4))
case(
    F.scaled_dot_product_attention,
    *[t(2, 4, 2, 8, of=lambda x: x.transpose(1, 2)) for _ in range(3)],
    scale=0.5,
)
case(F.dropout, X, 0.5)
case(F.dropout, X, 0.5, training=False)
case(F.dropout2d, t(2, 3, 4, 4), 0.5)
case(F.alpha_dropout, X, 0.5, training=True)
case(F.feature_alpha_dropout, t(2, 3, 4), 0.5, training=True)
case(F.rrelu, X, training=True)
case(F.gumbel_softmax, X)

# Losses
case(F.mse_loss, X, P)
case(F.l1_loss, X, P, reduction="none")
case(F.smooth_l1_loss, X, P)
case(F.huber_loss, X, P)
case(F.cross_entropy, X, ints(4, high=6))
case(F.cross_entropy, X, ints(4, high=6), t(6, positive=True, grad=False), reduction="sum", label_smoothing=0.1)
case(F.cross_entropy, X, t(4, 6, grad=False, of=lambda x: x.softmax(1)))
case(F.nll_loss, X, ints(4, high=6))
case(F.binary_cross_entropy, t(4, of=torch.sigmoid), t(4, grad=False, of=torch.sigmoid))
case(F.binary_cross_entropy_with_logits, X, t(4, 6, grad=False, of=torch.sigmoid))
case(F.kl_div, X, P, reduction="batchmean")
case(F.cosine_embedding_loss, X, P, T((4,), grad=False, of=torch.sign))
case(F.triplet_margin_loss, X, P, X)
case(F.hinge_embedding_loss, X, T((4, 6), grad=False, of=torch.sign))

# In place, out=
for name in "relu_ sigmoid_ exp_ zero_ neg_ tanh_ abs_ floor_".split():
    case(name, X)
case("add_", X, 1)
case("add_", X, t(6))
case("mul_", X, P)
case("div_", X, 2)
case("clamp_", X, min=0)
case("fill_", X, 1.5)
case("copy_", X, t(6))
case("masked_fill_", X, bools(4, 6), 0.0)
case("scatter_", X, 1, ints(4, 2), 1.0)
case("index_add_", X, 0, ints(2), t(2, 6))
case("index_put_", X, (ints(2),), t(2, 6))
case("unsqueeze_", X, 0)
case("squeeze_", t(1, 3))
case("t_", X)
case("transpose_", X, 0, 1)
case("add_", SLICED, 1)
case("add_", COLUMN, X)
case("normal_", t(4, grad=False))
case("uniform_", t(4, grad=False))
case("bernoulli_", t(4, grad=False), 0.5)
case("random_", ints(4))
case("exponential_", t(4, grad=False))
case("detach_", X)
case("resize_", t(4, grad=False), 2)
case(operator.iadd, X, 1)
case(operator.imul, X, P)
case(operator.isub, ints(4), 1)
case(operator.setitem, X, 0, 1.0)
case(operator.setitem, X, (slice(None), 1), t(4))
case(operator.setitem, X, bools(4, 6), 0.0)
case(operator.setitem, X, ints(2), t(6))
case(F.relu, X, inplace=True)
case(F.leaky_relu, X, 0.1, True)
case(F.dropout, t(4, grad=False), 0.5, True, True)
case(torch.relu_, X)
case(torch.add, X, P, out=t(4, 6, grad=False))
case(torch.matmul, X, t(6, 3), out=t(4, 3, grad=False))
case(torch.max, t(4, 6, grad=False), 1, out=(t(4, grad=False), ints(4)))
case(torch._foreach_add_, [t(3, grad=False), t(2, grad=False)], 1.0)
case(torch._foreach_add, [t(3), t(2)], 1.0)
case(torch.ops.aten.add_.Tensor, X, P)

# Factories
case(torch.zeros, 2, 3)
case(torch.zeros, (2, 3), dtype=torch.int32)
case(torch.ones, 2, 3, device="cpu")
case(torch.full, (2, 2), 1.5)
case(torch.full, (2, 2), True)
case(torch.arange, 5)
case(torch.arange, 0, 1, 0.25)
case(torch.arange, 2, 8, 2, dtype=torch.float32)
case(torch.linspace, 0, 1, 5)
case(torch.eye, 3)
case(torch.tensor, [1, 2, 3])
case(torch.tensor, 1.5)
case(torch.tensor, [[1.0, 2.0], [3.0, 4.0]], dtype=torch.float64)
case(torch.empty, 0)
case(torch.zeros_like, COLUMN)
case(torch.ones_like, X, dtype=torch.int64)
case(torch.full_like, X, 2)
case(torch.rand, 3)
case(torch.randn, 2, 3)
case(torch.randint, 0, 5, (3,))
case(torch.randperm, 5)
case(torch.rand_like, X)
case(torch.randn_like, X)
case(torch.bernoulli, T((4,), grad=False, of=torch.sigmoid))
case(torch.multinomial, T((4,), grad=False, positive=True), 2)
case(torch.normal, 0.0, 1.0, (2, 2))
case(torch.tril_indices, 3, 3)
case(torch.hann_window, 5)
case("new_zeros", X, (2, 2))
case("new_tensor", X, [1.0, 2.0])
case("new_full", X, (2,), 1)
case("new_empty", X, (0, 3))

# Complex and spectral
case(torch.fft.fft, X)
case(torch.fft.rfft, X, dim=0)
case(torch.fft.irfft, cplx(4, 4))
case(torch.abs, cplx(3))
case(torch.angle, cplx(3))
case(torch.mul, cplx(3), t(3))
case(torch.complex, t(3), t(3))
case(torch.matmul, cplx(2, 3, of=lambda x: x.conj()), cplx(3, 2))
case(torch.view_as_real, cplx(3, 4))
case(torch.stft, t(64), 16, return_complex=True, window=T((16,), grad=False))
case(torch.real, cplx(3))

# torch.ops
case(torch.ops.aten.add.Tensor, X, P)
case(torch.ops.aten.view.default, X, [2, 12])
case(torch.ops.aten.split.Tensor, X, 2)
case(torch.ops.aten.relu, X)
