"""What the functions of `framelift.controls`, and torch's own of the same meaning, do to a capture."""

from __future__ import annotations

import functools
import sys
from collections.abc import Container
from types import FunctionType
from typing import TYPE_CHECKING, Any, NoReturn

import torch

from framelift import controls
from framelift.breaks import FL0102, FL0103, GraphBreak
from framelift.values.containers.dicts import DictValue
from framelift.values.core import protocol as py
from framelift.values.core.base import Value
from framelift.values.core.constants import is_constant
from framelift.values.core.construct import from_constant, make_list, make_tuple
from framelift.values.core.primitives import Model, primitive
from framelift.values.functions.functions import FunctionValue
from framelift.values.objects.classes import torchs_mark
from framelift.values.objects.instances import UserObjectValue
from framelift.values.tensors.tensors import TensorValue

if TYPE_CHECKING:
    from framelift.values.core.tracer import Tracer


@primitive(controls.graph_break)
def _graph_break(tracer: Tracer, reason: Any = "") -> NoReturn:
    text = tracer.constant(reason)
    raise GraphBreak(FL0103, why=f": {text}" if text else "")


def error_on_graph_break(tracer: Tracer) -> bool | None:
    """What the innermost `error_on_graph_break` says that the program is in; None: it is in none."""
    real = controls._error_on_graph_break
    variable = tracer.inputs.value_of(real)
    found = real.get() if variable is None else variable.set_here(real.get())
    return found.concrete if isinstance(found, Value) else found


def torch_control(target: Any) -> Model | None:
    """The same for functions of torch._dynamo's, which is not imported here: whoever has one has loaded its module.

    Functions of torch that torch keeps from its own compiler are seen through: that mark is not the user's.
    """
    if type(target) is FunctionType:
        original = _kept_from_torch(target)
        if original is None and target.__code__ is _REGION:
            original = target.__dict__["__marked_compile_region_fn__"]
        if original is not None:
            return lambda tracer, args, kwargs: py.call(tracer, tracer.known_object(original), args, kwargs)
    decorators = sys.modules.get("torch._dynamo.decorators")
    return next((model for name, model in _TORCH_CONTROLS.items() if target is getattr(decorators, name, None)), None)


def _torch_graph_break(tracer: Tracer, args: list[Any], kwargs: dict[str, Any]) -> NoReturn:
    given = [*args, *kwargs.values()]
    _graph_break(tracer, given[0] if given else "")


def _kept_from_torch(wrapper: FunctionType) -> FunctionType | None:
    """The function of torch's that stands behind a mark of torch's."""
    if wrapper.__code__ is torchs_mark():
        cells = dict(zip(wrapper.__code__.co_freevars, wrapper.__closure__ or (), strict=True))
        found: Any = cells["fn"].cell_contents
        return found if type(found) is FunctionType else None
    # Once torch.compile was used, methods of optimizers are replaced where they stand.
    original = wrapper.__dict__.get("_torchdynamo_orig_callable")
    if not wrapper.__dict__.get("_torchdynamo_disable") or type(original) is not FunctionType:
        return None
    return original if original.__code__.co_filename.startswith(_OPTIMIZERS) else None


_OPTIMIZERS = torch.__path__[0] + "/optim/"
# A region that is to be compiled once: where it is repeated, `deduplicate` finds it.
_REGION = torch.compiler.nested_compile_region(lambda: None).__code__
_TORCH_CONTROLS: dict[str, Model] = {"graph_break": _torch_graph_break}


# -- what the program promises of callables --------------------------------------------------------------------------


def promised_model(target: Any) -> Model | None:
    """The model of a callable of which the program promised something, to framelift or to torch."""
    promise = controls.promise_of(target)
    if promise is None and id(target) in _allowed_by_torch():
        promise = controls.Promise.IN_GRAPH
    # Nearly every callable ends here, so all of this is asked without a call where it can be.
    if promise is None and type(target) in _WITH_ATTRIBUTES and _CONSTANT_FOR_TORCH in target.__dict__:
        promise = _constant_for_torch(target.__dict__)
    return None if promise is None else functools.partial(_KEEPING[promise], target)


def _allowed_by_torch() -> Container[int]:
    """torch keeps ids of callables in a table, which is there once it was asked to."""
    tables = sys.modules.get(_TABLES_OF_TORCH)
    allowed = None if tables is None else tables.__dict__.get("_allowed_callable_ids")
    return getattr(allowed, "function_ids", None) or ()


def _constant_for_torch(attributes: dict[str, Any]) -> controls.Promise | None:
    if attributes[_CONSTANT_FOR_TORCH] is not True:
        return None
    # `functools.wraps` copies it to functions of which nothing was promised.
    inner = attributes.get("__wrapped__")
    copied = type(inner) is FunctionType and inner.__dict__.get(_CONSTANT_FOR_TORCH) is True
    return None if copied else controls.Promise.CONSTANT


def _constant_result(target: Any, tracer: Tracer, args: list[Any], kwargs: dict[str, Any]) -> Any:
    try:
        real_args = [_real(tracer, arg) for arg in args]
        real_kwargs = {name: _real(tracer, arg) for name, arg in kwargs.items()}
    except GraphBreak:
        return tracer.call_as_it_is(target, args, kwargs)
    try:
        result = target(*real_args, **real_kwargs)
    except Exception as error:  # the program hears of it from Python
        what = (
            f"{getattr(target, '__qualname__', type(target).__name__)}, whose result is to be constant and which raises"
        )
        raise GraphBreak(FL0102, what=what) from error
    tracer.forget_models()
    is_shared = sys.getrefcount(result) > _ALONE
    return _kept_result(tracer, result, is_shared)


class Kept:
    """Holds what guards cannot hold: a result that is looked for, used and changed as an attribute of the user's is."""

    def __init__(self, result: Any) -> None:
        self.result = result


# References of an object that one variable or container has, and a function that is asked for their number.
_ALONE = 2


def _kept_result(tracer: Tracer, result: Any, is_shared: bool) -> Any:
    """Each call gives what it gave. Eager has a new list or tensor each time, unless somebody else has it as well."""
    kind = type(result)
    if is_constant(result):
        return result
    if kind in (tuple, list) and not is_shared:
        items = [_kept_item(tracer, result, i, is_shared) for i in range(len(result))]
        return make_tuple(items) if kind is tuple else make_list(items)
    if kind is dict and not is_shared and all(map(is_constant, result)):
        return DictValue({key: _kept_item(tracer, result, key, is_shared) for key in result})
    if kind is set and not is_shared:
        return from_constant(tracer, result)
    value = _attribute_of_kept(tracer, result)
    is_new = kind is torch.Tensor and not is_shared and not result.requires_grad and _has_memory_alone(result)
    return tracer.call_torch(torch.clone, (value,), {}) if is_new else value


def _kept_item(tracer: Tracer, container: Any, key: Any, is_shared: bool) -> Any:
    is_shared = is_shared or sys.getrefcount(container[key]) > _ALONE
    return _kept_result(tracer, container[key], is_shared)


def _attribute_of_kept(tracer: Tracer, result: Any) -> Any:
    kept = Kept(result)
    tracer.kept.append(kept)
    return py.attribute(tracer, tracer.known_object(kept), "result")


def _has_memory_alone(tensor: torch.Tensor) -> bool:
    """Whether no other tensor and no array can see what is written to a tensor."""
    if not torch._C._has_storage(tensor):
        return False
    storage = tensor.untyped_storage()
    # Memory of torch's own can be resized. It counts its tensor, and the object that stands for it here.
    return storage.resizable() and torch._C._storage_Use_Count(storage._cdata) == 2


def _real(tracer: Tracer, value: Any) -> Any:
    """What the function is given: a constant, an object that was there before the frame, a tensor as it is now."""
    if isinstance(value, TensorValue):
        value.note(tracer)
        if not value.is_as_it_came:
            value.refuse("a call whose result is constant")
        return value.concrete
    if isinstance(value, UserObjectValue | FunctionValue) and value.source is not None:
        tracer.guard(value.source, "IS", value.concrete)
        return value.concrete
    return tracer.constant(value)


def _as_one_operation(target: Any, tracer: Tracer, args: list[Any], kwargs: dict[str, Any]) -> Any:
    try:
        return tracer.call_opaque(_with_name(target), tuple(args), kwargs)
    except GraphBreak:
        return tracer.call_as_it_is(target, args, kwargs)


def _with_name(target: Any) -> Any:
    """What a graph calls must have a name."""
    name = getattr(target, "__name__", type(target).__name__)
    if type(target) is FunctionType and name.isidentifier():
        return target

    def operation(*args: Any, **kwargs: Any) -> Any:
        return target(*args, **kwargs)

    operation.__name__ = name if name.isidentifier() else "operation"
    return operation


_KEEPING = {controls.Promise.CONSTANT: _constant_result, controls.Promise.IN_GRAPH: _as_one_operation}
_TABLES_OF_TORCH = "torch._dynamo.trace_rules"
_CONSTANT_FOR_TORCH = "_dynamo_marked_constant"
_WITH_ATTRIBUTES = (FunctionType, functools.partial)


@primitive(controls.is_compiling)
def _is_compiling(tracer: Tracer) -> bool:
    return True
