"""Lists and tuples: reading, changing, aliasing, identity."""

from __future__ import annotations

import pytest
import torch

import framelift
from tests.helpers import check, transcript
from tests.values.cases import Cases, vector

cases = Cases()
X = vector()


@cases(X, [vector(), vector(4)])
def append_and_return(x, xs):
    xs.append(x + 1)
    return xs


@cases(X, [1, 2, 3])
def returns_the_list_itself(x, xs):
    return xs, x + len(xs), xs


@cases(X, [1, 2, 3], changed=[(X, [1, 2, 4]), (X, [1, 2])])
def reads_items(x, xs):
    return x * xs[0] + xs[-1]


@cases(X, [[1], [2]])
def nested_append(x, xs):
    xs[0].append(x * 2)
    xs.append(xs[0])
    return xs


@cases(X, [5, 3, 1])
def in_place_methods(x, xs):
    xs.sort()
    xs.reverse()
    xs.extend((7, 8))
    xs.remove(7)
    xs.insert(1, x + 1)
    del xs[0]
    return xs.pop(), xs.pop(0), xs


@cases(X, [1, 2, 3, 4, 5, 6])
def slice_assignment(x, xs):
    xs[1:3] = [x + 1, x + 2, x + 3]
    xs[::2] = range(4)
    del xs[-1:]
    return xs[::-1], xs


@cases(X, [1, 2])
def self_reference(x, xs):
    xs.append(xs)
    return x + xs[2][2][0], xs


@cases(X)
def self_reference_of_a_new_list(x):
    xs = [x + 1]
    xs.append(xs)
    return xs


@cases(X)
def shared_between_outputs(x):
    inner = [x + 1]
    return [inner, inner], (inner, {"a": inner})


@cases(X)
def equal_but_not_shared(x):
    y = x + 1
    return [y], [y]


@cases(X)
def multiplied_lists_share_items(x):
    xs = [[x * 2]] * 3
    xs[0].append(1)
    return xs


@cases(X)
def iterating_while_appending(x):
    xs = [1, 2]
    for n in xs:
        if len(xs) < 6:
            xs.append(n + 1)
        x = x + n
    return x, xs


@cases(X)
def iterating_while_removing(x):
    xs = [1, 2, 3, 4, 5, 6]
    for n in xs:
        if n % 2:
            xs.remove(n)
        x = x * n
    return x, xs


@cases(X, [3, 1, 2])
def sorting(x, xs):
    ys = sorted(xs)
    zs = sorted(xs, reverse=True)
    ws = sorted(["bb", "a", "ccc"], key=len)
    stable = sorted([(1, "b"), (0, "z"), (1, "a")], key=lambda p: p[0])
    reverse_stable = sorted([(1, "b"), (0, "z"), (1, "a")], key=lambda p: p[0], reverse=True)
    return x + ys[0], ys, zs, ws, stable, reverse_stable


@cases(X)
def sort_of_incomparable(x):
    y = x + 1
    try:
        return sorted([1, "a"])
    except TypeError as error:
        return y, str(error)


@cases(X)
def list_sort_raises_and_list_stays(x):
    y = x + 1
    xs = [3, 2, 1]
    try:
        xs.sort(key=lambda n: 1 / (n - 1))
    except ZeroDivisionError:
        pass
    return y, xs


@cases(X, [1, 2])
def errors_of_lists(x, xs):
    y = x + 1
    found = []
    for n in range(9):
        try:
            if n == 0:
                xs[5]
            elif n == 1:
                xs[5] = 1
            elif n == 2:
                del xs[5]
            elif n == 3:
                xs.pop(7)
            elif n == 4:
                [].pop()
            elif n == 5:
                xs.remove(9)
            elif n == 6:
                xs.index(9)
            elif n == 7:
                xs["a"]
            elif n == 8:
                xs[::2] = [1, 2, 3]
        except (IndexError, ValueError, TypeError) as error:
            found.append((type(error), str(error)))
    return y, found


@cases(X)
def errors_of_tuples(x):
    y = (x + 1, 2)
    found = []
    for n in range(7):
        try:
            if n == 0:
                y[2]
            elif n == 1:
                y["a"]
            elif n == 2:
                (1, 2).index(9)
            elif n == 3:
                y[0] = 1
            elif n == 4:
                del y[0]
            elif n == 5:
                y + [1]
            elif n == 6:
                [1] + y
        except (IndexError, ValueError, TypeError) as error:
            found.append((type(error), str(error)))
    return y, found


@cases(X, (1, 2), [3])
def concatenation(x, t, xs):
    return t + (3, x + 1), xs + [x], (0,) + t, [0] + xs, t * 2, 2 * xs, (x,) * 2


@cases(X, (1, 2), [1, 2])
def comparison(x, t, xs):
    y = x + 1
    return y, t == (1, 2), xs == [1, 2], t == xs, xs < [1, 3], t > (1,), xs != [1], (1, "a") < (2, 3), [1] <= [1]


@cases(X, [1, [2, 3], (4,)])
def contains_and_count(x, xs):
    return x + 1, 1 in xs, [2, 3] in xs, (4,) in xs, 5 in xs, xs.count(1), xs.index((4,)), 1.0 in xs


@cases(X)
def contains_tensors_by_identity(x):
    y = x + 1
    return y, y in [y], [y].index(y), [y, y].count(y)


@cases(X, [1, 2, 3], [9])
def augmented(x, xs, ys):
    alias = xs
    xs += ys
    xs *= 2
    zs = (1,)
    other = zs
    zs += (2,)
    return x + len(xs), alias is xs, other, zs


@cases(X, [1, 2])
def copies(x, xs):
    a, b, c, d = xs.copy(), list(xs), xs[:], [*xs]
    a.append(x)
    b.append(1)
    c.append(2)
    return x + 1, a, b, c, d, xs, xs is xs[:], tuple(xs)


@cases(X, [1, 2], changed=[(X, [1, 2, 3]), (X, []), (X, (1, 2))])
def truth_and_length(x, xs):
    return x * len(xs) if xs else x - 1


@cases([X, vector(1)], changed=[([vector(5), vector(6)],), ([vector(5)],)])
def list_of_tensors(xs):
    total = 0
    for x in xs:
        total = total + x.sum()
    return total, [x * 2 for x in xs]


@cases([(X, [X]), {"a": (X,)}])
def deeply_nested(data):
    return data[0][1][0] + data[1]["a"][0], data[0], data[1]


@cases(X, [1, 2, 3])
def index_with_bounds(x, xs):
    return x + xs.index(3, 1), xs.index(2, -2), xs.index(1, -5, 2), (1, 2, 1).index(1, 1)


@cases(X, [1, 2, 3], True)
def bool_as_index(x, xs, flag):
    return x + xs[flag], xs[True], xs[False]


@cases(X, [3, 1, 2])
def cleared_and_refilled(x, xs):
    xs.clear()
    xs.append(x + 1)
    xs += "ab"
    return xs


@cases(X, [[1], [2]])
def inner_list_taken_out_and_changed(x, xs):
    inner = xs.pop(0)
    inner.append(x + 1)
    return inner, xs


@cases(X, [1, 2])
def repr_of_lists(x, xs):
    return x + 1, repr(xs), str((1,)), f"{xs}", repr([]), repr(()), str([(1, "a"), {"k": None}])


@cases(X, [1])
def starred_displays(x, xs):
    return x + 1, [*xs, *"ab", *(2, 3)], (*xs, 4), {*xs, 1}


@cases(X)
def walks_with_iter(x):
    it = iter([1, 2, 3])
    a = next(it)
    return x + a, list(it), next(it, "none")


@cases(X, [1, 2])
def argument_rebound(x, xs):
    xs = xs + [3]
    xs.append(4)
    return x + 1, xs


@cases(X, [0, 1])
def swapped(x, xs):
    xs[0], xs[1] = xs[1], xs[0]
    return x + xs[0]


@cases(X)
def sum_of_lists(x):
    return x + 1, sum([[1], [2]], []), sum([(1,), (x,)], ())


@cases(X, (1, 2, 3))
def tuple_input_returned(x, t):
    return t, x + t[1], t[:], t[1:], tuple(t)


@cases(X)
def empty_singletons(x):
    return x + 1, (), tuple([]), tuple(())


test = cases.test


def test_aliased_arguments():
    def f(x, a, b):
        a.append(x + 1)
        return len(b), a is b

    xs = [1]
    check(f, vector(), xs, xs, changed=[(vector(), [1], [1]), (vector(), xs, xs)])
    check(f, vector(), [1], [2], changed=[(vector(), xs, xs)])


def test_alias_in_nested():
    def f(x, a, b):
        b[0].append(x + 1)
        return len(a)

    xs = [1]
    check(f, vector(), xs, [xs], changed=[(vector(), [1], [[1]])])


def test_transcript_of_lists():
    def f(x, xs):
        return x + len(xs)

    x = vector()
    assert transcript(f, [(x, [1]), (x, [2]), (x, ["a"])]) == "miss hit hit"
    framelift.reset()
    assert transcript(f, [(x, [1]), (x, [1, 2])]).startswith("miss miss(")
    framelift.reset()
    assert transcript(f, [(x, [1]), (x, (1,))]).startswith("miss miss(")


def test_unused_items_are_not_guarded():
    def f(x, xs):
        return x + 1, xs

    x = vector()
    assert transcript(f, [(x, [1]), (x, [2, 3]), (x, None), (x, {})]) == "miss hit hit hit"


@pytest.mark.parametrize("change", ["append", "item", "type"])
def test_change_between_calls_is_seen(change):
    def f(x, xs):
        total = x
        for n in xs:
            total = total * n
        return total

    xs = [2, 3]
    lifted = framelift.compile(f, backend="eager")
    x = vector()
    torch.testing.assert_close(lifted(x, xs), x * 6)
    if change == "append":
        xs.append(2)
    elif change == "item":
        xs[0] = 4
    else:
        xs[0] = 4.0
    torch.testing.assert_close(lifted(x, xs), x * 12)


def test_list_object_keeps_identity():
    def f(x, xs):
        xs[:] = [x + 1]
        return xs

    xs = [1, 2]
    lifted = framelift.compile(f, backend="eager")
    assert lifted(vector(), xs) is xs
    assert lifted(vector(), xs) is xs and len(xs) == 1
