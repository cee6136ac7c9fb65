"""The Triton kernels behind the operators, for CUDA. Sums are kept in float32 whatever the dtype of the tensors."""

from __future__ import annotations

from typing import Any

import torch
import triton
import triton.language as tl
from torch import Tensor


# Triton reads annotations as its own: plain arguments have none.
@triton.jit
def _compress_kernel(  # type: ignore[no-untyped-def]
    x, weight, bias, out,
    count, size, width,
    x_batch, x_row, x_column,
    weight_row, weight_column, bias_step,
    has_bias: tl.constexpr, precision: tl.constexpr,
    block_rows: tl.constexpr, block_inner: tl.constexpr, block_columns: tl.constexpr,
) -> None:  # fmt: skip
    """out[b] (width, size) = weight (width, count) @ x[b] (count, size) + bias: one block of one product."""
    batch = tl.program_id(0).to(tl.int64)
    rows = tl.program_id(1) * block_rows + tl.arange(0, block_rows)
    columns = tl.program_id(2) * block_columns + tl.arange(0, block_columns)
    total = tl.zeros((block_rows, block_columns), dtype=tl.float32)
    for start in range(0, count, block_inner):
        inner = start + tl.arange(0, block_inner)
        left = tl.load(
            weight + rows[:, None] * weight_row + inner[None, :] * weight_column,
            mask=(rows[:, None] < width) & (inner[None, :] < count),
            other=0.0,
        )
        right = tl.load(
            x + batch * x_batch + inner[:, None] * x_row + columns[None, :] * x_column,
            mask=(inner[:, None] < count) & (columns[None, :] < size),
            other=0.0,
        )
        total = tl.dot(left, right, total, input_precision=precision)
    if has_bias:
        total += tl.load(bias + rows * bias_step, mask=rows < width, other=0.0).to(tl.float32)[:, None]
    tl.store(
        out + batch * width * size + rows[:, None] * size + columns[None, :],
        total.to(out.dtype.element_ty),
        mask=(rows[:, None] < width) & (columns[None, :] < size),
    )


def compress(x: Tensor, weight: Tensor, bias: Tensor | None) -> Tensor:
    """weight @ x + bias."""
    batch = x.reshape(-1, *x.shape[-2:])
    count, size = batch.shape[1:]
    width = weight.shape[0]
    out = torch.empty((*x.shape[:-2], width, size), dtype=x.dtype, device=x.device)
    if not out.numel():
        return out
    rows, columns = _block(width, 64), _block(size, 64)
    grid = (batch.shape[0], triton.cdiv(width, rows), triton.cdiv(size, columns))
    with torch.cuda.device_of(x):
        _compress_kernel[grid](
            batch, weight, weight if bias is None else bias, out,
            count, size, width,
            *batch.stride(), *weight.stride(), 0 if bias is None else bias.stride(0),
            has_bias=bias is not None, precision=_precision(x.dtype),
            block_rows=rows, block_inner=32, block_columns=columns,
        )  # fmt: skip
    return out


@triton.jit
def _dot_compress_kernel(  # type: ignore[no-untyped-def]
    x, y, out,
    count, size, width,
    x_batch, x_row, x_column,
    y_batch, y_row, y_column,
    precision: tl.constexpr, second: tl.constexpr,
    block_rows: tl.constexpr, block_size: tl.constexpr, block_width: tl.constexpr,
) -> None:  # fmt: skip
    """out[b] (count, width) = x[b] (count, size) @ (x[b]ᵀ @ y): the product in brackets stays in the program."""
    batch = tl.program_id(0).to(tl.int64)
    features = tl.arange(0, block_size)
    columns = tl.arange(0, block_width)
    inner = tl.zeros((block_size, block_width), dtype=tl.float32)
    for start in range(0, count, block_rows):
        rows = start + tl.arange(0, block_rows)
        turned = tl.load(
            x + batch * x_batch + features[:, None] * x_column + rows[None, :] * x_row,
            mask=(features[:, None] < size) & (rows[None, :] < count),
            other=0.0,
        )
        right = tl.load(
            y + batch * y_batch + rows[:, None] * y_row + columns[None, :] * y_column,
            mask=(rows[:, None] < count) & (columns[None, :] < width),
            other=0.0,
        )
        inner = tl.dot(turned, right, inner, input_precision=precision)
    for start in range(0, count, block_rows):
        rows = start + tl.arange(0, block_rows)
        left = tl.load(
            x + batch * x_batch + rows[:, None] * x_row + features[None, :] * x_column,
            mask=(rows[:, None] < count) & (features[None, :] < size),
            other=0.0,
        )
        # The sums are not rounded to the dtype of the tensors before they are used.
        total = tl.dot(left.to(tl.float32), inner, input_precision=second)
        tl.store(
            out + batch * count * width + rows[:, None] * width + columns[None, :],
            total.to(out.dtype.element_ty),
            mask=(rows[:, None] < count) & (columns[None, :] < width),
        )


def dot_compress(x: Tensor, y: Tensor) -> Tensor:
    """x @ (xᵀ @ y)."""
    batches, count, size = x.shape
    width = y.shape[-1]
    out = torch.empty((batches, count, width), dtype=x.dtype, device=x.device)
    if not out.numel():
        return out
    precision = _precision(x.dtype)
    with torch.cuda.device_of(x):
        _dot_compress_kernel[(batches,)](
            x, y, out,
            count, size, width,
            *x.stride(), *(y.stride() if y.dim() == 3 else (0, *y.stride())),
            precision=precision, second=precision if x.dtype == torch.float32 else "tf32",
            block_rows=32, block_size=_block(size, 1 << 16), block_width=_block(width, 1 << 16),
        )  # fmt: skip
    return out


def _block(length: int, most: int) -> int:
    """The size of a block for an axis: a power of two that tensor cores take."""
    power: Any = triton.next_power_of_2(length)
    return max(16, min(int(power), most))


def _precision(dtype: torch.dtype) -> str:
    """How float32 is multiplied: as the user has allowed torch's own products."""
    return "ieee" if dtype == torch.float32 and torch.get_float32_matmul_precision() == "highest" else "tf32"
