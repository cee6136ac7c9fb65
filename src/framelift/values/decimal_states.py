"""The state of a context of `decimal` as constants: read from a real context, and brought to a real one."""

from __future__ import annotations

import decimal
import types
from typing import Any, NamedTuple

IN_C = type(decimal.Decimal.__add__) is types.WrapperDescriptorType
"""Whether `decimal` is written in C, as it is wherever that could be built: else it is traced like any module."""

SIGNALS: tuple[Any, ...] = tuple(decimal.Context().flags)
# How many numbers come first in the copy protocol, and where flags and traps are.
NUMBERS, FLAGS, TRAPS = 6, 6, 7
_INVALID = SIGNALS.index(decimal.InvalidOperation)

# What happens to a flag: it is lowered, or raised in one of these ways. InvalidOperation stands for several conditions
# that a context tells apart, if only by where its text shows the flag: first what is assigned or a wrong text, then an
# undefined division, then the rest.
LOWERED, ASSIGNED, DIVISION, OPERATION = range(4)
Marks = tuple[int, ...]


class Settings(NamedTuple):
    """What operations depend on: the attributes of a context, and the positions of its traps."""

    prec: int
    rounding: str
    Emin: int
    Emax: int
    capitals: int
    clamp: int
    traps: tuple[int, ...]

    def context(self) -> decimal.Context:
        """A context of that kind, without flags."""
        numbers = self._asdict() | {"traps": [SIGNALS[trap] for trap in self.traps]}
        return decimal.Context(**numbers, flags=[])


def settings_of(context: decimal.Context) -> Settings:
    """The settings of a context of that very class, which runs no code of the user's."""
    said: Any = context.__reduce__()[1]
    return Settings._make([*said[:NUMBERS], tuple(map(SIGNALS.index, said[TRAPS]))])


def flags_of(context: decimal.Context) -> tuple[tuple[int, int], ...]:
    """The flags that are raised, and in which way."""
    said: Any = context.__reduce__()[1]
    raised = map(SIGNALS.index, said[FLAGS])
    return tuple([(flag, _way_of_invalid(context) if flag == _INVALID else ASSIGNED) for flag in raised])


def _way_of_invalid(context: decimal.Context) -> int:
    copy = context.copy()
    copy.flags[decimal.DivisionByZero] = copy.flags[decimal.Inexact] = True
    _, _, shown = repr(copy).partition("flags=")
    before = [shown.index(signal.__name__) for signal in (decimal.DivisionByZero, decimal.Inexact)]
    return ASSIGNED + sum(place < shown.index(decimal.InvalidOperation.__name__) for place in before)


def mark_raised(marks: Marks, way: int) -> Marks:
    """What has happened to a flag once it is raised in this way, too."""
    if marks and LOWERED < marks[-1] <= way:
        return marks
    return (LOWERED, way) if marks[:1] == (LOWERED,) else (way,)


def change(
    context: decimal.Context,
    settings: tuple[Any, ...] | None,
    raised: tuple[tuple[int, int], ...] | None,
    flags: tuple[tuple[int, Marks], ...],
) -> decimal.Context:
    """Bring a context to a state: settings and the flags besides `flags` may stay; they are settled in that order."""
    if settings is not None:
        *numbers, traps = settings
        for name, value in zip(Settings._fields, numbers, strict=False):
            setattr(context, name, value)
        for position, signal in enumerate(SIGNALS):
            context.traps[signal] = position in traps
    if raised is not None:
        context.clear_flags()
        for flag, way in raised:
            _mark(context, flag, way)
    for flag, marks in flags:
        for mark in marks:
            _mark(context, flag, mark)
    return context


def _mark(context: decimal.Context, flag: int, mark: int) -> None:
    if mark <= ASSIGNED:
        context.flags[SIGNALS[flag]] = bool(mark)
        return
    trapped = context.traps[decimal.InvalidOperation]
    context.traps[decimal.InvalidOperation] = False
    if mark == DIVISION:
        context.divide(0, 0)
    else:
        context.sqrt(-1)
    context.traps[decimal.InvalidOperation] = trapped
