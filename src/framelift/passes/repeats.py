"""The stretch of a sequence that is worth most to write down once: where it stands, how long it is.

Suffixes are sorted, so equal stretches are neighbours; the lengths of their common prefixes say how long each is. What
a stretch is worth grows with its length and with the number of copies that do not overlap.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
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


def best_repeat(tokens: Sequence[int], shortest: int, price: int) -> Repeat | None:
    """The repeat that saves most, if any saves something; of equals the one that starts first.

    >>> best_repeat([7, 1, 2, 3, 1, 2, 3, 9], shortest=2, price=1)
    Repeat(starts=(1, 4), length=3)
    """
    best: Repeat | None = None
    order = _suffixes(tokens)
    for length, low, high in _intervals(_common_prefixes(tokens, order)):
        if length < shortest or (high - low) * length <= (best.worth(price) if best is not None else 0):
            continue
        positions = sorted(order[low : high + 1])
        # Copies that overlap are copies of something shorter that follow one another.
        gaps = {after - before for before, after in pairwise(positions)}
        for size in {length, *(gap for gap in gaps if shortest <= gap < length)}:
            found = Repeat(_apart(positions, size), size)
            if len(found.starts) > 1 and found.worth(price) > 0 and _is_better(found, best, price):
                best = found
    return best


def _is_better(one: Repeat, other: Repeat | None, price: int) -> bool:
    if other is None:
        return True
    return (one.worth(price), -one.starts[0]) > (other.worth(price), -other.starts[0])


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
