"""Models of `bisect`."""

from __future__ import annotations

import _bisect
import operator
from typing import Any

from framelift.models.registry import models


def _start(lo: Any) -> int:
    start = operator.index(lo)
    if start < 0:
        raise ValueError("lo must be non-negative")
    return start


def _end(a: Any, hi: Any) -> Any:
    """Where the search ends; -1 is how the C code says that it was not told."""
    if hi is not None and not hasattr(type(hi), "__index__"):
        raise TypeError(f"argument should be integer or None, not '{type(hi).__name__}'")
    end = -1 if hi is None else operator.index(hi)
    return len(a) if end == -1 else end


@models(_bisect.bisect_left)
def bisect_left(a: Any, x: Any, lo: int = 0, hi: Any = None, *, key: Any = None) -> int:
    lo, hi = _start(lo), _end(a, hi)
    while lo < hi:
        middle = (lo + hi) // 2
        if (a[middle] if key is None else key(a[middle])) < x:
            lo = middle + 1
        else:
            hi = middle
    return lo


@models(_bisect.bisect_right)
def bisect_right(a: Any, x: Any, lo: int = 0, hi: Any = None, *, key: Any = None) -> int:
    lo, hi = _start(lo), _end(a, hi)
    while lo < hi:
        middle = (lo + hi) // 2
        if x < (a[middle] if key is None else key(a[middle])):
            hi = middle
        else:
            lo = middle + 1
    return lo


@models(_bisect.insort_left)
def insort_left(a: Any, x: Any, lo: int = 0, hi: Any = None, *, key: Any = None) -> None:
    position = bisect_left(a, x if key is None else key(x), lo, hi, key=key)
    a.insert(position, x)  # only now: what is no sequence is told by the search


@models(_bisect.insort_right)
def insort_right(a: Any, x: Any, lo: int = 0, hi: Any = None, *, key: Any = None) -> None:
    position = bisect_right(a, x if key is None else key(x), lo, hi, key=key)
    a.insert(position, x)  # only now: what is no sequence is told by the search
