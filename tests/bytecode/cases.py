"""Functions that between them use every kind of instruction a plain function can have.

Every case is `f(log)`: what it does that can be seen goes into `log`, what it returns is compared by repr.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from typing import Any, NamedTuple


class Case(NamedTuple):
    name: str
    make: Callable[[], Callable[..., Any]]  # a fresh function, with fresh cells


CASES: list[Case] = []


def case(function: Callable[..., Any]) -> Callable[..., Any]:
    CASES.append(Case(function.__name__, lambda: function))
    return function


def made(function: Callable[[], Callable[..., Any]]) -> Callable[[], Callable[..., Any]]:
    CASES.append(Case(function.__name__, function))
    return function


def handled() -> str:
    return repr(sys.exc_info()[1])


class Manager:
    def __init__(self, log: list, name: object, swallow: bool = False) -> None:
        self.log, self.name, self.swallow = log, name, swallow

    def __enter__(self):
        self.log.append(("enter", self.name))
        return self

    def __exit__(self, kind, error, trace):
        self.log.append(("exit", self.name, kind and kind.__name__, repr(error), handled()))
        return self.swallow


def note(log, value, *args, **kwargs):
    log.append((value, args, tuple(kwargs.items())))
    return value


def fail(log, message):
    log.append(("fail", message))
    raise ValueError(message)


@case
def arithmetic(log):
    a = 3
    b = a * 2 + note(log, a)
    b -= ~a + -b
    c = (a, [b, {"k": a}], +a, not b, a << 2 | 1)
    return f"{a}{b!r:>5}{c!s}{a:03}" + str(c)


@case
def comparisons(log):
    a, b = 3, note(log, 4)
    chain = 1 < a <= b != 7 > 2 >= 2
    word = "less" if a < b else "more"
    if a is not None and b not in (1, 2) or a == 9:
        word += "!"
    x = None
    while x is None:
        x = a or b
    return chain, word, a is b, not a == b, a and log and b, x or 0, (a < b) == True  # noqa: E712


@case
def for_loop(log):
    total = 0
    for i in range(4):
        if i == 2:
            continue
        total += note(log, i) * 10
        if total > 35:
            break
    else:
        total = -1
    return total


@case
def nested_loops(log):
    out = []
    for x in iter([3, 2]):
        while x:
            for y in zip("ab", [x, x + 1]):
                out.append((x, *y))
            x -= 1
    else:
        out.append("end")
    return out


@case
def try_except(log):
    out = []
    for v in (1, 0, "s"):
        try:
            out.append(10 // v)
        except ZeroDivisionError as e:
            out.append(("zero", str(e), handled()))
        except TypeError:
            out.append(handled())
        else:
            out.append("else")
        finally:
            out.append(("finally", handled()))
    return out, handled()


@case
def raise_again(log):
    try:
        try:
            fail(log, "one")
        except ValueError:
            log.append(handled())
            raise
        finally:
            log.append(("finally", handled()))
    except Exception as e:
        return repr(e), handled()


@case
def raise_out(log):
    x = 1
    try:
        x = fail(log, "out")
    finally:
        log.append(("finally", x, handled()))


@case
def raise_in_handler(log):
    try:
        try:
            fail(log, "first")
        except ValueError as e:
            note(log, 5)
            raise KeyError("second")
    except KeyError as e:
        return repr(e), repr(e.__context__), repr(e.__context__.__context__)


@case
def raise_from(log):
    try:
        fail(log, "a")
    except ValueError as e:
        raise RuntimeError("b") from e


@case
def nested_handlers(log):
    try:
        fail(log, "outer")
    except ValueError:
        try:
            {}["k"]
        except KeyError:
            log.append(handled())
            try:
                log[100]
            except IndexError:
                log.append(handled())
            log.append(handled())
        log.append(handled())
    return handled()


@case
def return_in_finally(log):
    for i in range(3):
        try:
            if i:
                fail(log, i)
            continue
        except ValueError:
            return note(log, sys.exc_info()[1].args)
        finally:
            log.append(("finally", i, handled()))


@case
def swallowed_in_finally(log):
    while True:
        try:
            fail(log, "gone")
        finally:
            note(log, "in finally")
            break
    return handled()


@case
def with_blocks(log):
    with Manager(log, "a") as a, Manager(log, "b"):
        log.append(a.name)
        for i in range(2):
            with Manager(log, i):
                log.append(i)
                if i:
                    return "returned", i


@case
def with_raising(log):
    with Manager(log, "outer", swallow=True):
        with Manager(log, "inner"):
            fail(log, "in with")
        log.append("never")
    log.append(handled())
    with Manager(log, "last"):
        raise KeyError("leaves")


@case
def with_in_handler(log):
    try:
        fail(log, "z")
    except ValueError:
        with Manager(log, "w", True):
            raise
        return handled()


@case
def comprehensions(log):
    k = 2
    a = [note(log, i * k) for i in range(3)]
    b = {i: [j for j in range(i)] for i in range(3)}
    c = {x for x in a if x}
    x = "kept"
    d = [x for x in "ab"]
    return a, b, sorted(c), x, d, sum(y + k for y in a)


@case
def comprehension_cells(log):
    fs = [lambda: (i, log[:1]) for i in range(2)]
    i = 7
    gs = [(lambda: i) for i in range(3)]
    return [f()[0] for f in fs], [g() for g in gs], i


@case
def comprehension_raising(log):
    q = 1
    try:
        return [10 // (2 - q) for q in range(5)]
    except ZeroDivisionError as e:
        return q, str(e)


@case
def matching(log):
    out = []
    for s in ([1, 2], {"k": 5, "z": 1}, (1, 2, 3, 4), "str", 4, Manager(log, "n"), None):
        match s:
            case [a, b]:
                out.append(("two", a, b))
            case {"k": v, **rest}:
                out.append(("map", v, rest))
            case [a, *r]:
                out.append(("star", a, r))
            case str() as t if len(t) == 3:
                out.append(t)
            case int(n) | float(n):
                out.append(n)
            case Manager(name=nm, swallow=False):
                out.append(nm)
            case _:
                out.append("other")
    return out


@case
def cells(log):
    n, total = 1, 0

    def add(k):
        nonlocal total
        total += k + n
        return total

    for i in range(3):
        add(i)
        n += 1
    m = [add]
    del add
    try:
        add
    except NameError as e:
        log.append(str(e))
    return total, n, m[0](1), sorted((k, type(v).__name__) for k, v in locals().items())


@made
def free_variables():
    base, acc = 10, []

    def outer(log):
        nonlocal base
        own = 5

        def inner(x):
            return x + base + own

        try:
            for i in range(2):
                acc.append(inner(i))
                base += 1
            if len(acc) > 3:
                del acc[:]
            return list(acc[-2:]), own
        finally:
            base = 10
            log.append(len(acc))

    return outer


@made
def only_free_variables():
    a, b = [1], [2]

    def f(*, log):
        return note(a, len(a)) and [a[0], b[0]] + b * 2

    return f


@made
def method_and_super():
    class A:
        def m(self, x, *r, **k):
            return ("A", x, r, k)

        @property
        def p(self):
            return "p"

    class B(A):
        def m(self, log, *r, z=3, **k):
            g = lambda: self
            h = super(B, self).m
            return super().m(note(log, 1), z=z, *r), g() is self, __class__.__name__, h(k=2, x=z), super().p

    return B().m


@case
def calls(log):
    made = []
    made.append(note(log, 1, 2, kw=3, kv=note(log, 4)))
    made.extend(map(str, sorted([3, 1, 2], key=lambda v: -v, reverse=bool(note(log, 0)))))
    text = ",".join([str(x) for x in made])
    return text, dict(**{"a": 1}, b=2), print, max(*[1, 2], 3), [*made, *"xy"], {**{"q": 1}}, {*made} >= set()


@case
def unbound(log):
    if log:
        zz = 1
    try:
        zz
    except UnboundLocalError as e:
        log.append(str(e))
    del log
    try:
        log
    except NameError as e:
        return str(e), sorted(locals())


@case
def except_star(log):
    try:
        raise ExceptionGroup("g", [ValueError(1), TypeError(2), KeyError(3)])
    except* ValueError as e:
        log.append(repr(e.exceptions))
    except* TypeError:
        log.append(handled())
    return 1


@case
def statements(log):
    a, (b, *c), [*d, e] = 1, "xyz", (1, 2, 3)
    c[0:1] = [a] * 2
    import math as mm
    from os import path as pp
    from os import sep

    assert a, "no"
    x = a if b else c
    y = 1 < note(log, 2) < 3 and not c or None
    global GLOBAL
    GLOBAL = (yy := y)
    c[0] += 5
    del c[-1]
    return c, d, e, x, y, yy, mm.floor(2.5), pp is not None, sep


@case
def definitions(log):
    a, b = 1, "two"
    log.append(a)

    class K(dict):
        z = a

        def get(self):
            return __class__.__name__

    @staticmethod
    def decorated(q: int = a, *, w=b):
        return q, w

    global GLOBAL
    GLOBAL = 3
    del GLOBAL
    k = K()
    k.attribute = a
    k.attribute += 1
    k["x"] = k.attribute
    k["x"] *= 3
    del k.attribute
    assert a, "no"
    return K.z, k.get(), decorated(), k, k["x"], [1, 2, 3, 4][1:3], [*range(9)][::2], (lambda *p, **n: (p, n))(1, c=2)


@case
def failing_assert(log):
    assert log, f"log is {log!r}"


@case
def many_locals(log):
    a = b = c = d = e = f = g = h = i = j = k = l = m = n = o = p = q = r = s = 1  # noqa: E741
    z = [a, b, c, d, e, [f, g, h, note(log, i), j], k, l, m, n, o, p, q, r, s]
    return z, sum([x + a for x in (b, c)])


@made
def big():
    """Jumps, constants and names that need EXTENDED_ARG."""
    lines = ["def big(log):", " t = 0", " for i in range(2):", "  try:"]
    lines += [f"   v{n} = t + {n + 1000}; t += v{n}" for n in range(300)]
    lines += ["   t //= 1 - i", "  except ZeroDivisionError:", "   log.append(t); continue"]
    lines += ["  finally:", "   log.append(i)", " return t, v299"]
    namespace: dict[str, Any] = {}
    exec(compile("\n".join(lines), "big", "exec"), namespace)
    return namespace["big"]


@made
def shadowed_free_variable():
    """From 3.12 on the comprehension's variable is a local slot with the name of a free variable."""
    x, y = 1, [5]

    def f(log):
        a = [x for x in range(2)], x
        b = [(lambda: y[0] + x)() for x in y]
        return a, b, x, [y for y in y]

    return f
