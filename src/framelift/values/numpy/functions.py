"""Functions of NumPy that take or make arrays, and functions of torch that take arrays."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import torch

from framelift.breaks import FL0102, FL0102_ARGUMENTS, GraphBreak
from framelift.graph.operations.numpy_layer import has, numpy, numpy_function
from framelift.values.containers.sequences import ListValue, TupleValue
from framelift.values.core import protocol as py
from framelift.values.core.base import Value
from framelift.values.core.primitives import primitive, primitive_of
from framelift.values.numbers.numpy_numbers import UFUNCS, NumpyNumberValue
from framelift.values.numbers.numpy_numbers import compute as compute_now
from framelift.values.numpy.arrays import ArrayValue, array_of, compute, tensor_of
from framelift.values.tensors.factories import tensor_of_numbers
from framelift.values.tensors.tensors import TensorValue
from framelift.values.tensors.torch_functions import call_function

if TYPE_CHECKING:
    from framelift.values.core.tracer import Tracer

_READABLE = (ArrayValue, TensorValue)
# What computes arrays from arrays and plain arguments, and nothing else.
_OF_ARRAYS = (
    "all amax amin any append argmax argmin argsort around array_split atleast_1d atleast_2d atleast_3d average clip "
    "column_stack concatenate copy cumprod cumsum diag diagonal diff dot dsplit dstack einsum expand_dims flip fliplr "
    "flipud full_like hsplit hstack inner isclose kron max mean median min moveaxis nan_to_num ones_like outer pad "
    "prod ravel repeat reshape roll rollaxis rot90 round searchsorted sort split squeeze stack std sum swapaxes take "
    "take_along_axis tensordot tile trace transpose tril triu var vsplit vstack where zeros_like linalg.norm"
).split()
# Of these, only what they make of constants is known.
_OF_CONSTANTS = "interp percentile quantile ptp digitize polyval nansum nanmean nanmax nanmin unravel_index".split()
_MAKING = "arange array asarray ascontiguousarray eye full identity linspace meshgrid ones zeros".split()
_ITEM_BY_ITEM = (
    "absolute add arccos arccosh arcsin arcsinh arctan arctan2 arctanh bitwise_and bitwise_not bitwise_or bitwise_xor "
    "cbrt ceil cos cosh deg2rad divide equal exp exp2 expm1 fabs float_power floor floor_divide fmax fmin fmod greater "
    "greater_equal heaviside hypot invert isfinite isinf isnan less less_equal log log10 log1p log2 logaddexp "
    "logical_and logical_not logical_or logical_xor matmul maximum minimum multiply negative not_equal positive power "
    "rad2deg reciprocal remainder rint sign signbit sin sinc sinh sqrt square subtract tan tanh true_divide trunc"
).split()


class ArrayFunctionValue(Value, models=() if numpy is None else type(numpy.clip)):
    """A function of NumPy's that others may override; told by what it is implemented by."""

    __slots__ = ()

    def note_facts(self, tracer: Tracer) -> None:
        assert self.source is not None
        super().note_facts(tracer)
        tracer.guard(self.source.child("GETATTR", "_implementation"), "IS", self.concrete._implementation)

    def describe(self) -> str:
        return f"{self.concrete.__module__}.{self.concrete.__name__}"

    def call(self, tracer: Tracer, args: list[Any], kwargs: dict[str, Any]) -> Any:
        model = primitive_of(self.concrete)
        if model is None:
            raise GraphBreak(FL0102, what=self.describe())
        return model(tracer, args, kwargs)

    def is_same(self, tracer: Tracer, other: Value) -> bool:
        self.note(tracer)
        other.note(tracer)
        return self.concrete is other.concrete


def _holds(tracer: Tracer, value: Any, kind: type | tuple[type, ...]) -> bool:
    """Whether a value is, or plainly contains, one of that kind."""
    if isinstance(value, kind):
        return True
    return type(value) in (ListValue, TupleValue) and any(
        _holds(tracer, item, kind) for item in py.items(tracer, value)
    )


def _register(path: str, makes: bool) -> None:
    def call(tracer: Tracer, *args: Any, **kwargs: Any) -> Any:
        given = [*args, *kwargs.values()]
        if path == "asarray" and len(given) == 1 and isinstance(given[0], TensorValue):
            return array_of(tracer, given[0])  # which is what NumPy asks the tensor for
        if not makes and not any(_holds(tracer, arg, _READABLE) for arg in given):
            return _of_constants(tracer, path, args, kwargs)
        return compute(tracer, path, list(args), kwargs)

    if has(path) or path in _OF_CONSTANTS:
        primitive(numpy_function(path))(call)


def _of_constants(tracer: Tracer, path: str, args: Sequence[Any], kwargs: dict[str, Any]) -> Any:
    """What NumPy gives for numbers, and lists of them, that are known: a number, or several."""
    plain, named = [_plain(tracer, arg) for arg in args], {name: _plain(tracer, arg) for name, arg in kwargs.items()}
    return compute_now(numpy_function(path), plain, f"numpy.{path}", named)


def _plain(tracer: Tracer, value: Any) -> Any:
    """A constant, or a list or tuple of them, as NumPy takes it."""
    if isinstance(value, NumpyNumberValue):
        return value.concrete
    if py.has_type(value, list, tuple, torch.Size):
        kind = list if py.type_of(value) is list else tuple
        return kind([_plain(tracer, item) for item in py.items(tracer, value)])
    if value is None or py.has_type(value, bool, int, float, str):
        return tracer.constant(value)
    raise GraphBreak(FL0102, what="NumPy without an array")


def _register_ufunc(path: str) -> None:
    def call(tracer: Tracer, args: list[Any], kwargs: dict[str, Any]) -> Any:
        if not any(_holds(tracer, arg, _READABLE) for arg in args):
            return NotImplemented
        return compute(tracer, path, args, kwargs)

    if has(path):
        UFUNCS[numpy_function(path).__name__] = call


for _path in _OF_ARRAYS:
    _register(_path, makes=False)
for _path in _OF_CONSTANTS:
    _register(_path, makes=False)
for _path in _MAKING:
    _register(_path, makes=True)
for _path in _ITEM_BY_ITEM:
    _register_ufunc(_path)


# -- torch -------------------------------------------------------------------------------------------------------------


@primitive(torch.from_numpy)
def _from_numpy(tracer: Tracer, array: Any) -> Any:
    if not isinstance(array, ArrayValue):
        raise GraphBreak(FL0102, what="torch.from_numpy of what is no array")
    return tensor_of(tracer, array)


@primitive(torch.as_tensor)
def _as_tensor(tracer: Tracer, *args: Any, **kwargs: Any) -> Any:
    if args and isinstance(args[0], ArrayValue):
        plain = not args[0].is_scalar
        tensor = tensor_of(tracer, args[0]) if plain else tracer.call_torch(torch.clone, (args[0].tensor(tracer),), {})
        return call_function(tracer, torch.as_tensor, (tensor, *args[1:]), kwargs)
    of_numbers = tensor_of_numbers(tracer, args[0], kwargs) if len(args) == 1 else None
    return call_function(tracer, torch.as_tensor, args, kwargs) if of_numbers is None else of_numbers


@primitive(torch.tensor)
def _tensor(tracer: Tracer, *args: Any, **kwargs: Any) -> Any:
    if args and isinstance(args[0], ArrayValue):
        if kwargs.keys() - {"dtype", "device"} or len(args) > 1:
            raise GraphBreak(FL0102_ARGUMENTS, what="torch.tensor of an array")
        copy = tracer.call_torch(torch.clone, (args[0].tensor(tracer),), {})
        return call_function(tracer, torch.as_tensor, (copy,), kwargs)
    of_numbers = tensor_of_numbers(tracer, args[0], kwargs) if len(args) == 1 else None
    return call_function(tracer, torch.tensor, args, kwargs) if of_numbers is None else of_numbers


@primitive(torch.Tensor.numpy)
def _numpy(tracer: Tracer, tensor: Any, *, force: Any = False) -> Any:
    if not isinstance(tensor, TensorValue) or py.truth(tracer, force):
        raise GraphBreak(FL0102_ARGUMENTS, what="torch.Tensor.numpy")
    return array_of(tracer, tensor)
