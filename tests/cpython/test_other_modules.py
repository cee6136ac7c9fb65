"""What CPython's test modules that are not run regularly found, as small programs."""

from __future__ import annotations

import collections
import copy
import operator
import os
import string
import sys
import types
import typing

import pytest

import framelift
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


# -- operators -------------------------------------------------------------------------------------------------------


class Number(int):
    pass


class Words(str):
    pass


class Twice:
    def __index__(self):
        return 2


@programs(expect_breaks=None, expect_ops=0)
def operands_go_by_their_own_names(x):
    found = []
    for left in (Number(3), Words("a"), collections.OrderedDict()):
        for right in (2.5, 1j, "s", [1], (2,), None):
            for function in (operator.and_, operator.lt, operator.ge, operator.ior, operator.sub, divmod):
                found.append((answer(function, left, right), answer(function, right, left)))
    return x + 1, found


@programs(expect_breaks=None, expect_ops=0, expect_hit=False)
def sequences_are_not_repeated_in_place(x):
    found = [answer(operator.imul, left, right) for left in (Number(2), Twice(), {}, 2) for right in ("ab", [1])]
    return x + 1, found, answer(operator.mul, Twice(), "ab")


@programs
def numbers_that_answer_objects(x):
    return x + 1, divmod(Number(7), 2.5), divmod(7.5, Number(2)), divmod(Number(7), Number(2))


@pytest.mark.parametrize("other", [2j, "ab", b"ab", None])
def test_symbolic_numbers_with_other_constants(other):
    def f(x, n, other):
        found = [
            answer(function, left, right)
            for function in (operator.add, operator.mul, operator.ior, operator.lt, operator.eq, divmod)
            for left, right in ((n, other), (other, n))
        ]
        return x + n, found

    check(f, x(), 3, other, changed=[(x(), n, other) for n in (4, 5, 6)], expect_breaks=None, expect_ops=0)


# -- objects that hold themselves ------------------------------------------------------------------------------------


class Holder:
    def __init__(self, name, held=None):
        self.name = name
        self.held = held

    def __hash__(self):
        return hash(self.name)

    def __eq__(self, other):
        return self is other


@programs(expect_breaks=None)
def sets_that_hold_themselves(x):
    x = x + 1
    members = set()
    members.add(Holder("a", members))
    framelift.graph_break()
    (member,) = members
    return x, member.held is members


@programs(expect_breaks=None)
def tuples_and_frozen_sets_that_hold_themselves(x):
    x = x + 1
    first, second = Holder("a"), Plain()
    pair, frozen = (first, 1), frozenset([second])
    first.held, second.held = pair, frozen
    framelift.graph_break()
    (member,) = frozen
    return x, pair[0].held is pair, member.held is frozen, first is pair[0], second is member


class Plain:
    pass


class SlottedList(list):
    __slots__ = ["label"]  # noqa: RUF012


@programs
def slots_named_in_a_list(x):
    made = SlottedList([1, 2])
    made.label = "a"
    copied = copy.copy(made)
    return x + 1, copied, copied.label


# -- plain data ------------------------------------------------------------------------------------------------------


class Path:
    def __init__(self, path):
        self.path = path

    def __fspath__(self):
        return self.path


@programs
def paths_of_anything(x):
    found = [answer(os.fspath, value) for value in ("a", b"b", Path("c"), Path(5), 5, None)]
    return x + 1, found, type(os.fspath(Words("d"))), answer(os.path.join, "a", 3), os.path.join("a", Path("b"))


@programs
def interned_texts(x):
    return x + 1, answer(sys.intern, "a"), answer(sys.intern, Words("b")), answer(sys.intern, 5)


@programs(expect_breaks=None, expect_ops=0)
def templates_that_end_in_an_error(x):
    return x + 1, [
        answer(lambda text: list(string.Formatter().parse(text)), text) for text in ("{a!r}", "b{a!rr}", "{")
    ]


# -- modules ---------------------------------------------------------------------------------------------------------


@programs(expect_breaks=None, expect_hit=None)
def what_modules_have_from_their_type(x):
    return x + 1, hasattr(types, "__eq__"), types.__annotations__, types.__str__() == str(types)


test_programs = programs.test()
