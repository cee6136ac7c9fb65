"""What an operation of NumPy gives, told by running it on samples.

Arrays of the same dtype, shape and strides as those of the program, filled with numbers of all kinds, are given to
NumPy and to torch's layer for it. Where the two agree, NumPy's result says what the program's looks like: array or
scalar, whether it lies in the memory of an argument, how. Where they do not, or NumPy refuses, NumPy does it itself.
"""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from typing import Any, NamedTuple

import torch

from framelift.breaks import FL0102, FL0102_ARGUMENTS, GraphBreak
from framelift.graph import TensorRef
from framelift.graph.operations.numpy_layer import apply, numpy, numpy_function
from framelift.graph.propagation.fake import unobserved

# Elements of all samples of one operation: beyond it, trying would take longer than tracing saves.
_MOST = 1 << 24
# Sums are added up in another order, and functions like sine are other approximations.
_ROUNDING = {2: 2e-3, 4: 2e-5, 8: 1e-11}
# How NumPy and torch say that they do not take some arguments.
_REFUSALS = (ArithmeticError, AssertionError, AttributeError, LookupError, RuntimeError, TypeError, ValueError)
DTYPES = frozenset(
    {torch.bool, torch.uint8, torch.int8, torch.int16, torch.int32, torch.int64}
    | {torch.float16, torch.float32, torch.float64}
)


class Sample:
    """An array or scalar of NumPy's that stands for a tensor of the graph, and a tensor with the same numbers."""

    def __init__(self, ref: TensorRef, is_scalar: bool, is_index: bool, is_tensor: bool) -> None:
        shape, stride = [[_plain(size) for size in sizes] for sizes in (ref.descriptor.shape, ref.descriptor.stride)]
        dtype = ref.descriptor.dtype
        numbers = torch.arange(_product(shape)) * 7 % 13 - (4 if dtype.is_signed else 0)
        values = numbers.mul(0 if is_index else 0.75).reshape(shape)
        self.ref = ref
        self.tensor = torch.empty_strided(shape, stride, dtype=dtype).copy_(values)
        memory = torch.empty_strided(shape, stride, dtype=dtype).copy_(values).numpy()
        self.array = memory[()] if is_scalar else memory
        # What the program gives to NumPy: an array, or a tensor.
        self.given = self.tensor.as_subclass(_Read) if is_tensor else self.array

    def contains(self, result: Any) -> bool:
        """Whether a result of NumPy's lies in its memory."""
        arrays = isinstance(result, numpy.ndarray) and isinstance(self.array, numpy.ndarray)
        return arrays and bool(numpy.may_share_memory(result, self.array))


def _plain(size: Any) -> int:
    hint = size if type(size) is int else size.node.hint
    if hint is None:
        raise GraphBreak(FL0102, what="NumPy with sizes that depend on data")
    return int(hint)


def _product(sizes: Sequence[int]) -> int:
    count = 1
    for size in sizes:
        count *= size
    if count > _MOST:
        raise GraphBreak(FL0102, what="NumPy on arrays of this size")
    return count


def tried(path: str, args: Sequence[Any], kwargs: dict[str, Any], samples: Sequence[Sample]) -> Any:
    """NumPy's result for arguments with samples among them, if torch's layer has the same."""
    what = f"numpy.{path}"
    for_numpy, for_layer = [
        (_as(form, args), {name: _as(form, arg) for name, arg in kwargs.items()}) for form in ("array", "tensor")
    ]
    try:
        with unobserved(), numpy.errstate(all="ignore"), torch.no_grad():
            expected = numpy_function(path)(*for_numpy[0], **for_numpy[1])
            found = apply(path, *for_layer[0], **for_layer[1])
    except _REFUSALS as error:
        raise GraphBreak(FL0102_ARGUMENTS, what=what) from error
    written_alike = all(_equal(sample.array, sample.tensor) for sample in samples)
    if not written_alike or not _agree(expected, found, samples):
        raise GraphBreak(FL0102, what=f"{what} with arguments for which torch has another idea of it")
    return expected


class _Wrapped(NamedTuple):
    """A result that NumPy asks a tensor to make a tensor of."""

    array: Any


class _Read(torch.Tensor):
    """A tensor that NumPy may ask for its array, and to wrap a result. Of all else tensors warn."""

    def __array__(self, dtype: Any = None, copy: Any = None) -> Any:
        if copy is not None:
            raise TypeError("not only to be read")
        array = self.as_subclass(torch.Tensor).numpy()
        return array if dtype is None else array.astype(dtype, copy=False)

    def __array_wrap__(self, array: Any, context: Any = None, return_scalar: bool = False) -> Any:
        return _Wrapped(array)


def wraps_result(path: str, args: Sequence[Any], kwargs: dict[str, Any], expected: Any) -> bool:
    """Whether NumPy makes a tensor of its result for tensors among the arguments, which it reads as arrays.

    Where it does anything else, or is a function in Python that is warned of itself, it is a graph break.
    """
    try:
        with unobserved(), numpy.errstate(all="ignore"):
            found = numpy_function(path)(
                *_as("given", args), **{name: _as("given", arg) for name, arg in kwargs.items()}
            )
    except _REFUSALS as error:
        raise GraphBreak(FL0102, what=f"numpy.{path} of a tensor") from error
    if type(found) is _Wrapped and isinstance(numpy_function(path), numpy.ufunc):
        return True
    if type(found) is not type(expected):
        raise GraphBreak(FL0102, what=f"numpy.{path} of a tensor")
    return False


def _learn_of_wrapping() -> Warning | None:
    """What NumPy says to tensors when they wrap a result, whatever the filters: put in place for this one call only."""
    filters, warnings.filters = warnings.filters, [("error", None, Warning, None, 0)]
    try:
        numpy.positive(torch.zeros(1))
    except Warning as warning:
        return warning.with_traceback(None)
    finally:
        warnings.filters = filters
    return None


SAID_OF_WRAPPING = None if numpy is None else _learn_of_wrapping()


def _as(form: str, nest: Any) -> Any:
    if isinstance(nest, Sample):
        return getattr(nest, form)
    if type(nest) in (tuple, list):
        return type(nest)(_as(form, item) for item in nest)
    return nest


def _agree(expected: Any, found: Any, samples: Sequence[Sample]) -> bool:
    """Whether torch's result is NumPy's, or a copy of it would be."""
    if type(expected) is numpy.ndarray or isinstance(expected, numpy.generic):
        return isinstance(found, torch.Tensor) and _looks_like(expected, found, samples)
    if type(expected) in (tuple, list):
        same = type(found) in (tuple, list) and len(expected) == len(found)
        return same and all(_agree(one, two, samples) for one, two in zip(expected, found, strict=True))
    return expected is None and found is None


def _looks_like(expected: Any, found: torch.Tensor, samples: Sequence[Sample]) -> bool:
    if found.dtype not in DTYPES or not _equal(expected, found):
        return False
    if isinstance(expected, numpy.generic):
        return True
    if not expected.flags.writeable:
        return False
    shared = [sample for sample in samples if sample.contains(expected)]
    if shared and not all(_is_part(expected, found, sample) for sample in shared):
        return False
    strides = (found if shared else _copied(found, samples)).stride()
    return all(
        size < 2 or mine == stride * found.itemsize
        for size, mine, stride in zip(expected.shape, expected.strides, strides, strict=True)
    )


def _copied(found: torch.Tensor, samples: Sequence[Sample]) -> torch.Tensor:
    """A result that is its own memory."""
    address = found.untyped_storage().data_ptr()
    inside = any(sample.tensor.untyped_storage().data_ptr() == address for sample in samples)
    return found.clone() if inside else found


def _is_part(expected: Any, found: torch.Tensor, sample: Sample) -> bool:
    """Whether a result of torch's lies where NumPy's does in the memory of an argument."""
    if found.untyped_storage().data_ptr() != sample.tensor.untyped_storage().data_ptr():
        return False
    addresses = [array.__array_interface__["data"][0] for array in (expected, sample.array)]
    return not found.numel() or addresses[0] - addresses[1] == found.storage_offset() * found.itemsize


def _equal(expected: Any, found: torch.Tensor) -> bool:
    real = found.numpy()
    if expected.dtype != real.dtype or expected.shape != real.shape:
        return False
    if expected.dtype.kind != "f":
        return bool(numpy.array_equal(expected, real))
    limit = _ROUNDING[expected.dtype.itemsize]
    with numpy.errstate(all="ignore"):
        return bool(numpy.allclose(expected, real, rtol=limit, atol=limit, equal_nan=True))
