"""Flags of torch's that a program may switch, as a table: how to read each, how to set it, and who notices."""

from __future__ import annotations

import operator
from collections.abc import Callable
from typing import Any, NamedTuple

import torch
from torch import _C


class Switch(NamedTuple):
    """One flag, or some that are set together."""

    readers: tuple[Callable[[], Any], ...]
    # What the program calls; `kwargs` names those of its arguments that have no place.
    setter: Callable[..., Any]
    kwargs: tuple[str, ...] = ()
    # Whether it is read when an operation is called, by compilers that take it apart, too; else kernels read it.
    when_called: bool = False
    # Whether every entry is guarded by it, as a part of torch's state; else whoever reads it notes so.
    guarded: bool = False

    def read(self) -> tuple[Any, ...]:
        return tuple(map(operator.call, self.readers))

    def set(self, *values: Any) -> None:
        count = len(values) - len(self.kwargs)
        self.setter(*values[:count], **dict(zip(self.kwargs, values[count:], strict=True)))


def _switch(readers: str, setter: str, *kwargs: str, **facts: bool) -> list[Switch]:
    """A row, if this torch has the functions."""
    found: list[Any] = [getattr(_C, name, None) or getattr(torch, name, None) for name in (*readers.split(), setter)]
    return [] if None in found else [Switch(tuple(found[:-1]), found[-1], kwargs, **facts)]


# Which kernels scaled_dot_product_attention may choose from.
ATTENTION_KERNELS: tuple[Switch, ...] = tuple(
    row
    for name in ("flash", "mem_efficient", "math", "cudnn", "overrideable")
    for row in _switch(f"_get_{name}_sdp_enabled", f"_set_sdp_use_{name}", when_called=True, guarded=True)
)


def attention_priority() -> str:
    """The kernels of scaled_dot_product_attention, by their numbers, in the order in which they are tried."""
    return " ".join(map(str, _C._get_sdp_priority_order())) if hasattr(_C, "_get_sdp_priority_order") else ""


def set_attention_priority(order: str) -> None:
    """Have them tried in another order."""
    _C._set_sdp_priority_order(list(map(int, order.split())))


SWITCHES: tuple[Switch, ...] = (
    *ATTENTION_KERNELS,
    Switch((attention_priority,), set_attention_priority, when_called=True, guarded=True),  # (where it is read)
    # Compilers leave it to the operations they make of others.
    *_switch("get_default_dtype", "_set_default_dtype", guarded=True),
    *_switch(
        "_get_deterministic_algorithms _get_deterministic_algorithms_warn_only",
        "_set_deterministic_algorithms",
        "warn_only",
        guarded=True,
    ),
    *_switch(
        "_get_deterministic_fill_uninitialized_memory", "_set_deterministic_fill_uninitialized_memory", guarded=True
    ),
    *_switch("_get_cudnn_enabled", "_set_cudnn_enabled", guarded=True),
    *_switch("_get_mkldnn_enabled", "_set_mkldnn_enabled", guarded=True),
    *_switch("_get_cudnn_benchmark", "_set_cudnn_benchmark"),
    *_switch("_get_cudnn_deterministic", "_set_cudnn_deterministic"),
    *_switch("_get_cudnn_allow_tf32", "_set_cudnn_allow_tf32"),
    *_switch("_get_cudnn_depthwise_kernel", "_set_cudnn_depthwise_kernel"),
    *_switch("_get_mkldnn_deterministic", "_set_mkldnn_deterministic"),
    *_switch("_get_cublas_allow_tf32", "_set_cublas_allow_tf32"),
    *_switch("_get_float32_matmul_precision", "_set_float32_matmul_precision"),
    *_switch("is_anomaly_enabled is_anomaly_check_nan_enabled", "set_anomaly_enabled"),
    *_switch("_is_multithreading_enabled", "_set_multithreading_enabled"),
    *_switch("get_num_threads", "set_num_threads"),
)
