"""What a TENSOR guard asks of a tensor. None in a field, or in an entry of sizes and strides, means anything."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, NamedTuple

Sizes = tuple[int | None, ...]


class TensorSpec(NamedTuple):
    """The metadata of one tensor, as Python sees it.

    >>> TensorSpec(type="Tensor", dtype="float32", sizes=(3, None))._replace(sizes=None).dtype
    'float32'
    """

    type: Any
    keys: int | None = None
    dtype: Any = None
    device: Any = None
    requires_grad: bool | None = None
    sizes: Sizes | None = None
    strides: Sizes | None = None
    is_leaf: bool | None = None
    layout: Any = None

    def matches(self, found: TensorSpec | None) -> bool:
        return found is not None and next(self.differences("", found), None) is None

    def differences(self, source: str, found: TensorSpec) -> Iterator[str]:
        """`L['x'].size()[0] was 3, now 4` for each thing that differs."""
        if self.type is not found.type:
            yield f"type({source}) was {_name(self.type)}, now {_name(found.type)}"
        for field in ("dtype", "device", "layout", "requires_grad", "is_leaf"):
            expected, now = getattr(self, field), getattr(found, field)
            if expected is not None and not (type(expected) is type(now) and expected == now):
                yield f"{source}.{field} was {expected}, now {now}"
        if self.sizes is not None and found.sizes is not None and len(self.sizes) != len(found.sizes):
            yield f"{source}.dim() was {len(self.sizes)}, now {len(found.sizes)}"
        else:
            yield from _entries(f"{source}.size()", self.sizes, found.sizes)
            yield from _entries(f"{source}.stride()", self.strides, found.strides)
        if self.keys is not None and self.keys != found.keys:
            yield f"dispatch keys of {source} were {self.keys:#x}, now {found.keys:#x}"

    def words(self) -> str:
        """`float32[3, any] on cpu requiring grad`"""
        sizes = "any shape" if self.sizes is None else f"[{', '.join(map(_entry, self.sizes))}]"
        text = f"{str(self.dtype or 'any dtype').removeprefix('torch.')}{sizes} on {self.device or 'any device'}"
        if self.strides is not None and self.strides != _contiguous(self.sizes):
            text += f" with strides [{', '.join(map(_entry, self.strides))}]"
        return text + (" requiring grad" if self.requires_grad else "")


def _entry(size: int | None) -> str:
    return "any" if size is None else str(size)


def _name(cls: Any) -> str:
    return getattr(cls, "__qualname__", str(cls))


def _entries(source: str, expected: Sizes | None, found: Sizes | None) -> Iterator[str]:
    if expected is None:
        return
    if found is None or len(expected) != len(found):
        yield f"{source} was {expected}, now {found}"
        return
    for i, (old, new) in enumerate(zip(expected, found, strict=True)):
        if old is not None and old != new:
            yield f"{source}[{i}] was {old}, now {new}"


def _contiguous(sizes: Sizes | None) -> Sizes | None:
    if sizes is None or None in sizes:
        return None
    strides: list[int] = []
    step = 1
    for size in reversed(sizes):
        strides.append(step)
        step *= max(size or 0, 1)
    return tuple(reversed(strides))
