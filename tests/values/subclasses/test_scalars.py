"""Instances of subclasses of numbers and strings."""

from __future__ import annotations

import datetime
import enum

import pytest
import torch

import framelift
from framelift.errors import FullGraphError
from tests.helpers import check
from tests.values.programs import Programs, follow, x

programs = Programs()


class Name(str):
    def shout(self):
        return self.upper() + "!"


class Number(int):
    def twice(self):
        return self * 2


class Tagged(int):
    def __new__(cls, value, tag):
        made = super().__new__(cls, value)
        made.tag = tag
        return made

    def __add__(self, other):
        return Tagged(int(self) + int(other), self.tag + "+")


class Rate(float):
    def __repr__(self):
        return f"Rate({float(self)})"


class Loud(str):
    def __eq__(self, other):
        return str.__eq__(self.lower(), other.lower())

    def __hash__(self):
        return hash(self.lower())


class Members(frozenset):
    pass


class Level(enum.IntEnum):
    LOW = 1
    HIGH = 5


class Mode(str, enum.Enum):
    SUM = "sum"


class Shown(enum.IntEnum):
    ONE = 1

    def __str__(self):
        return "one!"


class Weight(float):
    def __str__(self):
        return "heavy"


@programs
def formatted_without_a_specification(v):
    return v + 1, f"{Shown.ONE}", f"{Weight(2.5)}", format(Weight(2.5), ""), f"{Shown.ONE:>3}", f"{Weight(2.5):.3f}"


@programs()
def strings(x):
    s = Name("ab")
    parts = s.split("b"), s + "c", "c" + s, s * 2, s[0], s[::-1], len(s), s.shout(), s == "ab", s < "b", "a" in s
    return x + 1, parts, f"{s}|{s:>4}|{s!r}", "%s" % s, s.join(["1", "2"]), [c for c in s], bool(Name("")), str(s)


@programs()
def integers(x):
    n = Number(3)
    numbers = n + 1, 1 + n, n.twice(), -n, n // 2, n**2, n < 4, [10, 20, 30, 40][n], list(range(n)), divmod(n, 2)
    return x + n, x * n, n * x, numbers, n.bit_length(), sum([n, n]), max(n, 5), int(n), float(n), bool(Number(0))


@programs()
def floats(x):
    r = Rate(2.5)
    return x * r, r + 1, round(r), r.is_integer(), repr(r), f"{r:.1f}", abs(Rate(-1.0)), isinstance(r, float)


@programs()
def with_attributes_and_operators(x):
    t = Tagged(3, "a") + 4
    return x + t, t.tag, type(t).__name__, t == 7


@programs()
def as_keys(x):
    d = {Name("k"): 1, Number(2): 2}
    d["k"] = 3
    return x + d["k"], d[2], d[Name("k")], [type(key).__name__ for key in d], {"k": 5}[Name("k")], Loud("A") in {"a": 1}


@programs()
def frozen_sets(x):
    m = Members([1, 2])
    return x + len(m), 1 in m, m == {1, 2}, m | {3}


@programs()
def enumerations(x):
    return (
        x + Level.HIGH,
        Level.LOW < Level.HIGH,
        Mode.SUM.upper(),
        Mode.SUM + "s",
        Level.HIGH.bit_length(),
        Mode.SUM[0],
    )


@programs()
def leave_the_frame(x):
    made = Name("ab")
    made.note = 3
    return x + 1, made, Number(4), Tagged(1, "t"), Rate(1.5)


NAME = Name("outer")
RATE = Rate(0.5)
COUNT = Number(4)


def test_from_outside():
    def fn(x):
        return x * RATE, NAME.shout(), {"outer": 1}[NAME], len(NAME)

    check(fn, x(), fullgraph=True)


def test_another_object_is_seen():
    global RATE
    before = RATE

    def fn(x):
        return x * RATE

    def change():
        global RATE
        RATE = Rate(3.0)

    try:
        follow(fn, (x(),), change)
    finally:
        RATE = before


def test_what_guards_cannot_hold_is_a_break():
    def fn(x):
        return (x + 1) * COUNT

    check(fn, x(), expect_breaks=None)


def test_a_method_that_is_patched_is_seen():
    class Mine(str):
        pass

    def fn(x):
        return x + len(Mine("abc"))

    lifted = framelift.compile(fn, backend="eager", fullgraph=True)
    assert torch.equal(lifted(x()), fn(x()))
    Mine.__len__ = lambda self: 40
    assert torch.equal(lifted(x()), fn(x()))


test_programs = programs.test()


class Day(datetime.date):
    @property
    def age(self):
        return 2030 - self.year


class Feast(datetime.date, enum.Enum):
    FIRST = 2020, 1, 2
    SECOND = 2021, 3, 4


def _dates(x, day):
    other = datetime.date(year=2020, month=2, day=3)
    passed = day - other
    own = Day(2001, 5, 6)
    words = f"{day} {own}" + "%s {}".format(other) % passed
    made = [day.replace(year=1999), datetime.date.fromisoformat("2020-01-01"), datetime.timedelta(days=3) * 2]
    return (
        x * own.age + passed.days,
        words,
        own,
        made,
        {day: day < other},
        Feast(datetime.date(2020, 1, 2)),
        own == other,
    )


def test_dates_are_plain_data():
    first, second = datetime.date(2021, 1, 1), datetime.date(2022, 5, 5)
    check(_dates, x(), first, changed=[(x(), second)])


def test_a_date_is_guarded_by_value():
    record = check(
        lambda x, day: x + day.day, x(), datetime.date(2021, 1, 1), changed=[(x(), datetime.date(2021, 1, 2))]
    )
    assert "L['day'] == datetime.date(2021, 1, 1)" in " ".join(record.guards)


def test_what_depends_on_the_day_or_the_language_is_left_to_python():
    for function in (
        lambda x: (x + 1, datetime.date.today() > datetime.date(1999, 1, 1)),
        lambda x: (x + 1, Day.today() is None),
        lambda x: (x + 1, datetime.date(2020, 1, 1).strftime("%B")),
        lambda x: (x + 1, f"{datetime.date(2020, 1, 1):%B}"),
        lambda x: (x + 1, "{:%B}".format(datetime.date(2020, 1, 1))),  # noqa: UP032
        lambda x: (x + 1, f"{Day(2020, 1, 1):%B}"),
    ):
        check(function, x(), expect_breaks=None)
        with pytest.raises(FullGraphError, match="date|Day"):
            framelift.compile(function, backend="eager", fullgraph=True)(x())


def test_numbers_of_an_enumeration_that_are_no_members():
    """Each lives for one call, and the next may come to its address."""
    program = framelift.compile(lambda x, level: x * int(level), backend="eager")
    for number in (1, 2, 3, 4, 4):
        assert program(torch.ones(2), int.__new__(Level, number)).tolist() == [number, number]


class Reflecting(int):
    """Says something else than an int where it stands on the right: a tensor on the left does not ask it."""

    def __radd__(self, other):
        return "radd"

    def __gt__(self, other):
        return "gt"


class ReflectingFloat(float):
    def __rtruediv__(self, other):
        return "rtruediv"


def test_a_tensor_on_the_left_goes_first():
    def f(x):
        return x + Reflecting(2), x < Reflecting(1), x / ReflectingFloat(2.0), Reflecting(2) * x, 1 + Reflecting(2)

    check(f, torch.ones(3), fullgraph=True)
