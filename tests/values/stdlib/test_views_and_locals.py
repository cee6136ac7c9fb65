"""Objects of the standard library that stand for others: read-only views, thread locals, struct sequences, loggers."""

from __future__ import annotations

import enum
import inspect
import logging
import sys
import threading
import types
from contextvars import ContextVar, copy_context
from typing import Any

import pytest
import torch

import framelift
from tests.helpers import check

X = torch.arange(3.0)


class Color(enum.Enum):
    RED = 1
    GREEN = 2


# -- read-only views --------------------------------------------------------------------------------------------------


def test_views_are_read() -> None:
    def function(x: Any, view: Any) -> Any:
        made = types.MappingProxyType({"a": 1, "b": x})
        shown = [key for key in view], list(view.values()), view.get("z", 5), "k" in view, len(view), bool(view)
        return x + made["a"] + view["k"], shown, made, view == {"k": 2}, view | {"n": 1}, repr(view), view.copy()

    view = types.MappingProxyType({"k": 2})
    check(function, inputs=lambda: (X.clone(), view), deterministic=False)


def test_views_refuse_changes() -> None:
    def function(x: Any) -> Any:
        view = types.MappingProxyType({"a": 1})
        try:
            view["b"] = 2  # type: ignore[index]
        except TypeError as error:
            return x + 1, str(error)

    check(function, X, fullgraph=True)


def test_a_view_shows_changes_of_its_mapping() -> None:
    def function(x: Any, view: Any) -> Any:
        return x + view["k"]

    mapping = {"k": 1}
    view = types.MappingProxyType(mapping)
    lifted = framelift.compile(function, backend="eager", fullgraph=True)
    assert lifted(torch.zeros(1), view).item() == 1
    mapping["k"] = 5
    assert lifted(torch.zeros(1), view).item() == 5
    assert lifted(torch.zeros(1), types.MappingProxyType({"k": 7})).item() == 7


def test_members_of_enumerations_and_parameters_of_signatures() -> None:
    def sample(a: int, b: int = 3) -> None: ...

    def function(x: Any) -> Any:
        names = list(inspect.signature(sample).parameters)
        return x + len(Color.__members__), list(Color.__members__), names

    check(function, X, fullgraph=True)


# -- thread locals ----------------------------------------------------------------------------------------------------

LOCAL = threading.local()


def test_thread_locals() -> None:
    def function(x: Any) -> Any:
        LOCAL.b = LOCAL.a + 1
        LOCAL.c = 1
        del LOCAL.c
        return x + LOCAL.a + LOCAL.b, hasattr(LOCAL, "c"), getattr(LOCAL, "d", 4)

    LOCAL.a = 1
    lifted = framelift.compile(function, backend="eager", fullgraph=True)
    for value in (1, 5):
        LOCAL.a = value
        assert lifted(torch.zeros(1))[0].item() == 2 * value + 1
        assert LOCAL.b == value + 1
        assert not hasattr(LOCAL, "c")


def test_each_thread_has_its_own() -> None:
    def function(x: Any) -> Any:
        return x + getattr(LOCAL, "only_here", 0)

    LOCAL.only_here = 3
    lifted = framelift.compile(function, backend="eager", fullgraph=True)
    found = [lifted(torch.zeros(1)).item()]
    thread = threading.Thread(target=lambda: found.append(lifted(torch.zeros(1)).item()))
    thread.start()
    thread.join()
    assert found == [3, 0]


def test_a_thread_local_that_the_program_makes() -> None:
    def function(x: Any) -> Any:
        own = threading.local()
        own.a, own.itself, own.gone = x * 2, own, 1
        del own.gone
        return own.a + 1, own, hasattr(own, "gone"), isinstance(own, threading.local)

    result, own, *rest = framelift.compile(function, backend="eager", fullgraph=True)(X)
    assert torch.equal(result, X * 2 + 1)
    assert torch.equal(own.a, X * 2)
    assert own.itself is own
    assert rest == [False, True]
    assert sorted(vars(own)) == ["a", "itself"]


def test_the_namespace_of_a_thread_local_stays() -> None:
    def function(x: Any) -> Any:
        own, said = threading.local(), []
        own.a = x * 2
        try:
            own.__dict__ = {}
        except AttributeError as error:
            said.append(str(error))
        try:
            del own.__dict__
        except AttributeError as error:
            said.append(str(error))
        return own.a, said

    expected, found = function(X), framelift.compile(function, backend="eager")(X)
    assert torch.equal(found[0], expected[0]) and found[1] == expected[1] and len(found[1]) == 2


def test_subclasses_of_thread_locals_break() -> None:
    class Own(threading.local):
        def __init__(self) -> None:
            self.a = 2

    own = Own()

    def function(x: Any) -> Any:
        return x + own.a

    assert torch.equal(framelift.compile(function, backend="eager")(X), X + 2)


# -- struct sequences -------------------------------------------------------------------------------------------------


def test_the_version_of_python() -> None:
    def function(x: Any) -> Any:
        info = sys.version_info
        recent = info >= (3, 11) and sys.version_info[0] == 3
        return x + info.minor if recent else x, info[:2], info.releaselevel, tuple(info), info == (3, 8), len(info)

    check(function, X, fullgraph=True)


def test_flags() -> None:
    def function(x: Any) -> Any:
        return x + sys.flags.optimize, sys.float_info.max, sys.int_info.bits_per_digit

    check(function, X, expect_breaks=None)


# -- loggers ----------------------------------------------------------------------------------------------------------


def test_a_logger_that_exists_is_found() -> None:
    logger = logging.getLogger("tests.framelift.exists")
    logger.setLevel(logging.ERROR)

    def function(x: Any) -> Any:
        found = logging.getLogger("tests.framelift.exists")
        found.info("nobody hears this")
        return x + found.level, logging.getLogger() is logging.root

    lifted = framelift.compile(function, backend="eager", fullgraph=True)
    assert lifted(torch.zeros(1))[0].item() == logging.ERROR
    logger.setLevel(logging.CRITICAL)
    assert lifted(torch.zeros(1))[0].item() == logging.CRITICAL


def test_a_logger_that_is_made() -> None:
    def function(x: Any) -> Any:
        return x + 1, logging.getLogger("tests.framelift.made").name

    lifted = framelift.compile(function, backend="eager")
    assert lifted(X)[1] == "tests.framelift.made"
    assert "tests.framelift.made" in logging.Logger.manager.loggerDict


# -- context variables ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("value", [1, None, ..., NotImplemented])
def test_context_variables_with_a_default(value: Any) -> None:
    plain: ContextVar[Any] = ContextVar("plain")
    ready: ContextVar[Any] = ContextVar("ready", default=7)

    def function(x: Any) -> Any:
        try:
            found = plain.get()
        except LookupError:
            found = "unset"
        return x + 1, plain.get(5), ready.get(6), ready.get(), found

    lifted = framelift.compile(function, backend="eager", fullgraph=True)

    def both() -> None:
        assert lifted(X)[1:] == function(X)[1:]

    def with_values() -> None:
        plain.set(value)
        both()
        ready.set(value)
        both()

    both()
    copy_context().run(with_values)
    both()
