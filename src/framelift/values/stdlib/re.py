"""Regular expressions: a compiled pattern is known when it is guarded, and matching a constant runs while capturing."""

from __future__ import annotations

import re
import sys
from typing import TYPE_CHECKING, Any

from framelift.breaks import FL0102, FL0102_ARGUMENTS, FL0102_OPERAND, GraphBreak
from framelift.models.stdlib.re import substituted
from framelift.values.containers.iterators import SequenceIterator
from framelift.values.core import protocol as py
from framelift.values.core.base import KnownObject, Raised
from framelift.values.core.construct import make_tuple
from framelift.values.core.lookup import is_subclass
from framelift.values.core.primitives import primitive
from framelift.values.core.refusals import Operation
from framelift.values.stdlib.enum import EnumValue
from framelift.values.stdlib.made_by_call import MadeByCall

if TYPE_CHECKING:
    from framelift.values.core.tracer import Tracer


class _OfRegex(MadeByCall):
    """A pattern or a match."""

    __slots__ = ()

    def key(self, tracer: Tracer) -> Any:
        self.refuse(Operation.KEY)

    def text(self, tracer: Tracer, conversion: str) -> str:
        return repr(self.known)


class PatternValue(_OfRegex, KnownObject, models=re.Pattern):
    """A compiled pattern: an input, guarded by identity, or compiled by the program from constants."""

    __slots__ = ()
    data = frozenset({"pattern", "flags", "groups"})
    methods = frozenset({"match", "fullmatch", "search", "findall", "finditer", "scanner", "split", "sub", "subn"})

    def compare(self, tracer: Tracer, operator: str, other: Any) -> Any:
        if not isinstance(other, PatternValue):
            return NotImplemented
        other.note(tracer)
        return py.fold(tracer, py.COMPARE[operator], self.known, other.known)

    def run(self, tracer: Tracer, name: str, args: list[Any], kwargs: dict[str, Any]) -> Any:
        if name not in ("sub", "subn") or not args or _is_text(args[0]):
            return super().run(tracer, name, args, kwargs)
        if not py.truth(tracer, py.call(tracer, tracer.known_object(callable), [args[0]], {})):
            raise GraphBreak(FL0102, what=f"re.{name} with {py.describe(args[0])}")
        text, count = py.items(tracer, py.call(tracer, tracer.known_object(substituted), [self, *args], kwargs))
        return text if name == "sub" else make_tuple([text, count])

    def answer(self, tracer: Tracer, name: str, args: tuple[Any, ...] | None, result: Any) -> Any:
        if name == "finditer":
            return SequenceIterator([MatchValue(None, match) for match in result], type(iter(int, 1)))
        if not isinstance(result, re.Match):
            return super().answer(tracer, name, args, result)
        return MatchValue(None, result, None if args is None else (getattr(re.Pattern, name), (self, *args)))


class MatchValue(_OfRegex):
    """What matching a constant gave."""

    __slots__ = ()
    data = frozenset({"string", "pos", "endpos", "lastindex", "lastgroup", "regs"})
    methods = frozenset({"group", "groups", "groupdict", "start", "end", "span", "expand"})

    def attribute(self, tracer: Tracer, name: str) -> Any:
        if name == "re" and self._made_by is not None:
            return self._made_by[1][0]
        return super().attribute(tracer, name)

    def item(self, tracer: Tracer, key: Any) -> Any:
        return self.run(tracer, "__getitem__", [key], {})


def _is_text(value: Any) -> bool:
    return is_subclass(py.type_of(value), str) or is_subclass(py.type_of(value), bytes)


@primitive(re.compile)
def _compile(tracer: Tracer, pattern: Any, flags: Any = 0) -> Any:
    if isinstance(pattern, PatternValue):
        if _flags(tracer, flags):
            pattern.refuse("compile() with flags")
        return pattern
    plain = tracer.constant(pattern)
    if type(plain) not in (str, bytes):
        raise GraphBreak(FL0102_OPERAND, what="re.compile", operand=py.describe(pattern))
    given = plain, _flags(tracer, flags)  # as they were given, for `re` to find them in its cache
    try:
        return PatternValue(None, py.evaluate(tracer, re.compile, *given), (re.compile, given))
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
            return _compile(tracer, pattern, flags).run(tracer, _name, [string], {})

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
                raise GraphBreak(FL0102_ARGUMENTS, what=f"re.{_name}")
            given_flags = args[_given + 1] if len(args) > _given + 1 else flags
            rest += args[_given : _given + 1]  # the count
            return _compile(tracer, pattern, given_flags).run(tracer, _name, rest, named)

        primitive(function)(change)


_register_changes()
