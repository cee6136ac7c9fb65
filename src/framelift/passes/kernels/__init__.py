"""Operators for products of embeddings: plain torch on any device, one Triton kernel on CUDA.

    framelift::compress(x, weight, bias)      weight @ x + bias        x (..., N, D), weight (K, N), bias (K) or None
    framelift::dot_compress(x, y)             x @ (xᵀ @ y)             x (B, N, D), y (N, K) or (B, N, K)

They are operators of torch (with fake tensors and gradients), so every backend takes a graph that calls them. Triton is
optional and only imported by `triton_products`, when a kernel is first run.
"""

from __future__ import annotations

import importlib.util

import torch

from framelift.passes.kernels import operators

COMPRESS = torch.ops.framelift.compress.default
DOT_COMPRESS = torch.ops.framelift.dot_compress.default

HAS_TRITON = importlib.util.find_spec("triton") is not None
DTYPES = (torch.float16, torch.bfloat16, torch.float32)
# What one program of the kernel keeps: D times K numbers.
LARGEST_INNER = 128 * 64
LARGEST_WIDTH = 128


def takes_compression(x: torch.Tensor) -> bool:
    """Whether there is a kernel for the compression of these embeddings."""
    return HAS_TRITON and x.device.type == "cuda" and x.dtype in DTYPES and x.dim() >= 3


def takes_dot_compress(x: torch.Tensor, width: int) -> bool:
    """Whether there is a kernel for the compressed pairwise products of these embeddings."""
    if not HAS_TRITON or x.device.type != "cuda" or x.dtype not in DTYPES or x.dim() != 3:
        return False
    return width <= LARGEST_WIDTH and x.shape[2] * width <= LARGEST_INNER


__all__ = ["operators", "COMPRESS", "DOT_COMPRESS", "takes_compression", "takes_dot_compress"]
