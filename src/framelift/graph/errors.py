"""The one error graph building raises for a program it cannot put into a graph."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal

from framelift.errors import FrameliftError

FailureKind = Literal["data-dependent", "unsupported", "opaque", "error", "argument", "result"]


class MetadataFailure(FrameliftError):
    """An operation could not be put into the graph; the cause is chained as ``__cause__``.

    ``kind`` says why:

    * ``data-dependent`` — the result depends on tensor values (``item()``, ``nonzero()``, ``bool(t)``),
    * ``unsupported`` — no metadata rule is known for the operation or for one of its tensors,
    * ``opaque`` — a tensor is sparse, nested or quantized; the reason says which,
    * ``error`` — the operation itself raises for these inputs (a shape mismatch, a bad argument),
    * ``argument`` — an argument is neither a tensor of the graph nor a constant a graph can hold,
    * ``result`` — the result holds an object a graph cannot hold (a storage, an iterator, a ``grad_fn``).

    >>> str(MetadataFailure("data-dependent", "item", "depends on the values of a tensor"))
    'item: depends on the values of a tensor (data-dependent)'
    """

    def __init__(self, kind: FailureKind, operation: str, reason: str) -> None:
        super().__init__(f"{operation}: {reason} ({kind})")
        self.kind: FailureKind = kind
        self.operation = operation
        self.reason = reason

    @property
    def is_write_refused(self) -> bool:
        """Whether autograd does not let the operation write where it would."""
        return self.kind == "error" and any(words in self.reason for words in _REFUSED_WRITE)


# What autograd says of writes to leaves, to one of several views, and to views that it does not follow.
_REFUSED_WRITE = ("is being modified inplace", "is being used in an in-place operation")


class NeedsNumbers(Exception):
    """Inputs that were given symbolic sizes cannot have them: they share memory, for instance.

    ``names`` says which; the capture starts again with numbers for them.
    """

    def __init__(self, names: Sequence[str | None]) -> None:
        self.names = tuple(name for name in names if name is not None)
        super().__init__(", ".join(self.names))


class MemoMismatch(AssertionError):
    """Check mode found that the metadata memo disagrees with a fresh run of the same operation."""


def first_line(error: BaseException) -> str:
    """What an exception says, in a line."""
    text = str(error).strip()
    return text.splitlines()[0] if text else type(error).__name__
