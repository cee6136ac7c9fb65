"""Effects: in order, applied once, and undone where an instruction breaks after it changed something."""

from __future__ import annotations

import pytest
import torch

import framelift
from tests.helpers import check
from tests.helpers.untraced import print
from tests.values.programs import Programs, x

programs = Programs()
BREAKS = {"expect_breaks": None, "expect_ops": 1}


class Thing:
    def __init__(self, k=0):
        self.k = k


class Slotted:
    __slots__ = ("s",)

    def __init__(self, s):
        self.s = s


STATE = {"n": 0}
ITEMS = [1]
NUMBER = 1


def untraceable(*values):
    print(*values)


# -- an inlined function changes things, then breaks: the whole call is undone and Python does it once ---------------


def changes_list(items):
    items.append(len(items))
    untraceable(items)
    items.append("after")


@programs(args=(x(), [0]), **BREAKS)
def input_list(x, items):
    y = x + 1
    changes_list(items)
    return y, items


@programs(**BREAKS)
def own_list(x):
    y = x + 1
    items = [1]
    changes_list(items)
    return y, items


def changes_dict(table):
    table["new"] = 1
    del table["old"]
    table.setdefault("s", []).append(2)
    untraceable(table)
    table["after"] = 3


@programs(args=(x(), {"old": 0, "keep": 1}), **BREAKS)
def input_dict(x, table):
    y = x + 1
    changes_dict(table)
    return y


def changes_object(thing):
    thing.k += 1
    thing.fresh = [thing.k]
    untraceable(thing.k, thing.fresh)
    thing.k += 10
    del thing.fresh


@programs(args=(x(), Thing(5)), **BREAKS)
def input_object(x, thing):
    y = x + 1
    changes_object(thing)
    return y * thing.k


@programs(**BREAKS)
def own_object(x):
    y = x + 1
    thing = Thing(2)
    changes_object(thing)
    return y, thing


def changes_slot(thing):
    thing.s += 1
    untraceable(thing.s)
    thing.s += 10


@programs(args=(x(), Slotted(5)), **BREAKS)
def input_slot(x, thing):
    y = x + 1
    changes_slot(thing)
    return y * thing.s


@programs(**BREAKS)
def cell(x):
    y = x + 1
    n = 0

    def change():
        nonlocal n
        n += 1
        untraceable(n)
        n += 10

    change()
    return y * n, n


def changes_global():
    global NUMBER
    NUMBER += 1
    STATE["n"] += 1
    ITEMS.append(NUMBER)
    untraceable(NUMBER, STATE, ITEMS)
    NUMBER += 10


@programs(**BREAKS)
def globals_(x):
    y = x + 1
    changes_global()
    return y * NUMBER


def changes_set(members):
    members.add(9)
    members.discard(1)
    untraceable(sorted(members))
    members.add(10)


@programs(args=(x(), {1, 2}), **BREAKS)
def input_set(x, members):
    y = x + 1
    changes_set(members)
    return y, members


@programs(args=(x(), [1, 2, 3]), **BREAKS)
def iterator(x, items):
    y = x + 1
    it = iter(items)

    def consume():
        first = next(it)
        untraceable(first)
        return first + next(it)

    return y + consume(), list(it)


@programs(**BREAKS)
def default_argument(x):
    def remembers(v, seen=[]):  # noqa: B006
        seen.append(v)
        untraceable(seen)
        return len(seen)

    y = x + 1
    return y + remembers(1) + remembers(2)


@programs(**BREAKS)
def attribute_of_function(x):
    def f():
        f.count += 1
        untraceable(f.count)
        return f.count

    f.count = 0
    y = x + 1
    return y + f() + f()


@programs(args=(x(),), **BREAKS)
def tensor_in_place(x):
    y = x + 1

    def change(t):
        t.add_(1)
        untraceable("t")
        t.mul_(2)
        return t

    return change(y), y


@programs(args=(x(),), **BREAKS)
def input_tensor_in_place(x):
    def change(t):
        t.add_(1)
        untraceable("t")
        t.mul_(2)

    y = x * 2
    change(x)
    return y + x


@programs(args=(torch.ones(2, requires_grad=True),), **BREAKS)
def grad_mode(p):
    def change(q):
        with torch.no_grad():
            r = q * 2
            untraceable("no grad")
            return r, torch.is_grad_enabled()

    q = p * 2
    return change(q), q * 3, torch.is_grad_enabled()


@programs(args=(x(),), **BREAKS)
def random_numbers(x):
    def draw(v):
        r = v + torch.rand(2, 3)
        untraceable("r")
        return r + torch.rand(2, 3)

    y = torch.rand(2, 3) + x
    return draw(y)


def half_unpacked(items):
    first, second = items
    items.clear()
    untraceable(first)
    return first + second


@programs(args=(x(), [1, 2]), **BREAKS)
def many_changes_in_one_expression(x, items):
    y = x + 1
    return y, [items.append(3), half_unpacked(items[:2]), items.pop(), untraceable(items), items.pop()]


@programs(args=(x(), [[], {}]), **BREAKS)
def nested_calls(x, pair):
    def outer(v):
        pair[0].append("outer")
        inner(v)
        pair[0].append("outer again")

    def inner(v):
        pair[1]["inner"] = v
        deepest()
        pair[1]["again"] = 1

    def deepest():
        pair.append(3)
        untraceable(len(pair))

    y = x + 1
    outer(2)
    return y


@programs(args=(x(), []), **BREAKS)
def comprehension(x, log):
    y = x + 1
    return [log.append(i) or (untraceable(i) if i == 1 else y + i) for i in range(3)]


@programs(args=(x(), []), **BREAKS)
def sort_key(x, log):
    def key(v):
        log.append(v)
        if v == 2:
            untraceable("key")
        return -v

    y = x + 1
    return y, sorted([1, 2, 3], key=key)


@programs(args=(x(), []), **BREAKS)
def exception_after_change(x, log):
    def change():
        log.append(1)
        raise KeyError("k")

    y = x + 1
    change()
    return y


@programs(args=(x(), []))
def exception_caught_after_change(x, log):
    def change():
        log.append(1)
        raise KeyError("k")

    y = x + 1
    try:
        change()
    except KeyError:
        log.append(2)
    return y


# -- order and identity of what is replayed --------------------------------------------------------------------------


@programs(args=(x(), [1], {"k": 1}, Thing(1)))
def linked_to_each_other(x, items, table, thing):
    items.append(table)
    table["items"] = items
    thing.table = table
    items.append(thing)
    thing.y = x + 1
    return items[1]["items"] is items


@programs(args=(x(), [1, 2, 3]))
def swapped(x, items):
    items[0], items[2] = items[2], items[0]
    items.reverse()
    items.insert(1, x + 1)
    return items.pop()


@programs(args=(x(), Thing(1), Thing(2)))
def swapped_attributes(x, a, b):
    a.k, b.k = b.k, a.k
    a.other, b.other = b, a
    return x + a.k


@programs(args=(x(), {"a": 1, "b": 2}))
def dict_order(x, table):
    table["a"] = table.pop("a") + 1
    table["c"] = x + 1
    del table["b"]
    table["b"] = 3
    return list(table)


@programs(args=(x(), [1]))
def changed_and_changed_back(x, items):
    items.append(2)
    items.pop()
    return x + len(items)


@programs(args=(x(), [[1], [2]]))
def inner_list_moved(x, rows):
    first = rows.pop(0)
    first.append(x + 1)
    rows.append(first)
    return rows


@programs
def globals_in_order(x):
    global NUMBER
    NUMBER = 5
    STATE["x"] = NUMBER
    NUMBER += 1
    ITEMS[:] = [NUMBER, x + 1]
    return NUMBER


def test_nothing_is_touched_by_capture():
    """Capture itself changes no real object: a backend that looks sees the state before the call."""
    items, thing = [1], Thing(1)
    seen = []

    def backend(module, inputs):
        seen.append((list(items), thing.k, dict(STATE)))
        return module

    def fn(x):
        items.append(2)
        thing.k = 5
        return x + len(items)

    framelift.compile(fn, backend=backend)(x())
    assert seen == [([1], 1, dict(STATE))]
    assert items == [1, 2] and thing.k == 5


def test_a_graph_that_raises_leaves_nothing_behind():
    """The graph runs before any effect is replayed: if it raises, Python runs the function, and does it all once."""
    log = []

    def fn(x, i):
        log.append("once")
        return x[i] + 1

    lifted = framelift.compile(fn, backend="eager")
    index = torch.tensor([0, 1])
    lifted(x(), index)
    assert log == ["once"]
    with pytest.raises(IndexError):
        lifted(x(), torch.tensor([0, 99]))
    assert log == ["once", "once"]


def test_an_object_used_as_two_inputs_stays_one():
    def fn(a, b, x):
        a.append(1)
        b.append(2)
        return x + len(a)

    one = []
    check(fn, one, one, x(), changed=[([], [], x())])
    check(fn, [], [], x(), changed=[(one, one, x())])


test_programs = programs.test()
