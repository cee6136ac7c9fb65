"""Regular expressions: a compiled pattern is known when it is guarded, and matching a constant runs while capturing.

A pattern or match that leaves the frame is made again by the call that made it.
"""

from __future__ import annotations

import re
import sys
from typing import TYPE_CHECKING, Any

from framelift.breaks import FL0102, GraphBreak
from framelift.models.re import substituted
from framelift.values.containers.iterators import SequenceIterator
from framelift.values.core import protocol as py
from framelift.values.core.base import KnownObject, Raised, Value
from framelift.values.core.construct import from_constant, make_tuple
from framelift.values.core.lookup import is_subclass
from framelift.values.core.methods import ModelMethodValue
from framelift.values.core.primitives import primitive
from framelift.values.stdlib.enum import EnumValue

if TYPE_CHECKING:
    from framelift.guards.source import Source
    from framelift.values.core.emitter import Emitter
    from framelift.values.core.tracer import Tracer


# Templates warn about whoever called the caller of `sub`.
__warningregistry__ = py.__warningregistry__


class PatternValue(KnownObject, models=re.Pattern):
    """A compiled pattern: an input, guarded by identity, or compiled by the program from constants."""

    __slots__ = ("flags",)

    def __init__(self, source: Source | None, concrete: re.Pattern[Any], flags: int = 0) -> None:
        super().__init__(source, concrete)
        self.flags = flags  # as they were given, for `re` to find it in its cache

    def compare(self, tracer: Tracer, operator: str, other: Any) -> Any:
        if not isinstance(other, PatternValue):
            return NotImplemented
        other.note(tracer)
        return py.fold(tracer, py.COMPARE[operator], self.concrete, other.concrete)

    def key(self, tracer: Tracer) -> Any:
        self.refuse("use as a key")

    def attribute(self, tracer: Tracer, name: str) -> Any:
        return _attribute(tracer, self, name)

    def text(self, tracer: Tracer, conversion: str) -> str:
        return repr(self.concrete)

    def rebuild(self, emit: Emitter) -> None:
        emit.callable(re.compile)
        emit.constant(self.concrete.pattern)
        emit.constant(self.flags)
        emit.call(2)


class MatchValue(Value, models=()):
    """What matching a constant gave; `made_by` is the pattern, the method and its arguments."""

    __slots__ = ("made_by",)

    def __init__(self, concrete: Any, made_by: tuple[PatternValue, str, list[Any]] | None) -> None:
        super().__init__(None, concrete)
        self.made_by = made_by

    def attribute(self, tracer: Tracer, name: str) -> Any:
        if name == "re" and self.made_by is not None:
            return self.made_by[0]
        return _attribute(tracer, self, name)

    def item(self, tracer: Tracer, key: Any) -> Any:
        return py.fold(tracer, self.concrete.__getitem__, tracer.constant(key))

    def key(self, tracer: Tracer) -> Any:
        self.refuse("use as a key")

    def text(self, tracer: Tracer, conversion: str) -> str:
        return repr(self.concrete)

    def rebuild(self, emit: Emitter) -> None:
        if self.made_by is None:
            super().rebuild(emit)
            return
        pattern, method, args = self.made_by
        emit.value(pattern)
        emit.load_method(method)
        for argument in args:
            emit.constant(argument)
        emit.call(len(args))


def _attribute(tracer: Tracer, owner: Value, name: str) -> Any:
    found = getattr(owner.concrete, name, None)
    if callable(found) and not name.startswith("_"):
        return ModelMethodValue(owner, name, lambda *args, **kwargs: _method(tracer, owner, name, args, kwargs))
    if name not in _DATA:
        owner.refuse(f"attribute {name!r}")
    return py.fold(tracer, getattr, owner.concrete, name)


_DATA = frozenset({"pattern", "flags", "groups", "string", "pos", "endpos", "lastindex", "lastgroup", "regs"})


def _method(tracer: Tracer, owner: Value, name: str, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    if name in ("sub", "subn") and args and not _is_text(args[0]):
        if not py.truth(tracer, py.call(tracer, tracer.known_object(callable), [args[0]], {})):
            raise GraphBreak(FL0102, what=f"re.{name} with {py.describe(args[0])}")
        text, count = py.items(tracer, py.call(tracer, tracer.known_object(substituted), [owner, *args], kwargs))
        return text if name == "sub" else make_tuple([text, count])
    plain = [tracer.constant(argument) for argument in args]
    named = {key: tracer.constant(argument) for key, argument in kwargs.items()}
    result = py.evaluate(tracer, getattr(owner.concrete, name), *plain, **named)
    if name == "finditer":
        return SequenceIterator([MatchValue(match, None) for match in result], type(iter(int, 1)))
    if isinstance(result, re.Match):
        assert isinstance(owner, PatternValue)
        return MatchValue(result, None if named else (owner, name, plain))
    return from_constant(tracer, result)


def _is_text(value: Any) -> bool:
    return is_subclass(py.type_of(value), str) or is_subclass(py.type_of(value), bytes)


@primitive(re.compile)
def _compile(tracer: Tracer, pattern: Any, flags: Any = 0) -> Any:
    if isinstance(pattern, PatternValue):
        if _flags(tracer, flags):
            pattern.refuse("compile() with flags")
        return pattern
    return PatternValue(None, _compiled(tracer, pattern, flags), _flags(tracer, flags))


def _compiled(tracer: Tracer, pattern: Any, flags: Any) -> Any:
    plain = tracer.constant(pattern)
    if type(plain) not in (str, bytes):
        raise GraphBreak(FL0102, what=f"re.compile of {py.describe(pattern)}")
    try:
        return py.evaluate(tracer, re.compile, plain, _flags(tracer, flags))
    except Raised as raised:
        raise GraphBreak(FL0102, what=f"re.compile, which fails: {py.describe(raised.value)}") from None


def _flags(tracer: Tracer, flags: Any) -> int:
    if isinstance(flags, EnumValue):
        flags.note(tracer)
        flags = py.attribute(tracer, flags, "value")
    plain = tracer.constant(flags)
    if not isinstance(plain, int):
        raise GraphBreak(FL0102, what=f"re.compile with flags that are {py.describe(flags)}")
    return plain


def _register_functions() -> None:
    """`re.match(pattern, string, flags=0)` is `re.compile(pattern, flags).match(string)`."""
    for function in (re.match, re.fullmatch, re.search, re.findall, re.finditer):

        def search(tracer: Tracer, pattern: Any, string: Any, flags: Any = 0, _name: str = function.__name__) -> Any:
            return _method(tracer, _compile(tracer, pattern, flags), _name, (string,), {})

        primitive(function)(search)


_register_functions()


@primitive(re.escape)
def _escape(tracer: Tracer, pattern: Any) -> Any:
    return py.fold(tracer, re.escape, tracer.constant(pattern))


# Since 3.13 the functions below warn about a count that is not named, which is left to Python.
_NAMED_BY_PLACE = sys.version_info < (3, 13)


def _register_changes() -> None:
    """`re.sub` and its like."""
    for function, given in ((re.split, 2), (re.sub, 3), (re.subn, 3)):

        def change(
            tracer: Tracer,
            *args: Any,
            flags: Any = 0,
            _name: str = function.__name__,
            _given: int = given,
            **named: Any,
        ) -> Any:
            pattern, *rest = args[:_given]
            if len(args) < _given or len(args) > _given + 2 * _NAMED_BY_PLACE:
                raise GraphBreak(FL0102, what=f"re.{_name} with these arguments")
            given_flags = args[_given + 1] if len(args) > _given + 1 else flags
            rest += args[_given : _given + 1]  # the count
            return _method(tracer, _compile(tracer, pattern, given_flags), _name, tuple(rest), named)

        primitive(function)(change)


_register_changes()
