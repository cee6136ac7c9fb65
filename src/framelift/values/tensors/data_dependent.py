"""Numbers that are read from tensors, and parts of tensors that begin or end at such numbers.

`n.item()` is an unbacked symbol. Where a slice or an index is made of one, it is presumed to lie within the
tensor (`0 <= start <= stop <= size`): then `kv[:, p : p + n]` has n columns, whatever p is. The graph checks it.
"""

from __future__ import annotations

import itertools
import operator
from typing import TYPE_CHECKING, Any

import torch

from framelift.breaks import FL0301, GraphBreak
from framelift.graph import TensorRef
from framelift.graph.emission.runtime_asserts import PROGRAM_RAISES
from framelift.values.containers.slices import SliceValue
from framelift.values.core import protocol as py
from framelift.values.core.base import Value
from framelift.values.core.construct import make_tuple
from framelift.values.core.lookup import defines
from framelift.values.numbers.symbolic import SizedTensor, SymbolicValue
from framelift.values.subclasses.tensors import refuse_rules
from framelift.values.tensors.host_scalars import host_number
from framelift.values.tensors.sizes import size_in

if TYPE_CHECKING:
    from framelift.values.core.tracer import Tracer

_INTEGERS = frozenset({torch.int64, torch.int32, torch.int16, torch.int8, torch.uint8})
_FLOATS = frozenset({torch.float64, torch.float32, torch.float16, torch.bfloat16})
_SUMS = {operator.add: "+", torch.add: "+", "add": "+", operator.sub: "-", torch.sub: "-", "sub": "-"}


# -- numbers ---------------------------------------------------------------------------------------------------------


def item_of(tracer: Tracer, tensor: SizedTensor) -> Any:
    """`tensor.item()`."""
    descriptor = tensor.ref(tracer).descriptor
    if descriptor.dtype is torch.bool and _is_single(descriptor):
        # Compilers take numbers as results, but no truth values.
        number = tracer.call_tensor_method("item", (tracer.call_tensor_method("long", (tensor,), {}),), {})
        return py.compare(tracer, "!=", number, 0)
    return _float_of(tracer, tensor)


def _float_of(tracer: Tracer, tensor: SizedTensor) -> Any:
    number = host_number(tracer, tensor)
    return tracer.call_tensor_method("item", (tensor,), {}) if number is None else number


def as_number(tracer: Tracer, tensor: SizedTensor, method: str) -> Any:
    """`int(tensor)`, `float(tensor)` and `operator.index(tensor)`, by the name of the method that they call."""
    descriptor = tensor.ref(tracer).descriptor
    if _is_single(descriptor) and descriptor.dtype in _INTEGERS:
        number = tracer.call_tensor_method("item", (tensor,), {})
        return number if method != "__float__" else _as_float(tracer, number)
    if _is_single(descriptor) and descriptor.dtype in _FLOATS and method == "__float__":
        return _float_of(tracer, tensor)
    return tracer.call_tensor_method(method, (tensor,), {})


def is_data(tracer: Tracer, value: Any) -> bool:
    """Whether a value is a number that is in a tensor."""
    if isinstance(value, SymbolicValue):
        return value.depends_on_data
    return _is_tensor(value) and _is_single(value.ref(tracer).descriptor)


def truth_from_data(tracer: Tracer, value: Any) -> Any:
    """`bool(value)`: nothing is decided by it until the program branches on it."""
    if _is_tensor(value):
        value = tracer.call_tensor_method("bool", (value,), {})
        return item_of(tracer, value)
    return value if py.type_of(value) is bool else py.compare(tracer, "!=", value, 0)


def _as_float(tracer: Tracer, number: Any) -> Any:
    if not isinstance(number, Value):
        return float(number)
    result = tracer.call_on_numbers(torch.sym_float, (number,))
    return py.fold(tracer, float, tracer.constant(number)) if result is NotImplemented else result


def _is_single(descriptor: Any) -> bool:
    return all(type(size) is int and size == 1 for size in descriptor.shape)


# -- presumptions ----------------------------------------------------------------------------------------------------


def presume(tracer: Tracer, condition: Any, what: str, is_said: bool = False) -> None:
    """Go on as if a condition were true."""
    if isinstance(condition, SymbolicValue):
        tracer.presume(condition.ref(tracer), is_said)
    elif not py.truth(tracer, condition):
        raise GraphBreak(FL0301, what=what)


def presume_truth(tracer: Tracer, value: SizedTensor, truth: bool, message: str = "") -> None:
    """Go on as if a tensor with one element were true, or false: if it is not, the program raises."""
    flag = tracer.call_tensor_method("bool", (tracer.call_tensor_method("reshape", (value, ()), {}),), {})
    if not truth:
        flag = tracer.call_tensor_method("logical_not", (flag,), {})
    if value.ref(tracer).descriptor.device.type != "cpu":
        # A check that fails on an accelerator would take the whole process with it.
        flag = tracer.call_tensor_method("cpu", (flag,), {})
    words = f"{PROGRAM_RAISES}: {message}" if message else PROGRAM_RAISES
    tracer.call_torch(torch._assert_async, (flag, words), {})


def _is_below(tracer: Tracer, number: Any, limit: Any) -> bool:
    """Whether a number is smaller than another in this call, which is presumed if it is."""
    condition = py.compare(tracer, "<", number, limit)
    if not isinstance(condition, SymbolicValue) or not condition.depends_on_data:
        return py.truth(tracer, condition)
    if not tracer.is_so_now(condition.ref(tracer)):
        return False
    presume(tracer, condition, "a part that reaches beyond a tensor")
    return True


def _presume_order(tracer: Tracer, *numbers: Any) -> None:
    for smaller, larger in itertools.pairwise(numbers):
        presume(tracer, py.compare(tracer, "<=", smaller, larger), "a part that reaches beyond a tensor")


# -- parts -----------------------------------------------------------------------------------------------------------


def narrow(tracer: Tracer, tensor: SizedTensor, dim: Any, start: Any, length: Any) -> Any:
    """`tensor.narrow(dim, start, length)`."""
    if _is_open(start) or _is_open(length):
        axis = tracer.constant(dim)
        rank = len(tensor.ref(tracer).descriptor.shape)
        if type(axis) is int and -rank <= axis < rank:
            start, length = _bound(tracer, start), _bound(tracer, length)
            _presume_order(
                tracer, 0, start, py.binary(tracer, "+", start, length), size_in(tracer, tensor, axis % rank)
            )
    return tracer.call_tensor_method("narrow", (tensor, dim, start, length), {})


def is_position(tracer: Tracer, key: Any) -> bool:
    """Whether a key has an integer for each of some dimensions, and tensors among these."""
    parts = py.items(tracer, key) if py.type_of(key) is tuple else [key]
    dtypes = [each.ref(tracer).dtype for each in parts if _is_tensor(each)]
    are_positions = not any(dtype.is_floating_point or dtype is torch.bool for dtype in dtypes)
    return bool(dtypes) and are_positions and all(_is_tensor(each) or type(each) is int for each in parts)


def part(tracer: Tracer, tensor: SizedTensor, key: Any) -> tuple[Any, Any]:
    """A tensor and a key that mean what `tensor[key]` does, without slices that begin or end at a tensor's number."""
    is_tuple = py.type_of(key) is tuple
    parts = py.items(tracer, key) if is_tuple else [key]
    for entry in parts:
        refuse_rules(tracer, entry)
    if any(_has_index_object(tracer, part) for part in parts):
        parts = [_without_index_objects(tracer, part) for part in parts]
        key = make_tuple(parts) if is_tuple else parts[0]
    if not any(_opens(tracer, entry) for entry in parts):
        return tensor, key
    dims = _dimensions(tracer, tensor, parts)
    found: Any = tensor
    for index, dim in reversed(list(enumerate(dims))):
        entry = parts[index]
        if not _opens(tracer, entry):
            continue
        size = size_in(tracer, tensor, dim)
        if _is_tensor(entry):
            entry = as_number(tracer, entry, "__index__")
        if not isinstance(entry, SliceValue):
            if _is_below(tracer, entry, 0):
                entry = py.binary(tracer, "+", entry, size)
            _presume_order(tracer, 0, entry, py.binary(tracer, "-", size, 1))
            found = tracer.call_tensor_method("select", (found, dim, entry), {})
            del parts[index]
            continue
        start, stop = _bounds(tracer, entry, size)
        _presume_order(tracer, 0, start, stop, size)
        length = py.binary(tracer, "-", stop, start)
        found = tracer.call_tensor_method("narrow", (found, dim, start, length), {})
        parts[index] = slice(None)
    return found, make_tuple(parts)


def _has_index_object(tracer: Tracer, entry: Any) -> bool:
    """Whether an entry of a key is, or has in it, an object of the program's that stands for a number."""
    if isinstance(entry, SliceValue):
        return any(_has_index_object(tracer, bound) for bound in entry.parts())
    # Sequences of the program's are for torch to look into.
    return isinstance(entry, Value) and entry.has_index(tracer) and not defines(py.type_of(entry), "__getitem__")


def _without_index_objects(tracer: Tracer, entry: Any) -> Any:
    """The entry with numbers in the place of such objects."""
    if not _has_index_object(tracer, entry):
        return entry
    if isinstance(entry, SliceValue):
        return SliceValue(*[_without_index_objects(tracer, bound) for bound in entry.bounds(tracer)])
    return entry.as_index(tracer)


def _opens(tracer: Tracer, entry: Any) -> bool:
    if isinstance(entry, SliceValue):
        return any(_is_open(bound) for bound in entry.bounds(tracer))
    # torch takes an integer in a tensor without dimensions for that number, whatever else is in the key.
    return _is_open(entry) and (isinstance(entry, SymbolicValue) or _is_index(tracer, entry))


def _is_index(tracer: Tracer, tensor: SizedTensor) -> bool:
    descriptor = tensor.ref(tracer).descriptor
    return not descriptor.shape and descriptor.dtype in _INTEGERS and descriptor.dtype is not torch.uint8


def _is_open(number: Any) -> bool:
    return (isinstance(number, SymbolicValue) and number.depends_on_data) or _is_tensor(number)


def _is_tensor(value: Any) -> bool:
    return isinstance(value, Value) and value.is_tensor


def _dimensions(tracer: Tracer, tensor: SizedTensor, parts: list[Any]) -> list[int]:
    """The dimension of the tensor that each part of a key is about; for those about none, the next one."""
    rank = len(tensor.ref(tracer).descriptor.shape)
    takes = [_taken(tracer, entry) for entry in parts]
    given = sum(count for count in takes if count >= 0)
    if given > rank or takes.count(-1) > 1:
        raise GraphBreak(FL0301, what="an index with too many parts")
    dims, next_dim = [], 0
    for count in takes:
        dims.append(next_dim)
        next_dim += rank - given if count < 0 else count
    return dims


def _taken(tracer: Tracer, entry: Any) -> int:
    """How many dimensions a part of a key is about; -1 for all that the others leave (`...`)."""
    if entry is Ellipsis:
        return -1
    if entry is None or py.type_of(entry) is bool:
        return 0
    if _is_tensor(entry):
        descriptor = entry.ref(tracer).descriptor
        return len(descriptor.shape) if descriptor.dtype is torch.bool else 1
    if py.has_type(entry, int, slice):
        return 1
    raise GraphBreak(FL0301, what="an index that begins or ends at a number of a tensor")


def _bounds(tracer: Tracer, entry: SliceValue, size: Any) -> tuple[Any, Any]:
    """Where a slice of a dimension begins and ends; what depends on data lies as it does in this call."""
    start, stop, step = entry.bounds(tracer)
    if not (py.same(tracer, step, None) or tracer.constant(step) == 1):
        raise GraphBreak(FL0301, what="a slice with a step that begins or ends at a number of a tensor")
    start, stop = _clipped(tracer, start, 0, size), _clipped(tracer, stop, size, size)
    return start, start if _is_below(tracer, stop, start) else stop


def _clipped(tracer: Tracer, bound: Any, default: Any, size: Any) -> Any:
    if py.same(tracer, bound, None):
        return default
    if _is_open(bound):
        return _within(tracer, _bound(tracer, bound), size)
    number, whole = tracer.as_index(bound), tracer.constant(size)
    return max(number + whole, 0) if number < 0 else min(number, whole)


def _within(tracer: Tracer, bound: Any, size: Any) -> Any:
    """A bound that depends on data, in a tensor of that size."""
    if _is_below(tracer, bound, 0):  # counted from the end
        bound = py.binary(tracer, "+", bound, size)
        return 0 if _is_below(tracer, bound, 0) else bound
    return size if _is_below(tracer, size, bound) else bound


def _bound(tracer: Tracer, number: Any) -> Any:
    """A bound as a number. `p + 1` is one more than the number of p: equal lengths are seen to be equal.

    (Tensors wrap around where numbers do not; a bound that far out is found to be beyond the tensor either way.)
    """
    if not _is_tensor(number):
        return number
    ref = number.ref(tracer)
    record = ref.record
    if record is not None and record.target in _SUMS and len(record.args) == 2 and not record.kwargs:
        if _is_position(ref) and not ref.storage.changes:
            left, right = [_operand(tracer, operand, record) for operand in record.args]
            if left is not None and right is not None:
                return py.binary(tracer, _SUMS[record.target], left, right)
    return as_number(tracer, number, "__index__")


def _operand(tracer: Tracer, operand: Any, record: Any) -> Any:
    """An operand of a sum of positions as a number; None where it is none, or has changed since."""
    if not isinstance(operand, TensorRef):
        return operand if type(operand) is int else None
    if not _is_position(operand) or operand.storage.changed_after(record):
        return None
    return _bound(tracer, tracer.from_graph(operand))


def _is_position(ref: TensorRef) -> bool:
    return ref.dtype is torch.int64 and not ref.shape
