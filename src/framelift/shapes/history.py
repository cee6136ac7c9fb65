"""What becomes symbolic: a size, stride or number that was seen with a second value, or that somebody asked for.

A `History` remembers, for one function, the values its entries were captured with. A `Policy` answers for one capture:
it compares what it is asked about with the history and with what the user said, and notes what it found.

    >>> history = History()
    >>> Policy(history).dimensions("L['x']", (3, 4)), Policy(history).dimensions("L['x']", (5, 4))
    ({}, {0: Dimension(lower=None, upper=None, alike=False, unbacked=False, hint=None)})
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

from framelift.errors import DynamicError
from framelift.shapes.check_history import Lessons
from framelift.shapes.marks import Mark
from framelift.shapes.symbols import Dimension

Number = int | float
# What a user says of a source: a number is symbolic or not; a tensor is, or some of its dimensions are.
Wish = bool | Mapping[int, Mark]

# What has had so many values will have others.
_MOST_TEXTS = 8
# What the program decides by the numbers in a tensor so often, it will decide otherwise again.
_MOST_DECIDED = 8
# A number that is an argument itself.
_ARGUMENT = re.compile(r"L\['\w+'\](\[\d+\]|\['\w+'\])?")


@dataclass(slots=True)
class History:
    """Values seen, by the name of their source, and which of them changed."""

    sizes: dict[str, tuple[int, ...]] = field(default_factory=dict)
    strides: dict[str, tuple[int, ...]] = field(default_factory=dict)
    numbers: dict[str, Number] = field(default_factory=dict)
    dynamic_sizes: dict[str, set[int]] = field(default_factory=dict)
    dynamic_strides: dict[str, set[int]] = field(default_factory=dict)
    dynamic_numbers: set[str] = field(default_factory=set)
    # Numbers in tensors that were equal: the first of them. Those that were not always equal to it.
    together: dict[str, str] = field(default_factory=dict)
    apart: set[str] = field(default_factory=set)
    # What entries assumed of a number in a tensor.
    decided: dict[str, set[str]] = field(default_factory=dict)
    # Texts of what is known by its text only.
    texts: dict[str, set[str]] = field(default_factory=dict)
    # Numbers, and tensors with sizes, the backend would not take as symbols.
    refused_numbers: set[str] = field(default_factory=set)
    # What is known about sizes and numbers that depend on data.
    lessons: Lessons = field(default_factory=Lessons)


@dataclass(frozen=True, slots=True)
class Change:
    """Something that became symbolic: its name, the value before, and now."""

    name: str
    before: Number
    now: Number

    def __str__(self) -> str:
        return f"{self.name} was {self.before}, now {self.now}"


class Policy:
    """What is symbolic in one capture.

    `dynamic` is None (what changed), False (nothing) or True (all sizes, and ints among the arguments); `wishes` says
    more about single sources.
    """

    def __init__(
        self,
        history: History,
        dynamic: bool | None = None,
        wishes: Mapping[str, Wish] | None = None,
    ) -> None:
        self._history = history
        self._dynamic = dynamic
        self._wishes = wishes or {}
        # Sources that must have plain numbers in this capture.
        self._plain: set[str] = set()
        self.changes: dict[str, Change] = {}
        # Sizes the user said are never to be specialised.
        self.never_specialised: set[str] = set()

    @property
    def reconsidered(self) -> bool:
        """Whether the capture was started again because of it."""
        return bool(self._plain)

    def insist_on_numbers(self, names: tuple[str, ...]) -> None:
        """Never give these symbols in this capture."""
        self._plain.update(names)

    def insists_on(self, names: tuple[str, ...]) -> bool:
        return self._plain.issuperset(names)

    # -- tensors -------------------------------------------------------------------------------------------------

    def dimensions(
        self, name: str, sizes: tuple[int, ...], marks: Mapping[int, Mark] | None = None
    ) -> dict[int, Dimension]:
        """The symbolic dimensions of the tensor at a source; `marks` are those on the tensor, which must be true."""
        for dim, mark in (marks or {}).items():
            if 0 <= dim < len(sizes) and not mark.allows(sizes[dim]):
                raise DynamicError(f"{name}.size()[{dim}] was marked {mark}, but it is {sizes[dim]}")
        self._compare(name, "size", sizes, self._history.sizes, self._history.dynamic_sizes)
        wish = self._wishes.get(name)
        refused = name in self._plain or name in self._history.refused_numbers
        if refused or wish is False or (self._dynamic is False and not (marks or wish)):
            return {}
        said = dict(marks or {})
        if isinstance(wish, Mapping):  # -1 is the last dimension
            said.update((dim + len(sizes) if dim < 0 else dim, mark) for dim, mark in wish.items())
        found: dict[int, Dimension] = {}
        for dim in range(len(sizes)):
            dimension = self._dimension(name, dim, said.get(dim), wish is True)
            if dimension is not None:
                found[dim] = dimension
        return found

    def _dimension(self, name: str, dim: int, mark: Mark | None, wished: bool) -> Dimension | None:
        if mark is not None:
            if mark.kind == "static":
                return None
            if mark.strict:
                self.never_specialised.add(f"{name}.size()[{dim}]")
            return Dimension(mark.lower, mark.upper, unbacked=mark.kind == "unbacked", hint=mark.hint)
        if wished or self._dynamic:
            return Dimension(alike=True)
        changed = self._dynamic is None and dim in self._history.dynamic_sizes.get(name, ())
        return Dimension() if changed else None

    def free_strides(self, name: str, strides: tuple[int, ...]) -> frozenset[int]:
        """The dimensions of the tensor at a source whose strides may be symbols, where sizes do not say what they are.

        Marks are about sizes: strides are free where they changed, or where everything is symbolic.
        """
        self._compare(name, "stride", strides, self._history.strides, self._history.dynamic_strides)
        wish = self._wishes.get(name)
        if name in self._plain or wish is False:
            return frozenset()
        if wish is True or self._dynamic:
            return frozenset(range(len(strides)))
        return frozenset() if self._dynamic is False else frozenset(self._history.dynamic_strides.get(name, ()))

    def _compare(
        self,
        name: str,
        what: str,
        now: tuple[int, ...],
        seen: dict[str, tuple[int, ...]],
        dynamic: dict[str, set[int]],
    ) -> None:
        before = seen.get(name)
        seen[name] = now
        if before is None or len(before) != len(now):
            return
        for dim, (old, new) in enumerate(zip(before, now, strict=True)):
            if old != new:
                dynamic.setdefault(name, set()).add(dim)
                self._note(f"{name}.{what}()[{dim}]", old, new)

    # -- numbers -------------------------------------------------------------------------------------------------

    @property
    def considers_numbers(self) -> bool:
        """Whether any number can be symbolic: at first none has changed yet."""
        if self._dynamic is False and not self._wishes:
            return False
        return bool(self._dynamic or self._wishes or self._history.numbers)

    def can_be_symbolic(self, name: str, number: Number) -> bool:
        """Whether nothing forbids that the number is symbolic."""
        return is_ordinary(number) and name not in self._plain and name not in self._history.refused_numbers

    def is_symbolic(self, name: str, number: Number) -> bool:
        """Whether the number at a source is symbolic in this capture. Facts about symbols do not tell 0.0 from -0.0."""
        if not self.can_be_symbolic(name, number) or (type(number) is float and number == 0):
            return False
        wish = self._wishes.get(name)
        if isinstance(wish, bool):
            return wish
        if self._dynamic and type(number) is int and _ARGUMENT.fullmatch(name):
            return True
        return self._dynamic is not False and self._has_changed(name, number)

    def _has_changed(self, name: str, number: Number) -> bool:
        history = self._history
        before = history.numbers.get(name)
        if before is not None and type(before) is type(number) and before != number and is_ordinary(before):
            history.dynamic_numbers.add(name)
            self._note(name, before, number)
        return name in history.dynamic_numbers

    def saw_number(self, name: str, number: Number) -> None:
        """An entry was captured for this very number."""
        self._history.numbers[name] = number

    def go_together(self, name: str, first: str) -> bool:
        """Whether a number in a tensor is presumed to stay equal to one that it is equal to now."""
        history = self._history
        if history.together.setdefault(name, first) != first:
            history.apart.add(name)
        return name not in history.apart

    def saw_decided(self, facts: Iterable[tuple[str, str]]) -> None:
        """An entry was captured that assumes these facts of numbers in tensors."""
        for name, fact in facts:
            seen = self._history.decided.setdefault(name, set())
            seen.add(fact)
            if len(seen) > _MOST_DECIDED:
                self._history.refused_numbers.add(name)

    def is_steady(self, name: str, text: str) -> bool:
        """Whether what a source holds, and is known by its text only, is worth an entry of its own."""
        seen = self._history.texts.setdefault(name, set())
        if len(seen) < _MOST_TEXTS:
            seen.add(text)
        return text in seen

    def _note(self, name: str, before: Number, now: Number) -> None:
        self.changes[name] = Change(name, before, now)


def is_ordinary(number: Any) -> bool:
    """Numbers torch's symbols can be: not the infinities and nan, nor what needs more than 64 bits."""
    return math.isfinite(number) if type(number) is float else type(number) is int and -(2**63) <= number < 2**63
