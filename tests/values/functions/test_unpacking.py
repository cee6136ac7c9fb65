"""Unpacking, argument passing, walrus, chained comparison, conditional expressions."""

from __future__ import annotations

import itertools
import sys

import pytest
import torch

from tests.helpers import check
from tests.values.cases import Cases, vector

cases = Cases()
X = vector()


@cases(X, [1, 2, 3], (4, (5, 6)))
def nested(x, xs, t):
    a, b, c = xs
    d, (e, f) = t
    (g, h), [i] = (1, 2), [3]
    return x + a + b + c + d + e + f, g, h, i


@cases(X, [1, 2, 3, 4])
def starred(x, xs):
    a, *b = xs
    *c, d = xs
    e, *f, g = xs
    (*h,) = xs
    i, *j = "ab"
    return x + a, b, c, d, e, f, g, h, i, j


@cases(X)
def from_iterators(x):
    a, b = iter([1, 2])
    c, d = {"p": 1, "q": 2}
    e, f = map(abs, [-1, -2])
    g, *h = (n for n in range(3))
    i, j = "xy"
    k, m = range(2)
    return x + a + b, c, d, e, f, g, h, i, j, k, m


@cases(torch.ones(2, 3))
def tensor_rows(x):
    a, b = x
    first, *rest = x.unbind(1)
    return a + b, first, rest


@cases(X)
def errors(x):
    y = x + 1
    found = []
    for n in range(6):
        try:
            if n == 0:
                a, b = [1]
            elif n == 1:
                a, b = [1, 2, 3]
            elif n == 2:
                a, *b, c = [1]
            elif n == 3:
                a, b = 5
            elif n == 4:
                a, b = iter([1])
            elif n == 5:
                [*5]
        except (TypeError, ValueError) as error:
            found.append((type(error), str(error)))
    return y, found


@cases(X, 5, changed=[(X, None), (X, 1)])
def unpacks_a_scalar(x, value):
    y = x + 1
    try:
        a, b = value
    except TypeError as error:
        return y, str(error)


def every_kind(a, b=2, /, c=3, *args, d, e=5, **kwargs):
    return a, b, c, args, d, e, kwargs


@cases(X)
def calls_of_every_kind(x):
    args, named = [1, 2], {"d": 4, "z": 26}
    return (
        x + 1,
        every_kind(1, d=4),
        every_kind(1, 2, 3, 4, 5, d=6, q=7),
        every_kind(*args, **named),
        every_kind(0, *args, *(7, 8), d=1, **{"k": x}),
        every_kind(*"abc", d=0),
        every_kind(1, c=9, d=4, e=6),
        every_kind(1, d=2, a=3, b=4),
    )


# For an unexpected keyword Python 3.13 guesses what was meant; such calls are left to it.
@cases(X, expect_breaks=0 if sys.version_info < (3, 13) else None)
def call_errors(x):
    y = x + 1
    found = []

    def plain(a, b):
        return a

    def keyword(*, k):
        return k

    for n in range(10):
        try:
            if n == 0:
                plain()
            elif n == 1:
                plain(1)
            elif n == 2:
                plain(1, 2, 3)
            elif n == 3:
                plain(1, a=2)
            elif n == 4:
                plain(1, 2, c=3)
            elif n == 5:
                keyword()
            elif n == 6:
                keyword(1)
            elif n == 7:
                every_kind(d=1)
            elif n == 8:
                keyword(1, k=2)
            elif n == 9:
                plain(**{"a": 1})
        except TypeError as error:
            found.append(str(error))
    return y, found


@cases(X, expect_breaks=None)
def merged_keywords_twice(x):
    y = x + 1
    try:
        every_kind(1, d=1, **{"d": 2})  # noqa: PLE1132
    except TypeError as error:
        return y, str(error)


@cases(X, expect_breaks=None)
def keywords_that_are_no_strings(x):
    y = x + 1
    try:
        every_kind(1, **{1: 2})
    except TypeError as error:
        return y, str(error)


@cases(X)
def changed_varargs_stay_apart(x):
    def f(*args, **kwargs):
        kwargs["new"] = 1
        return args, kwargs

    given = {"a": x + 1}
    return f(**given), given


@cases(X, [5, 6])
def walrus(x, xs):
    if (n := len(xs)) > 1:
        x = x + n
    total = [y := 1, y**2]
    while (last := xs.pop()) != 5:
        x = x * last
    return x, total, [z for v in (1, 2, 3) if (z := v * 2) > 2], last


@cases(X, 3, changed=[(X, 7), (X, -1)])
def chained(x, n):
    return x + 1, 0 < n < 5, 0 < n > 2, n == 3 == 3, 1 < 2 < n, not 0 < n < 5


@cases(X, 3, changed=[(X, 0)])
def conditional(x, n):
    y = x + 1 if n else x - 1
    return y, ("a" if n > 2 else "b") if n else "c", n or "none", n and "some"


@cases(X, [1, 2])
def swaps(x, xs):
    a, b = xs
    a, b = b, a
    a, b, c = b, a, a + b
    return x + a, b, c


@cases(X)
def multiple_targets(x):
    a = b = [x + 1]
    a.append(2)
    (c, d), e = f = (1, 2), 3
    return a, b, c, d, e, f


@cases(X, [1, 2, 3])
def augmented_targets(x, xs):
    xs[0] += 10
    xs[1:] += [4]
    d = {"a": 1}
    d["a"] *= 3
    return x + xs[0], d


@cases(X)
def deleted_names(x):
    y = x + 1
    z = 1
    del z
    try:
        return z  # noqa: F821
    except UnboundLocalError as error:
        return y, str(error)


@cases(X)
def iterators_are_asked_for_no_more_than_is_unpacked(x):
    def numbers():
        for number in itertools.count():
            asked.append(number)
            yield x + number

    asked, words, going_on = [], [], numbers()
    for given in (going_on, itertools.count(), iter("abc")):
        try:
            _first, _second = given
        except ValueError as error:
            words.append(str(error))
    return next(going_on), asked, words


@cases((1, X), {"k": X})
def arguments_unpacked_in_loops(pair, table):
    total = pair[1] * 0
    for n, t in [pair, (2, pair[1])]:
        total = total + n * t
    for key, (first, *_) in {"a": [1, 2]}.items():
        total = total + first
    return total, table["k"] + 1


class Called:
    def method(self, a):
        return a


@cases(X)
def calls_with_what_is_no_sequence_or_mapping(x):
    def f(a, b=0, **k):
        return a

    called, words = Called(), []
    for call in (
        lambda: f(1, b=2, **{"b": 3}),  # noqa: PLE1132
        lambda: f(**{"a": 1}, **{"a": 2}),  # noqa: PLE1132
        lambda: f(*5),
        lambda: f(**5),
        lambda: f(**{1: 2}),
        lambda: f(*None),
        lambda: f(1, **[]),
        lambda: called.method(*5),
        lambda: called.method(**3),
        lambda: called.method(a=1, **{"a": 2}),  # noqa: PLE1132
        lambda: Called(**3),
        lambda: print(*5),
        lambda: dict(**{"a": 1}, **{"a": 2}),  # noqa: PLE1132
        lambda: int(**{1: 2}),
    ):
        try:
            words.append(call())
        except TypeError as error:
            words.append(str(error))
    return x + 1, words


test = cases.test


def test_star_arguments_of_the_frame():
    def f(x, *args, k=1, **kwargs):
        return x * len(args) + k, args, kwargs

    check(f, vector(), 1, 2, changed=[(vector(), 1), (vector(), 1, 2, 3)])
    check(f, vector(), 1, k=3, z=4)


@pytest.mark.parametrize("size", [1, 2, 3])
def test_number_of_arguments_is_guarded(size):
    def f(*xs):
        total = xs[0]
        for x in xs[1:]:
            total = total + x
        return total

    check(f, *[vector() for _ in range(size)], expect_ops=0 if size == 1 else 1, changed=[(vector(), vector(4, 5, 6))])
