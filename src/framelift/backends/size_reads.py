"""Sizes that a backend reads off the tensors it is given, as symbols.

The tensors are real, so a size that was read off one would be a number, and what the backend makes of it would hold for
this number only, unseen. While a backend is at work, questions about the layout of these tensors are answered by their
fakes: what is decided by a symbol becomes a guard. torch's own code asks the fakes where it wants to know, and is given
plain numbers here.

    >>> real, fake = torch.ones(5), torch.ones(7)
    >>> with SymbolicAnswers([(real, fake)]):
    ...     real.shape, real.numel(), torch.ones(5).shape
    (torch.Size([7]), 7, torch.Size([5]))
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterable
from types import FrameType
from typing import Any

import torch
from torch.overrides import TorchFunctionMode

_QUESTIONS: frozenset[Callable[..., Any]] = frozenset(
    {
        torch.Tensor.shape.__get__,
        torch.Tensor.nbytes.__get__,
        torch.Tensor.size,
        torch.Tensor.stride,
        torch.Tensor.numel,
        torch.Tensor.nelement,
        torch.Tensor.storage_offset,
        torch.Tensor.__len__,
        torch.numel,
    }
)
# They hand on what they are asked.
_GO_BETWEENS = frozenset({"torch.overrides", "torch._tensor"})


class SymbolicAnswers(TorchFunctionMode):
    """Has the fakes of tensors answer for them."""

    def __init__(self, pairs: Iterable[tuple[torch.Tensor, torch.Tensor]]) -> None:
        super().__init__()
        # The tensors are kept, so that no other is taken for one of them.
        self._pairs = {id(real): (real, fake) for real, fake in pairs}

    def __torch_function__(
        self, func: Callable[..., Any], types: Any, args: tuple[Any, ...] = (), kwargs: dict[str, Any] | None = None
    ) -> Any:
        if func in _QUESTIONS and args and id(args[0]) in self._pairs and not _is_torch(sys._getframe(1)):
            args = (self._pairs[id(args[0])][1], *args[1:])
        return func(*args, **(kwargs or {}))


def _is_torch(asker: FrameType | None) -> bool:
    """Whether it is torch's own code that asks."""
    while asker is not None and asker.f_globals.get("__name__") in _GO_BETWEENS:
        asker = asker.f_back
    return asker is not None and str(asker.f_globals.get("__name__")).partition(".")[0] == "torch"
