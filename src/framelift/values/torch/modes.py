"""Switching torch's modes inside traced code: done for real while capturing, and again by the graph when it runs.

`torch.no_grad`, `torch.autocast`, `torch.inference_mode` and `torch.nn.attention.sdpa_kernel` are written in Python and
traced as such; modelled here are the C functions below them.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import torch
from torch import _C
from torch._C import (
    DisableTorchFunction,
    DisableTorchFunctionSubclass,
    _disabled_torch_function_impl,
    _InferenceMode,
    _set_grad_enabled,
)
from torch.autograd import grad_mode

from framelift.breaks import FL0102, FL0107, GraphBreak
from framelift.effects.modes import autocast_nesting
from framelift.graph.switches import SWITCHES, Switch, attention_priority, set_attention_priority
from framelift.values.core import protocol as py
from framelift.values.core.base import Value
from framelift.values.core.construct import make_list
from framelift.values.core.methods import ModelMethodValue
from framelift.values.core.primitives import primitive
from framelift.values.core.refusals import Operation
from framelift.values.tensors.deferred import LaterCall

if TYPE_CHECKING:
    from framelift.values.core.emitter import Emitter
    from framelift.values.core.tracer import Tracer


def _switch(function: Any) -> None:
    def switch(tracer: Tracer, *args: Any) -> None:
        plain = tuple([tracer.constant(arg) for arg in args])
        tracer.journal.touch(tracer.modes)
        py.fold(tracer, function, *plain)
        tracer.graph.call_function(function, plain, {}, tracer.program_point())

    primitive(function)(switch)


for _function in (
    _set_grad_enabled,
    torch.set_autocast_enabled,
    torch.set_autocast_dtype,
    torch.set_autocast_cache_enabled,
):
    _switch(_function)


def _read(tracer: Tracer, row: Switch, reader: Any) -> Any:
    """What a flag is; what the frame found is guarded, what it has set is known."""
    now = reader()
    if row.guarded or row.read() != tracer.modes.at_entry.switched[SWITCHES.index(row)]:
        return now
    return tracer.constant(tracer.wrap(now, tracer.sources.known(reader).child("RESULT")))


def _register(row: Switch) -> None:
    for reader in row.readers:
        primitive(reader)(lambda tracer, reader=reader: _read(tracer, row, reader))

    @primitive(row.setter)
    def switch(tracer: Tracer, *args: Any, **kwargs: Any) -> None:
        if tracer.modes.compiled and not row.when_called:
            raise GraphBreak(FL0102, what=f"{row.setter.__name__} by a graph that is compiled")
        if torch.get_default_dtype in row.readers and any(isinstance(it, LaterCall) for it in tracer.journal.changed):
            raise GraphBreak(FL0102, what=f"{row.setter.__name__} after what is shown when the graph has run")
        for reader in row.readers:
            _read(tracer, row, reader)
        plain = tuple([tracer.constant(arg) for arg in args])
        named = {name: tracer.constant(arg) for name, arg in kwargs.items()}
        tracer.journal.touch(tracer.modes)
        py.fold(tracer, row.setter, *plain, **named)
        tracer.graph.call_function(row.setter, plain, named, tracer.program_point())


for _row in SWITCHES:
    _register(_row)


_GET_PRIORITY = getattr(_C, "_get_sdp_priority_order", attention_priority)
_SET_PRIORITY = getattr(_C, "_set_sdp_priority_order", set_attention_priority)


@primitive(_GET_PRIORITY)
def _attention_priority(tracer: Tracer) -> Any:
    """In which order attention's kernels are tried: torch has a list, of numbers."""
    now, row = attention_priority(), next(row for row in SWITCHES if row.setter is set_attention_priority)
    if (now,) == tracer.modes.at_entry.switched[SWITCHES.index(row)]:
        found = tracer.wrap(_GET_PRIORITY(), tracer.sources.known(_GET_PRIORITY).child("RESULT"))
        return make_list([tracer.constant(number) for number in py.items(tracer, found)])
    return make_list(list(map(int, now.split())))


@primitive(_SET_PRIORITY)
def _set_attention_priority(tracer: Tracer, order: Any) -> None:
    _attention_priority(tracer)  # as it was matters from now on
    numbers = [tracer.constant(number) for number in py.items(tracer, order)]
    text = " ".join(str(int(number)) for number in numbers)
    py.call(tracer, tracer.known_object(set_attention_priority), [text], {})


@primitive(torch.clear_autocast_cache)
def _clear_autocast_cache(tracer: Tracer) -> None:
    """Left to the graph: the casts remembered so far are those of the block around the frame, which has not ended."""
    tracer.graph.call_function(torch.clear_autocast_cache, (), {}, tracer.program_point())


@primitive(torch.autocast_increment_nesting)
def _increment_nesting(tracer: Tracer) -> int:
    """Not in the graph: how deep autocast blocks are nested matters when one is left, and that is known here."""
    tracer.journal.touch(tracer.modes)
    torch.autocast_increment_nesting()
    return autocast_nesting()


@primitive(torch.autocast_decrement_nesting)
def _decrement_nesting(tracer: Tracer) -> int:
    tracer.journal.touch(tracer.modes)
    torch.autocast_decrement_nesting()
    return autocast_nesting()


@primitive(torch.device.__enter__)
def _enter_device(tracer: Tracer, device: Any) -> Any:
    """Not in the graph: what makes tensors in it is told where (`Operations.on_values`)."""
    if tracer.modes.functions:
        raise GraphBreak(FL0102, what="torch.device.__enter__ within a function mode")
    tracer.journal.touch(tracer.modes)
    tracer.modes.enter_device(tracer.constant(device))
    return device


@primitive(torch.device.__exit__)
def _exit_device(tracer: Tracer, device: Any, *raised: Any) -> None:
    if not torch._C._len_torch_function_stack() or tracer.modes.functions:
        raise GraphBreak(FL0102, what="torch.device.__exit__ outside of its block")
    tracer.journal.touch(tracer.modes)
    tracer.modes.exit_device()


class BlockValue(Value):
    """What a `with` statement enters and leaves."""

    __slots__ = ()

    def attribute(self, tracer: Tracer, name: str) -> Any:
        if name == "__enter__":
            return ModelMethodValue(self, name, lambda: self.enter(tracer))
        if name == "__exit__":
            return ModelMethodValue(self, name, lambda *_: self.leave(tracer))
        return super().attribute(tracer, name)

    def enter(self, tracer: Tracer) -> Any:
        return self

    def leave(self, tracer: Tracer) -> None:
        """What happens at the end, however it is reached."""


class InferenceContextValue(BlockValue):
    """The object that switches inference mode between its `__enter__` and its `__exit__`."""

    __slots__ = ("mode", "token")
    assigns = ("token",)

    def __init__(self, mode: bool) -> None:
        super().__init__()
        self.mode = mode
        self.token: Any = None

    def python_type(self) -> type:
        return _InferenceMode

    def enter(self, tracer: Tracer) -> InferenceContextValue:
        tracer.journal.touch(tracer.modes)
        tracer.journal.touch(self)
        tracer.modes.enter_inference(self.mode)
        enter = grad_mode._enter_inference_mode
        self.token = tracer.graph.call_function(enter, (self.mode,), {}, tracer.program_point())
        return self

    def leave(self, tracer: Tracer) -> None:
        if self.token is None:
            self.refuse(Operation.LEFT_BEFORE_ENTERED)
        tracer.journal.touch(tracer.modes)
        tracer.journal.touch(self)
        tracer.modes.exit_inference()
        tracer.graph.call_function(grad_mode._exit_inference_mode, (self.token,), {}, tracer.program_point())
        self.token = None


@primitive(_InferenceMode)
def _inference_mode(tracer: Tracer, mode: Any) -> InferenceContextValue:
    return InferenceContextValue(bool(tracer.constant(mode)))


class WithoutOverridesValue(BlockValue):
    """A block in which no class of tensors has a `__torch_function__`. What asks it of a graph is said by its state.

    Where the graph ends inside of the block, the frame is left before it, and Python enters it.
    """

    __slots__ = ("born", "outside")
    assigns: tuple[str, ...] = ("outside",)

    def __init__(self, born: int) -> None:
        super().__init__()
        self.born = born
        self.outside: Any = None

    def python_type(self) -> type:
        return torch._C.DisableTorchFunctionSubclass

    def enter(self, tracer: Tracer) -> None:
        tracer.journal.touch(tracer.modes)
        tracer.journal.touch(self)
        self.outside = tracer.modes.without_overrides
        tracer.modes.without_overrides = (*self.outside, self.born)

    def leave(self, tracer: Tracer) -> None:
        if self.outside is None:
            self.refuse(Operation.LEFT_BEFORE_ENTERED)
        tracer.journal.touch(tracer.modes)
        tracer.modes.without_overrides = self.outside

    def rebuild(self, emit: Emitter) -> None:
        raise GraphBreak(FL0107, what=self.describe(), born=self.born)


class WithoutModesValue(WithoutOverridesValue):
    """A block in which torch asks no function mode, either."""

    __slots__ = ("functions",)
    assigns = ("outside", "functions")

    def __init__(self, born: int) -> None:
        super().__init__(born)
        self.functions: tuple[Any, ...] = ()

    def python_type(self) -> type:
        return torch._C.DisableTorchFunction

    def enter(self, tracer: Tracer) -> None:
        super().enter(tracer)
        self.functions, tracer.modes.functions = tracer.modes.functions, ()

    def leave(self, tracer: Tracer) -> None:
        super().leave(tracer)
        tracer.modes.functions = self.functions


@primitive(DisableTorchFunction)
def _without_modes(tracer: Tracer) -> WithoutModesValue:
    if torch._C._len_torch_function_stack():  # device contexts
        raise GraphBreak(FL0102, what="torch._C.DisableTorchFunction within a device context")
    return WithoutModesValue(tracer.steps.count)


@primitive(_disabled_torch_function_impl)
def _as_if_plain(tracer: Tracer, function: Any, kinds: Any, args: Any = (), kwargs: Any = None) -> Any:
    """What parameters say in the place of a `__torch_function__`."""
    named = (
        {} if py.same(tracer, kwargs, None) else {key: py.item(tracer, kwargs, key) for key in _names(tracer, kwargs)}
    )
    block = WithoutOverridesValue(tracer.steps.count)
    block.enter(tracer)
    try:
        return py.call(tracer, function, py.items(tracer, args), named)
    finally:
        block.leave(tracer)


def _names(tracer: Tracer, kwargs: Any) -> list[str]:
    return [tracer.constant(key) for key in py.items(tracer, kwargs)]


@primitive(DisableTorchFunctionSubclass)
def _without_overrides(tracer: Tracer) -> WithoutOverridesValue:
    return WithoutOverridesValue(tracer.steps.count)
