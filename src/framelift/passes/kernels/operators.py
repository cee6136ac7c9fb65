"""The operators: how they are computed in plain torch, which is also the reference for the kernels; their gradients."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor


@torch.library.custom_op(
    "framelift::compress", mutates_args=(), schema="(Tensor x, Tensor weight, Tensor? bias) -> Tensor"
)
def compress(x: Tensor, weight: Tensor, bias: Tensor | None) -> Tensor:
    """weight @ x + bias: N embeddings mixed into K."""
    product = torch.matmul(weight, x)
    return product.contiguous() if bias is None else (product + bias.unsqueeze(-1)).contiguous()


@compress.register_kernel("cuda")
def _compress_cuda(x: Tensor, weight: Tensor, bias: Tensor | None) -> Tensor:
    from framelift.passes.kernels import triton_products  # noqa: PLC0415  (needs Triton)

    return triton_products.compress(x, weight, bias)


@compress.register_fake
def _compress_fake(x: Tensor, weight: Tensor, bias: Tensor | None) -> Tensor:
    return x.new_empty((*x.shape[:-2], weight.shape[0], x.shape[-1]))


def _keep_compress(ctx: Any, inputs: tuple[Any, ...], output: Tensor) -> None:
    x, weight, _ = inputs
    ctx.save_for_backward(x, weight)


def _compress_backward(ctx: Any, grad: Tensor) -> tuple[Tensor | None, ...]:
    x, weight = ctx.saved_tensors
    wanted = ctx.needs_input_grad
    rows = grad.flatten(0, -3)
    by_weight = torch.matmul(rows, x.flatten(0, -3).mT).sum(0) if wanted[1] else None
    return (
        torch.matmul(weight.mT, grad) if wanted[0] else None,
        by_weight,
        rows.sum((0, 2)) if wanted[2] else None,
    )


compress.register_autograd(_compress_backward, setup_context=_keep_compress)


@torch.library.custom_op("framelift::dot_compress", mutates_args=(), schema="(Tensor x, Tensor y) -> Tensor")
def dot_compress(x: Tensor, y: Tensor) -> Tensor:
    """x @ (xᵀ @ y), which is (x @ xᵀ) @ y: pairwise products, compressed, that are never made."""
    return torch.matmul(x, torch.matmul(x.mT, y))


@dot_compress.register_kernel("cuda")
def _dot_compress_cuda(x: Tensor, y: Tensor) -> Tensor:
    from framelift.passes.kernels import triton_products  # noqa: PLC0415  (needs Triton)

    return triton_products.dot_compress(x, y)


@dot_compress.register_fake
def _dot_compress_fake(x: Tensor, y: Tensor) -> Tensor:
    return x.new_empty((x.shape[0], x.shape[1], y.shape[-1]))


def _keep_dot_compress(ctx: Any, inputs: tuple[Any, ...], output: Tensor) -> None:
    ctx.save_for_backward(*inputs)


def _dot_compress_backward(ctx: Any, grad: Tensor) -> tuple[Tensor | None, Tensor | None]:
    x, y = ctx.saved_tensors
    inner = torch.matmul(x.mT, y)
    inner_grad = torch.matmul(x.mT, grad)
    by_x = torch.matmul(grad, inner.mT) + torch.matmul(y, inner_grad.mT) if ctx.needs_input_grad[0] else None
    by_y = torch.matmul(x, inner_grad) if ctx.needs_input_grad[1] else None
    return by_x, by_y.sum(0) if by_y is not None and y.dim() == 2 else by_y


dot_compress.register_autograd(_dot_compress_backward, setup_context=_keep_dot_compress)
