"""What CPython's test modules that are not run regularly found, as small programs."""

from __future__ import annotations

import operator
import sys
import types
import typing

from framelift import config
from tests.helpers import check
from tests.values.programs import Programs, x

programs = Programs()


# -- asking about classes --------------------------------------------------------------------------------------------


class SaysYes(type):
    def __subclasscheck__(cls, other):
        return other == 5


class Asked(metaclass=SaysYes):
    pass


class WithBases:
    def __init__(self, *bases):
        self.__bases__ = bases


@programs
def metaclass_is_asked_about_anything(x):
    return x + 1, issubclass(5, Asked), issubclass(6, (Asked, Asked)), issubclass(5, ())


@programs(expect_breaks=None)
def objects_that_stand_for_classes(x):
    base = WithBases()
    try:
        found = issubclass(WithBases(base), WithBases)
    except TypeError as error:
        found = str(error)
    return x + 1, found


@programs
def subclass_of_what_is_no_class(x):
    try:
        issubclass(5, (str, int))
    except TypeError as error:
        return x + 1, str(error)


@programs(expect_breaks=None)
def type_expressions_of_the_wrong_words(x):
    found = []
    for words in ("/T", "T", 5):
        try:
            found.append(typing.List[words])
        except (SyntaxError, TypeError) as error:
            found.append((type(error), error.args))
    return x + 1, found


# -- numbers ---------------------------------------------------------------------------------------------------------


class OwnIndex(int):
    def __index__(self):
        return int(self) + 1


class TrueIndex:
    def __index__(self):
        return True  # noqa: PLE0305  (what Python warns of)


@programs
def numbers_are_not_asked_for_their_index(x):
    number = OwnIndex(2)
    return x + 1, number.__index__(), operator.index(number), [1, 2, 3, 4][number], "abcd"[number:], hex(number)


@programs(expect_breaks=None, expect_ops=0)
def index_that_is_no_plain_number(x):
    return x + 1, operator.index(TrueIndex()), [1, 2][TrueIndex()]


class Answers:
    """Gives the same from every special method that must give a certain type."""

    def __init__(self, given):
        self.given = given

    def __str__(self):
        return self.given

    def __format__(self, spec):
        return self.given

    def __bool__(self):
        return self.given

    def __len__(self):
        return self.given


def answer(function, *args):
    try:
        return function(*args)
    except Exception as error:
        return type(error), str(error)


@programs
def answers_of_the_wrong_type(x):
    found = [
        answer(function, Answers(given))
        for given in ("abc", 5, None, NotImplemented, sys.maxsize + 1, -sys.maxsize - 10)
        for function in (str, format, bool, len, "{}".format)
    ]
    return x + 1, found, len(Answers(True)) is True


class Text(str):
    pass


@programs(expect_breaks=None, expect_ops=0, expect_hit=False)
def texts_of_a_subclass(x):
    return x + 1, type(str(Answers(Text("a")))), type(format(Answers(Text("a"))))


# -- iterators -------------------------------------------------------------------------------------------------------


class OwnStop(StopIteration):
    pass


class Stopping:
    def __init__(self, error):
        self.error = error

    def __iter__(self):
        return self

    def __next__(self):
        raise self.error


@programs
def the_very_exception_that_ends_an_iterator(x):
    found = []
    for error in (StopIteration(1, 2), OwnStop(3), OwnStop()):
        for iterator in (Stopping(error), map(str, Stopping(error))):
            try:
                next(iterator)
            except StopIteration as stop:
                found.append((stop is error, stop.args, stop.value, next(iterator, 7), list(iterator)))
    return x + 1, found


def ids_of_many(x, n):
    return x + len({id((n,)) for n in range(n)})


def test_many_keys_that_are_numbers_nobody_knows():
    with config.patch(trace_limit=100):
        check(lambda x, n: ids_of_many(x, n) * 0, x(), 50, expect_breaks=None, expect_ops=0)


@programs(expect_breaks=1, expect_ops=0)
def super_of_nothing(x):
    try:
        super(None)
    except TypeError as error:
        return x + 1, str(error)


# -- modules ---------------------------------------------------------------------------------------------------------


@programs(expect_breaks=None, expect_hit=None)
def what_modules_have_from_their_type(x):
    return x + 1, hasattr(types, "__eq__"), types.__annotations__, types.__str__() == str(types)


test_programs = programs.test()
