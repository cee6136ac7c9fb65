"""`itertools`: every function, in one graph."""

from __future__ import annotations

import operator
from itertools import (
    accumulate,
    chain,
    combinations,
    combinations_with_replacement,
    compress,
    count,
    cycle,
    dropwhile,
    filterfalse,
    groupby,
    islice,
    pairwise,
    permutations,
    product,
    repeat,
    starmap,
    takewhile,
    tee,
    zip_longest,
)

import torch

from tests.library.outcomes import outcomes
from tests.values.programs import Programs, x

programs = Programs()


def gen_(n):
    for i in range(n):
        yield (i * 2)


class It:
    def __init__(s):
        s.n = 0

    def __iter__(s):
        return s

    def __next__(s):
        s.n += 1
        if s.n > 4:
            raise StopIteration
        return s.n


@programs(fullgraph=True)
def sums(x):
    return [
        list(accumulate([x, x, 2])),
        list(accumulate([1, 5, 2], max)),
        list(accumulate([1, 2], initial=x)),
        list(accumulate([], initial=3)),
        list(accumulate([1, 2, 3], operator.mul, initial=10)),
        list(accumulate([])),
    ]


@programs(fullgraph=True)
def combining(x):
    return (
        x + 1,
        list(chain([1], "ab", {3: 4})),
        list(chain.from_iterable([[1], (2, 3)])),
        list(chain()),
        list(combinations([1, 2, 3], 2)),
        list(combinations_with_replacement("ab", 2)),
        list(permutations([1, 2, 3], 2)),
        list(permutations("ab")),
        list(product([1, 2], "ab", repeat=1)),
        list(product([1, 2], repeat=2)),
        list(product()),
        list(permutations([1], 3)),
    )


@programs(fullgraph=True)
def choosing(x):
    return (
        x + 1,
        list(compress("abcd", [1, 0, True, 0])),
        list(dropwhile(lambda v: v < 3, [1, 3, 1])),
        list(takewhile(lambda v: v < 3, [1, 3, 1])),
        list(filterfalse(None, [0, 1, ""])),
        list(filterfalse(lambda v: v % 2, range(5))),
        list(islice(count(3, 2), 4)),
        list(islice("abcdef", 1, 6, 2)),
        list(islice("abc", None)),
        list(islice([1, 2, 3], 2)),
        [next(c) for c in [cycle("ab")] for _ in range(5)],
        list(repeat(x, 2)),
    )


@programs(fullgraph=True)
def grouping(x):
    return (
        [(k, list(g)) for k, g in groupby([x.shape[0], 3, 4, 4, 3])],
        [(k, list(g)) for k, g in groupby("aAbB", key=str.lower)],
        list(pairwise([1, 2, 3])),
        list(starmap(pow, [(2, 3), (3, 2)])),
        list(starmap(torch.add, [(x, 1), (x, x)])),
        list(zip_longest("ab", [1], fillvalue="-")),
        list(zip_longest()),
        list(zip_longest([1], "abc")),
        [list(t) for t in tee([1, 2], 3)],
    )


@programs(fullgraph=True)
def errors(x):
    return (
        x + 1,
        outcomes(
            lambda: list(islice([1], -1)),
            lambda: islice([1], 0, 1, 0),
            lambda: list(combinations([1], -1)),
            lambda: list(permutations([1], -1)),
            lambda: product([1], repeat=-1) and 0,
            lambda: list(product([1], repeat="a")),
            lambda: count("a"),
            lambda: repeat(),
            lambda: list(zip_longest([1], foo=2)),
            lambda: tee([1], -1),
            lambda: list(starmap(pow, [1])),
            lambda: list(accumulate(3)),
            lambda: cycle(3),
            lambda: list(chain(1)),
            lambda: list(compress(1, [1])),
            lambda: list(zip([1], [1, 2], strict=True)),
            lambda: next(cycle([])),
            lambda: list(groupby(3)),
            lambda: list(pairwise(1)),
            lambda: combinations([1]),
            lambda: list(islice([1], "a")),
            lambda: list(chain.from_iterable([1])),
        ),
    )


@programs(fullgraph=True)
def sharing_an_iterator(x):
    g = groupby([1, 1, 2])
    k, gr = next(g)
    k2, gr2 = next(g)
    it = iter([1, 2, 3, 4])
    h = [sum(t) for t in zip(it, it)]
    a = [i for i in islice(gen_(10), 3)]
    return (
        x + k2,
        list(gr),
        list(gr2),
        h,
        a,
        dict(zip("ab", count())),
        list(map(lambda a, b: a + b, [1, 2], count(5))),
        sum(takewhile(lambda v: v < 20, accumulate(count(1)))),
        max(chain([1], [5])),
        list(enumerate(chain("a", "b"), 4)),
        any(map(operator.not_, repeat(0, 1))),
    )


@programs(fullgraph=True)
def in_a_model(x):
    layers = [torch.nn.Identity(), torch.nn.ReLU()]
    for items, n in zip(cycle(layers), range(3)):
        x = items(x) + n
    for i, j in product(range(2), range(2)):
        x = x + i * j
    for a, b in pairwise([1, 2, 3]):
        x = x * (b - a)
    return x


@programs(args=(x(), It()), fullgraph=True)
def over_objects(x, o):
    a, b = tee(o)
    next(a)
    return (
        x * next(o),
        list(a),
        list(b),
        o.n,
        list(chain(It(), It())),
        list(islice(It(), 1, None)),
        list(zip_longest(It(), [1])),
    )


test_programs = programs.test()
