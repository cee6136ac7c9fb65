"""User objects: special methods, identity, mutation, objects made and returned, dataclasses, keys."""

from __future__ import annotations

import copy
import dataclasses
import typing

import pytest
import torch

import framelift
from tests.helpers import check
from tests.helpers.canary import Canary
from tests.values.programs import Programs, follow, x

programs = Programs()


class Vector:
    """Every operator, written out."""

    def __init__(self, *items):
        self.items = list(items)

    def __add__(self, other):
        return (
            Vector(*[a + b for a, b in zip(self.items, other.items)]) if isinstance(other, Vector) else NotImplemented
        )

    def __radd__(self, other):
        return ("radd", other)

    def __iadd__(self, other):
        self.items.append(other)
        return self

    def __sub__(self, other):
        return NotImplemented

    def __rsub__(self, other):
        return ("rsub", other)

    def __mul__(self, k):
        return Vector(*[i * k for i in self.items])

    __rmul__ = __mul__

    def __matmul__(self, other):
        return sum(a * b for a, b in zip(self.items, other.items))

    def __neg__(self):
        return Vector(*[-i for i in self.items])

    def __pos__(self):
        return self

    def __invert__(self):
        return Vector(*reversed(self.items))

    def __abs__(self):
        return max(self.items)

    def __eq__(self, other):
        return isinstance(other, Vector) and self.items == other.items

    def __lt__(self, other):
        return len(self.items) < len(other.items)

    def __len__(self):
        return len(self.items)

    def __getitem__(self, index):
        return self.items[index]

    def __setitem__(self, index, value):
        self.items[index] = value

    def __delitem__(self, index):
        del self.items[index]

    def __contains__(self, item):
        return item in self.items

    def __iter__(self):
        return iter(self.items)

    def __call__(self, n, *, k=1):
        return n * k + len(self.items)

    def __repr__(self):
        return f"Vector{tuple(self.items)}"

    def __format__(self, spec):
        return f"[{spec}]"

    def __index__(self):
        return self.items[0]

    def __int__(self):
        return 40

    def __float__(self):
        return 4.5

    def __reversed__(self):
        return iter([1, 2])


class Bare:
    pass


class Sequence:
    """Only a length and items; the items are fewer than the length says, which ends a walk backwards early."""

    def __init__(self, *items, more=0):
        self.items = items
        self.more = more

    def __len__(self):
        return len(self.items) + self.more

    def __getitem__(self, index):
        return self.items[index]


class Countdown:
    def __init__(self, n):
        self.n = n

    def __iter__(self):
        return self

    def __next__(self):
        if self.n == 0:
            raise StopIteration
        self.n -= 1
        return self.n


class ManagerLess:
    def __bool__(self):
        return False


@programs
def arithmetic(x):
    v, w = Vector(1, 2), Vector(3, 4)
    return (v + w).items, (v * 3).items, (2 * v).items, v @ w, x + abs(w), (-v).items, +v is v, (~v).items


@programs
def reflected(x):
    v = Vector(1)
    return 1 + v, 5 - v, (x * v).items if False else 1, x + 1


@programs
def inplace(x):
    v = w = Vector(1)
    v += 2
    v *= 2
    return v.items, w.items, x + 1


@programs
def unsupported(x):
    found = []
    for action in (
        lambda: Vector(1) - Vector(2),
        lambda: Vector(1) / 2,
        lambda: Bare() + 1,
        lambda: 1 + Bare(),
        lambda: -Bare(),
        lambda: Bare() < Bare(),
        lambda: len(Bare()),
        lambda: Bare()[0],
        lambda: Bare().__setitem__,
        lambda: list(Bare()),
        lambda: Bare()(),
        lambda: 1 in Bare(),
        lambda: next(Bare()),
    ):
        try:
            found.append(action())
        except (TypeError, AttributeError) as error:
            found.append(str(error))
    return x + 1, found


@programs
def item_assignment_unsupported(x):
    b = Bare()
    try:
        b[0] = 1
    except TypeError as error:
        first = str(error)
    try:
        del b[0]
    except TypeError as error:
        return x + 1, first, str(error)


@programs
def comparisons(x):
    v, w = Vector(1, 2), Vector(1, 2)
    return x + 1, v == w, v != w, v is w, v < Vector(1, 2, 3), Vector(1, 2, 3) > v, v == 3, 3 == v, Bare() == Bare()


@programs
def container_protocol(x):
    v = Vector(3, 4, 5)
    v[0] = 7
    del v[1]
    return x + v[0], len(v), 5 in v, 9 in v, list(v), [*v], v[-1], bool(v), bool(Vector()), list(reversed(v))


@programs
def backwards_by_items(x):
    steps = reversed(Sequence(1, 2, 3))
    first = next(steps)
    return (
        x + first,
        list(steps),
        list(steps),
        list(reversed(Sequence(1, more=1))),
        type(reversed(Sequence())) is reversed,
    )


@programs
def backwards_over_what_has_no_items(x):
    try:
        reversed(Bare())
    except TypeError as error:
        return x + 1, str(error)


@programs
def unpacking(x):
    a, *b = Vector(1, 2, 3)
    return x + a, b, max(Vector(3, 1)), sorted(Vector(3, 1)), sum(Vector(1, 2))


@programs
def calling(x):
    v = Vector(1, 2)
    return x + v(3, k=2), callable(v), callable(Bare())


@programs
def text(x):
    v = Vector(1, "a")
    return x + 1, repr(v), str(v), f"{v}", f"{v:spec}", f"{v!r}", "%s" % (v,) if False else ""


@programs
def index_and_numbers(x):
    v = Vector(1)
    return x + 1, [10, 20, 30][v], int(v), float(v), list(range(3))[v:], "abc"[v] if False else ""


@programs
def truth(x):
    return x + 1, not ManagerLess(), bool(Bare()), 1 if ManagerLess() else 2, ManagerLess() or 3, Bare() and 4


@programs
def wrong_truth(x):
    class_ = [WrongBool(), WrongLen(), NegativeLen()]
    found = []
    for value in class_:
        try:
            found.append(bool(value))
        except (TypeError, ValueError) as error:
            found.append(str(error))
    return x + 1, found


class WrongBool:
    def __bool__(self):
        return 1  # noqa: PLE0304


class WrongLen:
    def __len__(self):
        return "a"  # noqa: PLE0303


class NegativeLen:
    def __len__(self):
        return -1  # noqa: PLE0303


class WrongIter:
    def __iter__(self):
        return 3


class WrongRepr:
    def __repr__(self):
        return 3


@programs
def wrong_protocols(x):
    found = []
    for action in (lambda: list(WrongIter()), lambda: repr(WrongRepr())):
        try:
            found.append(action())
        except TypeError as error:
            found.append(str(error))
    return x + 1, found


@programs
def iterator_object(x):
    c = Countdown(3)
    first = next(c)
    rest = list(c)
    return x + first, rest, next(c, "end"), sum(Countdown(4)), 2 in Countdown(3)


@programs
def for_over_object(x):
    for i in Countdown(3):
        x = x + i
    else:
        x = x * 2
    return x


# -- identity, mutation, the way back --------------------------------------------------------------------------------


@programs
def made_and_returned(x):
    b = Bare()
    b.x = x + 1
    b.self = b
    c = Bare()
    c.other = [b, b]
    b.back = c
    return b, c, c.other


@programs
def shared_parts(x):
    shared = [x + 1]
    a, b = Bare(), Bare()
    a.s = b.s = shared
    a.s.append(1)
    return {"a": a, "b": b}, shared


@programs
def list_of_objects(x):
    return [Vector(x + i) for i in range(3)]


@programs(args=(x(), Bare()))
def input_is_returned(x, b):
    b.y = x + 1
    return b, b is b


@programs(args=(x(), Vector(1, 2)))
def input_is_changed(x, v):
    v.items.append(x + 1)
    v += 5
    v[0] = 7
    v.extra = v
    return len(v)


@programs(args=(x(), Vector(1, 2), Vector(1, 2)))
def two_inputs(x, v, w):
    v.items.append(3)
    return x + 1, v is w, v == w, len(w)


def test_two_inputs_that_are_one():
    def fn(v, w, x):
        v.items.append(1)
        return x + len(w.items), v is w

    one = Vector(1)
    check(fn, one, one, x(), changed=[(Vector(1), Vector(1), x())])
    check(fn, Vector(1), Vector(1), x(), changed=[(one, one, x())])


def test_identity_with_a_global_or_default():
    sentinel = Bare()

    def fn(x, value=sentinel):
        return x + 1 if value is sentinel else x - 1

    check(fn, x(), sentinel, changed=[(x(), Bare()), (x(), None)])


@programs(args=(x(), {"v": Vector(1)}, [Vector(2)]))
def nested_inputs(x, d, l):  # noqa: E741
    d["v"].items += [1]
    l[0].new = d["v"]
    d["w"] = l[0]
    return x + len(d["v"]), l[0].new is d["v"]


@programs(args=(x(), Bare()))
def order_of_attributes(x, b):
    b.one = 1
    b.two = x + 1
    del b.one
    b.three = 3
    b.one = 4
    return b


@programs
def object_as_key(x):
    a, b = Bare(), Bare()
    d = {a: 1, b: x + 1}
    return d[b], a in d, Bare() in d, {a, b, a} == {a, b}, len({a, b, a}), d


@programs(args=(x(), Bare()))
def input_as_key(x, b):
    d = {b: x + 1}
    return d[b], d


@programs(expect_breaks=None, expect_ops=1)
def key_with_its_own_equality(x):
    y = x + 1
    d = {Hashed(1): 2}
    return y, d[Hashed(1)]


class Hashed:
    def __init__(self, k):
        self.k = k

    def __eq__(self, other):
        return self.k == other.k

    def __hash__(self):
        return hash(self.k)


@programs
def unhashable(x):
    try:
        {Vector(1): 1}
    except TypeError as error:
        return x + 1, str(error)


@programs(expect_breaks=None, expect_ops=1, expect_hit=False, deterministic=False)  # always another text
def repr_with_address(x):
    y = x + 1
    return y, repr(Bare())[:5]


@programs(expect_breaks=None, expect_ops=1)
def object_with_del(x):
    y = x + 1
    d = Dies()
    del d
    return y, Dies.count


class Dies:
    count = 0

    def __del__(self):
        pass


@programs
def isinstance_and_type(x):
    v = Vector()
    return x + 1, isinstance(v, Vector), isinstance(v, (int, Bare)), type(v) is Vector, issubclass(Vector, object)


# -- dataclasses -----------------------------------------------------------------------------------------------------


@dataclasses.dataclass
class Point:
    x: typing.Any
    y: int = 2
    tags: list = dataclasses.field(default_factory=list)

    def norm(self):
        return self.x * self.x + self.y


@dataclasses.dataclass(frozen=True)
class Frozen:
    a: int
    b: tuple = (1, 2)


@dataclasses.dataclass(order=True)
class Ordered:
    n: int
    m: int = dataclasses.field(default=0, compare=False)
    total: int = dataclasses.field(init=False)

    def __post_init__(self):
        self.total = self.n + self.m


@dataclasses.dataclass(slots=True)
class SlotData:
    a: int
    b: list


@programs
def dataclass_made(x):
    p, q = Point(x), Point(x, 3, [1])
    p.tags.append(5)
    return p, q, p.norm(), p.tags is q.tags


@programs
def dataclass_equality(x):
    return (
        x + 1,
        Point(1) == Point(1),
        Point(1) != Point(2),
        Frozen(1) == Frozen(1),
        Point(1) == 3,
        Ordered(1) < Ordered(2),
    )


@programs(expect_breaks=None)
def dataclass_repr(x):
    y = x + 1
    return y, repr(Point(1)), str(Frozen(2))


@programs
def dataclass_frozen(x):
    f = Frozen(1)
    try:
        f.a = 2
    except dataclasses.FrozenInstanceError as error:
        return x + f.a, str(error), f


@programs
def dataclass_post_init(x):
    o = Ordered(3, 4)
    return x + o.total, o


@programs
def dataclass_slots(x):
    s = SlotData(1, [x + 1])
    s.a += 1
    return s


@programs(args=(x(), Point(torch.ones(3)), SlotData(1, [])))
def dataclass_inputs(x, p, s):
    p.x = p.x + 1
    p.tags.append(x * 2)
    s.b.append(p.y)
    return p.norm(), s.a


@programs(expect_breaks=None)
def dataclass_replace(x):
    y = x + 1
    return dataclasses.replace(Point(y), y=7)


@programs(expect_breaks=None)
def dataclass_asdict(x):
    y = x + 1
    return (
        y,
        dataclasses.asdict(Frozen(1)),
        [f.name for f in dataclasses.fields(Frozen)],
        dataclasses.astuple(Frozen(3)),
    )


@programs(expect_breaks=None)
def copied(x):
    y = x + 1
    v = Vector(1, [2])
    w = copy.copy(v)
    return y, w, w.items is v.items


def test_a_way_backwards_that_comes_later():
    """A class without `__reversed__` is walked by its items, until it gets one."""
    lifted = framelift.compile(lambda x, s: [x + item for item in reversed(s)], backend="eager")
    sequence, x = Sequence(1, 2), torch.ones(2)
    assert [t.tolist() for t in lifted(x, sequence)] == [[3.0, 3.0], [2.0, 2.0]]
    Sequence.__reversed__ = lambda self: iter((5,))
    try:
        assert [t.tolist() for t in lifted(x, sequence)] == [[6.0, 6.0]]
    finally:
        del Sequence.__reversed__
    assert len(lifted(x, sequence)) == 2


def test_a_field_of_a_dataclass_changes():
    p = Point(3)
    follow(lambda p, x: x * p.y + p.x, (p, x()), lambda: setattr(p, "y", 5), lambda: setattr(p, "x", 1.5))


class Box(typing.Generic[typing.TypeVar("T")]):
    def __init__(self, item):
        self.item = item

    def get(self):
        return self.item


class IntBox(Box[int]):
    pass


@programs
def generic_classes(x):
    return Box(x + 1).get(), IntBox(3).get(), IntBox(x)


@programs(expect_breaks=None)
def generic_alias_called(x):
    y = x + 1
    return Box[int](y).get()


class Named(typing.NamedTuple):
    a: int
    b: typing.Any = 2


@programs(expect_breaks=None)
def named_tuples(x):
    n = Named(1, x + 1)
    return n.a, n.b, n[0], n, n._replace(a=5)


# -- capture runs no user code ---------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "use",
    [
        lambda c, x: x + 1,
        lambda c, x: x + c.inner,
        lambda c, x: x + c.value,
        lambda c, x: x + c.anything,
        lambda c, x: x + len(c),
        lambda c, x: x + 1 if c else x,
        lambda c, x: x + sum(c),
        lambda c, x: x + c[2],
        lambda c, x: c(x),
        lambda c, x: (x + 1, 1 in c),
        lambda c, x: (x + 1, c == 3, c != c),
        lambda c, x: (x + 1, c),
        lambda c, x: (x + 1, [c, c]),
        lambda c, x: (x + 1, isinstance(c, Canary), type(c), c is None),
        lambda c, x: (x + 1, hasattr(c, "missing"), getattr(c, "missing", 3)),
        lambda c, x: (x + 1, f"{c}"),
        lambda c, x: (x + 1, setattr(c, "fresh", 3), c.fresh),
    ],
)
def test_canary(use):
    check(use, Canary(2), x())


@pytest.mark.parametrize(
    "use",
    [
        lambda c, x: (x + 1, {c: 1}[c]),
        lambda c, x: (x + 1, c in [c], [1, c].index(c)),
        lambda c, x: (x + 1, print(c)),
        lambda c, x: (x + 1, hash(c)),
        lambda c, x: (x + 1, id(c) == id(c), c.value),
    ],
)
def test_canary_with_breaks(use):
    check(use, Canary(2), x(), expect_breaks=None, expect_ops=0, deterministic=False)  # an id() is always another


def test_canary_in_containers():
    check(lambda d, x: (x + len(d["l"]), d["l"][0].inner), {"l": [Canary(3)]}, x())


class Meta(type):
    calls: list = []

    def __getattribute__(cls, name):
        Meta.calls.append(name)
        return super().__getattribute__(name)

    def __hash__(cls):
        Meta.calls.append("__hash__")
        return 1

    def __eq__(cls, other):
        Meta.calls.append("__eq__")
        return cls is other

    def __instancecheck__(cls, obj):
        Meta.calls.append("__instancecheck__")
        return True

    def __subclasscheck__(cls, sub):
        Meta.calls.append("__subclasscheck__")
        return True


class Watched(metaclass=Meta):
    k = 3

    def f(self, x):
        return x + self.k

    def __add__(self, other):
        return other

    @property
    def __class__(self):
        Meta.calls.append("__class__")
        return int


class Holder:
    held = Watched.__new__(Watched)


@pytest.mark.parametrize(
    "use",
    [
        lambda w, x: w.f(x),
        lambda w, x: (x + 1, w),
        lambda w, x: w + x,
        lambda w, x: (x + 1, w == w, w is w, w == 3),
        lambda w, x: (x + 1, {w: 2}[w]),
        lambda w, x: x + 1 if w else x,
        lambda w, x: setattr(w, "z", x + 1),
        lambda w, x: (x + 1, isinstance(w, Watched)),
        lambda w, x: (x + 1, isinstance(3, Watched)),
        lambda w, x: (x + 1, w.__class__),
        lambda w, x: (x + 1, Watched.k),
        lambda w, x: (x + 1, Watched().k),
        lambda w, x: (x + 1, Holder().held, Holder.held, type(Holder.held) is Watched),
        lambda w, x: (x + 1, [w, 1], (w, w), {"w": w}),
    ],
)
def test_a_metaclass_is_not_asked(use):
    import framelift
    from framelift.report import stream

    def count(function):
        Meta.calls.clear()
        function(Watched.__new__(Watched), x())
        return list(Meta.calls)

    expected = count(use)
    lifted = framelift.compile(use, backend="eager")
    stop = stream.subscribe(lambda event: None)  # with a listener, guards are put into words
    try:
        assert count(lifted) == expected, "capture"
        assert count(lifted) == expected, "a hit"
    finally:
        stop()


test_programs = programs.test()
