"""Results whose sizes follow from the arguments, although torch's rules for fake tensors say that data decides."""

from __future__ import annotations

import functools
import math
from collections.abc import Callable
from typing import Any

import torch
from torch._subclasses.fake_tensor import FakeTensorMode
from torch.fx.experimental.symbolic_shapes import ShapeEnv
from torch.nn import functional

from framelift.graph.operations.indexing import element, indexed
from framelift.torch_names import TORCH_NAMES

# Operators, below autograd.
_CTC_LOSS = frozenset(TORCH_NAMES.operator(f"aten._ctc_loss.{overload}") for overload in ("default", "Tensor"))
_LSTSQ = TORCH_NAMES.operator("aten.linalg_lstsq.default")
# So many elements of matrices are worked out for the sizes of what comes of it.
_SMALL = 1 << 16


def result_of(mode: FakeTensorMode, operator: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    """What an operator gives for fake tensors; NotImplemented: that is for torch to say."""
    if operator in _CTC_LOSS and args[0].device.type == "cpu":
        return _ctc_loss(mode.shape_env, args[0])
    if operator is _LSTSQ and args[0].device.type == "cpu":
        return _lstsq(mode, *args, **kwargs)
    return NotImplemented


def _lstsq(mode: FakeTensorMode, a: Any, b: Any, rcond: Any = None, *, driver: str | None = None) -> Any:
    """The sizes are those for other matrices, but of residuals, which two of the drivers compute of some alone."""
    rows, columns = a.shape[-2:]
    is_known = all(type(size) is int for size in (*a.shape, *b.shape)) and a.numel() + b.numel() <= _SMALL
    if not is_known or (driver in ("gelsd", "gelss") and rows > columns):
        return NotImplemented
    others = [torch.empty_strided(given.shape, given.stride(), dtype=given.dtype).zero_() for given in (a, b)]
    others[0].diagonal(dim1=-2, dim2=-1).fill_(1)
    results = torch.ops.aten.linalg_lstsq.default(*others, rcond, driver=driver)
    return tuple([mode.from_tensor(result, static_shapes=True) for result in results])


def _ctc_loss(env: ShapeEnv, log_probs: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    """The loss of each sequence, and what backward needs: as long as the longest target, which only data says."""
    steps, *batch = log_probs.shape[:-1]
    with env.ignore_fresh_unbacked_symbols():
        length = env.create_unbacked_symint()
    return log_probs.new_empty(batch), log_probs.new_empty((*(batch or [1]), steps, length))


def function_for(env: ShapeEnv, function: Callable[..., Any]) -> Callable[..., Any]:
    """What to run on fake tensors in the place of a function."""
    if function is torch.combinations:
        return functools.partial(_combinations, env)
    if function is element:
        return indexed
    return _mean_ctc_loss if function is functional.ctc_loss else function


def _combinations(env: ShapeEnv, input: torch.Tensor, r: int = 2, with_replacement: bool = False) -> torch.Tensor:
    """As many rows as there are choices of r items, whatever the items are."""
    with env.ignore_fresh_unbacked_symbols():
        made = torch.combinations(input, r, with_replacement)
    if made.dim() != 2 or not isinstance(len(input), int):
        return made
    count = math.comb(len(input) + (r - 1 if with_replacement else 0), r)
    if made.requires_grad:
        return made.sum().expand(count, r).clone()
    return made.new_empty((count, r))


def _mean_ctc_loss(
    log_probs: torch.Tensor,
    targets: Any,
    input_lengths: Any,
    target_lengths: Any,
    blank: int = 0,
    reduction: str = "mean",
    zero_infinity: bool = False,
) -> torch.Tensor:
    """The mean looks like the sum. (Of lengths in a list it makes a tensor, behind the back of fakes.)"""
    known = "sum" if reduction == "mean" else reduction
    return functional.ctc_loss(log_probs, targets, input_lengths, target_lengths, blank, known, zero_infinity)
