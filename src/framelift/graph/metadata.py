"""What graph building knows about the metadata of a tensor.

It is an interned :class:`Descriptor`, so two tensors with equal metadata share one object and comparing them is
comparing identities.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import torch

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
        """Whether both say the same. Symbolic numbers are spelt in another way once more is known about them, or are
        plain ones by then.

        The size of a storage is spelt as it was computed, in one way or another, and follows from the rest.
        """
        if self is other or (self.is_plain and other.is_plain):
            return self is other
        return not self.difference(other, ("storage_bytes",))

    def difference(self, other: Descriptor, but: tuple[str, ...] = ()) -> str:
        """The fields, but some, in which two descriptors differ, in words."""
        parts = []
        for name in self.__slots__:
            # A symbol that turns out to be 5 reads 5, in a tensor that is no plain one for it.
            if name == "is_plain" or name in but:
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
