"""The one place that knows torch's FakeTensor (`shapes.symbols` knows its ShapeEnv)."""

from __future__ import annotations

import functools
import logging
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import torch
from torch._C import _dispatch_has_kernel_for_dispatch_key as has_kernel
from torch._ops import HigherOrderOperator, OpOverload, _higher_order_ops
from torch._subclasses.fake_tensor import (
    FakeTensor,
    FakeTensorConverter,
    FakeTensorMode,
    UnsupportedOperatorException,
)
from torch.fx.experimental.symbolic_shapes import ShapeEnv
from torch.nn.parameter import Parameter

from framelift.graph.errors import FailureKind
from framelift.graph.metadata import Descriptor, Facts, Interner
from framelift.graph.names import unspellable
from framelift.graph.propagation.known_sizes import function_for, result_of
from framelift.graph.propagation.overlaps import check_cast, check_write
from framelift.graph.propagation.questions import (
    DATA_DEPENDENT,
    UNSUPPORTED,
    Answers,
    is_question,
    whatever_the_data,
)
from framelift.graph.purity import HIDDEN_WRITES, RANDOM_ONLY_IF, TAKES_EMPTY
from framelift.graph.record import Storage
from framelift.shapes.leaves import tensors_in
from framelift.shapes.symbols import Layout, Symbols
from framelift.shapes.unbacked import Asked
from framelift.silence import hush, silence
from framelift.torch_names import is_absent

# Views whose schemas say that they write.
MARKED_IN_VAIN = frozenset({"prims::as_strided"})
# In inference mode operators arrive before they are taken apart (as these, and all composed ones that write, are here),
# and torch's rule for fake tensors makes a copy where the kernel of these hands its argument on.
HANDING_ON = frozenset({"aten::dropout"})
# Operators that write a result of the common type back, and whose rules do not ask whether it can be cast.
CASTING_BACK = frozenset({"aten::add_", "aten::sub_", "aten::mul_", "aten::addcmul_", "aten::addcdiv_"})
# Operators that write nothing but the size of a tensor.
RESIZING = frozenset({"aten::resize_", "aten::resize_as_"})
_READS_DATA = frozenset({torch.Tag.data_dependent_output, torch.Tag.dynamic_output_shape})

_STRIDED = torch.strided
hush(logging.getLogger(FakeTensorMode.__module__))


def is_constant(tensor: Any) -> bool:
    """Whether a fake tensor knows its value."""
    return isinstance(tensor, FakeTensor) and tensor.constant is not None


class Observed:
    """What an operation did while it ran: the storages it wrote to, and whether it drew random numbers."""

    __slots__ = ("written", "filled", "is_random", "by_element", "reads_data", "takes_empty", "asked", "asks_data")

    def __init__(self) -> None:
        self.written: set[int] = set()  # storages by address
        self.filled: set[int] = set()  # those of which more than the size was written
        self.is_random = False
        # Each element was written when those it is computed from had been read.
        self.by_element = True
        # The operation is one whose error, if there is one, is in the data.
        self.asks_data = False
        # What it gives has a size that depends on data, or is a number of a tensor's.
        self.reads_data = False
        # It does not raise where a tensor has no elements.
        self.takes_empty = True
        # What its rule asked about symbols without a value.
        self.asked = Asked()


class SchemaArgument:
    """One argument of an operator, and how to find its value in a call."""

    __slots__ = ("index", "name", "default", "is_written")

    def __init__(self, index: int, argument: Any) -> None:
        self.index = index
        self.name: str = argument.name
        self.default = argument.default_value
        self.is_written = argument.alias_info is not None and argument.alias_info.is_write

    def value(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        return args[self.index] if self.index < len(args) else kwargs.get(self.name, self.default)


class OperatorTraits:
    """What an operator's schema says about its effects, worked out once per operator."""

    __slots__ = (
        *("writes", "flag", "is_random", "random_flags", "casts_back", "hands_on"),
        *("unspellable", "is_pointwise", "resizes", "copies", "reads_data", "takes_empty"),
    )

    def __init__(self, operator: OpOverload) -> None:
        self.casts_back = operator._schema.name in CASTING_BACK
        arguments = operator._schema.arguments
        known = [SchemaArgument(index, argument) for index, argument in enumerate(arguments)]
        writes = [argument for argument in known if argument.is_written and operator._schema.name not in MARKED_IN_VAIN]
        self.flag: SchemaArgument | None = None
        hidden = HIDDEN_WRITES.get(operator._schema.name)
        if hidden is not None and not writes:
            flag, positions = hidden
            writes = [known[index] for index in positions]
            self.flag = None if flag is None else known[flag]
        self.writes = tuple(writes)
        self.is_random = torch.Tag.nondeterministic_seeded in operator.tags
        self.random_flags = tuple(argument for argument in known if argument.name in RANDOM_ONLY_IF)
        # Whether an operator writes to what it says it writes to, those tell that it is composed of.
        is_composed = bool(writes) and has_kernel(operator.name(), "CompositeImplicitAutograd")
        self.hands_on = is_composed or operator._schema.name in HANDING_ON
        self.resizes = operator._schema.name in RESIZING
        self.is_pointwise = torch.Tag.pointwise in operator.tags
        self.reads_data = not _READS_DATA.isdisjoint(operator.tags)
        # (Those of torch's primitives are parts of operators that were asked before.)
        name = operator._schema.name
        self.takes_empty = self.is_pointwise or name in TAKES_EMPTY or name.startswith("prim")
        self.copies = operator._schema.name == "aten::copy_"
        # The graphs of compilers call operators by name, with what has no place by keyword.
        self.unspellable = unspellable(
            [*str(operator).split("."), *(argument.name for argument in arguments if argument.kwarg_only)]
        )

    def observe(self, args: tuple[Any, ...], kwargs: dict[str, Any], seen: Observed) -> None:
        written = self.written(args, kwargs)
        if written:
            seen.written.update(map(address_of, written))
            if not self.resizes:
                seen.filled.update(map(address_of, written))
            seen.by_element &= self.is_pointwise or self._copies_from_elsewhere(args)
            _check_writes(written, [*tensors_in((args, kwargs))])
            if self.casts_back:
                check_cast(args[0], args[1:])
        if self.draws(args, kwargs):
            seen.is_random = True

    def written(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> list[torch.Tensor]:
        """The tensors that a call writes to."""
        if not self.writes or not (self.flag is None or self.flag.value(args, kwargs)):
            return []
        return [*tensors_in([argument.value(args, kwargs) for argument in self.writes])]

    def draws(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> bool:
        """Whether a call draws random numbers."""
        return self.is_random and not any(_is_off(argument.value(args, kwargs)) for argument in self.random_flags)

    def _copies_from_elsewhere(self, args: tuple[Any, ...]) -> bool:
        """Whether what is written was computed before, in other memory."""
        return self.copies and len(args) > 1 and address_of(args[0]) != address_of(args[1])


traits_of = functools.lru_cache(maxsize=4096)(OperatorTraits)


class ObservingFakeMode(FakeTensorMode):
    """A FakeTensorMode that tells which storages are written and whether random numbers are drawn."""

    def __init__(self, shape_env: ShapeEnv) -> None:
        super().__init__(shape_env=shape_env, allow_non_fake_inputs=True)
        self.seen = Observed()
        # What is said to operations that ask for data; None: that it is not there.
        self.answers: Answers | None = None

    def __torch_dispatch__(
        self, func: OpOverload, types: Any, args: tuple[Any, ...] = (), kwargs: dict[str, Any] | None = None
    ) -> Any:
        kwargs = kwargs or {}
        if isinstance(func, HigherOrderOperator):  # what its functions do is seen as they are run
            return super().__torch_dispatch__(func, types, args, kwargs)
        if self.answers is not None and is_question(func, args):
            return self.answers.next()
        traits = traits_of(func)
        if traits.unspellable is not None:
            raise UnsupportedOperatorException(func)
        if traits.hands_on:
            with self:
                return func._op_dk(torch._C.DispatchKey.CompositeImplicitAutograd, *args, **kwargs)
        if traits.writes or traits.is_random:
            traits.observe(args, kwargs, self.seen)
        if traits.reads_data and not is_constant(args[0]):
            self.seen.reads_data = True
        if not traits.takes_empty:
            self.seen.takes_empty = False
        known = result_of(self, func, args, kwargs)
        if known is not NotImplemented:
            return known
        return super().__torch_dispatch__(func, types, args, kwargs)

    def can_run_unsafe_fallback(self, func: OpOverload) -> bool:
        # The fallback runs the real kernel: a random operator would advance the user's generator during capture.
        return torch.Tag.nondeterministic_seeded not in func.tags and super().can_run_unsafe_fallback(func)


# Operators that take functions have a rule per mode, found by its very class: the one for fake tensors serves here.
_operators = {} if is_absent(_higher_order_ops) else _higher_order_ops
for _operator in _operators.values():
    _rule = _operator.python_key_table.get(FakeTensorMode)
    if _rule is not None:
        _operator.py_impl(ObservingFakeMode)(_rule)


class Fakes:
    """Makes fake tensors and runs operations on them.

    >>> fakes = Fakes()
    >>> x = fakes.from_example(torch.zeros(2, 3), Storage())
    >>> result, seen = fakes.run(torch.relu_, (x,), {})
    >>> tuple(result.shape), len(seen.written), seen.is_random
    ((2, 3), 1, False)
    """

    def __init__(self) -> None:
        self.symbols = Symbols()
        self.mode = ObservingFakeMode(self.symbols.shape_env)
        self._attributes: dict[torch.device, dict[str, Any]] = {}
        self._lengths: dict[Any, Any] = {}
        self._anchor = torch.empty((), device="meta", requires_grad=True)

    def run(self, function: Callable[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any]) -> tuple[Any, Observed]:
        """Runs an operation on fake tensors. What it did before it raised is in ``mode.seen``."""
        try:
            return self._run(function, args, kwargs), self.mode.seen
        except DATA_DEPENDENT:
            if self.mode.seen.written or not self.symbols.shape_env.takes_data:
                raise
            self.symbols.shape_env.pending_fresh_unbacked_symbols.clear()
            results = whatever_the_data(functools.partial(self._run, function, args, kwargs), describe)
            if not results or self.mode.seen.written:
                raise
            self.mode.seen.asks_data = True
            return results[-1], self.mode.seen

    def _run(
        self,
        function: Callable[..., Any],
        args: tuple[Any, ...],
        kwargs: dict[str, Any],
        answers: Answers | None = None,
    ) -> Any:
        seen = self.mode.seen = Observed()
        # With symbols its entries cost more than they save: what is seen twice in a capture is in our own memo. And it
        # would answer for rules that are run again to be asked something else.
        self.mode.cache_enabled = not (self.symbols or self.symbols.shape_env.has_data)
        self.mode.answers = answers
        try:
            with unobserved(), self.symbols.shape_env.asking() as seen.asked, self.mode:
                return function_for(self.symbols.shape_env, function)(*args, **kwargs)
        finally:
            self.mode.answers = None

    def from_example(self, example: torch.Tensor, storage: Storage) -> torch.Tensor:
        """The fake of a real tensor with static shape: views and aliases included, gradient left out."""
        if is_part(example):
            return fake_with_layout(self.mode, example, Layout(example.size(), example.stride()))
        # The converter remembers what it made, so that tensors of one storage become fakes of one storage.
        if storage.converter is None:
            storage.converter = FakeTensorConverter()
        # Without a ShapeEnv every size is a number.
        fake = storage.converter.from_real_tensor(self.mode, example, shape_env=None)
        memory, real = storage_of(fake), storage_of(example)
        if memory is not None and real is not None and memory.nbytes() < real.nbytes():
            memory.resize_(real.nbytes())  # of a view's base, the converter makes no more than that needs
        if fake.is_leaf and fake.grad is not None:
            fake.grad = None
        return fake

    def with_layout(self, example: torch.Tensor, layout: Layout) -> torch.Tensor:
        """The fake of a real tensor that has its memory for itself, with symbolic sizes."""
        return fake_with_layout(self.mode, example, layout)

    def fresh(self, like: Descriptor, shape: Sequence[Any], requires_grad: bool = False) -> torch.Tensor:
        """The fake of a new tensor that has the dtype and device of another."""
        with self.mode:
            return torch.empty(shape, dtype=like.dtype, device=like.device, requires_grad=requires_grad)

    def sketch(self, descriptor: Descriptor, storage: Storage) -> torch.Tensor:
        """A fake made from metadata alone. It shares the storage, but no autograd history, with its aliases."""
        return self.sketch_all([(descriptor, storage)])[0]

    def sketch_view(self, descriptor: Descriptor, storage: Storage) -> torch.Tensor:
        """The same, and it is a view if the descriptor says so: of itself, for nobody knows of what."""
        fake = self.sketch(descriptor, storage)
        if not descriptor.is_view:
            return fake
        with self.mode, torch.set_grad_enabled(descriptor.requires_grad):
            view: torch.Tensor = torch.ops.aten.alias.default(fake)
            return view

    def sketch_all(self, wanted: Sequence[tuple[Descriptor, Storage]]) -> list[torch.Tensor]:
        """Several fakes made from metadata alone, at little more than the cost of their allocation."""
        fakes = [self._bare(descriptor, storage) for descriptor, storage in wanted]
        computed = [i for i, (d, _) in enumerate(wanted) if d.requires_grad and not d.is_leaf]
        if computed:
            with torch.enable_grad():
                results = _Computed.apply(self._anchor, [fakes[i] for i in computed])
            for i, result in zip(computed, results, strict=True):
                fakes[i] = result
        return fakes

    def _bare(self, descriptor: Descriptor, storage: Storage) -> torch.Tensor:
        if torch.is_inference_mode_enabled() != descriptor.is_inference:
            with torch.inference_mode(descriptor.is_inference):
                return self._bare(descriptor, storage)
        meta = self._meta(descriptor, storage)
        # FakeTensor's constructor takes three times as long as all of this; what it would set is copied from one that
        # went through it.
        device = descriptor.device
        attributes = self._attributes.get(device)
        if attributes is None:
            attributes = self._attributes[device] = dict(FakeTensor(self.mode, meta, device).__dict__)
        fake = torch.Tensor._make_subclass(
            FakeTensor,
            meta,
            descriptor.requires_grad and descriptor.is_leaf,
            dispatch_device=True,
            device_for_backend_keys=device,
        )
        torch._C._set_throw_on_mutable_data_ptr(fake)
        fake.__dict__.update(attributes)
        if descriptor.is_parameter:
            fake._is_param = True
        return fake

    def _meta(self, descriptor: Descriptor, storage: Storage) -> torch.Tensor:
        """A tensor without data, in a storage that is made with the first of its tensors."""
        dtype = descriptor.dtype
        if storage.untyped is None and descriptor.is_plain:
            storage.untyped = torch.UntypedStorage(descriptor.storage_bytes, device="meta")
        elif storage.untyped is None:
            # A storage of symbolic size comes with a tensor. A part of that is cheaper than a tensor in the storage.
            storage.whole = torch.empty((self._length(descriptor),), dtype=dtype, device="meta")
            storage.untyped = storage.whole.untyped_storage()
        if storage.whole is not None and storage.whole.dtype is dtype:
            return storage.whole.as_strided(descriptor.shape, descriptor.stride, descriptor.offset)
        meta = torch.empty(0, dtype=dtype, device="meta")
        meta.set_(storage.untyped, descriptor.offset, descriptor.shape, descriptor.stride)
        return meta

    def _length(self, descriptor: Descriptor) -> Any:
        """How many items the storage of a tensor holds."""
        key = (descriptor.dtype, _key(descriptor.storage_bytes))
        found = self._lengths.get(key)
        if found is None:
            found = self._lengths[key] = descriptor.storage_bytes // descriptor.dtype.itemsize
        return found


def fake_with_layout(mode: FakeTensorMode, example: torch.Tensor, layout: Layout) -> torch.Tensor:
    """The fake of a tensor with other sizes and strides; what it is a view of does not show."""
    with mode, torch.inference_mode(example.is_inference()):
        fake = torch.empty_strided(layout.sizes, layout.strides, dtype=example.dtype, device=example.device)
    if example.requires_grad and example.is_leaf:
        fake.requires_grad_()
    elif example.requires_grad:
        anchor = torch.empty((), device="meta", requires_grad=True)
        with torch.enable_grad():
            (fake,) = _Computed.apply(anchor, [fake])
    return fake


# What an operation says that reads what fakes do not have.
_READS_MEMORY = "but its data is not allocated yet"


def failure_kind(error: BaseException) -> FailureKind:
    """Says what kind of failure an exception from running an operation on fake tensors is."""
    if isinstance(error, DATA_DEPENDENT) or _READS_MEMORY in str(error):
        return "data-dependent"
    if isinstance(error, UNSUPPORTED):
        return "unsupported"
    return "error"


def can_sketch(descriptor: Descriptor) -> bool:
    """Whether a tensor that is no view can be made from its descriptor alone."""
    return descriptor.is_complete and not (descriptor.is_conj or descriptor.is_neg or descriptor.is_constant)


def describe(tensor: torch.Tensor) -> Facts:
    """The facts of a real or fake tensor, in the order of Descriptor's fields."""
    kind = type(tensor)
    if kind is FakeTensor:
        device = tensor.fake_device
        is_parameter = "_is_param" in tensor.__dict__
        is_constant = tensor.constant is not None
    else:
        device = tensor.device
        is_parameter = kind is Parameter
        is_constant = False
    is_ordinary = (
        tensor.layout is _STRIDED
        and (kind is FakeTensor or kind is torch.Tensor or is_parameter)
        and not tensor.is_nested
        and not tensor.is_quantized
    )
    is_leaf = _is_leaf(tensor)
    if not is_ordinary or is_leaf is None:
        return _describe_odd(tensor, device, is_parameter)
    offset, storage_bytes = tensor.storage_offset(), tensor.untyped_storage().nbytes()
    # A part of a tensor with symbolic sizes may have plain ones.
    is_plain = not tensor._has_symbolic_sizes_strides and type(offset) is int and type(storage_bytes) is int
    return (
        tensor.shape,
        tensor.stride(),
        offset,
        tensor.dtype,
        device,
        tensor.requires_grad,
        is_leaf,
        is_parameter,
        tensor.is_inference(),
        tensor._is_view(),
        tensor.is_conj(),
        tensor.is_neg(),
        is_constant,
        storage_bytes,
        is_plain,
        True,
    )


class Describer:
    """Descriptors of the tensors of one capture: symbols mean nothing outside of it, all else is shared."""

    def __init__(self, shared: Interner) -> None:
        self._shared = shared
        self._own: dict[Facts, Descriptor] = {}

    def of(self, tensor: torch.Tensor) -> Descriptor:
        facts = describe(tensor)
        *_, is_plain, is_complete = facts
        if is_plain or not (
            is_complete or any(type(fact) is torch.SymInt for fact in (*facts[0], *facts[1], facts[2]))
        ):
            return self._shared.intern(facts)
        key = (*[tuple(map(_key, part)) for part in facts[:2]], *map(_key, facts[2:]))
        descriptor = self._own.get(key)
        if descriptor is None:
            descriptor = self._own[key] = Descriptor(facts)
        return descriptor


def _key(fact: Any) -> Any:
    """A fact as part of a key: of a symbolic number its expression, which stays when more is found out about it."""
    return fact.node._expr if isinstance(fact, torch.SymInt) else fact


def _is_leaf(tensor: torch.Tensor) -> bool | None:
    """None for a view autograd has given up: one whose base was changed in a way that forbids its further use."""
    try:
        return bool(tensor.is_leaf)
    except (RuntimeError, IndexError):
        return None


def _describe_odd(tensor: torch.Tensor, device: torch.device, is_parameter: bool) -> Facts:
    """What can be said of a symbolic tensor or of a subclass."""
    shape = () if tensor.is_nested else tensor.shape
    strided = tensor.layout is _STRIDED and not tensor.is_nested
    return (
        shape,
        tensor.stride() if strided else (),
        tensor.storage_offset() if strided else 0,
        tensor.dtype,
        device,
        tensor.requires_grad,
        _is_leaf(tensor) or False,
        is_parameter,
        tensor.is_inference(),
        tensor._is_view(),
        strided and tensor.is_conj(),
        strided and tensor.is_neg(),
        False,
        0,
        False,
        False,
    )


def storage_of(tensor: torch.Tensor) -> torch.UntypedStorage | None:
    """The storage of a strided tensor; sparse tensors and wrapper subclasses have none of their own."""
    if tensor.layout is not _STRIDED or tensor.is_nested:
        return None
    try:
        return tensor.untyped_storage()
    except NotImplementedError:
        return None


def address_of(tensor: torch.Tensor) -> int:
    """A number for the memory of a tensor, while it lives; for a tensor without storage, for the tensor itself."""
    storage = storage_of(tensor)
    return ~id(tensor) if storage is None else int(storage._cdata)


def opaque_kind(tensor: torch.Tensor) -> str | None:
    """What kind of tensor it is that no graph holds, if it is one.

    A fake knows neither how many elements it has nor whose memory they are in: it says that there are none, in memory
    of their own. Compilers take it at its word.
    """
    if tensor.is_nested:
        return "nested"
    if tensor.layout is not _STRIDED:
        return str(tensor.layout).removeprefix("torch.").removeprefix("_")
    return "quantized" if tensor.is_quantized else None


def is_part(tensor: torch.Tensor) -> bool:
    """Whether it is a view of a tensor that no graph holds, such as the values of a sparse one. By itself it is a
    tensor like others; what it is a view of must not be asked for a fake."""
    base = tensor._base if tensor._is_view() else None
    return base is not None and opaque_kind(base) is not None


def problem_with(tensor: torch.Tensor) -> str | None:
    """Why a tensor cannot be an input of a graph, or a fake one a result, if its class forbids it."""
    kind = type(tensor)
    if kind is FakeTensor or kind is torch.Tensor or kind is Parameter:
        return None
    return f"a {kind.__qualname__} is a tensor with behaviour of its own"


def _unchanged(tensor: torch.Tensor) -> torch.Tensor:
    return tensor


@contextmanager
def unobserved() -> Iterator[None]:
    """A block that runs operations for their metadata: nobody hears of it.

    What autograd keeps of such tensors is nothing to the program's hooks on saved tensors either.
    """
    with silence():
        if torch._C._autograd._top_saved_tensors_default_hooks(False) is None:
            yield
        else:
            with torch.autograd.graph.saved_tensors_hooks(_unchanged, _unchanged):
                yield


class _Computed(torch.autograd.Function):
    """Gives tensors made from metadata a ``grad_fn``, as results of differentiable operations have."""

    @staticmethod
    def forward(ctx: Any, anchor: torch.Tensor, tensors: list[torch.Tensor]) -> tuple[torch.Tensor, ...]:
        return tuple(tensors)


def _is_off(value: Any) -> bool:
    return value is False or (isinstance(value, float) and value == 0.0)


def _check_writes(written: Sequence[torch.Tensor], arguments: Sequence[torch.Tensor]) -> None:
    places: dict[int, list[torch.Tensor]] = {}
    for argument in arguments:
        places.setdefault(address_of(argument), []).append(argument)
    for tensor in written:
        if tensor.layout is torch.strided:
            check_write(tensor, places[address_of(tensor)])
