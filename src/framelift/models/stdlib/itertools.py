"""Models of `itertools`: generators, so that items are computed when they are asked for."""

from __future__ import annotations

import itertools
import operator
import sys
from collections.abc import Callable, Iterable, Iterator
from typing import Any

from framelift.models.builtins import asked
from framelift.models.registry import Missing, goes_by, models


@models(itertools.chain)
def chain(*iterables: Iterable[Any]) -> Iterator[Any]:
    for iterable in iterables:
        yield from iterable


@models(itertools.chain.__dict__["from_iterable"])
def chain_from_iterable(cls: type, iterables: Iterable[Iterable[Any]], /) -> Iterator[Any]:
    for iterable in iterables:
        yield from iterable


@models(itertools.repeat)
def repeat(object: Any, times: int = Missing) -> Iterator[Any]:  # type: ignore[assignment]
    return _repeated(object, times if times is Missing else operator.index(times))


def _repeated(object: Any, times: Any) -> Iterator[Any]:
    if times is Missing:
        while True:
            yield object
    for _ in range(times):
        yield object


@models(itertools.count)
def count(start: Any = 0, step: Any = 1) -> Iterator[Any]:
    if not (_is_number(start) and _is_number(step)):
        raise TypeError("a number is required")
    return _counted(start, step)


def _is_number(value: Any) -> bool:
    return any(hasattr(type(value), name) for name in ("__index__", "__int__", "__float__", "__complex__"))


def _counted(start: Any, step: Any) -> Iterator[Any]:
    while True:
        yield start
        start = start + step


@models(itertools.cycle)
def cycle(iterable: Iterable[Any], /) -> Iterator[Any]:
    return _cycled(asked(iterable))


def _cycled(iterator: Iterator[Any]) -> Iterator[Any]:
    saved = []
    for item in iterator:
        yield item
        saved.append(item)
    while saved:
        yield from saved


@models(itertools.accumulate)
def accumulate(
    iterable: Iterable[Any], func: Callable[[Any, Any], Any] | None = None, *, initial: Any = None
) -> Iterator[Any]:
    return _accumulated(asked(iterable), operator.add if func is None else func, initial)


def _accumulated(iterator: Iterator[Any], function: Callable[[Any, Any], Any], total: Any) -> Iterator[Any]:
    if total is None:
        for first in iterator:
            total = first
            break
        else:
            return
    yield total
    for item in iterator:
        total = function(total, item)
        yield total


@models(itertools.islice)
def islice(iterable: Iterable[Any], first: Any, second: Any = Missing, third: Any = None, /) -> Iterator[Any]:
    start, stop, step = (None, first, None) if second is Missing else (first, second, third)
    if not _is_position(stop):
        what = "Stop argument" if second is Missing else "Indices"
        raise ValueError(f"{what} for islice() must be None or an integer: 0 <= x <= sys.maxsize.")
    if not _is_position(start):
        raise ValueError("Indices for islice() must be None or an integer: 0 <= x <= sys.maxsize.")
    if not _is_position(step) or step == 0:
        raise ValueError("Step for islice() must be a positive integer or None.")
    return _sliced(asked(iterable), start or 0, stop, step or 1)


def _is_position(value: Any) -> bool:
    return value is None or (hasattr(type(value), "__index__") and 0 <= operator.index(value) <= sys.maxsize)


def _sliced(iterator: Iterator[Any], start: int, stop: int | None, step: int) -> Iterator[Any]:
    if stop is None:
        wanted = start
        for position, item in enumerate(iterator):
            if position == wanted:
                yield item
                wanted += step
        return
    position = 0
    while position < start and position < stop:
        for _ in iterator:
            break
        else:
            return
        position += 1
    while position < stop:
        for item in iterator:
            yield item
            break
        else:
            return
        position += 1
        skipped = 1
        while skipped < step and position < stop:
            for _ in iterator:
                break
            else:
                return
            position += 1
            skipped += 1


@models(itertools.takewhile)
def takewhile(predicate: Callable[[Any], Any], iterable: Iterable[Any], /) -> Iterator[Any]:
    return _taken(predicate, asked(iterable))


def _taken(predicate: Callable[[Any], Any], iterator: Iterator[Any]) -> Iterator[Any]:
    for item in iterator:
        if not predicate(item):
            return
        yield item


@models(itertools.dropwhile)
def dropwhile(predicate: Callable[[Any], Any], iterable: Iterable[Any], /) -> Iterator[Any]:
    return _not_dropped(predicate, asked(iterable))


def _not_dropped(predicate: Callable[[Any], Any], iterator: Iterator[Any]) -> Iterator[Any]:
    for item in iterator:
        if not predicate(item):
            yield item
            break
    else:
        return
    yield from iterator


@models(itertools.filterfalse)
def filterfalse(predicate: Callable[[Any], Any] | None, iterable: Iterable[Any], /) -> Iterator[Any]:
    return (item for item in iterable if not (item if predicate is None else predicate(item)))


@models(itertools.starmap)
def starmap(function: Callable[..., Any], iterable: Iterable[Any], /) -> Iterator[Any]:
    return (function(*tuple(arguments)) for arguments in iterable)


@models(itertools.compress)
def compress(data: Iterable[Any], selectors: Iterable[Any]) -> Iterator[Any]:
    return (item for item, selected in zip(data, selectors, strict=False) if selected)


@models(itertools.pairwise)
def pairwise(iterable: Iterable[Any], /) -> Iterator[Any]:
    return _paired(asked(iterable))


def _paired(iterator: Iterator[Any]) -> Iterator[Any]:
    for previous in iterator:
        for item in iterator:
            yield (previous, item)
            previous = item
        return


@models(itertools.zip_longest)
def zip_longest(*iterables: Iterable[Any], fillvalue: Any = None) -> Iterator[Any]:
    return _zipped_to_the_longest([asked(iterable) for iterable in iterables], fillvalue)


def _zipped_to_the_longest(iterators: list[Iterator[Any]], fillvalue: Any) -> Iterator[Any]:
    finished = [False for _ in iterators]
    while iterators:
        row = []
        for index, iterator in enumerate(iterators):
            if finished[index]:
                row.append(fillvalue)
                continue
            for item in iterator:
                row.append(item)
                break
            else:
                finished[index] = True
                row.append(fillvalue)
        if all(finished):
            return
        yield tuple(row)


@models(itertools.product)
def product(*iterables: Iterable[Any], repeat: int = 1) -> Iterator[Any]:
    repeat = operator.index(repeat)
    if repeat < 0:
        raise ValueError("repeat argument cannot be negative")
    pools = [tuple(iterable) for iterable in iterables] * repeat
    rows: list[tuple[Any, ...]] = [()]
    for pool in pools:
        rows = [(*row, item) for row in rows for item in pool]
    return iter(rows)


@models(itertools.combinations)
def combinations(iterable: Iterable[Any], r: int) -> Iterator[Any]:
    r = operator.index(r)
    pool = tuple(iterable)
    if r < 0:
        raise ValueError("r must be non-negative")
    return iter([tuple([pool[i] for i in chosen]) for chosen in _chosen(range(len(pool)), r)])


def _chosen(positions: Any, r: int) -> list[Any]:
    """The increasing tuples of `r` positions."""
    rows: list[tuple[int, ...]] = [()]
    for _ in range(r):
        rows = [(*row, position) for row in rows for position in positions if not row or position > row[-1]]
    return rows


@models(itertools.combinations_with_replacement)
def combinations_with_replacement(iterable: Iterable[Any], r: int) -> Iterator[Any]:
    r = operator.index(r)
    pool = tuple(iterable)
    if r < 0:
        raise ValueError("r must be non-negative")
    rows: list[tuple[int, ...]] = [()]
    for _ in range(r):
        rows = [(*row, position) for row in rows for position in range(len(pool)) if not row or position >= row[-1]]
    return iter([tuple([pool[i] for i in chosen]) for chosen in rows])


@models(itertools.permutations)
def permutations(iterable: Iterable[Any], r: int | None = None) -> Iterator[Any]:
    pool = tuple(iterable)
    if r is not None and not isinstance(r, int):
        raise TypeError("Expected int as r")
    length = len(pool) if r is None else r
    if length < 0:
        raise ValueError("r must be non-negative")
    rows: list[tuple[int, ...]] = [()]
    for _ in range(length):
        rows = [(*row, position) for row in rows for position in range(len(pool)) if position not in row]
    return iter([tuple([pool[i] for i in chosen]) for chosen in rows])


@models(itertools.tee)
def tee(iterable: Iterable[Any], n: int = 2, /) -> Any:
    n = operator.index(n)
    if n < 0:
        raise ValueError("n must be >= 0")
    iterator = asked(iter(iterable))
    taken: list[Any] = []
    running: list[bool] = []
    return tuple([_retold(iterator, taken, running) for _ in range(n)])


def _retold(iterator: Iterator[Any], taken: list[Any], running: list[bool]) -> Iterator[Any]:
    position = 0
    while True:
        if position == len(taken):
            if running:
                raise RuntimeError("cannot re-enter the tee iterator")
            running.append(True)
            try:
                for item in iterator:
                    taken.append(item)
                    break
                else:
                    return
            finally:
                running.pop()
        yield taken[position]
        position += 1


goes_by(type(itertools.tee(())[0]), _retold)


if hasattr(itertools, "batched"):

    @models(itertools.batched)
    def batched(iterable: Iterable[Any], n: int) -> Iterator[Any]:
        n = operator.index(n)
        if n < 1:
            raise ValueError("n must be at least one")
        return _in_batches(asked(iterable), n)


def _in_batches(iterator: Iterator[Any], n: int) -> Iterator[Any]:
    while True:
        batch = []
        for item in iterator:
            batch.append(item)
            if len(batch) == n:
                break
        if not batch:
            return
        yield tuple(batch)


@models(itertools.groupby)
def groupby(iterable: Iterable[Any], key: Callable[[Any], Any] | None = None) -> Iterator[Any]:
    return _groups(asked(iterable), key)


def _groups(iterator: Iterator[Any], key: Callable[[Any], Any] | None) -> Iterator[Any]:
    """Groups share the iterator with the whole: each one is over when the next one is asked for."""
    # The key of the last group that was given; the key and the value of the last item that was read.
    given: Any = Missing
    found: Any = Missing
    value: Any = Missing
    number = 0

    def read() -> bool:
        nonlocal found, value
        for item in iterator:
            item_key = item if key is None else key(item)
            found, value = item_key, item
            return True
        return False

    def group(own_number: int, own_key: Any) -> Iterator[Any]:
        nonlocal value
        while own_number == number:
            if value is Missing and not read():
                return
            if not (own_key is found or own_key == found):
                return
            item, value = value, Missing
            yield item

    while True:
        number += 1
        while found is Missing or (given is not Missing and (given is found or given == found)):
            if not read():
                return
        given = found
        yield found, group(number, found)


goes_by(type(next(itertools.groupby("a"))[1]), _groups, "group")
