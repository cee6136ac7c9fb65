"""Contexts of `decimal`: precision, rounding and traps of its arithmetic, and the flags that operations raise.

What a context says is guarded, but for its flags: those are guarded where the program reads them. What the program
assigns, and the flags that its operations raise, residual code brings to the real contexts.
"""

from __future__ import annotations

import operator
import types
from decimal import Context
from typing import TYPE_CHECKING, Any, NamedTuple

from framelift.breaks import FL0102, GraphBreak
from framelift.guards.source import Source
from framelift.values.containers.dicts import DictValue
from framelift.values.core import protocol as py
from framelift.values.core.base import Value
from framelift.values.core.construct import from_constant, make_tuple
from framelift.values.core.lookup import bind, class_lookup, raw_lookup
from framelift.values.core.methods import ModelMethodValue, method, method_of
from framelift.values.core.refusals import Operation
from framelift.values.objects.classes import ClassValue
from framelift.values.stdlib.decimal.states import (
    ASSIGNED,
    FLAGS,
    IN_C,
    INVALID,
    LOWERED,
    NUMBERS,
    SIGNALS,
    TRAPS,
    Marks,
    Settings,
    change,
    flags_of,
    mark_raised,
    settings_of,
)

if TYPE_CHECKING:
    from framelift.values.core.emitter import Emitter
    from framelift.values.core.tracer import Tracer

_SAMPLE = Context()
_SignalDict = type(_SAMPLE.flags)


class Inherited(NamedTuple):
    """The context that says how flags were at entry; `raised` are they, for what residual code makes."""

    context: Source
    concrete: Context
    raised: Source | None = None


class FlagsAtEntry(NamedTuple):
    """How residual code learns which flags of a context are raised before anything is changed."""

    context: Source

    def generate(self, emit: Emitter) -> None:
        emit.builder.load_callable(flags_of)
        emit.source(self.context)
        emit.call(1)


class DecimalContextValue(Value, models=Context if IN_C else ()):
    """A context. `flags` are those of which the program knows whether they are raised, and what it did to them.

    Of the others it is `inherited` that says how they are; without it they are not raised. A context that
    `decimal.localcontext` made is made again by `maker`.
    """

    __slots__ = ("settings", "flags", "inherited", "maker", "_at_entry", "_views")
    assigns = ("settings", "flags", "inherited")
    marks_only = True  # comparisons raise flags, and do nothing else to it

    def __init__(
        self,
        settings: Settings,
        flags: dict[int, Marks] | None = None,
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
        return Context

    def note_facts(self, tracer: Tracer) -> None:
        super().note_facts(tracer)
        assert self.source is not None
        said = self.source.child("REDUCED").child("TUPLE_ITEM", 1)
        for position in range(NUMBERS):
            tracer.guard(said.child("TUPLE_ITEM", position), "EQUALS", self._at_entry[position])
        _guard_signals(tracer, said.child("TUPLE_ITEM", TRAPS), self._at_entry.traps)

    # -- what the program asks and changes ---------------------------------------------------------------------------

    def attribute(self, tracer: Tracer, name: str) -> Any:
        if name in ("flags", "traps"):
            if name not in self._views:
                self._views[name] = SignalsValue(self, name)
            return self._views[name]
        if name in Settings._fields:
            return getattr(self.settings, name)
        found = raw_lookup(Context, name)
        model = tracer.model_of(found)
        if model is None:
            return method_of(self, tracer, name)
        return ModelMethodValue(self, name, lambda *args, **kwargs: model(tracer, [self, *args], kwargs))

    def set_attribute(self, tracer: Tracer, name: str, value: Any) -> None:
        changed = self.settings.context()
        py.fold(tracer, setattr, changed, name, given_attribute(tracer, name, value))  # flags and traps are no lists
        self.change(tracer, settings_of(changed))

    def change(self, tracer: Tracer, settings: Settings) -> None:
        tracer.journal.touch(self)
        self.settings = settings

    def is_raised(self, tracer: Tracer, flag: int) -> bool:
        """Whether a flag is raised, guarded."""
        if flag in self.flags:
            return self.flags[flag][-1] != LOWERED
        return flag in dict(self._before(tracer))

    def _before(self, tracer: Tracer) -> tuple[tuple[int, int], ...]:
        """The flags that were raised at entry, guarded."""
        if self.inherited is None:
            return ()
        before = flags_of(self.inherited.concrete)
        said = self.inherited.context.child("REDUCED").child("TUPLE_ITEM", 1)
        _guard_signals(tracer, said.child("TUPLE_ITEM", FLAGS), tuple(dict(before)))
        return before

    def set_flag(self, tracer: Tracer, flag: int, is_raised: bool) -> None:
        tracer.journal.touch(self)
        self.flags = self.flags | {flag: (ASSIGNED if is_raised else LOWERED,)}

    def raise_flags(self, tracer: Tracer, raised: tuple[tuple[int, int], ...]) -> None:
        """Note flags that an operation raised."""
        marked = {flag: mark_raised(self.flags.get(flag, ()), by) for flag, by in raised}
        if any(self.flags.get(flag) != marks for flag, marks in marked.items()):
            tracer.journal.touch(self)
            self.flags = self.flags | marked

    @method
    def clear_flags(self, tracer: Tracer) -> None:
        tracer.journal.touch(self)
        self.flags, self.inherited = {}, None

    @method
    def clear_traps(self, tracer: Tracer) -> None:
        self.change(tracer, self.settings._replace(traps=()))

    @method
    def copy(self, tracer: Tracer) -> DecimalContextValue:
        inherited = self.inherited
        if inherited is not None and inherited.raised is None:
            inherited = inherited._replace(raised=tracer.sources.new(FlagsAtEntry(inherited.context)))
        return DecimalContextValue(self.settings, self.flags, inherited)

    @method
    def __copy__(self, tracer: Tracer) -> DecimalContextValue:  # noqa: PLE0302  (a model)
        return self.copy(tracer)

    @method
    def __reduce__(self, tracer: Tracer) -> Any:  # type: ignore[override]  # noqa: PLE0302  (a model)
        return from_constant(tracer, self.known(tracer).__reduce__())

    def text(self, tracer: Tracer, conversion: str) -> str:
        return repr(self.known(tracer, exactly=True))

    def known(self, tracer: Tracer, exactly: bool = False) -> Context:
        """A context in the same state, flags included; guarded. Exactly: also why an operation was invalid."""
        before = self._before(tracer)
        is_told = self.flags.get(INVALID, ())[:1] in ((LOWERED,), (ASSIGNED,))
        if exactly and INVALID in dict(before) and not is_told:
            self.refuse("telling invalid operations apart")  # which guards do not
        return change(self.settings.context(), None, before, tuple(self.flags.items()))

    # -- the journal, the way back -----------------------------------------------------------------------------------

    def is_as_it_was(self, state: Any) -> bool:
        return bool(state == self.state())

    def replay(self, emit: Emitter) -> None:
        emit.builder.load_callable(change)
        emit.source(self.source)
        self._generate_change(emit)
        emit.call(4)
        emit.pop_top()

    def _generate_change(self, emit: Emitter) -> None:
        """Leave what `change` does to a context on the stack."""
        emit.constant(None if self.source is not None and self.settings == self._at_entry else tuple(self.settings))
        if self.inherited is None:
            emit.constant(())
        elif self.inherited.raised is None:
            emit.constant(None)
        else:
            emit.source(self.inherited.raised)
        emit.constant(tuple(self.flags.items()))

    def parts(self) -> list[Any]:
        return [] if self.maker is None else [self.maker]

    def rebuild(self, emit: Emitter) -> None:
        if self.maker is not None:
            emit.value(self.maker)
            emit.pop_top()
            emit.load_remembered(self)
            return
        emit.builder.load_callable(change)
        emit.callable(Context)
        emit.call(0)
        self._generate_change(emit)
        emit.call(4)

    def rebuild_made(self, emit: Emitter) -> None:
        """The same for the context on top of the stack, which its maker made."""
        emit.remember(self)
        emit.pop_top()
        emit.builder.load_callable(change)
        emit.load_remembered(self)
        self._generate_change(emit)
        emit.call(4)
        emit.pop_top()


class SignalsValue(Value):
    """`context.flags` or `context.traps`: which signals are raised, or raise."""

    __slots__ = ("context", "name")
    answers_operators = False

    def __init__(self, context: DecimalContextValue, name: str) -> None:
        super().__init__()
        self.context = context
        self.name = name

    def python_type(self) -> type:
        return _SignalDict

    def attribute(self, tracer: Tracer, name: str) -> Any:
        found = class_lookup(tracer, _SignalDict, name)
        if found is not None and type(found.raw) is types.FunctionType:
            return bind(tracer, found, self, _SignalDict)
        return method_of(self, tracer, name)

    def length(self, tracer: Tracer) -> Any:
        return len(SIGNALS)

    def iterate(self, tracer: Tracer) -> Any:
        return py.iterate(tracer, make_tuple([tracer.known_object(signal) for signal in SIGNALS]))

    def item(self, tracer: Tracer, key: Any) -> Any:
        signal = _position(tracer, key)
        if self.name == "traps":
            return signal in self.context.settings.traps
        return self.context.is_raised(tracer, signal)

    def set_item(self, tracer: Tracer, key: Any, value: Any) -> None:
        signal, is_set = _position(tracer, key), py.truth(tracer, value)
        if self.name == "flags":
            self.context.set_flag(tracer, signal, is_set)
            return
        settings = self.context.settings
        traps = set(settings.traps) | {signal} if is_set else set(settings.traps) - {signal}
        self.context.change(tracer, settings._replace(traps=tuple(sorted(traps))))

    def contains(self, tracer: Tracer, item: Any) -> Any:
        return py.call(tracer, self.attribute(tracer, "__contains__"), [item], {})

    def text(self, tracer: Tracer, conversion: str) -> str:
        known = self.context.known(tracer)  # which its flags and traps do not keep alive
        return repr(getattr(known, self.name))

    @method
    def copy(self, tracer: Tracer) -> Any:
        keys = [tracer.known_object(signal) for signal in SIGNALS]
        return DictValue({py.key_of(tracer, key): self.item(tracer, key) for key in keys})

    def compare(self, tracer: Tracer, operator: str, other: Any) -> Any:
        if operator not in ("==", "!=") or not isinstance(other, SignalsValue):
            self.refuse(Operation.COMPARISON, operator=operator)
        mine, theirs = [signals.context.known(tracer, signals.name == "flags") for signals in (self, other)]
        return py.fold(tracer, py.COMPARE[operator], getattr(mine, self.name), getattr(theirs, other.name))

    def is_same(self, tracer: Tracer, other: Value) -> bool:
        if not isinstance(other, SignalsValue):
            self.refuse(Operation.IDENTITY)
        return False

    def key(self, tracer: Tracer) -> Any:
        self.refuse(Operation.KEY)

    def parts(self) -> list[Any]:
        return [self.context]

    def rebuild(self, emit: Emitter) -> None:
        emit.value(self.context)
        emit.load_attribute(self.name)


def given_attribute(tracer: Tracer, name: str, value: Any) -> Any:
    """What an attribute of a context is set to, as a constant: flags and traps are classes in a list."""
    if name not in ("flags", "traps"):
        return tracer.constant(value)
    if py.same(tracer, value, None):
        return None
    if not py.has_type(value, list, tuple):
        raise GraphBreak(FL0102, what=f"signals in a {py.describe(value)}")
    signals = [known_class(tracer, item) for item in py.items(tracer, value)]
    return signals if py.type_of(value) is list else tuple(signals)


def known_class(tracer: Tracer, value: Any) -> Any:
    """The class a value is."""
    if not isinstance(value, ClassValue):
        raise GraphBreak(FL0102, what=f"a signal that is a {py.describe(value)}")
    value.note(tracer)
    return value.concrete


def _position(tracer: Tracer, key: Any) -> int:
    """Which signal a key is; any other raises."""
    plain = known_class(tracer, key) if isinstance(key, ClassValue) else tracer.constant(key)
    py.fold(tracer, operator.getitem, _SAMPLE.flags, plain)
    return next(position for position, signal in enumerate(SIGNALS) if signal is plain)


def _guard_signals(tracer: Tracer, source: Source, signals: tuple[int, ...]) -> None:
    tracer.guard(source, "LENGTH", len(signals))
    for position, signal in enumerate(signals):
        tracer.guard(source.child("LIST_ITEM", position), "IS", SIGNALS[signal])
