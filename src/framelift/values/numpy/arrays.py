"""Arrays and scalars of NumPy's: views of tensors of the graph.

What NumPy does with them is done by torch's own NumPy (`graph/operations/numpy_layer.py`), wherever that is found to do
the same (`numpy_samples.py`). Floating-point results may be rounded in another way. What leaves the frame is a real
array.
"""

from __future__ import annotations

import warnings
from typing import TYPE_CHECKING, Any

import torch

from framelift.breaks import FL0102, FL0102_ARGUMENTS, FL0202, FL0304, GraphBreak
from framelift.graph.operations.numpy_layer import apply, has, numpy
from framelift.guards.source import Source
from framelift.native import _core
from framelift.values.containers.iterators import SequenceIterator
from framelift.values.containers.sequences import ListValue, TupleValue
from framelift.values.core import protocol as py
from framelift.values.core.base import Call, Value
from framelift.values.core.construct import make_tuple
from framelift.values.core.exceptions import raise_error
from framelift.values.core.methods import BoundBuiltin
from framelift.values.core.refusals import Operation
from framelift.values.numpy.samples import DTYPES, SAID_OF_WRAPPING, Sample, tried, wraps_result
from framelift.values.objects.classes import ClassValue
from framelift.values.tensors.data_dependent import as_number, item_of
from framelift.values.tensors.sizes import size_in
from framelift.values.tensors.tensors import TensorValue

if TYPE_CHECKING:
    from framelift.values.core.tracer import Tracer

_BINARY = {
    "+": "add", "-": "subtract", "*": "multiply", "/": "divide", "//": "floor_divide", "%": "remainder",
    "**": "power", "@": "matmul", "&": "bitwise_and", "|": "bitwise_or", "^": "bitwise_xor",
}  # fmt: skip
_COMPARE = {"==": "equal", "!=": "not_equal", "<": "less", "<=": "less_equal", ">": "greater", ">=": "greater_equal"}
_UNARY = {"-": "negative", "+": "positive", "~": "invert"}
# Methods that compute an array from arrays.
_METHODS = frozenset(
    "all any argmax argmin argsort astype clip copy cumprod cumsum diagonal dot fill flatten max mean min prod ravel "
    "repeat reshape round searchsorted sort squeeze std sum swapaxes take trace transpose var".split()
)
_INDEXING = frozenset({"getitem", "setitem", "take", "take_along_axis"})


if numpy is not None:
    _core.register_array_type(numpy.ndarray)


class ArrayValue(Value, models=() if numpy is None else numpy.ndarray):
    """An array in the memory of a tensor of the graph; or a scalar, which nobody writes to."""

    __slots__ = ("_tensor", "is_scalar")
    answers_operators = False

    def __init__(
        self, tensor: TensorValue | None, is_scalar: bool = False, source: Source | None = None, concrete: Any = None
    ) -> None:
        super().__init__(source, concrete)
        self._tensor = tensor
        self.is_scalar = is_scalar

    @classmethod
    def from_input(cls, obj: Any, source: Source) -> Value:
        return cls(None, False, source, obj)

    def note_facts(self, tracer: Tracer) -> None:
        assert self.source is not None
        super().note_facts(tracer)
        # First of all: torch warns when it is given an array that must not be written to.
        writeable = self.source.child("GETATTR", "flags").child("GETATTR", "writeable")
        tracer.guard(writeable, "EQUALS", self.concrete.flags.writeable)
        if not self.concrete.flags.writeable:
            self.refuse("use while it is read-only")
        try:
            tensor = torch.from_numpy(self.concrete)
        except (TypeError, ValueError, RuntimeError):
            raise GraphBreak(FL0202, type="an array that is no tensor") from None
        if tensor.dtype not in DTYPES:
            raise GraphBreak(FL0202, type=f"an array of {self.concrete.dtype}")
        self._tensor = tracer.wrap(tensor, self.source.child("AS_TENSOR", torch.from_numpy))

    def tensor(self, tracer: Tracer) -> TensorValue:
        """The tensor in whose memory it lies."""
        self.note(tracer)
        assert self._tensor is not None
        return self._tensor

    def python_type(self) -> type:
        if not self.is_scalar:
            kind: type = numpy.ndarray
            return kind
        assert self._tensor is not None and self._tensor.computed is not None
        scalar: type = _numpy_dtype(self._tensor.computed.descriptor.dtype).type
        return scalar

    # -- reading -------------------------------------------------------------------------------------------------

    def truth(self, tracer: Tracer) -> bool:
        return self.tensor(tracer).truth(tracer)

    def key(self, tracer: Tracer) -> Any:
        self.refuse(Operation.KEY)

    def as_index(self, tracer: Tracer) -> Any:
        return as_number(tracer, self.tensor(tracer), "__index__")

    def number(self, tracer: Tracer, slot: str, *args: Any) -> Any:
        if slot not in ("__int__", "__float__"):
            return NotImplemented
        if self.tensor(tracer).ref(tracer).descriptor.shape:
            self.refuse(f"{slot}()")
        return as_number(tracer, self.tensor(tracer), slot)

    def length(self, tracer: Tracer) -> Any:
        if not self.tensor(tracer).ref(tracer).descriptor.shape:
            raise_error(TypeError, "len() of unsized object")
        return size_in(tracer, self.tensor(tracer), 0)

    def iterate(self, tracer: Tracer) -> Any:
        count = tracer.constant(self.length(tracer))
        return SequenceIterator([self.item(tracer, index) for index in range(count)], type(iter([])))

    def item(self, tracer: Tracer, key: Any) -> Any:
        return compute(tracer, "getitem", [self, key], {})

    def set_item(self, tracer: Tracer, key: Any, value: Any) -> None:
        compute(tracer, "setitem", [self, key, value], {}, written=self)

    def attribute(self, tracer: Tracer, name: str) -> Any:
        tensor = self.tensor(tracer)
        descriptor = tensor.ref(tracer).descriptor
        if name == "shape":
            return make_tuple([size_in(tracer, tensor, dim) for dim in range(len(descriptor.shape))])
        if name == "ndim":
            return len(descriptor.shape)
        if name == "size":
            return tracer.call_tensor_method("numel", (tensor,), {})
        if name == "dtype":
            return DtypeValue(_numpy_dtype(descriptor.dtype))
        if name == "itemsize":
            return descriptor.dtype.itemsize
        if name == "T":
            return compute(tracer, "transpose", [self], {})
        if name in _METHODS or name == "item":
            return ArrayMethodValue(self, name)
        return super().attribute(tracer, name)

    # -- operators -----------------------------------------------------------------------------------------------

    def unary(self, tracer: Tracer, operator: str) -> Any:
        return compute(tracer, _UNARY[operator], [self], {})

    def binary(self, tracer: Tracer, operator: str, other: Any) -> Any:
        is_inplace = operator.endswith("=")
        path = _BINARY.get(operator.removesuffix("="))
        if path is None:
            self.refuse(Operation.OPERATOR, operator=operator)
        if not is_inplace or self.is_scalar:
            return compute(tracer, path, [self, other], {})
        compute(tracer, path, [self, other], {"out": self}, written=self)
        return self

    def reflected(self, tracer: Tracer, operator: str, other: Any) -> Any:
        path = _BINARY.get(operator.removesuffix("="))
        if path is None:
            self.refuse(Operation.OPERATOR, operator=operator)
        return compute(tracer, path, [other, self], {})

    def compare(self, tracer: Tracer, operator: str, other: Any) -> Any:
        return compute(tracer, _COMPARE[operator], [self, other], {})

    # -- the way back --------------------------------------------------------------------------------------------

    def parts(self) -> list[Any]:
        return [] if self._tensor is None else [self._tensor]

    def made_by(self) -> Call:
        return as_scalar if self.is_scalar else as_array, [self._tensor]


def as_array(tensor: torch.Tensor) -> Any:
    """An array in the memory of a tensor."""
    return tensor.numpy()


def as_scalar(tensor: torch.Tensor) -> Any:
    """The scalar of NumPy's in a tensor."""
    return tensor.numpy()[()]


class ArrayMethodValue(BoundBuiltin):
    """A method of an array."""

    __slots__ = ()

    def call(self, tracer: Tracer, args: list[Any], kwargs: dict[str, Any]) -> Any:
        array = self.owner
        if self.name == "item":
            if args or kwargs:
                array.refuse("item() with arguments")
            return item_of(tracer, array.tensor(tracer))
        written = array if self.name in ("fill", "sort") else None
        return compute(tracer, f"ndarray.{self.name}", [array, *args], kwargs, written)


class DtypeValue(Value, models=() if numpy is None else tuple({type(numpy.dtype(c)) for c in "?bBhHiIlLqQefd"})):
    """A dtype of NumPy's own, told by its name."""

    __slots__ = ()
    answers_operators = False

    def __init__(self, concrete: Any, source: Source | None = None) -> None:
        super().__init__(source, concrete)

    @classmethod
    def from_input(cls, obj: Any, source: Source) -> Value:
        return cls(obj, source)

    def note_facts(self, tracer: Tracer) -> None:
        assert self.source is not None
        super().note_facts(tracer)
        tracer.guard(self.source.child("GETATTR", "str"), "EQUALS", self.concrete.str)
        if self.concrete != numpy.dtype(self.concrete.name) or self.concrete.metadata is not None:
            self.refuse("use")

    def attribute(self, tracer: Tracer, name: str) -> Any:
        if name in ("name", "kind", "itemsize", "str", "char"):
            return getattr(self.concrete, name)
        if name == "type":
            return tracer.known_object(self.concrete.type)
        return super().attribute(tracer, name)

    def compare(self, tracer: Tracer, operator: str, other: Any) -> Any:
        name = _dtype_name(tracer, other)
        if operator not in ("==", "!=") or name is None:
            self.refuse(Operation.COMPARISON, operator=operator)
        return (self.concrete == numpy.dtype(name)) == (operator == "==")

    def key(self, tracer: Tracer) -> Any:
        self.refuse(Operation.KEY)

    def made_by(self) -> Call:
        return numpy.dtype, [self.concrete.str]


def _numpy_dtype(dtype: torch.dtype) -> Any:
    return torch.empty(0, dtype=dtype, device="cpu").numpy().dtype


# -- operations --------------------------------------------------------------------------------------------------------


def compute(
    tracer: Tracer, path: str, args: list[Any], kwargs: dict[str, Any], written: ArrayValue | None = None
) -> Any:
    """A function of NumPy's as an operation of the graph; `written` is the array it writes to, if it does."""
    if not has(path):
        raise GraphBreak(FL0102, what=f"numpy.{path}")
    if torch._C._len_torch_function_stack():  # arrays know nothing of them; torch's layer makes tensors there
        raise GraphBreak(FL0102, what=f"numpy.{path} in a device context")
    tensors: dict[int, ArrayValue] = {}
    args = [_read(tracer, arg, tensors) for arg in args]
    kwargs = {name: _read(tracer, arg, tensors) for name, arg in kwargs.items()}
    made: dict[int, Sample] = {}
    is_indexing = path.removeprefix("ndarray.") in _INDEXING
    was_tensor = {id(array) for array in tensors.values()}
    sampled = [_sampled(tracer, arg, made, is_indexing and i > 0, was_tensor) for i, arg in enumerate(args)]
    named = {name: _sampled(tracer, arg, made, False, was_tensor) for name, arg in kwargs.items()}
    samples = list(made.values())
    if written is not None:
        _check_writable(written.tensor(tracer).ref(tracer), samples)
    elif "out" in kwargs:
        raise GraphBreak(FL0102, what=f"numpy.{path} with an array for its result")
    expected = tried(path, sampled, named, samples)
    wraps = bool(tensors) and wraps_result(path, sampled, named, expected)
    plain = [_for_graph(tracer, arg) for arg in args]
    result = tracer.call_torch(apply, (path, *plain), {name: _for_graph(tracer, arg) for name, arg in kwargs.items()})
    if written is not None:
        return None
    value = _value_of(tracer, path, expected, result, samples)
    return _wrapped(tracer, value) if wraps else value


def _read(tracer: Tracer, arg: Any, tensors: dict[int, ArrayValue]) -> Any:
    """An argument with arrays in place of tensors, which NumPy asks for them."""
    if isinstance(arg, TensorValue):
        if id(arg) not in tensors:
            tensors[id(arg)] = array_of(tracer, arg)
        return tensors[id(arg)]
    if type(arg) in (TupleValue, ListValue):
        items = py.items(tracer, arg)
        read = [_read(tracer, item, tensors) for item in items]
        if any(one is not two for one, two in zip(items, read, strict=True)):
            return TupleValue(read) if type(arg) is TupleValue else ListValue(read)
    return arg


def _wrapped(tracer: Tracer, array: ArrayValue) -> Any:
    """What a tensor makes of a result that NumPy asks it to wrap."""
    if SAID_OF_WRAPPING is not None:
        category = tracer.known_object(type(SAID_OF_WRAPPING))
        py.call(tracer, tracer.known_object(warnings.warn), [str(SAID_OF_WRAPPING), category], {})
    tensor = tracer.call_tensor_method("detach", (array.tensor(tracer),), {})
    is_bool = tensor.ref(tracer).descriptor.dtype is torch.bool
    return tracer.call_tensor_method("to", (tensor, torch.uint8), {}) if is_bool else tensor


def _sampled(tracer: Tracer, arg: Any, made: dict[int, Sample], is_index: bool, tensors: set[int]) -> Any:
    """An argument with samples in place of arrays."""
    if isinstance(arg, ArrayValue):
        ref = arg.tensor(tracer).ref(tracer)
        if ref.descriptor.device.type != "cpu" or not ref.descriptor.is_complete:
            arg.refuse("use of such a tensor")
        index = is_index and not ref.descriptor.dtype.is_floating_point and ref.descriptor.dtype is not torch.bool
        return made.setdefault(id(arg), Sample(ref, arg.is_scalar, index, id(arg) in tensors))
    if type(arg) in (TupleValue, ListValue):
        kind = tuple if type(arg) is TupleValue else list
        return kind([_sampled(tracer, item, made, is_index, tensors) for item in py.items(tracer, arg)])
    return _constant(tracer, arg)


def _for_graph(tracer: Tracer, arg: Any) -> Any:
    if isinstance(arg, ArrayValue):
        return arg.tensor(tracer)
    if type(arg) is TupleValue:
        return make_tuple([_for_graph(tracer, item) for item in py.items(tracer, arg)])
    if type(arg) is ListValue:
        return ListValue([_for_graph(tracer, item) for item in py.items(tracer, arg)])
    return _constant(tracer, arg)


def _constant(tracer: Tracer, arg: Any) -> Any:
    """A plain argument: dtypes by their names, numbers as they are."""
    name = _dtype_name(tracer, arg) if isinstance(arg, (DtypeValue, ClassValue)) else None
    return tracer.constant(arg) if name is None else name


def _dtype_name(tracer: Tracer, value: Any) -> str | None:
    """The name of the dtype that NumPy would take something for."""
    if isinstance(value, DtypeValue):
        value.note(tracer)
        return str(value.concrete.name)
    if isinstance(value, ClassValue):
        value.note(tracer)
        return _CLASSES.get(id(value.concrete))
    return value if type(value) is str and value in _CLASSES.values() else None


_CLASSES: dict[int, str] = (
    {}
    if numpy is None
    else {id(cls): str(numpy.dtype(cls).name) for cls in (bool, int, float)}
    | {id(_numpy_dtype(dtype).type): str(_numpy_dtype(dtype).name) for dtype in DTYPES}
)


def _check_writable(target: Any, samples: list[Sample]) -> None:
    """What is written to must not be read under another shape by the same operation, nor be of use to autograd, which
    hears of what the graph writes, and not of what NumPy does."""
    if any(ref.requires_grad for ref in target.storage.refs):
        raise GraphBreak(FL0102, what="NumPy writing to a tensor that requires gradients")
    if any(sample.ref is not target and sample.ref.storage is target.storage for sample in samples):
        raise GraphBreak(FL0102, what="NumPy writing to an array that it reads at other places")


def _value_of(tracer: Tracer, path: str, expected: Any, result: Any, samples: list[Sample]) -> Any:
    """The values of what the graph computes, in the likeness of what NumPy gave for samples."""
    if type(expected) in (tuple, list):
        parts = [
            _value_of(tracer, path, one, two, samples)
            for one, two in zip(expected, py.items(tracer, result), strict=True)
        ]
        return make_tuple(parts) if type(expected) is tuple else ListValue(parts)
    if not isinstance(result, TensorValue):
        raise GraphBreak(FL0102_ARGUMENTS, what=f"numpy.{path}")
    ref = result.ref(tracer)
    if ref.descriptor.dtype not in DTYPES or len(ref.descriptor.shape) != len(expected.shape):
        raise GraphBreak(FL0102_ARGUMENTS, what=f"numpy.{path}")
    in_numpy = any(sample.contains(expected) for sample in samples)
    in_graph = any(sample.ref.storage is ref.storage for sample in samples)
    if in_graph and not in_numpy:
        result = tracer.call_torch(torch.clone, (result,), {})
    return ArrayValue(result, isinstance(expected, numpy.generic))


# -- between arrays and tensors ----------------------------------------------------------------------------------------


def array_of(tracer: Tracer, tensor: TensorValue) -> ArrayValue:
    """`tensor.numpy()`."""
    descriptor = tensor.ref(tracer).descriptor
    strange = descriptor.is_conj or descriptor.is_neg or not descriptor.is_complete or descriptor.device.type != "cpu"
    is_followed = descriptor.requires_grad and torch.is_grad_enabled()
    if strange or is_followed or descriptor.dtype not in DTYPES:
        raise GraphBreak(FL0304, what="numpy")
    return ArrayValue(tracer.call_tensor_method("detach", (tensor,), {}))


def tensor_of(tracer: Tracer, array: ArrayValue) -> Any:
    """`torch.from_numpy(array)`."""
    if array.is_scalar:
        array.refuse("from_numpy()")
    return tracer.call_tensor_method("detach", (array.tensor(tracer),), {})
