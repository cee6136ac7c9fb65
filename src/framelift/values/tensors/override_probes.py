"""What torch asks of an operation before it does it: torch itself is asked, with empty operands under a listening mode.

`x + y`, `torch.add(x, y)`, `x.shape` and `F.relu(x)` each name the function, the arguments and the classes in a way of
their own, in C or in Python, when they call a `__torch_function__`. Nothing of that is written down here.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple

import torch
from torch.overrides import TorchFunctionMode

from framelift.silence import silence


class Asked(NamedTuple):
    """What a `__torch_function__` is called with. `kwargs` is None where it is not given any."""

    function: Any
    types: tuple[type, ...]
    args: tuple[Any, ...]
    kwargs: Mapping[str, Any] | None


class NotAsked(Exception):
    """Torch does something else than to ask and to return the answer."""


class _Answer:
    """What comes back where torch returns the answer it was given."""


_ANSWER = _Answer()
# What is done for its effect.
_GIVES_NOTHING = (torch.Tensor.__setitem__, torch.Tensor.__delitem__)


class _Listening(TorchFunctionMode):
    def __init__(self) -> None:
        super().__init__()
        self.heard: list[Asked] = []

    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        self.heard.append(Asked(func, tuple(types), args, kwargs))
        return _ANSWER


def asked_of(function: Callable[..., Any], args: Sequence[Any], kwargs: Mapping[str, Any]) -> Asked | None:
    """What torch asks when `function` is called with stand-ins; None: it asks nobody, and takes them for plain tensors.

    Raises NotAsked where it does more than that, as a function written in Python that calls others, or where it raises.
    """
    result: Any = None
    with silence(), torch._C._EnableTorchFunction(), _Listening() as listening:
        try:
            result = function(*args, **kwargs)
        except (TypeError, ValueError, RuntimeError, IndexError, AttributeError, NotImplementedError):
            raise NotAsked from None
    if not listening.heard:
        return None
    if len(listening.heard) > 1 or not (result is _ANSWER or function in _GIVES_NOTHING):
        raise NotAsked
    return listening.heard[0]


# Of each class: whether its instances are tensors, and which of the others, by number, it inherits from.
Kinds = tuple[tuple[bool, tuple[int, ...]], ...]


@functools.cache
def mirrored(kinds: Kinds) -> tuple[type, ...]:
    """Classes that stand for some of the program's: they inherit from one another in the same way."""
    made: dict[int, type] = {}
    for number in sorted(range(len(kinds)), key=lambda number: len(kinds[number][1])):
        is_tensor, above = kinds[number]
        nearest = [one for one in above if not any(one in kinds[other][1] for other in above)]
        bases = tuple(made[one] for one in nearest) or ((torch.Tensor,) if is_tensor else (_Asked,))
        made[number] = type(f"Mirrored{number}", bases, {})
    return tuple(made[number] for number in range(len(kinds)))


class _Asked:
    @classmethod
    def __torch_function__(cls, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        raise AssertionError("the listening mode answers")


class IntStandIn(int):
    """An int that is told from others by its identity."""


class FloatStandIn(float):
    """A float of that kind."""


class ThingStandIn:
    """What no operation on tensors knows how to take."""
