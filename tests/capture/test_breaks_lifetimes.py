"""What a variable holds lives as long as the frame, over graph breaks, though nobody reads the variable again."""

from __future__ import annotations

import gc
import weakref

import pytest
import torch

import framelift
from framelift.native import _core
from tests.helpers.check import check
from tests.helpers.record import Record

X = torch.arange(4.0)


class Node:
    def __init__(self, value):
        self.value = value


def referred_to(x):
    node = Node(1)
    reference = weakref.ref(node)
    framelift.graph_break()
    x = x + 1
    framelift.graph_break()
    return x, reference() is None


def value_of_weak_dictionary(x):
    values = weakref.WeakValueDictionary()
    first, second = Node(1), Node(2)
    values["first"] = first
    values["second"] = second
    before = len(values)
    del values["first"]
    return x + 1, before, len(values)


def counted(x):
    node = Node(1)
    proxy = weakref.proxy(node)  # noqa: F841
    reference = weakref.ref(node)  # noqa: F841
    gc.collect()
    return x + 1, weakref.getweakrefcount(node)


def proxied(x):
    node = Node(1)
    proxy = weakref.proxy(node)
    framelift.graph_break()
    return x + proxy.value


def in_a_list(x):
    nodes = [Node(1)]
    reference = weakref.ref(nodes[0])
    framelift.graph_break()
    return x + 1, reference() is None


def _inner(x):
    node = Node(1)
    reference = weakref.ref(node)
    framelift.graph_break()
    return x + 1, reference() is None


def of_an_inner_frame(x):
    return _inner(x)


def with_a_finalizer(x):
    died = []
    node = Node(1)
    weakref.finalize(node, died.append, 1)
    framelift.graph_break()
    x = x + 1
    framelift.graph_break()
    return x, list(died)


class Closing:
    def __init__(self, closed):
        self.closed = closed

    def __del__(self):
        self.closed.append(1)


def closed_at_the_end(x):
    closed = []
    closing = Closing(closed)  # noqa: F841
    framelift.graph_break()
    x = x + 1
    framelift.graph_break()
    return x, list(closed)


def replaced_in_a_loop(x):
    alive = []
    node = None
    for number in range(4):
        node = Node(number)
        reference = weakref.ref(node)
        framelift.graph_break()
        alive.append(reference() is not None)
        x = x + 1
    return x, alive


@framelift.disable
def _closing(closed):
    return Closing(closed)


def deleted(x):
    closed = []
    closing = _closing(closed)
    x = x + 1
    del closing
    closed.append(2)
    return x, closed


def replaced(x):
    closed = []
    closing = other = _closing(closed)
    x = x + 1
    closing = 1
    closed.append(2)
    other = 2
    closed.append(3)
    return x, closed, closing, other


def never_stored(x):
    closed = []
    _closing(closed)
    closed.append(2)
    return x + 1, closed


def of_an_inner_frame_that_ends(x):
    closed = []

    def inner(x):
        closing = _closing(closed)  # noqa: F841
        return x + 1

    x = inner(x)
    closed.append(2)
    return x * 2, closed


def in_a_list_that_is_cleared(x):
    closed = []
    [_closing(closed)].clear()
    return x + len(closed), closed


def in_a_list_that_is_measured(x):
    closed = []
    length = len([_closing(closed)])
    return x + len(closed) + length, closed


def in_a_dict_that_is_dropped(x):
    closed = []
    table = {"closing": _closing(closed)}
    x = x + len(closed)
    table["closing"] = 3
    return x + len(closed), closed, table


def in_an_object_that_is_dropped(x):
    closed = []
    node = Node(_closing(closed))
    x = x + len(closed)
    del node
    return x + len(closed), closed


ENDING = [
    deleted,
    replaced,
    never_stored,
    of_an_inner_frame_that_ends,
    in_a_list_that_is_cleared,
    in_a_list_that_is_measured,
    in_a_dict_that_is_dropped,
    in_an_object_that_is_dropped,
]


def kept_in_a_list(x):
    closed = []
    kept = [_closing(closed)]
    x = x + 1
    kept.append(1)
    x = x + len(closed)
    return x, len(kept), kept[0].closed is closed


def test_what_is_kept_in_a_container_breaks_nothing():
    checked = check(kept_in_a_list, X, expect_breaks=None)
    assert {event.id for event in checked.record.breaks} == {"FL0104"}


@pytest.mark.parametrize("program", ENDING)
def test_ends_where_it_is_let_go(program):
    checked = check(program, X, expect_breaks=None)
    assert any("FL0109" in event.id for event in checked.record.breaks)


@pytest.mark.parametrize(
    "program",
    [
        *(referred_to, value_of_weak_dictionary, counted, proxied, in_a_list, of_an_inner_frame),
        *(with_a_finalizer, closed_at_the_end, replaced_in_a_loop),
    ],
)
def test_lives_as_long_as_the_frame(program):
    check(program, X, expect_breaks=None, expect_hit=False)  # references are guarded by what they refer to


def _ending(ended, base):
    class Ending(base):
        def __del__(self):
            ended.append(1)

    return Ending()


def _let_go_in_plain_python(number):
    ended = []
    held = _ending(ended, object)
    held = None
    ended.append(2)
    return ended, held, number


def deep_in_calls_that_have_to_do_with_no_tensor(x):
    return x + 1, _let_go_in_plain_python(3)


def _at_the_end_of_an_iterator(x, base):
    ended = []
    iterator = iter(_ending(ended, base))
    next(iterator, None)
    ended.append(2)
    return x + 1, ended


@pytest.mark.parametrize("base", [list, tuple, dict, set])
def test_iterators_let_go_of_what_they_walk(base):
    check(lambda x: _at_the_end_of_an_iterator(x, base), X, expect_breaks=None, expect_hit=False)  # another class each


def test_frames_that_go_on_in_python_have_their_objects_to_themselves():
    check(deep_in_calls_that_have_to_do_with_no_tensor, X, expect_breaks=None, expect_hit=False)
    assert framelift.compile(_let_go_in_plain_python)(3)[0] == [1, 2]

    def outer(number):
        return _let_go_in_plain_python(number)

    assert framelift.compile(outer)(3)[0] == [1, 2]


class _LeavesAlone:
    """A context that lifts nothing."""

    key = "tests.capture.test_breaks_lifetimes"

    def __call__(self, code, function, slots):
        return None


def test_a_waiting_call_is_made_once():
    def function(a, b):
        return a, b

    waiting = _core.given(function, 1, 2)
    assert _core.run_hooked(_LeavesAlone(), waiting) == (1, 2)
    with pytest.raises(RuntimeError, match="goes on once"):
        waiting()
    with pytest.raises(TypeError, match="takes a function"):
        _core.given(3)


class Plain:
    pass


def callback_then_deleted(x):
    log = []
    obj = Plain()
    reference = weakref.ref(obj, lambda _: log.append("gone"))
    alive = reference() is obj
    x = x + 1
    del obj
    return x * len(log), log, alive, reference() is None


def callback_then_replaced(x):
    log = []
    obj = Plain()
    reference = weakref.ref(obj, lambda _: log.append("gone"))
    x = x + 1
    obj = None
    log.append("after")
    return x, log, reference() is obj


def finalized(x):
    log = []
    obj = Plain()
    finalizer = weakref.finalize(obj, log.append, "gone")
    x = x + 1
    del obj
    return x * len(log), log, finalizer.alive


@pytest.mark.parametrize("program", [callback_then_deleted, callback_then_replaced, finalized])
def test_what_weak_references_call_is_called_where_the_object_is_let_go(program):
    assert check(program, X, expect_breaks=None).graphs


@framelift.disable
def watched(log, callback):
    obj = Plain()
    log.append(weakref.ref(obj, callback))
    return obj


def perhaps_watched(x, callback):
    log = []
    obj = watched(log, callback)
    x = x + 1
    del obj
    log.append(log[0]() is None)
    return x, log[1:]


def test_a_callback_that_comes_later():
    heard = []
    lifted = framelift.compile(perhaps_watched, backend="eager")
    for callback in (None, lambda _: heard.append("gone"), None):
        expected = perhaps_watched(X, callback)
        del heard[:]
        assert repr(lifted(X, callback)) == repr(expected)
        assert heard == (["gone"] if callback else [])


def order_of_a_callback(x, callback):
    log = []
    obj = watched(log, None if callback is None else lambda _: callback(log))
    x = x + 1
    del obj
    log.append("after")
    return x, log[1:]


def test_a_callback_that_comes_later_is_called_in_its_place():
    lifted = framelift.compile(order_of_a_callback, backend="eager")
    for callback in (None, None, lambda log: log.append("gone"), None):
        assert repr(lifted(X, callback)) == repr(order_of_a_callback(X, callback))


def test_modules_are_not_looked_after():
    class Inner(torch.nn.Module):
        def forward(self, x):
            x = x + 1
            framelift.graph_break()
            return x.relu()

    module = Inner()
    reference = weakref.ref(module, print)
    lifted = framelift.compile(lambda x: module(x) * 2, backend="eager")
    with Record().listening() as record:
        assert torch.equal(lifted(X), module(X) * 2)
    assert len(record.graphs) == 2 and reference() is module
