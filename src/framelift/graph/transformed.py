"""Operations of a graph that run a body in torch's own ways: mapped over a dimension, differentiated, recomputed."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch._higher_order_ops.wrap import tag_activation_checkpoint
from torch.utils.checkpoint import checkpoint

_TRACING = (torch._C._TorchDispatchModeKey.PROXY, torch._C._TorchDispatchModeKey.FUNCTIONAL)


def mapped(body: Callable[..., Any], in_dims: Any, out_dims: Any, randomness: str, *given: Any) -> Any:
    """`torch.vmap` of a body."""
    return torch.vmap(_as_function(body), tuple(in_dims), tuple(out_dims), randomness)(*given)


def gradient(body: Callable[..., Any], argnums: Any, with_value: bool, *given: Any) -> Any:
    """`torch.func.grad` of a body, whose first result is differentiated and whose others are handed on.

    Gives the gradients, and with a value the results too, all in one tuple.
    """

    def function(*args: Any) -> Any:
        results = tuple(body(*args))
        return results[0], results

    gradients, results = torch.func.grad(function, tuple(argnums), has_aux=True)(*given)
    return (*gradients, *results) if with_value else (*gradients, *results[1:])


def recomputed(body: Callable[..., Any], preserve_rng_state: bool, is_random: bool, *given: Any) -> Any:
    """`torch.utils.checkpoint` of a body: what backward needs of it is computed again."""
    if not any(torch._C._get_dispatch_mode(key) is not None for key in _TRACING):
        return checkpoint(body, *given, use_reentrant=False, preserve_rng_state=preserve_rng_state)
    # Compilers recompute by copying operations; random ones would draw other numbers.
    return body(*given) if is_random else tag_activation_checkpoint(body, *given, use_reentrant=False)


def _as_function(body: Callable[..., Any]) -> Callable[..., Any]:
    """A module has attributes that torch's transforms would ask for."""
    return lambda *args: body(*args)
