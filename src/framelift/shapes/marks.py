"""What users say about the sizes of a tensor before it is given to lifted code.

    >>> import torch
    >>> x = torch.ones(3, 4)
    >>> mark_dynamic(x, 0, min=2, max=64)
    >>> str(marks_of(x)[0])
    'dynamic, from 2 to 64'

What is said must be true: where a size out of bounds would be captured, the call raises `DynamicError`. torch's own
marks (`torch._dynamo.mark_dynamic` and the like) are heard as well.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any, Literal, NamedTuple

import torch

Kind = Literal["dynamic", "maybe", "static", "unbacked"]
_OWN = "_framelift_marks"
_STRICT = "_dynamo_strict_unbacked_indices"
# Attributes torch keeps its marks in, weakest last. AOTAutograd leaves the third on results with symbolic sizes.
_OF_TORCH: tuple[tuple[str, Kind], ...] = (
    ("_dynamo_dynamic_indices", "dynamic"),
    ("_dynamo_weak_dynamic_indices", "maybe"),
    ("_dynamo_propagated_dynamic_indices", "maybe"),
    (_STRICT, "unbacked"),
    ("_dynamo_unbacked_indices", "unbacked"),
    ("_dynamo_static_indices", "static"),
)


class Mark(NamedTuple):
    """What was said about one dimension, with bounds where they were given.

    `strict`: capture raises where the program needs the very size. `hint`: a size for compilers to optimise for.
    """

    kind: Kind
    lower: int | None = None
    upper: int | None = None
    strict: bool = False
    hint: int | None = None

    def allows(self, size: int) -> bool:
        return (self.lower is None or size >= self.lower) and (self.upper is None or size <= self.upper)

    def __str__(self) -> str:
        words = [self.kind, f"from {self.lower}" if self.lower is not None else ""]
        words.append(f"to {self.upper}" if self.upper is not None else "")
        return ", ".join(filter(None, (words[0], " ".join(filter(None, words[1:])))))


def mark_dynamic(
    tensor: torch.Tensor,
    dims: int | Sequence[int],
    *,
    min: int | None = None,
    max: int | None = None,
    hint_override: int | None = None,
) -> None:
    """Let dimensions be symbolic from the first capture on; capture raises where the program needs their very size."""
    _mark(tensor, dims, Mark("dynamic", min, max, True, hint_override))


def maybe_mark_dynamic(
    tensor: torch.Tensor, dims: int | Sequence[int], *, min: int | None = None, max: int | None = None
) -> None:
    """The same, but a program that needs the size gets it. A dimension that is marked dynamic stays that."""
    known = marks_of(tensor) if isinstance(tensor, torch.Tensor) else {}
    dims = [dims] if isinstance(dims, int) else dims
    is_free = [dim for dim in dims if getattr(known.get(_dimension(tensor, dim)), "kind", None) != "dynamic"]
    _mark(tensor, is_free, Mark("maybe", min, max))


def mark_unbacked(
    tensor: torch.Tensor,
    dims: int | Sequence[int],
    hint_override: int | None = None,
    strict: bool = False,
    *,
    min: int | None = None,
    max: int | None = None,
) -> None:
    """Let the sizes of dimensions be unknown while the program is captured, as if they depended on data.

    Nothing is decided by them: a branch on such a size is a graph break. Only what operations have to presume is
    guarded (at least 2, the bounds, what the program says with `torch._check`), so most other sizes need no capture.
    With `strict`, capture raises where the program has one size only.
    """
    _mark(tensor, dims, Mark("unbacked", min, max, strict, hint_override))


def mark_static(tensor: torch.Tensor, dims: int | Sequence[int] | None = None) -> None:
    """Let dimensions, or all of them, be numbers whatever sizes are seen."""
    _mark(tensor, range(tensor.dim()) if dims is None else dims, Mark("static"))


def marks_of(tensor: torch.Tensor) -> dict[int, Mark]:
    """What was said about the dimensions of a tensor."""
    attributes = tensor.__dict__
    if not attributes:
        return {}
    found: dict[int, Mark] = dict(attributes.get(_OWN, {}))
    bounds = {entry.dim: (entry.min, entry.max) for entry in attributes.get("_dynamo_dynamic_range", ())}
    bounds.update(attributes.get("_dynamo_unbacked_bounds", ()))
    hints = attributes.get("_dynamo_hint_overrides", {})
    for name, kind in _OF_TORCH:
        strict = kind == "dynamic" or name == _STRICT
        for dim in attributes.get(name, ()):
            found.setdefault(dim, Mark(kind, *bounds.get(dim, (None, None)), strict, hints.get(dim)))
    return found


def _mark(tensor: torch.Tensor, dims: int | Iterable[int], mark: Mark) -> None:
    if not isinstance(tensor, torch.Tensor):
        raise TypeError(f"a mark is for a tensor, not for a {type(tensor).__name__}")
    for bound in (mark.lower, mark.upper, mark.hint):
        if bound is not None and type(bound) is not int:
            raise TypeError(f"a bound or hint of a size is an int, not {bound!r}")
    if mark.lower is not None and mark.upper is not None and mark.lower > mark.upper:
        raise ValueError(f"no size is from {mark.lower} to {mark.upper}")
    marks: dict[int, Mark] = tensor.__dict__.setdefault(_OWN, {})
    for dim in [dims] if isinstance(dims, int) else dims:
        marks[_dimension(tensor, dim)] = mark


def _dimension(tensor: torch.Tensor, dim: Any) -> int:
    rank = tensor.dim()
    if isinstance(dim, bool) or not isinstance(dim, int):
        raise TypeError(f"a dimension is an int, not {dim!r}")
    if not -rank <= dim < rank:
        raise IndexError(f"a tensor with {rank} dimensions has no dimension {dim}")
    return dim % rank
