"""What becomes symbolic: a size or number that was seen with a second value, or that somebody asked for.

A `History` remembers, for one function, the values its entries were captured with. A `Policy` answers for one capture:
it compares what it is asked about with the history, and notes what it found.

    >>> history = History()
    >>> Policy(history).dimensions("L['x']", (3, 4)), Policy(history).dimensions("L['x']", (5, 4))
    ({}, {0: Dimension(lower=None, upper=None, alike=False)})
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from typing import Any

from framelift.shapes.symbols import Dimension

Number = int | float


@dataclass(slots=True)
class History:
    """Values seen, by the name of their source, and which of them changed."""

    sizes: dict[str, tuple[int, ...]] = field(default_factory=dict)
    numbers: dict[str, Number] = field(default_factory=dict)
    dynamic_sizes: dict[str, set[int]] = field(default_factory=dict)
    dynamic_numbers: set[str] = field(default_factory=set)


@dataclass(frozen=True, slots=True)
class Change:
    """Something that became symbolic: its name, the value before, and now."""

    name: str
    before: Number
    now: Number

    def __str__(self) -> str:
        return f"{self.name} {self.before} → {self.now}"


class Policy:
    """What is symbolic in one capture. `dynamic`: None (what changed), False (nothing), True (all it can be).

    `floats` says whether floats can be symbolic: not every compiler takes them.
    """

    def __init__(self, history: History, dynamic: bool | None = None, floats: bool = True) -> None:
        self._history = history
        self._dynamic = dynamic
        self._floats = floats
        # Sources that must have plain numbers in this capture.
        self._plain: set[str] = set()
        self._numbers: dict[str, Number] = {}
        self.changes: dict[str, Change] = {}

    @property
    def reconsidered(self) -> bool:
        """Whether the capture was started again because of it."""
        return bool(self._plain)

    def insist_on_numbers(self, names: tuple[str, ...]) -> None:
        """Never give these symbols in this capture."""
        self._plain.update(names)

    # -- tensors -------------------------------------------------------------------------------------------------

    def dimensions(self, name: str, sizes: tuple[int, ...]) -> dict[int, Dimension]:
        """The symbolic dimensions of the tensor at a source."""
        history = self._history
        before = history.sizes.get(name)
        history.sizes[name] = sizes
        if before is not None and len(before) == len(sizes):
            for dim, (old, new) in enumerate(zip(before, sizes, strict=True)):
                if old != new:
                    history.dynamic_sizes.setdefault(name, set()).add(dim)
                    self._note(f"{name}.size()[{dim}]", old, new)
        if self._dynamic is False or name in self._plain:
            return {}
        if self._dynamic:
            return dict.fromkeys(range(len(sizes)), Dimension(alike=True))
        found = history.dynamic_sizes.get(name, ())
        return {dim: Dimension() for dim in sorted(found) if dim < len(sizes)}

    # -- numbers -------------------------------------------------------------------------------------------------

    @property
    def considers_numbers(self) -> bool:
        """Whether any number can be symbolic: at first none has changed yet."""
        return self._dynamic is not False and bool(self._history.numbers)

    def is_symbolic(self, name: str, number: Number) -> bool:
        """Whether the number at a source is symbolic in this capture."""
        history = self._history
        before = history.numbers.get(name)
        if before is None or not _is_ordinary(number) or name in self._plain:
            return False
        if type(number) is float and not self._floats:
            return False
        if type(before) is type(number) and before != number and _is_ordinary(before):
            history.dynamic_numbers.add(name)
            self._note(name, before, number)
        return name in history.dynamic_numbers

    def saw_number(self, name: str, number: Number) -> None:
        """An entry was captured for this very number."""
        self._history.numbers[name] = number

    def _note(self, name: str, before: Number, now: Number) -> None:
        self.changes[name] = Change(name, before, now)


def _is_ordinary(number: Any) -> bool:
    """Numbers torch's symbols can be: not the infinities and nan, nor what needs more than 64 bits."""
    return math.isfinite(number) if type(number) is float else type(number) is int and -(2**63) <= number < 2**63
