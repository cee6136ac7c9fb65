"""What the functions of `framelift.controls`, and torch's own of the same meaning, do to a capture."""

from __future__ import annotations

from types import FunctionType
from typing import TYPE_CHECKING, Any, NoReturn

import torch

from framelift import controls
from framelift.breaks import FL0103, GraphBreak
from framelift.values import protocol as py
from framelift.values.primitives import Model, primitive

if TYPE_CHECKING:
    from framelift.capture.lift import Lift


@primitive(controls.graph_break)
def _graph_break(lift: Lift, reason: Any = "") -> NoReturn:
    text = lift.constant(reason)
    raise GraphBreak(FL0103, why=f": {text}" if text else "")


def torch_control(target: Any) -> Model | None:
    """The same for functions of torch._dynamo's, which is not imported here: they are known by their name.

    Functions of torch that torch keeps from its own compiler are seen through: that mark is not the user's.
    """
    if type(target) is FunctionType and target.__code__ is _KEPT_FROM_TORCH:
        return _seen_through(target)
    if type(target) is FunctionType and target.__module__ == "torch._dynamo.decorators":
        return _TORCH_CONTROLS.get(target.__name__)
    return None


def _torch_graph_break(lift: Lift, args: list[Any], kwargs: dict[str, Any]) -> NoReturn:
    given = [*args, *kwargs.values()]
    _graph_break(lift, given[0] if given else "")


def _seen_through(wrapper: FunctionType) -> Model:
    cells = dict(zip(wrapper.__code__.co_freevars, wrapper.__closure__ or (), strict=True))
    original = cells["fn"].cell_contents
    return lambda lift, args, kwargs: py.call(lift, lift.known_object(original), args, kwargs)


# The code of the wrapper with which torch marks functions of its own.
_KEPT_FROM_TORCH = torch._compile._disable_dynamo(lambda: None).__code__
_TORCH_CONTROLS: dict[str, Model] = {"graph_break": _torch_graph_break}


@primitive(controls.is_compiling)
def _is_compiling(lift: Lift) -> bool:
    return True
