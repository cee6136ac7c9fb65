"""The stretch of a sequence that is worth most to write down once: where it stands, how long it is.

Suffixes are sorted, so equal stretches are neighbours; the lengths of their common prefixes say how long each is. What
a stretch is worth grows with its length and with the number of copies that do not overlap.
"""

from __future__ import annotations

import heapq
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise


@dataclass(frozen=True, slots=True)
class Repeat:
    """Copies of one stretch: their first positions, in order, and the length of each."""

    starts: tuple[int, ...]
    length: int

    def worth(self, price: int) -> int:
        """How many items are saved if each copy costs `price` items."""
        return (len(self.starts) - 1) * self.length - price * len(self.starts)


def best_repeat(
    tokens: Sequence[int], shortest: int, price: int, measures: Sequence[Callable[[Repeat], int | None]] = ()
) -> Repeat | None:
    """The repeat that saves most; of equals the one that starts first.

    What a repeat saves is at most its worth, if each copy costs `price`. The `measures` tell it better and better, none
    more than the one before; None is a repeat that cannot be. Each is asked only where its answer may decide.

    >>> best_repeat([7, 1, 2, 3, 1, 2, 3, 9], shortest=2, price=1)
    Repeat(starts=(1, 4), length=3)
    """
    queue = [(-each.worth(price), each.starts, each.length, 0) for each in _candidates(tokens, shortest, price)]
    heapq.heapify(queue)
    while queue:
        _, starts, length, asked = heapq.heappop(queue)
        repeat = Repeat(starts, length)
        if asked == len(measures):
            return repeat
        saved = measures[asked](repeat)
        if saved is not None:
            heapq.heappush(queue, (-saved, starts, length, asked + 1))
    return None


def _candidates(tokens: Sequence[int], shortest: int, price: int) -> set[Repeat]:
    """Repeats that could save something: the longest stretches, and what these consist of."""
    found: set[Repeat] = set()
    order = _suffixes(tokens)
    for length, low, high in _intervals(_common_prefixes(tokens, order)):
        if length < shortest:
            continue
        positions = sorted(order[low : high + 1])
        sizes = {length}
        # Copies that overlap are copies of something shorter that follow one another: of that, and of as many as fit.
        for gap in {after - before for before, after in pairwise(positions)}:
            if gap < length:
                sizes |= {gap, length - length % gap}
        repeats = (Repeat(_apart(positions, size), size) for size in sizes if size >= shortest)
        found.update(repeat for repeat in repeats if len(repeat.starts) > 1 and repeat.worth(price) > 0)
    return found


def _apart(positions: list[int], size: int) -> tuple[int, ...]:
    """The positions, without those of copies that overlap an earlier one."""
    found: list[int] = []
    for position in positions:
        if not found or position >= found[-1] + size:
            found.append(position)
    return tuple(found)


def _suffixes(tokens: Sequence[int]) -> list[int]:
    """The starts of all suffixes, sorted by what follows: by twice as many items in every round."""
    count = len(tokens)
    rank = list(tokens)
    order = sorted(range(count), key=rank.__getitem__)
    step = 1
    while step < count:
        keys = [(rank[i], rank[i + step] if i + step < count else -1) for i in range(count)]
        order.sort(key=keys.__getitem__)
        rank = [0] * count
        for before, after in pairwise(order):
            rank[after] = rank[before] + (keys[before] != keys[after])
        if count and rank[order[-1]] == count - 1:
            break
        step *= 2
    return order


def _common_prefixes(tokens: Sequence[int], order: list[int]) -> list[int]:
    """How many items each suffix shares with the one sorted before it."""
    count = len(tokens)
    place = [0] * count
    for index, start in enumerate(order):
        place[start] = index
    shared = [0] * count
    length = 0
    for start in range(count):
        if place[start] == 0:
            length = 0
            continue
        before = order[place[start] - 1]
        while start + length < count and before + length < count and tokens[start + length] == tokens[before + length]:
            length += 1
        shared[place[start]] = length
        length = max(length - 1, 0)
    return shared


def _intervals(shared: list[int]) -> Iterator[tuple[int, int, int]]:
    """Every maximal group of neighbours with a common prefix: (its length, first, last)."""
    open_groups: list[tuple[int, int]] = []  # (length, first)
    for index, length in enumerate([*shared[1:], 0], 1):
        first = index - 1
        while open_groups and open_groups[-1][0] > length:
            longer, first = open_groups.pop()
            yield longer, first, index - 1
        if length and (not open_groups or open_groups[-1][0] < length):
            open_groups.append((length, first))
