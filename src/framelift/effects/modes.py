"""Modes of torch that traced code switches: really switched while capturing, restored afterwards."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import torch

from framelift.graph.state import ATTENTION_KERNELS

AUTOCAST_DEVICES = ("cpu", "cuda", "xpu", "mps")


class ModeState(NamedTuple):
    """How the modes stand."""

    # The inference-mode blocks that were entered since the frame was, outermost first: what each switched to.
    inference: tuple[bool, ...]
    grad: bool
    autocast: tuple[tuple[bool, torch.dtype], ...]
    autocast_cache: bool
    autocast_nesting: int
    attention: tuple[bool, ...]
    # The blocks entered in which no class of tensors has rules of its own (`__torch_function__`), by the step that made
    # them. They are not switched while capturing: plain tensors, of which graphs are, notice nothing.
    without_overrides: tuple[int, ...] = ()


def state_now(inference: tuple[bool, ...] = ()) -> ModeState:
    return ModeState(
        inference,
        torch.is_grad_enabled(),
        tuple((torch.is_autocast_enabled(device), torch.get_autocast_dtype(device)) for device in AUTOCAST_DEVICES),
        torch.is_autocast_cache_enabled(),
        autocast_nesting(),
        tuple(is_enabled() for is_enabled, _ in ATTENTION_KERNELS),
    )


class Modes:
    """All modes, journaled like a value: what the program switched can be undone and carried out by residual code."""

    source = None

    def __init__(self) -> None:
        # Entered contexts, kept because leaving such a block takes the object that entered it.
        self._inference: list[tuple[bool, Any]] = []
        self.without_overrides: tuple[int, ...] = ()
        self.at_entry = self.state()

    def state(self) -> ModeState:
        now = state_now(tuple(mode for mode, _ in self._inference))
        return now._replace(without_overrides=self.without_overrides)

    def restore(self, state: Any) -> None:
        self.without_overrides = state.without_overrides
        self._restore_inference(state.inference)
        for function, args in switches(self.state(), state):
            function(*args)
        if self.at_entry.autocast_nesting == state.autocast_nesting == 0:
            # Casts that were remembered while capturing are of fake tensors. Where the frame was entered inside of an
            # autocast block, real ones are among them: they stay, until that block ends.
            torch.clear_autocast_cache()

    def enter_inference(self, mode: bool) -> None:
        context = torch._C._InferenceMode(mode)
        context.__enter__()
        self._inference.append((mode, context))

    def exit_inference(self) -> None:
        _, context = self._inference.pop()
        context.__exit__(None, None, None)

    def _restore_inference(self, wanted: tuple[bool, ...]) -> None:
        entered = [mode for mode, _ in self._inference]
        common = 0
        while common < min(len(entered), len(wanted)) and entered[common] == wanted[common]:
            common += 1
        while len(self._inference) > common:
            self.exit_inference()
        for mode in wanted[common:]:
            self.enter_inference(mode)

    @property
    def calls(self) -> list[tuple[Callable[..., Any], tuple[Any, ...]]]:
        """The calls that take a frame's modes from what they were at entry to what they are now."""
        return switches(self.at_entry, self.state())

    def leave(self) -> None:
        """Go back to the modes the frame was entered with."""
        if self.state() != self.at_entry:
            self.restore(self.at_entry)


def switches(before: ModeState, after: ModeState) -> list[tuple[Callable[..., Any], tuple[Any, ...]]]:
    """The calls that lead from one state to another, but for inference mode."""
    calls: list[tuple[Callable[..., Any], tuple[Any, ...]]] = []
    if after.grad != before.grad:
        calls.append((torch._C._set_grad_enabled, (after.grad,)))
    for device, old, new in zip(AUTOCAST_DEVICES, before.autocast, after.autocast, strict=True):
        if new[0] != old[0]:
            calls.append((torch.set_autocast_enabled, (device, new[0])))
        if new[1] != old[1]:
            calls.append((torch.set_autocast_dtype, (device, new[1])))
    if after.autocast_cache != before.autocast_cache:
        calls.append((torch.set_autocast_cache_enabled, (after.autocast_cache,)))
    for (_, enable), was, will_be in zip(ATTENTION_KERNELS, before.attention, after.attention, strict=True):
        if will_be != was:
            calls.append((enable, (will_be,)))
    deeper = after.autocast_nesting - before.autocast_nesting
    step = torch.autocast_increment_nesting if deeper > 0 else torch.autocast_decrement_nesting
    return calls + [(step, ())] * abs(deeper)


def autocast_nesting() -> int:
    """How many autocast blocks the thread is in; torch says so only while it counts."""
    torch.autocast_increment_nesting()
    nesting: int = torch.autocast_decrement_nesting()
    return nesting
