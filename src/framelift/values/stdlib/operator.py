"""The functions and callables of the operator module."""

from __future__ import annotations

import operator
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from framelift.values.core import protocol as py
from framelift.values.core.base import Value
from framelift.values.core.construct import make_tuple
from framelift.values.core.primitives import primitive
from framelift.values.core.stand_ins import raise_what
from framelift.values.numbers.symbolic import SymbolicValue

if TYPE_CHECKING:
    from framelift.values.core.emitter import Emitter
    from framelift.values.core.tracer import Tracer


def _register_operators() -> None:
    for symbol, function in py.BINARY.items():
        primitive(function)(_of_two(py.binary, symbol))
    for symbol, function in py.COMPARE.items():
        primitive(function)(_of_two(py.compare, symbol))
    for symbol, unary in py.UNARY.items():
        primitive(unary)(_of_one(symbol))
    primitive(operator.inv)(_of_one("~"))


def _of_two(operation: Callable[..., Any], symbol: str) -> Callable[..., Any]:
    def run(tracer: Tracer, left: Any, right: Any, /) -> Any:
        return operation(tracer, symbol, left, right)

    return run


def _of_one(symbol: str) -> Callable[..., Any]:
    def run(tracer: Tracer, operand: Any, /) -> Any:
        return py.unary(tracer, symbol, operand)

    return run


_register_operators()


@primitive(operator.getitem)
def _operator_getitem(tracer: Tracer, container: Any, key: Any, /) -> Any:
    return py.item(tracer, container, key)


@primitive(operator.setitem)
def _operator_setitem(tracer: Tracer, container: Any, key: Any, value: Any, /) -> None:
    py.set_item(tracer, container, key, value)


@primitive(operator.index)
def _operator_index(tracer: Tracer, value: Any, /) -> Any:
    if isinstance(value, SymbolicValue) and value.python_type() is int:
        return value
    return int(tracer.as_index(value))  # True is 1 here


@primitive(operator.truth)
def _operator_truth(tracer: Tracer, value: Any, /) -> Any:
    return py.truth(tracer, value)


@primitive(operator.not_)
def _operator_not(tracer: Tracer, value: Any, /) -> Any:
    return not py.truth(tracer, value)


@primitive(operator.is_)
def _operator_is(tracer: Tracer, left: Any, right: Any, /) -> Any:
    return py.same(tracer, left, right)


@primitive(operator.is_not)
def _operator_is_not(tracer: Tracer, left: Any, right: Any, /) -> Any:
    return not py.same(tracer, left, right)


@primitive(operator.contains)
def _operator_contains(tracer: Tracer, container: Any, item: Any, /) -> Any:
    return py.contains(tracer, container, item)


@primitive(operator.delitem)
def _operator_delitem(tracer: Tracer, container: Any, key: Any, /) -> None:
    py.delete_item(tracer, container, key)


# -- callables made of their arguments -------------------------------------------------------------------------------


class OperatorValue(Value):
    """An `itemgetter`, `attrgetter` or `methodcaller`: `run` answers its calls."""

    __slots__ = ("kind", "args", "kwargs", "run")

    def __init__(
        self, kind: type, args: tuple[Any, ...], kwargs: dict[str, Any], run: Callable[[Tracer, Any], Any]
    ) -> None:
        super().__init__()
        self.kind = kind
        self.args = args
        self.kwargs = kwargs
        self.run = run

    def python_type(self) -> type:
        return self.kind

    def call(self, tracer: Tracer, args: list[Any], kwargs: dict[str, Any]) -> Any:
        if len(args) != 1 or kwargs:
            self.refuse("a call without exactly one argument")
        return self.run(tracer, args[0])

    def parts(self) -> list[Any]:
        return [*self.args, *self.kwargs.values()]

    def rebuild(self, emit: Emitter) -> None:
        emit.callable(self.kind)
        for part in self.parts():
            emit.value(part)
        emit.builder.call(len(self.parts()), tuple(self.kwargs))


@primitive(operator.itemgetter)
def _itemgetter(tracer: Tracer, first: Any, /, *rest: Any) -> Any:
    def run(tracer: Tracer, obj: Any) -> Any:
        if not rest:
            return py.item(tracer, obj, first)
        return make_tuple([py.item(tracer, obj, key) for key in (first, *rest)])

    return OperatorValue(operator.itemgetter, (first, *rest), {}, run)


@primitive(operator.attrgetter)
def _attrgetter(tracer: Tracer, first: Any, /, *rest: Any) -> Any:
    paths = [tracer.constant(path) for path in (first, *rest)]
    if not all(type(path) is str for path in paths):
        raise_what(operator.attrgetter, None)

    def read(tracer: Tracer, obj: Any, path: str) -> Any:
        for name in path.split("."):
            obj = py.attribute(tracer, obj, name)
        return obj

    def run(tracer: Tracer, obj: Any) -> Any:
        found = [read(tracer, obj, path) for path in paths]
        return make_tuple(found) if rest else found[0]

    return OperatorValue(operator.attrgetter, tuple(paths), {}, run)


@primitive(operator.methodcaller)
def _methodcaller(tracer: Tracer, name: Any, /, *args: Any, **kwargs: Any) -> Any:
    method = tracer.constant(name)
    if not isinstance(method, str):
        raise_what(operator.methodcaller, None)

    def run(tracer: Tracer, obj: Any) -> Any:
        return py.call(tracer, py.attribute(tracer, obj, method), list(args), kwargs)

    return OperatorValue(operator.methodcaller, (method, *args), kwargs, run)


class GivenOperatorValue(Value, models=(operator.itemgetter, operator.attrgetter, operator.methodcaller)):
    """One that existed before: it says what it is made of when it is asked how to copy it."""

    __slots__ = ()

    def call(self, tracer: Tracer, args: list[Any], kwargs: dict[str, Any]) -> Any:
        assert self.source is not None
        self.note(tracer)
        kind, given = self.concrete.__reduce__()
        if kind is not type(self.concrete):
            self.refuse("a call with keywords for the method")
        reduced = self.source.child("REDUCED")
        tracer.guard(reduced.child("TUPLE_ITEM", 0), "IS", kind)
        made_of = py.items(tracer, tracer.wrap(given, reduced.child("TUPLE_ITEM", 1)))
        return py.call(tracer, py.call(tracer, tracer.known_object(kind), made_of, {}), args, kwargs)
