"""Iterators: made by the program, given to it, kept and returned."""

from __future__ import annotations

import collections
import itertools

import framelift
from tests.helpers import check
from tests.values.cases import Cases, vector

cases = Cases()
X = vector()


@cases(X, [1, 2, 3])
def partly_consumed_and_returned(x, xs):
    it = iter(xs)
    return x + next(it), list(it)


@cases(X)
def appended_while_walking(x):
    xs = [1]
    it = iter(xs)
    a = next(it)
    xs.append(2)
    b = next(it)
    end = next(it, "end")
    xs.append(3)
    return x + a + b, end, next(it, "still the end")


@cases(X, [1, 2, 3])
def shared_iterator(x, xs):
    it = iter(xs)
    pairs = list(zip(it, it))
    return x + 1, pairs, list(it)


@cases(X)
def zip_consumes_in_order(x):
    a, b = iter([1, 2, 3]), iter([1])
    rows = list(zip(a, b))
    return x + 1, rows, list(a)


@cases(X)
def membership_consumes(x):
    it = iter([1, 2, 3, 4])
    return x + 1, 2 in it, list(it)


@cases(X)
def next_methods(x):
    it = iter([1, 2])
    return x + it.__next__(), it.__iter__() is it, list(it)


@cases(X, [1, 2])
def own_iter(x, xs):
    return x + 1, iter(xs) is iter(xs), [a is b for a, b in [(xs, xs)]]


@cases(X, [1, 2, 3])
def kept_in_a_container(x, xs):
    table = {"it": iter(xs)}
    next(table["it"])
    return x + 1, list(table["it"])


@cases(X, expect_breaks=None)
def infinite(x):
    total = x
    for n in itertools.count(1):
        if n > 3:
            break
        total = total + n
    return total


@cases(X)
def else_clauses(x):
    found = []
    for n in range(3):
        if n == 5:
            break
    else:
        found.append("no break")
    while False:
        pass
    else:
        found.append("while")
    for n in range(3):
        if n == 1:
            continue
        found.append(n)
    return x + 1, found


def below_two(v, *_):
    if v >= 2:
        raise StopIteration("enough")
    return v


@cases(vector())
def functions_that_end_the_iterators_that_call_them(x):
    class Items:
        def __getitem__(self, index):
            return below_two(index)

    numbers, found = [1, 2, 1], []
    for make in (
        lambda: list(map(below_two, numbers)),
        lambda: [v for v in filter(below_two, numbers)],
        lambda: sum(itertools.starmap(below_two, zip(numbers))),
        lambda: tuple(itertools.takewhile(below_two, numbers)),
        lambda: [*itertools.filterfalse(below_two, [0, *numbers])],
        lambda: [key for key, _ in itertools.groupby(numbers, below_two)],
        lambda: dict(zip("abc", map(below_two, numbers))),
        lambda: 5 in map(below_two, numbers),
        lambda: next(map(below_two, [2]), "none"),
        lambda: next(map(below_two, [2])),
        lambda: list(Items()),
        lambda: list(below_two(v) for v in numbers),
        lambda: sorted(numbers, key=below_two),
    ):
        try:
            found.append(make())
        except (StopIteration, RuntimeError) as error:
            found.append(repr(error))
    going_on = map(below_two, numbers)
    return x + 1, found, list(going_on), list(going_on)


def fails_after(*items):
    yield from items
    raise ValueError("no more")


@cases(vector(), [9], {9}, {9: 9}, collections.deque([9]))
def what_was_added_before_an_exception_stays(x, given_list, given_set, given_dict, given_deque):
    class Table:
        def keys(self):
            return ["a", "b"]

        def __getitem__(self, key):
            return 1 if key == "a" else next(fails_after())

    def added(target):
        target += fails_after(1, 2)

    made, ordered, removed, words = [9], collections.OrderedDict(), {0, 1, 2}, []
    for change in (
        lambda: made.extend(fails_after(1, x)),
        lambda: added(made),
        lambda: given_list.extend(fails_after(1, 2)),
        lambda: given_set.update(fails_after(1, 2)),
        lambda: removed.difference_update(fails_after(1)),
        lambda: removed.symmetric_difference_update(fails_after(2)),
        lambda: given_dict.update(fails_after((1, 1), (2, 2))),
        lambda: given_dict.update(Table()),
        lambda: ordered.update(fails_after((1, 1))),
        lambda: given_deque.extend(fails_after(1, 2)),
        lambda: given_deque.extendleft(fails_after(3)),
    ):
        try:
            change()
        except ValueError as error:
            words.append(str(error))
    return x + 1, made, ordered, removed, words


@cases(vector(), [9])
def additions_are_seen_where_the_next_one_is_made(x, given):
    made, numbers, table = [], set(), {}
    made.extend(len(made) for _ in range(3))
    given += (len(given) for _ in range(2))
    numbers.update(len(numbers) for _ in range(3))
    table.update((len(table), x) for _ in range(2))
    return x + 1, made, numbers, table


@cases(vector(), expect_breaks=None)
def iterators_in_c_go_on_after_an_exception(x):
    def odd(v):
        if not v % 2:
            raise ValueError(v)
        return v

    numbers = itertools.starmap(odd, [(1,), (2,), (3,)])
    found = [next(numbers)]
    try:
        next(numbers)
    except ValueError as error:
        found.append(str(error))
    return x + 1, found, list(numbers)


test = cases.test


def test_iterator_given_as_argument_is_advanced():
    def f(x, it):
        y = x + 1
        return y * next(it)

    lifted = framelift.compile(f, backend="eager")
    it, x = iter([2, 3, 4]), vector()
    assert lifted(x, it).equal((x + 1) * 2)
    assert lifted(x, it).equal((x + 1) * 3)
    assert list(it) == [4]


def test_generator_given_as_argument():
    def f(x, it):
        for n in it:
            x = x * n
        return x

    lifted = framelift.compile(f, backend="eager")
    x = vector()
    for _ in range(2):
        assert lifted(x, (n for n in (2, 3))).equal(x * 6)


def test_returned_iterators_go_on():
    def f(x, xs):
        it = iter(xs)
        next(it)
        return x + 1, it, enumerate(xs), zip(xs, "ab"), map(str, xs), filter(None, xs), iter((1, x)), iter(range(3))

    lifted = framelift.compile(f, backend="eager")
    for _ in range(2):
        xs = [1, 2, 3]
        _, it, *others = lifted(vector(), xs)
        xs.append(4)
        assert list(it) == [2, 3, 4]
        eager = f(vector(), xs)[2:]
        assert [type(a) for a in others] == [type(a) for a in eager]
        assert [list(a) for a in others[:4]] == [list(a) for a in eager[:4]]


def test_loop_goes_on_in_python_after_a_break():
    def f(x, xs):
        total = x
        for n, item in enumerate(xs):
            total = total + item
            if n == 1:
                framelift.graph_break()
        return total

    check(f, vector(), [1, 2, 3], expect_breaks=None)
    check(f, vector(), (1, 2, 3), expect_breaks=None)
    check(f, vector(), {1: 0, 2: 0, 3: 0}, expect_breaks=None)
    check(f, vector(), range(1, 4), expect_breaks=None)
