"""The state of a context of `decimal` as constants: read from a real context, and brought to a real one."""

from __future__ import annotations

import decimal
import types
from collections.abc import Callable
from decimal import Context
from typing import Any, NamedTuple

IN_C = type(decimal.Decimal.__add__) is types.WrapperDescriptorType
"""Whether `decimal` is written in C, as it is wherever that could be built: else it is traced like any module."""

_SAMPLE = Context()  # flags and traps do not keep their context alive
SIGNALS: tuple[Any, ...] = tuple(_SAMPLE.flags)
# How many numbers come first in the copy protocol, and where flags and traps are.
NUMBERS, FLAGS, TRAPS = 6, 6, 7
INVALID = SIGNALS.index(decimal.InvalidOperation)

# InvalidOperation stands for several conditions, which contexts tell apart in their texts and where flags are compared.
# Nothing but an operation raises a single one.
_CONDITIONS: tuple[Callable[[Context], Any], ...] = (
    lambda context: context.create_decimal("no number"),
    lambda context: context.divide_int(decimal.Decimal((0, (1,), context.prec + 1)), 1),
    lambda context: context.divide(0, 0),
    lambda context: context.sqrt(-1),
)
# What happens to a flag: it is lowered, or raised by an assignment, which means all conditions, or by some of them.
LOWERED, ASSIGNED = 0, 1 << len(_CONDITIONS)
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

    def context(self) -> Context:
        """A context of that kind, without flags."""
        numbers = self._asdict() | {"traps": [SIGNALS[trap] for trap in self.traps]}
        return Context(**numbers, flags=[])


def settings_of(context: Context) -> Settings:
    """The settings of a context of that very class, which runs no code of the user's."""
    said: Any = context.__reduce__()[1]
    return Settings._make([*said[:NUMBERS], tuple(map(SIGNALS.index, said[TRAPS]))])


def flags_of(context: Context) -> tuple[tuple[int, int], ...]:
    """The flags that are raised, and by what."""
    said: Any = context.__reduce__()[1]
    raised = map(SIGNALS.index, said[FLAGS])
    return tuple([(flag, _conditions_of(context) if flag == INVALID else ASSIGNED) for flag in raised])


def _conditions_of(context: Context) -> int:
    copy = context.copy()
    for signal in SIGNALS[:INVALID] + SIGNALS[INVALID + 1 :]:
        copy.flags[signal] = False
    for conditions in range(1, ASSIGNED):
        other = Context(traps=[], flags=[])
        _mark(other, INVALID, conditions)
        if copy.flags == other.flags:
            return conditions
    return ASSIGNED


def mark_raised(marks: Marks, by: int) -> Marks:
    """What has happened to a flag once it is raised by this, too."""
    raised = marks[-1] if marks else LOWERED
    if raised & ASSIGNED or raised & by == by:
        return marks
    return (LOWERED, raised | by) if marks[:1] == (LOWERED,) else (raised | by,)


def change(
    context: Context,
    settings: tuple[Any, ...] | None,
    raised: tuple[tuple[int, int], ...] | None,
    flags: tuple[tuple[int, Marks], ...],
) -> Context:
    """Bring a context to a state: settings and the flags besides `flags` may stay; they are settled in that order."""
    if settings is not None:
        *numbers, traps = settings
        for name, value in zip(Settings._fields, numbers, strict=False):
            setattr(context, name, value)
        for position, signal in enumerate(SIGNALS):
            context.traps[signal] = position in traps
    if raised is not None:
        context.clear_flags()
        for flag, by in raised:
            _mark(context, flag, by)
    for flag, marks in flags:
        for mark in marks:
            _mark(context, flag, mark)
    return context


def _mark(context: Context, flag: int, mark: int) -> None:
    if mark == LOWERED or mark & ASSIGNED:
        context.flags[SIGNALS[flag]] = mark != LOWERED
        return
    trapped = context.traps[decimal.InvalidOperation]
    context.traps[decimal.InvalidOperation] = False
    for position, raises in enumerate(_CONDITIONS):
        if mark >> position & 1:
            raises(context)
    context.traps[decimal.InvalidOperation] = trapped
