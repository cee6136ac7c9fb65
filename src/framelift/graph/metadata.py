"""What graph building knows about a tensor: its metadata, the storage it lives in, and the value it is.

A :class:`TensorRef` stands for one tensor of the program under capture. Its metadata is an interned
:class:`Descriptor`, so two tensors with equal metadata share one object and comparing them is comparing
identities. The fake tensor behind it is made only when somebody needs it.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, NamedTuple

import torch
from torch.fx import Node

from framelift.shapes.symbols import Layout

if TYPE_CHECKING:
    from framelift.graph.record import Record

# The facts a descriptor is interned by, in the order of Descriptor's fields.
Facts = tuple[Any, ...]


class Descriptor:
    """The metadata of a tensor. Made by :class:`Interner` only: equal metadata is the same object.

    >>> facts = (torch.Size([2]), (1,), 0, torch.float32, torch.device("cpu"), False, True, *[False] * 6, 8, True, True)
    >>> interner = Interner()
    >>> interner.intern(facts) is interner.intern(facts)
    True
    """

    __slots__ = (
        "shape",
        "stride",
        "offset",
        "dtype",
        "device",
        "requires_grad",
        "is_leaf",
        "is_parameter",
        "is_inference",
        "is_view",
        "is_conj",
        "is_neg",
        "is_constant",
        "storage_bytes",
        "is_plain",
        "is_complete",
    )

    shape: torch.Size
    stride: tuple[int, ...]
    offset: int
    dtype: torch.dtype
    device: torch.device
    requires_grad: bool
    is_leaf: bool
    is_parameter: bool
    is_inference: bool
    is_view: bool
    is_conj: bool
    is_neg: bool
    # The values are known too (torch.tensor([1, 2])): results computed from it may depend on them.
    is_constant: bool
    storage_bytes: int
    # Strided, not a subclass: everything about the tensor is said by the fields above, and they are numbers.
    is_plain: bool
    # The same, but some of the fields may be symbolic numbers, which mean something in one capture only.
    is_complete: bool

    @property
    def is_symbolic(self) -> bool:
        """Whether some size or stride is symbolic."""
        return not self.is_plain and any(type(number) is not int for number in (*self.shape, *self.stride))

    def __init__(self, facts: Facts) -> None:
        for name, value in zip(self.__slots__, facts, strict=True):
            setattr(self, name, value)

    @property
    def facts(self) -> Facts:
        return tuple(getattr(self, name) for name in self.__slots__)

    def agrees(self, other: Descriptor) -> bool:
        """Whether both say the same. Symbolic numbers are spelt in another way once more is known about them.

        The size of a storage is spelt as it was computed, in one way or another, and follows from the rest.
        """
        if self is other or self.is_plain or other.is_plain:
            return self is other
        return not self.difference(other, ("storage_bytes",))

    def difference(self, other: Descriptor, but: tuple[str, ...] = ()) -> str:
        """The fields, but some, in which two descriptors differ, in words."""
        parts = []
        for name in self.__slots__:
            if name in but:
                continue
            mine, theirs = getattr(self, name), getattr(other, name)
            if str(mine) != str(theirs):  # comparing symbolic numbers would assume something about them
                parts.append(f"{name} {mine} != {theirs}")
        return ", ".join(parts)

    def __repr__(self) -> str:
        flags = "".join(f" {name}" for name in self.__slots__ if getattr(self, name) is True and name != "is_plain")
        return f"<{self.dtype} {tuple(self.shape)} stride {self.stride} on {self.device}{flags}>"


class Expression(NamedTuple):
    """What a symbolic number is: what the descriptor is to a tensor."""

    kind: type
    expression: Any

    @property
    def is_plain(self) -> bool:
        return False

    @property
    def is_complete(self) -> bool:
        return True

    @property
    def is_constant(self) -> bool:
        return False


class Interner:
    """Gives equal facts the same descriptor."""

    def __init__(self) -> None:
        self._descriptors: dict[Facts, Descriptor] = {}

    def intern(self, facts: Facts) -> Descriptor:
        descriptor = self._descriptors.get(facts)
        if descriptor is None:
            descriptor = self._descriptors[facts] = Descriptor(facts)
        return descriptor

    def clear(self) -> None:
        self._descriptors.clear()

    def __len__(self) -> int:
        return len(self._descriptors)


class Storage:
    """The memory behind one or several tensors of the program."""

    __slots__ = ("refs", "changes", "untyped", "whole", "converter")

    def __init__(self) -> None:
        # Every tensor known to live here, oldest first.
        self.refs: list[TensorRef] = []
        # The records that wrote to it or changed the metadata of a tensor in it, oldest first.
        self.changes: list[Record] = []
        # The fake storage, once some tensor in it has a fake.
        self.untyped: torch.UntypedStorage | None = None
        # Where it has a symbolic size: a tensor without data that fills it.
        self.whole: torch.Tensor | None = None
        # What makes fakes from the real tensors in it, once there is a need.
        self.converter: Any = None

    @property
    def is_written(self) -> bool:
        return any(self in record.writes for record in self.changes)

    def changed_after(self, record: Record | None) -> bool:
        """Whether it was changed after a record; after the start, for None."""
        return bool(self.changes) and (record is None or self.changes[-1].index > record.index)

    def forget_fakes(self) -> None:
        self.untyped = None
        self.whole = None
        self.converter = None
        for ref in self.refs:
            ref.known_fake = None


class Ref:
    """A value computed by the graph."""

    __slots__ = ("node", "record", "path")

    def __init__(self, record: Record | None, path: tuple[int | str, ...]) -> None:
        # The record that computes it (None: an input of the graph) and where in that record's result it stands.
        self.record = record
        self.path = path
        # Set when the graph is emitted.
        self.node: Node | None = None


class TensorRef(Ref):
    """A tensor of the program under capture."""

    __slots__ = (
        "descriptor",
        "storage",
        "aliases",
        "known_fake",
        "known_value",
        "example",
        "input_name",
        "source_name",
        "kind",
        "layout",
        "_make_fake",
        "__weakref__",
    )

    def __init__(
        self,
        descriptor: Descriptor,
        storage: Storage,
        record: Record | None,
        path: tuple[int | str, ...],
        make_fake: Callable[[TensorRef], torch.Tensor],
    ) -> None:
        super().__init__(record, path)
        self.descriptor = descriptor
        self.storage = storage
        # Shares its storage with an older tensor.
        self.aliases = bool(storage.refs)
        self.known_fake: torch.Tensor | None = None
        # Of a constant: its value when it was made, in words.
        self.known_value: str | None = None
        # Of an input: the real tensor it was captured with, its name in the graph, where it comes from.
        self.example: torch.Tensor | None = None
        self.input_name: str | None = None
        self.source_name: str | None = None
        self.kind: str | None = None
        # Of an input with symbolic sizes: its sizes and strides at entry.
        self.layout: Layout | None = None
        self._make_fake = make_fake
        storage.refs.append(self)

    @property
    def fake(self) -> torch.Tensor:
        """The FakeTensor that stands for it, made on first use."""
        if self.known_fake is None:
            return self._make_fake(self)
        return self.known_fake

    @property
    def is_input(self) -> bool:
        return self.record is None

    @property
    def is_new(self) -> bool:
        """Whether it is an input that is made for each call."""
        return self.kind == "new"

    @property
    def shape(self) -> torch.Size:
        return self.descriptor.shape

    @property
    def dtype(self) -> torch.dtype:
        return self.descriptor.dtype

    @property
    def device(self) -> torch.device:
        return self.descriptor.device

    @property
    def requires_grad(self) -> bool:
        return self.descriptor.requires_grad

    def stride(self) -> tuple[int, ...]:
        return self.descriptor.stride

    def __repr__(self) -> str:
        origin = self.input_name if self.record is None else f"{self.record.name}{list(self.path) or ''}"
        return f"TensorRef({origin}: {self.descriptor})"


class NumberRef(Ref):
    """An int, float or bool that differs from call to call: `known_fake` is torch's symbolic number."""

    __slots__ = ("known_fake", "example", "input_name", "source_name")

    kind = "number"

    def __init__(self, record: Record | None, path: tuple[int | str, ...], symbolic: Any) -> None:
        super().__init__(record, path)
        self.known_fake = symbolic
        # Of an input: the number it was captured with, its name in the graph, where it comes from.
        self.example: int | float | None = None
        self.input_name: str | None = None
        self.source_name: str | None = None

    @property
    def fake(self) -> Any:
        return self.known_fake

    @property
    def descriptor(self) -> Expression:
        return Expression(type(self.known_fake), self.known_fake.node._expr)

    def __repr__(self) -> str:
        return f"NumberRef({self.known_fake})"


class TokenRef(Ref):
    """A value only other operations of the graph can use, such as the handle of an entered autocast region."""

    __slots__ = ()
