"""Metadata of common operations, worked out without fake tensors.

An operation the memo does not know is run on fake tensors, which takes most of a millisecond. For two kinds of
operations there is a shorter way to the very same answer:

* Most results are a new contiguous tensor whose shape and dtype follow from the arguments at a glance. The rules below
  say so for the commonest operations, and only for contiguous arguments; all else is left to torch.
* Some operations mean the same on every device: views, and those whose layout torch works out before it picks a kernel.
  These are run on plain meta tensors with the geometry of the arguments.

Neither decides anything about an operation that raises: then there is no answer here, and the fake tensors give theirs.
The memo's check mode runs every answer again on fake tensors.
"""

from __future__ import annotations

import functools
import operator
from collections.abc import Callable, Iterable, Sequence
from math import prod
from typing import Any, NamedTuple

import torch
from torch._C import _nn
from torch.nn import functional

from framelift.graph.metadata import Descriptor, Interner
from framelift.graph.nest import NotAConstant, map_refs, map_result
from framelift.graph.propagation.fake import describe, unobserved
from framelift.graph.propagation.memo import Hole, NewTensor, Template
from framelift.graph.record import Record, TensorRef

_META = torch.device("meta")
_NUMBERS = (int, float)


class Fresh(NamedTuple):
    """A new contiguous tensor."""

    shape: tuple[int, ...]
    dtype: torch.dtype
    is_view: bool = False  # of a tensor nobody else sees


# What an operation makes of its arguments; None if the rule does not say.
Rule = Callable[..., Fresh | None]


def template_of(record: Record, tensors: Sequence[TensorRef], interner: Interner) -> Template | None:
    """What an operation gives, if that can be told without fake tensors."""
    rule = _RULES.get(record.target)
    condition = _ON_META.get(record.target)
    if (rule is None and condition is None) or not tensors or not _is_ordinary(record, tensors):
        return None
    if rule is not None:
        try:
            fresh = rule(*record.args, **record.kwargs)
        except TypeError:  # called in another way than the rule knows, or wrongly
            fresh = None
        if fresh is not None:
            return _fresh_template(fresh, record, tensors, interner)
    if condition is not None and condition(record, tensors):
        return _run_on_meta(record, tensors, interner)
    return None


def _is_ordinary(record: Record, tensors: Sequence[TensorRef]) -> bool:
    """Whether nothing but shapes, strides and dtypes has a say: one device, no autocast, no inference mode.

    Empty tensors have no memory to tell apart.
    """
    state = record.state
    if state.autocast_cpu or state.autocast_cuda or state.inference or state.default_devices:
        return False
    device = tensors[0].descriptor.device
    for ref in tensors:
        d = ref.descriptor
        if d.device != device or d.is_inference or d.is_constant or d.is_conj or d.is_neg or not d.storage_bytes:
            return False
    return True


# Rules


def is_contiguous(descriptor: Descriptor) -> bool:
    """Whether the strides are exactly those a new tensor of this shape has."""
    expected = 1
    for size, stride in zip(reversed(descriptor.shape), reversed(descriptor.stride), strict=True):
        if stride != expected:
            return False
        expected *= max(size, 1)
    return True


def _is_dense_float(value: Any) -> bool:
    return type(value) is TensorRef and value.dtype.is_floating_point and is_contiguous(value.descriptor)


def _fresh_template(fresh: Fresh, record: Record, tensors: Sequence[TensorRef], interner: Interner) -> Template:
    shape = torch.Size(fresh.shape)
    strides = [1] * len(shape)
    for dim in range(len(shape) - 1, 0, -1):
        strides[dim - 1] = strides[dim] * max(shape[dim], 1)
    tracked = (
        record.state.grad
        and (fresh.dtype.is_floating_point or fresh.dtype.is_complex)
        and any(ref.requires_grad for ref in tensors)
    )
    storage_bytes = prod(shape) * fresh.dtype.itemsize
    device = tensors[0].device
    flags = False, False, fresh.is_view, False, False, False
    facts = (shape, tuple(strides), 0, fresh.dtype, device, tracked, not tracked, *flags, storage_bytes, True, True)
    return Template(Hole(0), (NewTensor(interner.intern(facts), -1, None),))


def _unary(x: Any, /, *, inplace: bool = False, approximate: str = "none") -> Fresh | None:
    if inplace is not False or approximate not in ("none", "tanh") or not _is_dense_float(x):
        return None
    return Fresh(x.shape, x.dtype)


def _arithmetic(x: Any, y: Any, /) -> Fresh | None:
    return _elementwise(x, y)


def _comparison(x: Any, y: Any, /) -> Fresh | None:
    return _elementwise(x, y, torch.bool)


def _tensor_first(rule: Rule) -> Rule:
    """torch's own functions and methods; as an operator, a number may stand first."""

    def restricted(x: Any, y: Any, /) -> Fresh | None:
        return rule(x, y) if type(x) is TensorRef else None

    return restricted


def _power(x: Any, y: Any, /) -> Fresh | None:
    return _elementwise(x, y) if type(x) is TensorRef and type(y) in _NUMBERS else None


def _elementwise(x: Any, y: Any, dtype: torch.dtype | None = None) -> Fresh | None:
    """Of two floating-point tensors of one dtype, or of one and a number."""
    if type(y) is not TensorRef:
        x, y = y, x
    if not _is_dense_float(y):
        return None
    if type(x) in _NUMBERS:
        return Fresh(y.shape, dtype or y.dtype)
    if not _is_dense_float(x) or x.dtype is not y.dtype:
        return None
    shape = x.shape if x.shape == y.shape else _broadcast(x.shape, y.shape)
    return None if shape is None else Fresh(shape, dtype or y.dtype)


def _broadcast(x: Sequence[int], y: Sequence[int]) -> tuple[int, ...] | None:
    """The shape of a result of contiguous tensors of different shapes, if it is contiguous beyond doubt."""
    if len(x) < len(y):
        x, y = y, x
    shape = list(x)
    for dim, size in zip(range(len(x) - len(y), len(x)), y, strict=True):
        if shape[dim] == 1:
            shape[dim] = size
        elif size not in (1, shape[dim]):
            return None
    # Where a dimension of size one could stand at several places, torch's order of strides is not ours to guess.
    return None if 1 in shape else tuple(shape)


def _linear(x: Any, weight: Any, bias: Any = None) -> Fresh | None:
    if not (_is_dense_float(x) and _is_dense_float(weight)) or len(weight.shape) != 2 or not 2 <= len(x.shape) <= 3:
        return None
    outer, inner = weight.shape
    if x.shape[-1] != inner or x.dtype is not weight.dtype:
        return None
    if bias is not None and (not _is_dense_float(bias) or bias.shape != (outer,) or bias.dtype is not x.dtype):
        return None
    is_view = bias is not None and len(x.shape) == 3 and _rows_are_viewed()
    return Fresh((*x.shape[:-1], outer), x.dtype, is_view)


@functools.cache
def _rows_are_viewed() -> bool:
    """Whether `linear` gives a batch as a view of the matrix of all its rows; it did before torch 2.15."""
    x, weight, bias = (torch.empty((1,) * dims, device=_META) for dims in (3, 2, 1))
    with unobserved(), torch.inference_mode(False):
        return functional.linear(x, weight, bias)._is_view()


def _layer_norm(
    input: Any, normalized_shape: Any, weight: Any = None, bias: Any = None, eps: float = 1e-5
) -> Fresh | None:
    shape = tuple(normalized_shape)
    if not _is_dense_float(input) or not shape or input.shape[-len(shape) :] != shape:
        return None
    for parameter in (weight, bias):
        if parameter is not None:
            if not _is_dense_float(parameter) or parameter.shape != shape or parameter.dtype is not input.dtype:
                return None
    return Fresh(input.shape, input.dtype)


def _batch_norm(
    input: Any,
    running_mean: Any,
    running_var: Any,
    weight: Any = None,
    bias: Any = None,
    training: bool = False,
    momentum: float = 0.1,
    eps: float = 1e-5,
) -> Fresh | None:
    """In evaluation mode, so that nothing is written."""
    if training is not False or not _is_dense_float(input) or len(input.shape) < 2 or 1 in input.shape[1:]:
        return None
    for parameter in (running_mean, running_var, weight, bias):
        if not _is_dense_float(parameter) or parameter.shape != input.shape[1:2] or parameter.dtype is not input.dtype:
            return None
    return Fresh(input.shape, input.dtype)


def _group_norm(input: Any, num_groups: int, weight: Any = None, bias: Any = None, eps: float = 1e-5) -> Fresh | None:
    if not _is_dense_float(input) or len(input.shape) < 3 or 1 in input.shape[1:] or input.shape[1] % num_groups:
        return None
    for parameter in (weight, bias):
        if not _is_dense_float(parameter) or parameter.shape != input.shape[1:2] or parameter.dtype is not input.dtype:
            return None
    return Fresh(input.shape, input.dtype)


def _convolution(
    input: Any, weight: Any, bias: Any = None, stride: Any = 1, padding: Any = 0, dilation: Any = 1, groups: int = 1
) -> Fresh | None:
    """Of a batch, where no dimension of size one leaves open whether channels come last."""
    if not _is_dense_float(input) or not _is_dense_float(weight) or input.dtype is not weight.dtype:
        return None
    rank = len(input.shape) - 2
    if rank < 1 or len(weight.shape) != rank + 2 or 1 in input.shape[1:] or weight.shape[1] * groups != input.shape[1]:
        return None
    if bias is not None and (
        not _is_dense_float(bias) or bias.shape != weight.shape[:1] or bias.dtype is not input.dtype
    ):
        return None
    shape = [input.shape[0], weight.shape[0]]
    for dim in range(rank):
        step, pad, spread = (_along(argument, dim, rank) for argument in (stride, padding, dilation))
        if step is None or pad is None or spread is None:
            return None
        size = (input.shape[dim + 2] + 2 * pad - spread * (weight.shape[dim + 2] - 1) - 1) // step + 1
        if size < 1:
            return None
        shape.append(size)
    return Fresh(tuple(shape), input.dtype)


def _along(argument: Any, dim: int, rank: int) -> int | None:
    """What a convolution's argument says for one dimension."""
    if type(argument) is int:
        return argument
    return argument[dim] if isinstance(argument, tuple | list) and len(argument) == rank else None


def _softmax(input: Any, dim: Any = None, _stacklevel: int = 3, dtype: Any = None) -> Fresh | None:
    if type(dim) is not int or dtype is not None or not _is_dense_float(input):
        return None
    return Fresh(input.shape, input.dtype) if -len(input.shape) <= dim < len(input.shape) else None


def _embedding(
    input: Any,
    weight: Any,
    padding_idx: Any = None,
    max_norm: Any = None,
    norm_type: float = 2.0,
    scale_grad_by_freq: bool = False,
    sparse: bool = False,
) -> Fresh | None:
    if max_norm is not None or not _is_dense_float(weight) or len(weight.shape) != 2:
        return None
    rows = weight.shape[0]
    if padding_idx is not None and not (type(padding_idx) is int and -rows <= padding_idx < rows):
        return None
    if type(input) is not TensorRef or input.dtype is not torch.int64 or not is_contiguous(input.descriptor):
        return None
    return Fresh((*input.shape, weight.shape[1]), weight.dtype)


def _named(names: str, *owners: Any) -> Iterable[Any]:
    """The functions that some owners have under these names; `torch.float` is none."""
    found = [getattr(owner, name, None) for name in names.split() for owner in owners]
    return [function for function in found if callable(function)]


def _methods(names: str) -> Iterable[str]:
    return [name for name in names.split() if hasattr(torch.Tensor, name)]


_UNARY = "abs neg exp sqrt rsqrt sin cos tanh sigmoid relu erf log silu gelu"
_ARITHMETIC = "add sub mul truediv"
_COMPARISONS = "eq ne lt le gt ge"
_BINARY = f"{_ARITHMETIC} {_COMPARISONS} and_ or_ invert pow"

_RULES: dict[Any, Rule] = {
    **dict.fromkeys(_named(_UNARY, torch, functional, _nn, operator), _unary),
    **dict.fromkeys(_methods(_UNARY), _unary),
    **dict.fromkeys(_named(_ARITHMETIC, operator), _arithmetic),
    **dict.fromkeys((*_named(_ARITHMETIC, torch), *_methods(_ARITHMETIC)), _tensor_first(_arithmetic)),
    **dict.fromkeys(_named(_COMPARISONS, operator), _comparison),
    **dict.fromkeys((*_named(_COMPARISONS, torch), *_methods(_COMPARISONS)), _tensor_first(_comparison)),
    **dict.fromkeys((operator.pow, torch.pow, "pow"), _power),
    **dict.fromkeys((functional.softmax, "softmax"), _softmax),
    functional.linear: _linear,
    functional.layer_norm: _layer_norm,
    functional.embedding: _embedding,
    functional.batch_norm: _batch_norm,
    functional.group_norm: _group_norm,
    torch.conv1d: _convolution,
    torch.conv2d: _convolution,
}

# Run on meta tensors

_REGROUPING = "view view_as reshape flatten unflatten"
_VIEWS = """transpose permute unsqueeze squeeze expand expand_as movedim swapaxes narrow select split chunk unbind t
    contiguous size dim numel diagonal unfold"""
_LAYOUT_BEFORE_KERNEL = """matmul bmm mm cat stack float half bfloat16 double int long bool to type_as
    mean sum where masked_fill argmax topk gather repeat clamp"""

# The operations that are run, each with what its arguments must be like.
Condition = Callable[[Record, Sequence[TensorRef]], bool]


def _always(record: Record, tensors: Sequence[TensorRef]) -> bool:
    return True


def _selects_by_numbers(record: Record, tensors: Sequence[TensorRef]) -> bool:
    """How much a tensor selects may depend on its values."""
    return len(tensors) == 1


def _strides_are_certain(record: Record, tensors: Sequence[TensorRef]) -> bool:
    """torch gives dimensions of size one strides by two different rules."""
    return 1 not in tensors[0].shape or is_contiguous(tensors[0].descriptor)


def _is_off(record: Record, tensors: Sequence[TensorRef]) -> bool:
    """Dropout that drops nothing gives its argument."""
    given = dict(zip(("input", "p", "training", "inplace"), record.args, strict=False), **record.kwargs)
    return given.get("training") is False and not given.get("inplace")


_ON_META: dict[Any, Condition] = {
    **dict.fromkeys((*_named(_VIEWS, torch), *_methods(_VIEWS)), _always),
    **dict.fromkeys((*_named(_LAYOUT_BEFORE_KERNEL, torch), *_methods(_LAYOUT_BEFORE_KERNEL)), _always),
    **dict.fromkeys((*_named(_UNARY, torch, functional, _nn, operator), *_methods(_UNARY)), _always),
    **dict.fromkeys((*_named(_BINARY, torch, operator), *_methods(_BINARY)), _always),
    **dict.fromkeys((functional.linear, functional.softmax, "softmax"), _always),
    **dict.fromkeys((*_named(_REGROUPING, torch), *_methods(_REGROUPING)), _strides_are_certain),
    operator.getitem: _selects_by_numbers,
    functional.dropout: _is_off,
}


def _run_on_meta(record: Record, tensors: Sequence[TensorRef], interner: Interner) -> Template | None:
    device = tensors[0].device
    arguments = _on_meta_device((record.args, record.kwargs), device)
    if arguments is None:
        return None
    metas = _Metas(tensors)
    args, kwargs = map_refs(arguments, metas.__getitem__)
    function = record.target if record.op == "call_function" else getattr(torch.Tensor, record.target)
    try:
        with unobserved():
            result = function(*args, **kwargs)
    except (RuntimeError, TypeError, ValueError, IndexError, AssertionError):
        return None  # an error of the program's, or of meta tensors only: fake tensors tell
    return None if metas.are_written else metas.template(result, device, interner)


def _on_meta_device(nest: Any, device: torch.device) -> Any:
    """Arguments with the device of the tensors replaced; None if another one is named."""
    args, kwargs = nest
    named = [a for a in (*args, *kwargs.values()) if type(a) is torch.device or type(a) is str]
    if not named:
        return nest
    if any(a != device for a in named):
        return None

    def replaced(argument: Any) -> Any:
        return _META if type(argument) is torch.device else argument

    return tuple(map(replaced, args)), {name: replaced(a) for name, a in kwargs.items()}


class _Metas:
    """Meta tensors with the geometry of some values, sharing memory as those do."""

    def __init__(self, tensors: Sequence[TensorRef]) -> None:
        self._storages: dict[int, torch.UntypedStorage] = {}
        self._metas: dict[int, torch.Tensor] = {}
        # Where the arguments and their memory stand among the tensors: the first of equals.
        self._indices: dict[int, int] = {}
        self._homes: dict[int, int] = {}
        for index, ref in enumerate(tensors):
            if id(ref) not in self._metas:
                meta = self._metas[id(ref)] = self._make(ref)
                self._indices[id(meta)] = index
                self._homes.setdefault(meta.untyped_storage()._cdata, index)

        self._versions = [meta._version for meta in self._metas.values()]

    @property
    def are_written(self) -> bool:
        return self._versions != [meta._version for meta in self._metas.values()]

    def __getitem__(self, ref: TensorRef) -> torch.Tensor:
        return self._metas[id(ref)]

    def _make(self, ref: TensorRef) -> torch.Tensor:
        descriptor = ref.descriptor
        storage = self._storages.get(id(ref.storage))
        if storage is None:
            storage = torch.UntypedStorage(descriptor.storage_bytes, device=_META)
            self._storages[id(ref.storage)] = storage
        meta = torch.empty(0, dtype=descriptor.dtype, device=_META)
        meta.set_(storage, descriptor.offset, descriptor.shape, descriptor.stride)
        return meta.requires_grad_() if descriptor.requires_grad else meta

    def template(self, result: Any, device: torch.device, interner: Interner) -> Template | None:
        found: list[int | NewTensor] = []
        holes: dict[int, Hole] = {}

        def hole(tensor: torch.Tensor, path: Any) -> Hole:
            known = holes.get(id(tensor))
            if known is None:
                known = holes[id(tensor)] = Hole(len(found))
                index = self._indices.get(id(tensor))
                found.append(self._new(tensor, device, interner, len(found)) if index is None else index)
            return known

        try:
            template = Template(map_result(result, hole), tuple(found))
        except NotAConstant:
            return None
        # Whether an empty tensor is an error, fake tensors know better.
        is_empty = any(isinstance(what, NewTensor) and 0 in what.descriptor.shape for what in found)
        return None if is_empty else template

    def _new(self, tensor: torch.Tensor, device: torch.device, interner: Interner, number: int) -> NewTensor:
        facts = list(describe(tensor))
        facts[Descriptor.__slots__.index("device")] = device
        home = self._homes.setdefault(tensor.untyped_storage()._cdata, -1 - number)
        return NewTensor(interner.intern(tuple(facts)), home, None)
