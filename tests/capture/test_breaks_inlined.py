"""Breaks within calls: the frames are real while Python runs the one instruction, and go on as one capture."""

from __future__ import annotations

import sys
import traceback
from typing import Any

import pytest
import torch

import framelift
from framelift.errors import FrameliftWarning
from framelift.report.text import graph_ops
from tests.helpers import check
from tests.helpers.record import Record

graph_break = framelift.graph_break


def x() -> torch.Tensor:
    return torch.ones(2, 2, requires_grad=True)


def graphs_of(fn: Any, *args: Any, **options: Any) -> list[int]:
    return [len(graph_ops(graph)) for graph in check(fn, *args, expect_breaks=None, **options).graphs]


def innermost(v):
    v = v + 1
    graph_break()
    return v * 2


def middle(v, k=3):
    v = v + k
    v = innermost(v)
    return v * 4


def outermost(v):
    v = v + 5
    v = middle(v)
    return v * 6


def test_two_calls_deep():
    checked = check(outermost, x(), expect_breaks=1)
    assert [len(graph_ops(graph)) for graph in checked.graphs] == [3, 3]
    assert checked.record.breaks[0].text == "graph_break()"


def test_the_frames_are_real_meanwhile():
    seen = []

    @framelift.disable
    def look():
        frame, names = sys._getframe(1), []
        while frame is not None and frame.f_code.co_name != "test_the_frames_are_real_meanwhile":
            if frame.f_code.co_filename == __file__:
                names.append((frame.f_code.co_name, frame.f_lineno))
            frame = frame.f_back
        seen.append(names)

    def h(v):
        v = v + 1
        look()
        return v * 2

    def g(v):
        return h(v + 3) * 4

    def fn(v):
        v = g(v + 5)
        return v * 6

    fn(x())
    lifted = framelift.compile(fn, backend="eager")
    lifted(x())
    lifted(x())
    assert seen[1] == seen[2] == seen[0] and len(seen[0]) == 3


def lines_of(function: Any, *args: Any) -> list[tuple[str, int]]:
    with pytest.raises(ValueError) as caught:
        function(*args)
    rows = traceback.extract_tb(caught.value.__traceback__)
    return [(row.name, row.lineno or 0) for row in rows if row.filename == __file__][1:]


@framelift.disable
def complain(v):
    raise ValueError(f"{v.dim()}")


def test_the_traceback_of_the_instruction():
    def h(v):
        v = v + 1
        complain(v)

    def g(v):
        h(v + 1)

    def fn(v):
        g(v * 2)

    assert lines_of(framelift.compile(fn, backend="eager"), x()) == lines_of(fn, x())


def test_the_traceback_of_what_comes_after():
    def h(v):
        v = v + 1
        graph_break()
        v = v * 2
        raise ValueError("late")

    def g(v):
        h(v + 1)

    def fn(v):
        g(v * 2)

    assert lines_of(framelift.compile(fn, backend="eager"), x()) == lines_of(fn, x())


def test_a_handler_of_the_caller():
    def h(v, log):
        v = v + 1
        log.append("before")
        complain(v)
        return v * 2

    def g(v, log):
        try:
            return h(v + 1, log)
        except ValueError as error:
            log.append(str(error))
            v = v * 7
        finally:
            log.append("finally")
        return v * 3

    def fn(v, log):
        v = g(v * 2, log)
        return v * 6

    assert graphs_of(fn, x(), []) == [3, 3]


def test_an_exception_of_what_comes_after_reaches_the_caller():
    def h(v, fail):
        v = v + 1
        graph_break()
        if fail:
            raise KeyError("k")
        return v * 2

    def g(v, fail):
        w = v * 10
        try:
            v = h(v, fail)
        except KeyError as error:
            return w + 1, repr(error)
        return v, None

    def fn(v, fail):
        v, text = g(v * 2, fail)
        return v * 6, text

    check(fn, x(), False, changed=[(x(), True), (x(), False), (x(), True)], expect_breaks=None)


def test_a_with_block_of_the_caller():
    class Manager:
        def __init__(self):
            self.log = []

        def __enter__(self):
            self.log.append("in")
            return self

        def __exit__(self, *error):
            self.log.append(error[0])
            return True

    def h(v):
        v = v + 1
        graph_break()
        return v * 2

    def fn(v, fail):
        with Manager() as manager:
            v = h(v * 3)
            if fail:
                complain(v)
            v = v + 7
        return v * 4, manager.log

    check(fn, x(), False, expect_breaks=1)
    check(fn, x(), True, expect_breaks=None)


def test_under_no_grad_of_the_caller():
    def h(v):
        w = v + 1
        graph_break()
        return w * v, torch.is_grad_enabled()

    def fn(v):
        with torch.no_grad():
            a, inside = h(v * 2)
        return a, a.requires_grad, inside, v * 2

    check(fn, x(), expect_breaks=1)


def test_several_breaks_on_the_way_out():
    def h(v):
        v = v + 1
        graph_break()
        v = v * 2
        graph_break()
        return v - 1

    def g(v):
        v = h(v) + 1
        graph_break()
        return h(v)

    def fn(v):
        v = g(v) * 3
        graph_break()
        return v * 2

    assert graphs_of(fn, x()) == [1, 1, 2, 1, 1, 2, 1]


def test_in_a_loop_of_the_caller():
    def h(v):
        v = v + 1
        graph_break()
        return v * 0.5

    def fn(v):
        for _ in range(30):
            v = h(v) + 1
        return v

    record = check(fn, x(), expect_breaks=None).record
    assert record.captures <= 4


def test_in_a_loop_of_what_was_called():
    def h(v):
        for _ in range(30):
            v = v + 1
            graph_break()
        return v * 2

    def fn(v):
        return h(v * 2) + 1

    record = check(fn, x(), expect_breaks=None).record
    assert record.captures <= 4


def test_a_module():
    class Inner(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.linear = torch.nn.Linear(2, 2)

        def forward(self, v):
            v = self.linear(v)
            graph_break()
            return v.relu()

    class Outer(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.first, self.second = Inner(), Inner()

        def forward(self, v):
            return self.second(self.first(v) + 1) * 2

    torch.manual_seed(0)
    module = Outer()
    lifted = framelift.compile(module, backend="eager")
    record = Record()
    with record.listening():
        assert torch.equal(lifted(x()), module(x()))
    assert [len(graph_ops(graph)) for graph in record.graphs] == [1, 3, 2]
    with record.listening():
        lifted(x() * 2)
    assert len(record.graphs) == 3


def test_a_closure_made_in_the_frame():
    def fn(v):
        scale = v + 1

        def inner(w):
            nonlocal scale
            w = w * scale
            graph_break()
            scale = scale + w
            return w - 1

        a = inner(v)
        return a + scale

    assert graphs_of(fn, x()) == [2, 3]


def test_a_comprehension_sees_its_caller():
    def fn(v):
        y = v + 1
        return [y * k for k in (2, 3) if graph_break() is None]

    check(fn, x(), expect_breaks=None, expect_ops=3)


def test_keyword_and_starred_calls():
    def h(a, *rest, k=1, **more):
        a = a + k
        graph_break()
        return a * len(rest), more

    def fn(v):
        a, more = h(v, *[1, 2], k=3, **{"z": v * 2})
        b, _ = h(a, 1, k=2)
        return a + b, more["z"] + 1

    check(fn, x(), expect_breaks=2)


def test_a_call_that_is_more_than_a_call():
    """The result of `__init__` is not that of the instruction: this break is at the call of the class."""

    class Thing:
        def __init__(self, v):
            self.v = v + 1
            graph_break()
            self.w = v * 2

    def fn(v):
        thing = Thing(v + 5)
        return thing.v + thing.w

    check(fn, x(), expect_breaks=None)


def test_recursion():
    def countdown(v, n):
        v = v + 1
        if n == 0:
            graph_break()
            return v * 2
        return countdown(v, n - 1) + 1

    def fn(v):
        return countdown(v, 5) * 3

    assert graphs_of(fn, x()) == [6, 7]


def test_the_rest_is_not_captured_beyond_the_limit():
    factors = {"0": 2, "1": 3, "2": 4, "3": 5, "4": 6}

    def h(v, name):
        v = v + 1
        graph_break()
        try:
            return v * factors[name]
        finally:
            v = None

    def fn(v, name):
        return h(v, name) + 1

    lifted = framelift.compile(fn, backend="eager")
    with framelift.config.patch(recompile_limit=2):
        for n in range(5):
            if n < 2:
                result = lifted(x(), str(n))
            else:
                with pytest.warns(FrameliftWarning) if n == 2 else _nothing():
                    result = lifted(x(), str(n))
            assert torch.equal(result, fn(x(), str(n)))


class _nothing:
    def __enter__(self):
        return None

    def __exit__(self, *error):
        return None
