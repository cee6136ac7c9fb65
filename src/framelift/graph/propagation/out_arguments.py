"""Results that an operation is given room for: `torch.add(x, y, out=z)`.

Kernels write there as they go: they resize z, cast to its type, follow its strides (some wrongly), and may read what
they have written where z is an argument as well. Compilers compute the result and copy it, and an operator that is
composed of others may forget z where its arguments are no plain tensors. All of that is the same where z looks like
the result without `out`, lies in memory of its own, and is written to and returned; else Python runs the operation.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache
from itertools import combinations
from typing import Any

import torch
from torch._C import _dispatch_has_kernel_for_dispatch_key as _has_kernel
from torch._ops import OpOverload, OpOverloadPacket

from framelift.graph.errors import MetadataFailure
from framelift.graph.metadata import Descriptor
from framelift.graph.nest import scan
from framelift.graph.propagation.fake import Observed, address_of
from framelift.graph.propagation.materialise import known_fake
from framelift.graph.record import Record, TensorRef

# What must be the same of a result and the tensor that is to hold it.
_FACTS = ("shape", "stride", "dtype", "device")


def given_results(record: Record) -> list[TensorRef]:
    """The tensors that a call is to write its results to."""
    found: list[Any] = []
    scan(tuple(_arguments(record).values()), found, [])
    return found


def without_them(record: Record) -> Record:
    """The same call, which makes its results."""
    given = _arguments(record)
    target = record.target.overloadpacket if isinstance(record.target, OpOverload) else record.target
    kwargs = {name: value for name, value in record.kwargs.items() if name not in given}
    place = _place(target)
    args = record.args if place is None else record.args[:place]
    if place is not None:
        kwargs |= dict(zip(_parameters(target)[place + 1 :], record.args[place + 1 :], strict=False))
    state = record.state, record.state_number
    return Record(record.op, target, args, kwargs, record.uses, record.location, state)


def check_given(record: Record, given: list[TensorRef], made: list[Descriptor]) -> None:
    """Refuse results that are not to be written as they are made."""
    if len(made) != len(given):
        raise _refusal(record, f"{len(given)} tensors are to hold {len(made)} results")
    for ref, descriptor in zip(given, made, strict=True):
        for fact in _FACTS:
            wanted, found = getattr(descriptor, fact), getattr(ref.descriptor, fact)
            if str(wanted) != str(found) and (_is_composed(record.target) or not _may_grow(ref, fact)):
                raise _refusal(record, f"the {fact} of a result is {wanted}, the tensor that is to hold it has {found}")
    if any(one.storage is two.storage for one, two in combinations(given, 2)):
        raise _refusal(record, "two results are to be in the same memory")


def check_written(record: Record, given: list[TensorRef], returned: list[Any], seen: Observed) -> None:
    """Refuse an operation that left the tensors alone, or may have read from them what it had written."""
    fakes = [known_fake(ref) for ref in given]
    for fake in fakes:
        if address_of(fake) not in seen.filled and not _is_empty(fake.shape):
            raise _refusal(record, "its rule for fake tensors does not write to `out`")
    if any(one is not two for one, two in zip(fakes, returned, strict=True)):
        raise _refusal(record, "its rule for fake tensors does not return `out`")
    held = {id(ref) for ref in given}
    read = {id(ref.storage) for ref in record.tensors if id(ref) not in held}
    twice = len(record.tensors) > len({id(ref) for ref in record.tensors})
    if not seen.by_element and (twice or any(id(ref.storage) in read for ref in given)):
        raise _refusal(record, "a result is to be in the memory of an argument")


def _may_grow(ref: TensorRef, fact: str) -> bool:
    """Whether a tensor may be given another size: an empty one that the graph made to hold the result."""
    return fact in ("shape", "stride") and not ref.is_input and _is_empty(ref.shape) and len(ref.storage.refs) == 1


def _is_composed(target: Any) -> bool:
    """Whether an operator has others write to `out`, perhaps through a view, which compilers cannot let grow."""
    is_overload = isinstance(target, OpOverload)
    return _is_composed_by_name(
        target._schema.name.partition("::")[2] if is_overload else getattr(target, "__name__", "")
    )


@cache
def _is_composed_by_name(name: str) -> bool:
    packet = getattr(torch.ops.aten, name, None)
    operators = [] if packet is None else [getattr(packet, each) for each in packet.overloads()]
    writing = [each for each in operators if any(argument.is_out for argument in each._schema.arguments)]
    return bool(writing) and all(_has_kernel(each.name(), "CompositeImplicitAutograd") for each in writing)


def _is_empty(shape: Sequence[Any]) -> bool:
    return any(type(size) is int and size == 0 for size in shape)


def _arguments(record: Record) -> dict[str, Any]:
    names = _names(record.target)
    found = {name: value for name, value in record.kwargs.items() if name in names and value is not None}
    place = _place(record.target)
    if place is not None and len(record.args) > place and record.args[place] is not None:
        found["out"] = record.args[place]
    return found


_OUT = frozenset({"out"})


def _names(target: Any) -> frozenset[str]:
    """What the arguments are called that results are written to. A function of the program's is not remembered."""
    return _names_of_operator(target) if isinstance(target, OpOverload | OpOverloadPacket) else _OUT


@cache
def _names_of_operator(target: OpOverload | OpOverloadPacket) -> frozenset[str]:
    if isinstance(target, OpOverloadPacket):
        return frozenset().union(*[_names_of_operator(getattr(target, name)) for name in target.overloads()])
    return frozenset(argument.name for argument in target._schema.arguments if argument.is_out)


def _place(target: Any) -> int | None:
    """The place of `out` among the arguments of a function of Python, where it may be given by its place."""
    names = _parameters(target)
    return names.index("out") if "out" in names else None


def _parameters(target: Any) -> tuple[str, ...]:
    code = getattr(target, "__code__", None)
    return () if code is None else code.co_varnames[: code.co_argcount]


def _refusal(record: Record, reason: str) -> MetadataFailure:
    return MetadataFailure("unsupported", record.name, reason)
