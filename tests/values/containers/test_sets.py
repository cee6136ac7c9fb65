"""Sets and frozen sets. The order of a real set is eager's or nobody's."""

from __future__ import annotations

import pytest

import framelift
from tests.helpers import check, transcript
from tests.values.cases import Cases, vector

cases = Cases()
X = vector()
MODES = {"sum", "mean"}
FROZEN = frozenset({"a", "b"})


@cases(X, {1, 2, 3}, changed=[(X, {1, 2}), (X, {1, 2, 4}), (X, frozenset({1, 2, 3}))])
def reads(x, s):
    return x * len(s) + (3 in s), type(s)


@cases(X, "sum", changed=[(X, "mean"), (X, "max")])
def global_set(x, mode):
    return x * 2 if mode in MODES else x


@cases(X, "a", changed=[(X, "c")])
def global_frozenset(x, key):
    return x * 2 if key in FROZEN else x


@cases(X, {1, 2, 3})
def changes(x, s):
    s.add(7)
    s.discard(1)
    s.discard(99)
    s.remove(2)
    s.update([10, 11], (12,))
    return x + len(s), s


@cases(X, {1, 2, 3}, {2, 3, 4})
def algebra(x, a, b):
    return (
        x + 1,
        a | b,
        a & b,
        a - b,
        a ^ b,
        a.union([9]),
        a.intersection(b),
        a.difference(b),
        a.symmetric_difference(b),
    )


@cases(X, {1, 2, 3}, {2, 3, 4})
def in_place_algebra(x, a, b):
    alias = a
    a |= {9}
    a &= {1, 2, 9}
    a -= {1}
    a ^= b
    return x + len(a), alias is a


@cases(X, {1, 2}, {1, 2, 3})
def comparisons(x, a, b):
    return (
        x + 1,
        a < b,
        a <= a,
        b > a,
        a == {2, 1},
        a != b,
        a.issubset(b),
        b.issuperset(a),
        a.isdisjoint({9}),
        a == [1, 2],
    )


@cases(X, {3, 1, 2, 100, 55, 7}, expect_breaks=None)
def iterates_input_in_order(x, s):
    y = x + 1
    return y, list(s), [n for n in s], sum(s)


@cases(X, {3, 1, 2, 100, 55, 7})
def does_not_depend_on_order(x, s):
    return x + 1, sorted(s), max(s), min(s), sorted(s, reverse=True)


@cases(X)
def iterates_made_in_order(x):
    s = {30, 1, 200, 55}
    t = set("hello")
    t.add("z")
    return x + 1, list(s), list(t), [*frozenset((5, 3, 99))]


@cases(X)
def order_after_removal(x):
    s = set(range(20))
    for n in range(15):
        s.remove(n)
    s.update((64, 32, 0))
    return x + 1, list(s)


@cases(X, expect_breaks=None, expect_ops=0)
def set_whose_order_cannot_be_made_again(x):
    s = set(range(20))
    for n in range(15):
        s.remove(n)
    s.update((64, 32, 0))
    return x + 1, s


@cases(X)
def set_whose_members_collide(x):
    s = {7}
    s.add(15)  # finds its place taken, and stands before the 7
    return x + 1, s, frozenset((15, 7, 23))


@cases(X)
def order_of_copies(x):
    s = set(range(0, 100, 9))
    s.discard(0)
    t = s.copy()
    return x + 1, list(t), list(s | {3}), list(s & {9, 18, 27}), list(s - {9}), list(s ^ {1, 9}), list(t)


@cases(X, {8, 16, 24, 1}, expect_breaks=1)
def order_after_changes_of_input(x, s):
    s.add(0)
    s.remove(8)
    s.add(32)
    y = x + 1
    return y, list(s)


@cases(X, {5}, {1, 2}, expect_breaks=1)
def popped(x, s, t):
    y = x + s.pop()
    return y, s, t.pop(), t


@cases(X)
def popped_from_new(x):
    s = {30, 1, 200, 55}
    return x + s.pop(), s.pop(), list(s)


@cases(X, {1, 2})
def errors(x, s):
    y = x + 1
    found = []
    for n in range(5):
        try:
            if n == 0:
                s.remove(9)
            elif n == 1:
                set().pop()
            elif n == 2:
                s.add([1])
            elif n == 3:
                s | [1]
            elif n == 4:
                frozenset().add(1)
        except (KeyError, TypeError, AttributeError) as error:
            found.append((type(error), str(error)))
    return y, found


@cases(X)
def tensors_in_sets(x):
    y = x + 1
    s = {y}
    return y, y in s, x in s, len({x, y, x})


@cases(X)
def set_of_tensors_returned(x):
    y = x + 1
    return {y}, y


@cases(X)
def comprehension(x):
    return x + 1, {n % 3 for n in range(10)}, frozenset(n for n in range(3))


@cases(X)
def frozen(x):
    s = frozenset({1, 2})
    d = {s: 1}
    return x + 1, s | {3}, d[frozenset({2, 1})], s, hash(s) == hash(frozenset({2, 1})), {s}


@cases(X, {1})
def cleared(x, s):
    s.clear()
    s.add("a")
    return x + len(s)


@cases(X, {1, 2})
def reprs(x, s):
    return x + 1, repr({1}), repr(set()), repr(frozenset()), repr(frozenset({1})), str({5}), repr({3, 1})


@cases(X)
def changed_while_iterating(x):
    y = x + 1
    s = {1, 2}
    try:
        for n in s:
            s.add(n + 10)
    except RuntimeError as error:
        return y, str(error)


@cases(X, {1, 1.0, "a", None, (1, 2)})
def mixed(x, s):
    return x + 1, 1 in s, True in s, (1, 2) in s, None in s, "b" in s


@cases(X, {1, 2})
def mutated_methods(x, s):
    s.intersection_update([2, 3])
    s.symmetric_difference_update([2, 9])
    s.difference_update([77])
    return x + len(s), s


@cases(X, [3, 1, 3, 2])
def deduplicated(x, xs):
    return x + len(set(xs)), list(dict.fromkeys(xs)), sorted(set(xs))


test = cases.test


def test_set_object_keeps_identity():
    def f(x, s):
        s.add(3)
        return s, x + 1

    s = {1}
    lifted = framelift.compile(f, backend="eager")
    assert lifted(vector(), s)[0] is s and s == {1, 3}
    assert lifted(vector(), s)[0] is s and s == {1, 3}


def test_set_is_guarded():
    def f(x, s):
        return x + len(s)

    x = vector()
    assert transcript(f, [(x, {1}), (x, {1}), (x, {2, 3})]).startswith("miss hit miss(")


def test_order_of_an_input_is_guarded_where_it_is_used():
    """Two equal sets can differ in order."""

    def f(x, s):
        for n in s:
            x = x * n + 1
        return x

    one, two = set(), set()
    for n in (8, 16):
        one.add(n)
    for n in (16, 8):
        two.add(n)
    assert one == two and list(one) != list(two)
    lifted = framelift.compile(f, backend="eager")
    x = vector()
    assert lifted(x, one).equal(f(x, one))
    assert lifted(x, two).equal(f(x, two))


def test_order_of_a_changed_input():
    def f(x, s):
        s.discard(8)
        s.add(0)
        return x + 1

    check(f, vector(), {8, 16, 24}, changed=[(vector(), {24, 16, 8})])


@pytest.mark.parametrize("method", ["update", "difference_update", "intersection_update"])
def test_updates_that_fail_half_way(method):
    def f(x, s):
        made = {1, 2, 3}
        for changed in (s, made):
            try:
                getattr(changed, method)([1, 4], 3)
            except TypeError as error:
                x = x + len(str(error))
        return x, made

    check(f, vector(), {1, 2, 3}, expect_breaks=None)


def with_views(x, members, frozen, entries):
    made = []
    for left in (members, frozen, frozenset([1, 9]), {1, 9}):
        for view in (entries.keys(), entries.items(), {}.keys()):
            made += [left & view, left | view, left - view, left ^ view]
            made += [view & left, view | left, view - left, view ^ left]
            made += [left == view, left != view, left <= view, view >= left]
    return x + 1, [item if type(item) is bool else (type(item), len(item), 1 in item) for item in made]


def in_place_with_views(x, members, frozen, entries):
    before = members
    members |= entries.keys()
    own = other = {3}
    own &= entries.keys()
    frozen |= entries.keys()
    return x + 1, before is members, len(before), sorted(members), own is other, other, type(frozen), sorted(frozen)


@pytest.mark.parametrize("fn", [with_views, in_place_with_views])
def test_views_of_dicts_make_new_sets(fn):
    check(fn, X, {1, 2}, frozenset([1, 2]), {1: 2, 5: 6})
