"""Classes the program makes with metaclasses and C types as bases: enumerations, dataclasses, named tuples, ABCs."""

from __future__ import annotations

import abc
import collections
import dataclasses
import enum
import types

import pytest
import torch

import framelift
from tests.helpers import check
from tests.values.cases import Cases, vector

cases = Cases()
X = vector()


class Meta(type):
    def __new__(mcs, name, bases, namespace, **keywords):
        namespace["size"] = len(namespace)
        return super().__new__(mcs, name, bases, namespace)

    def __init__(cls, name, bases, namespace, **keywords):
        super().__init__(name, bases, namespace)
        cls.keywords = sorted(keywords)

    def __call__(cls, *args):
        made = super().__call__(*args)
        made.called = True
        return made

    @property
    def twice(cls):
        return cls.__name__ * 2


SEEN = []


class Hooked:
    def __init_subclass__(cls, tag="none"):
        SEEN.append((cls.__name__, tag))
        cls.tag = tag


@cases(X)
def numbers_and_texts(x):
    class Number(int):
        def double(self):
            return self * 2

    class Text(str):
        pass

    class Real(float):
        def __repr__(self):
            return "real"

    n, t = Number(4), Text("ab")
    return x * n.double(), n + 1, type(n).__name__, t.upper(), isinstance(t, str), repr(Real(1.5)), Real(1.5) + 1


class Algebra(type):
    """Classes that can be computed with."""

    def __add__(cls, other):
        return cls.__name__, "+", other

    def __rsub__(cls, other):
        return other, "-", cls.__name__

    def __imul__(cls, other):
        return cls.__name__, "*=", other

    def __or__(cls, other):
        return cls.__name__, "|", other

    def __neg__(cls):
        return "-" + cls.__name__

    def __eq__(cls, other):
        return NotImplemented if other is None else isinstance(other, Algebra)

    __hash__ = type.__hash__

    def __lt__(cls, other):
        return cls.__name__ < other.__name__


class Known(metaclass=Algebra):
    pass


@cases(X)
def operators_of_metaclasses(x):
    class Made(metaclass=Algebra):
        pass

    found, words = [], []
    for cls in (Known, Made):
        changed = cls
        changed *= 3
        found += [cls + 1, 2 - cls, changed, cls | 4, -cls]
        found += [cls == Known, cls != Known, cls == 5, cls != 5, cls == None, cls != None, cls < Known]  # noqa: E711
        for wrong in (lambda cls=cls: cls - 1, lambda cls=cls: 1 + cls, lambda cls=cls: ~cls, lambda cls=cls: 1 * cls):
            try:
                wrong()
            except TypeError as error:
                words.append(str(error))
    return x + 1, found, words


class Level(enum.StrEnum):
    LOW = enum.auto()
    HIGH = "hi"


@cases(X)
def enumerations_made_by_a_call(x):
    Letter = enum.Enum("Letter", "A B")
    Number = enum.IntEnum("Number", {"ONE": 1, "TWO": 2})
    return x * Number.TWO, Letter.B.value, [letter.name for letter in Letter], "-".join(Level)


class OfAMetaclass(metaclass=Meta):
    pass


@cases(X)
def dataclasses_with_annotations_of_all_kinds(x):
    sizes = dataclasses.field(default_factory=list)
    fields = [("data", torch.Tensor), ("owner", OfAMetaclass, None), ("sizes", list[int], sizes)]
    fields += [("names", dict[str, list[torch.Tensor]] | None, None), ("shape", tuple[int, ...], ())]
    State = dataclasses.make_dataclass("State", fields)
    state = State(x)
    state.sizes.append(2)
    return state.data * state.sizes[0], State.__doc__, dataclasses.replace(state, data=1).data


@cases(X)
def containers(x):
    class Names(list):
        def top(self):
            return self[-1]

    class Table(dict):
        def __missing__(self, key):
            return key * 2

    class Ordered(collections.OrderedDict):
        pass

    names, table, ordered = Names([1, 2]), Table(a=1), Ordered(b=1)
    names.append(3)
    ordered["a"] = 2
    return x + names.top(), list(names), table["zz"], table["a"], list(ordered), isinstance(ordered, dict)


@cases(X)
def metaclass(x):
    class First(metaclass=Meta, flag=1):
        y = 2

        def __init__(self, value):
            self.value = value

    class Second(First):
        pass

    made = First(5)
    kinds = (type(Second) is Meta, isinstance(Second, Meta), Second.__mro__[1] is First)
    return x + made.value, made.called, First.twice, First.keywords, First.size, Second.keywords, kinds


@cases(X)
def metaclass_made_here(x):
    class Local(type):
        @classmethod
        def __prepare__(mcs, name, bases):
            return {"prepared": name}

        def __len__(cls):
            return 7

        def __repr__(cls):
            return f"<{cls.__name__}>"

    class Made(metaclass=Local):
        pass

    return x + len(Made), Made.prepared, repr(Made), f"{Made}", "%s" % (Made,)


@cases(X)
def conflicting_metaclasses(x):
    class A(type):
        pass

    class B(type):
        pass

    class C(metaclass=A):
        pass

    class D(metaclass=B):
        pass

    found = []
    for bases in ((C, D), (C, C)):
        try:
            type("E", bases, {})
        except TypeError as error:
            found.append(str(error))
    return x + 1, found


@cases(X)
def enumerations(x):
    class Color(enum.Enum):
        RED = 1
        BLUE = enum.auto()

        @property
        def shout(self):
            return self.name + "!"

    class Level(enum.IntEnum):
        LOW = 1
        HIGH = 5

    class Mode(enum.Flag):
        A = enum.auto()
        B = enum.auto()

    flags = (Mode.A | Mode.B).value, Mode.A in (Mode.A | Mode.B), bool(Mode.A & Mode.B)
    names = [color.name for color in Color], Color["BLUE"].value, Color(1) is Color.RED, len(Color), Color.RED.shout
    return x + Level.HIGH, Level.LOW < Level.HIGH, flags, names, repr(Color.RED), str(Level.LOW), f"{Color.RED}"


@cases(X)
def enumeration_that_cannot_be(x):
    class Color(enum.Enum):
        RED = 1

    found = []
    for attempt in (lambda: Color(3), lambda: setattr(Color, "RED", 2), lambda: Color["GREEN"]):
        try:
            attempt()
        except (ValueError, AttributeError, KeyError) as error:
            found.append(type(error))
    return x + 1, found


@cases(X)
def dataclass(x):
    @dataclasses.dataclass
    class Point:
        x: int
        y: int = 3
        tags: list = dataclasses.field(default_factory=list)

    @dataclasses.dataclass(frozen=True, order=True)
    class Fixed:
        n: int

    p = Point(1)
    p.tags.append("a")
    try:
        Fixed(1).n = 2
    except dataclasses.FrozenInstanceError as error:
        text = str(error)
    names = [field.name for field in dataclasses.fields(Point)]
    return x + p.x + p.y, p == Point(1, 3, ["a"]), repr(p), names, Fixed(1) < Fixed(2), text, dataclasses.asdict(p)


@cases(X)
def named_tuple(x):
    Point = collections.namedtuple("Point", "x y", defaults=[5])
    p = Point(1)
    return x + p.x + p.y, tuple(p), tuple(p._replace(x=7)), Point._fields, p._asdict(), Point.__module__


class AllAbstract(abc.ABC):
    @property
    @abc.abstractmethod
    def prop(self): ...

    @classmethod
    @abc.abstractmethod
    def of_class(cls): ...

    @staticmethod
    @abc.abstractmethod
    def static(): ...

    @abc.abstractmethod
    def plain(self):
        return 1


@cases(X)
def abstract_methods_that_are_inherited(x):
    class Made(abc.ABC):
        @property
        @abc.abstractmethod
        def prop(self): ...

        @classmethod
        @abc.abstractmethod
        def of_class(cls): ...

        @abc.abstractmethod
        def plain(self): ...

    found = []
    for base in (AllAbstract, Made):

        class Half(base):
            def plain(self):
                return super().plain()

        class Whole(Half):
            prop = 3
            number = 4
            data = x
            inner = Made

            @classmethod
            def of_class(cls):
                return cls.__name__

            @staticmethod
            def static():
                return 5

        try:
            Half()
        except TypeError as error:
            found.append(str(error))
        found += [sorted(Half.__abstractmethods__), sorted(Whole.__abstractmethods__), Whole().of_class()]
    return x * Whole().prop, found


@cases(X)
def abstract(x):
    class Base(abc.ABC):
        @abc.abstractmethod
        def f(self): ...

        @property
        @abc.abstractmethod
        def p(self): ...

    class Concrete(Base):
        p = 2

        def f(self):
            return 3

    try:
        Base()
    except TypeError as error:
        text = str(error)
    return x + Concrete().f(), text, sorted(Base.__abstractmethods__), isinstance(Concrete(), Base)


@cases(X)
def namespaces(x):
    class A:
        y = 1

        def f(self):
            return self.y

    class B(A):
        pass

    A.z = 2
    listed = sorted(name for name in A.__dict__ if not name.startswith("__"))
    try:
        A.__dict__["y"] = 3
    except TypeError as error:
        text = str(error)
    return x + A.__dict__["y"], listed, "y" in B.__dict__, A.__dict__.get("q", 5), text, vars(A)["z"]


@cases(X)
def listed(x):
    class A:
        def __init__(self):
            self.n = 1

        def __dir__(self):
            return ["b", "a"]

    class B(A):
        __dir__ = object.__dir__

    def inner(b, a):
        return dir()

    return x + 1, dir(A()), "n" in dir(B()), inner(1, 2), "upper" in dir("text"), dir(int)[-1], A.mro()[-1]


@cases(X)
def mapping_proxy(x):
    table = {"a": 1}
    view = types.MappingProxyType(table)
    table["b"] = 2
    try:
        view["c"] = 3
    except TypeError as error:
        text = str(error)
    return x + view["b"], sorted(view), view.get("q"), len(view), text, repr(view), type(view)


@cases(X)
def slots_and_bases(x):
    class A:
        __slots__ = ("a",)

    class B(A):
        __slots__ = ("b",)

    made = B()
    made.a, made.b = 1, 2
    try:
        made.c = 3
    except AttributeError as error:
        text = str(error)
    return x + made.a + made.b, text, hasattr(made, "__dict__")


@cases(X)
def formatted(x):
    class Loud(str):
        def __str__(self):
            return "LOUD"

        def __format__(self, spec):
            return f"<{spec}>"

    class Thing:
        name = "thing"
        parts = [1, 2]

        def __repr__(self):
            return "a thing"

    loud, thing = Loud("quiet"), Thing()
    texts = (
        "%s" % loud,
        "{} {:>3}".format(loud, loud),
        "%r %s" % (thing, [thing]),
        "{0.name} {0.parts[1]}".format(thing),
    )
    return x + 1, texts, "%(a)s" % {"a": thing}, "{a!r}".format_map({"a": thing}), "%s" % (Thing,)


test_programs = cases.test


def test_hooks_of_real_bases_run_once_and_templates_leave_no_trace():
    def f(x):
        class Below(Hooked, tag="mine"):
            pass

        return x + 1, Below.tag

    SEEN.clear()
    lifted = framelift.compile(f, backend="eager", fullgraph=True)
    assert lifted(torch.ones(1))[1] == "mine" and SEEN == [("Below", "mine")]
    assert Hooked.__subclasses__() == []


@pytest.mark.parametrize("base", [int, dict, list])
def test_instances_are_returned(base):
    def f(x):
        class Made(base):
            extra = 5

            def get(self, *_):
                return self.extra

        made = Made()
        made.own = x * 2
        return x + 1, made

    _, made = framelift.compile(f, backend="eager", fullgraph=True)(torch.ones(2))
    assert isinstance(made, base) and made.get() == 5 and made.own.equal(torch.full((2,), 2.0))


def test_abstract_classes_are_returned():
    def f(x):
        class Base(abc.ABC):
            @abc.abstractmethod
            def f(self): ...

        return x + 1, Base

    _, base = framelift.compile(f, backend="eager", fullgraph=True)(torch.ones(2))
    with pytest.raises(TypeError, match="abstract"):
        base()
    base.register(int)
    assert isinstance(3, base)


def test_a_namespace_that_is_no_mapping():
    def fn(x):
        class Meta(type):
            @classmethod
            def __prepare__(*_):
                return None

        try:

            class Made(metaclass=Meta):
                pass

        except TypeError as error:
            return x + 1, str(error)

    check(fn, torch.ones(2), expect_breaks=None)
