"""Passes by name on products: compression of embeddings, pairwise products, attention, small einsums."""

from __future__ import annotations

import math

import pytest
import torch
from torch.nn import functional as F

from tests.passes.support import calls, optimised
from tests.passes.test_default_passes import APPROXIMATE, after, tensors, unchanged

X, W, B = tensors((3, 6, 5), (4, 6), (4,))


def compress(x, w, b):
    return F.linear(x.permute(0, 2, 1), w, b).permute(0, 2, 1).contiguous()


@pytest.mark.parametrize("name", ["use_triton_lce_replace_normal_LCE", "use_matmul_lce_replace_normal_LCE"])
def test_compression_with_a_bias(name):
    gm, _ = optimised(compress, X, W, B, add=name, **APPROXIMATE)
    assert calls(gm) == ["matmul", "unsqueeze", "add"]


def test_compression_without_a_bias():
    def f(x, w):
        return F.linear(x.transpose(1, 2), w).transpose(-1, -2).contiguous()

    gm, _ = optimised(f, X, W, add="use_triton_lce_replace_simple_LCE", **APPROXIMATE)
    assert calls(gm) == ["matmul"]
    assert unchanged(compress, X, W, B, passes="use_triton_lce_replace_simple_LCE", **APPROXIMATE)


def test_compression_of_one_matrix():
    def f(x, w, b):
        return F.linear(x.t(), w, b).t() * 2

    found = after(f, X[0], W, B, passes="use_matmul_lce_replace_normal_LCE", layout="relaxed", **APPROXIMATE)
    assert found == ["matmul", "unsqueeze", "add", "mul"]


def test_compressions_of_the_same_embeddings():
    (v,) = tensors((2, 6))

    def f(x, w, v):
        turned = x.permute(0, 2, 1)
        return F.linear(turned, w).permute(0, 2, 1) * 2, F.linear(turned, v).permute(0, 2, 1) * 3

    found = after(f, X, W, v, passes="fuse_parallel_LCE", layout="relaxed", **APPROXIMATE)
    assert found.count("matmul") == 1 and "linear" not in found


def linear_used(x, w, b):
    y = F.linear(x.permute(0, 2, 1), w, b)
    return y.permute(0, 2, 1).contiguous(), y * 2


@pytest.mark.parametrize(
    "function",
    [
        lambda x, w, b: F.linear(x.permute(0, 2, 1), w, b).permute(2, 1, 0).contiguous(),
        linear_used,
        lambda x, w, b: F.linear(x.permute(0, 2, 1), w, b).permute(0, 2, 1),
    ],
)
def test_what_is_no_compression(function):
    assert unchanged(function, X, W, B, passes="use_matmul_lce_replace_normal_LCE", **APPROXIMATE)


def test_compression_of_joined_embeddings():
    one, other = tensors((3, 2, 5), (3, 4, 5))

    def f(one, other, w, b):
        return F.linear(torch.cat([one, other], 1).permute(0, 2, 1), w, b).permute(0, 2, 1).contiguous()

    gm, _ = optimised(f, one, other, W, B, add="use_matmul_fuse_lce_replace_first_LCE", **APPROXIMATE)
    assert "cat" not in calls(gm) and calls(gm).count("matmul") == 2


def test_pairwise_products_are_not_made():
    x, y = tensors((2, 16, 4), (16, 3))

    def f(x, y):
        return torch.matmul(torch.bmm(x, x.transpose(1, 2)), y)

    name = "use_triton_dot_compress"
    assert after(f, x, y, passes=name, **APPROXIMATE) == ["permute", "matmul", "bmm"]
    w, b = tensors((3, 16), (3,))
    linear = after(lambda x, w, b: F.linear(x @ x.mT, w, b), x, w, b, passes=name, **APPROXIMATE)
    assert linear == ["permute", "permute", "matmul", "bmm", "add"]


def also_gathered(x, y):
    pairs = torch.bmm(x, x.transpose(1, 2))
    return torch.matmul(pairs, y), pairs.flatten(1)[:, :3]


@pytest.mark.parametrize(
    "function",
    [
        also_gathered,
        lambda x, y: torch.matmul(torch.bmm(x, x.transpose(1, 2)).relu(), y),
        lambda x, y: torch.matmul(torch.bmm(x, x.transpose(1, 2).flip(0)), y),
    ],
)
def test_pairwise_products_that_are_needed(function):
    x, y = tensors((2, 16, 4), (16, 3))
    assert unchanged(function, x, y, passes="use_triton_dot_compress", **APPROXIMATE)


def test_pairwise_products_that_are_less_work():
    x, y = tensors((2, 4, 16), (4, 16))
    assert unchanged(lambda x, y: (x @ x.mT) @ y, x, y, passes="use_triton_dot_compress", **APPROXIMATE)


# -- attention -----------------------------------------------------------------------------------------------------

QKV = tensors((2, 3, 7, 8), (2, 3, 5, 8), (2, 3, 5, 8))


def attention(q, k, v):
    weights = torch.softmax(q @ k.transpose(-1, -2) / math.sqrt(8), -1)
    return (F.dropout(weights, 0.1, False) @ v) + 1


def test_attention_is_one_call():
    found = after(attention, *QKV, passes="fuse_sdpa", **APPROXIMATE)
    assert "scaled_dot_product_attention" in found and "softmax" not in found


def weights_returned(q, k, v):
    weights = torch.softmax(q @ k.transpose(-1, -2) * 0.5, -1)
    return weights @ v, weights


@pytest.mark.parametrize(
    "function",
    [
        weights_returned,
        lambda q, k, v: F.dropout(torch.softmax(q @ k.mT, -1), 0.1, True) @ v,
        lambda q, k, v: torch.softmax(q @ k.mT, -2) @ v,
        lambda q, k, v: torch.softmax(q @ k.mT + torch.full((5,), -2.0), -1) @ v,
    ],
)
def test_what_is_not_plain_attention(function):
    gm, _ = optimised(function, *QKV, passes="normalization_pass_aten fuse_sdpa", **APPROXIMATE)
    assert "scaled_dot_product_attention" not in calls(gm)


def masked(q, k, v, mask):
    return torch.softmax(q @ k.mT * 0.25 + mask, -1) @ v


MASKED = (*QKV, torch.randn(7, 5, generator=torch.Generator().manual_seed(5)))


def test_masks_are_fused_where_hidden_rows_may_differ():
    assert unchanged(masked, *MASKED, passes="fuse_sdpa", **APPROXIMATE)
    allowed = {"allow_semantic_changes": frozenset({"fuse_sdpa"}), **APPROXIMATE}
    found = after(masked, *MASKED, passes="fuse_sdpa", **allowed)
    assert found[-1] == "scaled_dot_product_attention" and "softmax" not in found


@pytest.mark.parametrize("dtype", [torch.float64, torch.float32, torch.bfloat16, torch.float16], ids=str)
@pytest.mark.parametrize("rank", [3, 4])
def test_the_error_of_attention_against_double_precision_does_not_grow(dtype, rank):
    # `optimised` compares results and gradients: new error <= 2 * old error + a few roundings.
    args = [(each if rank == 4 else each[0]).to(dtype) for each in QKV]
    allowed = {"allow_semantic_changes": frozenset({"fuse_sdpa"}), **APPROXIMATE}
    assert "scaled_dot_product_attention" in after(attention, *args, passes="fuse_sdpa", **APPROXIMATE)
    mask = MASKED[3].to(dtype)
    assert "scaled_dot_product_attention" in after(masked, *args, mask, passes="fuse_sdpa", **allowed)


@pytest.mark.parametrize(
    "function",
    [
        lambda q, k, v: torch.softmax((q @ k.mT).float(), -1).to(q.dtype) @ v,  # a step in higher precision
        lambda q, k, v: F.softmax(q @ k.mT, -1, dtype=torch.float32).to(q.dtype) @ v,
    ],
)
def test_a_softmax_in_higher_precision_is_respected(function):
    args = [each.bfloat16() for each in QKV]
    gm, _ = optimised(function, *args, passes="normalization_pass_aten fuse_sdpa", **APPROXIMATE)
    assert "scaled_dot_product_attention" not in calls(gm)


# -- einsum, and a stack undone ------------------------------------------------------------------------------------


def test_small_einsums():
    a, w, c = tensors((2, 3, 4), (2, 3, 4, 5), (2, 3, 5))
    name = "einsum_to_pointwise_pass"
    found = after(lambda a, w, c: torch.einsum("bni,bnio->bno", a, w) + c, a, w, c, passes=name, **APPROXIMATE)
    assert found == ["unsqueeze", "mul", "sum", "add"]
    assert unchanged(lambda a, w: torch.einsum("bni,bnio->bno", a, w), a, w, passes=name, **APPROXIMATE)
    square, weights, other = tensors((2, 3, 3), (2, 3, 3, 4), (2, 3, 4))
    diagonal = lambda a, w, c: torch.einsum("abb,abbd->abd", a, w) + c  # noqa: E731
    assert unchanged(diagonal, square, weights, other, passes=name, **APPROXIMATE)


def test_a_stack_around_a_pointwise_call():
    def f(x):
        parts = torch.tanh(torch.stack(torch.split(x, 2, 0), 0)).unbind(0)
        return [part + 1 for part in parts]

    (x,) = tensors((8, 3))
    found = after(f, x, passes="merge_stack_tahn_unbind_pass", **APPROXIMATE)
    assert found[:2] == ["tanh", "split"] and "stack" not in found
