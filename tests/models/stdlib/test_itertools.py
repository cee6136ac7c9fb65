"""Models of itertools."""

from __future__ import annotations

import itertools
import operator

from tests.values.cases import Cases, vector

cases = Cases()
X = vector()


@cases(X, [1, 2], "ab")
def chains(x, xs, s):
    return (
        x + 1,
        list(itertools.chain(xs, s)),
        list(itertools.chain()),
        list(itertools.chain.from_iterable([xs, s])),
        [n for n in itertools.chain([x], [x + 1])],
    )


@cases(X, [1, 2, 3])
def products(x, xs):
    return (
        x + 1,
        list(itertools.product(xs, "ab")),
        list(itertools.product([0, 1], repeat=2)),
        list(itertools.product()),
    )


@cases(X, [1, 2, 3, 4, 5])
def slices(x, xs):
    s = itertools.islice
    return (
        x + 1,
        list(s(xs, 2)),
        list(s(xs, 1, 4)),
        list(s(xs, 0, None, 2)),
        list(s(xs, 1, 5, 3)),
        list(s(xs, None)),
        list(s(xs, 2, 2)),
        list(s(itertools.count(), 3)),
    )


@cases(X)
def slice_consumes_what_python_consumes(x):
    found = []
    for bounds in [(2,), (1, 3), (0, 4, 2), (1, 5, 3), (3, 3), (0, None, 2)]:
        it = iter(range(8))
        found.append((list(itertools.islice(it, *bounds)), list(it)))
    return x + 1, found


@cases(X, [1, 2, 3])
def longest(x, xs):
    return (
        x + 1,
        list(itertools.zip_longest(xs, "a")),
        list(itertools.zip_longest(xs, "a", fillvalue=0)),
        list(itertools.zip_longest()),
    )


@cases(X, [1, 2, 3])
def accumulates(x, xs):
    a = itertools.accumulate
    return x + 1, list(a(xs)), list(a(xs, operator.mul)), list(a(xs, initial=10)), list(a([])), list(a([x, x]))


@cases(X)
def repeats(x):
    return (
        x + 1,
        list(itertools.repeat(1, 3)),
        list(zip("ab", itertools.repeat(0))),
        list(itertools.repeat(object=1, times=0)),
    )


@cases(X, [1, 2, 3, 1])
def predicates(x, xs):
    small = lambda n: n < 3  # noqa: E731
    return (
        x + 1,
        list(itertools.takewhile(small, xs)),
        list(itertools.dropwhile(small, xs)),
        list(itertools.filterfalse(small, xs)),
        list(itertools.filterfalse(None, [0, 1])),
    )


@cases(X)
def starmaps(x):
    return list(itertools.starmap(operator.add, [(x, 1), (2, 3)])), list(itertools.starmap(pow, [(2, 3)]))


@cases(X, "aabbb")
def groups(x, s):
    return (
        x + 1,
        [(k, list(g)) for k, g in itertools.groupby(s)],
        [(k, len(list(g))) for k, g in itertools.groupby([1, 3, 2], key=lambda n: n % 2)],
    )


@cases(X, "abcd")
def combinatorics(x, s):
    return (
        x + 1,
        list(itertools.combinations(s, 2)),
        list(itertools.permutations(s, 2)),
        list(itertools.permutations([1, 2])),
        list(itertools.combinations_with_replacement("ab", 2)),
        list(itertools.combinations(s, 9)),
        list(itertools.combinations(s, 0)),
    )


@cases(X, [1, 2, 3])
def pairs(x, xs):
    return (
        x + 1,
        list(itertools.pairwise(xs)),
        list(itertools.pairwise([1])),
        list(itertools.compress("abc", [1, 0, 1])),
    )


@cases(X)
def cycles(x):
    it = itertools.cycle([1, 2])
    return x + 1, [next(it) for _ in range(5)], [next(itertools.count(5, 2)) for _ in range(2)]


@cases(X, expect_breaks=None, expect_ops=0)
def escapes(x):
    return x + 1, list(zip(itertools.count(), "ab")), itertools.chain([1], [2]).__class__.__name__


test = cases.test
