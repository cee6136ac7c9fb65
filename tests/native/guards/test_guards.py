"""Every accessor and every check sees the change it is there for, says so in words, and holds again afterwards."""

from __future__ import annotations

import abc
import collections
import decimal
import enum
import functools
import gc
import threading
import types
import weakref
from collections.abc import Callable
from typing import Any

import pytest

from framelift.guards import reference
from framelift.native import core
from tests.native.guards_builder import Nodes, function, hits, sees, words


class Plain:
    """A class as users write them."""

    limit = 10

    def method(self) -> int:
        return 1


class Slotted:
    __slots__ = ("value", "other")


def instance(**attributes: Any) -> Plain:
    made = Plain()
    for name, value in attributes.items():
        setattr(made, name, value)
    return made


# ---- accessors ----


def test_argument() -> None:
    nodes = Nodes()
    nodes.arg(1, EQUALS=3)
    tree = nodes.tree(2)
    assert hits(tree, None, 3)
    assert not hits(tree, 3, None)


def test_function() -> None:
    def other() -> None: ...

    nodes = Nodes()
    nodes.add(-1, "FUNCTION", IS=function, name="f")
    tree = nodes.tree(0)
    assert hits(tree, by=function)
    assert not hits(tree, by=other)
    assert words(tree, by=other) == f"f was function, now {other.__qualname__}"


def test_known_object() -> None:
    class Config:
        width = 3

    nodes = Nodes()
    known = nodes.add(-1, "KNOWN", Config, name="Config")
    nodes.add(known, "TYPE_LOOKUP", "width", name="Config.width", EQUALS=3)
    sees(
        nodes.tree(0),
        (),
        lambda: setattr(Config, "width", 4),
        "Config.width was 3, now 4",
        lambda: setattr(Config, "width", 3),
    )


def test_instance_dict() -> None:
    x = instance(a=1)
    nodes = Nodes()
    root = nodes.arg(TYPE=Plain)
    stored = nodes.add(root, "INSTANCE_DICT", name="x.__dict__")
    nodes.add(stored, "DICT_ITEM", "a", name="x.a", EQUALS=1)
    tree = nodes.tree()
    sees(tree, (x,), lambda: setattr(x, "a", 2), "x.a was 1, now 2", lambda: setattr(x, "a", 1))
    sees(tree, (x,), lambda: delattr(x, "a"), "x.a is gone", lambda: setattr(x, "a", 1))
    sees(
        tree,
        (x,),
        lambda: setattr(x, "__dict__", {"a": 5}),
        "x.a was 1, now 5",
        lambda: setattr(x, "__dict__", {"a": 1}),
    )


def test_instance_dict_is_not_made_visible_otherwise() -> None:
    x = instance(a=1)
    nodes = Nodes()
    nodes.add(nodes.arg(TYPE=Plain), "INSTANCE_DICT", DICT_KEYS=("a",), name="d")
    tree = nodes.tree()
    assert hits(tree, x)
    x.b = 2  # type: ignore[attr-defined]
    assert x.__dict__ == {"a": 1, "b": 2}
    assert words(tree, x) == "keys of d were ['a'], now ['a', 'b']"


def test_no_instance_dict() -> None:
    nodes = Nodes()
    nodes.add(nodes.arg(), "INSTANCE_DICT", name="x.__dict__")
    tree = nodes.tree()
    assert hits(tree, Plain())
    for without in (Slotted(), 3, [], None, object()):
        assert not hits(tree, without)
    assert words(tree, 3) == "x.__dict__ is gone"


def test_instance_without_class_guard() -> None:
    x = instance(a=1)
    nodes = Nodes()
    nodes.add(nodes.add(nodes.arg(), "INSTANCE_DICT"), "DICT_ITEM", "a", name="x.a", EQUALS=1)
    sees(nodes.tree(), (x,), lambda: setattr(x, "a", 2), "x.a was 1, now 2", lambda: setattr(x, "a", 1))


@pytest.mark.parametrize("make", [dict, collections.OrderedDict, lambda d: collections.defaultdict(list, d)])
def test_dict_item(make: Any) -> None:
    x = make({"a": 1, "b": 2})
    nodes = Nodes()
    nodes.add(nodes.arg(TYPE=type(x)), "DICT_ITEM", "a", name="x['a']", EQUALS=1, out=True)
    tree = nodes.tree()
    sees(tree, (x,), lambda: x.update(a=2), "x['a'] was 1, now 2", lambda: x.update(a=1))
    sees(tree, (x,), lambda: x.pop("a"), "x['a'] is gone", lambda: x.update(a=1))
    sees(tree, (x,), x.clear, "x['a'] is gone", lambda: x.update(a=1))
    x["c"] = 3
    assert tree.check((x,), function) == (1,)


@pytest.mark.parametrize("key", [1, 2.5, None, b"k", (1, "a"), True, 10**30, Plain, "k"])
def test_dict_item_of_other_keys(key: Any) -> None:
    x = {"other": 0, 7: 8, key: "found"}
    nodes = Nodes()
    nodes.add(nodes.arg(), "DICT_ITEM", key, EQUALS="found", name="item")
    tree = nodes.tree()
    sees(tree, (x,), lambda: x.update({key: "else"}), "item was 'found', now 'else'", lambda: x.update({key: "found"}))
    sees(tree, (x,), lambda: x.pop(key), "item is gone", lambda: x.update({key: "found"}))


def test_dict_keys_of_the_user_are_not_asked() -> None:
    class Key:
        def __hash__(self) -> int:
            return hash("k")

        def __eq__(self, other: object) -> bool:
            raise AssertionError("a guard asked the user's key")

    class Text(str):
        def __eq__(self, other: object) -> bool:
            raise AssertionError("a guard asked the user's key")

        __hash__ = str.__hash__

    nodes = Nodes()
    nodes.add(nodes.arg(), "DICT_ITEM", "k")
    tree = nodes.tree()
    assert tree.check(({"k": 1},), function) is not None
    assert tree.check(({Key(): 1},), function) is None
    assert tree.check(({Text("k"): 1},), function) is None
    nodes = Nodes()
    nodes.arg(KEY_ABSENT="k")
    tree = nodes.tree()
    assert tree.check(({"a": 1},), function) is not None
    assert tree.check(({Key(): 1},), function) is None  # unknown: a miss
    assert tree.check(({Text("k"): 1},), function) is None


def test_dict_of_many_keys() -> None:
    x: dict[Any, int] = {i: i for i in range(1000)} | {f"k{i}": i for i in range(1000)}
    nodes = Nodes()
    root = nodes.arg()
    for key in (0, 999, "k0", "k999"):
        nodes.add(root, "DICT_ITEM", key, EQUALS=x[key])
    nodes.add(root, "DICT_ITEM", "k500", name="x['k500']", EQUALS=500)
    sees(nodes.tree(), (x,), lambda: x.pop("k500"), "x['k500'] is gone", lambda: x.update(k500=500))


def test_type_lookup() -> None:
    class Base:
        width = 1

    class Derived(Base):
        pass

    nodes = Nodes()
    cls = nodes.add(nodes.arg(), "TYPE_OF", name="type(x)", IS=Derived)
    nodes.add(cls, "TYPE_LOOKUP", "width", name="type(x).width", EQUALS=1)
    tree, x = nodes.tree(), Derived()
    sees(tree, (x,), lambda: setattr(Base, "width", 2), "type(x).width was 1, now 2", lambda: setattr(Base, "width", 1))
    sees(
        tree,
        (x,),
        lambda: setattr(Derived, "width", 3),
        "type(x).width was 1, now 3",
        lambda: delattr(Derived, "width"),
    )
    sees(tree, (x,), lambda: delattr(Base, "width"), "type(x).width is gone", lambda: setattr(Base, "width", 1))


def test_type_lookup_does_not_bind() -> None:
    nodes = Nodes()
    nodes.add(nodes.add(-1, "KNOWN", Plain), "TYPE_LOOKUP", "method", IS=Plain.method, name="Plain.method")
    original = Plain.method
    sees(
        nodes.tree(0),
        (),
        lambda: setattr(Plain, "method", replacement),
        "Plain.method was Plain.method, now replacement",
        lambda: setattr(Plain, "method", original),
    )


def replacement(self: Any) -> int:
    return 2


def test_class_of_an_instance() -> None:
    class First:
        pass

    class Second:
        pass

    x = First()
    nodes = Nodes()
    nodes.arg(TYPE=First)
    sees(
        nodes.tree(),
        (x,),
        lambda: setattr(x, "__class__", Second),
        f"type(x) was {First.__qualname__}, now {Second.__qualname__}",
        lambda: setattr(x, "__class__", First),
    )
    holder = {"x": x}
    nodes = Nodes()
    item = nodes.add(nodes.arg(name="d"), "DICT_ITEM", "x", name="d['x']", TYPE=First)
    nodes.add(item, "INSTANCE_DICT", LENGTH=0)
    sees(
        nodes.tree(),
        (holder,),
        lambda: setattr(x, "__class__", Second),
        f"type(d['x']) was {First.__qualname__}, now {Second.__qualname__}",
        lambda: setattr(x, "__class__", First),
    )


@pytest.mark.parametrize("small", [True, False])
def test_list_item(small: bool) -> None:
    value = 5 if small else 10**20
    x: list[Any] = [0, value]
    nodes = Nodes()
    nodes.add(nodes.arg(), "LIST_ITEM", 1, name="x[1]", EQUALS=value, out=True)
    tree = nodes.tree()
    sees(tree, (x,), lambda: x.__setitem__(1, 6), f"x[1] was {value}, now 6", lambda: x.__setitem__(1, value))
    sees(tree, (x,), x.pop, "x[1] is gone", lambda: x.append(value))
    sees(tree, (x,), lambda: x.insert(0, 1), f"x[1] was {value}, now 0", lambda: x.pop(0))
    assert not hits(tree, (0, value))


def test_tuple_item() -> None:
    nodes = Nodes()
    nodes.add(nodes.arg(), "TUPLE_ITEM", 1, name="x[1]", EQUALS=5)
    tree = nodes.tree()
    assert hits(tree, (0, 5)) and hits(tree, (1, 5, 2))
    assert not hits(tree, (0, 6)) and not hits(tree, (5,)) and not hits(tree, [0, 5])
    assert words(tree, (0, 6)) == "x[1] was 5, now 6"
    assert words(tree, (0,)) == "x[1] is gone"


def test_cell_contents() -> None:
    cell = types.CellType(3)
    nodes = Nodes()
    nodes.add(nodes.arg(name="c"), "CELL_CONTENTS", name="c.cell_contents", EQUALS=3, out=True)
    tree = nodes.tree()

    def restore() -> None:
        cell.cell_contents = 3

    sees(tree, (cell,), lambda: setattr(cell, "cell_contents", 4), "c.cell_contents was 3, now 4", restore)
    sees(tree, (cell,), lambda: delattr(cell, "cell_contents"), "c.cell_contents is gone", restore)


def test_parts_of_functions() -> None:
    width = 3

    def make() -> Any:
        def inner(a: int, b: int = 1, *, c: int = 2) -> int:
            return a + b + c + width

        return inner

    x = make()
    other = (lambda: 0).__code__
    nodes = Nodes()
    root = nodes.arg(name="f")
    nodes.add(root, "FUNC_CODE", name="f.__code__", IS=x.__code__)
    defaults = nodes.add(root, "FUNC_DEFAULTS", name="f.__defaults__", LENGTH=1)
    nodes.add(defaults, "TUPLE_ITEM", 0, name="default b", EQUALS=1)
    nodes.add(nodes.add(root, "FUNC_KWDEFAULTS"), "DICT_ITEM", "c", name="default c", EQUALS=2)
    cell = nodes.add(nodes.add(root, "FUNC_CLOSURE"), "TUPLE_ITEM", 0)
    nodes.add(cell, "CELL_CONTENTS", name="width", EQUALS=3)
    nodes.add(nodes.add(root, "FUNC_GLOBALS"), "DICT_ITEM", "GLOBAL", name="GLOBAL", EQUALS=7)
    tree = nodes.tree()
    code = x.__code__

    def set_width(value: int) -> None:
        nonlocal width
        width = value

    sees(tree, (x,), lambda: set_width(4), "width was 3, now 4", lambda: set_width(3))
    sees(
        tree,
        (x,),
        lambda: setattr(x, "__defaults__", (2,)),
        "default b was 1, now 2",
        lambda: setattr(x, "__defaults__", (1,)),
    )
    sees(
        tree,
        (x,),
        lambda: setattr(x, "__defaults__", None),
        "len(f.__defaults__) was 1, now None",
        lambda: setattr(x, "__defaults__", (1,)),
    )
    sees(
        tree,
        (x,),
        lambda: x.__kwdefaults__.update(c=3),
        "default c was 2, now 3",
        lambda: x.__kwdefaults__.update(c=2),
    )
    sees(tree, (x,), lambda: globals().update(GLOBAL=8), "GLOBAL was 7, now 8", lambda: globals().update(GLOBAL=7))
    sees(
        tree,
        (x,),
        lambda: setattr(x, "__code__", code.replace(co_name="renamed")),
        "f.__code__ was a code object, now another code object",
        lambda: setattr(x, "__code__", code),
    )
    assert hits(tree, make()), "another closure of the same code"
    assert not hits(tree, function)
    assert other is not code


GLOBAL = 7


def test_function_without_defaults() -> None:
    nodes = Nodes()
    root = nodes.arg()
    nodes.add(root, "FUNC_DEFAULTS", name="defaults", IS=None)
    nodes.add(root, "FUNC_KWDEFAULTS", IS=None)
    nodes.add(root, "FUNC_CLOSURE", IS=None)

    def plain() -> None: ...

    sees(
        nodes.tree(),
        (plain,),
        lambda: setattr(plain, "__defaults__", (1,)),
        "defaults was None, now (1,)",
        lambda: setattr(plain, "__defaults__", None),
    )


def test_parts_of_methods() -> None:
    x, y = Plain(), Plain()
    nodes = Nodes()
    root = nodes.arg(name="m", TYPE=types.MethodType)
    nodes.add(root, "METHOD_SELF", IS=x, name="m.__self__")
    nodes.add(root, "METHOD_FUNC", IS=Plain.method)
    tree = nodes.tree()
    assert hits(tree, x.method) and hits(tree, x.method)
    assert not hits(tree, y.method)
    assert words(tree, y.method) == "m.__self__ was a Plain object, now another Plain object"
    assert not hits(tree, Plain.method)


def test_module_dict() -> None:
    module = types.ModuleType("m")
    module.width = 3  # type: ignore[attr-defined]
    nodes = Nodes()
    stored = nodes.add(nodes.add(-1, "KNOWN", module), "MODULE_DICT")
    nodes.add(stored, "DICT_ITEM", "width", name="m.width", EQUALS=3)
    sees(
        nodes.tree(0),
        (),
        lambda: setattr(module, "width", 4),
        "m.width was 3, now 4",
        lambda: setattr(module, "width", 3),
    )


def test_slot() -> None:
    x = Slotted()
    x.value = 3
    nodes = Nodes()
    nodes.add(nodes.arg(TYPE=Slotted), "SLOT", Slotted.__dict__["value"], name="x.value", EQUALS=3, out=True)
    nodes.add(nodes.add(nodes.arg(), "SLOT", Slotted.__dict__["value"]), "TYPE_OF", IS=int)
    tree = nodes.tree()
    sees(tree, (x,), lambda: setattr(x, "value", 4), "x.value was 3, now 4", lambda: setattr(x, "value", 3))
    sees(tree, (x,), lambda: delattr(x, "value"), "x.value is gone", lambda: setattr(x, "value", 3))
    assert not hits(tree, Plain())
    with pytest.raises(TypeError, match="SLOT takes"):
        nodes.add(0, "SLOT", "value")
        nodes.tree()


def test_c_attribute() -> None:
    partial = functools.partial(function, 1)
    nodes = Nodes()
    root = nodes.arg(name="p")
    nodes.add(root, "GETATTR", "func", IS=function, name="p.func")
    nodes.add(nodes.add(root, "GETATTR", "args"), "TUPLE_ITEM", 0, EQUALS=1, name="p.args[0]")
    tree = nodes.tree()
    assert hits(tree, partial)
    other = functools.partial(function, 2)
    assert not hits(tree, other)
    assert words(tree, other) == "p.args[0] was 1, now 2"

    class Pretender:
        @property
        def func(self) -> Any:
            raise AssertionError("a guard ran a property")

    assert tree.check((Pretender(),), function) is None


def test_result_of_a_c_function() -> None:
    """The context of the thread that asks, as it stands."""
    nodes = Nodes()
    known = nodes.add(-1, "KNOWN", decimal.getcontext, name="getcontext")
    context = nodes.add(known, "RESULT", name="getcontext()", TYPE=decimal.Context)
    parts = nodes.add(nodes.add(context, "REDUCED"), "TUPLE_ITEM", 1)
    nodes.add(parts, "TUPLE_ITEM", 0, name="prec", EQUALS=9)
    tree = nodes.tree(0)
    with decimal.localcontext(prec=9) as current:
        sees(
            tree,
            (),
            lambda: setattr(current, "prec", 8),
            "prec was 9, now 8",
            lambda: setattr(current, "prec", 9),
        )
        sees(tree, (), lambda: decimal.setcontext(decimal.Context(prec=7)), "prec was 9, now 7")
        decimal.setcontext(current)
        elsewhere: list[bool] = []
        thread = threading.Thread(target=lambda: elsewhere.append(hits(tree)))
        thread.start()
        thread.join()
        assert elsewhere == [False]
        assert hits(tree)


def test_reduced_asks_only_types_of_c() -> None:
    class Own(decimal.Decimal):
        def __reduce__(self) -> Any:
            raise AssertionError("asked by a guard")

    nodes = Nodes()
    parts = nodes.add(nodes.add(nodes.arg(), "REDUCED"), "TUPLE_ITEM", 1)
    nodes.add(parts, "TUPLE_ITEM", 0, EQUALS="1.0")
    tree = nodes.tree()
    assert hits(tree, decimal.Decimal("1.0"))
    for other in (decimal.Decimal("1.00"), decimal.Decimal("-1.0"), Own("1.0"), 1.0, "1.0", None):
        assert not hits(tree, other)


def test_fetched_objects() -> None:
    a, b = Plain(), Plain()
    x = {"a": a, "more": [b]}
    nodes = Nodes()
    root = nodes.arg(out=True)
    nodes.add(nodes.add(root, "DICT_ITEM", "more"), "LIST_ITEM", 0, out=True)
    nodes.add(root, "DICT_ITEM", "a", out=True)
    tree = nodes.tree()
    for _ in range(3):
        assert tree.check((x,), function) == (x, b, a)
    x["a"] = b
    assert tree.check((x,), function) == (x, b, b)
    x["more"] = [a]
    assert tree.check((x,), function) == (x, a, b)


# ---- checks ----


def test_type_is_exact() -> None:
    nodes = Nodes()
    nodes.arg(TYPE=int)
    tree = nodes.tree()
    assert hits(tree, 3)
    assert not hits(tree, True)
    assert words(tree, True) == "type(x) was int, now bool"


@pytest.mark.parametrize("kind", ["IS", "NOT_IS"])
def test_identity(kind: str) -> None:
    known, other = Plain(), Plain()
    nodes = Nodes()
    nodes.arg(**{kind: known})
    tree = nodes.tree()
    assert hits(tree, known) is (kind == "IS")
    assert hits(tree, other) is (kind == "NOT_IS")
    assert hits(tree, None) is (kind == "NOT_IS")
    text = "x was a Plain object, now None" if kind == "IS" else "x was not a Plain object, now it is"
    assert words(tree, None if kind == "IS" else known) == text


class Color(enum.IntEnum):
    RED = 1


Color.RED.mark = 1  # type: ignore[attr-defined]


def test_known_member_of_an_enumeration() -> None:
    """It takes no weak references, and lives as long as its class: guards go on from it."""
    nodes = Nodes()
    member = nodes.add(-1, "KNOWN", Color.RED, name="Color.RED")
    nodes.add(nodes.add(member, "INSTANCE_DICT", name="Color.RED.__dict__"), "DICT_ITEM", "mark", EQUALS=1, name="mark")
    tree = nodes.tree(0)
    sees(
        tree,
        (),
        lambda: setattr(Color.RED, "mark", 2),
        "mark was 1, now 2",
        lambda: setattr(Color.RED, "mark", 1),
    )


class Marks(enum.IntFlag):
    A = 1
    B = 2


def test_combined_flags_are_members() -> None:
    nodes = Nodes()
    nodes.arg(IS=Marks.A | Marks.B)
    tree = nodes.tree()
    assert hits(tree, Marks.A | Marks.B) and not hits(tree, Marks.A) and not hits(tree, 3)


class EnumType(type):
    """No class of enumerations, whatever its name."""


class NoMember(metaclass=EnumType):
    __slots__ = ()


@pytest.mark.parametrize("make", [NoMember, lambda: int.__new__(Color, 7)])
def test_no_member_of_an_enumeration(make: Callable[[], Any]) -> None:
    """Nothing keeps these alive: another object may come to the same address."""
    nodes = Nodes()
    nodes.arg(IS=make())
    with pytest.raises(TypeError, match="cannot hold"):
        nodes.tree()
    assert not core.is_enum_member(make())


def test_a_member_that_its_class_forgets() -> None:
    """What comes to its address is another object."""

    class Level(enum.IntEnum):
        LOW = 1

    nodes = Nodes()
    nodes.arg(IS=Level.LOW)
    tree = nodes.tree()
    del nodes
    assert hits(tree, Level.LOW) and not tree.dead
    kept = Level.LOW
    Level._member_map_.clear()
    assert not hits(tree, kept)
    Level._value2member_map_.clear()
    type.__delattr__(Level, "LOW")
    address = id(kept)
    del kept
    others = [other for _ in range(100) if (other := int.__new__(Level, 7))]
    assert not any(hits(tree, other) for other in others)
    if address not in map(id, others):  # as under AddressSanitizer
        pytest.skip("the allocator does not give the address again")


def test_members_of_a_class_that_is_gone() -> None:
    nodes = Nodes()

    def build() -> Any:
        class Level(enum.IntEnum):
            LOW = 1

        nodes.arg(IS=Level.LOW)
        return nodes.tree()

    tree = build()
    nodes.__init__()  # type: ignore[misc]
    gc.collect()
    assert tree.dead


class Described:
    @property
    def prop(self) -> int:
        return 1

    @staticmethod
    def static() -> int:
        return 1

    @classmethod
    def of_class(cls) -> int:
        return 1

    __slots__ = ("slot",)


@pytest.mark.parametrize("name", ["prop", "static", "of_class", "slot"])
def test_identity_of_descriptors(name: str) -> None:
    """These take no weak references; they are told by their parts."""
    descriptor = Described.__dict__[name]
    nodes = Nodes()
    nodes.add(nodes.add(-1, "KNOWN", Described, name="C"), "TYPE_LOOKUP", name, IS=descriptor, name=f"C.{name}")
    sees(
        nodes.tree(0),
        (),
        lambda: setattr(Described, name, property(lambda self: 2)),
        f"C.{name} was what it was, now a property object",
        lambda: setattr(Described, name, descriptor),
    )


@pytest.mark.parametrize(
    "value", [Color.RED, list.append, object.__init__, dict.__len__, len, type.__dict__["__mro__"]]
)
def test_identity_of_other_things(value: Any) -> None:
    nodes = Nodes()
    nodes.arg(IS=value)
    tree = nodes.tree()
    assert hits(tree, value) and not hits(tree, 1) and not hits(tree, list.extend)


@pytest.mark.parametrize("value", [[], {}, object(), Slotted(), (Plain(),) * 15])
def test_what_cannot_be_held_is_refused(value: Any) -> None:
    nodes = Nodes()
    nodes.arg(IS=value)
    with pytest.raises(TypeError, match="cannot hold"):
        nodes.tree()


def test_a_short_tuple_is_told_by_its_items() -> None:
    item = Plain()
    pair = (item, "name")
    nodes = Nodes()
    nodes.arg(IS=pair)
    tree = nodes.tree()
    assert hits(tree, pair) and not hits(tree, (item, "name")[:1]) and not hits(tree, item)
    del pair, item, nodes
    gc.collect()
    assert tree.dead


CONSTANTS = [
    *(
        None,
        True,
        False,
        0,
        1,
        -1,
        10**30,
        0.0,
        -0.0,
        1.0,
        float("inf"),
        float("nan"),
        1j,
        -0.0 * 1j,
        "",
        "a",
        "é" * 50,
    ),
    *(b"", b"a", (), (1,), (1.0,), (True,), ((1,), "a"), frozenset(), frozenset([1]), frozenset([True]), range(3)),
    *(range(0, 6, 2), slice(1, None), slice(1.0, None), Ellipsis, NotImplemented, frozenset(["a", 2, (3,)])),
]


def test_constants_equal_only_themselves() -> None:
    same = {(i, i) for i in range(len(CONSTANTS))}
    for i, constant in enumerate(CONSTANTS):
        nodes = Nodes()
        nodes.arg(EQUALS=constant)
        tree = nodes.tree()
        for j, other in enumerate(CONSTANTS):
            # -0.0 * 1j and nan apart, no two constants of the list are the same
            assert hits(tree, other) is ((i, j) in same), (constant, other)


def test_equal_constants() -> None:
    nodes = Nodes()
    nodes.arg(EQUALS=("a" * 20, 10**20, frozenset([(1, 2), "b"])))
    tree = nodes.tree()
    text, number = "a" * 10, 10**19
    assert hits(tree, (text + text, number * 10, frozenset(["b", (1, 1 + 1)])))
    assert not hits(tree, (text, number * 10, frozenset(["b", (1, 2)])))
    with pytest.raises(TypeError, match="EQUALS takes a constant"):
        nodes.arg(EQUALS=[1])
        nodes.tree()


def test_equality_of_users_is_not_asked() -> None:
    class Liar(int):
        def __eq__(self, other: object) -> bool:
            raise AssertionError("a guard asked the user's __eq__")

        __hash__ = int.__hash__

    nodes = Nodes()
    nodes.arg(EQUALS=(1, frozenset([1])))
    tree = nodes.tree()
    assert tree.check(((Liar(1), frozenset([1])),), function) is None
    assert tree.check(((1, frozenset([Liar(1)])),), function) is None
    nodes = Nodes()
    nodes.arg(SET_EQUALS={1})
    assert nodes.tree().check(({Liar(1)},), function) is None
    nodes = Nodes()
    nodes.arg(COMPARE=("==", 1, True))
    assert nodes.tree().check((Liar(1),), function) is None


def test_attributes_of_a_class() -> None:
    class Listed:
        first = 1
        second = 2

    nodes = Nodes()
    nodes.arg(TYPE_KEYS=tuple(Listed.__dict__))
    tree = nodes.tree()
    for _ in range(3):
        assert tree.check((Listed,), function) is not None
    Listed.first = 3
    assert tree.check((Listed,), function) is not None
    Listed.third = 3  # type: ignore[attr-defined]
    assert tree.check((Listed,), function) is None
    del Listed.third  # type: ignore[attr-defined]
    assert tree.check((Listed,), function) is not None
    del Listed.second
    Listed.other = 2  # type: ignore[attr-defined]
    for wrong in (Listed, int, Listed()):
        assert tree.check((wrong,), function) is None


def test_a_name_that_a_class_inherits() -> None:
    class Base:
        name = 1

    class Derived(Base):
        pass

    lacks, owns = Nodes(), Nodes()
    lacks.arg(TYPE_LACKS="name")
    owns.arg(TYPE_OWNS="name")
    without, having = lacks.tree(), owns.tree()
    for _ in range(3):
        assert without.check((Derived,), function) is not None
        assert having.check((Base,), function) is not None
        assert having.check((Derived,), function) is None
    Base.name = 2
    assert without.check((Derived,), function) is not None
    Derived.name = 2
    for _ in range(3):
        assert having.check((Derived,), function) is not None
    for wrong in (Derived, Base, int, Derived()):
        assert without.check((wrong,), function) is None
    del Derived.name
    assert without.check((Derived,), function) is not None
    for wrong in (Derived, int, Base()):
        assert having.check((wrong,), function) is None


def test_order_of_sets() -> None:
    class Plain:
        pass

    plain = Plain()
    forth = {8, 0, plain}  # 0 and 8 collide in a small table: who came first is first
    back = {0, 8, plain}
    nodes = Nodes()
    nodes.arg(SET_ORDER=tuple(forth))
    tree = nodes.tree()
    assert tree.check((forth,), function) is not None
    assert tree.check((frozenset(forth) if list(frozenset(forth)) == list(forth) else forth,), function) is not None
    assert list(forth) == list(back) or tree.check((back,), function) is None
    assert tree.check(({8, 0},), function) is None
    assert tree.check((list(forth),), function) is None


@pytest.mark.parametrize(
    ("op", "constant", "expected", "holding", "failing"),
    [
        ("<", 3, True, [2, -5, 2.9, True], [3, 4, 3.0, float("nan"), "a", None]),
        ("<", 3, False, [3, 4, 3.0, float("nan")], [2, "a", None]),
        ("<=", 2.5, True, [2, 2.5], [3]),
        ("==", 1, True, [1, True, 1.0], [2, "1"]),
        ("!=", 1, True, [2, "1"], [1, True]),
        (">", "m", True, ["n"], ["m", "a", 3]),
        (">=", 10**30, True, [10**30], [1, 1e10]),
    ],
)
def test_comparison(op: str, constant: Any, expected: bool, holding: list[Any], failing: list[Any]) -> None:
    nodes = Nodes()
    nodes.arg(COMPARE=(op, constant, expected))
    tree = nodes.tree()
    for value in holding:
        assert hits(tree, value), value
    for value in failing:
        assert not hits(tree, value), value


def test_comparison_in_words() -> None:
    nodes = Nodes()
    nodes.arg(COMPARE=("<", 3, True))
    assert words(nodes.tree(), 5) == "(x < 3) was True, now x is 5"


@pytest.mark.parametrize(
    "make",
    [
        list,
        tuple,
        dict.fromkeys,
        set,
        frozenset,
        bytes,
        bytearray,
        collections.deque,
        range,
        collections.OrderedDict.fromkeys,
    ],
)
def test_length(make: Any) -> None:
    argument = (lambda n: n) if make is range else range
    nodes = Nodes()
    nodes.arg(LENGTH=2)
    tree = nodes.tree()
    assert hits(tree, make(argument(2)))
    assert not hits(tree, make(argument(3)))
    assert words(tree, make(argument(3))) == "len(x) was 2, now 3"
    holder = {"x": make(argument(2))}
    nodes = Nodes()
    nodes.add(nodes.arg(), "DICT_ITEM", "x", LENGTH=2, name="x")
    tree = nodes.tree()
    sees(
        tree,
        (holder,),
        lambda: holder.update(x=make(argument(1))),
        "len(x) was 2, now 1",
        lambda: holder.update(x=make(argument(2))),
    )


@pytest.mark.parametrize("x", [[1, 2], {1: 1, 2: 2}, {1, 2}, collections.deque([1, 2]), bytearray(2)])
def test_length_of_what_changes_in_place(x: Any) -> None:
    holder = {"x": x}
    nodes = Nodes()
    nodes.add(nodes.arg(), "DICT_ITEM", "x", LENGTH=2, name="x")
    tree = nodes.tree()
    popped = []

    def restore() -> None:
        value = popped.pop()
        if isinstance(x, dict):
            x[value[0]] = value[1]
        elif isinstance(x, set):
            x.add(value)
        else:
            x.append(value)

    def change() -> None:
        popped.append(x.popitem() if isinstance(x, dict) else x.pop())

    sees(tree, (holder,), change, "len(x) was 2, now 1", restore)


def test_length_of_users_is_not_asked() -> None:
    class Odd(list[int]):
        def __len__(self) -> int:
            raise AssertionError("a guard asked the user's __len__")

    class Sized:
        __len__ = Odd.__len__

    nodes = Nodes()
    nodes.arg(LENGTH=2)
    tree = nodes.tree()
    assert hits(tree, Odd([1, 2]))
    assert not hits(tree, Sized())


@pytest.mark.parametrize("make", [dict, collections.OrderedDict])
def test_dict_keys(make: Any) -> None:
    x = make([("a", 1), (2, 2), (Plain, 3)])
    nodes = Nodes()
    nodes.arg(TYPE=make, DICT_KEYS=("a", 2, Plain))
    tree = nodes.tree()
    sees(
        tree,
        (x,),
        lambda: x.update(b=1),
        "keys of x were ['a', 2, Plain], now ['a', 2, Plain, 'b']",
        lambda: x.pop("b"),
    )
    sees(tree, (x,), lambda: x.pop(Plain), "keys of x were ['a', 2, Plain], now ['a', 2]", lambda: x.update({Plain: 3}))
    x["a"] = 5
    assert hits(tree, x)
    assert not hits(tree, make([(2, 2), ("a", 1), (Plain, 3)]))
    assert not hits(tree, make([("a", 1), (2.0, 2), (Plain, 3)]))


def test_order_of_an_ordered_dict() -> None:
    x = collections.OrderedDict(a=1, b=2)
    nodes = Nodes()
    nodes.add(nodes.arg(DICT_KEYS=("a", "b")), "DICT_ITEM", "a", EQUALS=1)
    sees(
        nodes.tree(),
        (x,),
        lambda: x.move_to_end("a"),
        "keys of x were ['a', 'b'], now ['b', 'a']",
        lambda: x.move_to_end("b"),
    )


def test_key_absent() -> None:
    x = {"a": 1}
    nodes = Nodes()
    nodes.arg(KEY_ABSENT="b", name="x")
    tree = nodes.tree()
    sees(tree, (x,), lambda: x.update(b=1), "'b' was not in x, now it is", lambda: x.pop("b"))
    assert not hits(tree, [])


def test_set_equals() -> None:
    x = {1, "a", Plain}
    nodes = Nodes()
    nodes.add(nodes.arg(name="d"), "DICT_ITEM", "x", name="x", SET_EQUALS=frozenset(x))
    tree = nodes.tree()
    sees(tree, ({"x": x},), lambda: x.discard(1), "x was {'a', 1, Plain}, now {'a', Plain}", lambda: x.add(1))
    assert hits(tree, {"x": frozenset(x)})
    assert not hits(tree, {"x": {True, "a", Plain}})
    assert not hits(tree, {"x": [1, "a", Plain]})


def test_type_absent() -> None:
    class Cls:
        pass

    nodes = Nodes()
    nodes.add(-1, "KNOWN", Cls, TYPE_ABSENT="extra", name="Cls")
    sees(
        nodes.tree(0),
        (),
        lambda: setattr(Cls, "extra", 1),
        "Cls had no attribute 'extra', now it has",
        lambda: delattr(Cls, "extra"),
    )


def test_has_attribute() -> None:
    x = instance(a=1)
    nodes = Nodes()
    nodes.arg(HASATTR="a", NO_ATTR="b")
    tree = nodes.tree()
    sees(tree, (x,), lambda: delattr(x, "a"), "x had an attribute 'a', now it has not", lambda: setattr(x, "a", 1))
    sees(tree, (x,), lambda: setattr(x, "b", 1), "x had no attribute 'b', now it has", lambda: delattr(x, "b"))
    nodes = Nodes()
    nodes.arg(HASATTR="__len__")
    tree = nodes.tree()
    assert hits(tree, []) and not hits(tree, 3)
    assert hits(tree, list) and not hits(tree, int)


def test_registrations_with_abstract_classes() -> None:
    class Abstract(abc.ABC):  # noqa: B024
        pass

    class Thing:
        pass

    nodes = Nodes()
    nodes.add(-1, "KNOWN", Abstract, REGISTRATIONS=abc.get_cache_token(), name="Abstract")
    tree = nodes.tree(0)
    changed = "a class was registered with an abstract class, perhaps with Abstract"
    sees(tree, (), lambda: Abstract.register(Thing), changed)


def test_cell_empty() -> None:
    cell = types.CellType()
    nodes = Nodes()
    nodes.arg(CELL_EMPTY=None, name="c")
    sees(
        nodes.tree(),
        (cell,),
        lambda: setattr(cell, "cell_contents", 1),
        "c was an empty cell, now it holds something",
        lambda: delattr(cell, "cell_contents"),
    )
    closure = (cell,)
    nodes = Nodes()
    nodes.add(nodes.arg(), "TUPLE_ITEM", 0, CELL_EMPTY=None, name="c")
    sees(
        nodes.tree(),
        (closure,),
        lambda: setattr(cell, "cell_contents", 1),
        "c was an empty cell, now it holds something",
        lambda: delattr(cell, "cell_contents"),
    )


# ---- relations ----


def test_same_and_distinct() -> None:
    a, b = Plain(), Plain()
    nodes = Nodes()
    first, second = nodes.arg(0, name="p"), nodes.arg(1, name="q")
    nodes.relate("SAME", first, second)
    tree = nodes.tree(2)
    assert hits(tree, a, a) and not hits(tree, a, b)
    assert words(tree, a, b) == "p was q, now it is another object"
    nodes.relations.clear()
    nodes.relate("DISTINCT", first, second)
    tree = nodes.tree(2)
    assert hits(tree, a, b) and not hits(tree, a, a)
    assert words(tree, a, a) == "two of p, q are now the same object"


@pytest.mark.parametrize("count", [2, 3])
def test_distinct_below_what_memos_leave_for_the_end(count: int) -> None:
    stored = {str(i): Plain() for i in range(count)}
    nodes = Nodes()
    late = nodes.add(nodes.arg(0), "DICT_ITEM", "late", HASATTR="keys")
    nodes.relate("DISTINCT", *[nodes.add(late, "DICT_ITEM", key) for key in stored])
    tree = nodes.tree(1)
    for _ in range(3):
        assert hits(tree, {"late": stored})
    holder = {"late": stored}
    for _ in range(3):
        assert hits(tree, holder)
    assert tree.memo_info()["late"]
    stored["0"] = stored["1"]
    assert not hits(tree, holder)


@pytest.mark.parametrize("count", [2, 7, 40])
@pytest.mark.parametrize("arguments", [0, 1, 3, 12])
def test_distinct_over_memos_and_arguments(count: int, arguments: int) -> None:
    holder = [Plain() for _ in range(count)]
    stored = {str(i): item for i, item in enumerate(holder)}
    nodes = Nodes()
    root = nodes.arg(0)
    members = [nodes.add(root, "DICT_ITEM", key) for key in stored]
    members += [nodes.arg(1 + i) for i in range(arguments)]
    nodes.relate("DISTINCT", *members)
    tree = nodes.tree(1 + arguments)
    rest = [Plain() for _ in range(arguments)]
    for _ in range(3):
        assert hits(tree, stored, *rest)
    stored["0"] = holder[1]
    assert not hits(tree, stored, *rest)
    stored["0"] = holder[0]
    assert hits(tree, stored, *rest)
    for i in range(arguments):
        clash = list(rest)
        clash[i] = holder[-1]
        assert not hits(tree, stored, *clash)
        clash[i] = rest[i - 1] if arguments > 1 else holder[0]
        assert not hits(tree, stored, *clash)
        clash[i] = Plain()
        assert hits(tree, stored, *clash)
    other = {key: Plain() for key in stored}
    assert hits(tree, other, *rest) and hits(tree, stored, *rest)


# ---- specifications ----


@pytest.mark.parametrize(
    "nodes",
    [
        [(0, core.ACCESS_TYPE_OF, None, [], -1)],
        [(-1, core.ACCESS_TYPE_OF, None, [], -1)],
        [(-1, 99, None, [], -1)],
        [(-1, core.ACCESS_ARG, 5, [], -1)],
        [(-1, core.ACCESS_ARG, 0, [], 0)],
        [(-1, core.ACCESS_ARG, 0, [(99, None)], -1)],
        [(-1, core.ACCESS_ARG, 0, [(core.CHECK_TYPE, 3)], -1)],
        [(-1, core.ACCESS_ARG, 0, [], -1), (0, core.ACCESS_LIST_ITEM, -1, [], -1)],
        [(-1, core.ACCESS_ARG, 0, [], -1), (0, core.ACCESS_GETATTR, 3, [], -1)],
        [(-1, core.ACCESS_ARG, 0, [(core.CHECK_COMPARE, ("~", 3, True))], -1)],
        [(-1, core.ACCESS_ARG, 0, [(core.CHECK_COMPARE, ("<", [], True))], -1)],
        [(-1, core.ACCESS_ARG, 0, [])],
    ],
)
def test_wrong_specifications_are_refused(nodes: Any) -> None:
    with pytest.raises((ValueError, TypeError)):
        core.GuardTree(nodes, [], 1, 0, None)


def test_slots_are_counted() -> None:
    nodes = Nodes()
    nodes.arg()
    tree = nodes.tree()
    with pytest.raises(TypeError, match="tuple of 1 slots"):
        tree.check((1, 2), function)
    with pytest.raises(TypeError, match="tuple of 1 slots"):
        tree.check([1], function)


def test_specification_comes_back() -> None:
    nodes = Nodes()
    root = nodes.arg(TYPE=dict, LENGTH=1)
    nodes.add(root, "DICT_ITEM", "k", out=True, COMPARE=("<", 3, False))
    nodes.add(-1, "KNOWN", Plain, TYPE_ABSENT="z")
    nodes.relate("DISTINCT", 0, 2)
    tree = nodes.tree()
    assert tree.nodes == nodes.nodes
    assert [(kind, sorted(members)) for kind, members in tree.relations] == nodes.relations
    assert tree.names == tuple(nodes.names)


def test_a_strict_tree_asks_the_reference_at_every_check() -> None:
    tree = core.GuardTree([(-1, core.ACCESS_ARG, 0, [(core.CHECK_EQUALS, 3)], 0)], [], 1, 1)
    tree.strict = True

    def residual(x: object, fetched: object) -> object:
        return "residual", fetched

    def original(x: object) -> object:
        return "original", x

    table = core.Table("strict")
    entry = table.install(tree, types.FunctionType(residual.__code__, {}))
    lifted = core.Lifted(original, table, lambda *_: entry)
    assert lifted(3) == ("residual", 3)
    assert lifted(4) == ("original", 4)
    core.connect(describe=reference.describe, disagreement=lambda *_: "they differ")
    try:
        with pytest.raises(AssertionError, match="they differ"):
            lifted(3)
        tree.strict = False
        assert lifted(3) == ("residual", 3)
    finally:
        core.connect(describe=reference.describe, disagreement=reference.disagreement)


def test_an_object_whose_death_calls_something() -> None:
    class Plain:
        pass

    nodes = Nodes()
    nodes.arg(UNWATCHED=None)
    tree = nodes.tree()
    plain, other = Plain(), Plain()
    known = Nodes()
    known.arg(IS=plain)
    knowing = known.tree()  # waits for the death of the object itself
    unheard = weakref.ref(plain)
    for _ in range(3):
        assert tree.check((plain,), function) is not None
        assert tree.check((3,), function) is not None
        assert knowing.check((plain,), function) is not None
    for refer in (weakref.ref, weakref.proxy):
        heard = refer(plain, print)
        for _ in range(3):
            assert tree.check((plain,), function) is None
            assert tree.check((other,), function) is not None
        del heard
        proxy = weakref.proxy(plain)
        assert tree.check((plain,), function) is not None
        assert tree.check((proxy,), function) is not None
    assert tree.check((plain,), function) is not None
    assert unheard() is plain
