"""Memos: hits without walking, never a hit that a walk would not confirm."""

from __future__ import annotations

import functools
import gc
import io
import types
import weakref
from typing import Any

import pytest

from framelift.native import core
from tests.native.guards_builder import Nodes, function, hits, words


class Module:
    """Something like an nn.Module: its state is in dictionaries of its instance dictionary."""

    def __init__(self, depth: int = 0) -> None:
        self.training = True
        self.items = {"a": object_of(1), "b": object_of(2)}
        self.hooks: dict[int, Any] = {}
        self.children = {str(i): Module(depth - 1) for i in range(2)} if depth else {}


class Weighted:
    """A leaf that is fetched."""

    def __init__(self, value: int) -> None:
        self.value = value


def object_of(value: int) -> Weighted:
    return Weighted(value)


def module_tree(module: Module) -> Any:
    nodes = Nodes()

    def below(node: int, part: Module, name: str) -> None:
        stored = nodes.add(node, "INSTANCE_DICT", KEY_ABSENT="forward", name=f"{name}.__dict__")
        nodes.add(stored, "DICT_ITEM", "training", EQUALS=True, name=f"{name}.training")
        nodes.add(stored, "DICT_ITEM", "hooks", LENGTH=0, name=f"{name}.hooks")
        items = nodes.add(stored, "DICT_ITEM", "items", name=f"{name}.items")
        for key in part.items:
            nodes.add(items, "DICT_ITEM", key, TYPE=Weighted, out=True, name=f"{name}.items[{key!r}]")
        children = nodes.add(stored, "DICT_ITEM", "children", DICT_KEYS=tuple(part.children), name=f"{name}.children")
        for key, child in part.children.items():
            below(nodes.add(children, "DICT_ITEM", key, TYPE=Module, name=f"{name}.{key}"), child, f"{name}.{key}")

    below(nodes.arg(TYPE=Module, name="m"), module, "m")
    return nodes.tree()


def fetched_of(module: Module) -> list[Any]:
    return [*module.items.values(), *(item for child in module.children.values() for item in fetched_of(child))]


def test_hits_come_from_memos() -> None:
    module = Module(3)
    tree = module_tree(module)
    for _ in range(10):
        assert list(tree.check((module,), function)) == fetched_of(module)
    info = tree.memo_info()
    assert info["memos"] == 1 and info["hits"] == 9 and info["late"] == 0


def test_every_change_of_a_module_is_seen() -> None:
    module = Module(2)
    tree = module_tree(module)
    target = module.children["1"].children["0"]

    class Other(Module):
        pass

    changes: list[tuple[Any, Any]] = [
        (lambda: setattr(target, "training", False), lambda: setattr(target, "training", True)),
        (lambda: target.hooks.update({1: print}), target.hooks.clear),
        (lambda: setattr(target, "hooks", {1: print}), lambda: setattr(target, "hooks", {})),
        (lambda: setattr(target, "forward", print), lambda: delattr(target, "forward")),
        (lambda: setattr(target, "__class__", Other), lambda: setattr(target, "__class__", Module)),
        (lambda: target.items.pop("b"), lambda: target.items.update(b=object_of(2))),
        (lambda: target.items.update(a=3), lambda: target.items.update(a=object_of(1))),
        (lambda: target.children.update(x=1), lambda: target.children.pop("x")),
        (lambda: delattr(target, "items"), lambda: setattr(target, "items", {"a": object_of(1), "b": object_of(2)})),
        (
            lambda: setattr(target, "__dict__", {}),
            lambda: setattr(target, "__dict__", vars(Module())),
        ),
    ]
    for change, restore in changes:
        for _ in range(3):
            assert hits(tree, module), words(tree, module)
        change()
        assert not hits(tree, module)
        restore()
        for _ in range(2):
            assert hits(tree, module), words(tree, module)
            assert list(tree.check((module,), function)) == fetched_of(module)


def test_instances_have_memos_of_their_own() -> None:
    modules = [Module(1) for _ in range(12)]
    tree = module_tree(modules[0])
    for _ in range(5):
        for module in modules:
            assert list(tree.check((module,), function)) == fetched_of(module)
    info = tree.memo_info()
    assert info["memos"] == 12 and info["hits"] == 12 * 4


def test_more_instances_than_memos() -> None:
    modules = [Module() for _ in range(40)]
    tree = module_tree(modules[0])
    for _ in range(5):
        for module in modules:
            assert list(tree.check_strict((module,), function)) == fetched_of(module)
    assert tree.memo_info()["memos"] <= 16


def test_unguarded_changes_are_mended() -> None:
    module = Module(2)
    tree = module_tree(module)
    assert hits(tree, module)
    before = tree.memo_info()["hits"]
    for step in range(20):
        module.counter = step  # type: ignore[attr-defined]
        module.items[f"new {step}"] = object_of(step)
        assert hits(tree, module)
    assert tree.memo_info()["hits"] - before >= 19


def test_a_guarded_leaf_may_change_if_it_passes() -> None:
    x = {"n": 0, "keep": object_of(1)}
    nodes = Nodes()
    root = nodes.arg(TYPE=dict)
    nodes.add(root, "DICT_ITEM", "n", COMPARE=("<", 10**6, True), out=True)
    nodes.add(root, "DICT_ITEM", "keep", out=True)
    tree = nodes.tree()
    for n in range(0, 2 * 10**6, 10**5):
        x["n"] = n
        expected = (n, x["keep"]) if n < 10**6 else None
        assert tree.check_strict((x,), function) == expected
    assert tree.memo_info()["hits"] >= 9


# ---- memory is used again ----


def fresh(offset: int) -> int:
    """A number that no constant of this file keeps alive."""
    return int("1" + "0" * 20) + offset


def replaced_at_the_same_address(make: Any, store: Any, load: Any) -> bool:
    """Replaces an object by one that is made anew, until the new one has the address of the old one."""
    address = id(load())
    kept = []
    for attempt in range(2000):
        store(None)
        new = make()
        if id(new) == address:
            store(new)
            return True
        if attempt % 50 == 49:
            kept.append(new)
    return False


CONTAINERS: dict[str, Any] = {
    "list": (lambda value: [value], lambda x, value: x.__setitem__(0, value), lambda x: x[0], ("LIST_ITEM", 0)),
    "dict": (
        lambda value: {"k": value},
        lambda x, value: x.__setitem__("k", value),
        lambda x: x["k"],
        ("DICT_ITEM", "k"),
    ),
    "cell": (
        types.CellType,
        lambda x, value: setattr(x, "cell_contents", value),
        lambda x: x.cell_contents,
        ("CELL_CONTENTS", None),
    ),
}


@pytest.mark.parametrize("container", CONTAINERS)
@pytest.mark.parametrize("nested", [False, True])
def test_a_new_number_at_an_old_address(container: str, nested: bool) -> None:
    make, store, load, (access, argument) = CONTAINERS[container]
    holder = make(fresh(1))
    nodes = Nodes()
    root = nodes.arg()
    if nested:
        root = nodes.add(root, "DICT_ITEM", "h")
    nodes.add(root, access, argument, COMPARE=("<", 10**20 + 5, True))
    tree = nodes.tree()
    slot = {"h": holder} if nested else holder
    for _ in range(3):
        assert hits(tree, slot)
    if not replaced_at_the_same_address(lambda: fresh(7), lambda value: store(holder, value), lambda: load(holder)):
        pytest.skip("the allocator did not reuse the place")
    assert not hits(tree, slot)


@pytest.mark.parametrize("container", CONTAINERS)
def test_a_new_tuple_at_an_old_address(container: str) -> None:
    make, store, load, (access, argument) = CONTAINERS[container]
    holder = make((fresh(0), 1, 2))
    nodes = Nodes()
    node = nodes.add(nodes.arg(), access, argument)
    nodes.add(node, "TUPLE_ITEM", 2, EQUALS=2)
    tree = nodes.tree()
    for _ in range(3):
        assert hits(tree, holder)
    three = 3
    if not replaced_at_the_same_address(
        lambda: (None, 1, three), lambda value: store(holder, value), lambda: load(holder)
    ):
        pytest.skip("the allocator did not reuse the place")
    assert not hits(tree, holder)


@pytest.mark.parametrize("container", CONTAINERS)
def test_another_type_at_an_old_address(container: str) -> None:
    make, store, load, (access, argument) = CONTAINERS[container]
    holder = make([1, 2])
    nodes = Nodes()
    node = nodes.add(nodes.arg(), access, argument)
    nodes.add(nodes.add(node, "LIST_ITEM", 0), "TYPE_OF", IS=int)
    tree = nodes.tree()
    for _ in range(3):
        assert hits(tree, holder)

    class Same:
        __slots__ = ("a", "b", "c")

    replaced_at_the_same_address(Same, lambda value: store(holder, value), lambda: load(holder))
    if load(holder) is None:
        store(holder, Same())
    assert not hits(tree, holder)


def test_a_new_root_at_an_old_address() -> None:
    nodes = Nodes()
    nodes.add(nodes.arg(), "TUPLE_ITEM", 0, COMPARE=("<", 10**20, True))
    tree = nodes.tree()
    big = 10**20
    for i in range(200):
        assert hits(tree, (big - 1 - i,))
        assert not hits(tree, (big + 1 + i,))


def test_a_fresh_list_in_every_call() -> None:
    nodes = Nodes()
    root = nodes.arg(TYPE=list, LENGTH=3)
    for i in range(3):
        nodes.add(root, "LIST_ITEM", i, TYPE=Weighted, out=True)
    tree = nodes.tree()
    for _ in range(300):
        items = [object_of(1) for _ in range(3)]
        assert list(tree.check_strict((items,), function)) == items
    items[1] = 5  # type: ignore[call-overload]
    assert not hits(tree, items)


# ---- what is held ----


def test_nothing_of_the_user_is_held() -> None:
    module = Module(2)
    tree = module_tree(module)
    for _ in range(3):
        assert hits(tree, module)
    parts = [weakref.ref(part) for part in (module, module.children["0"], *fetched_of(module))]
    del module
    gc.collect()
    assert [part() for part in parts] == [None] * len(parts)
    assert not tree.dead
    assert hits(tree, other := Module(2)) and hits(tree, other)


def test_death_of_what_guards_name() -> None:
    def make() -> tuple[Any, Any, Any]:
        class Temporary:
            width = 1

        return Temporary, Temporary(), Temporary()

    for kind in ("TYPE", "IS", "KNOWN", "KEY"):
        cls, first, second = make()
        nodes = Nodes()
        if kind == "TYPE":
            nodes.add(nodes.arg(TYPE=cls), "INSTANCE_DICT", LENGTH=0)
        elif kind == "IS":
            nodes.arg(IS=first)
        elif kind == "KNOWN":
            nodes.arg()
            nodes.add(nodes.add(-1, "KNOWN", cls), "TYPE_LOOKUP", "width", EQUALS=1)
        else:
            nodes.arg(DICT_KEYS=(cls,))
        tree = nodes.tree()
        del nodes
        slot = {cls: 1} if kind == "KEY" else first
        assert hits(tree, slot) and hits(tree, slot) and not tree.dead
        del slot, first
        gc.collect()
        assert tree.dead is (kind == "IS")
        del cls, second
        gc.collect()
        assert tree.dead
        assert tree.check((None,), function) is None
        assert "is gone" in words(tree, None)
        assert tree.nodes  # what died is None


def test_a_property_that_dies_leaves_no_dangling_pointer() -> None:
    def getter(self: Any) -> int:
        return 1

    class Cls:
        value = property(getter)

    nodes = Nodes()
    nodes.add(nodes.add(-1, "KNOWN", Cls), "TYPE_LOOKUP", "value", IS=Cls.__dict__["value"])
    tree = nodes.tree(0)
    del nodes
    assert hits(tree) and hits(tree)
    del Cls.value
    gc.collect()
    assert tree.nodes[1][3][0][1].address > 0
    for _ in range(1000):
        Cls.value = property(lambda self: 2)  # type: ignore[assignment]
        assert tree.check((), function) is None
    del getter
    gc.collect()
    assert tree.dead


# ---- Python code in the middle ----


def test_a_check_inside_a_check() -> None:
    """Making an instance dictionary may run the garbage collector, and that anything: here, the same check."""
    nodes = Nodes()
    item = nodes.add(nodes.arg(TYPE=list), "LIST_ITEM", 0, TYPE=Weighted)
    nodes.add(nodes.add(item, "INSTANCE_DICT"), "DICT_ITEM", "value", COMPARE=("<", 10, True), out=True)
    tree = nodes.tree()
    answers = []

    class Cycle:
        def __init__(self) -> None:
            self.me = self

        def __del__(self) -> None:
            answers.append(tree.check(([object_of(4)],), function))

    threshold = gc.get_threshold()
    gc.set_threshold(1)
    try:
        for i in range(50):
            Cycle()
            assert tree.check(([object_of(i % 10)],), function) == (i % 10,)
    finally:
        gc.set_threshold(*threshold)
    gc.collect()
    assert answers and set(answers) == {(4,)}


def test_a_change_during_a_walk_is_not_remembered() -> None:
    """The collector runs while instance dictionaries are made, and a finalizer changes what was walked before."""
    nodes = Nodes()
    root = nodes.arg(TYPE=list)
    nodes.add(root, "LIST_ITEM", 0, COMPARE=("<", 10, True), out=True)
    nodes.add(
        nodes.add(nodes.add(root, "LIST_ITEM", 1, TYPE=Weighted), "INSTANCE_DICT"), "DICT_ITEM", "value", out=True
    )
    tree = nodes.tree()

    class Spoiler:
        def __init__(self, target: list[Any]) -> None:
            self.me, self.target = self, target

        def __del__(self) -> None:
            self.target[0] = 99

    threshold = gc.get_threshold()
    gc.set_threshold(1)
    try:
        for _ in range(20):
            target: list[Any] = [1, object_of(2)]
            Spoiler(target)
            tree.check((target,), function)
            answer = tree.check((target,), function)
            assert answer == ((1, 2) if target[0] == 1 else None)
            gc.collect()
            assert tree.check((target,), function) is None
    finally:
        gc.set_threshold(*threshold)


def test_late_nodes_are_walked_every_time() -> None:
    """An attribute computed by C code of another extension may do anything: it is read after all else."""
    x = {"f": io.StringIO(), "n": 1}
    nodes = Nodes()
    root = nodes.arg(TYPE=dict)
    stream = nodes.add(root, "DICT_ITEM", "f")
    nodes.add(stream, "GETATTR", "closed", EQUALS=False, name="closed", out=True)
    nodes.add(root, "DICT_ITEM", "n", EQUALS=1, out=True)
    tree = nodes.tree()
    for _ in range(4):
        assert tree.check_strict((x,), function) == (False, 1)
    info = tree.memo_info()
    assert info["hits"] >= 2 and info["late"] >= 1
    x["f"].close()
    assert not hits(tree, x)
    assert words(tree, x) == "closed was False, now True"


# ---- members ----


def remembered(nodes: Nodes, *args: Any) -> Any:
    """A tree that hits by its memos, with nothing left to walk."""
    tree = nodes.tree(slots=len(args))
    for _ in range(4):
        assert tree.check_strict(args, function) is not None
    info = tree.memo_info()
    assert info["hits"] >= 2 and info["late"] == 0
    return tree


def test_members_of_c_objects_are_words() -> None:
    partial = functools.partial(function, 1)
    nodes = Nodes()
    part = nodes.add(nodes.arg(TYPE=dict), "DICT_ITEM", "f")
    nodes.add(nodes.add(part, "GETATTR", "args"), "TUPLE_ITEM", 0, EQUALS=1, name="args[0]", out=True)
    tree = remembered(nodes, {"f": partial})
    assert hits(tree, {"f": functools.partial(function, 1)})
    partial.__setstate__((function, (2,), {}, None))
    assert not hits(tree, {"f": partial})
    assert words(tree, {"f": partial}) == "args[0] was 1, now 2"


class Meta(type):
    """A metaclass can say anything of its classes, also later."""


def class_and_bases(meta: type) -> tuple[Any, Any, Any]:
    first, second = meta("First", (), {}), meta("Second", (), {})
    return meta("Below", (first,), {}), first, second


@pytest.mark.parametrize("meta", [type, Meta])
def test_bases_of_classes_are_words(meta: type) -> None:
    below, first, second = class_and_bases(meta)
    nodes = Nodes()
    mro = nodes.add(nodes.add(-1, "KNOWN", below), "GETATTR", "__mro__", LENGTH=3)
    nodes.add(mro, "TUPLE_ITEM", 1, IS=first, name="base")
    tree = remembered(nodes)
    below.__bases__ = (second,)
    assert not hits(tree)
    below.__bases__ = (first,)
    assert hits(tree)
    below.unrelated = 1
    assert hits(tree)


def test_a_metaclass_that_hides_the_bases() -> None:
    below, first, _ = class_and_bases(Meta)
    nodes = Nodes()
    mro = nodes.add(nodes.add(-1, "KNOWN", below), "GETATTR", "__mro__", LENGTH=3)
    nodes.add(mro, "TUPLE_ITEM", 1, IS=first)
    tree = remembered(nodes)
    hiding = type("Hiding", (Meta,), {"__mro__": property(lambda cls: ())})
    below.__class__ = hiding
    assert not hits(tree)
    below.__class__ = Meta
    assert hits(tree)


def test_names_are_words() -> None:
    cls, named = type("Before", (), {}), types.FunctionType(function.__code__, {}, "before")
    nodes = Nodes()
    nodes.add(nodes.add(-1, "KNOWN", cls), "GETATTR", "__name__", EQUALS="Before", name="class")
    known = nodes.add(-1, "KNOWN", named)
    nodes.add(known, "GETATTR", "__name__", EQUALS="before", name="function")
    nodes.add(known, "GETATTR", "__qualname__", EQUALS="function")
    tree = remembered(nodes)
    cls.__name__ = "After"
    assert words(tree) == "class was 'Before', now 'After'"
    cls.__name__ = "".join(["Be", "fore"])
    assert hits(tree)
    named.__name__ = "after"
    assert words(tree) == "function was 'before', now 'after'"
    assert not hits(tree)


# ---- leaks ----


def test_references_stay_what_they_are() -> None:
    import sys

    module = Module(1)
    tree = module_tree(module)
    tracked = [module, Module, Weighted, function, module.items, *fetched_of(module), module.__dict__]
    tree.check((module,), function)
    before = [sys.getrefcount(item) for item in tracked]
    for i in range(100_000):
        tree.check((module,), function)
        if i % 1000 == 0:
            tree.explain((module,), function)
            tree.explain((None,), function)
            tree.check((None,), function)
            module.counter = i  # type: ignore[attr-defined]
            tree.check((module,), function)
            module.hooks = {}
            tree.check((module,), function)
    del module.counter  # type: ignore[attr-defined]
    assert [sys.getrefcount(item) for item in tracked] == before


def test_memory_does_not_grow() -> None:
    import tracemalloc

    module = Module(2)

    def work(times: int) -> None:
        for i in range(times):
            tree = module_tree(module)
            for _ in range(3):
                tree.check((module,), function)
            module.hooks = {}
            tree.check((module,), function)
            tree.explain((None,), function)
            tree.check_strict((module,), function)

    tracemalloc.start()
    work(150)  # until the interpreter's own free lists are filled
    gc.collect()
    first = tracemalloc.get_traced_memory()[0]
    work(300)
    gc.collect()
    second = tracemalloc.get_traced_memory()[0]
    tracemalloc.stop()
    assert second - first < 15_000


def test_broken_specifications_leak_nothing() -> None:
    import sys

    class Cls:
        pass

    before = sys.getrefcount(Cls)
    for _ in range(100):
        nodes = Nodes()
        nodes.arg(TYPE=Cls, IS=[])
        with pytest.raises(TypeError):
            nodes.tree()
    del nodes
    assert sys.getrefcount(Cls) == before


def test_dictionary_versions() -> None:
    assert core.dict_tags_reliable() in (True, False)
