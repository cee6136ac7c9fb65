"""Context variables: read from the context of the call, set and reset by the program, left as the program left them."""

from __future__ import annotations

import contextvars
from typing import TYPE_CHECKING, Any, NoReturn

from framelift.breaks import FL0107, GraphBreak
from framelift.guards.source import Source
from framelift.values.base import Value
from framelift.values.dicts import MISSING
from framelift.values.exceptions import raise_error
from framelift.values.methods import method, method_of

if TYPE_CHECKING:
    from framelift.capture.lift import Lift
    from framelift.residual.generator import Generator


class ContextVarValue(Value, models=contextvars.ContextVar):
    """`pending` are the values the program set and did not reset, with their tokens, the last one in effect."""

    __slots__ = ("pending",)

    def __init__(self, source: Source, concrete: Any) -> None:
        super().__init__(source, concrete)
        self.pending: list[tuple[TokenValue, Any]] = []

    def attribute(self, lift: Lift, name: str) -> Any:
        return self.concrete.name if name == "name" and self._is_known(lift) else method_of(self, lift, name)

    def _is_known(self, lift: Lift) -> bool:
        assert self.source is not None
        lift.guard(self.source.child("GETATTR", "name"), "EQUALS", self.concrete.name)
        return True

    @method
    def get(self, lift: Lift, default: Any = MISSING, /) -> Any:
        if self.pending:
            return self.pending[-1][1]
        assert self.source is not None
        if default is not MISSING:
            return self._own_value(lift, default)
        try:
            value = self.concrete.get()
        except LookupError:
            self._raise_unset(lift)
        source = self.source.child("CONTEXT_VALUE")
        lift.require(source)
        return lift.wrap(value, source)

    def _own_value(self, lift: Lift, default: Any) -> Any:
        """What was set in this context, or the default that is asked for: before the variable's own."""
        assert self.source is not None
        value = self.concrete.get(MISSING)
        if value is MISSING:
            lift.guard(self.source, "CONTEXT_UNSET", 0)
            return default
        source = self.source.child("CONTEXT_OWN")
        lift.require(source)
        return lift.wrap(value, source)

    def _raise_unset(self, lift: Lift) -> NoReturn:
        assert self.source is not None
        lift.guard(self.source, "CONTEXT_UNSET", 1)
        raise_error(LookupError, self)

    @method
    def set(self, lift: Lift, value: Any, /) -> Any:
        lift.journal.touch(self)
        token = TokenValue(self)
        self.pending.append((token, value))
        return token

    @method
    def reset(self, lift: Lift, token: Any, /) -> None:
        if not self.pending or self.pending[-1][0] is not token:
            self.refuse("reset() out of order")
        lift.journal.touch(self)
        self.pending.pop()

    def state(self) -> Any:
        return list(self.pending)

    def restore(self, state: Any) -> None:
        self.pending = state

    def replay(self, generate: Generator) -> None:
        for token, value in self.pending:
            generate.source(self.source)
            generate.load_method("set")
            generate.value(value)
            generate.call(1)
            generate.remember(token)
            generate.pop_top()


class TokenValue(Value):
    """What `set()` gives; the real one exists once the variable is set in residual code."""

    __slots__ = ("variable",)

    def __init__(self, variable: ContextVarValue) -> None:
        super().__init__()
        self.variable = variable

    def python_type(self) -> type:
        return contextvars.Token

    def rebuild(self, generate: Generator) -> None:
        raise GraphBreak(FL0107, what="a token of a context variable that was reset")
