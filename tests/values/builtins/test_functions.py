"""The built-in functions and the operator module."""

from __future__ import annotations

import collections.abc
import math
import numbers
import operator
from functools import partial, reduce
from typing import Any

import pytest
import torch

from tests.helpers import check
from tests.values.cases import Cases, vector

cases = Cases()
X = vector()
NUMBER = int | float


@cases(X, [1, 0, 3])
def any_and_all(x, xs):
    return x + 1, any(xs), all(xs), any([]), all([]), any(n > 2 for n in xs), all(n >= 0 for n in xs)


@cases(X)
def any_stops_early(x):
    seen = []

    def note(n):
        seen.append(n)
        return n > 1

    found = any(note(n) for n in [1, 2, 3])
    return x + 1, found, seen


@cases(X, 5, changed=[(X, 6)])
def arithmetic(x, n):
    return x + 1, abs(-n), divmod(n, 3), pow(n, 2), pow(n, 2, 7), round(n / 3, 2), round(2.5), round(-n), divmod(-7, 2)


@cases(X)
def conversions(x):
    return (
        x + 1,
        int("12"),
        int("ff", 16),
        int(3.9),
        float("1.5"),
        float(3),
        bool([]),
        bool("a"),
        complex("1+2j"),
        complex(1),
        str(1),
        bytes("a", "utf8"),
        list("ab"),
        tuple([1]),
        hex(255),
        oct(8),
        bin(5),
        chr(65),
        ord("A"),
        int(True),
        float("inf"),
    )


@cases(X, [3, 1, 2])
def extremes(x, xs):
    return (
        x + 1,
        max(xs),
        min(xs),
        max(1, 2, 3),
        min("b", "a"),
        max([], default=7),
        max(xs, key=lambda n: -n),
        min(["bb", "a"], key=len),
        max((1, 2), (1, 3)),
        max([1, 1.0]),
        min([1.0, 1]),
    )


@cases(X, [1, 2, 3])
def sums(x, xs):
    return x + sum(xs), sum(xs, 10), sum([]), sum([0.1] * 10), sum(n * n for n in xs), sum([x, x]), sum([True, True])


@cases(X, "abc", [1, 2, 3])
def zips(x, s, xs):
    return (
        x + 1,
        list(zip(s, xs)),
        dict(zip(s, xs)),
        list(zip()),
        list(zip(s)),
        list(zip(xs, xs[1:])),
        [*zip(*[(1, 2), (3, 4)])],
    )


@cases(X, [1, 2], [1, 2, 3])
def strict_zip(x, a, b):
    y = x + 1
    found = [list(zip(a, a, strict=True))]
    for first, second in ((a, b), (b, a)):
        try:
            list(zip(first, second, strict=True))
        except ValueError as error:
            found.append(str(error))
    return y, found


@cases(X, [1, 2, 3])
def maps_and_filters(x, xs):
    return (
        x + 1,
        list(map(lambda n: n + 1, xs)),
        list(map(operator.add, xs, [10, 20])),
        list(filter(None, [0, 1, ""])),
        list(filter(lambda n: n > 1, xs)),
        list(map(str, xs)),
        list(map(int, "12")),
        tuple(map(len, ["a", "bb"])),
    )


@cases(X, [1, 2, 3])
def enumerates(x, xs):
    for i, n in enumerate(xs):
        x = x + i * n
    return x, list(enumerate("ab", 5)), list(enumerate(xs, start=1))


@cases(X, [1, 2, 3])
def reverses(x, xs):
    return x + 1, list(reversed(xs)), list(reversed((1, 2))), "".join(reversed("ab")), list(reversed(range(3)))


@cases(X, [1, 2, 3])
def iterates_by_hand(x, xs):
    it = iter(xs)
    y = x + next(it)
    rest = list(it)
    return y, rest, next(it, None), next(iter([]), "d")


@cases(X)
def stop_iteration(x):
    y = x + 1
    it = iter([1])
    next(it)
    try:
        next(it)
    except StopIteration as error:
        return y, str(error), error.value


@cases(X)
def sentinel(x):
    xs = [1, 2, 3, 0, 5]
    it = iter(lambda: xs.pop(0), 0)
    return x + 1, list(it), xs


@cases(X, 3, changed=[(X, 3.0), (X, "a"), (X, None), (X, [1])])
def instances(x, value):
    found = [
        isinstance(value, int),
        isinstance(value, (int, str)),
        isinstance(value, int | float),
        isinstance(value, NUMBER),
        isinstance(value, object),
        isinstance(value, type(None)),
        isinstance(value, collections.abc.Sequence),
        isinstance(value, collections.abc.Iterable),
        isinstance(value, collections.abc.Hashable),
        isinstance(value, numbers.Number),
        isinstance(value, (int, (str, (list,)))),
        isinstance(value, int | None),
    ]
    return x + 1, found


@cases(X)
def classes(x):
    return (
        x + 1,
        issubclass(bool, int),
        issubclass(int, (str, float)),
        isinstance(x, torch.Tensor),
        isinstance(x, (int, torch.Tensor)),
        type(x) is torch.Tensor,
        isinstance([], collections.abc.MutableSequence),
        isinstance({}, collections.abc.Mapping),
        isinstance(len, collections.abc.Callable),
        isinstance(iter([]), collections.abc.Iterator),
        type([]) is list,
        type(()) == tuple,  # noqa: E721
        isinstance(int, type),
    )


@cases(X, expect_breaks=None)
def parameterised_generic(x):
    y = x + 1
    try:
        isinstance([], list[int])
    except TypeError as error:
        return y, str(error)


@cases(X)
def attributes(x):
    return (
        x + 1,
        hasattr(x, "shape"),
        hasattr(x, "nope"),
        getattr(x, "nope", 3),
        hasattr([], "append"),
        hasattr(1, "real"),
        getattr("a", "upper")(),
        hasattr({}, "nope"),
        getattr([], "nope", None),
        callable(len),
        callable(3),
        callable(lambda: 0),
    )


@cases(X)
def hashes(x):
    return x + 1, hash(1) == hash(1.0), hash("a") == hash("a"), hash((1, "a")), hash(None) == hash(None)


@cases(X)
def unhashable(x):
    y = x + 1
    try:
        hash([])
    except TypeError as error:
        return y, str(error)


@cases(X, [1, 2, 3])
def operators(x, xs):
    return (
        operator.add(x, 1),
        operator.mul(2, 3),
        operator.neg(3),
        operator.lt(1, 2),
        operator.eq(xs, [1, 2, 3]),
        operator.getitem(xs, 0),
        operator.contains(xs, 2),
        operator.itemgetter(1)(xs),
        operator.itemgetter(0, 2)(xs),
        operator.attrgetter("shape")(x),
        operator.attrgetter("dtype.is_floating_point")(x),
        operator.methodcaller("index", 3)(xs),
        operator.truth([]),
        operator.not_(1),
        operator.is_(xs, xs),
        operator.index(3),
        operator.index(True),
        operator.countOf([1, 1, 2], 1),
        operator.concat([1], [2]),
        operator.xor(5, 1),
        operator.matmul(x, x),
    )


@cases(X, [("b", 2), ("a", 1)])
def sorted_by_getter(x, pairs):
    return x + 1, sorted(pairs, key=operator.itemgetter(0)), sorted(pairs, key=operator.itemgetter(1), reverse=True)


@cases(X)
def getters_returned(x):
    return x + 1, operator.itemgetter(1)([1, 2]), list(map(operator.itemgetter(0), [(1,), (2,)]))


@cases(X, [1, 2, 3])
def reduces(x, xs):
    return (
        reduce(lambda a, b: a + b, [x, x, x]),
        reduce(operator.mul, xs),
        reduce(operator.mul, xs, 10),
        reduce(operator.mul, [], 1),
    )


@cases(X)
def reduce_of_nothing(x):
    y = x + 1
    try:
        reduce(operator.add, [])
    except TypeError as error:
        return y, str(error)


@cases(X)
def partials(x):
    add = partial(operator.add, x)
    scale = partial(lambda a, b=1, *, c=0: a * b + c, c=5)
    return add(1), scale(x), scale(x, 2), scale(x, b=3, c=1)


@cases(X, 4, changed=[(X, 9)])
def maths(x, n):
    return (
        x * math.sqrt(n),
        math.floor(2.5),
        math.ceil(2.5),
        math.pi,
        math.log(n),
        math.prod([1, 2, 3]),
        math.gcd(12, 8),
        math.isnan(math.nan),
        math.inf > n,
        math.pow(2, n),
        math.factorial(4),
        math.isclose(0.1 + 0.2, 0.3),
        math.comb(5, 2),
        math.trunc(-2.5),
        math.copysign(1, -0.0),
        math.hypot(3, 4),
    )


@cases(X)
def math_errors(x):
    y = x + 1
    found = []
    for n in range(3):
        try:
            if n == 0:
                math.sqrt(-1)
            elif n == 1:
                math.log(0)
            else:
                math.factorial(-1)
        except ValueError as error:
            found.append(str(error))
    return y, found


@cases(X)
def ranges(x):
    r = range(2, 20, 3)
    return (
        x + len(r),
        list(r),
        r[1],
        r[-1],
        r[1:3],
        5 in r,
        r.count(5),
        r.index(8),
        range(0) == range(2, 2),
        list(range(5, 0, -2)),
        bool(range(0)),
    )


@cases(X)
def errors(x):
    y = x + 1
    found = []
    for n in range(10):
        try:
            if n == 0:
                max([])
            elif n == 1:
                len(3)
            elif n == 2:
                iter(3)
            elif n == 3:
                next([])
            elif n == 4:
                abs("a")
            elif n == 5:
                int([])
            elif n == 6:
                range(1, 2, 0)
            elif n == 7:
                sum(["a"])
            elif n == 8:
                sorted([1, None])
            elif n == 9:
                float("x")
        except (TypeError, ValueError) as error:
            found.append((type(error), str(error)))
    return y, found


@cases(X)
def sizes(x):
    s = x.shape
    return (
        x + s.numel(),
        s,
        s[0],
        s + (1,),
        (1,) + s,
        s * 2,
        len(s),
        tuple(s),
        list(s),
        s == (3,),
        s == torch.Size([3]),
        s[:1],
        torch.Size([2, 3]).numel(),
        s.count(3),
        s.index(3),
        3 in s,
    )


@cases(torch.ones(2, 3, 4))
def unpacked_sizes(x):
    b, *rest = x.shape
    first, second, third = x.size()
    return x.reshape(b, -1) * first, rest, second + third, [n * 2 for n in x.shape], max(x.shape), x.shape[-1] // 2


@cases(X, expect_breaks=None)
def printed(x):
    y = x + 1
    print("shape", x.shape, end="!\n")
    return y * 2


test = cases.test


WRONG = ["len()", "len(1, 2)", "abs()", "isinstance(1)", "sorted()", "[].append()", "{}.get()", "range()"]


@pytest.mark.parametrize("call", WRONG)
def test_wrong_number_of_arguments(call):
    def f(x):
        y = x + 1
        try:
            exec_call()
        except TypeError as error:
            return y, str(error)

    namespace: dict[str, Any] = {}
    exec(f"def exec_call():\n    return {call}", namespace)
    exec_call = namespace["exec_call"]
    check(f, vector(), expect_breaks=None)
