"""Computing with decimals: which context the thread computes in, and operations in copies of contexts.

Operations run while capturing. What they read of a context is guarded; flags that they raise in a copy are raised in
the real context by residual code, also where they end in an exception.
"""

from __future__ import annotations

import decimal
from collections.abc import Callable
from decimal import Context
from decimal import getcontext as get_context
from decimal import localcontext as local_context
from decimal import setcontext as set_context
from typing import TYPE_CHECKING, Any

from framelift.breaks import FL0102_ARGUMENTS, FL0102_OPERAND, GraphBreak
from framelift.guards.source import Source
from framelift.values.core import protocol as py
from framelift.values.core.base import Raised, Value
from framelift.values.core.construct import from_constant
from framelift.values.core.exceptions import raised_from
from framelift.values.core.methods import method, method_of
from framelift.values.core.primitives import primitive
from framelift.values.objects.exceptions import ExceptionObjectValue
from framelift.values.stdlib.decimal.contexts import DecimalContextValue, given_attribute
from framelift.values.stdlib.decimal.states import IN_C, Settings, flags_of, settings_of

if TYPE_CHECKING:
    from framelift.values.core.emitter import Emitter
    from framelift.values.core.tracer import Tracer


class _Thread:
    """Stands for what the calling thread knows of decimals."""


_THREAD = _Thread()


class ThreadValue(Value, models=_Thread):
    """Which context the thread computes in: its own, until the program sets another."""

    __slots__ = ("chosen",)
    assigns = ("chosen",)

    def __init__(self, source: Source | None = None, concrete: Any = None) -> None:
        super().__init__(source, concrete)
        self.chosen: DecimalContextValue | None = None

    def own(self, tracer: Tracer) -> Any:
        return tracer.wrap(get_context(), tracer.sources.known(get_context).child("RESULT"))

    def context(self, tracer: Tracer) -> DecimalContextValue:
        current = self.own(tracer) if self.chosen is None else self.chosen
        if not isinstance(current, DecimalContextValue):
            current.refuse("arithmetic")  # a class of the user's
        current.note(tracer)
        return current

    def choose(self, tracer: Tracer, context: DecimalContextValue) -> None:
        tracer.journal.touch(self)
        self.chosen = None if context is self.own(tracer) else context

    def is_as_it_was(self, state: Any) -> bool:
        return state[0] is self.chosen

    def replay(self, emit: Emitter) -> None:
        if self.chosen is not None:
            emit.builder.load_callable(set_context)
            emit.value(self.chosen)
            emit.call(1)
            emit.pop_top()


def _thread(tracer: Tracer) -> ThreadValue:
    thread: ThreadValue = tracer.known_object(_THREAD)
    return thread


def current_context(tracer: Tracer) -> DecimalContextValue:
    """The context in which the program computes now."""
    return _thread(tracer).context(tracer)


class LocalContextValue(Value, models=()):
    """What `decimal.localcontext()` gives: a block that is computed in a context of its own."""

    __slots__ = ("outer", "local")

    def __init__(self, outer: DecimalContextValue, local: DecimalContextValue) -> None:
        super().__init__()
        self.outer = outer
        self.local = local
        local.maker = self

    def python_type(self) -> type:
        return _ContextManager

    def attribute(self, tracer: Tracer, name: str) -> Any:
        return method_of(self, tracer, name)

    @method
    def __enter__(self, tracer: Tracer) -> Any:  # noqa: PLE0302  (a model)
        _thread(tracer).choose(tracer, self.local)
        return self.local

    @method
    def __exit__(self, tracer: Tracer, *error: Any) -> None:
        _thread(tracer).choose(tracer, self.outer)

    def parts(self) -> list[Any]:
        return [self.outer, self.local]

    def rebuild(self, emit: Emitter) -> None:
        emit.builder.load_callable(_opened)
        emit.value(self.outer)
        emit.call(1)
        emit.builder.unpack_sequence(2)
        emit.remember(self)
        emit.pop_top()
        self.local.rebuild_made(emit)
        emit.load_remembered(self)


def _opened(outer: Context) -> tuple[Any, Context]:
    """What `localcontext()` gives in a context, and the one it makes, without a change to the thread."""
    before = get_context()
    set_context(outer)
    try:
        manager: Any = local_context()
        return manager, manager.__enter__()
    finally:
        set_context(before)


_ContextManager = type(local_context())
_TEMPLATES = (decimal.DefaultContext, decimal.BasicContext, decimal.ExtendedContext)


def _register() -> None:
    @primitive(get_context)
    def getcontext(tracer: Tracer) -> Any:
        return current_context(tracer)

    @primitive(set_context)
    def setcontext(tracer: Tracer, context: Any, /) -> None:
        chosen = _expect_context(tracer, context, "decimal.setcontext")
        if any(chosen.concrete is template for template in _TEMPLATES):  # which are never computed in
            chosen = DecimalContextValue(chosen.settings)
        _thread(tracer).choose(tracer, chosen)

    @primitive(local_context)
    def localcontext(tracer: Tracer, ctx: Any = None, **kwargs: Any) -> Any:
        outer = current_context(tracer)
        local = outer if ctx is None else _expect_context(tracer, ctx, "decimal.localcontext")
        return LocalContextValue(outer, _changed(tracer, local.copy(tracer), _enter_local, kwargs))

    @primitive(Context)
    def make(tracer: Tracer, *args: Any, **kwargs: Any) -> Any:
        given = dict(zip(_GIVEN, args, strict=False))
        if len(args) > len(_GIVEN) or not set(kwargs) <= set(_GIVEN) - set(given):
            raise GraphBreak(FL0102_ARGUMENTS, what="decimal.Context")
        where = tracer.sources.known(decimal).child("MODULE_DICT").child("DICT_ITEM", "DefaultContext")
        default = _expect_context(tracer, tracer.wrap(_TEMPLATES[0], where), "decimal.Context")
        return _changed(
            tracer, DecimalContextValue(default.settings), _make_like, dict.fromkeys(_GIVEN) | given | kwargs
        )


# What a context is made of, in order: as the copy protocol has it.
_GIVEN = (*Settings._fields[:-1], "flags", "traps")


def _expect_context(tracer: Tracer, value: Any, what: str) -> DecimalContextValue:
    if not isinstance(value, DecimalContextValue):
        raise GraphBreak(FL0102_OPERAND, what=what, operand=py.describe(value))
    value.note(tracer)
    return value


def _changed(
    tracer: Tracer, context: DecimalContextValue, change: Callable[..., Context], given: dict[str, Any]
) -> DecimalContextValue:
    """A context that the program just made, with the attributes that it gave."""
    plain = {name: given_attribute(tracer, name, value) for name, value in given.items()}

    def try_out() -> tuple[tuple[Any, ...], tuple[tuple[int, int], ...]]:
        tried = change(context.settings.context(), **plain)
        return tuple(settings_of(tried)), flags_of(tried)

    settings, raised = py.fold(tracer, try_out)
    context.settings = Settings(*settings)
    if plain.get("flags") is not None:
        context.inherited, context.flags = None, {flag: (by,) for flag, by in raised}
    return context


def _enter_local(context: Context, **given: Any) -> Context:
    with local_context(context, **given) as local:
        return local


def _make_like(context: Context, **given: Any) -> Context:
    """A new context; what is not given is as in `context`."""
    said: Any = context.__reduce__()[1]
    missing = {name: value for name, value in zip(_GIVEN, said, strict=True) if given[name] is None}
    return Context(**(given | missing))


if IN_C:
    _register()


def run_in_contexts(tracer: Tracer, function: Callable[..., Any], args: list[Any], kwargs: dict[str, Any]) -> Any:
    """Call a function of `decimal` on plain arguments, and on contexts."""
    current, failure, result = current_context(tracer), None, None
    with local_context(current.settings.context()) as active:
        copies = {id(current): (current, active)}

        def plain(arg: Any) -> Any:
            if not isinstance(arg, DecimalContextValue):
                return arg
            arg.note(tracer)
            if id(arg) not in copies:
                copies[id(arg)] = arg, arg.settings.context()
            return copies[id(arg)][1]

        given, named = [plain(arg) for arg in args], {name: plain(arg) for name, arg in kwargs.items()}
        try:
            result = function(*given, **named)
        except Exception as error:  # noqa: BLE001  (whatever it raises, the program raises)
            failure = _raised(tracer, error)
    for context, copy in copies.values():
        context.raise_flags(tracer, flags_of(copy))
    if failure is not None:
        raise failure
    return result


def _raised(tracer: Tracer, error: Exception) -> Raised:
    if not isinstance(error, decimal.DecimalException):
        return raised_from(error)
    return Raised(ExceptionObjectValue(type(error), tuple([from_constant(tracer, arg) for arg in error.args])))
