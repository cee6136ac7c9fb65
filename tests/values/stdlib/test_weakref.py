"""Weak references and proxies that the program makes."""

from __future__ import annotations

import collections
import weakref

import pytest

import framelift
from tests.helpers import check
from tests.values.cases import Cases, vector

cases = Cases()
X = vector()


class Node:
    def __init__(self, value):
        self.value = value

    def __add__(self, other):
        return self.value + other

    def __eq__(self, other):
        return isinstance(other, Node) and self.value == other.value

    def __len__(self):
        return 3

    def __call__(self, n):
        return self.value * n


class Slotted:
    __slots__ = ("value",)


@cases(X)
def reference(x):
    node = Node(2)
    ref = weakref.ref(node)
    return x + ref().value, ref() is node, ref is weakref.ref(node), ref == weakref.ref(node), type(ref)


@cases(X)
def references_compare_what_they_refer_to(x):
    first, second, third = Node(1), Node(1), Node(2)
    a, b, c = map(weakref.ref, (first, second, third))
    return x + 1, a == b, a == c, a is b, a != c, a.__callback__


@cases(X)
def proxy(x):
    node = Node(2)
    stand_in = weakref.proxy(node)
    stand_in.value += 3
    stand_in.more = "more"
    return x + stand_in.value, stand_in + 1, len(stand_in), stand_in(4), node.more, stand_in == node, type(stand_in)


@cases(X)
def proxy_has_no_hash(x):
    node = Node(2)
    try:
        return {weakref.proxy(node): 1}
    except TypeError as error:
        return x + 1, str(error)


@cases(X)
def linked_in_a_circle(x):
    class Link:
        __slots__ = ("previous", "next", "key", "__weakref__")

    root = Link()
    root.previous = root.next = weakref.proxy(root)
    for key in "abc":
        link, last = Link(), root.previous
        link.previous, link.next, link.key = last, weakref.proxy(root), key
        last.next = link
        root.previous = weakref.proxy(link)
    found, link = [], root.next
    while hasattr(link, "key"):
        found.append(link.key)
        link = link.next
    return x + len(found), found


@cases(X, expect_breaks=1, expect_ops=1)
def what_may_have_died_is_asked_in_python(x):
    ref = weakref.ref(Node(1))
    return x + 1, ref() is None


@cases(X)
def held_by_a_container_or_a_closure(x):
    kept = [{"node": Node(1)}]
    other = Node(5)
    first, second = weakref.ref(kept[0]["node"]), weakref.ref(other)

    def get():
        return other

    kept.append(get)
    return x + first().value + second().value + len(kept)


@cases(X)
def cannot_be_referred_to(x):
    found = []
    for made in (Slotted(), 1, (), "a", None, [], {}):
        try:
            weakref.ref(made)
        except TypeError as error:
            found.append(str(error))
    return x + 1, found


@cases(X)
def kinds_that_can(x):
    def function():
        return 7

    members, queue = {1, 2}, collections.deque([1])
    refs = [weakref.ref(function), weakref.ref(members), weakref.ref(queue)]
    return x + refs[0]()(), refs[1]() is members, refs[2]() is queue


@cases(X, expect_breaks=None, expect_hit=False)
def returned(x):
    node = Node(3)
    ref, stand_in = weakref.ref(node), weakref.proxy(node)
    return x + 1, node, ref() is node, stand_in.value


test_programs = cases.test


def test_references_that_are_returned_refer_to_what_is_returned():
    def f(x):
        node = Node(3)
        return x + 1, node, weakref.ref(node), weakref.proxy(node)

    _, node, ref, stand_in = framelift.compile(f, backend="eager", fullgraph=True)(X)
    assert ref() is node and stand_in.value == 3
    del node
    assert ref() is None


def test_id_and_texts_keep_nothing_alive():
    def f(x):
        node = Node(3)
        ref, number = weakref.ref(node), id(node)
        del node
        return x + 1, ref(), number == 0

    assert framelift.compile(f, backend="eager")(X)[1] is None


def _watched_function(x):
    def function():
        return 3

    found = weakref.ref(function)
    framelift.graph_break()
    return x + found()()


def _watched_containers(x):
    members, queue = {1, 2}, collections.deque([1])
    found = weakref.ref(members), weakref.ref(queue)
    framelift.graph_break()
    return x + len(found[0]()), len(found[1]())


def _watched_tensor(x):
    y = x + 1
    found = {"y": weakref.ref(y)}
    framelift.graph_break()
    x = x + found["y"]()
    framelift.graph_break()
    return x + found["y"]()


def _watched_in_a_cell(x):
    def inner():
        return 3

    def outer():
        return inner()

    found = weakref.ref(inner)
    framelift.graph_break()
    x = x + 1
    framelift.graph_break()
    return x, found() is None


@pytest.mark.parametrize("fn", [_watched_function, _watched_containers, _watched_tensor, _watched_in_a_cell])
def test_variables_keep_what_weak_references_refer_to(fn):
    check(fn, X, expect_breaks=None, expect_hit=False)  # each call makes another reference
