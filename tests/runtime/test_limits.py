"""Limits: how many entries a function may have, what is said when it has them, and what happens then."""

from __future__ import annotations

import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest
import torch

import framelift
from framelift import config
from framelift.errors import FrameliftWarning
from framelift.native import _core
from framelift.report.events import CaptureStarted, RanEagerly
from tests.helpers.record import Record


@contextmanager
def warned() -> Iterator[list[str]]:
    texts: list[str] = []
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        yield texts
    texts += [str(warning.message) for warning in caught if issubclass(warning.category, FrameliftWarning)]


def f(x: torch.Tensor, n: Any = 0) -> torch.Tensor:
    return x.sin()


def by_text(x: torch.Tensor, kind: str, text: str) -> torch.Tensor:
    return x * len(kind.strip()) * len(text.strip())


def call(lifted: Any, *sizes: int) -> None:
    for size in sizes:
        x = torch.ones(size)
        assert torch.equal(lifted(x), f(x))


class TestReached:
    def test_existing_entries_stay_in_use_and_the_rest_is_counted(self) -> None:
        lifted = framelift.compile(f, backend="eager", dynamic=False)
        record = Record()
        with config.patch(recompile_limit=3), record.listening(), warned() as texts:
            call(lifted, *range(1, 8))
            assert len(lifted.table.entries) == 3
            hits = lifted.table.hits
            call(lifted, 2)
            assert lifted.table.hits == hits + 1
        assert len(texts) == 1
        assert len(record.of(RanEagerly)) == 4
        assert all("limit" in event.reason for event in record.of(RanEagerly))
        counts = framelift.counters()
        assert sum(counts.eager.values()) == 4 and counts.eager_functions == {"f": 4}
        assert "4 × the recompile limit is reached: has 3 entries" in str(counts)

    def test_the_warning_says_everything(self) -> None:
        lifted = framelift.compile(f, backend="eager", dynamic=False)
        with config.patch(recompile_limit=3), warned() as texts:
            call(lifted, *range(1, 8))
        assert texts == [
            "FL0002: f has 3 entries, which is config.recompile_limit; calls that fit none of its entries run in "
            "Python (framelift.counters().eager counts them)\n"
            "  what fails of L['x'] (3 of 3 entries):\n"
            "    L['x'].size()[0] was 3, now 4\n"
            "    L['x'].size()[0] was 2, now 4\n"
            "    L['x'].size()[0] was 1, now 4\n"
            "  remedy: compile without dynamic=False, so that what differs becomes symbolic"
        ]

    def test_the_guard_that_fails_most_often_is_named(self) -> None:
        lifted = framelift.compile(by_text, backend="eager", dynamic=False)
        with config.patch(recompile_limit=6), warned() as texts:
            lifted(torch.ones(2), "other", "a")
            for number in range(2, 8):
                lifted(torch.ones(2), "kind", "a" * number)
        (text,) = texts
        assert "what fails of L['text'] (5 of 6 entries)" in text and "L['text'] was 'aaaaaa', now 'aaaaaaa'" in text
        assert "... and 1 more" in text and "remedy: let calls that differ" in text

    def test_the_warning_stands_at_the_users_line(self) -> None:
        lifted = framelift.compile(f, backend="eager")
        with config.patch(recompile_limit=0), pytest.warns(FrameliftWarning) as caught:
            lifted(torch.ones(2))
        assert caught[0].filename == __file__

    def test_each_function_has_its_own(self) -> None:
        lifted = [framelift.compile(g, backend="eager", dynamic=False) for g in (f, lambda x: x.sin())]
        with config.patch(recompile_limit=2), warned() as texts:
            for function in lifted:
                call(function, 1, 2)
        assert not texts

    def test_reset_forgets_it(self) -> None:
        lifted = framelift.compile(f, backend="eager", dynamic=False)
        with config.patch(recompile_limit=1), warned():
            call(lifted, 1, 2)
        framelift.reset()
        record = Record()
        with record.listening():
            call(lifted, 2)
        assert record.captures == 1


class TestModules:
    """They share the code of `__call__`, but not the limit."""

    def test_modules_do_not_use_up_each_others(self) -> None:
        models = [torch.nn.Linear(n, n) for n in range(1, 6)]
        record = Record()
        with config.patch(recompile_limit=2), warned() as texts, record.listening():
            for model in models:
                lifted = framelift.compile(model, backend="eager", dynamic=False)
                for _ in range(2):
                    lifted(torch.ones(2, model.in_features))
        assert not texts and record.captures == 5

    def test_the_class_is_named(self) -> None:
        lifted = framelift.compile(torch.nn.Linear(2, 2), backend="eager", dynamic=False)
        with config.patch(recompile_limit=2), warned() as texts:
            for n in range(1, 6):
                lifted(torch.ones(n, 2))
        (text,) = texts
        assert text.startswith("FL0002: Linear.__call__ has 2 entries")

    @pytest.mark.lenient
    def test_a_failure_is_of_one_module(self) -> None:
        def backend(graph_module: Any, example_inputs: Any) -> Any:
            return graph_module.forward

        class Bad(torch.nn.Module):
            def forward(self, x: torch.Tensor) -> torch.Tensor:
                return x + 1

        bad, good = framelift.compile(Bad(), backend=backend), framelift.compile(torch.nn.ReLU(), backend=backend)
        with pytest.MonkeyPatch.context() as patch, warned():
            patch.setattr("framelift.runtime.lifting.capture", _raise)
            bad(torch.ones(2))
        record = Record()
        with record.listening():
            bad(torch.ones(2))
            good(torch.ones(2))
        assert record.captures == 1 and len(record.of(RanEagerly)) == 1


def _raise(*_: Any) -> Any:
    raise KeyError("internal")


class TestTotal:
    def test_entries_that_are_gone_count(self) -> None:
        lifted = framelift.compile(f, backend="eager")
        with config.patch(total_recompile_limit=4), warned() as texts:
            for _ in range(10):
                call(lifted, 2)
                lifted.table.clear()
        (text,) = texts
        assert "was captured 4 times, which is config.total_recompile_limit" in text


class TestEviction:
    def test_the_least_recently_used_entry_goes(self) -> None:
        lifted = framelift.compile(f, backend="eager", dynamic=False)
        record = Record()
        with config.patch(recompile_limit=2, evict_entries=True), record.listening(), warned() as texts:
            call(lifted, 1, 2, 1, 3)  # 2 goes
            assert record.captures == 3
            call(lifted, 1, 3)
            assert record.captures == 3
            call(lifted, 2)  # 1 goes
            assert record.captures == 4
            call(lifted, 3)
            assert record.captures == 4
            assert len(lifted.table.entries) == 2
        assert not texts and not record.of(RanEagerly)

    def test_the_total_limit_holds(self) -> None:
        lifted = framelift.compile(f, backend="eager", dynamic=False)
        with config.patch(recompile_limit=2, evict_entries=True, total_recompile_limit=5), warned() as texts:
            call(lifted, *range(1, 12))
        assert len(texts) == 1 and "total_recompile_limit" in texts[0]

    def test_a_lower_limit_than_before(self) -> None:
        lifted = framelift.compile(f, backend="eager", dynamic=False)
        call(lifted, 1, 2, 3, 4)
        with config.patch(recompile_limit=2, evict_entries=True):
            call(lifted, 5)
        assert len(lifted.table.entries) == 2


class TestOption:
    def test_a_limit_of_one_function(self) -> None:
        lifted = framelift.compile(f, backend="eager", dynamic=False, recompile_limit=2)
        with warned() as texts:
            call(lifted, 1, 2, 3)
        assert len(texts) == 1 and "has 2 entries, which is its recompile_limit" in texts[0]

    def test_of_torch_compile(self) -> None:
        with framelift.patch_torch(), warned() as texts:
            lifted = torch.compile(f, backend="eager", dynamic=False, recompile_limit=1)
            call(lifted, 1, 2)
        assert len(texts) == 1

    @pytest.mark.parametrize("wrong", [-1, "8", True, 1.0])
    def test_nonsense(self, wrong: Any) -> None:
        with pytest.raises(TypeError, match="recompile_limit"):
            framelift.compile(f, recompile_limit=wrong)


class TestCallees:
    """What a function that has reached its limit calls is not captured in its place."""

    def test_of_a_frame(self) -> None:
        def inner(x: torch.Tensor) -> torch.Tensor:
            return x * 2

        def outer(x: torch.Tensor) -> torch.Tensor:
            return inner(x) + 1

        record = Record()
        with framelift.optimize("eager", dynamic=False), config.patch(recompile_limit=1), warned():
            outer(torch.ones(1))
            with record.listening():
                outer(torch.ones(2))
                assert torch.equal(outer(torch.ones(1)), torch.full((1,), 3.0))
        assert not record.of(CaptureStarted)
        assert [event.function for event in record.of(RanEagerly)] == [outer.__qualname__]
        assert not _core.tables_of(inner.__code__) or not _core.tables_of(inner.__code__)[0].entries

    def test_of_what_follows_a_break(self) -> None:
        def inner(x: torch.Tensor) -> torch.Tensor:
            return x * 2

        def outer(x: torch.Tensor, n: int) -> torch.Tensor:
            framelift.graph_break()
            return inner(x) * n

        lifted = framelift.compile(outer, backend="eager", dynamic=False)
        with config.patch(recompile_limit=1), warned():
            lifted(torch.ones(2), 1)
            record = Record()
            with record.listening():
                for n in (2, 3):
                    assert torch.equal(lifted(torch.ones(2), n), torch.full((2,), 2.0 * n))
        assert not record.of(CaptureStarted)
        assert len(record.of(RanEagerly)) == 2

    def test_of_a_lifted_function_in_a_block(self) -> None:
        def inner(x: torch.Tensor) -> torch.Tensor:
            return x * 2

        lifted = framelift.compile(lambda x: inner(x) + 1, backend="eager", dynamic=False)
        with framelift.optimize("eager", dynamic=False), config.patch(recompile_limit=1), warned():
            lifted(torch.ones(1))
            record = Record()
            with record.listening():
                lifted(torch.ones(2))
        assert not record.of(CaptureStarted)
