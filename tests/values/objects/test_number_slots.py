"""Numbers that built-in functions ask objects for, and what they say where an object has none."""

from __future__ import annotations

import collections
import decimal
import enum
import fractions
import math
import typing

from tests.helpers import check
from tests.values.programs import Programs, follow, x

programs = Programs()
Pair = collections.namedtuple("Pair", "a b")


class Named(typing.NamedTuple):
    a: int
    b: str = "b"


class Color(enum.Enum):
    RED = 1
    CRIMSON = 1
    BLUE = 2


class Nothing:
    pass


class Index:
    def __index__(self):
        return 7


class Amount:
    def __init__(self, value):
        self.value = value

    def __round__(self, digits=None):
        return round(self.value, digits), digits

    def __floor__(self):
        return "floor"

    def __float__(self):
        return self.value

    def __complex__(self):
        return 2j

    def __divmod__(self, other):
        return NotImplemented if other == 3 else ("divmod", other)

    def __rdivmod__(self, other):
        return "rdivmod", other


class More(Amount):
    def __rdivmod__(self, other):
        return "more"


class OwnComplex(complex):
    def __complex__(self):
        return 42j


class PlainComplex(complex):
    pass


@programs(expect_breaks=None)
def complex_numbers_of_complex_numbers(x):
    return (
        x + 1,
        complex(OwnComplex(1j)),
        complex(PlainComplex(1j)),
        complex(OwnComplex(1), 2),
        complex(1, OwnComplex(1j)),
    )


@programs
def rounded(x):
    amount = Amount(2.55)
    return x + 1, round(amount), round(amount, 1), math.floor(amount), math.ceil(amount), math.trunc(amount.value)


@programs
def converted(x):
    amount, index = Amount(2.5), Index()
    return x + float(amount), complex(amount), float(index), int(index), complex(index), math.ceil(index), hex(index)


@programs
def divided(x):
    amount, more = Amount(1.0), More(2.0)
    return x + 1, divmod(amount, 2), divmod(2, amount), divmod(amount, more), divmod(more, 5), divmod(3.5, amount)


@programs
def fractions_are_rounded(x):
    third = fractions.Fraction(7, 3)
    parts = math.floor(third), math.ceil(third), math.trunc(-third), round(third), round(third, 1)
    return x + float(third), parts, divmod(third, 1), divmod(7, third), complex(third), abs(-third), int(third)


@programs
def without_such_a_method(x):
    found = []
    functions = [abs, round, float, int, complex, math.floor, math.ceil, math.trunc]
    functions += [lambda value: divmod(value, 2), lambda value: divmod(2, value), lambda value: divmod(value, value)]
    functions += [lambda value: round(value, 2), lambda value: pow(value, 2, 3), lambda value: [*value]]
    for function in functions:
        try:
            function(Nothing())
        except TypeError as error:
            found.append(str(error))
    return x + 1, found


@programs
def what_cannot_be_called(x):
    found = []
    for attempt in (lambda: iter(1, 2), lambda: list(map(3, [1])), lambda: sorted([2, 1], key=3)):
        try:
            attempt()
        except TypeError as error:
            found.append(str(error))
    return x + 1, found


@programs(expect_breaks=None, expect_ops=0)
def properties_without_a_setter(x):
    try:
        property(lambda self: 1).__set__(x, 2)
    except AttributeError as error:
        return x + 1, type(error)


@programs
def named_tuples_as_keys(x):
    found = {Pair(1, 2): "named", (3, 4): "plain"}
    found[(1, 2)] = "again"
    members = {Pair(5, 6), (5, 6), Named(5, "b")}
    return (
        x + len(found),
        found[Pair(3, 4)],
        list(found),
        len(members),
        Named(1) in found,
        hash(Pair(1, 2)) == hash((1, 2)),
    )


@programs
def named_tuples_count(x):
    counts = collections.Counter([Pair(1, 2), Pair(1, 2), Pair(2, 1)])
    return x + counts[1, 2], counts.most_common(1), {Named(1): x}[Named(1)]


@programs
def hashes_of_members(x):
    return x + 1, hash(Color.RED) == hash(Color.CRIMSON), hash(Color.RED) == hash("RED"), {Color.BLUE: 3}[Color.BLUE]


class Unsure:
    def __divmod__(self, other):
        return NotImplemented

    def __pow__(self, other, modulus=None):
        return NotImplemented


class Reflected:
    def __rdivmod__(self, other):
        return "reflected"


@programs
def the_other_operand_is_asked(x):
    try:
        divmod(Unsure(), 3)
    except TypeError as error:
        said = str(error)
    try:
        divmod(decimal.Decimal(3), Unsure())
    except TypeError as error:
        return x + 1, divmod(Unsure(), Reflected()), divmod(decimal.Decimal(1), Reflected()), said, str(error)


@programs
def nobody_divides(x):
    number, said = decimal.Decimal(3), []
    pairs = (([1], 2), (x, 2), (2, x), ("a", 1), (number, "a"), ((x,), number), ({}, []))
    for left, right in pairs:
        try:
            divmod(left, right)
        except TypeError as error:
            said.append(str(error))
    for other in ("a", [1], None):
        try:
            number + other
        except TypeError as error:
            said.append(str(error))
        try:
            number * other
        except TypeError as error:
            said.append(str(error))
    return x + 1, said


test_programs = programs.test()


def test_a_sequence_of_a_class_of_its_own_has_its_own_words():
    def f(x, left):
        try:
            return left * x.shape
        except TypeError as error:
            return x + 1, str(error)

    for left in (Unsure(), decimal.Decimal(2), 2.5):
        check(f, x(), left, expect_breaks=None)


def test_powers_that_nobody_knows():
    def f(x):
        y = x + 1
        try:
            return pow(Unsure(), 2, 3)
        except TypeError as error:
            return y, str(error)

    check(f, x())


def test_a_method_that_is_added_is_seen():
    class Later:
        def __index__(self):
            return 2

    later = Later()
    follow(
        lambda x: x + float(later) + math.floor(later),
        (x(),),
        lambda: setattr(Later, "__float__", lambda self: 3.5),
        lambda: setattr(Later, "__floor__", lambda self: 9),
    )
