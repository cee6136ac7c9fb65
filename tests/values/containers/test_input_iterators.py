"""Iterators and deques that existed before the frame: read as they stand, advanced when the graph has run."""

from collections import deque

import pytest
import torch

import framelift
from tests.helpers import check, transcript


def fresh(make):
    """Arguments that cannot be copied, made anew for each call."""
    return lambda: (torch.arange(3.0), *make())


def left_over(iterator):
    return list(iterator)


def two_items(x, it):
    return x + next(it) + next(it), it


@pytest.mark.parametrize(
    "make",
    [
        lambda: iter([1, 2, 3, 4]),
        lambda: iter((1, 2, 3, 4)),
        lambda: iter(range(4)),
        lambda: iter(range(9, 1, -3)),
        lambda: reversed([1, 2, 3, 4]),
        lambda: map(abs, [-1, -2, -3]),
        lambda: filter(None, [0, 1, 0, 2, 3]),
    ],
)
def test_items_are_taken_and_the_rest_is_left(make):
    check(two_items, inputs=fresh(lambda: (make(),)), deterministic=False)
    iterator, twin = make(), make()
    framelift.compile(two_items, backend="eager")(torch.ones(2), iterator)
    two_items(torch.ones(2), twin)
    assert list(iterator) == list(twin)


def sum_of_all(x, it):
    for item in it:
        x = x + item
    return x + 1, next(it, "end")


@pytest.mark.parametrize("make", [lambda: iter([1, 2]), lambda: iter(()), lambda: iter(range(3)), lambda: reversed([])])
def test_to_the_end(make):
    check(sum_of_all, inputs=fresh(lambda: (make(),)), deterministic=False)
    iterator = make()
    framelift.compile(sum_of_all, backend="eager")(torch.ones(2), iterator)
    assert list(iterator) == []


def pairs_sum(x, it):
    for position, (a, b) in it:
        x = x + position * a - b
        if position == 6:
            break
    return x


@pytest.mark.parametrize("stop", [3, 9])
def test_enumerate_of_zip_advances_what_it_walks(stop):
    def make():
        first, second = iter(range(stop)), iter([1, 2, 3, 4])
        return enumerate(zip(first, second, strict=False), 5), first, second

    given, expected = make(), make()
    lifted = framelift.compile(pairs_sum, backend="eager", fullgraph=True)
    torch.testing.assert_close(lifted(torch.ones(2), given[0]), pairs_sum(torch.ones(2), expected[0]))
    assert [left_over(it) for it in given] == [left_over(it) for it in expected]


def both_ways(x, numbered, walked):
    x = x + next(numbered)[1]
    x = x * next(walked)
    return x + next(numbered)[0]


def test_enumerate_and_the_iterator_below_it_are_asked_in_turn():
    def make():
        walked = iter([2, 3, 4, 5, 6])
        return enumerate(walked), walked

    given, expected = make(), make()
    lifted = framelift.compile(both_ways, backend="eager", fullgraph=True)
    torch.testing.assert_close(lifted(torch.ones(2), *given), both_ways(torch.ones(2), *expected))
    assert [left_over(it) for it in given] == [left_over(it) for it in expected]


def test_enumerate_over_calls_is_left_to_python():
    calls = []

    def note(item):
        calls.append(item)
        return item

    def function(x, it):
        return x + next(it)[1]

    lifted = framelift.compile(function, backend="eager")
    iterator = enumerate(map(note, [1, 2, 3]))
    torch.testing.assert_close(lifted(torch.ones(2), iterator), torch.full((2,), 2.0))
    assert calls == [1]
    assert next(iterator) == (1, 2)


def test_strict_zip_complains():
    def function(x, it):
        for a, b in it:
            x = x + a + b
        return x

    check(function, inputs=fresh(lambda: (zip([1, 2], [3], strict=True),)), deterministic=False, expect_breaks=None)


def test_an_entry_serves_every_position_of_the_iterator():
    def function(x, it):
        return x + next(it)

    tensors = [torch.full((2,), float(i)) for i in range(5)]
    it = iter(tensors)
    assert transcript(function, [(torch.ones(2), it) for _ in range(4)]) == "miss hit hit hit"
    assert next(it) is tensors[4]


def test_the_end_is_guarded():
    def function(x, it):
        return x + next(it, 7)

    lifted = framelift.compile(function, backend="eager", fullgraph=True)
    assert lifted(torch.ones(1), iter([])).item() == 8
    assert lifted(torch.ones(1), iter([1])).item() == 2
    done = iter([1])
    list(done)
    assert lifted(torch.ones(1), done).item() == 8


def test_a_list_that_changes_while_it_is_walked():
    def function(x, items, it):
        x = x + next(it)
        items.append(9)
        items[1] = 5
        return x + next(it)

    def make():
        items = [1, 2, 3]
        return items, iter(items)

    check(function, inputs=fresh(make), expect_breaks=None, deterministic=False)


def test_a_list_that_is_the_walked_one_only_sometimes():
    def function(x, items, it):
        items.append(9)
        return x + sum(it)

    lifted = framelift.compile(function, backend="eager")
    assert lifted(torch.ones(1), [], iter([1, 2])).item() == 4
    items = [1, 2]
    assert lifted(torch.ones(1), items, iter(items)).item() == 13


def test_one_iterator_given_twice():
    def function(x, a, b):
        return x + next(a) * 10 + next(b)

    lifted = framelift.compile(function, backend="eager", fullgraph=True)
    assert lifted(torch.zeros(1), iter([1, 2]), iter([3, 4])).item() == 13
    it = iter([1, 2])
    assert lifted(torch.zeros(1), it, it).item() == 12
    assert next(it, None) is None


def loop_over(make):
    def function(x):
        for item in make():
            x = x + item
            framelift.graph_break()
            x = x * 2
        return x

    return function


@pytest.mark.parametrize(
    "make",
    [
        lambda: range(1, 9),
        lambda: [1, 2, 3, 4, 5],
        lambda: (1, 2, 3, 4, 5),
        lambda: reversed([1, 2, 3, 4, 5]),
        lambda: reversed((1, 2, 3, 4, 5)),
        lambda: {"a": 1, "b": 2, "c": 3, "d": 4}.values(),
        lambda: map(abs, [-1, -2, -3, -4, -5]),
    ],
)
def test_a_loop_with_a_break_has_as_many_graphs_as_segments(make):
    """Before the loop, round the loop, and once more with a number that became symbolic; then hits."""
    result = check(loop_over(make), torch.ones(2), expect_breaks=None)
    breaks = [event.id for event in result.record.breaks]
    assert set(breaks) == {"FL0103"} or make().__class__ is reversed, breaks
    assert len(result.graphs) <= 6


def test_reversed_sees_what_is_changed():
    def function(x, items):
        for item in reversed(items):
            x = x + item
            items[0] = 10
        return x

    check(function, torch.ones(2), [1, 2, 3])


# -- deques -----------------------------------------------------------------------------------------------------------


def test_a_deque_is_changed():
    def function(x, items):
        items.append(x + 1)
        items.appendleft(2)
        items.rotate(1)
        return x + items.popleft(), items.maxlen

    check(function, torch.ones(2), deque([1, 2, 3]))
    check(function, torch.ones(2), deque([1, 2, 3], maxlen=3))


def test_a_deque_is_appended_to_without_being_read():
    def function(x, items):
        items.append(3)
        items.extend([4, 5])
        return x + 1

    lifted = framelift.compile(function, backend="eager", fullgraph=True)
    assert transcript(function, [(torch.ones(1), deque(range(n))) for n in (2, 5, 0)]) == "miss hit hit"
    items = deque([1])
    lifted(torch.ones(1), items)
    assert items == deque([1, 3, 4, 5])


@pytest.mark.parametrize("change", [lambda d: d.append(4), lambda d: d.__setitem__(0, 9)])
def test_a_changed_deque_is_seen(change):
    def function(x, items):
        return x + sum(items)

    lifted = framelift.compile(function, backend="eager", fullgraph=True)
    items = deque([1, 2])
    assert lifted(torch.zeros(1), items).item() == 3
    change(items)
    assert lifted(torch.zeros(1), items).item() == sum(items)


def test_another_bound_is_seen():
    def function(x, items):
        items.append(7)
        return x + len(items)

    lifted = framelift.compile(function, backend="eager", fullgraph=True)
    assert lifted(torch.zeros(1), deque([1, 2])).item() == 3
    assert lifted(torch.zeros(1), deque([1, 2], maxlen=2)).item() == 2


# -- dictionaries and sets ---------------------------------------------------------------------------------------------


@pytest.mark.parametrize("part", ["keys", "values", "items"])
def test_iterators_over_dicts(part):
    def function(x, it):
        first, second = next(it), next(it)
        return x + 1, first, second

    def make():
        return (iter(getattr({"a": 1, "b": [2], "c": 3}, part)()),)

    check(function, inputs=fresh(make), fullgraph=True, deterministic=False)
    it, twin = make()[0], make()[0]
    framelift.compile(function, backend="eager")(torch.ones(1), it)
    function(torch.ones(1), twin)
    assert list(it) == list(twin)


def test_a_dict_that_has_changed_its_size_is_noticed():
    def function(x, it):
        return x + next(it)

    lifted = framelift.compile(function, backend="eager")
    mapping = {1: 1, 2: 2}
    assert lifted(torch.zeros(1), iter(mapping)).item() == 1
    it = iter(mapping)
    mapping[3] = 3
    with pytest.raises(RuntimeError, match="changed size"):
        lifted(torch.zeros(1), it)
    assert lifted(torch.zeros(1), iter(mapping)).item() == 1


def test_large_numbers_and_pairs_that_are_fetched():
    def function(x, numbers, entries):
        return x + 1, next(numbers), next(entries)

    check(
        function,
        inputs=fresh(lambda: (iter(range(10**6, 10**7)), iter({"k": [1]}.items()))),
        fullgraph=True,
        deterministic=False,
    )


def grow_dict(x, mapping):
    for key in mapping:
        framelift.graph_break()
        x = x + mapping[key]
        mapping[key + "+"] = 1
    return x


def grow_set(x, members):
    for member in members:
        framelift.graph_break()
        x = x + member
        members.add(member + 100)
    return x


def grow_deque(x, items):
    for item in items:
        framelift.graph_break()
        x = x + item
        items.append(item)
    return x


def grow_deque_at_once(x, items):
    for item in items:
        x = x + item
        items.append(item)
    return x


def grow_made_set(x, _):
    members = {1, 2, 3}
    for member in members:
        framelift.graph_break()
        x = x + member
        members.add(member + 100)
    return x


@pytest.mark.parametrize(
    ("function", "container"),
    [
        (grow_dict, {"a": 1, "b": 2}),
        (grow_set, {1, 2, 3}),
        (grow_deque, deque([1, 2, 3])),
        (grow_deque_at_once, deque([1, 2, 3])),
        (grow_made_set, None),
    ],
)
def test_what_must_not_change_while_it_is_walked(function, container):
    def handled(x, walked):
        try:
            return function(x, walked)
        except RuntimeError as error:
            return x + 1, str(error)

    check(handled, torch.ones(2), container, expect_breaks=None)


def test_a_deque_may_have_items_replaced_while_it_is_walked():
    def function(x, items):
        for position, item in enumerate(items):
            items[2] = 7
            items.reverse()
            x = x + item * position
        return x

    check(function, torch.ones(2), deque([1, 2, 3]))


def test_loops_over_dicts_and_sets_with_breaks():
    def function(x, mapping):
        for key, value in mapping.items():
            framelift.graph_break()
            x = x + value
        for key in reversed(mapping):
            framelift.graph_break()
            x = x * mapping[key]
        for number in {4, 5, 6}:
            framelift.graph_break()
            x = x - number
        return x

    result = check(function, torch.ones(2), {"a": 1, "b": 2, "c": 3}, expect_breaks=None)
    assert {event.id for event in result.record.breaks} <= {"FL0103", "FL0202"}
