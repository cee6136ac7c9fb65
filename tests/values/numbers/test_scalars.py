"""Numbers, strings and flags given as arguments: what is decided on them is guarded, and no more."""

from __future__ import annotations

import math

import pytest
import torch

import framelift
from tests.helpers import check, transcript
from tests.values.cases import Cases, vector

cases = Cases()
X = vector()


@cases(X, 3, changed=[(X, 4), (X, 3.0), (X, True), (X, -3)])
def arithmetic(x, n):
    return x * (n + 1) - n // 2, n, n * 2, -n, n**2


@cases(X, 3, changed=[(X, 4), (X, 0)])
def chained_comparison(x, n):
    if 0 < n < 4:
        return x + 1
    return x - 1


@cases(X, 3, changed=[(X, 4), (X, 2), (X, 3.5)])
def negated_comparison(x, n):
    if not n > 3:
        return x + 1
    return x - 1


@cases(X, 2, changed=[(X, 0), (X, 1)])
def division_by_zero(x, n):
    y = x + 1
    try:
        return y, 10 // n
    except ZeroDivisionError as error:
        return y, str(error)


@cases(X, 0, changed=[(X, 2)])
def division_by_zero_first(x, n):
    y = x + 1
    try:
        return y, 10 // n
    except ZeroDivisionError as error:
        return y, str(error)


@cases(X, "a", changed=[(X, 2), (X, None)])
def wrong_type_first(x, n):
    y = x + 1
    try:
        return y, n < 3
    except TypeError as error:
        return y, str(error)


@cases(X, None, changed=[(X, 1), (X, "a"), (X, X)])
def optional(x, n):
    if n is None:
        return x + 1
    return x, n


@cases(X, 1, changed=[(X, None), (X, 2)])
def optional_given(x, n):
    if n is not None:
        return x + n
    return x


@cases(X, True, changed=[(X, False), (X, 1), (X, "")])
def flag(x, flag):
    if flag:
        return x + 1
    return x - 1


@cases(X, True, changed=[(X, False), (X, 1), (X, None)])
def flag_is_true(x, flag):
    return x + 1 if flag is True else x - 1


@cases(X, "mean", changed=[(X, "sum"), (X, "none"), (X, b"mean")])
def string_flag(x, reduction):
    if reduction == "mean":
        return x.mean()
    elif reduction == "sum":
        return x.sum()
    return x + 0


@cases(X, [1, 2, 3], 1, changed=[(X, [1, 2, 3], 2), (X, [1, 2, 3], -1), (X, [1, 2, 3], True)])
def as_index(x, xs, i):
    return x + xs[i]


@cases(X, math.nan, changed=[(X, 1.0), (X, math.inf), (X, -0.0), (X, 0.0)])
def nan(x, value):
    return x + 1, value == value, value < 1, value != value, value


@cases(X, 10**30, changed=[(X, 10**31), (X, 3)])
def big(x, n):
    return x + 1, n > 5, n + 1, n % 7, n


@cases(X, -0.0, changed=[(X, 0.0)])
def negative_zero(x, value):
    return x * value, value


@cases(X, 3, 4, changed=[(X, 4, 3), (X, 3, 3)])
def two_scalars(x, a, b):
    if a < b:
        return x + a
    return x - b


@cases(X, 3, changed=[(X, 5)])
def comparison_as_number(x, n):
    return x * (n > 4) + (n == 3), (n > 4) + 1, (n > 4) is True


@cases(X, 3, changed=[(X, 5), (X, 3.5)])
def boolean_logic(x, n):
    return x + 1, n > 2 and n < 4, n < 2 or n == 5, not n, n and "yes", (n > 2) & (n < 4), (n > 2) | (n < 1)


@cases(X, 3, changed=[(X, 2), (X, 9)])
def membership(x, n):
    if n in (1, 2, 3):
        return x + 1
    return x if n not in [9] else x - 1


@cases(X, 3, changed=[(X, 2), (X, 3.0), (X, True), (X, "3")])
def types(x, n):
    if isinstance(n, bool):
        return x + 1
    if isinstance(n, int):
        return x + 2
    if isinstance(n, (float, complex)):
        return x + 3
    return x, type(n)


@cases(X, 3, changed=[(X, 4)])
def as_loop_bound(x, n):
    for i in range(n):
        x = x + i
    return x


@cases(X, 7, changed=[(X, 8), (X, 7.5)])
def builtin_functions(x, n):
    return (
        x + 1,
        abs(-n),
        round(n),
        float(n),
        int(n),
        str(n),
        repr(n),
        divmod(n, 2),
        pow(n, 2),
        max(n, 5),
        min(n, 5),
        bool(n),
    )


@cases(X, 255)
def int_methods(x, n):
    return (
        x + 1,
        n.bit_length(),
        n.to_bytes(2, "big"),
        hex(n),
        bin(n),
        oct(n),
        n.numerator,
        n.real,
        int.from_bytes(b"\1\2", "big"),
    )


@cases(X, 2.5)
def float_methods(x, v):
    return x + 1, v.is_integer(), v.hex(), v.as_integer_ratio(), v.real, float.fromhex("0x1p3"), v.conjugate()


@cases(X, 1 + 2j, changed=[(X, 1 + 3j)])
def complex_numbers(x, c):
    return x * c.real + c.imag, c.conjugate(), abs(c), c * 2, c == 1 + 2j, complex(1, 2), -c


@cases(X, "abc", changed=[(X, "abd"), (X, "")])
def strings(x, s):
    return x + len(s), s.upper(), s + "x", s * 2, s[::-1], "b" in s, s < "abd", s == "abc", list(s)


@cases(X, 1000, 1000)
def identity(x, a, b):
    return x + 1, a is a, a is not None, a == b


@cases(X, range(2, 10, 3), changed=[(X, range(1, 6)), (X, range(2, 11, 3))])
def ranges(x, r):
    total = x
    for n in r:
        total = total + n
    return total, r.start, r.stop, r.step, len(r), r[1], 5 in r, r[::-1], list(r), r == range(2, 9, 3), r.index(5), r


@cases(X, slice(1, 3), changed=[(X, slice(0, 2)), (X, slice(None, None, 2))])
def slices(x, s):
    return x[s], [1, 2, 3, 4][s], s.start, s.stop, s, s == slice(1, 3)


@cases(X, 1, 3, changed=[(X, 0, 2)])
def slices_from_scalars(x, a, b):
    s = slice(a, b)
    return x[s], x[a:b], [1, 2, 3, 4][a:b], s.indices(3), s, "abcd"[a:b], (1, 2, 3)[:b]


@cases(X, b"ab", changed=[(X, b"ac")])
def bytestrings(x, b):
    return x + b[0], b.decode(), b + b"c", b.hex(), bytes([1, 2]), bytes(3), b == b"ab"


@cases(X, ..., changed=[(X, 0)])
def ellipsis(x, key):
    return x[key] + 1, key is Ellipsis


@cases(X, 3)
def scalar_stored(x, n):
    return [n, {"n": n}, (n, n)], x + 1


@cases(X, 2, changed=[(X, 3), (X, 10)])
def power(x, n):
    return x**n, 2**n, n**-1, n << 1, n >> 1, n & 1, n | 8, n ^ 3, ~n


@cases(X, 5, changed=[(X, 6)])
def scalar_in_f_string(x, n):
    return x + 1, f"{n}", f"{n:03d}", f"{n!r:>4}", f"{n + 1}"


@cases(X, 2, changed=[(X, 3), (X, 1)])
def while_loop(x, n):
    while n > 0:
        x = x * 2
        n -= 1
    return x, n


test = cases.test


@pytest.mark.parametrize(
    "program, calls, expected",
    [
        (lambda x, n: x + 1 if n < 3 else x, [1, 2, 0, 2.5, -5], "miss hit hit hit hit"),
        (lambda x, n: x + 1 if not n >= 3 else x, [1, 2, 0], "miss hit hit"),
        (lambda x, n: (x + 1, n), [1, 2, "a", None, [1]], "miss hit hit hit hit"),
        (lambda x, n: (x + 1, [n, n]), [1, 2, "a"], "miss hit hit"),
        (lambda x, n: x + 1 if n is None else x, [1, 2, "a"], "miss hit hit"),
        (lambda x, n: x + 1 if n == "a" else x, ["b", "c", "d"], "miss hit hit"),
        (lambda x, n: x + 1 if isinstance(n, int) else x, [1, 2, 3], "miss hit hit"),
        (lambda x, n: x + 1 if 0 < n < 10 else x, [1, 2, 9], "miss hit hit"),
    ],
)
def test_other_values_with_the_same_outcome_hit(program, calls, expected):
    x = vector()
    assert transcript(program, [(x, n) for n in calls]) == expected


@pytest.mark.parametrize(
    "program, first, second",
    [
        (lambda x, n: x + n, 1, 2),
        (lambda x, n: x + n, 1, True),
        (lambda x, n: x + n, 1, 1.0),
        (lambda x, n: x + 1 if n < 3 else x, 1, 5),
        (lambda x, n: x + 1 if isinstance(n, int) else x, 1, 1.0),
        (lambda x, n: x + 1 if type(n) is int else x, 1, True),
        (lambda x, n: x + 1 if n is None else x, None, 1),
        (lambda x, n: x + 1 if n is None else x, 1, None),
        (lambda x, n: x * [2, 3, 4][n], 0, 1),
        (lambda x, n: x + 1 if n else x, 1, 0),
        (lambda x, n: x * (n + 1), 0, 1),
        (lambda x, n: x + 0.0 * n, 0.0, -0.0),
    ],
)
def test_other_values_miss(program, first, second):
    x = vector()
    text = transcript(program, [(x, first), (x, second)])
    assert text.startswith("miss miss"), text
    framelift.reset()
    check(program, x, first, changed=[(x, second)])


def test_identity_of_large_numbers():
    def f(x, a, b):
        return x + 1, a is b

    one = 10**20
    check(f, vector(), one, one, changed=[(vector(), one, 10**20 + len("")), (vector(), 5, 5)], expect_breaks=None)
    lifted = framelift.compile(f, backend="eager")
    other = int("1" + "0" * 20)
    assert lifted(vector(), one, one)[1] is True
    assert lifted(vector(), one, other)[1] is False


def test_counters_do_not_need_an_entry_for_each_value():
    def f(x, counts):
        counts["calls"] += 1
        counts["twice"] = counts["calls"] * 2 - counts["calls"]
        return x + 1

    counts, x = {"calls": 0}, vector()
    assert transcript(f, [(x, counts)] * 4) == "miss hit hit hit"
    assert counts == {"calls": 4, "twice": 4}


def test_type_of_a_power_depends_on_the_value():
    def f(x, n):
        return x + 1 if isinstance(2**n, int) else x - 1

    check(f, vector(), 2, changed=[(vector(), -2), (vector(), 3)])


def test_sums_returned_are_computed_again():
    def f(x, n, m):
        return x + 1, n + m, n - 1, -(n * 2)

    x = vector()
    assert transcript(f, [(x, 1, 2), (x, 1, 2)]) == "miss hit"
    framelift.reset()
    check(f, x, 1, 2, changed=[(x, 5, 6), (x, 1.5, 2.5), (x, True, 2), (x, 10**30, 1)])


def test_code_objects_are_told_by_identity():
    def first(x):
        return x

    def second(x):
        return x

    def function(x, code):
        return x + 1, code.co_name

    lifted = framelift.compile(function, backend="eager", fullgraph=True)
    assert [lifted(torch.ones(1), f.__code__)[1] for f in (first, second, first)] == ["first", "second", "first"]


@pytest.mark.parametrize(
    "expression, others",
    [
        ("i + j", [(None, 2), (3, "a"), (3.5, 2)]),
        ("i - 1", [(None, 2), ("a", 2)]),
        ("-i", [(None, 2)]),
        ("abs(i)", [("a", 2)]),
        ("i < 4", [(None, 2), (5, 2)]),
        ("i < j", [(None, 2), (3, None)]),
        ("i / j", [(3, 0), (10**400, 2)]),
        ("i // j", [(3, 0), (3, 0.0)]),
        ("7 % j", [(3, 0), (3, False)]),
        ("i / (j - 1)", [(3, 1)]),
        ("i * 0.5", [(10**400, 2)]),
        ("1 << i", [(-1, 2)]),
        ("int(i + 0.5)", [(float("inf"), 2)]),
        ("float(i)", [(10**400, 2)]),
    ],
)
def test_it_raises_though_nobody_looks_at_the_result(expression, others):
    """What was computed for nothing on the call that was captured raises on another."""
    scope: dict = {}
    exec(f"def program(x, i, j):\n    {expression}\n    return x + 1", scope)
    check(scope["program"], X, 3, 2, changed=[(X, *other) for other in others], expect_breaks=None)


def test_a_result_that_nobody_looks_at_needs_no_entry_per_number():
    def program(x, i, j):
        i / j, i + 1, i % 5, i * 0.5  # noqa: B018
        return x + 1

    seen = check(program, X, 3, 2, changed=[(X, 4, 3), (X, -1, 7)])
    assert len(seen.graphs) == 1


class Answering(list):
    def __eq__(self, other):
        return 5

    def __gt__(self, other):
        return 6

    def __lt__(self, other):
        return 6

    def __radd__(self, other):
        return 7

    def __add__(self, other):
        return 8


@pytest.mark.parametrize("given", [3, None, "a", 2.5], ids=str)
@pytest.mark.parametrize(
    "expression",
    ["[1] == i", "i < [1]", "i + [1]", "{1: 2} == i", "x == i", "{1} | i", "i @ x", "i in [[1]]", "len == i"],
)
def test_operations_with_other_objects_depend_on_the_type(expression, given):
    scope: dict = {}
    body = f"    try:\n        return x * 2, {expression}\n    except TypeError as error:\n        return str(error)"
    exec(f"def program(x, i):\n{body}", scope)
    others = [other for other in (Answering([2]), None, "z", 4, [3]) if type(other) is not type(given)]
    check(scope["program"], X, given, changed=[(X, other) for other in others], expect_ops=0, expect_breaks=None)


def test_a_comparison_with_a_symbolic_number_depends_on_the_type():
    def program(x, i, j):
        return x + 1, i in [j], j == i

    check(program, X, 3, 0, changed=[(X, None, 2), (X, Answering(), 2), (X, 7, 2)], expect_breaks=None)


@pytest.mark.parametrize("given", ["b", None, 2j, b"b"])
def test_a_constant_on_the_left_that_cannot_be_compared(given):
    def fn(x, value):
        texts = []
        for compare in (lambda: 3 < value, lambda: value < 3, lambda: "a" >= value if value != "b" else 0 >= value):
            try:
                texts.append(compare())
            except TypeError as error:
                texts.append(str(error))
        return x + 1, texts

    check(fn, torch.ones(2), given, fullgraph=True, changed=[(torch.ones(2), 4j), (torch.ones(2), "c")])
