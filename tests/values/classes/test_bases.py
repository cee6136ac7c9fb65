"""Bases of class statements that are no classes: `NamedTuple`, `Generic[T]`, `list[int]`, objects with an opinion."""

from __future__ import annotations

import sys
from typing import Any, Generic, NamedTuple, TypedDict, TypeVar

import framelift
from tests.values.programs import Programs, follow, x

programs = Programs()
T = TypeVar("T")
K = TypeVar("K")


@programs
def named_tuple(x):
    class Point(NamedTuple):
        first: Any
        second: int = 2

    point = Point(x + 1)
    return (
        point.first * point.second,
        point._fields,
        Point._field_defaults,
        [*Point.__annotations__],
        Point.__orig_bases__,
    )


@programs
def named_tuple_with_methods(x):
    class Point(NamedTuple):
        first: Any
        second: int = 2

        def total(self):
            return self.first * self.second

        @property
        def negated(self):
            return -self.first

        @classmethod
        def of(cls, value):
            return cls(value, 5)

    point = Point.of(x)
    first, second = point
    return (
        point.total(),
        point.negated,
        first * second,
        len(point),
        point._asdict()["second"],
        point._replace(second=1)[1],
    )


@programs
def named_tuple_by_a_call(x):
    point = NamedTuple("Point", [("first", Any), ("second", int)])(x, 2)
    return point.first * point.second, point._replace(second=4).second


@programs
def generic(x):
    class Box(Generic[T]):
        def __init__(self, value):
            self.value = value

        def doubled(self):
            return self.value * 2

    return Box(x).doubled(), Box.__name__, Box.__parameters__, Box.__bases__, Box.__orig_bases__


@programs
def generic_beside_others(x):
    class Base:
        def __init_subclass__(cls, **keywords):
            super().__init_subclass__()
            cls.keywords = keywords

    class Pair(Base, Generic[K, T], factor=3):
        pass

    return x * Pair.keywords["factor"], Pair.__parameters__, Pair.__bases__[1]


@programs
def builtin_alias(x):
    class Ints(list[int]):
        def total(self):
            return sum(self)

    return x * Ints([1, 2]).total(), Ints.__bases__, Ints.__orig_bases__[0].__args__


@programs
def typed_dict(x):
    class Options(TypedDict):
        factor: int

    options = Options(factor=2)
    return x * options["factor"], type(options), [*Options.__annotations__]


class Several:
    def __init__(self, log, *bases):
        self.log = log
        self.bases = bases

    def __mro_entries__(self, given):
        self.log.append(("asked", len(given)))
        return self.bases


@programs
def bases_of_an_object(x):
    log = []

    class Left:
        factor = 2

    class Right:
        summand = 3

    class Made(Several(log, Left, Right), Several(log)):
        log.append("body")
        has_originals = "__orig_bases__" in locals()

    return x * Made.factor + Made.summand, log, len(Made.__orig_bases__), Made.has_originals, len(Made.__bases__)


@programs
def entries_that_are_no_tuple(x):
    class Odd:
        def __mro_entries__(self, given):
            return [object]

    try:

        class Made(Odd()):
            pass
    except TypeError as error:
        return x + 1, str(error)


@programs
def with_a_metaclass(x):
    log = []

    class Meta(type):
        def __new__(meta, name, bases, namespace, **keywords):
            log.append((name, len(bases), "__orig_bases__" in namespace))
            return super().__new__(meta, name, bases, namespace)

        @classmethod
        def __prepare__(meta, name, bases, **keywords):
            log.append((name, len(bases)))
            return {}

    class Base(metaclass=Meta):
        pass

    class Made(Several([], Base)):
        factor = 2

    return x * Made.factor, log, type(Made) is Meta


def calls_above():
    frame = sys._getframe(1)
    return frame.f_globals["__name__"], dict(frame.f_locals)


@programs(expect_breaks=0 if sys.version_info < (3, 13) else None)
def variables_of_the_caller(x):
    count = 3
    name, found = calls_above()
    return x * found["count"], name, sorted(found), count


test_programs = programs.test()


class Chosen:
    base: type = dict

    def __mro_entries__(self, given):
        return (self.base,)


def test_other_bases_are_seen():
    chosen = Chosen()

    def f(x):
        class Made(chosen):
            pass

        return x + 1, Made.__bases__[0].__name__

    follow(f, (x(),), lambda: setattr(chosen, "base", list))


def test_a_named_tuple_that_is_returned():
    def f(x):
        class Point(NamedTuple):
            first: Any
            second: int = 2

        return Point(x + 1)

    found = framelift.compile(f, backend="eager")(x())
    assert type(found).__name__ == "Point" and found._fields == ("first", "second") and type(found)(1).second == 2
    assert [*type(found).__annotations__] == ["first", "second"]
