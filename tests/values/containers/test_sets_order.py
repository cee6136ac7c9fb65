"""Sets that come from an input are walked in their order, which is guarded."""

from __future__ import annotations

import operator
import pickle
import statistics
import traceback

import pytest
import torch

import framelift
from tests.helpers import check
from tests.values.programs import x


def _walked(x, members):
    return x + 1, [member for member in members], sorted(map(str, members))


def collide():
    """Two equal sets of different order: 0 and 8 fall on the same place of a small table."""
    forth, back = {0, 8}, {8, 0}
    assert forth == back and list(forth) != list(back)
    return forth, back


@pytest.mark.parametrize("members", [{3, 1, 2}, {"b", "a"}, frozenset({None, "x", 1.5}), {8, 0}, {int, len, "a"}])
def test_walked_in_its_order(members):
    check(_walked, x(), members)


def test_another_order_is_another_entry():
    forth, back = collide()
    lifted = framelift.compile(_walked, backend="eager", fullgraph=True)
    assert lifted(x(), forth)[1] == list(forth)
    assert lifted(x(), back)[1] == list(back)
    assert lifted(x(), {0, 8, 1})[1] == list({0, 8, 1})


def test_equality_does_not_ask_for_the_order():
    forth, back = collide()
    calls = []

    def backend(graph, inputs):
        calls.append(graph)
        return graph

    lifted = framelift.compile(lambda x, members: x + len(members | {1}), backend=backend, fullgraph=True)
    lifted(x(), forth)
    lifted(x(), back)
    assert len(calls) == 1


def test_functions_and_classes_of_c_are_members():
    kinds = {int, float, operator.add}

    def f(x, kinds):
        return x + len(kinds), int in kinds, len in kinds, operator.add in kinds, {int, float} < kinds, kinds.copy()

    check(f, x(), kinds)


def test_a_changed_input_is_left_to_python():
    def f(x, members):
        members.add(16)
        return x + 1, list(members)

    forth, _ = collide()
    expected = forth | set()
    expected.add(16)
    assert framelift.compile(f, backend="eager")(torch.ones(1), forth)[1] == list(forth)
    assert forth == expected


def test_walked_twice_and_changed_after():
    def f(x, members):
        first = list(members)
        members.discard(first[0])
        return x + 1, first, first[1:] == [member for member in first if member in members]

    check(f, x(), {5, 3, 9})


@pytest.mark.parametrize("count", [0, 1, 2])
def test_iterators_behind_a_break_are_real(count):
    def f(x, members):
        iterator = iter(members)
        first = [next(iterator) for _ in range(count)]
        framelift.graph_break()
        return x + 1, type(iterator), first, list(iterator)

    forth, back = collide()
    for members in (forth, back, {"a", "b", "c"}):
        assert framelift.compile(f, backend="eager")(x(), members)[1:] == f(x(), members)[1:]


def test_iterators_over_sets_that_were_changed_are_pickled():
    def f(x, members):
        members.add(16)
        members.discard(16)
        iterator = iter(members)
        next(iterator)
        return x + 1, pickle.loads(pickle.dumps(iterator)), list(iterator)

    members = {1}
    result = framelift.compile(f, backend="eager")(x(), members)
    assert list(result[1]) == result[2] == []


class Named(set):
    pass


def test_subclasses_are_walked_in_their_order():
    forth, back = map(Named, collide())
    lifted = framelift.compile(_walked, backend="eager", fullgraph=True)
    for members in (forth, back, forth):
        assert lifted(x(), members)[1] == list(members)


def grown_in_its_loop(x: torch.Tensor, members: set[int]) -> tuple[torch.Tensor, list[int]]:
    seen = []
    try:
        for member in members:
            seen.append(member)
            members.add(member + 3)
    except RuntimeError:
        framelift.graph_break()
    return x + 1, sorted(members)


def grown_in_a_loop_over_a_new_set(x: torch.Tensor) -> tuple[torch.Tensor, list[int]]:
    return grown_in_its_loop(x, {1, 2})


def test_the_size_of_a_set_is_that_at_the_beginning_of_the_loop() -> None:
    check(grown_in_its_loop, torch.ones(2), {1, 2}, expect_breaks=None)
    check(grown_in_a_loop_over_a_new_set, torch.ones(2), expect_breaks=None)


def test_the_error_of_a_loop_over_a_set_that_grows_comes_from_the_loop_alone() -> None:
    def function(x, members, early):
        x = x * 2
        try:
            for member in members:
                if early:
                    framelift.graph_break()
                members.add(member + 3)
        except RuntimeError as error:
            return x, [entry.name for entry in traceback.extract_tb(error.__traceback__)]

    def over_a_new_set(x, early):
        return function(x, {1, 2}, early)

    for early in (False, True):
        check(function, torch.ones(2), {1, 2}, early, expect_breaks=None)
        check(over_a_new_set, torch.ones(2), early, expect_breaks=None)


def test_a_loop_over_a_set_that_changed_before_goes_on_after_a_break() -> None:
    def function(x, members):
        members.add(16)
        seen = []
        walk = iter(members)
        for member in walk:
            framelift.graph_break()
            seen.append((member, operator.length_hint(walk), list(pickle.loads(pickle.dumps(walk)))))
        return x + 1, seen, list(walk)

    check(function, torch.ones(2), {0, 8, 3}, expect_breaks=None)


def test_a_set_may_grow_for_a_while_between_two_members() -> None:
    def function(x, members):
        members.add(16)
        seen = []
        for member in members:
            members.add(5)
            framelift.graph_break()
            members.discard(5)
            seen.append(member)
        return x + 1, seen

    check(function, torch.ones(2), {0, 8, 3}, expect_breaks=None)


class Thing:
    pass


def test_sets_of_classes() -> None:
    def function(x):
        kinds = {int, float, Thing, "a", 3}
        kinds.discard(float)
        kinds |= {str, Thing}
        return x + len(kinds), [str(kind) for kind in kinds], kinds, frozenset(kinds), statistics.stdev([1, 2.5, 4])

    check(function, torch.ones(2), fullgraph=True)


def test_a_class_that_is_replaced_is_seen() -> None:
    def other():
        class Thing:
            pass

        return Thing

    kinds = [other(), other(), other()]
    lifted = framelift.compile(lambda x: (x + 1, list({*kinds, int})), backend="eager")
    for _ in range(3):
        assert lifted(torch.ones(2))[1] == list({*kinds, int})
        kinds.append(kinds.pop(0))
