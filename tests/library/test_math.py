"""`math`, `heapq` and `bisect`: every function, in one graph."""

from __future__ import annotations

import bisect
import heapq
import math
from functools import total_ordering

from tests.library.outcomes import outcomes
from tests.values.programs import Programs, x

programs = Programs()


@total_ordering
class TO:
    def __init__(s, v):
        s.v = v

    def __eq__(s, o):
        return s.v == o.v if isinstance(o, TO) else NotImplemented

    def __gt__(s, o):
        return s.v > o.v if isinstance(o, TO) else NotImplemented


class Sq:
    def __init__(s, v):
        s.v = v

    def __len__(s):
        return len(s.v)

    def __getitem__(s, i):
        print("g", i)
        return s.v[i]

    def insert(s, i, v):
        s.v.insert(i, v)


@programs(fullgraph=True)
def numbers(x):
    m = math
    return (
        x * m.pi,
        [
            f(0.5)
            for f in (
                m.acos,
                m.asin,
                m.atan,
                m.cos,
                m.sin,
                m.tan,
                m.cosh,
                m.sinh,
                m.tanh,
                m.asinh,
                m.atanh,
                m.exp,
                m.expm1,
                m.exp2,
                m.log,
                m.log10,
                m.log1p,
                m.log2,
                m.sqrt,
                m.cbrt,
                m.erf,
                m.erfc,
                m.gamma,
                m.lgamma,
                m.degrees,
                m.radians,
                m.fabs,
                m.floor,
                m.ceil,
                m.trunc,
                m.isnan,
                m.isinf,
                m.isfinite,
                m.frexp,
                m.modf,
                m.ulp,
            )
        ],
        m.acosh(2),
        m.comb(5, 2),
        m.perm(5),
        m.perm(5, 2),
        m.factorial(6),
        m.gcd(12, 18, 4),
        m.gcd(),
        m.lcm(4, 6),
        m.isqrt(17),
        m.dist([0, 0], [3, 4]),
        m.hypot(3, 4),
        m.hypot(),
        m.fsum([0.1] * 10),
        m.prod([1, 2, 3], start=2),
        m.copysign(1, -0.0),
        m.fmod(-7, 3),
        m.remainder(7, 4),
        m.ldexp(1.0, 3),
        m.pow(2, 3),
        m.atan2(1, -1),
        m.nextafter(1, 2),
        m.isclose(1, 1 + 1e-10),
        m.isclose(1, 1.1, rel_tol=0.2),
        m.isclose(1, 2, abs_tol=3),
        m.log(8, 2),
        m.inf,
        m.nan != m.nan,
        m.tau,
        m.e,
        m.sumprod([1], [2]) if hasattr(m, "sumprod") else 0,
        m.fma(1, 2, 3) if hasattr(m, "fma") else 0,
    )


@programs(fullgraph=True)
def errors_of_numbers(x):
    m = math
    return (
        x + 1,
        outcomes(
            lambda: m.sqrt(-1),
            lambda: m.log(0),
            lambda: m.log(-1),
            lambda: m.acos(2),
            lambda: m.exp(1000),
            lambda: m.factorial(-1),
            lambda: m.factorial(1.5),
            lambda: m.comb(-1, 1),
            lambda: m.comb(1.0, 1),
            lambda: m.isqrt(-1),
            lambda: m.gcd(1.5),
            lambda: m.floor("a"),
            lambda: m.ceil(m.inf),
            lambda: m.floor(m.nan),
            lambda: m.pow(0, -1),
            lambda: m.fmod(1, 0),
            lambda: m.dist([1], [1, 2]),
            lambda: m.sin("a"),
            lambda: m.sin(),
            lambda: m.sin(1, 2),
            lambda: m.log(1, 0),
            lambda: m.ldexp(1.0, 10**5),
            lambda: m.isclose(1, 2, rel_tol=-1),
            lambda: m.prod(3),
            lambda: m.fsum(["a"]),
            lambda: m.gamma(0),
            lambda: m.trunc("a"),
            lambda: m.sqrt(1j),
            lambda: m.hypot("a"),
            lambda: m.atan2(1),
            lambda: m.perm(2, -1),
            lambda: m.remainder(1, 0),
            lambda: m.frexp("a"),
            lambda: m.copysign(1, "a"),
        ),
    )


@programs(args=(x(), 3, 0.25, [1.5, 2], True), fullgraph=True)
def numbers_from_outside(x, n, f, items, b):
    return (
        x * math.sqrt(n) + math.exp(f),
        math.fsum(items),
        math.prod(items),
        math.floor(f * n),
        math.comb(n, 2),
        math.log2(x.numel()),
        math.ceil(x.shape[0] / 2),
        math.sqrt(b),
        math.gcd(n, 9),
        math.isclose(f, 0.25),
        math.frexp(f),
        math.hypot(*items),
        math.dist(items, [0, 0]),
        math.factorial(n),
        math.isfinite(f),
        math.copysign(f, -n),
        math.ldexp(f, n),
        math.trunc(f),
        math.log(n, 3),
        math.degrees(f),
    )


@programs(fullgraph=True)
def heaps(x):
    h = []
    [heapq.heappush(h, v) for v in (5, 1, 4)]
    a = heapq.heapreplace(h, 7)
    b = heapq.heappushpop(h, 0)
    c = heapq.heappop(h)
    items = [3, 1, 2]
    heapq.heapify(items)
    return (
        x * a,
        b,
        c,
        h,
        items,
        heapq.nlargest(2, [1, 5, 3]),
        heapq.nsmallest(2, "cab", key=lambda v: -ord(v)),
        list(heapq.merge([1, 4], [2, 3])),
        list(heapq.merge([4, 1], [3, 2], reverse=True)),
        list(heapq.merge(["a", "BB"], ["CCC"], key=len)),
        heapq.nlargest(0, [1]),
        heapq.nlargest(1, []),
        heapq.nsmallest(9, [2, 1]),
        heapq.nlargest(1, [1, 2], key=None),
        heapq.nsmallest(1, [3, 2]),
        outcomes(
            lambda: heapq.heappop([]),
            lambda: heapq.heapreplace([], 1),
            lambda: heapq.heappush((), 1),
            lambda: heapq.heapify((1,)),
            lambda: heapq.heapify([1, "a"]),
            lambda: heapq.heappop(3),
            lambda: heapq.heappush([1]),
            lambda: list(heapq.merge(1)),
            lambda: heapq.heappushpop([], 4),
        ),
    )


@programs(args=(x(), [(2, "b"), (1, "a")], []), fullgraph=True)
def heaps_from_outside(x, h, e):
    heapq.heapify(h)
    heapq.heappush(h, (0, "z"))
    s = []
    for i, t in enumerate((0.5, 0.1)):
        heapq.heappush(e, (t, i, x + i))
    while e:
        s.append(heapq.heappop(e)[2])
    return (s, h, e, heapq.heappop(h))


@programs(fullgraph=True)
def comparisons_with_effects(x):
    h = [TO(3), TO(1)]

    class L:
        def __init__(s, v):
            s.v = v

        def __lt__(s, o):
            print("lt", s.v, o.v)
            return s.v < o.v

    q = [L(3), L(1), L(2)]
    heapq.heapify(q)
    heapq.heappush(q, L(0))
    return (x + heapq.heappop(q).v, [v.v for v in q], [v.v for v in heapq.nlargest(2, q)])


@programs(fullgraph=True)
def searches(x):
    L = [1, 2, 2, 4]
    b = bisect
    r = [
        b.bisect(L, 2),
        b.bisect_left(L, 2),
        b.bisect_right(L, 2, 0, 2),
        b.bisect_left(L, 9),
        b.bisect(L, 3, lo=1),
        b.bisect_left([(1, "a"), (3, "b")], 2, key=lambda t: t[0]),
        b.bisect_left(L, 2, hi=1),
    ]
    b.insort(L, 3)
    b.insort_left(L, 2)
    b.insort_right(L, 0, 0, 1)
    b.insort(L, -5, key=abs)
    return (
        x * r[0],
        r,
        L,
        outcomes(
            lambda: b.bisect([1], 0, -1),
            lambda: b.bisect(3, 1),
            lambda: b.bisect(["a"], 1),
            lambda: b.insort((1,), 2),
            lambda: b.bisect([1]),
            lambda: b.bisect([1], 2, 0, 5),
            lambda: b.bisect_left([1, 2], 1, key=3),
        ),
    )


@programs(args=(x(), [0.1, 0.5, 0.9], Sq([1, 3]), 0.5), fullgraph=True)
def searches_from_outside(x, items, s, v):
    bisect.insort(items, v)
    bisect.insort(s, 2)
    return (
        x * bisect.bisect(items, v),
        items,
        s.v,
        bisect.bisect(s, 2),
        bisect.bisect([x[0] * 0, x[0] * 0 + 10], 5) if False else 0,
        bisect.bisect(range(0, 100, 10), 35),
        bisect.bisect("abd", "c"),
        bisect.bisect((1, 2), 1),
    )


test_programs = programs.test()
