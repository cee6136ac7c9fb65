"""Contexts of `decimal`: precision, rounding and traps of its arithmetic, and the flags that operations raise.

What a context says is guarded, but for its flags: those are guarded where the program reads them. Operations run while
capturing, in copies of the contexts that the program runs them in. Flags that they raise there, and what the program
assigns, residual code brings to the real contexts.
"""

from __future__ import annotations

import decimal
import types
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, NamedTuple

from framelift.guards.source import Source
from framelift.values.base import Raised, Value
from framelift.values.exceptions import ExceptionValue, raised_from

if TYPE_CHECKING:
    from framelift.capture.lift import Lift
    from framelift.residual.generator import Generator

IN_C = type(decimal.Decimal.__add__) is types.WrapperDescriptorType
"""Whether `decimal` is written in C, as it is wherever that could be built: else it is traced like any module."""

_SIGNALS: tuple[Any, ...] = tuple(decimal.Context().flags)
# How many numbers come first in the copy protocol, and where the traps are; the flags are in between.
_NUMBERS, _TRAPS = 6, 7


class Settings(NamedTuple):
    """What operations depend on, as constants: the attributes of a context, and the positions of its traps."""

    prec: int
    rounding: str
    Emin: int
    Emax: int
    capitals: int
    clamp: int
    traps: tuple[int, ...]

    def context(self) -> decimal.Context:
        """A context of that kind, without flags."""
        numbers = self._asdict() | {"traps": [_SIGNALS[trap] for trap in self.traps]}
        return decimal.Context(**numbers, flags=[])


class ContextValue(Value, models=decimal.Context if IN_C else ()):
    """A context. `flags` are those of which the program knows whether they are raised.

    Of the others it is `inherited` that says how they were at entry; without it they are not raised.
    """

    __slots__ = ("settings", "flags", "inherited", "_at_entry")

    def __init__(
        self,
        settings: Settings,
        flags: dict[int, bool] | None = None,
        inherited: Source | None = None,
        source: Source | None = None,
        concrete: Any = None,
    ) -> None:
        super().__init__(source, concrete)
        self.settings = settings
        self.flags = {} if flags is None else flags
        self.inherited = inherited
        self._at_entry = settings

    @classmethod
    def from_input(cls, obj: Any, source: Source) -> Value:
        return cls(settings_of(obj), {}, source, source, obj)

    def python_type(self) -> type:
        return decimal.Context

    def note_facts(self, lift: Lift) -> None:
        super().note_facts(lift)
        assert self.source is not None
        said = self.source.child("REDUCED").child("TUPLE_ITEM", 1)
        for position in range(_NUMBERS):
            lift.guard(said.child("TUPLE_ITEM", position), "EQUALS", self._at_entry[position])
        _guard_signals(lift, said.child("TUPLE_ITEM", _TRAPS), self._at_entry.traps)

    # -- change ------------------------------------------------------------------------------------------------------

    def raise_flags(self, lift: Lift, raised: list[int]) -> None:
        """Note flags that an operation raised."""
        if any(not self.flags.get(flag) for flag in raised):
            lift.journal.touch(self)
            self.flags = self.flags | dict.fromkeys(raised, True)

    def state(self) -> Any:
        return self.settings, self.flags, self.inherited

    def restore(self, state: Any) -> None:
        self.settings, self.flags, self.inherited = state

    def is_as_it_was(self, state: Any) -> bool:
        return bool(state == self.state())

    # -- the way back ------------------------------------------------------------------------------------------------

    def replay(self, generate: Generator) -> None:
        generate.builder.load_callable(_change)
        generate.source(self.source)
        generate.constant(None if self.settings == self._at_entry else tuple(self.settings))
        generate.constant(self.inherited is None)
        generate.constant(tuple(self.flags.items()))
        generate.call(4)
        generate.pop_top()


def settings_of(context: decimal.Context) -> Settings:
    """The settings of a context of that very class, which runs no code of the user's."""
    said: Any = context.__reduce__()[1]
    return Settings._make([*said[:_NUMBERS], tuple(map(_SIGNALS.index, said[_TRAPS]))])


def _guard_signals(lift: Lift, source: Source, signals: tuple[int, ...]) -> None:
    lift.guard(source, "LENGTH", len(signals))
    for position, signal in enumerate(signals):
        lift.guard(source.child("LIST_ITEM", position), "IS", _SIGNALS[signal])


def _change(
    context: decimal.Context, settings: tuple[Any, ...] | None, cleared: bool, flags: tuple[tuple[int, bool], ...]
) -> None:
    """Bring a context to what the program left it as."""
    if settings is not None:
        *numbers, traps = Settings(*settings)
        for name, value in zip(Settings._fields, numbers, strict=False):
            setattr(context, name, value)
        for position, signal in enumerate(_SIGNALS):
            context.traps[signal] = position in traps
    if cleared:
        context.clear_flags()
    for flag, is_raised in flags:
        context.flags[_SIGNALS[flag]] = is_raised


# -- the context of the thread ---------------------------------------------------------------------------------------


class _Thread:
    """Stands for what the calling thread knows of decimals."""


_THREAD = _Thread()


class ThreadValue(Value, models=_Thread):
    """Which context the thread computes in: its own, until the program sets another."""

    __slots__ = ("chosen",)

    def __init__(self, source: Source | None = None, concrete: Any = None) -> None:
        super().__init__(source, concrete)
        self.chosen: Value | None = None

    def context(self, lift: Lift) -> ContextValue:
        current: Any = self.chosen
        if current is None:
            source = lift.sources.known(decimal.getcontext).child("RESULT")
            current = lift.wrap(decimal.getcontext(), source)
        if not isinstance(current, ContextValue):
            current.refuse("arithmetic")  # a class of the user's
        current.note(lift)
        return current

    def state(self) -> Any:
        return self.chosen

    def restore(self, state: Any) -> None:
        self.chosen = state

    def replay(self, generate: Generator) -> None:
        generate.builder.load_callable(decimal.setcontext)
        generate.value(self.chosen)
        generate.call(1)
        generate.pop_top()


def current_context(lift: Lift) -> ContextValue:
    """The context in which the program computes now."""
    thread: ThreadValue = lift.known_object(_THREAD)
    return thread.context(lift)


def run_in_contexts(lift: Lift, function: Callable[..., Any], args: list[Any], kwargs: dict[str, Any]) -> Any:
    """Call a function of `decimal` on plain arguments, and on contexts."""
    current, failure, result = current_context(lift), None, None
    with decimal.localcontext(current.settings.context()) as active:
        copies = {id(current): (current, active)}

        def plain(arg: Any) -> Any:
            if not isinstance(arg, ContextValue):
                return arg
            arg.note(lift)
            if id(arg) not in copies:
                copies[id(arg)] = arg, arg.settings.context()
            return copies[id(arg)][1]

        given, named = [plain(arg) for arg in args], {name: plain(arg) for name, arg in kwargs.items()}
        try:
            result = function(*given, **named)
        except Exception as error:  # noqa: BLE001  (whatever it raises, the program raises)
            failure = _raised(lift, error)
    for context, copy in copies.values():
        context.raise_flags(lift, [flag for flag, signal in enumerate(_SIGNALS) if copy.flags[signal]])
    if failure is not None:
        raise failure
    return result


def _raised(lift: Lift, error: Exception) -> Raised:
    if not isinstance(error, decimal.DecimalException):
        return raised_from(error)
    return Raised(ExceptionValue(type(error), tuple([lift.from_constant(arg) for arg in error.args])))
