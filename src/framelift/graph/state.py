"""torch's modes and flags that decide what metadata an operation's result has."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from typing import NamedTuple

import torch

_C = torch._C


class TorchState(NamedTuple):
    """A snapshot of them; equal snapshots make an operation behave the same."""

    grad: bool
    inference: bool
    autocast_cpu: bool
    autocast_cuda: bool
    autocast_cpu_dtype: torch.dtype
    autocast_cuda_dtype: torch.dtype
    autocast_cache: bool
    default_dtype: torch.dtype
    function_modes: int
    dispatch_modes: int
    deterministic: bool
    sdpa: tuple[bool, ...]
    cudnn: bool
    mkldnn: bool


def read_state() -> TorchState:
    """The state of this thread now.

    >>> with torch.no_grad():
    ...     read_state().grad
    False
    """
    return TorchState(
        _C.is_grad_enabled(),
        _C.is_inference_mode_enabled(),
        torch.is_autocast_enabled("cpu"),
        torch.is_autocast_enabled("cuda"),
        torch.get_autocast_dtype("cpu"),
        torch.get_autocast_dtype("cuda"),
        torch.is_autocast_cache_enabled(),
        torch.get_default_dtype(),
        _C._len_torch_function_stack(),
        _C._len_torch_dispatch_stack(),
        _C._get_deterministic_algorithms(),
        (
            _C._get_flash_sdp_enabled(),
            _C._get_mem_efficient_sdp_enabled(),
            _C._get_math_sdp_enabled(),
            _C._get_cudnn_sdp_enabled(),
        ),
        _C._get_cudnn_enabled(),
        _C._get_mkldnn_enabled(),
    )


@contextmanager
def entered(state: TorchState) -> Iterator[None]:
    """Runs a block with the gradient, inference and autocast modes of ``state``."""
    now = read_state()
    if now == state:
        yield
        return
    with ExitStack() as stack:
        if now.inference != state.inference:
            stack.enter_context(torch.inference_mode(state.inference))
        stack.enter_context(torch.set_grad_enabled(state.grad))
        cpu = (state.autocast_cpu, state.autocast_cpu_dtype)
        if cpu != (now.autocast_cpu, now.autocast_cpu_dtype):
            stack.enter_context(torch.autocast("cpu", dtype=cpu[1], enabled=cpu[0]))
        cuda = (state.autocast_cuda, state.autocast_cuda_dtype)
        if cuda != (now.autocast_cuda, now.autocast_cuda_dtype):
            stack.enter_context(torch.autocast("cuda", dtype=cuda[1], enabled=cuda[0]))
        yield
