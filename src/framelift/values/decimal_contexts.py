"""Contexts of `decimal`: precision, rounding and traps of its arithmetic, and the flags that operations raise.

What a context says is guarded, but for its flags: those are guarded where the program reads them. What the program
assigns, and the flags that its operations raise, residual code brings to the real contexts.
"""

from __future__ import annotations

import decimal
import operator
import types
from typing import TYPE_CHECKING, Any, NamedTuple

from framelift.breaks import FL0102, GraphBreak
from framelift.guards.source import Source
from framelift.values import protocol as py
from framelift.values.base import Value
from framelift.values.classes import ClassValue
from framelift.values.lookup import bind, class_lookup, raw_lookup
from framelift.values.methods import method, method_of

if TYPE_CHECKING:
    from framelift.capture.lift import Lift
    from framelift.residual.generator import Generator

IN_C = type(decimal.Decimal.__add__) is types.WrapperDescriptorType
"""Whether `decimal` is written in C, as it is wherever that could be built: else it is traced like any module."""

_SIGNALS: tuple[Any, ...] = tuple(decimal.Context().flags)
# How many numbers come first in the copy protocol, and where flags and traps are.
_NUMBERS, _FLAGS, _TRAPS = 6, 6, 7
_SignalDict = type(decimal.Context().flags)


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


class Inherited(NamedTuple):
    """The context that says how flags were at entry; `raised` are they, for what residual code makes."""

    context: Source
    concrete: decimal.Context
    raised: Source | None = None


class FlagsAtEntry(NamedTuple):
    """How residual code learns which flags of a context are raised before anything is changed."""

    context: Source

    def generate(self, generate: Generator) -> None:
        generate.builder.load_callable(flags_of)
        generate.source(self.context)
        generate.call(1)


class ContextValue(Value, models=decimal.Context if IN_C else ()):
    """A context. `flags` are those of which the program knows whether they are raised.

    Of the others it is `inherited` that says how they are; without it they are not raised. A context that
    `decimal.localcontext` made is made again by `maker`.
    """

    __slots__ = ("settings", "flags", "inherited", "maker", "_at_entry", "_views")

    def __init__(
        self,
        settings: Settings,
        flags: dict[int, bool] | None = None,
        inherited: Inherited | None = None,
        source: Source | None = None,
        concrete: Any = None,
    ) -> None:
        super().__init__(source, concrete)
        self.settings = settings
        self.flags = {} if flags is None else flags
        self.inherited = inherited
        self.maker: Value | None = None
        self._at_entry = settings
        self._views: dict[str, SignalsValue] = {}

    @classmethod
    def from_input(cls, obj: Any, source: Source) -> Value:
        return cls(settings_of(obj), {}, Inherited(source, obj), source, obj)

    def python_type(self) -> type:
        return decimal.Context

    def note_facts(self, lift: Lift) -> None:
        super().note_facts(lift)
        assert self.source is not None
        said = self.source.child("REDUCED").child("TUPLE_ITEM", 1)
        for position in range(_NUMBERS):
            lift.guard(said.child("TUPLE_ITEM", position), "EQUALS", self._at_entry[position])
        _guard_signals(lift, said.child("TUPLE_ITEM", _TRAPS), self._at_entry.traps)

    # -- what the program asks and changes ---------------------------------------------------------------------------

    def attribute(self, lift: Lift, name: str) -> Any:
        if name in ("flags", "traps"):
            if name not in self._views:
                self._views[name] = SignalsValue(self, name)
            return self._views[name]
        if name in Settings._fields:
            return getattr(self.settings, name)
        found = raw_lookup(decimal.Context, name)
        model = lift.model_of(found)
        if model is None:
            return method_of(self, lift, name)
        return lift.builtin_method(self, name, lambda *args, **kwargs: model(lift, [self, *args], kwargs))

    def set_attribute(self, lift: Lift, name: str, value: Any) -> None:
        if name in ("flags", "traps"):
            self.refuse(f"assignment of attribute {name!r}")
        changed = self.settings.context()
        py.fold(lift, setattr, changed, name, lift.constant(value))
        self.change(lift, settings_of(changed))

    def change(self, lift: Lift, settings: Settings) -> None:
        lift.journal.touch(self)
        self.settings = settings

    def raised(self, lift: Lift) -> list[int]:
        """The flags that are raised, guarded."""
        before: tuple[int, ...] = ()
        if self.inherited is not None and len(self.flags) < len(_SIGNALS):
            before = flags_of(self.inherited.concrete)
            said = self.inherited.context.child("REDUCED").child("TUPLE_ITEM", 1)
            _guard_signals(lift, said.child("TUPLE_ITEM", _FLAGS), before)
        return [flag for flag in range(len(_SIGNALS)) if self.flags.get(flag, flag in before)]

    def set_flags(self, lift: Lift, flags: dict[int, bool]) -> None:
        """Note flags that an operation raised, or that the program sets."""
        if any(self.flags.get(flag) is not is_raised for flag, is_raised in flags.items()):
            lift.journal.touch(self)
            self.flags = self.flags | flags

    @method
    def clear_flags(self, lift: Lift) -> None:
        lift.journal.touch(self)
        self.flags, self.inherited = {}, None

    @method
    def clear_traps(self, lift: Lift) -> None:
        self.change(lift, self.settings._replace(traps=()))

    @method
    def copy(self, lift: Lift) -> ContextValue:
        inherited = self.inherited
        if inherited is not None and inherited.raised is None:
            inherited = inherited._replace(raised=lift.sources.new(FlagsAtEntry(inherited.context)))
        return ContextValue(self.settings, self.flags, inherited)

    @method
    def __copy__(self, lift: Lift) -> ContextValue:  # noqa: PLE0302  (a model)
        return self.copy(lift)

    def text(self, lift: Lift, conversion: str) -> str:
        context = self.settings.context()
        _change(context, None, tuple(self.raised(lift)), ())
        return repr(context)

    # -- the journal, the way back -----------------------------------------------------------------------------------

    def state(self) -> Any:
        return self.settings, self.flags, self.inherited

    def restore(self, state: Any) -> None:
        self.settings, self.flags, self.inherited = state

    def is_as_it_was(self, state: Any) -> bool:
        return bool(state == self.state())

    def replay(self, generate: Generator) -> None:
        generate.builder.load_callable(_change)
        generate.source(self.source)
        self._generate_change(generate)
        generate.call(4)
        generate.pop_top()

    def _generate_change(self, generate: Generator) -> None:
        """Leave what `_change` does to a context on the stack."""
        generate.constant(None if self.source is not None and self.settings == self._at_entry else tuple(self.settings))
        if self.inherited is None:
            generate.constant(())
        elif self.inherited.raised is None:
            generate.constant(None)
        else:
            generate.source(self.inherited.raised)
        generate.constant(tuple(self.flags.items()))

    def parts(self) -> list[Any]:
        return [] if self.maker is None else [self.maker]

    def rebuild(self, generate: Generator) -> None:
        if self.maker is not None:
            generate.value(self.maker)
            generate.pop_top()
            generate.load_remembered(self)
            return
        generate.builder.load_callable(_change)
        generate.callable(decimal.Context)
        generate.call(0)
        self._generate_change(generate)
        generate.call(4)

    def rebuild_made(self, generate: Generator) -> None:
        """The same for the context on top of the stack, which its maker made."""
        generate.remember(self)
        generate.pop_top()
        generate.builder.load_callable(_change)
        generate.load_remembered(self)
        self._generate_change(generate)
        generate.call(4)
        generate.pop_top()


class SignalsValue(Value):
    """`context.flags` or `context.traps`: which signals are raised, or raise."""

    __slots__ = ("context", "name")
    answers_operators = False

    def __init__(self, context: ContextValue, name: str) -> None:
        super().__init__()
        self.context = context
        self.name = name

    def python_type(self) -> type:
        return _SignalDict

    def attribute(self, lift: Lift, name: str) -> Any:
        found = class_lookup(lift, _SignalDict, name)
        if found is not None and type(found.raw) is types.FunctionType:
            return bind(lift, found, self, _SignalDict)
        return method_of(self, lift, name)

    def length(self, lift: Lift) -> Any:
        return len(_SIGNALS)

    def iterate(self, lift: Lift) -> Any:
        return py.iterate(lift, lift.tuple([lift.known_object(signal) for signal in _SIGNALS]))

    def item(self, lift: Lift, key: Any) -> Any:
        signal = _position(lift, key)
        if self.name == "traps":
            return signal in self.context.settings.traps
        told = self.context.flags.get(signal)
        return signal in self.context.raised(lift) if told is None else told

    def set_item(self, lift: Lift, key: Any, value: Any) -> None:
        signal, is_set = _position(lift, key), py.truth(lift, value)
        if self.name == "flags":
            self.context.set_flags(lift, {signal: is_set})
            return
        settings = self.context.settings
        traps = set(settings.traps) | {signal} if is_set else set(settings.traps) - {signal}
        self.context.change(lift, settings._replace(traps=tuple(sorted(traps))))

    def contains(self, lift: Lift, item: Any) -> Any:
        self.refuse("'in'")

    def compare(self, lift: Lift, operator: str, other: Any) -> Any:
        self.refuse(f"comparison {operator}")

    def is_same(self, lift: Lift, other: Value) -> bool:
        if not isinstance(other, SignalsValue):
            self.refuse("'is'")
        return False

    def key(self, lift: Lift) -> Any:
        self.refuse("use as a key")

    def parts(self) -> list[Any]:
        return [self.context]

    def rebuild(self, generate: Generator) -> None:
        generate.value(self.context)
        generate.load_attribute(self.name)


def known_class(lift: Lift, value: Any) -> Any:
    """The class a value is."""
    if not isinstance(value, ClassValue):
        raise GraphBreak(FL0102, what=f"a signal that is a {py.describe(value)}")
    value.note(lift)
    return value.concrete


def _position(lift: Lift, key: Any) -> int:
    """Which signal a key is; any other raises."""
    plain = known_class(lift, key) if isinstance(key, ClassValue) else lift.constant(key)
    py.fold(lift, operator.getitem, decimal.Context().flags, plain)
    return next(position for position, signal in enumerate(_SIGNALS) if signal is plain)


def settings_of(context: decimal.Context) -> Settings:
    """The settings of a context of that very class, which runs no code of the user's."""
    said: Any = context.__reduce__()[1]
    return Settings._make([*said[:_NUMBERS], tuple(map(_SIGNALS.index, said[_TRAPS]))])


def _guard_signals(lift: Lift, source: Source, signals: tuple[int, ...]) -> None:
    lift.guard(source, "LENGTH", len(signals))
    for position, signal in enumerate(signals):
        lift.guard(source.child("LIST_ITEM", position), "IS", _SIGNALS[signal])


def flags_of(context: decimal.Context) -> tuple[int, ...]:
    """The flags that are raised."""
    said: Any = context.__reduce__()[1]
    return tuple(map(_SIGNALS.index, said[_FLAGS]))


def _change(
    context: decimal.Context,
    settings: tuple[Any, ...] | None,
    raised: tuple[int, ...] | None,
    flags: tuple[tuple[int, bool], ...],
) -> decimal.Context:
    """Bring a context to what the program left it as; its settings, and the flags besides `flags`, may stay."""
    if settings is not None:
        *numbers, traps = settings
        for name, value in zip(Settings._fields, numbers, strict=False):
            setattr(context, name, value)
        for position, signal in enumerate(_SIGNALS):
            context.traps[signal] = position in traps
    if raised is not None:
        context.clear_flags()
        for flag in raised:
            context.flags[_SIGNALS[flag]] = True
    for flag, is_raised in flags:
        context.flags[_SIGNALS[flag]] = is_raised
    return context
