"""Random numbers of a `torch.Generator`: an operation from the state it is in, a tensor, to the next one.

A generator is nothing but its state, so graphs hold states and no generators. Where a compiler takes operations apart,
each operator that draws is replaced by one over states: `aten::rand.generator` by `framelift::rand_generator`.

>>> before = torch.Generator().manual_seed(3).get_state()
>>> numbers, after = drawn("torch.rand", "cpu", before, 2)
>>> generator = torch.Generator().manual_seed(3)
>>> torch.equal(numbers, torch.rand(2, generator=generator)), torch.equal(after, generator.get_state())
(True, True)
"""

from __future__ import annotations

import functools
import re
from collections.abc import Callable
from typing import Any

import torch
from torch._C import _get_dispatch_mode, _TorchDispatchModeKey
from torch._ops import OpOverload
from torch._subclasses.fake_tensor import FakeTensor
from torch.library import Library
from torch.utils._python_dispatch import TorchDispatchMode

_NAMESPACES = {"torch": torch, "torch.nn.init": torch.nn.init}
_METHODS = "torch.Tensor"


def spelled(target: Any) -> str | None:
    """The name by which `drawn` finds a function, or a method that is given by its name."""
    if isinstance(target, str):
        return f"{_METHODS}.{target}"
    name = getattr(target, "__name__", "")
    found = (space for space, owner in _NAMESPACES.items() if getattr(owner, name, None) is target)
    return next((f"{space}.{name}" for space in found), None)


def _function(name: str) -> Callable[..., Any]:
    space, _, short = name.rpartition(".")
    function: Callable[..., Any] = getattr(torch.Tensor if space == _METHODS else _NAMESPACES[space], short)
    return function


def in_state(device: str, state: torch.Tensor) -> torch.Generator:
    """A new generator in a given state."""
    generator = torch.Generator(device)
    generator.set_state(state)
    return generator


def drawn(name: str, device: str, state: torch.Tensor, *args: Any, **kwargs: Any) -> tuple[Any, torch.Tensor]:
    """What a function that draws from a generator in this state gives, and the state it leaves."""
    tracing = _TorchDispatchModeKey.PROXY, _TorchDispatchModeKey.FUNCTIONAL
    if any(_get_dispatch_mode(key) is not None for key in tracing):
        with _Drawing(device, state) as drawing:
            result = _function(name)(*args, generator=drawing.stand_in, **kwargs)
        return result, drawing.state
    if isinstance(state, FakeTensor):
        return _function(name)(*args, **kwargs), torch.empty_like(state)
    generator = in_state(device, state)
    return _function(name)(*args, generator=generator, **kwargs), generator.get_state()


class _Drawing(TorchDispatchMode):
    """Puts operators over states in the place of those that are given the stand-in for a generator."""

    def __init__(self, device: str, state: torch.Tensor) -> None:
        super().__init__()
        self.stand_in = torch.Generator(device)
        self.state = state

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        named = dict(kwargs or {})
        if named.pop("generator", None) is None:
            return func(*args, **(kwargs or {}))
        device = self.stand_in.device
        result, self.state = _over_states(func)(*args, generator_state=self.state, generator_device=device, **named)
        return args[0].copy_(result) if func._schema.is_mutable else result


_GENERATOR = re.compile(r"Generator\? generator(=None)?")
_STATE = "Tensor generator_state, Device generator_device"
_LIBRARY = Library("framelift", "FRAGMENT")


@functools.cache
def _over_states(operator: OpOverload) -> Any:
    """An operator that does what this one does with a generator, given its state; what it writes to stays as it is."""
    name = str(operator).replace("aten.", "").replace(".", "_")
    arguments = str(operator._schema).partition("(")[2].rpartition(") -> ")[0]
    schema = f"{name}({_GENERATOR.sub(_STATE, arguments).replace('(a!)', '')}) -> (Tensor, Tensor)"

    def result(args: Any, kwargs: Any, generator: torch.Generator | None) -> torch.Tensor:
        if operator._schema.is_mutable:
            args = (args[0].clone(), *args[1:])
        made: torch.Tensor = operator(*args, generator=generator, **kwargs)
        return made

    def run(*args: Any, generator_state: torch.Tensor, generator_device: torch.device, **kwargs: Any) -> Any:
        generator = in_state(str(generator_device), generator_state)
        return result(args, kwargs, generator), generator.get_state()

    def described(*args: Any, generator_state: torch.Tensor, generator_device: torch.device, **kwargs: Any) -> Any:
        return result(args, kwargs, None), torch.empty_like(generator_state)

    _LIBRARY.define(schema)
    _LIBRARY.impl(name, run, "CompositeExplicitAutograd")
    torch.library.register_fake(f"framelift::{name}", described, lib=_LIBRARY)
    return getattr(torch.ops.framelift, name).default
