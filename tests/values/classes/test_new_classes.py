"""Class statements and three-argument type() in functions."""

from __future__ import annotations

import datetime

import pytest
import torch

import framelift
from tests.helpers import check
from tests.values.programs import Programs, x

programs = Programs()


@programs()
def methods_and_attributes(x):
    class Scale:
        factor = 3

        def __init__(self, by):
            self.by = by

        def apply(self, t):
            return t * self.factor + self.by

    return Scale(1).apply(x), Scale.factor, Scale.__name__, Scale.__qualname__, Scale.__module__


class Outer:
    class Blocked(tuple):
        __class_getitem__ = None

    class Without:
        pass


@programs()
def classes_that_take_no_arguments(x):
    class Here:
        __class_getitem__ = None

    said = []
    for cls in (Here, Outer.Blocked, Outer.Without, int, datetime.date):
        try:
            cls[int]
        except TypeError as error:
            said.append(str(error))
    return x + 1, said


@programs(expect_breaks=None)
def types_of_odd_arguments(x):
    said = []
    for arguments in (("A", [], {}), ("A", (), []), (3, (), {}), ("A", (None,), {}), ("A", (bool,), {}), ("A", ())):
        try:
            type(*arguments)
        except TypeError as error:
            said.append(str(error))
    return x + 1, said


@programs()
def the_second_base_is_told(x):
    class Left:
        pass

    class Right:
        told = []

        def __init_subclass__(cls, **keywords):
            Right.told.append((cls.__name__, keywords))

    class Both(Left, Right, factor=3):
        pass

    class Below(Both):
        pass

    return x + len(Below.told), Right.told


@programs()
def methods_change_a_closed_over_list(x):
    seen = []

    class Log:
        def add(self, t):
            seen.append(t)
            return self

    Log().add(x).add(x + 1)
    return seen[0] + seen[1], len(seen)


@programs()
def inheritance_and_super(x):
    class A:
        def __init__(self):
            self.k = 1

        def f(self, t):
            return t + self.k

    class B(A):
        def __init__(self):
            super().__init__()
            self.k += 1

        def f(self, t):
            return super().f(t) * 2

    b = B()
    return b.f(x), isinstance(b, A), issubclass(B, A), type(b) is B, [c.__name__ for c in B.__mro__]


class Outside:
    unit = 2

    def double(self, t):
        return t * self.unit


@programs()
def a_real_base(x):
    class Inside(Outside):
        def double(self, t):
            return super().double(t) + 1

    return Inside().double(x), Inside.unit, Inside().unit


@programs()
def properties_static_and_class_methods(x):
    class P:
        scale = 2

        def __init__(self):
            self._v = 0

        @property
        def v(self):
            return self._v

        @v.setter
        def v(self, new):
            self._v = new + 1

        @staticmethod
        def plus(t, n):
            return t + n

        @classmethod
        def times(cls, t):
            return t * cls.scale

    p = P()
    p.v = 4
    return P.plus(p.times(x), p.v), P.times(x)


@programs()
def operators(x):
    class V:
        def __init__(self, t):
            self.t = t

        def __add__(self, other):
            return V(self.t + (other.t if isinstance(other, V) else other))

        __radd__ = __add__

        def __len__(self):
            return 3

        def __getitem__(self, i):
            return self.t[i]

        def __call__(self, n):
            return self.t * n

        def __eq__(self, other):
            return isinstance(other, V)

        def __repr__(self):
            return "V()"

    v = V(x)
    return (v + v + 1)(2), len(v), v[0], v == V(1), V.__hash__ is None, f"{v}", (1 + v).t


@programs()
def exceptions_of_its_own(x):
    class Problem(Exception):
        def __init__(self, code):
            super().__init__(f"code {code}")
            self.code = code

    class Worse(Problem):
        pass

    try:
        raise Worse(3)
    except Problem as error:
        return x + error.code, str(error), type(error).__name__


@programs()
def a_descriptor_with_a_name(x):
    class Field:
        def __set_name__(self, owner, name):
            self.name = "_" + name
            self.owner = owner.__name__

        def __get__(self, instance, owner=None):
            return self if instance is None else instance.__dict__[self.name]

        def __set__(self, instance, value):
            instance.__dict__[self.name] = value

    class Has:
        field = Field()

    h = Has()
    h.field = x
    return h.field + 1, Has.field.owner, list(h.__dict__)


@programs()
def init_subclass(x):
    names = []

    class Base:
        def __init_subclass__(cls, tag=None, **kwargs):
            super().__init_subclass__(**kwargs)
            names.append((cls.__name__, tag))

    class A(Base, tag=1):
        pass

    class B(A):
        pass

    return x + len(names), names


@programs()
def class_attributes_change(x):
    class Counter:
        n = 0

        def __init__(self):
            Counter.n += 1

    Counter()
    Counter()
    Counter.extra = 5
    del Counter.extra
    return x + Counter.n, hasattr(Counter, "extra")


@programs()
def names_of_the_body(x):
    k = 4

    class Body:
        a = k
        b = a * 2
        items = [i for i in range(3)]
        if b > 3:
            c = 1
        annotated: int = 7
        del a

    return x + Body.b + Body.c, Body.items, hasattr(Body, "a"), Body.annotated


@programs()
def slots(x):
    class S:
        __slots__ = ("a", "b")

        def __init__(self, a):
            self.a = a

    s = S(x)
    return s.a + 1, hasattr(s, "b"), hasattr(s, "__dict__")


@programs()
def three_arguments(x):
    A = type("A", (), {"k": 2, "f": lambda self, t: t * self.k})
    B = type("B", (A,), {"k": 3})
    return B().f(x), A.__name__, A.__module__


@programs()
def context_manager_and_iterator(x):
    log = []

    class Managed:
        def __enter__(self):
            log.append("in")
            return self

        def __exit__(self, kind, value, traceback):
            log.append(kind is not None)
            return True

        def __iter__(self):
            return iter([1, 2])

    with Managed() as m:
        x = x + sum(m)
        raise ValueError
    return x, log


@programs()
def a_module_of_its_own(x):
    class Doubler(torch.nn.Module):
        def forward(self, t):
            return t * 2

    return Doubler()(x)


@programs()
def used_as_keys(x):
    class A:
        pass

    class B:
        pass

    table = {A: 1, B: 2}
    return x + table[B], A in table, A == B, len({A, A, B})


@programs()
def diamonds_over_a_real_base(x):
    class A(Outside):
        def double(self, t):
            return super().double(t) + 1

    class B(Outside):
        def double(self, t):
            return super().double(t) * 3

    class C(A, B):
        def double(self, t):
            return super().double(t) - 1

    return C().double(x), [cls.__name__ for cls in C.__mro__], isinstance(C(), Outside)


@programs()
def a_class_for_each_turn(x):
    made = []
    for i in range(3):

        class Turn:
            n = i

            def f(self):
                return self.n + i  # noqa: B023

        made.append(Turn)
    return x + 1, [cls.n for cls in made], [cls().f() for cls in made], made[0] is made[1]


@programs()
def operators_that_decline(x):
    class A:
        def __init__(self, v):
            self.v = v

        def __ge__(self, other):
            return self.v >= other.v

        def __sub__(self, other):
            return NotImplemented

        def __rsub__(self, other):
            return "reflected"

    found = [A(2) <= A(3), 5 - A(1)]
    for wrong in (lambda: A(1) - A(2), lambda: A(1) < A(2)):
        try:
            wrong()
        except TypeError as error:
            found.append(str(error))
    return x + 1, found


@programs()
def decorators_methods_and_names(x):
    def tagged(cls):
        cls.tag = cls.__name__.lower()
        return cls

    @tagged
    class Tagged:
        class Inner:
            k = 2

        def f(self):
            return 1

    a = Tagged()
    names = Tagged.f.__qualname__, Tagged.Inner.__qualname__, a.f.__func__ is Tagged.f, a.f == a.f
    try:
        Tagged.missing
    except AttributeError as error:
        return x + Tagged.Inner.k, a.tag, names, str(error)


def test_instances_and_classes_leave_the_frame():
    def fn(x):
        class Point:
            """A point."""

            dims = 2

            def __init__(self, t):
                self.t = t

            def moved(self):
                return Point(self.t + self.dims)

            def same(self):
                return __class__

        class Sub(Point):
            def moved(self):
                return super().moved()

        return Sub(x), Point, x + 1

    lifted = framelift.compile(fn, backend="eager", fullgraph=True)
    for _ in range(2):
        point, cls, _ = lifted(torch.ones(2))
        assert isinstance(point, cls) and type(point).__mro__[1] is cls
        assert (
            type(point).__name__ == "Sub" and cls.__doc__ == "A point." and cls.__qualname__ == fn(x())[1].__qualname__
        )
        assert torch.equal(point.moved().t, torch.full((2,), 3.0))
        assert point.same() is cls
        assert list(vars(cls))[:2] == ["__module__", "__doc__"] or "__module__" in vars(cls)
    assert lifted(torch.ones(2))[1] is not lifted(torch.ones(2))[1]


def test_a_class_lives_across_a_break():
    def fn(x):
        class A:
            def f(self, t):
                return t + 1

        a = A()
        y = a.f(x)
        framelift.graph_break()
        return a.f(y), isinstance(a, A)

    check(fn, x(), expect_breaks=None, expect_hit=False)  # what follows gets another class each time


def test_a_base_that_is_patched_is_seen():
    class Base:
        def f(self, t):
            return t + 1

    def fn(x):
        class Derived(Base):
            pass

        return Derived().f(x)

    lifted = framelift.compile(fn, backend="eager", fullgraph=True)
    assert torch.equal(lifted(torch.ones(2)), fn(torch.ones(2)))
    Base.f = lambda self, t: t * 5
    assert torch.equal(lifted(torch.ones(2)), fn(torch.ones(2)))
    Base.__init__ = lambda self: None
    Base.g = 3
    assert torch.equal(lifted(torch.ones(2)), fn(torch.ones(2)))


def test_no_subclass_of_the_users_class_is_left():
    class Base:
        pass

    def fn(x):
        class Derived(Base):
            pass

        return x + (1 if isinstance(Derived(), Base) else 2)

    framelift.compile(fn, backend="eager", fullgraph=True)(torch.ones(2))
    assert Base.__subclasses__() == []


def test_a_base_with_a_hook_is_a_break_and_runs_it_once():
    seen = []

    class Base:
        def __init_subclass__(cls):
            seen.append(cls.__name__)

    def fn(x):
        y = x + 1

        class Derived(Base):
            pass

        return y * 2

    lifted = framelift.compile(fn, backend="eager")
    lifted(torch.ones(2))
    assert seen == ["Derived"]


test_programs = programs.test()


def _failure(action):
    try:
        action()
    except (TypeError, ValueError) as error:
        return type(error).__name__, str(error)


def test_names_that_no_class_can_have():
    def fn(x):
        class Made:
            pass

        def name(value):
            Made.__name__ = value

        def qualified_name(value):
            Made.__qualname__ = value

        failures = [_failure(lambda: name(value)) for value in ("A\0B", b"A", "A\udcdcB")]
        failures.append(_failure(lambda: qualified_name(b"A")))
        failures.append(_failure(lambda: type("A", (), {"__doc__": "x\udcdcy"})))
        return x + 1, failures, Made.__name__, Made.__qualname__

    check(fn, torch.ones(2), expect_breaks=None)


def test_a_doc_that_is_a_descriptor():
    def fn(x):
        class Made:
            @property
            def __doc__(self):
                return "of an instance"

        class OfTheClass:
            @classmethod
            def __doc__(cls):
                return cls.__name__

        return x + 1, type(Made.__doc__), Made().__doc__, OfTheClass.__doc__()

    check(fn, torch.ones(2), expect_breaks=None)


def test_equal_numbers_as_attributes_are_different_ones():
    """A number given as 1 and one that is 1 are the same object, and yet not the same value."""

    def fn(x, first, second, word):
        class One:
            number = first
            other = second

        class Two:
            number = 0

        Two.number = len(word)
        return x * 2, One.number, One.other, Two.number

    lifted = framelift.compile(fn, backend="eager")
    for numbers in ((1, 1), (2, 1), (1, 3), (4, 5)):
        assert str(lifted(torch.ones(2), *numbers, "k")) == str(fn(torch.ones(2), *numbers, "k"))


def test_properties_know_the_names_of_their_attributes():
    def fn(x):
        class Made:
            @property
            def read_only(self):
                return x + 1

            @property
            def settable(self):
                return 1

            @settable.setter
            def settable(self, new):
                pass

        Made.later = property(lambda self: 2)
        Made.again = Made.read_only
        words = []
        for name in ("read_only", "later", "again"):
            try:
                setattr(Made(), name, 1)
            except AttributeError as error:
                words.append(str(error))
        try:
            del Made().settable
        except AttributeError as error:
            words.append(str(error))
        return Made().read_only, words

    check(fn, torch.ones(2))


def test_properties_of_a_class_that_is_given_back_know_their_names():
    class Holder:
        pass

    def fn(x, holder):
        class Made:
            @property
            def read_only(self):
                return 1

        holder.made = Made
        return x + 1

    words = []
    for function in (fn, framelift.compile(fn, backend="eager")):
        holder = Holder()
        function(torch.ones(2), holder)
        with pytest.raises(AttributeError) as raised:
            holder.made().read_only = 1
        words.append(str(raised.value))
    assert words[0] == words[1]


def test_breaks_between_a_function_and_its_closure():
    """The class is kept from being traced again and again, up to the first instruction of the functions before it."""

    def fn(x):
        class Named:
            def __set_name__(self, owner, name):
                raise ValueError("no " + name)

        try:

            class Refused:
                named = Named()

        except (ValueError, RuntimeError) as error:
            words = [type(error).__name__]

        class Base:
            def __init_subclass__(cls, *, needed):
                cls.needed = needed

        class Made(Base, needed=3):
            pass

        try:

            class Wrong(odd=1):
                pass

        except TypeError as error:
            words.append(str(error))
        return (x + 1) * Made.needed, words

    check(fn, torch.ones(2), expect_breaks=None, expect_ops=0, expect_hit=False)
