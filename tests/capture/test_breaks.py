"""Breaks at many places: the result is eager's, nothing happens twice, and what came before was captured."""

from __future__ import annotations

import io
import time

import pytest
import torch

import framelift
from framelift.report.text import graph_ops
from tests.helpers import check
from tests.helpers.record import Record
from tests.helpers.untraced import print
from tests.values.programs import Programs, x

programs = Programs()
BREAKS = {"expect_breaks": None, "expect_ops": 1}


class Opaque:
    """Something C code knows nothing about; used through a stream, which is not modelled."""

    def __init__(self):
        self.stream = io.StringIO()


def note(*words):
    print(*words)


@programs(**BREAKS)
def top_level(x):
    y = x + 1
    print("break")
    return y * 2


@programs(**BREAKS)
def first_statement(x):
    print("break")
    return doubled(x)


def doubled(x):
    return x * 2


@programs(**BREAKS)
def last_statement(x):
    y = x + 1
    print("break")
    return y


@programs(**BREAKS)
def twice(x):
    y = x + 1
    print("one")
    y = doubled(y)
    print("two")
    return doubled(y)


@programs(**BREAKS)
def inside_expression(x):
    y = x + 1
    return doubled(y) + (3 if print("mid") is None else 4) * y


@programs(**BREAKS)
def inside_arguments(x):
    y = x + 1
    return torch.add(y, doubled(y), alpha=len(str(print("arg"))))


@programs(**BREAKS)
def inside_call_with_keywords(x):
    y = x + 1
    return dict(a=y, b=print("b"), c=[y, y])


@programs(**BREAKS)
def in_for(x):
    y = x + 1
    for i in range(3):
        print(i)
        y = y + i
    return y


@programs(**BREAKS)
def in_for_over_list(x):
    y = x + 1
    for i, part in enumerate([1, 2, 3]):
        print(i, part)
        y = y + part
    return y


@programs(**BREAKS)
def in_for_over_dict(x):
    y = x + 1
    d = {"a": 1, "b": y}
    for key, value in d.items():
        print(key)
        y = y + value
    return y, d


@programs(**BREAKS)
def in_nested_for(x):
    y = x + 1
    for i in range(2):
        for j in [1, 2]:
            if i == 1 and j == 1:
                print(i, j)
            y = y + i * j
    return y


@programs(**BREAKS)
def in_while(x):
    y = x + 1
    n = 0
    while n < 3:
        n += 1
        if n == 2:
            print(n)
            continue
        y = y * n
    return y


@programs(**BREAKS)
def in_zip(x):
    y = x + 1
    for a, b in zip([1, 2], (y, y)):
        print(a)
        y = y + a * b
    return y


@programs(**BREAKS)
def in_comprehension(x):
    y = x + 1
    return [y + i for i in range(3) if print(i) is None]


@programs(**BREAKS)
def in_dict_comprehension(x):
    y = x + 1
    return {i: y + i for i in range(3) if print(i) is None}


@programs(**BREAKS)
def in_generator_expression(x):
    y = x + 1
    return sum(y * i for i in range(3) if print(i) is None)


@programs(**BREAKS)
def in_inlined(x):
    y = x + 1
    note("inlined")
    return y * 2


@programs(**BREAKS)
def in_deeply_inlined(x):
    def a(v):
        return b(v) + 1

    def b(v):
        return c(v) * 2

    def c(v):
        note("deep")
        return v - 1

    return a(x + 1)


@programs(**BREAKS)
def in_lambda(x):
    y = x + 1
    return (lambda v: (note("l"), v * 2))(y)


@programs(**BREAKS)
def in_method(x):
    y = x + 1
    return Noisy(2).scale(y)


class Noisy:
    def __init__(self, k):
        self.k = k

    def scale(self, v):
        note("scale", self.k)
        self.k += 1
        return v * self.k

    @property
    def loud(self):
        note("loud")
        return self.k

    def __add__(self, other):
        note("add")
        return other + self.k

    def __iter__(self):
        note("iter")
        return iter([1, 2])


@programs(**BREAKS)
def in_property(x):
    y = x + 1
    n = Noisy(3)
    return y * n.loud, n


@programs(**BREAKS)
def in_operator(x):
    y = x + 1
    return Noisy(3) + y


@programs(**BREAKS)
def in_iter(x):
    y = x + 1
    for i in Noisy(3):
        y = y + i
    return y


@programs(**BREAKS)
def in_init(x):
    y = x + 1
    return NoisyInit(y).v


class NoisyInit:
    def __init__(self, v):
        self.v = v
        note("init")


@programs(**BREAKS)
def in_condition(x):
    y = x + 1
    if print("c") is None and y.dim() == 2:
        return y * 2
    return y * 3


@programs(**BREAKS)
def on_data(x):
    y = x + 1
    if y.sum() > 100:
        return y * 2
    return y * 3


@programs(**BREAKS)
def in_starred(x):
    y = x + 1
    return torch.stack([*[y, y], doubled(y)]), (*range(2), print("s"))


@programs(**BREAKS)
def in_unpacking(x):
    y = x + 1
    a, b = y, print("u")
    return a * 2, b


@programs(**BREAKS)
def in_fstring(x):
    y = x + 1
    return f"{y.dim()} {y.sum().item():.1f} {time.time() > 0}", y * 2


@programs(**BREAKS)
def on_time(x):
    y = x + 1
    t = time.time()
    return y * 2, t > 0


@programs(**BREAKS)
def on_save(x):
    y = x + 1
    buffer = io.BytesIO()
    torch.save(y, buffer)
    return y * 2, buffer.tell() > 0


@programs(**BREAKS)
def on_opaque_object(x):
    y = x + 1
    stream = io.StringIO()
    stream.write("text")
    return y * 2, stream.getvalue()


@programs(**BREAKS)
def explicit(x):
    y = x + 1
    framelift.graph_break()
    return y * 2


@programs(**BREAKS)
def with_a_cell(x):
    k = 1
    y = x + 1

    def inner():
        nonlocal k
        k += 1
        return k

    inner()
    print(k)
    inner()
    return y * k, k


@programs(**BREAKS)
def with_a_deleted_variable(x):
    y = x + 1
    k = 1
    del k
    print("deleted")
    try:
        return k  # noqa: F821
    except UnboundLocalError:
        return y * 2


@programs(**BREAKS)
def with_an_unset_variable(x):
    y = x + 1
    print("unset")
    if y.dim() == 7:
        k = 1
    try:
        return k
    except UnboundLocalError as error:
        return y * 2, str(error)


@programs(**BREAKS)
def with_many_kinds_alive(x):
    y = x + 1
    a, b, c, d = [y, 1], (y, [2]), {"k": y}, {1, 2}
    e, f, g = range(3), slice(1, None), iter([1, 2, 3])
    next(g)
    z = zip([1, 2], [3, 4])
    next(z)
    print("alive")
    return a, b, c, d, e, a[f], list(g), list(z)


@programs(**BREAKS)
def with_shared_identity(x):
    y = x + 1
    shared = [y]
    a, b = {"s": shared}, (shared, shared)
    print("shared")
    a["s"].append(1)
    return a, b, shared


@programs(**BREAKS)
def with_a_cycle(x):
    items = [x + 1]
    items.append(items)
    print("cycle")
    return items[1] is items, items[0] * 2


@programs(**BREAKS)
def with_a_function_alive(x):
    y = x + 1
    k = 2

    def inner(v, m=k):
        return v * m + k

    print("function")
    k = 5
    return inner(y)


@programs(**BREAKS)
def with_an_object_alive(x):
    n = Noisy(x + 1)
    n.other = n
    print("object")
    return n.k * 2, n.other is n, n


@programs(args=(x(), [1], {"a": 1}), **BREAKS)
def inputs_changed_before(x, items, table):
    y = x + 1
    items.append(y)
    table["b"] = items
    del table["a"]
    print(len(items), list(table))
    items.append(2)
    return y * 2


@programs(args=(x(),), **BREAKS)
def tensor_changed_in_place_before(x):
    x.add_(1)
    y = x * 2
    print("in place")
    x.mul_(2)
    return y + x


@programs(args=(x(), 5), **BREAKS)
def in_varargs_function(x, *args, **kwargs):
    y = x + 1
    print(args, kwargs)
    return y * sum(args)


@programs(**BREAKS)
def in_finally_with_return(x):
    y = x + 1
    try:
        return y * 2
    finally:
        print("finally")


@programs(**BREAKS)
def in_else_of_loop(x):
    y = x + 1
    for i in range(2):
        y = y + i
    else:
        print("else")
    return y


@programs(**BREAKS)
def in_assert_like(x):
    y = x + 1
    if not y.shape[0] == 2:
        raise ValueError(print("never"))
    print("after")
    return y


@programs(**BREAKS)
def break_with_method_on_stack(x):
    y = x + 1
    return y.add(print("m") or 3)


@programs(**BREAKS)
def break_with_function_and_null_on_stack(x):
    y = x + 1
    return max(len(str(print("n"))), 2) * y


@programs(**BREAKS)
def chained_comparison(x):
    y = x + 1
    return y, 1 < (print("c") or 2) < 3


@programs(**BREAKS)
def walrus(x):
    return (y := x + 1), print("w"), y * 2


@programs(**BREAKS)
def import_inside(x):
    import math

    y = x + math.pi
    print("math")
    from math import e

    return y * e


programs.cases = [(f, a, {**o}) for f, a, o in programs.cases]
test_programs = programs.test()


def test_the_graph_before_the_break_is_captured():
    def fn(x):
        y = (x + 1) * 2 - 3
        print("break")
        return y / 4

    record = Record()
    with record.listening():
        framelift.compile(fn, backend="eager")(x())
    assert [len(graph_ops(graph)) for graph in record.graphs] == [3, 1]
    assert [event.text for event in record.breaks] == ['print("break")']


def test_the_break_names_the_line_and_a_reason():
    def fn(x):
        y = x + 1
        return y, time.time()

    record = Record()
    with record.listening():
        framelift.compile(fn, backend="eager")(x())
    (event,) = record.breaks
    assert event.id == "FL0102" and "time" in event.reason and "time.time()" in event.text


def test_breaks_hit_the_second_time():
    def fn(x):
        y = x + 1
        print("break")
        return doubled(y)

    lifted = framelift.compile(fn, backend="eager")
    lifted(x())
    record = Record()
    with record.listening():
        lifted(x())
    assert record.captures == 0


@pytest.mark.parametrize("n", range(1, 6))
def test_breaks_in_a_row(n):
    namespace = {"torch": torch}
    body = "\n".join(f"    y = y + {i}\n    print({i}, y.dim())" for i in range(n))
    exec(f"def fn(x):\n    y = x\n{body}\n    return y", namespace)
    check(namespace["fn"], x(), expect_breaks=None)


@pytest.mark.parametrize("where", range(12))
def test_a_break_at_every_point_of_an_expression(where):
    """`b(i)` prints when it is the i-th: the break moves through an expression with many things on the stack."""
    namespace = {"torch": torch, "where": where}
    exec(
        "def b(i):\n"
        "    if i == where:\n"
        "        print('here')\n"
        "    return i + 1\n"
        "def fn(x):\n"
        "    y = x + 1\n"
        "    d = {'a': [b(0), y], b(1): (y, b(2))}\n"
        "    z = torch.add(y * b(3), d['a'][1][b(4) - 5:], alpha=b(5))\n"
        "    w = [v + b(6) for v in (y, z)]\n"
        "    w[b(7) - 8], d['n'] = w[1] if b(8) else z, {**d, 'q': b(9)}\n"
        "    return f'{b(10)}{y.dim()}', w, d, (lambda u, *a, k=b(11): (u, a, k))(z, *w)\n",
        namespace,
    )
    check(namespace["fn"], x(), expect_breaks=None, expect_ops=1)
