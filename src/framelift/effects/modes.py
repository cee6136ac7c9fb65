"""Modes of torch that traced code switches: really switched while capturing, restored afterwards."""

from __future__ import annotations

from typing import Any

import torch


class GradMode:
    """Grad mode, journaled like a value: what the program switched can be undone and carried out by residual code."""

    source = None

    def __init__(self) -> None:
        self.at_entry = torch.is_grad_enabled()

    def state(self) -> bool:
        return torch.is_grad_enabled()

    def restore(self, state: Any) -> None:
        torch._C._set_grad_enabled(state)

    @property
    def changed_to(self) -> bool | None:
        """What grad mode is now, if the program changed it."""
        now = torch.is_grad_enabled()
        return None if now == self.at_entry else now

    def leave(self) -> None:
        torch._C._set_grad_enabled(self.at_entry)
