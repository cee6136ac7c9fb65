"""Which operators of tensors a program has replaced: `torch.Tensor.__mul__ = ...`.

A graph holds the operations of torch, and compilers of graphs use operators themselves: with others in place nothing is
captured, and what was captured before waits until they are gone.
"""

from __future__ import annotations

import types
from pathlib import Path
from typing import Any

import torch

_TORCH = str(Path(torch.__file__).parent)
_ARITHMETIC = "add sub mul truediv floordiv mod pow matmul lshift rshift and or xor"
_OTHERS = (
    "neg pos abs invert eq ne lt le gt ge hash bool int float complex index "
    "len iter reversed contains getitem setitem delitem getattr getattribute setattr torch_function"
)
NAMES = (
    *(f"__{prefix}{name}__" for name in _ARITHMETIC.split() for prefix in ("", "r", "i")),
    *(f"__{name}__" for name in _OTHERS.split()),
)
_CLASSES = (torch.Tensor, torch.nn.Parameter)


class Replaced(tuple[tuple[str, Any], ...]):
    """Operators that are not torch's, by name."""

    def __str__(self) -> str:
        return ", ".join(name for name, _ in self) or "torch's"


def _entries() -> list[tuple[str, Any]]:
    return [(f"{cls.__name__}.{name}", _lookup(cls, name)) for cls in _CLASSES for name in NAMES]


def _lookup(cls: type, name: str) -> Any:
    """What is found in a class or those it derives from: replaced by what it inherits, nothing is."""
    for base in cls.__mro__:
        namespace = vars(base)
        if name in namespace:
            return namespace[name]
    return None


_BEFORE = dict(_entries())


def replaced_operators() -> Replaced:
    """Those that are others than when framelift was imported, or that were not torch's even then."""
    return Replaced((name, entry) for name, entry in _entries() if entry is not _BEFORE[name] or not _is_torchs(entry))


def same_operators(old: Replaced, new: Replaced) -> bool:
    """Whether the same operators are replaced by the same functions."""
    return len(old) == len(new) and all(
        mine[0] == other[0] and mine[1] is other[1] for mine, other in zip(old, new, strict=True)
    )


def _is_torchs(entry: Any) -> bool:
    return not isinstance(entry, types.FunctionType) or entry.__code__.co_filename.startswith(_TORCH)
