"""A break while an exception is handled costs one instruction, too: handlers go on in captures of their own."""

from __future__ import annotations

import sys
import traceback
from typing import Any

import pytest
import torch

import framelift
from framelift.report.text import graph_ops
from tests.helpers import check

graph_break = framelift.graph_break


class Mistake(ValueError):
    def __init__(self, size: int) -> None:
        super().__init__(size)
        self.size = size


class Manager:
    def __init__(self, log: list[Any], swallows: bool) -> None:
        self.log = log
        self.swallows = swallows

    def __enter__(self) -> Manager:
        return self

    def __exit__(self, kind: Any, error: Any, at: Any) -> bool:
        self.log.append((kind, str(error), at is not None))
        return self.swallows


def way(error: BaseException) -> list[tuple[str, int]]:
    """The lines an exception came by."""
    return [(at.name, at.lineno or 0) for at in traceback.extract_tb(error.__traceback__) if at.filename == __file__]


def x() -> torch.Tensor:
    return torch.ones(2, 2, requires_grad=True)


def ops_of(fn: Any, **options: Any) -> list[int]:
    """The number of operations of each graph, in the order of capture; results and log must be eager's."""
    checked = check(fn, inputs=lambda: (x(), []), expect_breaks=None, **options)
    return [len(graph_ops(graph)) for graph in checked.graphs]


# -- one handler -----------------------------------------------------------------------------------------------------


def test_a_break_in_a_handler():
    def fn(x, log):
        y = x + 1
        try:
            raise Mistake(3)
        except ValueError as error:
            y = y.sin()
            graph_break()
            y = y.cos() * error.size
            log.append((str(error), error.args, type(error), error.__context__))
        return y * 2

    assert ops_of(fn) == [1, 1, 3]


def test_an_exception_of_torch():
    def fn(x, log):
        try:
            y = x.view(7)
        except RuntimeError as error:
            y = x.cos()
            graph_break()
            log.append(str(error))
            y = y + 1
        return y

    assert ops_of(fn) == [1, 1]


def test_the_handler_returns():
    def fn(x, log):
        try:
            raise Mistake(1)
        except Mistake as error:
            y = x.cos()
            graph_break()
            return y + error.size

    assert ops_of(fn) == [1, 1]


def test_the_name_is_gone_behind_the_handler():
    def fn(x, log):
        try:
            raise Mistake(1)
        except Mistake as error:
            y = x.cos()
            graph_break()
        try:
            log.append(error)  # noqa: F821
        except UnboundLocalError:
            y = y + 2
        return y, sys.exc_info()

    assert ops_of(fn) == [1, 1]


def test_the_exception_is_kept():
    def fn(x, log):
        y = x.sin()
        try:
            raise Mistake(1)
        except Mistake as error:
            y = y.cos()
            log.append(error)
        y = y + 1
        graph_break()
        log.append(way(log[0]))
        return y * 2

    assert ops_of(fn) == [1, 2, 1]


def test_a_handler_that_is_not_meant():
    def fn(x, log):
        y = x.sin()
        try:
            y = y + 1
            graph_break()
            y = y * 2
            log.append(y)
            raise Mistake(1)
        except KeyError:
            y = 0
        return y

    ops_of(fn)


def test_loops_in_and_around_a_handler():
    def fn(x, log):
        for i in range(6):
            try:
                x = x + 1
                if i % 2:
                    raise Mistake(i)
            except Mistake as error:
                for k in range(2):
                    x = x * 2
                    graph_break()
                    x = x - error.size
                    if i == 3:
                        break
                if i == 1:
                    continue
            else:
                x = x.sin()
        return x

    ops_of(fn)


def test_a_loop_captures_its_handler_once():
    def fn(x, log):
        for _ in range(200):
            try:
                raise Mistake(1)
            except Mistake as error:
                x = x + 1
                graph_break()
                x = x - error.size
        return x

    assert len(ops_of(fn)) <= 4


# -- raising on ------------------------------------------------------------------------------------------------------


def test_raised_again():
    def fn(x, log):
        try:
            try:
                raise Mistake(3)
            except Mistake as error:
                y = x.sin()
                graph_break()
                log.append(error.size)
                y = y + 1
                raise
        except ValueError as error:
            y = y * 2
            log.append((error.args, error.__context__, way(error)))
            graph_break()
            y = y * 3
        return y

    ops_of(fn)


@pytest.mark.parametrize("breaks", [False, True])
def test_raised_again_for_the_caller(breaks):
    def fn(x, log):
        try:
            raise Mistake(3)
        except Mistake:
            log.append(x.sin())
            if breaks:
                graph_break()
            log.append(x.cos())
            raise

    ops_of(fn)


def test_another_exception_from_the_handler():
    def fn(x, log):
        try:
            try:
                raise Mistake(3)
            except Mistake as error:
                y = x.sin()
                graph_break()
                y = y.cos()
                raise KeyError("k") from error
        except KeyError as error:
            y = y * 2
            log.append((type(error.__cause__), type(error.__context__), error.__suppress_context__))
            graph_break()
            log.append((way(error), way(error.__context__)))
            y = y * 3
        return y

    assert ops_of(fn) == [1, 1, 1, 1]


def test_an_accident_in_the_handler():
    def fn(x, log):
        try:
            try:
                x.index_select(0, torch.tensor([77]))
            except IndexError:
                y = x.sin()
                graph_break()
                y = y.cos()
                log.append(1 / 0)
        except ZeroDivisionError as error:
            y = y * 2
            graph_break()
            log.append((type(error.__context__), way(error)))
            y = y * 3
        return y

    ops_of(fn)


def test_handlers_in_handlers():
    def fn(x, log):
        try:
            raise Mistake(1)
        except Mistake as first:
            try:
                raise KeyError(2)
            except KeyError as second:
                y = x.sin()
                graph_break()
                log.append(second.__context__ is first)
                try:
                    raise IndexError(4)
                except IndexError as third:
                    y = y + 1
                    graph_break()
                    log.append(third.__context__ is second)
                graph_break()
                log.append(repr(sys.exc_info()[1]))
                y = y + 2
            graph_break()
            log.append(repr(sys.exc_info()[1]))
            y = y + 3
        graph_break()
        log.append(repr(sys.exc_info()[1]))
        return y + 4

    ops_of(fn)


def test_groups():
    def fn(x, log):
        try:
            raise ExceptionGroup("two", [Mistake(1), KeyError(2)])
        except* Mistake as group:
            y = x.sin()
            graph_break()
            y = y + 1
            log.append(repr(group))
        except* KeyError as group:
            y = y * 2
            graph_break()
            y = y + 1
            log.append(repr(group))
        return y

    assert ops_of(fn) == [1, 1, 1, 1]


def test_a_group_that_is_not_handled_whole():
    def fn(x, log):
        try:
            raise ExceptionGroup("two", [Mistake(1), KeyError(2)])
        except* Mistake as group:
            log.append(x.sin())
            graph_break()
            log.append((x.cos(), repr(group)))

    ops_of(fn)


# -- finally and with ------------------------------------------------------------------------------------------------


def test_finally():
    def fn(x, log):
        try:
            log.append(x.sin())
            graph_break()
            raise Mistake(2)
        finally:
            y = x.cos()
            graph_break()
            log.append(y * 2)

    ops_of(fn)


def test_finally_returns():
    def fn(x, log):
        try:
            graph_break()
            raise Mistake(2)
        finally:
            y = x.cos()
            graph_break()
            return y * 2  # noqa: B012

    assert ops_of(fn) == [1, 1]


@pytest.mark.parametrize("swallows", [False, True])
def test_a_manager(swallows):
    def fn(x, log):
        with Manager(log, swallows):
            y = x.sin()
            graph_break()
            log.append(y + 1)
            raise Mistake(1)
        return y * 2

    ops_of(fn)


def test_modes():
    def fn(x, log):
        try:
            with torch.no_grad():
                y = x.sin()
                graph_break()
                log.append(torch.is_grad_enabled())
                raise Mistake(1)
        except Mistake:
            log.append(torch.is_grad_enabled())
            y = y + x
            graph_break()
            y = y * 2
        return y

    ops_of(fn)


# -- calls -----------------------------------------------------------------------------------------------------------


def broken(x, log):
    y = x.sin()
    graph_break()
    log.append(repr(sys.exc_info()[1]))
    return y.cos()


def test_a_call_that_breaks():
    def fn(x, log):
        try:
            raise Mistake(1)
        except Mistake:
            y = broken(x, log) + 1
            y = y.exp()
        return y, sys.exc_info()

    assert ops_of(fn) == [1, 3]


def handling(x, log):
    try:
        y = x.sin()
        raise KeyError(1)
    except KeyError as error:
        graph_break()
        log.append((repr(error), repr(error.__context__)))
        y = y.cos()
    log.append(repr(sys.exc_info()[1]))
    return y


def test_a_call_that_handles_and_breaks():
    def fn(x, log):
        try:
            raise Mistake(1)
        except Mistake:
            y = handling(x, log) + 1
            log.append(repr(sys.exc_info()[1]))
            y = y.exp()
        return y, sys.exc_info()

    assert ops_of(fn) == [1, 3]


def raising_again(x, log):
    y = x.sin()
    graph_break()
    log.append(y + 1)
    raise  # noqa: PLE0704


def test_a_call_that_raises_again():
    def fn(x, log):
        try:
            try:
                raise Mistake(1)
            except Mistake:
                raising_again(x, log)
        except Mistake as error:
            log.append(way(error))
        return x.tan()

    ops_of(fn)


# -- what is handled outside -----------------------------------------------------------------------------------------


def within_handler(fn: Any, *args: Any) -> Any:
    try:
        raise KeyError("outside")
    except KeyError:
        return fn(*args)


def asks(x):
    return x + 1, repr(sys.exc_info()[1]), repr(sys.exception())


def has_context(x):
    try:
        raise Mistake(1)
    except Mistake as error:
        return x + 1, repr(error.__context__)


def raises_what_is_handled(x):
    y = x + 1
    try:
        raise  # noqa: PLE0704
    except KeyError as error:
        return y, repr(error)
    except RuntimeError as error:
        return y, repr(error)


@pytest.mark.parametrize("fn", [asks, has_context, raises_what_is_handled])
def test_an_exception_that_the_caller_handles(fn):
    lifted = framelift.compile(fn, backend="eager")
    for _ in range(2):
        assert str(lifted(x())) == str(fn(x()))
        assert str(within_handler(lifted, x())) == str(within_handler(fn, x()))


# -- exceptions that are passed in -----------------------------------------------------------------------------------


def test_a_given_exception_is_looked_at():
    def fn(x, error):
        if isinstance(error, Mistake):
            x = x + error.size
        return x * 2, str(error), repr(error), error.args, error.__traceback__, error.__cause__

    lifted = framelift.compile(fn, backend="eager", fullgraph=True)
    for error in (Mistake(1), Mistake(5), ValueError("a", 2), KeyError("k"), StopIteration(3)):
        assert str(lifted(x(), error)) == str(fn(x(), error))


def test_a_given_exception_is_raised():
    def fn(x, error):
        y = x.sin()
        try:
            raise error
        except ValueError as caught:
            return y + 1, caught is error, way(caught)

    lifted = framelift.compile(fn, backend="eager")
    for _ in range(2):
        assert str(lifted(x(), Mistake(1))) == str(fn(x(), Mistake(1)))


@pytest.mark.parametrize("name", ["add_note", "with_traceback", "__setstate__"])
def test_a_given_exception_changes(name):
    arguments = {"add_note": "n", "with_traceback": None, "__setstate__": {"size": 4}}

    def fn(x, error):
        getattr(error, name)(arguments[name])
        error.more = 7
        error.args = (5,)
        return x + 1

    lifted = framelift.compile(fn, backend="eager")
    for call in (fn, lifted, lifted):
        error = Mistake(3)
        call(x(), error)
        assert error.more == 7
        assert error.args == (5,)
        assert getattr(error, "__notes__", ["n"]) == ["n"]
        assert error.size == (4 if name == "__setstate__" else 3)


# -- exceptions with operators of their own --------------------------------------------------------------------------


class Empty(Exception):
    def __len__(self) -> int:
        return 0


class False_(Exception):
    def __bool__(self) -> bool:
        return False


class Equal(Exception):
    def __eq__(self, other: object) -> bool:
        return True

    __hash__ = None  # type: ignore[assignment]


class Doubling(Exception):
    def __setattr__(self, name: str, value: Any) -> None:
        super().__setattr__(name, value * 2)


def test_their_own_truth():
    def fn(x):
        return x + 1, bool(Empty()), not False_(), 1 if False_() else 2

    check(fn, x(), expect_breaks=None)


def test_their_own_equality():
    def fn(x):
        return x + 1, Equal() == 3, Equal() != 3

    check(fn, x(), expect_breaks=None)


def test_their_own_assignment():
    def fn(x):
        error = Doubling()
        error.size = 4
        return x + 1, error.size

    check(fn, x(), expect_breaks=None)


def test_a_truth_that_a_class_gets_later():
    class Plain(Exception):
        pass

    def fn(x):
        return (x + 1 if Plain() else x - 1).sum().item()

    lifted = framelift.compile(fn, backend="eager")
    assert lifted(x()) == 8
    Plain.__bool__ = lambda self: False  # type: ignore[attr-defined]
    assert lifted(x()) == 0
