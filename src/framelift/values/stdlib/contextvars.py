"""Context variables: read from the context of the call, set and reset by the program, left as the program left them.

A copy of the context differs from it in what was set since, on either side: what the program sets while it runs in a
copy is kept there, and is gone with it. What nobody set is found in the context of the call.
"""

from __future__ import annotations

import contextvars
from operator import getitem
from typing import TYPE_CHECKING, Any, NoReturn

from framelift.breaks import FL0107, GraphBreak
from framelift.guards.source import Source
from framelift.values.containers.dicts import MISSING
from framelift.values.core import protocol as py
from framelift.values.core.base import Call, Value
from framelift.values.core.exceptions import raise_error
from framelift.values.core.methods import method, method_of
from framelift.values.core.primitives import primitive
from framelift.values.core.stand_ins import raise_what, shown_as

if TYPE_CHECKING:
    from framelift.values.core.emitter import Emitter
    from framelift.values.core.tracer import Tracer

# What a variable holds that the program did not set, or set and reset: what it held before.
_AS_BEFORE: Any = object()
# In the place of a value: the variable is reset by the token.
_RESET: Any = object()


class Contexts:
    """The variables that the program has set, and the copy of the context it runs in, if it does."""

    def __init__(self) -> None:
        self.variables: list[ContextVarValue] = []
        self.current: ContextCopyValue | None = None


class ContextVarValue(Value, models=contextvars.ContextVar):
    """`steps` lead from what the real variable holds to what it holds in the program: values with their tokens."""

    __slots__ = ("steps", "now", "name", "default")
    assigns = ("now",)
    mutates = ("steps",)

    def __init__(self, source: Source | None, concrete: Any, name: str = "", default: Any = MISSING) -> None:
        super().__init__(source, concrete)
        self.steps: list[tuple[TokenValue, Any]] = []
        self.now = _AS_BEFORE
        # Of a variable that the program made.
        self.name = name
        self.default = default

    def python_type(self) -> type:
        return contextvars.ContextVar

    def attribute(self, tracer: Tracer, name: str) -> Any:
        if name != "name":
            return method_of(self, tracer, name)
        if self.source is None:
            return self.name
        tracer.guard(self.source.child("GETATTR", "name"), "EQUALS", self.concrete.name)
        return self.concrete.name

    @method
    def get(self, tracer: Tracer, default: Any = MISSING, /) -> Any:
        if self.now is not _AS_BEFORE:
            return self.now
        if default is not MISSING:
            own = self.own_value(tracer)
            return default if own is MISSING else own
        if self.source is None:
            return self._raise_unset(tracer) if self.default is MISSING else self.default
        try:
            value = self.concrete.get()
        except LookupError:
            self._raise_unset(tracer)
        source = self.source.child("CONTEXT_VALUE")
        tracer.require(source)
        return tracer.wrap(value, source)

    def set_here(self, default: Any) -> Any:
        """What the program has set; the default where it holds what it held before."""
        return default if self.now is _AS_BEFORE else self.now

    def own_value(self, tracer: Tracer) -> Any:
        """What was set in the context of the call, or MISSING: the default of the variable is not asked."""
        if self.source is None:
            return MISSING
        value = self.concrete.get(MISSING)
        if value is MISSING:
            tracer.guard(self.source, "CONTEXT_UNSET", 0)
            return MISSING
        source = self.source.child("CONTEXT_OWN")
        tracer.require(source)
        return tracer.wrap(value, source)

    def _raise_unset(self, tracer: Tracer) -> NoReturn:
        if self.source is not None:
            tracer.guard(self.source, "CONTEXT_UNSET", 1)
        raise_error(LookupError, self)

    @method
    def set(self, tracer: Tracer, value: Any, /) -> Any:
        tracer.journal.touch(self)
        if not any(variable is self for variable in tracer.contexts.variables):
            tracer.contexts.variables.append(self)
        token = TokenValue(self, self.now, tracer.contexts.current)
        self.steps.append((token, value))
        self.now = value
        return token

    @method
    def reset(self, tracer: Tracer, token: Any, /) -> None:
        if not isinstance(token, TokenValue):
            self.refuse("reset() by a token from elsewhere")
        if token.variable is not self or token.is_used or token.context is not tracer.contexts.current:
            self.refuse("reset() by a token that does not fit")  # which the message shows, with its address
        tracer.journal.touch(self)
        tracer.journal.touch(token)
        if self.steps[-1][0] is token:
            self.steps.pop()
        else:
            self.steps.append((token, _RESET))
        self.now = token.before
        token.is_used = True

    def replay(self, emit: Emitter) -> None:
        for token, value in self.steps:
            emit.value(self)
            emit.call_method("reset" if value is _RESET else "set", [token if value is _RESET else value])
            if value is not _RESET:
                emit.remember(token)
            emit.pop_top()

    # -- the way back ------------------------------------------------------------------------------------------------

    def parts(self) -> list[Any]:
        default = [] if self.default is MISSING else [self.default]
        return default + [value for _, value in self.steps if value is not _RESET]

    def made_by(self) -> Call:
        if self.steps:
            raise GraphBreak(FL0107, what="a new context variable that was set")
        return _make_variable, [self.name] if self.default is MISSING else [self.name, self.default]


def _make_variable(name: str, *default: Any) -> contextvars.ContextVar[Any]:
    return contextvars.ContextVar(name, default=default[0]) if default else contextvars.ContextVar(name)


@primitive(contextvars.ContextVar)
def _new_variable(tracer: Tracer, name: Any, /, *, default: Any = MISSING) -> Any:
    plain = tracer.constant(name)
    if type(plain) is not str:
        raise_what(contextvars.ContextVar, None)
    return ContextVarValue(None, None, plain, default)


class TokenValue(Value):
    """What `set()` gives; the real one exists once the variable is set in residual code."""

    __slots__ = ("variable", "before", "context", "is_used")
    assigns = ("is_used",)

    def __init__(self, variable: ContextVarValue, before: Any, context: ContextCopyValue | None) -> None:
        super().__init__()
        self.variable = variable
        self.before = before
        self.context = context
        self.is_used = False

    def python_type(self) -> type:
        return contextvars.Token

    def attribute(self, tracer: Tracer, name: str) -> Any:
        if name == "var":
            return self.variable
        if name == "old_value":
            before = self.variable.own_value(tracer) if self.before is _AS_BEFORE else self.before
            if before is MISSING:
                self.refuse("attribute 'old_value' where there was none")  # what marks that cannot be guarded
            return before
        return method_of(self, tracer, name)

    def parts(self) -> list[Any]:
        return [self.variable]

    def rebuild(self, emit: Emitter) -> None:
        raise GraphBreak(FL0107, what="a token of a context variable that was reset")


# -- copies of the context ---------------------------------------------------------------------------------------------


class ContextCopyValue(Value):
    """`copy_context()`: what the variables hold in it that the program has set, by the identity of the variable."""

    __slots__ = ("held", "is_entered")
    assigns = ("held", "is_entered")

    def __init__(self, held: dict[int, tuple[ContextVarValue, Any]]) -> None:
        super().__init__()
        self.held = held
        self.is_entered = False

    def python_type(self) -> type:
        return contextvars.Context

    def attribute(self, tracer: Tracer, name: str) -> Any:
        return method_of(self, tracer, name)

    @method
    def run(self, tracer: Tracer, function: Any, /, *args: Any, **kwargs: Any) -> Any:
        if self.is_entered:
            self.refuse("run() while it runs")
        contexts = tracer.contexts
        outside, before = contexts.current, [(variable, variable.state()) for variable in contexts.variables]
        tracer.journal.touch(self)
        self._enter(tracer)
        try:
            return py.call(tracer, function, list(args), kwargs)
        finally:
            self._leave(tracer, outside, before)

    def _enter(self, tracer: Tracer) -> None:
        self.is_entered = True
        tracer.contexts.current = self
        for variable in tracer.contexts.variables:
            tracer.journal.touch(variable)
            variable.steps, variable.now = [], self.held.get(id(variable), (variable, _AS_BEFORE))[1]

    def _leave(
        self, tracer: Tracer, outside: ContextCopyValue | None, before: list[tuple[ContextVarValue, Any]]
    ) -> None:
        self.held = _held(tracer)
        tracer.contexts.current = outside
        for variable in tracer.contexts.variables:
            variable.steps, variable.now = [], _AS_BEFORE  # of those that it set first
        for variable, state in before:
            variable.restore(state)
        self.is_entered = False

    def value_of(self, tracer: Tracer, variable: Any) -> Any:
        """What a variable was set to, or MISSING."""
        if not isinstance(variable, ContextVarValue):
            raise_what(getitem, contextvars.Context(), shown_as(tracer.text(variable, "repr")))
        if self.is_entered:
            self.refuse("looking into it while it runs")
        held = self.held.get(id(variable), (variable, _AS_BEFORE))[1]
        return variable.own_value(tracer) if held is _AS_BEFORE else held

    def item(self, tracer: Tracer, key: Any) -> Any:
        found = self.value_of(tracer, key)
        return raise_error(KeyError, key) if found is MISSING else found

    def contains(self, tracer: Tracer, item: Any) -> Any:
        return self.value_of(tracer, item) is not MISSING

    @method
    def get(self, tracer: Tracer, key: Any, default: Any = None, /) -> Any:
        found = self.value_of(tracer, key)
        return default if found is MISSING else found

    @method
    def copy(self, tracer: Tracer) -> Any:
        if self.is_entered:
            self.refuse("copy() while it runs")
        return ContextCopyValue(dict(self.held))

    def parts(self) -> list[Any]:
        return [part for variable, value in self.held.values() for part in (variable, value)]


def _held(tracer: Tracer) -> dict[int, tuple[ContextVarValue, Any]]:
    """What the variables hold now that the program has set."""
    variables = tracer.contexts.variables
    return {id(variable): (variable, variable.now) for variable in variables if variable.now is not _AS_BEFORE}


@primitive(contextvars.copy_context)
def _copy_context(tracer: Tracer) -> Any:
    return ContextCopyValue(_held(tracer))
