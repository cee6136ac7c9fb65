"""Classes: metaclasses, abstract classes, enumerations, classes as values."""

from __future__ import annotations

import abc
import enum

import pytest

from tests.helpers import check
from tests.values.programs import Programs, follow, x

programs = Programs()


class Registering(type):
    made = {}

    def __call__(cls, *args, **kwargs):
        made = super().__call__(*args, **kwargs)
        made.registered = cls.__name__
        return made

    def __getattr__(cls, name):
        return f"meta {name}"

    def __len__(cls):
        return 4

    def __contains__(cls, item):
        return item == 3

    def __getitem__(cls, item):
        return item * 2

    def __iter__(cls):
        return iter((1, 2))

    @property
    def size(cls):
        return 7

    def method(cls):
        return cls.__name__


class Registered(metaclass=Registering):
    def __init__(self, k):
        self.k = k


class Checking(type):
    def __instancecheck__(cls, obj):
        return obj == 3


class Checked(metaclass=Checking):
    pass


class Base:
    subclasses = []
    tag = "base"

    def __init_subclass__(cls, tag="none", **kwargs):
        super().__init_subclass__(**kwargs)
        cls.tag = tag
        Base.subclasses.append(cls.__name__)


class One(Base, tag="one"):
    pass


class Two(Base):
    pass


class Abstract(abc.ABC):
    @abc.abstractmethod
    def f(self, x): ...

    @property
    @abc.abstractmethod
    def p(self): ...

    def both(self, x):
        return self.f(x) + self.p


class Concrete(Abstract):
    def f(self, x):
        return x + 1

    @property
    def p(self):
        return 2


@programs
def metaclass_call(x):
    r = Registered(3)
    return x + r.k, r.registered, r


@programs
def metaclass_attributes(x):
    return (
        x + Registered.size,
        Registered.nothing,
        Registered.method(),
        len(Registered),
        3 in Registered,
        list(Registered),
    )


@programs
def metaclass_item(x):
    return x + Registered[4], bool(Registered)


@programs(expect_breaks=None, expect_ops=0)
def metaclass_instancecheck(x):
    return x + 1, isinstance(3, Checked), isinstance(4, Checked)


@programs
def init_subclass(x):
    return x + len(Base.subclasses), One.tag, Two().tag


@programs
def abstract_class(x):
    return Concrete().both(x), isinstance(Concrete(), Abstract), issubclass(Concrete, Abstract)


@programs
def abstract_class_made(x):
    try:
        Abstract()
    except TypeError as error:
        return x + 1, str(error)


@programs(expect_breaks=None, expect_ops=1, expect_hit=False)  # what comes after gets another class each time
def class_statement(x):
    y = x + 1

    class Inner:
        k = 3

    return y + Inner().k


@programs(expect_breaks=None, expect_ops=1, expect_hit=False)  # what comes after gets another class each time
def type_call(x):
    y = x + 1
    made = type("Made", (), {"k": 3})
    return y + made.k


@programs
def classes_as_values(x):
    table = {int: 1, str: 2, One: 3}
    kinds = [One, Two]
    return x + table[One], kinds[0]().tag, One is One, One == Two, One != Two, kinds, table[type("")]


@programs
def class_is_returned(x):
    return One, x + 1, type(x)


@programs
def classmethods(x):
    class_ = Concrete
    return class_.f(class_(), x), class_.both(Concrete(), x)


@programs(expect_breaks=None, expect_ops=1)
def class_attribute_written(x):
    y = x + 1
    One.fresh = 4
    try:
        return y + One.fresh
    finally:
        del One.fresh


def test_classes_as_inputs():
    def fn(cls, x):
        return x + len(cls.tag), cls()

    check(fn, One, x(), changed=[(Two, x()), (One, x())])


def test_a_metaclass_changes():
    meta = type("Meta", (type,), {})
    cls = meta("Class", (), {})

    def fn(x):
        made = cls()
        return x + getattr(made, "k", 0), getattr(cls, "z", None)

    def call(cls):
        made = type.__call__(cls)
        made.k = 5
        return made

    follow(fn, (x(),), lambda: setattr(meta, "__call__", call), lambda: setattr(meta, "z", 4))


def test_a_global_class_is_replaced():
    namespace = {}
    exec("class K:\n    v = 1\ndef fn(x):\n    return x + K().v", namespace)
    follow(namespace["fn"], (x(),), lambda: exec("class K:\n    v = 2", namespace))


# -- enumerations ----------------------------------------------------------------------------------------------------


class Color(enum.Enum):
    RED = 1
    GREEN = 2
    CRIMSON = 1

    def describe(self):
        return f"{self.name}={self.value}"

    @property
    def lower(self):
        return self.name.lower()

    @classmethod
    def default(cls):
        return cls.GREEN


class Level(enum.IntEnum):
    LOW = 1
    HIGH = 10


class Word(str, enum.Enum):
    A = "a"
    B = "b"


class Perm(enum.Flag):
    R = 1
    W = 2


class Auto(enum.Enum):
    P = enum.auto()
    Q = enum.auto()


@programs
def enum_members(x):
    return x + Color.RED.value, Color.RED.name, Color.RED is Color.CRIMSON, Color.RED is Color.GREEN, Color.GREEN


@programs
def enum_methods(x):
    return x + 1, Color.RED.describe(), Color.GREEN.lower, Color.default() is Color.GREEN, Auto.Q.value


@programs
def enum_comparison(x):
    return x + 1, Color.RED == Color.RED, Color.RED != Color.GREEN, Color.RED == 1, isinstance(Color.RED, Color)


@programs
def enum_as_key(x):
    table = {Color.RED: x + 1, Color.GREEN: 2}
    return table[Color.RED], Color.GREEN in table, table


@programs(expect_breaks=None)
def enum_iteration(x):
    y = x + 1
    return y, [c.name for c in Color], len(Color)


@programs(expect_breaks=None)
def enum_lookup(x):
    y = x + 1
    return y, Color(2), Color["RED"], Color.__members__["RED"]


@programs
def enum_dispatch(x):
    for c in (Color.RED, Color.GREEN):
        x = x + 1 if c is Color.RED else x * 2
    return x


@programs
def int_enum(x):
    return (
        x + Level.HIGH,
        Level.LOW + 1,
        Level.LOW < Level.HIGH,
        Level.HIGH == 10,
        -Level.LOW,
        3 * Level.HIGH,
        Level.LOW,
    )


@programs
def int_enum_more(x):
    return x * Level.HIGH.value, [5, 6][Level.LOW], bool(Level.LOW), Level.HIGH > 3, 3 < Level.HIGH, Level.LOW in (1, 2)


@programs(expect_breaks=None)
def int_enum_shapes(x):
    y = x + 1
    return y.sum(Level.LOW), y.size(Level.LOW)


@programs(expect_breaks=None)
def str_enum(x):
    y = x + 1
    return y, Word.A == "a", Word.A.value, Word.A is Word.A, Word.B


@programs(expect_breaks=None)
def flags(x):
    y = x + 1
    return y, Perm.R | Perm.W, Perm.R in (Perm.R | Perm.W), bool(Perm.R & Perm.W), Perm.R.value


@programs(expect_breaks=None)
def enum_text(x):
    y = x + 1
    return y, str(Color.RED), repr(Color.RED), f"{Level.LOW}", f"{Color.RED}", str(Level.HIGH)


def test_enums_as_inputs():
    def fn(c, x):
        return x + c.value if c is Color.RED else x * c.value

    check(fn, Color.RED, x(), changed=[(Color.GREEN, x()), (Color.RED, x())])


def test_int_enums_as_inputs():
    check(lambda c, x: (x + c, c), Level.LOW, x(), changed=[(Level.HIGH, x()), (3, x())])


def test_enums_inside_inputs():
    check(lambda d, x: x + d["c"].value, {"c": Color.RED}, x(), changed=[({"c": Color.GREEN}, x())])


@pytest.mark.parametrize("value", [Color.RED, Level.LOW, 1, None, "a", Word.A])
def test_enum_compared_with_anything(value):
    check(lambda c, x: (x + 1, c == Color.RED, c is Color.RED, c != Level.LOW), value, x(), expect_breaks=None)


test_programs = programs.test()
