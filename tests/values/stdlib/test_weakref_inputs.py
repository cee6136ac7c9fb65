"""Weak references to objects that existed before, and containers of such references."""

from __future__ import annotations

import functools
import gc
import weakref

import torch

import framelift
from tests.helpers.record import Record
from tests.values.programs import follow, x


class Node:
    def __init__(self, value):
        self.value = value


class Named(Node):
    def __eq__(self, other):
        return isinstance(other, Named) and self.value == other.value

    def __hash__(self):
        return hash(self.value)


def exactly(function, *args):
    """The lifted function in one graph gives what the function gives; so does the second call."""
    lifted = framelift.compile(function, backend="eager", fullgraph=True)
    for _ in range(2):
        for found, expected in zip(lifted(*args), function(*args), strict=True):
            assert torch.equal(found, expected) if isinstance(found, torch.Tensor) else found == expected


def test_made_in_the_program():
    node, other = Node(3), Node(4)
    ref = weakref.ref(node)
    with_callback = weakref.ref(node, lambda _: None)

    def f(x):
        made = weakref.ref(node)
        return (
            x + made().value,
            made is ref,
            made == ref,
            ref == made,
            made == weakref.ref(other),
            with_callback == made,
        )

    exactly(f, x())


def test_references_are_equal_if_their_objects_are():
    first, second, third = Named(1), Named(1), Named(2)
    refs = [weakref.ref(named) for named in (first, second, third)]

    def f(x):
        return x + 1, refs[0] == refs[1], refs[0] != refs[2], refs[0] is refs[1], {weakref.ref(first): 5}[refs[1]]

    exactly(f, x())


def test_a_key_of_a_weak_dictionary():
    known, unknown = Node(1), Node(2)
    notes = weakref.WeakKeyDictionary({known: 7, Node: 8})

    def f(x):
        return x + notes[known], known in notes, unknown in notes, notes.get(unknown, 3), len(notes), notes[Node]

    exactly(f, x())
    exactly(lambda x: (x + 1, notes.get(Node(3))), x())
    follow(
        f,
        (x(),),
        lambda: notes.__setitem__(known, 9),
        lambda: notes.__setitem__(unknown, 4),
        lambda: notes.__delitem__(unknown),
    )


def test_another_key_of_a_weak_dictionary():
    notes = weakref.WeakKeyDictionary()
    first, second = Node(1), Node(2)
    notes[first] = 5

    def f(x, node):
        return x + notes.get(node, 0)

    lifted = framelift.compile(f, backend="eager", fullgraph=True)
    for node in (first, second, first):
        assert torch.equal(lifted(x(), node), f(x(), node))


def test_a_value_of_a_weak_dictionary():
    node, other = Node(1), Node(2)
    names = weakref.WeakValueDictionary(a=node)

    def f(x):
        return x + names["a"].value, "a" in names, names.get("b"), len(names)

    exactly(f, x())
    follow(f, (x(),), lambda: names.__setitem__("a", other), lambda: names.pop("a"))


def test_the_death_of_a_value_is_seen():
    names = weakref.WeakValueDictionary()

    def f(x):
        found = names.get("a")
        return x if found is None else x + found.value

    lifted = framelift.compile(f, backend="eager", fullgraph=True)
    node = names["a"] = Node(4)
    assert torch.equal(lifted(x()), x() + 4)
    del node
    gc.collect()
    assert not len(names)
    assert torch.equal(lifted(x()), x())


def test_the_death_of_what_a_reference_with_a_callback_refers_to():
    dead = []
    node = Node(4)
    ref = weakref.ref(node, dead.append)

    def f(x):
        found = ref()
        return x if found is None else x + found.value

    lifted = framelift.compile(f, backend="eager")
    assert torch.equal(lifted(x()), x() + 4)
    del node
    gc.collect()
    assert dead == [ref]
    assert torch.equal(lifted(x()), x())


def test_a_reference_that_was_dropped_does_not_call_back():
    dead = []
    node = Node(4)
    holder = {"ref": weakref.ref(node, dead.append)}

    def f(x):
        return x + holder["ref"]().value

    assert torch.equal(framelift.compile(f, backend="eager", fullgraph=True)(x()), x() + 4)
    holder.clear()
    del node
    gc.collect()
    assert not dead


def test_a_member_of_a_weak_set():
    node, other = Node(1), Node(2)
    members = weakref.WeakSet([node])

    def f(x):
        return x + len(members), node in members, other in members

    exactly(f, x())
    follow(f, (x(),), lambda: members.add(other), lambda: members.discard(node))


def test_entries_keep_nothing_alive():
    notes = weakref.WeakKeyDictionary()
    node = Node(1)
    notes[node] = 2

    def f(x, node):
        return x + notes[node]

    lifted = framelift.compile(f, backend="eager", fullgraph=True)
    assert torch.equal(lifted(x(), node), x() + 2)
    del node
    gc.collect()
    assert not len(notes)


def test_what_has_died_stays_dead():
    ref = weakref.ref(Node(1))
    exactly(lambda x: (x + 1, ref() is None), x())


def test_one_that_has_died_and_one_that_has_not():
    def f(x, reference):
        node = reference()
        return x if node is None else x + node.value

    def dead(callback=None):
        node = Node(1)
        return weakref.ref(node, callback)

    alive = Node(3)
    references = [dead(), dead(print), dead(), weakref.ref(alive), weakref.ref(alive, print), dead()]
    lifted = framelift.compile(f, backend="eager", fullgraph=True)
    with Record().listening() as record:
        for reference in (*references, *references[::-1]):
            assert torch.equal(lifted(x(), reference), f(x(), reference))
    assert record.captures == 3  # those that are dead are alike


def test_an_object_that_the_program_drops():
    def f(x, held):
        ref = weakref.ref(held.pop())
        return x + 1, ref() is None

    assert framelift.compile(f, backend="eager")(x(), [Node(1)])[1] is True


def test_captures_keep_no_object_alive():
    """Neither what was referred to, nor what a cache was asked for: not until the collector comes by, either."""

    @functools.lru_cache
    def cached(node):
        return 2

    def entered_by_reference(node):
        reference = weakref.ref(node)
        return lambda x: x * reference().value

    def entered_by_cache(node):
        cached(node)
        holder = [node]
        return lambda x: x * cached(holder[0]) if holder else x

    framelift.compile(lambda x: x + 1, backend="eager")(x())  # torch's own modules are loaded, and keep frames
    gc.collect()
    gc.disable()
    try:
        for make in (entered_by_reference, entered_by_cache):
            node = Node(3)
            reference = weakref.ref(node)
            function = make(node)
            framelift.compile(function, backend="eager")(x())
            cached.cache_clear()
            for cell in function.__closure__:
                if isinstance(cell.cell_contents, list):
                    cell.cell_contents.clear()
            del node
            assert reference() is None, make
    finally:
        gc.enable()
