"""Random objects, random guards on them, random changes: the native check always agrees with the reference."""

from __future__ import annotations

import collections
import random
import types
from collections.abc import Callable
from typing import Any

import pytest

from framelift.native import core
from tests.native.guards_builder import Nodes, function

Undo = Callable[[], Any]


class Mark:
    """An object that guards tell by its identity only."""


class World:
    """An object graph, a tree of guards that hold on it, and ways to change it and back."""

    def __init__(self, seed: int) -> None:
        self.random = random.Random(seed)
        self.classes = [type(f"C{i}", (), {"width": i}) for i in range(3)]
        self.classes.append(type("Derived", (self.classes[0],), {}))
        self.containers: list[Any] = []
        self.marks = [Mark() for _ in range(6)]
        self.marked: list[tuple[int, Mark]] = []
        self.root = [self.container(4)]
        self.containers.append(self.root)
        self.nodes = Nodes()
        self.fetchable = 0
        self.guard(self.nodes.arg(name="root"), self.root, 4)
        self.relate()
        self.tree = self.nodes.tree()

    # ---- making ----

    def constant(self) -> Any:
        choose = self.random
        if choose.random() < 0.4:
            return choose.choice(self.marks)
        return choose.choice(
            [
                *(None, True, False, 0, 1, 2, choose.random(), choose.randrange(10**20, 10**20 + 4)),
                *("a" * choose.randrange(3), "text", b"x", (1, choose.randrange(3)), frozenset([choose.randrange(3)])),
            ]
        )

    def value(self, depth: int) -> Any:
        return self.container(depth - 1) if depth > 0 and self.random.random() < 0.7 else self.constant()

    def container(self, depth: int) -> Any:
        kind = self.random.choice(
            ["instance"] * 3 + ["dict"] * 3 + ["list", "tuple", "cell", "module", "ordered", "set"]
        )
        size = self.random.randrange(1, 4)
        if kind == "tuple":
            return tuple(self.value(depth) for _ in range(size))
        made: Any
        if kind == "instance":
            made = self.random.choice(self.classes)()
            for i in range(size):
                setattr(made, f"a{i}", self.value(depth))
        elif kind == "dict":
            made = {self.random.choice([f"k{i}", i]): self.value(depth) for i in range(size)}
        elif kind == "ordered":
            made = collections.OrderedDict((f"k{i}", self.value(depth)) for i in range(size))
        elif kind == "list":
            made = [self.value(depth) for _ in range(size)]
        elif kind == "set":
            made = {self.random.randrange(5) for _ in range(size)}
        elif kind == "cell":
            made = types.CellType(self.value(depth))
        elif kind == "function":
            made = closure_over(self.value(depth))
            made.__defaults__ = (self.value(depth),)
            made.__kwdefaults__ = {"key": self.value(depth)}
        else:
            made = types.ModuleType("made")
            for i in range(size):
                setattr(made, f"m{i}", self.value(depth))
        self.containers.append(made)
        return made

    # ---- guarding ----

    def checks(self, value: Any) -> dict[str, Any]:
        possible: dict[str, Any] = {"TYPE": type(value)}
        if type(value) in (int, float, str, bool):
            possible["COMPARE"] = ("==", value, True)
        if value is None or type(value) in (int, float, str, bool, bytes, tuple, frozenset):
            try:
                hash(value)
                core.GuardTree([(-1, core.ACCESS_ARG, 0, [(core.CHECK_EQUALS, value)], -1)], [], 1, 0)
                possible["EQUALS"] = value
            except TypeError:
                pass
        if isinstance(value, dict):
            possible |= {"DICT_KEYS": tuple(value), "KEY_ABSENT": "absent", "LENGTH": len(value)}
        if type(value) in (list, tuple, set):
            possible["LENGTH"] = len(value)
        if type(value) is set:
            possible["SET_EQUALS"] = frozenset(value)
            possible["SET_ORDER"] = tuple(value)
        if isinstance(value, (types.ModuleType, *self.classes)):
            possible["IS"] = value
            possible["NO_ATTR"] = "absent"
        count = self.random.randrange(0, 3)
        if type(value) in self.classes and self.random.random() < 0.8:  # as guards on instances mostly do
            return {"TYPE": type(value)} | dict(
                self.random.sample(sorted(possible.items(), key=str), min(count, len(possible)) // 2)
            )
        return dict(self.random.sample(sorted(possible.items(), key=str), min(count, len(possible))))

    def guard(self, node: int, value: Any, depth: int) -> None:
        kinds = [(getattr(core, f"CHECK_{kind}"), argument) for kind, argument in self.checks(value).items()]
        self.nodes.nodes[node][3].extend(kinds)
        if isinstance(value, Mark):
            self.marked.append((node, value))
        if depth == 0:
            return
        steps: list[tuple[str, Any, Any]] = []
        if type(value) in self.classes:
            stored = self.nodes.add(node, "INSTANCE_DICT")
            self.guard_dict(stored, vars(value), depth)
            if self.random.random() < 0.5:
                cls = self.nodes.add(node, "TYPE_OF")
                self.nodes.add(cls, "TYPE_LOOKUP", "width", EQUALS=type(value).width)
        elif isinstance(value, types.ModuleType):
            self.guard_dict(self.nodes.add(node, "MODULE_DICT"), vars(value), depth)
        elif isinstance(value, dict):
            self.guard_dict(node, value, depth)
        elif type(value) in (list, tuple):
            access = "LIST_ITEM" if type(value) is list else "TUPLE_ITEM"
            steps = [(access, i, item) for i, item in enumerate(value)]
        elif type(value) is types.FunctionType:
            parts = self.nodes.add(node, "FUNC_CLOSURE"), self.nodes.add(node, "FUNC_DEFAULTS")
            self.guard(parts[0], value.__closure__, depth + 1)
            self.guard(parts[1], value.__defaults__, depth)
            self.guard(self.nodes.add(node, "FUNC_KWDEFAULTS"), value.__kwdefaults__, depth)
        elif type(value) is types.CellType:
            steps = [("CELL_CONTENTS", None, value.cell_contents)]
        for access, argument, item in steps:
            if self.random.random() < 0.8:
                self.guard(self.nodes.add(node, access, argument, out=self.random.random() < 0.3), item, depth - 1)

    def guard_dict(self, node: int, stored: dict[Any, Any], depth: int) -> None:
        for key, item in stored.items():
            if self.random.random() < 0.8 and not (isinstance(key, str) and key.startswith("__")):
                self.guard(self.nodes.add(node, "DICT_ITEM", key, out=self.random.random() < 0.3), item, depth - 1)

    def relate(self) -> None:
        """Relations that hold between marks, by twos and over as many as there are."""
        for _ in range(len(self.marked)):
            (node, mark), (other, another) = self.random.choice(self.marked), self.random.choice(self.marked)
            if node != other:
                self.nodes.relate("SAME" if mark is another else "DISTINCT", node, other)
        one_each = {mark: node for node, mark in self.marked}
        if len(one_each) > 2:
            self.nodes.relate("DISTINCT", *one_each.values())

    # ---- changing ----

    def change(self) -> Undo:
        target = self.random.choice(self.containers)
        new = self.value(1)
        if type(target) in self.classes:
            return self.change_instance(target, new)
        if isinstance(target, types.ModuleType):
            return self.change_attribute(target, self.random.choice(["m0", "m1", "extra"]), new)
        if isinstance(target, dict):
            return self.change_dict(target, new)
        if type(target) is types.CellType:
            return self.change_attribute(target, "cell_contents", new)
        if type(target) is types.FunctionType:
            return self.change_function(target, new)
        if type(target) is set:
            item = self.random.randrange(5)
            present = item in target
            target.symmetric_difference_update({item})
            return lambda: target.add(item) if present else target.discard(item)
        old = list(target)
        self.random.choice(
            [lambda: target.append(new), lambda: target and target.pop(), lambda: set_first(target, new)]
        )()
        return lambda: target.__setitem__(slice(None), old)

    def change_attribute(self, target: Any, name: str, new: Any) -> Undo:
        had = name == "cell_contents" or name in vars(target)
        old = getattr(target, name, None)
        if had and self.random.random() < 0.2 and name != "cell_contents":
            delattr(target, name)
        else:
            setattr(target, name, new)
        return lambda: setattr(target, name, old) if had else delattr(target, name)

    def change_function(self, target: Any, new: Any) -> Undo:
        kind = self.random.randrange(3)
        if kind == 0:
            return self.change_attribute(target.__closure__[0], "cell_contents", new)
        if kind == 1:
            defaults = target.__defaults__
            target.__defaults__ = self.random.choice([None, (new,), (*defaults,)]) if defaults else (new,)
            return lambda: setattr(target, "__defaults__", defaults)
        return self.change_dict(target.__kwdefaults__, new)

    def change_instance(self, target: Any, new: Any) -> Undo:
        kind = self.random.randrange(6)
        if kind == 0:
            old_class = type(target)
            target.__class__ = self.random.choice(self.classes)
            return lambda: setattr(target, "__class__", old_class)
        if kind == 1:
            old_dict = vars(target)
            target.__dict__ = dict(old_dict)
            return lambda: setattr(target, "__dict__", old_dict)
        if kind == 2:
            return self.change_attribute(self.random.choice(self.classes), "width", new)
        return self.change_attribute(target, self.random.choice(["a0", "a1", "a2", "absent", "extra"]), new)

    def change_dict(self, target: dict[Any, Any], new: Any) -> Undo:
        key = self.random.choice(["k0", "k1", "absent", 0, 1, *target])
        if isinstance(target, collections.OrderedDict) and key in target and self.random.random() < 0.3:
            order = list(target)
            target.move_to_end(key)
            return lambda: [target.move_to_end(name) for name in order if name in target]
        old, had = target.get(key), key in target
        order = list(target)
        if had and self.random.random() < 0.3:
            del target[key]
        else:
            target[key] = new

        def undo() -> None:
            target[key] = old
            if not had:
                del target[key]
            elif list(target) != order:
                items = {name: target[name] for name in order if name in target}
                target.clear()
                target.update(items)

        return undo


def closure_over(value: Any) -> Any:
    def inner(a: Any = None, *, key: Any = None) -> Any:
        return value

    return inner


def set_first(target: list[Any], new: Any) -> None:
    if target:
        target[0] = new


@pytest.mark.parametrize("seed", range(60))
def test_native_agrees_with_reference(seed: int) -> None:
    world = World(seed)
    choose = random.Random(seed + 1000)
    assert world.tree.check_strict((world.root,), function) is not None, world.tree.explain((world.root,), function)
    undo: list[Undo] = []
    answers = collections.Counter()
    for _ in range(120):
        if undo and choose.random() < 0.55:
            undo.pop()()
        else:
            undo.append(world.change())
        for _ in range(choose.randrange(1, 4)):
            answers[world.tree.check_strict((world.root,), function) is not None] += 1
    while undo:
        undo.pop()()
    world.tree.check_strict((world.root,), function)
    assert answers[True]
