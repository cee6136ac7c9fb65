"""Attribute lookup: MRO, super, descriptors, properties, slots, __getattr__ and relatives; and what invalidates it."""

from __future__ import annotations

import functools
import inspect

import pytest
import torch

import framelift
from tests.helpers import check
from tests.helpers.untraced import print
from tests.values.programs import Programs, follow, x

programs = Programs()


class A:
    k = 1

    def f(self, x):
        return x + self.k

    def who(self):
        return "A"

    @classmethod
    def name(cls):
        return cls.__name__

    @property
    def double(self):
        return self.k * 2


class B(A):
    def f(self, x):
        return super().f(x) * 2

    def who(self):
        return "B" + super().who()


class C(A):
    def f(self, x):
        return super().f(x) - 3

    def who(self):
        return "C" + super().who()


class D(B, C):
    k = 5

    def who(self):
        return "D" + super().who()

    @property
    def double(self):
        return super().double + 1

    @classmethod
    def name(cls):
        return super().name() + "!"


@programs
def mro_and_super(x):
    d = D()
    return d.f(x), d.who(), d.k, D.k, A().k, d.double, D.name(), d.name(), B().name()


@programs
def two_argument_super(x):
    d = D()
    return super(B, d).f(x), super(C, d).who(), super(D, D).name(), super(A, d).__init__()


@programs
def super_in_comprehension_and_closure(x):
    class_ = D()

    def call():
        return [super(D, class_).f(x) for _ in range(2)]

    return call()


@programs
def super_has_no_attribute(x):
    try:
        super(A, D()).nothing
    except AttributeError as error:
        return x + 1, str(error)


class Mixin:
    def who(self):
        return "M" + super().who()


class Crossed(Mixin, A):
    def who(self):
        return "X" + super().who()


@programs
def super_across_branches(x):
    return x + 1, Crossed().who(), super(Mixin, Crossed()).k


class WithNew:
    def __new__(cls, k, *rest):
        self = super().__new__(cls)
        self.made = k
        return self

    def __init__(self, k, *rest):
        super().__init__()
        self.k = k + self.made


class NewElse:
    def __new__(cls, k):
        return k


class Counted:
    made = []

    def __new__(cls, *args):
        cls.made.append(len(args))
        return object.__new__(cls)


@programs
def new(x):
    w = WithNew(2, 3)
    return x + w.k, NewElse(x) is x, w


@programs(expect_hit=False, deterministic=False)
def new_with_effects(x):
    before = len(Counted.made)
    Counted()
    return x + len(Counted.made) - before


@programs
def init_errors(x):
    found = []
    for make in (lambda: A(1), lambda: WithNew(), lambda: A.__init__(A(), 1)):
        try:
            make()
        except TypeError as error:
            found.append(str(error))
    return x + 1, found


# -- class attributes ------------------------------------------------------------------------------------------------


@programs
def shadowed_by_instance(x):
    a = A()
    before = a.k
    a.k = 9
    after = a.k
    del a.k
    return x + before, after, a.k, A.k


@programs
def missing(x):
    found = []
    for read in (lambda: A().nothing, lambda: A.nothing, lambda: A().f.nothing):
        try:
            read()
        except AttributeError as error:
            found.append(str(error))
    return x + 1, found, hasattr(A(), "f"), hasattr(A(), "g"), getattr(A, "q", 3)


@programs
def delete_missing(x):
    a = A()
    try:
        del a.nothing
    except AttributeError as error:
        return x + 1, str(error)


@programs
def delete_class_attribute_through_instance(x):
    a = A()
    try:
        del a.k
    except AttributeError as error:
        return x + 1, str(error)


@programs
def class_introspection(x):
    return (
        x + 1,
        A.__name__,
        A.__qualname__,
        A.__module__,
        A.__doc__,
        D.__mro__,
        D.__bases__,
        A.__class__,
        A().__class__,
    )


@programs
def instance_dict(x):
    a = A()
    a.z = 1
    a.__dict__["y"] = x + 1
    return a.__dict__, vars(a) is a.__dict__, a.y, list(a.__dict__), "z" in a.__dict__, a


@programs
def functions_through_class(x):
    return A.f(A(), x), A.f is A.f, A().f == A().f, A.__dict__["k"] if False else 1


def fresh(**attributes):
    """A hierarchy of its own for each test that changes classes."""
    base = type("Base", (), {"k": 1, "f": lambda self, x: x + self.k, **attributes})
    derived = type("Derived", (base,), {})
    return base, derived


def uses(obj, x):
    return obj.f(x) * obj.k


def test_a_class_attribute_changes():
    base, derived = fresh()
    follow(uses, (derived(), x()), lambda: setattr(base, "k", 2), lambda: setattr(derived, "k", 3))


def test_an_attribute_is_added_lower_in_the_mro():
    base, derived = fresh()
    follow(uses, (derived(), x()), lambda: setattr(derived, "f", lambda self, x: x - 1), lambda: delattr(derived, "f"))


def test_a_method_is_monkeypatched():
    base, derived = fresh()
    follow(uses, (derived(), x()), lambda: setattr(base, "f", lambda self, x: x * 100))


def test_an_instance_attribute_shadows_later():
    _, derived = fresh()
    obj = derived()
    follow(uses, (obj, x()), lambda: obj.__dict__.update(k=7), lambda: obj.__dict__.clear())


def test_an_instance_method_shadows_later():
    _, derived = fresh()
    obj = derived()
    follow(uses, (obj, x()), lambda: setattr(obj, "f", lambda v: v * 9), lambda: delattr(obj, "f"))


def test_a_shadowed_class_attribute_becomes_a_property():
    base, derived = fresh()
    obj = derived()
    obj.k = 4
    follow(uses, (obj, x()), lambda: setattr(base, "k", property(lambda self: 50)))


def test_a_shadowed_class_attribute_becomes_a_descriptor():
    class Plain:
        pass

    base, derived = fresh(k=Plain())
    obj = derived()
    obj.k = 4

    def change():
        Plain.__get__ = lambda self, instance, owner: 9
        Plain.__set__ = lambda self, instance, value: None

    follow(uses, (obj, x()), change)


def test_an_attribute_object_becomes_a_descriptor():
    class Plain:
        pass

    base, derived = fresh(k=Plain())

    def fn(obj, x):
        return x + 1, obj.k

    follow(fn, (derived(), x()), lambda: setattr(Plain, "__get__", lambda self, instance, owner: 9))


def test_the_class_is_swapped():
    base, derived = fresh()
    other = type("Other", (base,), {"k": 8})
    obj = derived()
    follow(uses, (obj, x()), lambda: setattr(obj, "__class__", other))


def test_the_instance_dict_is_replaced():
    _, derived = fresh()
    obj = derived()
    obj.k = 2
    follow(uses, (obj, x()), lambda: setattr(obj, "__dict__", {"k": 6}))


def test_the_bases_are_replaced():
    base, derived = fresh()
    other = type("Other", (), {"k": 8, "f": lambda self, x: x})
    follow(uses, (derived(), x()), lambda: setattr(derived, "__bases__", (other,)))


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("__getattribute__", lambda self, name: (lambda x: x) if name == "f" else 30),
        ("__getattr__", lambda self, name: 30),
    ],
)
def test_lookup_itself_is_replaced(name, value):
    base, derived = fresh()

    def fn(obj, x):
        return uses(obj, x), getattr(obj, "q", None)

    follow(fn, (derived(), x()), lambda: setattr(derived, name, value), lambda: delattr(derived, name))


def test_setattr_is_added_later():
    _, derived = fresh()

    def fn(x):
        obj = derived()
        obj.k = 3
        return x + obj.k

    def refuse(self, name, value):
        object.__setattr__(self, name, 40)

    follow(fn, (x(),), lambda: setattr(derived, "__setattr__", refuse))


@pytest.mark.parametrize("name", ["__eq__", "__ne__", "__lt__"])
def test_comparison_is_added_later(name):
    _, derived = fresh()

    def fn(a, b, x):
        try:
            return x + 1, a == b, a != b, a < b
        except TypeError:
            return x - 1, a == b, a != b

    follow(fn, (derived(), derived(), x()), lambda: setattr(derived, name, lambda self, other: True))


@pytest.mark.parametrize(("name", "value"), [("__bool__", lambda self: False), ("__len__", lambda self: 0)])
def test_truth_is_added_later(name, value):
    _, derived = fresh()
    follow(lambda a, x: x + 1 if a else x - 1, (derived(), x()), lambda: setattr(derived, name, value))


def test_init_and_new_are_added_later():
    _, derived = fresh()

    def fn(x):
        return x + derived().k

    def init(self):
        self.k = 12

    def new(cls):
        made = object.__new__(cls)
        made.k = 13
        return made

    follow(
        fn,
        (x(),),
        lambda: setattr(derived, "__init__", init),
        lambda: (delattr(derived, "__init__"), setattr(derived, "__new__", new)),
    )


def test_super_sees_a_class_in_between():
    base = type("Base", (), {"f": lambda self: 1})
    middle = type("Middle", (base,), {})
    other = type("Other", (base,), {})
    both = type("Both", (middle, other), {})

    def fn(x):
        return x + super(both, both()).f()

    follow(
        fn,
        (x(),),
        lambda: setattr(other, "f", lambda self: 2),
        lambda: setattr(middle, "f", lambda self: 3),
        lambda: delattr(middle, "f"),
    )


# -- descriptors and properties --------------------------------------------------------------------------------------


class Typed:
    """A data descriptor."""

    def __set_name__(self, owner, name):
        self.name = "_" + name

    def __get__(self, instance, owner):
        if instance is None:
            return self
        return instance.__dict__.get(self.name, 0) + 1

    def __set__(self, instance, value):
        instance.__dict__[self.name] = value * 2

    def __delete__(self, instance):
        del instance.__dict__[self.name]


class NonData:
    def __get__(self, instance, owner):
        return (instance is None, owner.__name__)


class Described:
    t = Typed()
    n = NonData()

    def __init__(self):
        self.log = []

    @property
    def p(self):
        self.log.append("get")
        return self._p

    @p.setter
    def p(self, value):
        self.log.append("set")
        self._p = value

    @p.deleter
    def p(self):
        self.log.append("del")
        del self._p

    @property
    def read_only(self):
        return 1


@programs
def data_descriptor(x):
    d = Described()
    before = d.t
    d.t = 5
    d.__dict__["t"] = 99
    after = d.t
    del d.t
    return x + before + after, d.t, type(Described.t).__name__, d


@programs
def non_data_descriptor(x):
    d = Described()
    before = d.n, Described.n
    d.n = 4
    return x + d.n, before


@programs
def property_with_effects(x):
    d = Described()
    d.p = x + 1
    y = d.p
    del d.p
    return y, d.log, hasattr(d, "p"), d.log


@programs
def property_errors(x):
    d = Described()
    found = []
    for change in (lambda: setattr(d, "read_only", 1), lambda: delattr(d, "read_only")):
        try:
            change()
        except AttributeError as error:
            found.append(str(error))
    return x + d.read_only, found


@programs(args=(x(), Described()))
def input_with_property(x, d):
    d.p = x + 1
    d.t = 3
    return d.p * d.t


@programs
def write_only_property(x):
    class_ = type("W", (), {"w": property(None, lambda self, v: None)})
    return class_, x


write_only_property_case = programs.cases.pop()  # type() with three arguments is a break


class WriteOnly:
    w = property(None, lambda self, value: self.__dict__.update(v=value))


@programs
def property_without_getter(x):
    o = WriteOnly()
    o.w = 3
    try:
        o.w
    except AttributeError as error:
        return x + o.v, str(error)


def test_a_property_is_replaced():
    base, derived = fresh(k=property(lambda self: 1))
    follow(uses, (derived(), x()), lambda: setattr(base, "k", property(lambda self: 2)), lambda: setattr(base, "k", 3))


class Cached:
    def __init__(self):
        self.computed = 0

    @functools.cached_property
    def c(self):
        self.computed += 1
        return self.computed * 10


@programs
def cached_property(x):
    c = Cached()
    return x + c.c + c.c, c.computed, c


@programs(args=(x(), Cached()))
def cached_property_of_input(x, c):
    return x + c.c + c.c


@programs(expect_breaks=None)
def super_is_kept(x):
    y = x + 1
    d = D()
    s = super(D, d)
    print("break")
    return s.f(y), s.who()


# -- slots -----------------------------------------------------------------------------------------------------------


class Slotted:
    __slots__ = ("a", "b")

    def __init__(self, a):
        self.a = a


class Mixed(Slotted):
    """Slots of a base, and a namespace."""

    def __init__(self, a):
        super().__init__(a)
        self.c = a * 2


class SlottedWithDict:
    __slots__ = ("a", "__dict__")


@programs
def slots_made(x):
    s = Slotted(3)
    s.b = x + 1
    m = Mixed(2)
    m.b = s
    w = SlottedWithDict()
    w.a, w.z = 1, 2
    return s, m, w, x + m.c


@programs
def slots_unset(x):
    s = Slotted(3)
    found = []
    for action in (lambda: s.b, lambda: setattr(s, "z", 1), lambda: delattr(s, "b"), lambda: s.__dict__):
        try:
            action()
        except AttributeError as error:
            found.append(str(error))
    return x + 1, found, hasattr(s, "b")


@programs
def slots_deleted(x):
    s = Slotted(3)
    del s.a
    try:
        s.a
    except AttributeError:
        s.a = 4
    del s.a
    return x + 1, s


@programs(args=(x(), Slotted(x() + 1)))
def slots_of_input(x, s):
    y = s.a + x
    s.a = y
    s.b = 3
    return s.a + s.b


@programs(args=(x(), Mixed(2)))
def slots_and_dict_of_input(x, m):
    m.a += 1
    m.c += 1
    m.d = x + m.a
    return m.d * m.c


@programs(args=(x(), Slotted(1)))
def slot_of_input_deleted(x, s):
    del s.a
    return x + 1


@programs(args=(x(), Slotted(1)), expect_breaks=None)
def unset_slot_of_input(x, s):
    y = x + 1
    return y, hasattr(s, "b")


def test_a_slot_changes():
    s = Slotted(2)
    follow(lambda s, x: x + s.a, (s, x()), lambda: setattr(s, "a", 3))


# -- __getattr__ and relatives ---------------------------------------------------------------------------------------


class Dynamic:
    def __init__(self):
        self.asked = []

    def __getattr__(self, name):
        if name.startswith("__"):
            raise AttributeError(name)
        self.asked.append(name)
        if name == "bad":
            raise AttributeError("no bad")
        return len(name)


class Intercepting:
    def __init__(self):
        self.n = 0

    def __getattribute__(self, name):
        if name.startswith("x"):
            return name * 2
        return super().__getattribute__(name)

    def __setattr__(self, name, value):
        super().__setattr__(name, value)
        if name == "v":
            object.__setattr__(self, "n", self.n + 1)

    def __delattr__(self, name):
        object.__setattr__(self, "deleted", name)
        super().__delattr__(name)


class Both:
    def __getattribute__(self, name):
        raise AttributeError(name)

    def __getattr__(self, name):
        return name + "?"


class PropertyRaises:
    @property
    def p(self):
        raise AttributeError("inside")

    def __getattr__(self, name):
        return "fallback " + name


@programs
def getattr_fallback(x):
    d = Dynamic()
    found = d.abc, d.asked[0]
    try:
        d.bad
    except AttributeError as error:
        return x + found[0], str(error), d.asked, hasattr(d, "bad"), getattr(d, "bad", 1)


@programs
def intercepted(x):
    i = Intercepting()
    i.v = x + 1
    i.v = i.v * 2
    del i.v
    return x + i.n, i.xy, i.deleted, i


@programs
def both(x):
    return x + 1, Both().q, PropertyRaises().p, PropertyRaises().z


@programs(args=(x(), Dynamic(), Intercepting()))
def intercepting_inputs(x, d, i):
    i.v = d.hello
    return x + i.v + i.n, d.asked


def test_getattr_stops_being_asked():
    d = Dynamic()

    def fn(d, x):
        return x + d.zzz

    lifted = framelift.compile(fn, backend="eager")
    assert torch.equal(lifted(d, x()), x() + 3)
    d.zzz = 10
    assert torch.equal(lifted(d, x()), x() + 10)
    assert d.asked == ["zzz"]


def test_dynamic_attributes_by_name():
    def fn(a, x, name):
        return x + getattr(a, name), hasattr(a, name + "q")

    a = A()
    a.other = 4
    check(fn, a, x(), "k", changed=[(a, x(), "k"), (a, x(), "other")])


def test_setattr_by_name():
    def fn(a, x):
        for i, name in enumerate(("p", "q", "r")):
            setattr(a, name, x + i)
        delattr(a, "q")
        return sum(vars(a).values())

    check(fn, A(), x())


test_programs = programs.test()


class documented_property(property):
    """A property with something added."""

    def __init__(self, function, *, note=""):
        super().__init__(function)
        self.note = note


class Documented:
    def __init__(self, scale):
        self.scale = scale

    @documented_property
    def doubled(self):
        return self.scale * 2

    def both(self, x):
        return x * self.doubled


def test_a_subclass_of_property():
    check(Documented(3).both, torch.ones(2), changed=[(torch.zeros(3),)])


def test_a_subclass_of_property_replaced():
    lifted, x = framelift.compile(Documented.both, backend="eager", fullgraph=True), torch.ones(2)
    instance = Documented(3)
    assert torch.equal(lifted(instance, x), x * 6)
    kept = Documented.__dict__["doubled"]
    try:
        Documented.doubled = documented_property(lambda self: self.scale * 5)
        assert torch.equal(lifted(instance, x), x * 15)
    finally:
        Documented.doubled = kept
    assert torch.equal(lifted(instance, x), x * 6)


class Plain:
    __slots__ = ("kept",)
    size = 3


def reading_by_descriptors(x):
    plain = Plain()
    plain.kept = 4
    found = []
    try:
        type.__dict__["__mro__"].__get__(plain)
    except TypeError as error:
        found.append(str(error))
    found.append(type.__dict__["__dict__"].__get__(Plain)["size"])
    found.append(type.__dict__["__mro__"].__get__(Plain))
    found.append(Plain.__dict__["kept"].__get__(plain))
    found.append(int.__dict__["real"].__get__(5))
    found.append(Plain.kept.__objclass__ is Plain)
    return x + 1, found, inspect.getattr_static(Plain, "size"), inspect.getattr_static(plain, "other", None)


def test_reading_by_descriptors():
    check(reading_by_descriptors, torch.ones(2))


def texts_of_properties(x):
    class Documented:
        @property
        def given(self):
            """By its function."""

        named = property(lambda self: 1, doc="By itself.")
        bare = property()

    return x + 1, Documented.given.__doc__, Documented.named.__doc__, Documented.bare.__doc__


def test_texts_of_properties():
    check(texts_of_properties, torch.ones(2))
