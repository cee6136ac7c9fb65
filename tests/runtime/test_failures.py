"""What goes wrong inside framelift, a backend, or the process never becomes a wrong result."""

from __future__ import annotations

import contextlib
import dataclasses
import functools
import gc
import re
import warnings
import weakref
from collections.abc import Iterator
from types import FunctionType
from typing import Any

import pytest
import torch

import framelift
from framelift import config
from framelift.capture.interpreter.program import HANDLERS, Programs
from framelift.errors import BackendError, FrameliftWarning, FullGraphError, InternalError
from framelift.graph.propagation.memo import Template
from framelift.native import _core
from framelift.report.events import InternalFailure, RanEagerly
from framelift.runtime import lifting
from tests.helpers import check
from tests.helpers.record import Record


def f(x: torch.Tensor) -> torch.Tensor:
    return x.sin() + 1


X = torch.linspace(0, 1, 3)


@pytest.fixture
def faulty(monkeypatch: pytest.MonkeyPatch) -> Any:
    """Makes captures fail with an exception."""

    def fail(error: BaseException) -> None:
        def broken(self: Any, code: Any) -> Any:
            raise error

        monkeypatch.setattr(Programs, "of", broken)

    return fail


@contextlib.contextmanager
def warned() -> Iterator[list[str]]:
    texts: list[str] = []
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        yield texts
    texts += [str(entry.message) for entry in caught if issubclass(entry.category, FrameliftWarning)]


def test_config_check_compares_what_the_memo_says(monkeypatch: pytest.MonkeyPatch) -> None:
    """It is read at every capture: who sets it after the import has it, too."""
    framelift.compile(f, backend="eager")(X)
    monkeypatch.setattr(Template, "difference", lambda self, other: "a planted difference")
    for is_checked in (False, True, False):
        known = contextlib.nullcontext() if not is_checked else pytest.raises(InternalError, match="planted")
        anew = FunctionType(f.__code__.replace(), globals())
        with config.patch(check=is_checked), known:
            framelift.compile(anew, backend="eager")(X)


@pytest.mark.lenient
def test_an_internal_failure_runs_the_function_in_python(faulty: Any) -> None:
    faulty(KeyError("internal"))
    lifted = framelift.compile(f, backend="eager")
    record = Record()
    with record.listening(), warned() as texts:
        for _ in range(3):
            assert torch.equal(lifted(X), f(X))
    assert len(texts) == 1 and texts[0].startswith("FL0001: ") and "KeyError" in texts[0] and " f " in texts[0]
    assert [event.id for event in record.of(InternalFailure)] == ["FL0001"]
    assert len(record.of(RanEagerly)) == 2  # not captured again, and counted


@pytest.mark.lenient
def test_the_warning_points_at_the_users_line(faulty: Any) -> None:
    faulty(KeyError("internal"))
    lifted = framelift.compile(f, backend="eager")
    with pytest.warns(FrameliftWarning) as caught:
        lifted(X)
    assert caught[0].filename == __file__


@pytest.mark.lenient
def test_other_functions_are_captured_after_a_failure(monkeypatch: pytest.MonkeyPatch) -> None:
    def g(x: torch.Tensor) -> torch.Tensor:
        return x * 2

    original = Programs.of
    with monkeypatch.context() as patch, warned():
        patch.setattr(Programs, "of", lambda self, code: 1 / 0)
        framelift.compile(f, backend="eager")(X)
    assert Programs.of is original
    check(g, X)
    framelift.reset()  # and the same function after a reset
    lifted = framelift.compile(f, backend="eager")
    lifted(X)
    assert len(lifted.table.entries) == 1


@pytest.mark.lenient
def test_entries_stay_in_use_after_a_failure(monkeypatch: pytest.MonkeyPatch) -> None:
    lifted = framelift.compile(f, backend="eager")
    lifted(X)
    with monkeypatch.context() as patch, warned() as texts:
        patch.setattr(Programs, "of", lambda self, code: 1 / 0)
        lifted(torch.ones(5))
    assert len(texts) == 1
    hits = lifted.table.hits
    lifted(X)
    assert lifted.table.hits == hits + 1


@pytest.mark.lenient
def test_a_failing_frame_below_a_break(monkeypatch: pytest.MonkeyPatch) -> None:
    @functools.partial(framelift.disable, recursive=False)
    def in_python(x: torch.Tensor) -> torch.Tensor:
        return f(x)

    def g(x: torch.Tensor) -> torch.Tensor:
        y = x + 1
        return in_python(y)

    lifted = framelift.compile(g, backend="eager")
    real = Programs.of

    def only_g(self: Any, code: Any) -> Any:
        return real(self, code) if code is g.__code__ else 1 / 0

    monkeypatch.setattr(Programs, "of", only_g)
    with warned() as texts:
        for _ in range(3):
            assert torch.equal(lifted(X), g(X))
    assert len(texts) == 1


@pytest.mark.lenient
def test_guards_that_do_not_fit_their_own_call_are_a_failure(monkeypatch: pytest.MonkeyPatch) -> None:
    real = lifting.capture

    def wrong(request: Any, programs: Any, number: int) -> Any:
        captured = real(request, programs, number)
        never = _core.GuardTree([(-1, _core.ACCESS_ARG, 0, [(_core.CHECK_IS, None)], -1)], [], 1, 0)
        return dataclasses.replace(captured, tree=never)

    monkeypatch.setattr(lifting, "capture", wrong)
    lifted = framelift.compile(f, backend="eager")
    with warned() as texts:
        assert torch.equal(lifted(X), f(X))
    assert "guards do not hold" in texts[0]


def test_strict_raises(faulty: Any) -> None:
    error = KeyError("internal")
    faulty(error)
    lifted = framelift.compile(f, backend="eager")
    for _ in range(2):
        with pytest.raises(InternalError, match=r"\[FL0001\].*\bf\b.*KeyError") as info:
            lifted(X)
        assert info.value.__cause__ is error


@pytest.mark.parametrize("lenient", [False, True])
@pytest.mark.parametrize("error", [KeyboardInterrupt, SystemExit, MemoryError])
def test_what_ends_the_program_passes(error: type[BaseException], lenient: bool, monkeypatch: Any) -> None:
    lifted = framelift.compile(f, backend="eager")
    grad = torch.is_grad_enabled()
    with monkeypatch.context() as patch, config.patch(strict=not lenient):
        patch.setitem(HANDLERS, "BINARY_OP", _raises(error))
        patch.setattr(Programs, "of", lambda self, code: _raise(error))
        with pytest.raises(error):
            lifted(X)
    assert lifted.table.entries == []
    assert not _core.is_suspended()
    assert torch.is_grad_enabled() is grad
    assert torch.equal(lifted(X), f(X))  # usable, and captured now
    assert len(lifted.table.entries) == 1


def _raise(error: type[BaseException]) -> Any:
    raise error("stop")


def _raises(error: type[BaseException]) -> Any:
    return lambda *args: _raise(error)


@pytest.mark.parametrize("error", [KeyboardInterrupt, RuntimeError])
def test_grad_mode_is_restored_when_a_backend_raises(error: type[BaseException]) -> None:
    def backend(graph_module: Any, example_inputs: Any) -> Any:
        torch.set_grad_enabled(False)
        raise error("no")

    def g(x: torch.Tensor) -> torch.Tensor:
        with torch.no_grad():
            return x + 1

    with pytest.raises((BackendError, KeyboardInterrupt)):
        framelift.compile(g, backend=backend)(X)
    assert torch.is_grad_enabled()


# -- backends --------------------------------------------------------------------------------------------------------


def test_a_backend_that_raises() -> None:
    calls = []

    def my_backend(graph_module: Any, example_inputs: Any) -> Any:
        calls.append(1)
        if len(calls) < 3:
            raise ValueError("cannot do that")
        return graph_module.forward

    lifted = framelift.compile(f, backend=my_backend)
    line = f.__code__.co_firstlineno + 1
    for _ in range(2):
        with pytest.raises(BackendError, match="my_backend.*ValueError: cannot do that") as info:
            lifted(X)
        assert info.value.location == f"{__file__}:{line}"
        assert isinstance(info.value.__cause__, ValueError)
        assert lifted.table.entries == []
    assert torch.equal(lifted(X), f(X))  # tried anew, and this time it works


@pytest.mark.parametrize("result", [None, 3, "forward"])
def test_a_backend_that_returns_no_callable(result: Any) -> None:
    def my_backend(graph_module: Any, example_inputs: Any) -> Any:
        return result

    with pytest.raises(BackendError, match=f"my_backend.*{re.escape(repr(result))}.*test_failures.py"):
        framelift.compile(f, backend=my_backend)(X)
    check(f, X)


def test_a_backend_that_raises_below_a_break() -> None:
    def my_backend(graph_module: Any, example_inputs: Any) -> Any:
        raise ValueError("cannot do that")

    def g(x: torch.Tensor) -> torch.Tensor:
        framelift.graph_break()
        return f(x)

    with pytest.raises(BackendError, match="my_backend"):
        framelift.compile(g, backend=my_backend)(X)
    assert not _core.hook_state()["installed"]
    check(f, X)


def test_full_graph_errors_say_everything() -> None:
    def g(x: torch.Tensor) -> torch.Tensor:
        y = x + 1
        framelift.graph_break("because")
        return y

    with pytest.raises(FullGraphError) as info:
        framelift.compile(g, backend="eager", fullgraph=True)(X)
    text = str(info.value)
    line = g.__code__.co_firstlineno + 2
    for part in ("FL0103", "because", f"{__file__}:{line}", 'framelift.graph_break("because")', "Remove the call"):
        assert part in text
    check(f, X)


def test_an_error_keeps_nothing_that_was_being_captured() -> None:
    x = torch.ones(2)
    seen = weakref.ref(x)
    with pytest.raises(FullGraphError) as info:
        framelift.compile(lambda x: (x + 1, framelift.graph_break()), backend="eager", fullgraph=True)(x)
    error = info.value
    del x, info
    gc.collect()
    assert error.__context__ is None
    assert seen() is None
