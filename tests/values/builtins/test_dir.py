"""What a class has of its own, listed: `vars(cls)`, `dir()`. The names are guarded."""

from __future__ import annotations

import enum

import framelift
from tests.helpers import check
from tests.values.programs import x


class Base:
    field = 1

    def method(self):
        return self.field


class Derived(Base):
    other = 2


class Colour(enum.Enum):
    RED = 1
    BLUE = 2


def test_listed():
    def f(x):
        plain = {name: value for name, value in vars(Derived).items() if not name.startswith("_")}
        return x + plain["other"], plain, [name for name in dir(Derived()) if not name.startswith("_")], len(vars(Base))

    check(f, x())


def test_listed_through_a_metaclass():
    def f(x):
        return x + 1, dir(Colour), dir(Colour.RED), "RED" in vars(Colour)

    check(f, x())


def test_another_attribute_is_seen():
    class Growing:
        one = 1

    def f(x):
        return x + 1, [name for name in vars(Growing) if not name.startswith("_")]

    lifted = framelift.compile(f, backend="eager", fullgraph=True)
    assert lifted(x())[1] == ["one"]
    Growing.two = 2
    assert lifted(x())[1] == ["one", "two"]
    del Growing.one
    assert lifted(x())[1] == ["two"]


def test_another_attribute_of_a_base_is_seen():
    class Lower:
        pass

    class Upper(Lower):
        pass

    def f(x):
        return x + 1, [name for name in dir(Upper()) if not name.startswith("_")]

    lifted = framelift.compile(f, backend="eager", fullgraph=True)
    assert lifted(x())[1] == []
    Lower.field = 2
    assert lifted(x())[1] == ["field"]


def test_what_the_program_assigned_is_listed_by_python():
    class Changing:
        one = 1

    def f(x):
        Changing.two = 2
        return x + 1, [name for name in vars(Changing) if not name.startswith("_")]

    assert framelift.compile(f, backend="eager")(x())[1] == ["one", "two"]
