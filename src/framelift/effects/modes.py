"""Modes of torch that traced code switches: really switched while capturing, restored afterwards."""

from __future__ import annotations

import functools
import itertools
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any, NamedTuple

import torch
from torch.overrides import TorchFunctionMode, _get_current_function_mode_stack, _pop_mode, _push_mode
from torch.utils._device import _device_constructors

from framelift.graph.switches import SWITCHES
from framelift.silence import silence

AUTOCAST_DEVICES = ("cpu", "cuda", "xpu", "mps")


class ModeState(NamedTuple):
    """How the modes stand."""

    # The inference-mode blocks that were entered since the frame was, outermost first: what each switched to.
    inference: tuple[bool, ...]
    grad: bool
    autocast: tuple[tuple[bool, torch.dtype], ...]
    autocast_cache: bool
    autocast_nesting: int
    # By the rows of `SWITCHES`.
    switched: tuple[tuple[Any, ...], ...]
    # What `with torch.device(...)` entered, in the frame or around it, outermost first.
    devices: tuple[Any, ...]
    # The blocks entered in which no class of tensors has rules of its own (`__torch_function__`), by the step that made
    # them. They are not switched while capturing: plain tensors, of which graphs are, notice nothing.
    without_overrides: tuple[int, ...] = ()
    # The function modes that the program has pushed, outermost first: these are not pushed while capturing, either.
    functions: tuple[Pushed, ...] = ()


class Pushed:
    """A function mode on torch's stack, as a value, and the step that pushed it."""

    def __init__(self, mode: Any, born: int) -> None:
        self.mode = mode
        self.born = born


def state_now(
    inference: tuple[bool, ...] = (), without_overrides: tuple[int, ...] = (), functions: tuple[Pushed, ...] = ()
) -> ModeState:
    return ModeState(
        inference,
        torch.is_grad_enabled(),
        tuple([(torch.is_autocast_enabled(device), torch.get_autocast_dtype(device)) for device in AUTOCAST_DEVICES]),
        torch.is_autocast_cache_enabled(),
        autocast_nesting(),
        tuple([row.read() for row in SWITCHES]),
        _device_contexts(),
        without_overrides,
        functions,
    )


def _device_contexts() -> tuple[Any, ...]:
    return tuple(_get_current_function_mode_stack()) if torch._C._len_torch_function_stack() else ()


class _Listening(TorchFunctionMode):
    """Hears which functions are called, and calls none."""

    def __init__(self) -> None:
        super().__init__()
        self.has_heard = False

    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> None:
        self.has_heard = True


@functools.cache
def _heeds_contexts(function: Callable[..., Any]) -> bool:
    """Whether a function hears of the contexts it is called in: `torch.range`, for one, does not.

    What does not take these two numbers is taken at torch's word.
    """
    with silence(), _Listening() as listening:
        try:
            function(0, 1)
        except (TypeError, ValueError, RuntimeError):
            return True
    return listening.has_heard


class TorchModes:
    """All modes, journaled like a value: what the program switched can be undone and carried out by residual code."""

    source = None

    def __init__(self) -> None:
        # Whether graphs are taken apart by a compiler, which does not keep what kernels read.
        self.compiled = False
        # Entered contexts, kept because leaving such a block takes the object that entered it.
        self._inference: list[tuple[bool, Any]] = []
        self.without_overrides: tuple[int, ...] = ()
        self.functions: tuple[Pushed, ...] = ()
        # Whether the frame was called where classes are asked; while capturing none is.
        self.asks_classes: bool = torch._C._is_torch_function_enabled()
        # Whether the program has come across anything that torch asks before an operation.
        self.has_overrides = False
        # The functorch transforms that will run the functions that the program is in, outermost first: "mapped",
        # "backwards", "forwards".
        self.transforms: list[str] = []
        # In how many functions in which an index that is a tensor stands for a position, and is not read.
        self.positions = 0
        self.at_entry = self.state()
        # Whether the frame is in other device contexts than when it was entered.
        self.has_moved = False

    def state(self) -> ModeState:
        return state_now(tuple([mode for mode, _ in self._inference]), self.without_overrides, self.functions)

    def restore(self, state: Any) -> None:
        self._switch(self.state(), state)

    def is_as_it_was(self, state: Any) -> bool:
        return bool(self.state() == state)

    @contextmanager
    def as_at_entry(self) -> Iterator[None]:
        """In this block the modes are those in which the graph will run."""
        now = self.state()
        self._switch(now, self.at_entry)
        try:
            yield
        finally:
            self.restore(now)

    def _switch(self, now: ModeState, state: ModeState) -> None:
        if now != state:  # mostly nothing was switched
            self.without_overrides, self.functions = state.without_overrides, state.functions
            self._restore_inference(state.inference)
            self._restore_devices(state.devices)
            for function, args in switches(self.state(), state):
                function(*args)
        if self.at_entry.autocast_nesting == state.autocast_nesting == 0:
            # Casts that were remembered while capturing are of fake tensors. Where the frame was entered inside of an
            # autocast block, real ones are among them: they stay, until that block ends.
            torch.clear_autocast_cache()

    @contextmanager
    def transformed(self, way: str) -> Iterator[None]:
        """In this block a function is traced that a functorch transform will run."""
        self.transforms.append(way)
        try:
            yield
        finally:
            self.transforms.pop()

    @contextmanager
    def of_positions(self) -> Iterator[None]:
        """In this block a function is traced that attention will run on positions."""
        self.positions += 1
        try:
            yield
        finally:
            self.positions -= 1

    @contextmanager
    def asking_no_classes(self) -> Iterator[None]:
        """In this block is done what torch asks no class of."""
        before, self.asks_classes = self.asks_classes, False
        try:
            yield
        finally:
            self.asks_classes = before

    def enter_inference(self, mode: bool) -> None:
        context = torch._C._InferenceMode(mode)
        context.__enter__()
        self._inference.append((mode, context))

    def exit_inference(self) -> None:
        _, context = self._inference.pop()
        context.__exit__(None, None, None)

    def enter_device(self, device: torch.device) -> None:
        device.__enter__()
        self.has_moved = True

    def exit_device(self) -> None:
        _pop_mode()
        self.has_moved = _device_contexts() != self.at_entry.devices

    def _restore_devices(self, wanted: tuple[Any, ...]) -> None:
        now = _device_contexts()
        common = _common(now, wanted)
        for _ in now[common:]:
            _pop_mode()
        for context in wanted[common:]:
            _push_mode(context)
        self.has_moved = wanted != self.at_entry.devices

    def device_for(self, function: Any) -> torch.device | None:
        """Where a function makes a tensor now, if that is elsewhere than in the contexts that the graph will run in."""
        if not self.has_moved or function not in _device_constructors() or not _heeds_contexts(function):
            return None
        contexts = _device_contexts()
        return contexts[-1].device if contexts else torch.device(torch._C._get_default_device())

    def _restore_inference(self, wanted: tuple[bool, ...]) -> None:
        common = _common([mode for mode, _ in self._inference], wanted)
        while len(self._inference) > common:
            self.exit_inference()
        for mode in wanted[common:]:
            self.enter_inference(mode)

    @property
    def born(self) -> tuple[int, ...]:
        """The steps that began the blocks which Python must enter, where a graph ends inside of them."""
        return (*self.without_overrides, *(pushed.born for pushed in self.functions))

    @property
    def calls(self) -> list[tuple[Callable[..., Any], tuple[Any, ...]]]:
        """The calls that take a frame's modes from what they were at entry to what they are now."""
        now = self.state()
        return [] if now == self.at_entry else switches(self.at_entry, now)

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
    calls += [
        (row.set, will_be)
        for row, was, will_be in zip(SWITCHES, before.switched, after.switched, strict=True)
        if will_be != was
    ]
    common = _common(before.devices, after.devices)
    calls += [(torch.device.__exit__, (context.device, None, None, None)) for context in before.devices[common:]]
    calls += [(torch.device.__enter__, (context.device,)) for context in after.devices[common:]]
    deeper = after.autocast_nesting - before.autocast_nesting
    step = torch.autocast_increment_nesting if deeper > 0 else torch.autocast_decrement_nesting
    return calls + [(step, ())] * abs(deeper)


def _common(one: Sequence[Any], two: Sequence[Any]) -> int:
    """How many items two sequences begin with are the same."""
    return sum(1 for _ in itertools.takewhile(lambda pair: pair[0] == pair[1], zip(one, two, strict=False)))


def autocast_nesting() -> int:
    """How many autocast blocks the thread is in; torch says so only while it counts."""
    torch.autocast_increment_nesting()
    nesting: int = torch.autocast_decrement_nesting()
    return nesting
