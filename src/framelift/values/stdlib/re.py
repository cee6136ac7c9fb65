"""Regular expressions: a compiled pattern is known when it is guarded, and matching a constant runs while capturing.

A pattern or match that leaves the frame is made again by the call that made it.
"""

from __future__ import annotations

import re
import sys
from typing import TYPE_CHECKING, Any

from framelift.breaks import FL0102, GraphBreak
from framelift.models.substitution import substituted
from framelift.values.containers.iterators import SequenceIterator
from framelift.values.core import protocol as py
from framelift.values.core.base import KnownObject, Raised, Value
from framelift.values.core.lookup import is_subclass
from framelift.values.core.primitives import primitive
from framelift.values.stdlib.enum import EnumValue

if TYPE_CHECKING:
    from framelift.capture.lift import Lift
    from framelift.guards.source import Source
    from framelift.residual.generator import Generator


# Templates warn about whoever called the caller of `sub`.
__warningregistry__ = py.__warningregistry__


class PatternValue(KnownObject, models=re.Pattern):
    """A compiled pattern: an input, guarded by identity, or compiled by the program from constants."""

    __slots__ = ("flags",)

    def __init__(self, source: Source | None, concrete: re.Pattern[Any], flags: int = 0) -> None:
        super().__init__(source, concrete)
        self.flags = flags  # as they were given, for `re` to find it in its cache

    def compare(self, lift: Lift, operator: str, other: Any) -> Any:
        if not isinstance(other, PatternValue):
            return NotImplemented
        other.note(lift)
        return py.fold(lift, py.COMPARE[operator], self.concrete, other.concrete)

    def key(self, lift: Lift) -> Any:
        self.refuse("use as a key")

    def attribute(self, lift: Lift, name: str) -> Any:
        return _attribute(lift, self, name)

    def text(self, lift: Lift, conversion: str) -> str:
        return repr(self.concrete)

    def rebuild(self, generate: Generator) -> None:
        generate.callable(re.compile)
        generate.constant(self.concrete.pattern)
        generate.constant(self.flags)
        generate.call(2)


class MatchValue(Value, models=()):
    """What matching a constant gave; `made_by` is the pattern, the method and its arguments."""

    __slots__ = ("made_by",)

    def __init__(self, concrete: Any, made_by: tuple[PatternValue, str, list[Any]] | None) -> None:
        super().__init__(None, concrete)
        self.made_by = made_by

    def attribute(self, lift: Lift, name: str) -> Any:
        if name == "re" and self.made_by is not None:
            return self.made_by[0]
        return _attribute(lift, self, name)

    def item(self, lift: Lift, key: Any) -> Any:
        return py.fold(lift, self.concrete.__getitem__, lift.constant(key))

    def key(self, lift: Lift) -> Any:
        self.refuse("use as a key")

    def text(self, lift: Lift, conversion: str) -> str:
        return repr(self.concrete)

    def rebuild(self, generate: Generator) -> None:
        if self.made_by is None:
            super().rebuild(generate)
            return
        pattern, method, args = self.made_by
        generate.value(pattern)
        generate.load_method(method)
        for argument in args:
            generate.constant(argument)
        generate.call(len(args))


def _attribute(lift: Lift, owner: Value, name: str) -> Any:
    found = getattr(owner.concrete, name, None)
    if callable(found) and not name.startswith("_"):
        return lift.builtin_method(owner, name, lambda *args, **kwargs: _method(lift, owner, name, args, kwargs))
    if name not in _DATA:
        owner.refuse(f"attribute {name!r}")
    return py.fold(lift, getattr, owner.concrete, name)


_DATA = frozenset({"pattern", "flags", "groups", "string", "pos", "endpos", "lastindex", "lastgroup", "regs"})


def _method(lift: Lift, owner: Value, name: str, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    if name in ("sub", "subn") and args and not _is_text(args[0]):
        if not py.truth(lift, lift.call(lift.known_object(callable), [args[0]])):
            raise GraphBreak(FL0102, what=f"re.{name} with {py.describe(args[0])}")
        text, count = py.items(lift, py.call(lift, lift.known_object(substituted), [owner, *args], kwargs))
        return text if name == "sub" else lift.tuple([text, count])
    plain = [lift.constant(argument) for argument in args]
    named = {key: lift.constant(argument) for key, argument in kwargs.items()}
    result = py.evaluate(lift, getattr(owner.concrete, name), *plain, **named)
    if name == "finditer":
        return SequenceIterator([MatchValue(match, None) for match in result], type(iter(int, 1)))
    if isinstance(result, re.Match):
        assert isinstance(owner, PatternValue)
        return MatchValue(result, None if named else (owner, name, plain))
    return lift.from_constant(result)


def _is_text(value: Any) -> bool:
    return is_subclass(py.type_of(value), str) or is_subclass(py.type_of(value), bytes)


@primitive(re.compile)
def _compile(lift: Lift, pattern: Any, flags: Any = 0) -> Any:
    if isinstance(pattern, PatternValue):
        if _flags(lift, flags):
            pattern.refuse("compile() with flags")
        return pattern
    return PatternValue(None, _compiled(lift, pattern, flags), _flags(lift, flags))


def _compiled(lift: Lift, pattern: Any, flags: Any) -> Any:
    plain = lift.constant(pattern)
    if type(plain) not in (str, bytes):
        raise GraphBreak(FL0102, what=f"re.compile of {py.describe(pattern)}")
    try:
        return py.evaluate(lift, re.compile, plain, _flags(lift, flags))
    except Raised as raised:
        raise GraphBreak(FL0102, what=f"re.compile, which fails: {py.describe(raised.value)}") from None


def _flags(lift: Lift, flags: Any) -> int:
    if isinstance(flags, EnumValue):
        flags.note(lift)
        flags = py.attribute(lift, flags, "value")
    plain = lift.constant(flags)
    if not isinstance(plain, int):
        raise GraphBreak(FL0102, what=f"re.compile with flags that are {py.describe(flags)}")
    return plain


def _register_functions() -> None:
    """`re.match(pattern, string, flags=0)` is `re.compile(pattern, flags).match(string)`."""
    for function in (re.match, re.fullmatch, re.search, re.findall, re.finditer):

        def search(lift: Lift, pattern: Any, string: Any, flags: Any = 0, _name: str = function.__name__) -> Any:
            return _method(lift, _compile(lift, pattern, flags), _name, (string,), {})

        primitive(function)(search)


_register_functions()


@primitive(re.escape)
def _escape(lift: Lift, pattern: Any) -> Any:
    return py.fold(lift, re.escape, lift.constant(pattern))


# Since 3.13 the functions below warn about a count that is not named, which is left to Python.
_NAMED_BY_PLACE = sys.version_info < (3, 13)


def _register_changes() -> None:
    """`re.sub` and its like."""
    for function, given in ((re.split, 2), (re.sub, 3), (re.subn, 3)):

        def change(
            lift: Lift, *args: Any, flags: Any = 0, _name: str = function.__name__, _given: int = given, **named: Any
        ) -> Any:
            pattern, *rest = args[:_given]
            if len(args) < _given or len(args) > _given + 2 * _NAMED_BY_PLACE:
                raise GraphBreak(FL0102, what=f"re.{_name} with these arguments")
            given_flags = args[_given + 1] if len(args) > _given + 1 else flags
            rest += args[_given : _given + 1]  # the count
            return _method(lift, _compile(lift, pattern, given_flags), _name, tuple(rest), named)

        primitive(function)(change)


_register_changes()
