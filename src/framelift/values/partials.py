"""`functools.partial`: a callable with some of its arguments."""

from __future__ import annotations

import functools
from typing import TYPE_CHECKING, Any

from framelift.guards.source import Source
from framelift.values import protocol as py
from framelift.values.base import Value
from framelift.values.dicts import DictValue, pairs
from framelift.values.exceptions import raise_error
from framelift.values.primitives import primitive

if TYPE_CHECKING:
    from framelift.capture.lift import Lift
    from framelift.residual.generator import Generator

_PARTS = ("func", "args", "keywords")


class PartialValue(Value, models=functools.partial):
    """`parts` holds `func`, `args` and `keywords`, as far as they were read or given."""

    __slots__ = ("given",)

    def __init__(self, given: dict[str, Any], source: Source | None = None, concrete: Any = None) -> None:
        super().__init__(source, concrete)
        self.given = given

    @classmethod
    def from_input(cls, obj: Any, source: Source) -> Value:
        return cls({}, source, obj)

    def python_type(self) -> type:
        return functools.partial

    def part(self, lift: Lift, name: str) -> Any:
        if name not in self.given:
            assert self.source is not None
            self.note(lift)
            self.given[name] = lift.wrap(getattr(self.concrete, name), self.source.child("GETATTR", name))
        return self.given[name]

    def call(self, lift: Lift, args: list[Any], kwargs: dict[str, Any]) -> Any:
        named = {lift.constant(name): value for name, value in pairs(lift, self.part(lift, "keywords"))}
        first = py.items(lift, self.part(lift, "args"))
        return py.call(lift, self.part(lift, "func"), [*first, *args], named | kwargs)

    def attribute(self, lift: Lift, name: str) -> Any:
        if name in _PARTS:
            return self.part(lift, name)
        return super().attribute(lift, name)

    def parts(self) -> list[Any]:
        return list(self.given.values())

    def rebuild(self, generate: Generator) -> None:
        generate.callable(functools.partial)
        generate.value(self.given["func"])
        generate.call(1)
        generate.remember(self)
        generate.copy_top()
        generate.load_method("__setstate__")
        for name in _PARTS:
            generate.value(self.given[name])
        generate.constant(None)
        generate.build_tuple(4)
        generate.call(1)
        generate.pop_top()


@primitive(functools.partial)
def _partial(lift: Lift, *args: Any, **keywords: Any) -> Any:
    if not args:
        raise_error(TypeError, "type 'partial' takes at least one argument")
    function, first = args[0], list(args[1:])
    if not py.truth(lift, py.call(lift, lift.known_object(callable), [function], {})):
        raise_error(TypeError, "the first argument must be callable")
    if isinstance(function, PartialValue):
        inner = {lift.constant(name): value for name, value in pairs(lift, function.part(lift, "keywords"))}
        first = [*py.items(lift, function.part(lift, "args")), *first]
        function, keywords = function.part(lift, "func"), inner | keywords
    return PartialValue({"func": function, "args": lift.tuple(first), "keywords": DictValue(dict(keywords))})
