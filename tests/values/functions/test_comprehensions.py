"""Comprehensions and generator expressions."""

from __future__ import annotations

import torch

from tests.values.cases import Cases, vector

cases = Cases()
X = vector()


@cases(X, [1, 2, 3])
def lists(x, xs):
    return [x * n for n in xs], [n for n in xs if n > 1], [(a, b) for a in xs for b in "pq" if a != 2]


@cases(X, [1, 2, 3])
def dicts(x, xs):
    return {n: x * n for n in xs}, {str(n): n for n in xs if n % 2}, {v: k for k, v in {"a": 1}.items()}


@cases(X, [1, 2, 3])
def sets(x, xs):
    return x + 1, {n % 2 for n in xs}


@cases(X, [1, 2, 3])
def generators(x, xs):
    return sum(x * n for n in xs), list(n + 1 for n in xs), tuple(n for n in xs), max(n for n in xs)


@cases(X, 2, changed=[(X, 3)])
def closures(x, k):
    return [x * k + n for n in range(2)], [(lambda: n * k)() for n in range(3)], [f() for f in [lambda: k]]


@cases(X)
def nested(x):
    return (
        x + 1,
        [[i * j for j in range(3)] for i in range(2)],
        [row[0] for row in [[1], [2]]],
        [a for b in [[1], [2, 3]] for a in b],
    )


@cases(X)
def variable_stays(x):
    n = 10
    ys = [n for n in range(3)]
    return x + n, ys, n


@cases([X, vector(4, 5)])
def over_tensors(xs):
    return [t.sum() for t in xs], {i: t.shape for i, t in enumerate(xs)}, torch.cat([t for t in xs])


@cases(X)
def error_inside(x):
    y = x + 1
    try:
        return [1 // n for n in (1, 0)]
    except ZeroDivisionError as error:
        return y, str(error)


@cases(X)
def lazily(x):
    seen = []
    made = (seen.append(n) or n for n in range(5))
    first = next(made)
    return x + first, list(seen), next(made), seen


@cases(X)
def consumed_once(x):
    made = (n for n in range(3))
    return x + 1, list(made), list(made), 2 in (n for n in range(5))


@cases(X, {"a": 1, "b": 2}, changed=[(X, {"a": 1})])
def over_a_dict(x, d):
    return x + sum(v for v in d.values()), [k for k in d], {k: v * 2 for k, v in d.items()}


@cases(X, [[1, 2], [3]])
def conditionals(x, xss):
    return x + 1, [n if n > 1 else -n for ns in xss for n in ns], [ns for ns in xss if len(ns) == 1 if ns[0] > 2]


@cases(X)
def keyed_by_tensor_results(x):
    return {k: f(x) for k, f in {"s": torch.sin, "c": torch.cos}.items()}


@cases(X)
def iterable_evaluated_first(x):
    xs = [1, 2, 3]
    made = (n for n in xs)
    xs = [9]
    return x + 1, list(made), xs


test = cases.test
