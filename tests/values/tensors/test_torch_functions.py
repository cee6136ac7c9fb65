"""Functions of torch and its namespaces, factories, random numbers, named results, answers given while capturing."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import pytest
import torch
import torch.nn.functional as F
from torch.nn.functional import gelu, pad

import framelift
from tests.helpers import check

X = torch.arange(24.0).reshape(2, 3, 4) / 7 + 0.5
S = torch.eye(3) * 3 + torch.arange(9.0).reshape(3, 3) / 10
IMAGE = torch.arange(2 * 3 * 8 * 8.0).reshape(2, 3, 8, 8).sin()
TOKENS = torch.tensor([[1, 2, 0], [3, 1, 2]])


def leaf(tensor: torch.Tensor) -> torch.Tensor:
    return tensor.clone().requires_grad_()


FUNCTIONS: dict[str, Callable[[Any], Any]] = {
    "sin": lambda x: torch.sin(x) + torch.cos(x) * torch.exp(x),
    "cat": lambda x: torch.cat([x, x * 2], dim=1),
    "cat tuple": lambda x: torch.cat((x, x), -1),
    "cat keyword": lambda x: torch.cat(tensors=[x, x], dim=0),
    "stack": lambda x: torch.stack([x, x + 1], 1),
    "where": lambda x: torch.where(x > 1, x, 0.0),
    "where tensors": lambda x: torch.where(x > 1, x, -x),
    "einsum": lambda x: torch.einsum("bij,bkj->bik", x, x),
    "einsum list": lambda x: torch.einsum("bij,bkj->bik", [x, x]),
    "matmul": lambda x: torch.matmul(x, x.transpose(-1, -2)),
    "max": lambda x: torch.max(x, 1).values + torch.max(x, dim=1)[0],
    "max unpacked": lambda x: (lambda values, indices: values * indices)(*torch.max(x, 1)),
    "max returned": lambda x: torch.max(x, 1),
    "min returned": lambda x: (torch.min(x, 0), torch.sort(x), torch.topk(x, 2)),
    "named fields": lambda x: torch.topk(x, k=2, dim=-1).values + torch.sort(x, descending=True).values[..., :2],
    "named iteration": lambda x: [t * 2 for t in torch.max(x, 0)],
    "named len": lambda x: x * len(torch.max(x, 0)),
    "named in list": lambda x: [torch.max(x, 0), torch.min(x, 0)],
    "named slice": lambda x: torch.max(x, 0)[:1],
    "named isinstance": lambda x: x * isinstance(torch.max(x, 0), tuple),
    "cummax": lambda x: torch.cummax(x, 0),
    "std_mean": lambda x: torch.std_mean(x, dim=1),
    "var_mean": lambda x: torch.var_mean(x, 1),
    "aminmax": lambda x: torch.aminmax(x),
    "split": lambda x: torch.split(x, [1, 2], dim=1),
    "chunk": lambda x: torch.chunk(x, 2, -1)[1] * 2,
    "unbind": lambda x: torch.unbind(x, 2)[3] + torch.unbind(x)[0][:, 0],
    "meshgrid": lambda x: torch.meshgrid(x[0, 0], x[0, 1], indexing="ij"),
    "broadcast_tensors": lambda x: torch.broadcast_tensors(x, x[:1], x[..., :1]),
    "broadcast_shapes": lambda x: x.expand(torch.broadcast_shapes(x.shape, (1, 1, 4))),
    "atleast": lambda x: (torch.atleast_2d(x[0, 0]), torch.atleast_3d(x[0, 0], x[0])),
    "block_diag": lambda x: torch.block_diag(x[0], x[1]),
    "cartesian_prod": lambda x: torch.cartesian_prod(x[0, 0], x[0, 1]),
    "tensordot": lambda x: torch.tensordot(x, x, dims=([1, 2], [1, 2])),
    "norm": lambda x: torch.norm(x) + torch.norm(x, dim=1).sum(),
    "linalg norm": lambda x: torch.linalg.norm(x) + torch.linalg.vector_norm(x, dim=-1).sum(),
    "fft": lambda x: torch.fft.rfft(x, dim=-1).abs() + torch.fft.fft(x).real[..., :3],
    "irfft": lambda x: torch.fft.irfft(torch.fft.rfft(x), n=x.shape[-1]),
    "special": lambda x: torch.special.expit(x) + torch.special.entr(x) + torch.special.erf(x),
    "clamp": lambda x: torch.clamp(x, min=0.5, max=1.5) + torch.clamp_min(x, 1),
    "roll": lambda x: torch.roll(x, shifts=(1, 2), dims=(0, 1)),
    "tril": lambda x: torch.tril(x, diagonal=1) + torch.triu(x),
    "outer": lambda x: torch.outer(x[0, 0], x[0, 1]),
    "addmm": lambda x: torch.addmm(x[0] @ x[0].t(), x[0], x[0].t(), beta=2, alpha=0.5),
    "baddbmm": lambda x: torch.baddbmm(x @ x.mT, x, x.mT),
    "bmm": lambda x: torch.bmm(x, x.mT),
    "cumsum": lambda x: torch.cumsum(x, 0) + torch.cumprod(x, 1),
    "flip": lambda x: torch.flip(x, dims=[0, 1]),
    "gather": lambda x: torch.gather(x, 2, torch.zeros(2, 3, 1, dtype=torch.long)),
    "index_select": lambda x: torch.index_select(x, 1, torch.tensor([0, 2])),
    "take_along_dim": lambda x: torch.take_along_dim(x, torch.argsort(x, 1), 1),
    "searchsorted": lambda x: torch.searchsorted(x.detach()[0, 0], x.detach()[0, 1]),
    "logical": lambda x: torch.logical_and(x > 1, x < 2) | torch.logical_not(x > 1),
    "maximum": lambda x: torch.maximum(x, x.mean()) + torch.minimum(x, x * 0) + torch.fmax(x, x),
    "pow": lambda x: torch.pow(x, 2) + torch.pow(2, x),
    "rsqrt": lambda x: x * torch.rsqrt(x.pow(2).mean(-1, keepdim=True) + 1e-6),
    "div": lambda x: torch.div(x, 2) + torch.true_divide(x, 3) + torch.div(x.detach(), 2, rounding_mode="floor"),
    "is_floating_point": lambda x: x * 2 if torch.is_floating_point(x) and not torch.is_complex(x) else x,
    "numel": lambda x: x * torch.numel(x),
    "result_type": lambda x: x.to(torch.result_type(x, torch.zeros(1, dtype=torch.double))),
    "promote": lambda x: x.to(torch.promote_types(x.dtype, torch.double)),
    "can_cast": lambda x: x * torch.can_cast(torch.float, torch.double),
    "unbound method": lambda x: torch.Tensor.add(x, 1) + torch.Tensor.sum(x),
    "unbound operator": lambda x: torch.Tensor.__add__(x, 1) + torch.Tensor.__getitem__(x, 0),
    "aten": lambda x: torch.ops.aten.add.Tensor(x, x) + torch.ops.aten.relu(x) + torch.ops.aten.sum.dim_IntList(x, [0]),
    "functions in a list": lambda x: [f(x) for f in [torch.sin, torch.cos, F.relu]],
    "functions in a dict": lambda x: {"a": torch.sin, "b": F.gelu}["b"](x),
    "function as argument": lambda x: (lambda f, y: f(y))(torch.tanh, x),
    "split names": lambda x: gelu(x) + pad(x, (0, 0))[0],
    "no copy": lambda x: torch.squeeze(torch.unsqueeze(x, 0), 0).mul(2),
    "view_as_complex": lambda x: torch.view_as_real(torch.view_as_complex(x.reshape(2, 3, 2, 2)) * 1j),
    "complex": lambda x: torch.complex(x, x).abs() + torch.polar(x, x).real,
    "trapezoid": lambda x: torch.trapezoid(x, dim=-1) + torch.diff(x).sum(-1),
    "histogram free": lambda x: torch.histc(x.detach(), bins=4, min=0, max=4),
    "layer norm": lambda x: torch.layer_norm(x, (4,)),
    "softmax": lambda x: torch.softmax(x, dim=-1) + torch.log_softmax(x, 0),
    "dot": lambda x: torch.dot(x[0, 0], x[0, 1]) + torch.inner(x[0, 0], x[0, 1]) + torch.vdot(x[0, 0], x[0, 1]),
    "kron": lambda x: torch.kron(x[0], x[1]),
    "cross": lambda x: torch.linalg.cross(x.mT, x.mT + 1),
    "unravel": lambda x: torch.unflatten(x, 2, (2, 2)),
    "cond free isin": lambda x: torch.isin(x.detach(), torch.tensor([0.5])),
    "column_stack": lambda x: torch.column_stack((x[0], x[1])) + torch.hstack((x[0], x[1])),
    "vstack": lambda x: torch.vstack([x[0], x[1]]) + torch.concat([x[0], x[1]]),
    "math of sizes": lambda x: x / math.sqrt(x.shape[-1]) + math.pi,
    "torch.pi": lambda x: x * torch.pi + torch.inf * 0 if torch.e < 3 else x,
    "nested results": lambda x: [(torch.max(x, 0), {"a": torch.sort(x)})],
    "Tensor.max unbound": lambda x: torch.Tensor.max(x, 1).indices,
    "real": lambda x: torch.real(x) + torch.conj(x),
    "detach": lambda x: torch.detach(x) * x,
    "clone": lambda x: torch.clone(x) + torch.ravel(x).view(2, 3, 4),
    "addcmul": lambda x: torch.addcmul(x, x, x, value=0.5) + torch.lerp(x, x * 2, 0.3),
}


@pytest.mark.parametrize("name", FUNCTIONS)
def test_functions(name: str) -> None:
    check(FUNCTIONS[name], leaf(X))


FUNCTIONAL: dict[str, Callable[[Any], Any]] = {
    "activations": lambda x: F.relu(x) + F.gelu(x) + F.silu(x) + F.elu(x) + F.leaky_relu(x, 0.1) + F.softplus(x),
    "more activations": lambda x: F.mish(x) + F.hardswish(x) + F.hardtanh(x) + F.selu(x) + F.celu(x) + F.tanhshrink(x),
    "gelu tanh": lambda x: F.gelu(x, approximate="tanh"),
    "glu": lambda x: F.glu(x, dim=-1),
    "relu6": lambda x: F.relu6(x) + F.hardsigmoid(x) + F.logsigmoid(x) + F.softsign(x),
    "softmax": lambda x: F.softmax(x, dim=-1) + F.log_softmax(x, dim=1) + F.softmin(x, dim=0),
    "softmax dtype": lambda x: F.softmax(x, dim=-1, dtype=torch.float64).to(x.dtype),
    "linear": lambda x: F.linear(x, torch.ones(5, 4), torch.zeros(5)),
    "bilinear": lambda x: F.bilinear(x, x, torch.ones(2, 4, 4)),
    "layer_norm": lambda x: F.layer_norm(x, (4,)) + F.layer_norm(x, x.shape[-1:], torch.ones(4), torch.zeros(4), 1e-3),
    "rms_norm": lambda x: F.rms_norm(x, (4,)),
    "group_norm": lambda x: F.group_norm(x, 3),
    "normalize": lambda x: F.normalize(x, dim=-1),
    "cosine": lambda x: F.cosine_similarity(x, x + 1, dim=-1),
    "pairwise": lambda x: F.pairwise_distance(x, x + 1),
    "mse": lambda x: F.mse_loss(x, x * 2) + F.l1_loss(x, x * 2) + F.smooth_l1_loss(x, x * 2) + F.huber_loss(x, x * 2),
    "kl": lambda x: F.kl_div(F.log_softmax(x, -1), F.softmax(x * 2, -1), reduction="batchmean"),
    "bce logits": lambda x: F.binary_cross_entropy_with_logits(x, torch.ones_like(x)),
    "cross entropy": lambda x: F.cross_entropy(x.reshape(6, 4), torch.tensor([0, 1, 2, 3, 0, 1])),
    "cross entropy smooth": lambda x: F.cross_entropy(x[0], torch.tensor([0, 1, 2]), label_smoothing=0.1),
    "nll": lambda x: F.nll_loss(F.log_softmax(x[0], -1), torch.tensor([0, 1, 2])),
    "pad": lambda x: F.pad(x, (1, 2)) + F.pad(x, [1, 2, 0, 0], value=3.0),
    "pad reflect": lambda x: F.pad(x, (1, 1), mode="reflect"),
    "unfold": lambda x: F.unfold(x[None], 2),
    "interpolate": lambda x: F.interpolate(x, scale_factor=2, mode="linear"),
    "interpolate size": lambda x: F.interpolate(x[None], size=(6, 8), mode="bilinear", align_corners=False),
    "pool1d": lambda x: F.max_pool1d(x, 2) + F.avg_pool1d(x, 2),
    "adaptive": lambda x: F.adaptive_avg_pool1d(x, 2) + F.adaptive_max_pool1d(x, 2),
    "conv1d": lambda x: F.conv1d(x, torch.ones(2, 3, 2), padding=1),
    "conv transpose": lambda x: F.conv_transpose1d(x, torch.ones(3, 2, 2)),
    "sdpa": lambda x: F.scaled_dot_product_attention(x, x, x),
    "sdpa causal": lambda x: F.scaled_dot_product_attention(x[None], x[None], x[None], is_causal=True, scale=0.3),
    "sdpa mask": lambda x: F.scaled_dot_product_attention(x, x, x, attn_mask=torch.ones(3, 3).tril().bool()),
    "one hot": lambda x: F.one_hot(torch.arange(3), num_classes=4) * x[0],
    "dropout eval": lambda x: F.dropout(x, 0.5, training=False) * 2,
    "local response": lambda x: F.local_response_norm(x, 2),
    "pixel shuffle": lambda x: F.pixel_shuffle(x.reshape(1, 4, 2, 3), 2),
    "embedding": lambda x: F.embedding(torch.tensor([0, 2, 1]), x[0]),
    "embedding_bag": lambda x: F.embedding_bag(torch.tensor([[0, 2], [1, 1]]), x[0]),
    "relu inplace": lambda x: F.relu(x * 2, inplace=True) + F.silu(x * 3, inplace=True),
    "prelu": lambda x: F.prelu(x, torch.tensor([0.25])),
    "threshold": lambda x: F.threshold(x, 1.0, 0.0),
    "triplet": lambda x: F.triplet_margin_loss(x[0], x[0] + 1, x[1]),
    "margin": lambda x: F.margin_ranking_loss(x[0], x[1], torch.ones(3, 4)),
    "affine grid": lambda x: F.affine_grid(x[:, :2, :3], [2, 1, 4, 4], align_corners=False),
    "grid sample": lambda x: F.grid_sample(x[:, None], x[..., :2][:, None] - 1, align_corners=False),
    "instance norm": lambda x: F.instance_norm(x),
    "batch norm": lambda x: F.batch_norm(x, torch.zeros(3), torch.ones(3), training=True),
    "gumbel shape": lambda x: F.gumbel_softmax(x, tau=1.0),
    "channel shuffle": lambda x: torch.channel_shuffle(x[None, :2], 2),
    "multi head": lambda x: F.multi_head_attention_forward(
        x, x, x, 4, 2, torch.ones(12, 4) / 9, torch.zeros(12), None, None, False, 0.0, torch.eye(4), torch.zeros(4)
    )[0],
}


@pytest.mark.parametrize("name", FUNCTIONAL)
def test_functional(name: str) -> None:
    check(FUNCTIONAL[name], leaf(X))


LINALG: dict[str, Callable[[Any], Any]] = {
    "inv": torch.linalg.inv,
    "inverse": torch.inverse,
    "det": torch.det,
    "slogdet": torch.linalg.slogdet,
    "solve": lambda s: torch.linalg.solve(s, s[0]),
    "cholesky": lambda s: torch.linalg.cholesky(s @ s.T + torch.eye(3)),
    "cholesky old": lambda s: torch.cholesky(s @ s.T + torch.eye(3)),
    "qr": lambda s: torch.linalg.qr(s).R.abs(),
    "svd": lambda s: torch.linalg.svd(s).S,
    "svd returned": lambda s: torch.linalg.svd(s.detach()),
    "eigh": lambda s: torch.linalg.eigh(s + s.T).eigenvalues,
    "matrix_power": lambda s: torch.linalg.matrix_power(s, 3),
    "pinv": lambda s: torch.linalg.pinv(s),
    "matrix_exp": torch.matrix_exp,
    "lu": lambda s: torch.linalg.lu(s),
    "multi_dot": lambda s: torch.linalg.multi_dot([s, s, s]),
    "chain": lambda s: torch.chain_matmul(s, s) if False else s @ s,
    "svd struct": lambda s: torch.svd(s.detach()),
    "triangular": lambda s: torch.linalg.solve_triangular(s.triu(), s, upper=True),
    # LAPACK's last digits depend on where in memory its operands lie.
    "lstsq": lambda s: torch.linalg.lstsq(s, s).solution.round(decimals=3),
}


@pytest.mark.parametrize("name", LINALG)
def test_linalg(name: str) -> None:
    check(LINALG[name], leaf(S), expect_breaks=None, expect_ops=0)


FACTORIES: dict[str, Callable[[Any], Any]] = {
    "zeros": lambda x: torch.zeros(2, 3, 4) + x,
    "zeros shape": lambda x: torch.zeros(x.shape) + torch.ones(x.shape[1:], dtype=x.dtype, device=x.device) + x,
    "zeros list": lambda x: torch.zeros([x.shape[0], 1, 1]) + x,
    "zeros mixed": lambda x: torch.zeros((2, 3) + (x.size(-1),), dtype=torch.double) + x,
    "arange": lambda x: torch.arange(x.shape[-1]) * x + torch.arange(0, 8, 2) + torch.arange(4, dtype=torch.float),
    "arange end": lambda x: torch.arange(end=x.shape[-1], device=x.device) + x,
    "linspace": lambda x: torch.linspace(0, 1, steps=x.shape[2]) * x,
    "full": lambda x: torch.full((2, 3, 4), 3) + torch.full(x.shape, fill_value=2.5) + x,
    "eye": lambda x: torch.eye(x.shape[1]) @ x,
    "tensor scalar": lambda x: torch.tensor(2.0) * x + torch.tensor(3),
    "tensor list": lambda x: torch.tensor([1.0, 2.0, 3.0, 4.0]) * x,
    "tensor nested": lambda x: torch.tensor([[1, 2], [3, 4]], dtype=x.dtype) @ x[:, :2],
    "tensor of sizes": lambda x: torch.tensor(x.shape) + torch.tensor([x.size(0), 5, 6]) + x.sum(),
    "tensor kwargs": lambda x: x * torch.tensor(data=1.5, device="cpu", dtype=torch.float64),
    "as_tensor": lambda x: torch.as_tensor([1.0, 2.0, 3.0, 4.0]) * torch.as_tensor(x * 1),
    "scalar_tensor": lambda x: torch.scalar_tensor(3) + x,
    "empty filled": lambda x: torch.empty(4).fill_(2) * x + torch.empty_like(x).zero_(),
    "tril_indices": lambda x: torch.tril_indices(3, 3) + x.sum(),
    "windows": lambda x: torch.hann_window(4) * x + torch.hamming_window(4),
    "requires_grad": lambda x: (torch.ones(4, requires_grad=True) * x).sum(),
    "device object": lambda x: torch.zeros(4, device=torch.device("cpu")) + x,
    "device index": lambda x: torch.zeros(4, device=torch.device("cpu:0")) + x,
    "memory format": lambda x: torch.empty(1, 2, 3, 4, memory_format=torch.channels_last).zero_() + x[0],
    "out": lambda x: torch.add(x, 1, out=torch.empty(2, 3, 4)),
    "complex": lambda x: torch.complex(torch.zeros(4), torch.ones(4)) * x,
    "dtype variable": lambda x: torch.zeros(4, dtype=torch.float32 if x.ndim == 3 else torch.float64) + x,
    "sparse free": lambda x: torch.ones(4).to_sparse().to_dense() + x,
    "diag": lambda x: torch.diag(torch.ones(3)) @ x,
    "FloatTensor": lambda x: torch.FloatTensor([1.0, 2.0, 3.0, 4.0]) * x,
    "Tensor": lambda x: torch.Tensor([1.0, 2.0, 3.0, 4.0]) * x,
    "from comprehension": lambda x: torch.tensor([i * 2 for i in range(x.shape[-1])]) * x,
    "tensor of tensors": lambda x: torch.tensor([x.shape[0], 1.5, 2, 3]) * x,
    "default device": lambda x: torch.zeros(4, device=torch.get_default_device()) + x,
}


@pytest.mark.parametrize("name", FACTORIES)
def test_factories(name: str) -> None:
    check(
        FACTORIES[name],
        X,
        expect_breaks=None
        if name in ("requires_grad", "sparse free", "device index", "FloatTensor", "Tensor", "default device")
        else 0,
        expect_ops=0,
    )


RANDOM: dict[str, Callable[[Any], Any]] = {
    "rand": lambda x: torch.rand(4) + x,
    "randn": lambda x: torch.randn(x.shape) + torch.randn(2, 3, 4, dtype=torch.double) + x,
    "randint": lambda x: torch.randint(0, 10, (4,)) + x,
    "randperm": lambda x: x[:, :, torch.randperm(4)],
    "rand_like": lambda x: torch.rand_like(x) * torch.randn_like(x) + torch.randint_like(x, 5),
    "dropout": lambda x: F.dropout(x, 0.5) + F.dropout(x, p=0.1, training=True),
    "normal": lambda x: torch.normal(0.0, 1.0, (4,)) + x,
    "normal_": lambda x: torch.empty(4).normal_() + torch.empty(4).uniform_(0, 2) + x,
    "bernoulli": lambda x: torch.bernoulli(x * 0 + 0.5) + x,
    "multinomial": lambda x: torch.multinomial(x[0], 2) + x.sum(),
    "unused draw": lambda x: (torch.rand(3), x * 2)[1],
    "exponential": lambda x: x + torch.empty(4).exponential_(),
    "break after": lambda x: (torch.rand(4) + x).sum().item() + torch.rand(1),
    "break before": lambda x: x.sum().item() + torch.rand(4),
    "break between": lambda x: (torch.rand(4) * 2, x.sum().item(), torch.rand(4)),
    "sdpa dropout": lambda x: F.scaled_dot_product_attention(x, x, x, dropout_p=0.5),
    "rrelu": lambda x: F.rrelu(x - 1, training=True),
    "alpha": lambda x: F.alpha_dropout(x, 0.3, training=True) + F.dropout2d(x[None], 0.5)[0] + F.dropout1d(x, 0.5),
    "seeded": lambda x: (torch.manual_seed(3), torch.rand(4) + x)[1],
}


@pytest.mark.parametrize("name", RANDOM)
def test_random_numbers(name: str) -> None:
    ops = 0 if name in ("seeded", "break before") else 1
    # What comes after a break is captured for the very number that Python got out of a tensor.
    hit = False if name == "break after" else None
    check(RANDOM[name], X, expect_breaks=None, expect_ops=ops, expect_hit=hit)


def out_of_input(x: Any, y: Any) -> Any:
    torch.mul(x, 2, out=y)
    return y.sum()


def out_of_two(x: Any, y: Any) -> Any:
    result = torch.add(x, 1, out=y)
    return result is y, result + 1


def relu_in_place(x: Any) -> Any:
    F.relu(x, inplace=True)
    torch.nn.functional.hardtanh_(x)
    return x


def underscore_functions(x: Any) -> Any:
    torch.relu_(x)
    torch.sigmoid_(x)
    return torch.Tensor.mul_(x, 2)


def fill(x: Any) -> Any:
    torch.nn.init.zeros_(x)
    return x


def test_out_arguments() -> None:
    check(out_of_input, X, torch.zeros(2, 3, 4))
    check(out_of_two, X, torch.zeros(2, 3, 4))


@pytest.mark.parametrize("function", [relu_in_place, underscore_functions, fill])
def test_functions_that_write(function: Callable[[Any], Any]) -> None:
    check(function, X - 1, expect_breaks=None)


ANSWERS: dict[str, Callable[[Any], Any]] = {
    "grad enabled": lambda x: x * 2 if torch.is_grad_enabled() else x,
    "inference": lambda x: x * 2 if torch.is_inference_mode_enabled() else x * 3,
    "autocast": lambda x: x * 2 if torch.is_autocast_enabled() else x * 3,
    "autocast device": lambda x: x * 2 if torch.is_autocast_enabled("cpu") else x * 3,
    "default dtype": lambda x: x.to(torch.get_default_dtype()) * 2,
    "deterministic": lambda x: x * 2 if torch.are_deterministic_algorithms_enabled() else x * 3,
    "scripting": lambda x: x * 2 if torch.jit.is_scripting() or torch.jit.is_tracing() else x * 3,
    "has torch function": lambda x: x * 2 if torch.overrides.has_torch_function((x,)) else x * 3,
    "size": lambda x: x.reshape(torch.Size([6, 4])),
    "finfo": lambda x: x.masked_fill(x > 1, torch.finfo(x.dtype).min) + torch.iinfo(torch.int8).max,
    "device": lambda x: x * 2 if torch.device("cpu") == x.device else x,
    "assert": lambda x: (torch._assert(x.shape[0] == 2, "two"), x * 2)[1],
    "check": lambda x: (torch._check(x.shape[0] == 2), x * 2)[1],
    "check message": lambda x: (torch._check(x.shape[0] == 2, lambda: f"got {x.shape}"), x * 2)[1],
    "cuda available": lambda x: x * 2 if torch.cuda.is_available() else x * 3,
    "threads": lambda x: x * torch.get_num_threads(),
    "numel of size": lambda x: x * x.size().numel(),
    "mkldnn": lambda x: x * 2 if torch.backends.mkldnn.is_available() else x * 2,
    "sdp": lambda x: x * 2 if torch.backends.cuda.flash_sdp_enabled() else x * 3,
    "iscpu": lambda x: x * 2 if x.device == torch.device("cpu") and str(x.device) == "cpu" else x,
}


@pytest.mark.parametrize("name", ANSWERS)
def test_answers(name: str) -> None:
    check(ANSWERS[name], X, expect_breaks=None, expect_ops=0 if name in ("threads", "mkldnn", "sdp") else 1)


@pytest.mark.parametrize("product", [torch.matmul, torch.mm, lambda a, b: a @ b, torch.nn.functional.linear])
def test_products_of_different_types_raise_also_where_nobody_looks(product):
    def function(a, b):
        product(a, b)
        return a + 1

    check(function, torch.randn(2, 2).bfloat16(), torch.randn(2, 2), expect_breaks=None)


@pytest.mark.parametrize("backend", ["eager", "aot_eager"])
def test_a_loss_that_aot_autograd_takes_apart_wrongly(backend):
    def function(x, target):
        return F.multilabel_margin_loss(x * 2, target) + 1

    target = torch.tensor([[3, 0, -1, 1], [2, -1, 0, 0]])
    x = torch.randn(2, 4, requires_grad=True)
    check(function, x, target, backend=backend, fullgraph=backend == "eager", expect_breaks=None)


def test_what_is_stored_in_the_namespace_of_operators():
    def stored(x):
        torch.ops.framelift_stored = {"rate": 2}
        return x * torch.ops.framelift_stored["rate"]

    def read(x):
        return x * torch.ops.framelift_stored["rate"]

    try:
        x = torch.arange(3.0)
        check(stored, x)
        lifted = framelift.compile(read, backend="eager", fullgraph=True)
        assert torch.equal(lifted(x), x * 2)
        torch.ops.framelift_stored["rate"] = 3
        assert torch.equal(lifted(x), x * 3)
    finally:
        del torch.ops.framelift_stored
