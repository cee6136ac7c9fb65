"""Models of `heapq`."""

from __future__ import annotations

import _heapq
import operator
from collections.abc import Callable
from typing import Any

from framelift.models.registry import models


def _word_for(heap: Any) -> str:
    return "None" if heap is None else type(heap).__name__


def _below(heap: Any, words: str, operation: Callable[..., Any], *args: Any) -> Any:
    """The operation on an instance of a subclass of list: on the items it holds, whatever its methods say."""
    if not isinstance(heap, list):
        raise TypeError(f"{words} must be list, not {_word_for(heap)}")
    items = list.copy(heap)
    try:
        return operation(items, *args)
    finally:
        list.__setitem__(heap, slice(None), items)


def _rise(heap: list[Any], start: int, position: int, before: Callable[[Any, Any], Any]) -> None:
    """Move the item at `position` up until its parent goes before it."""
    item = heap[position]
    while position > start:
        parent = (position - 1) >> 1
        if not before(item, heap[parent]):
            break
        heap[position] = heap[parent]
        position = parent
    heap[position] = item


def _sink(heap: list[Any], position: int, before: Callable[[Any, Any], Any]) -> None:
    """Move the item at `position` down to a leaf, then up to its place: fewer comparisons than stopping on the way."""
    start, end = position, len(heap)
    item = heap[position]
    child = 2 * position + 1
    while child < end:
        if child + 1 < end and not before(heap[child], heap[child + 1]):
            child += 1
        heap[position] = heap[child]
        position = child
        child = 2 * position + 1
    heap[position] = item
    _rise(heap, start, position, before)


def _after(left: Any, right: Any) -> Any:
    return right < left


def _heapify(heap: Any, before: Callable[[Any, Any], Any]) -> None:
    for position in range(len(heap) // 2 - 1, -1, -1):
        _sink(heap, position, before)


def _pop(heap: Any, before: Callable[[Any, Any], Any]) -> Any:
    if not heap:
        raise IndexError("index out of range")
    last = heap.pop()
    if not heap:
        return last
    first, heap[0] = heap[0], last
    _sink(heap, 0, before)
    return first


def _replace(heap: Any, item: Any, before: Callable[[Any, Any], Any]) -> Any:
    if not heap:
        raise IndexError("index out of range")
    first, heap[0] = heap[0], item
    _sink(heap, 0, before)
    return first


@models(_heapq.heapify)
def heapify(heap: Any, /) -> None:
    if type(heap) is not list:
        _below(heap, "heapify() argument", heapify)
        return
    _heapify(heap, operator.lt)


@models(_heapq.heappush)
def heappush(heap: Any, item: Any, /) -> None:
    if type(heap) is not list:
        _below(heap, "heappush() argument 1", heappush, item)
        return
    heap.append(item)
    _rise(heap, 0, len(heap) - 1, operator.lt)


@models(_heapq.heappop)
def heappop(heap: Any, /) -> Any:
    if type(heap) is not list:
        return _below(heap, "heappop() argument", heappop)
    return _pop(heap, operator.lt)


@models(_heapq.heapreplace)
def heapreplace(heap: Any, item: Any, /) -> Any:
    if type(heap) is not list:
        return _below(heap, "heapreplace() argument 1", heapreplace, item)
    return _replace(heap, item, operator.lt)


@models(_heapq.heappushpop)
def heappushpop(heap: Any, item: Any, /) -> Any:
    if type(heap) is not list:
        return _below(heap, "heappushpop() argument 1", heappushpop, item)
    if not heap or not heap[0] < item:
        return item
    return _replace(heap, item, operator.lt)


@models(_heapq._heapify_max)  # type: ignore[attr-defined]
def heapify_max(heap: Any, /) -> None:
    if type(heap) is not list:
        _below(heap, "_heapify_max() argument", heapify_max)
        return
    _heapify(heap, _after)


@models(_heapq._heappop_max)  # type: ignore[attr-defined]
def heappop_max(heap: Any, /) -> Any:
    if type(heap) is not list:
        return _below(heap, "_heappop_max() argument", heappop_max)
    return _pop(heap, _after)


@models(_heapq._heapreplace_max)  # type: ignore[attr-defined]
def heapreplace_max(heap: Any, item: Any, /) -> Any:
    if type(heap) is not list:
        return _below(heap, "_heapreplace_max() argument 1", heapreplace_max, item)
    return _replace(heap, item, _after)
