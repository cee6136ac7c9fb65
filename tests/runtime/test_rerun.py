"""A graph that raises is undone by running Python: the original raises, or handles, what it really raises."""

from __future__ import annotations

import traceback
from collections.abc import Callable
from typing import Any

import pytest
import torch

import framelift
from framelift.native import _core
from tests.helpers import check

GOOD, BAD = torch.eye(2), -torch.eye(2)
backends = pytest.mark.parametrize("backend", ["eager", "aot_eager"])


def raised_by(function: Callable[..., Any], *args: Any) -> BaseException:
    with pytest.raises(Exception) as info:  # noqa: PT011
        function(*args)
    return info.value


def frames(error: BaseException) -> list[tuple[str, int]]:
    return [(frame.name, frame.lineno or 0) for frame in traceback.extract_tb(error.__traceback__)][1:]


def factor(x: torch.Tensor) -> torch.Tensor:
    return torch.linalg.cholesky(x)


@backends
def test_result_exception_and_line(backend: str) -> None:
    def f(x: torch.Tensor) -> torch.Tensor:
        y = x * 2
        return factor(y) + 1

    check(f, GOOD, changed=[(BAD,), (GOOD,)], backend=backend)


@backends
def test_the_traceback_is_eagers(backend: str) -> None:
    def f(x: torch.Tensor) -> torch.Tensor:
        y = x * 2
        return factor(y) + 1

    lifted = framelift.compile(f, backend=backend)
    lifted(GOOD)
    expected, actual = raised_by(f, BAD), raised_by(lifted, BAD)
    # The first frame is the caller's here; what follows must be the user's functions, each once.
    assert frames(actual)[1:] == frames(expected)[1:]
    assert type(actual) is type(expected)
    assert str(actual) == str(expected)
    assert actual.__context__ is None and actual.__cause__ is None


def test_the_traceback_of_a_hooked_frame_is_eagers() -> None:
    def f(x: torch.Tensor) -> torch.Tensor:
        framelift.graph_break()
        return factor(x)

    lifted = framelift.compile(f, backend="eager")
    lifted(GOOD)
    assert any(table.entries for table in _core.tables_of(factor.__code__))
    names = [name for name, _ in frames(raised_by(lifted, BAD))]
    assert names.count("factor") == 1


def test_a_handler_of_the_user_sees_it() -> None:
    def f(x: torch.Tensor) -> Any:
        try:
            y = torch.linalg.cholesky(x * 1)
        except torch.linalg.LinAlgError as error:
            return x + 2, str(error)
        return y, None

    check(f, GOOD, changed=[(BAD,), (GOOD,)])


def test_effects_are_applied_once() -> None:
    def f(x: torch.Tensor, seen: list[int], table: dict[str, int]) -> torch.Tensor:
        seen.append(1)
        table["n"] = table.get("n", 0) + 1
        return torch.linalg.cholesky(x * 1)

    check(f, GOOD, [], {}, changed=[(BAD, [], {}), (BAD, [1], {"n": 3})])


def test_an_effect_before_a_handled_failure() -> None:
    def f(x: torch.Tensor, seen: list[int]) -> torch.Tensor:
        try:
            seen.append(1)
            y = torch.linalg.cholesky(x * 1)
            seen.append(2)
        except RuntimeError:
            seen.append(3)
            y = x
        return y

    check(f, GOOD, [], changed=[(BAD, [])])


@backends
def test_random_numbers_are_not_drawn_twice(backend: str) -> None:
    def f(x: torch.Tensor) -> Any:
        noise = torch.rand(2, 2)
        try:
            return torch.linalg.cholesky(x * 1), noise, torch.rand(2)
        except RuntimeError:
            return x, noise, torch.rand(2)

    check(f, GOOD, changed=[(BAD,)], backend=backend)


def test_modes_are_put_back() -> None:
    def f(x: torch.Tensor) -> torch.Tensor:
        with torch.no_grad():
            return torch.linalg.cholesky(x * 1)

    lifted = framelift.compile(f, backend="eager")
    lifted(GOOD)
    raised_by(lifted, BAD)
    assert torch.is_grad_enabled()
    with torch.no_grad():
        lifted(GOOD)
        raised_by(lifted, BAD)
        assert not torch.is_grad_enabled()


def test_the_original_runs_in_the_modes_of_entry() -> None:
    def f(x: torch.Tensor, w: torch.Tensor) -> Any:
        try:
            with torch.no_grad():
                y = torch.linalg.cholesky(x * 1)
        except RuntimeError:
            y = x
        return (y * w).sum()

    check(f, GOOD, torch.ones(2, 2, requires_grad=True), changed=[(BAD, torch.ones(2, 2, requires_grad=True))])


@backends
def test_a_write_after_what_may_raise(backend: str) -> None:
    def f(x: torch.Tensor) -> torch.Tensor:
        try:
            y = torch.linalg.cholesky(x * 1)
        except RuntimeError:
            y = x * 3
        x.add_(1)
        return y

    check(f, GOOD.clone(), changed=[(BAD.clone(),)], backend=backend)


def test_a_write_before_what_may_raise() -> None:
    def f(x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
        x.add_(1)
        return torch.linalg.cholesky(y * 1)

    check(f, torch.zeros(2), GOOD, changed=[(torch.zeros(2), BAD)], expect_breaks=None)


def test_a_graph_that_wrote_before_it_raised_is_not_run_again() -> None:
    """Memory that runs out, say: the write must not be made twice, so the exception goes on as it is."""

    def backend(graph_module: Any, example_inputs: Any) -> Any:
        def run(*args: Any) -> Any:
            graph_module(*args)
            raise RuntimeError("out of memory")

        return run

    def f(x: torch.Tensor) -> torch.Tensor:
        x.add_(1)
        return x * 2

    x = torch.zeros(2)
    with pytest.raises(RuntimeError, match="out of memory"):
        framelift.compile(f, backend=backend)(x)
    assert torch.equal(x, torch.ones(2))


@pytest.mark.parametrize("error", [KeyboardInterrupt, SystemExit])
def test_exceptions_that_end_the_program_pass(error: type[BaseException]) -> None:
    def backend(graph_module: Any, example_inputs: Any) -> Any:
        def run(*args: Any) -> Any:
            raise error("stop")

        return run

    ran = []

    def f(x: torch.Tensor) -> torch.Tensor:
        ran.append(1)
        return x + 1

    with pytest.raises(error):
        framelift.compile(f, backend=backend)(torch.ones(2))
    assert ran == []


def test_the_entry_stays() -> None:
    lifted = framelift.compile(lambda x: torch.linalg.cholesky(x * 1), backend="eager")
    lifted(GOOD)
    for _ in range(3):
        raised_by(lifted, BAD)
    (entry,) = lifted.table.entries
    assert entry.hits == 4
    assert torch.equal(lifted(GOOD), GOOD)


def test_arguments_of_every_kind_reach_the_original() -> None:
    def f(a: Any, /, b: Any, *rest: Any, c: Any, d: Any = 5, **more: Any) -> Any:
        try:
            return torch.linalg.cholesky(a * 1)
        except RuntimeError:
            return a, b, rest, c, d, more

    lifted = framelift.compile(f, backend="eager")
    lifted(GOOD, 1, 2, 3, c=4, e=6)
    assert lifted(BAD, 1, 2, 3, c=4, e=6)[1:] == (1, (2, 3), 4, 5, {"e": 6})
    assert len(lifted.table.entries) == 1


def test_after_a_break_too() -> None:
    def f(x: torch.Tensor, seen: list[int]) -> torch.Tensor:
        y = torch.linalg.cholesky(x * 1)
        seen.append(1)
        framelift.graph_break()
        seen.append(2)
        return y

    check(f, GOOD, [], changed=[(BAD, [])], expect_breaks=None)
