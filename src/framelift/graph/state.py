"""torch's modes and flags that decide what metadata an operation's result has."""

from __future__ import annotations

import operator
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from typing import Any, NamedTuple

import torch
from torch import _C
from torch.overrides import _get_current_function_mode_stack
from torch.utils._device import DeviceContext

from framelift.graph.switches import ATTENTION_KERNELS


def _known(*names: str) -> tuple[Any, ...]:
    """Functions of torch's core, of those that this version has."""
    return tuple(getattr(_C, name) for name in names if hasattr(_C, name))


_FLAGS: tuple[Callable[[], bool], ...] = (
    *(row.readers[0] for row in ATTENTION_KERNELS),
    *_known("_get_deterministic_algorithms", "_get_cudnn_enabled", "_get_mkldnn_enabled"),
)


class TorchState(NamedTuple):
    """A snapshot of them; with equal snapshots an operation behaves the same."""

    grad: bool
    inference: bool
    autocast_cpu: bool
    autocast_cuda: bool
    autocast_cpu_dtype: torch.dtype
    autocast_cuda_dtype: torch.dtype
    autocast_cache: bool
    default_dtype: torch.dtype
    # The devices of the active `with torch.device(...)` contexts; None if modes of any other kind are active.
    default_devices: tuple[torch.device, ...] | None
    dispatch_modes: int
    flags: tuple[bool, ...]

    @property
    def attention(self) -> tuple[bool, ...]:
        """Which kernels attention may choose from, in the order of `ATTENTION_KERNELS`."""
        return self.flags[: len(ATTENTION_KERNELS)]


class StateReader:
    """Reads the state of this thread, giving equal states one number.

    >>> reader = StateReader()
    >>> with torch.no_grad():
    ...     state, number = reader.read()
    >>> state.grad, reader.read()[1] == number
    (False, False)
    """

    def __init__(self) -> None:
        self._numbers: dict[TorchState, int] = {}
        self._last: tuple[Any, ...] = ()
        self._last_answer: tuple[TorchState, int] | None = None

    def read(self) -> tuple[TorchState, int]:
        facts = (
            _C.is_grad_enabled(),
            _C.is_inference_mode_enabled(),
            _C.is_autocast_enabled("cpu"),
            _C.is_autocast_enabled("cuda"),
            _C.get_autocast_dtype("cpu"),
            _C.get_autocast_dtype("cuda"),
            _C.is_autocast_cache_enabled(),
            _C.get_default_dtype(),
            _default_devices() if _C._len_torch_function_stack() else (),
            _C._len_torch_dispatch_stack(),
            *map(operator.call, _FLAGS),
        )
        # The state changes rarely: nearly every operation finds the one before it.
        if self._last_answer is not None and facts == self._last:
            return self._last_answer
        first = len(facts) - len(_FLAGS)
        state = TorchState._make((*facts[:first], facts[first:]))
        self._last = facts
        self._last_answer = (state, self._numbers.setdefault(state, len(self._numbers)))
        return self._last_answer


def _default_devices() -> tuple[torch.device, ...] | None:
    modes = _get_current_function_mode_stack()
    if all(type(mode) is DeviceContext for mode in modes):
        return tuple(mode.device for mode in modes)
    return None


@contextmanager
def entered(state: TorchState, now: TorchState) -> Iterator[None]:
    """Runs a block with the modes of ``state`` instead of ``now``'s: gradient, inference, autocast, default dtype,
    attention."""
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
        if now.default_dtype != state.default_dtype:
            torch.set_default_dtype(state.default_dtype)
            stack.callback(torch.set_default_dtype, now.default_dtype)
        for row, wanted, is_enabled in zip(ATTENTION_KERNELS, state.attention, now.attention, strict=True):
            if wanted != is_enabled:
                row.set(wanted)
                stack.callback(row.set, is_enabled)
        yield
