"""What the functions of `framelift.controls`, and torch's own of the same meaning, do to a capture."""

from __future__ import annotations

import sys
from types import FunctionType
from typing import TYPE_CHECKING, Any, NoReturn

import torch

from framelift import controls
from framelift.breaks import FL0103, GraphBreak
from framelift.values import protocol as py
from framelift.values.base import Value
from framelift.values.primitives import Model, primitive

if TYPE_CHECKING:
    from framelift.capture.lift import Lift


@primitive(controls.graph_break)
def _graph_break(lift: Lift, reason: Any = "") -> NoReturn:
    text = lift.constant(reason)
    raise GraphBreak(FL0103, why=f": {text}" if text else "")


def error_on_graph_break(lift: Lift) -> bool | None:
    """What the innermost `error_on_graph_break` says that the program is in; None: it is in none."""
    real = controls._error_on_graph_break
    variable = lift.inputs.value_of(real)
    found = real.get() if variable is None else variable.set_here(real.get())
    return found.concrete if isinstance(found, Value) else found


def torch_control(target: Any) -> Model | None:
    """The same for functions of torch._dynamo's, which is not imported here: whoever has one has loaded its module.

    Functions of torch that torch keeps from its own compiler are seen through: that mark is not the user's.
    """
    if type(target) is FunctionType:
        original = _kept_from_torch(target)
        if original is not None:
            return lambda lift, args, kwargs: py.call(lift, lift.known_object(original), args, kwargs)
    decorators = sys.modules.get("torch._dynamo.decorators")
    return next((model for name, model in _TORCH_CONTROLS.items() if target is getattr(decorators, name, None)), None)


def _torch_graph_break(lift: Lift, args: list[Any], kwargs: dict[str, Any]) -> NoReturn:
    given = [*args, *kwargs.values()]
    _graph_break(lift, given[0] if given else "")


def _kept_from_torch(wrapper: FunctionType) -> FunctionType | None:
    """The function of torch's that stands behind a mark of torch's."""
    if wrapper.__code__ is _MARK:
        cells = dict(zip(wrapper.__code__.co_freevars, wrapper.__closure__ or (), strict=True))
        found: Any = cells["fn"].cell_contents
        return found if type(found) is FunctionType else None
    # Once torch.compile was used, methods of optimizers are replaced where they stand.
    original = wrapper.__dict__.get("_torchdynamo_orig_callable")
    if not wrapper.__dict__.get("_torchdynamo_disable") or type(original) is not FunctionType:
        return None
    return original if original.__code__.co_filename.startswith(_OPTIMIZERS) else None


# The code of the wrapper with which torch marks functions of its own.
_MARK = torch._compile._disable_dynamo(lambda: None).__code__
_OPTIMIZERS = torch.optim.__path__[0] + "/"
_TORCH_CONTROLS: dict[str, Model] = {"graph_break": _torch_graph_break}


@primitive(controls.is_compiling)
def _is_compiling(lift: Lift) -> bool:
    return True
