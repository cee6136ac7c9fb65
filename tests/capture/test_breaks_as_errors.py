"""`fullgraph` and `framelift.error_on_graph_break`: where a break is an error."""

from __future__ import annotations

import pytest
import torch

import framelift
from framelift.errors import FullGraphError
from tests.helpers import check
from tests.helpers.record import Record

graph_break = framelift.graph_break
X = torch.ones(2)


def broken(x):
    y = x + 1
    graph_break("because")
    return y * 2


@framelift.error_on_graph_break(False)
def may_break(x):
    y = x + 1
    graph_break()
    return y * 2


@framelift.error_on_graph_break(True)
def must_not_break(x):
    return broken(x)


def fails(fn, *args, **options):
    with pytest.raises(FullGraphError) as caught:
        framelift.compile(fn, backend="eager", **options)(*args)
    return str(caught.value)


def test_the_error_says_all():
    text = fails(broken, X, fullgraph=True)
    assert "FL0103" in text and "because" in text and 'graph_break("because")' in text and "Remove the call" in text
    assert f"{__file__}:{broken.__code__.co_firstlineno + 2} in broken" in text


def test_the_line_is_that_within_a_call():
    def fn(x):
        return broken(x) + 1

    assert "in broken" in fails(fn, X, fullgraph=True)


def test_a_block():
    def fn(x):
        y = broken(x)
        with framelift.error_on_graph_break(True):
            y = y + 1
            y = broken(y)
        return y

    assert "in broken" in fails(fn, X)


def test_a_block_without_a_break():
    def fn(x):
        y = broken(x)
        with framelift.error_on_graph_break(True):
            y = y.sin() + 1
        return broken(y) * 2

    check(fn, X, expect_breaks=2)


def test_a_decorator():
    assert "in broken" in fails(lambda x: must_not_break(x) + 1, X)


def test_a_block_allows_what_fullgraph_forbids():
    def fn(x):
        y = x * 3
        with framelift.error_on_graph_break(False):
            y = y + 1
            graph_break()
            y = y * 2
        return y - 1

    record = Record()
    lifted = framelift.compile(fn, backend="eager", fullgraph=True)
    with record.listening():
        assert torch.equal(lifted(X), fn(X))
        assert torch.equal(lifted(X), fn(X))
    assert len(record.breaks) == 1 and len(record.graphs) == 2


def test_a_decorator_allows_what_fullgraph_forbids():
    def fn(x):
        return may_break(x * 3) - 1

    assert torch.equal(framelift.compile(fn, backend="eager", fullgraph=True)(X), fn(X))


def test_behind_the_block_fullgraph_holds_again():
    def fn(x):
        y = may_break(x)
        graph_break()
        return y * 2

    assert f"{__file__}:{fn.__code__.co_firstlineno + 2}" in fails(fn, X, fullgraph=True)


def test_the_innermost_one_decides():
    def fn(x):
        with framelift.error_on_graph_break(True):
            with framelift.error_on_graph_break(False):
                y = broken(x)
            return y + 1

    check(fn, X, expect_breaks=1)


def test_around_the_call():
    lifted = framelift.compile(lambda x: broken(x), backend="eager")
    with framelift.error_on_graph_break(True), pytest.raises(FullGraphError):
        lifted(X)
    assert torch.equal(lifted(X), broken(X))


def test_in_python_it_does_nothing():
    assert torch.equal(must_not_break(X), broken(X))
    with pytest.raises(TypeError, match="True or False"):
        framelift.error_on_graph_break(1)


def test_an_exception_on_its_way_is_not_stopped():
    """That an exception leaves the function is a break, and nothing that follows it is lifted."""
    log = []

    class Manager:
        def __enter__(self):
            return self

        def __exit__(self, *error):
            log.append(error[0])

    def fn(x):
        y = x + 1
        with Manager(), framelift.error_on_graph_break(False):
            graph_break()
            int("one")
        return y

    with pytest.raises(ValueError, match="one"):
        framelift.compile(fn, backend="eager", fullgraph=True)(X)
    assert log == [ValueError]


class Refused(ValueError):
    def __init__(self, what):
        super().__init__(f"refused: {what}")
        self.what = what


def raise_at_once(x, log):
    log.append(x * 2)
    raise Refused(3)


def raise_in_a_call(x, log):
    def inner(y):
        log.append("inner")
        try:
            return {}[1]
        except KeyError as error:
            raise Refused(y.shape) from error

    return inner(x + 1)


def raise_through_handlers(x, log):
    log.append(x + 1)
    try:
        try:
            raise Refused("a")
        except KeyError:
            log.append("not this one")
        finally:
            log.append("finally")
    except Refused as error:
        log.append(error.what)
        raise


@pytest.mark.parametrize("fn", [raise_at_once, raise_in_a_call, raise_through_handlers])
def test_an_exception_that_leaves_the_function_is_the_programs(fn):
    check(fn, X, [], fullgraph=True, expect_ops=0, expect_breaks=None, whole_errors=True)


def test_an_exception_that_leaves_the_function_ends_its_one_graph():
    checked = check(raise_at_once, X, [], fullgraph=True, expect_breaks=None)
    assert all(event.id == "FL0401" for event in checked.record.breaks) and checked.ops == 1


def test_where_an_exception_leaves_others_may_not_break():
    def fn(x, k):
        if k:
            raise Refused(k)
        return broken(x)

    lifted = framelift.compile(fn, backend="eager", fullgraph=True)
    with pytest.raises(Refused, match="refused: 1"):
        lifted(X, 1)
    with pytest.raises(FullGraphError, match="FL0103"):
        lifted(X, 0)
