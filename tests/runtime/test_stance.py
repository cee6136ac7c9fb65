"""Stances: what lifted calls do where they have no entry, and whether they use entries at all."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable, Iterator
from typing import Any

import pytest
import torch

import framelift
from framelift.errors import RecompileError
from framelift.report.events import RanEagerly
from framelift.runtime import stance
from tests.helpers import check, transcript
from tests.helpers.record import Record

X = torch.linspace(-1, 1, 4)


def told(x: torch.Tensor) -> Any:
    """Whether it was lifted."""
    return x + 1, framelift.is_compiling()


@pytest.fixture(autouse=True)
def default_stance() -> Iterator[None]:
    yield
    framelift.set_stance("default")
    torch.compiler.set_stance("default")


class TestForceEager:
    def test_a_call_holds_until_the_next(self) -> None:
        lifted = framelift.compile(told, backend="eager")
        assert lifted(X)[1]
        framelift.set_stance("force_eager")
        assert not lifted(X)[1]
        framelift.set_stance("default")
        assert lifted(X)[1]

    def test_a_block(self) -> None:
        lifted = framelift.compile(told, backend="eager")
        with framelift.set_stance("force_eager"):
            assert not lifted(X)[1]
            with framelift.set_stance("default"):
                assert lifted(X)[1]
            assert not lifted(X)[1]
        assert lifted(X)[1]

    def test_a_decorator(self) -> None:
        lifted = framelift.compile(told, backend="eager")

        @framelift.set_stance("force_eager")
        def run(x: torch.Tensor) -> Any:
            """Docs."""
            return lifted(x)

        assert lifted(X)[1] and not run(X)[1] and lifted(X)[1]
        assert run.__name__ == "run" and run.__doc__ == "Docs."

    def test_a_block_that_raises(self) -> None:
        with pytest.raises(KeyError), framelift.set_stance("force_eager"):
            raise KeyError
        assert stance.current() == "default"

    def test_a_block_is_for_its_thread(self) -> None:
        lifted = framelift.compile(told, backend="eager")
        seen = []
        with framelift.set_stance("force_eager"):
            thread = threading.Thread(target=lambda: seen.append(lifted(X)[1]))
            thread.start()
            thread.join()
        assert seen == [True]

    def test_a_call_is_for_all_threads(self) -> None:
        lifted = framelift.compile(told, backend="eager")
        seen = []
        framelift.set_stance("force_eager")
        thread = threading.Thread(target=lambda: seen.append(lifted(X)[1]))
        thread.start()
        thread.join()
        assert seen == [False]

    def test_tasks(self) -> None:
        lifted = framelift.compile(told, backend="eager")

        async def forced() -> Any:
            with framelift.set_stance("force_eager"):
                await asyncio.sleep(0)
                return lifted(X)[1]

        async def plain() -> Any:
            await asyncio.sleep(0)
            return lifted(X)[1]

        async def both() -> Any:
            return await asyncio.gather(forced(), plain(), forced(), plain())

        assert asyncio.run(both()) == [False, True, False, True]

    def test_modules(self) -> None:
        class Model(torch.nn.Module):
            def forward(self, x: torch.Tensor) -> Any:
                return told(x)

        lifted = framelift.compile(Model(), backend="eager")
        assert lifted(X)[1]
        with framelift.set_stance("force_eager"):
            assert not lifted(X)[1]

    def test_frames_below_a_block(self) -> None:
        with framelift.optimize("eager"):
            assert told(X)[1]
            with framelift.set_stance("force_eager"):
                assert not told(X)[1]
            assert told(X)[1]

    def test_set_in_lifted_code(self) -> None:
        def f(x: torch.Tensor) -> Any:
            y = x + 1
            before = framelift.is_compiling()
            with framelift.set_stance("force_eager"):
                y, within = y * 2, framelift.is_compiling()
            return y - 1, before, within, framelift.is_compiling()

        lifted = framelift.compile(f, backend="eager")
        for _ in range(3):
            result, *compiling = lifted(X)
            assert torch.equal(result, (X + 1) * 2 - 1)
            assert compiling == [True, False, False]  # Python has the frame, to its end

    def test_set_and_left_in_lifted_code(self) -> None:
        def f(x: torch.Tensor) -> Any:
            framelift.set_stance("force_eager")
            return x * 2, framelift.is_compiling()

        lifted = framelift.compile(f, backend="eager")
        assert lifted(X)[1] is False
        assert stance.current() == "force_eager"


class TestOnRecompile:
    def test_eager(self) -> None:
        lifted = framelift.compile(lambda x: x.sin(), backend="eager", dynamic=False)
        lifted(torch.ones(3))
        record = Record()
        with record.listening(), framelift.set_stance("eager_on_recompile"):
            assert torch.equal(lifted(torch.ones(3)), torch.ones(3).sin())
            assert torch.equal(lifted(torch.ones(4)), torch.ones(4).sin())
        assert not record.captures
        assert [event.reason for event in record.of(RanEagerly)] == ["the stance is 'eager_on_recompile'"]
        assert len(lifted.table.entries) == 1

    def test_eager_starts_nothing_below(self) -> None:
        def inner(x: torch.Tensor) -> torch.Tensor:
            return x * 2

        def outer(x: torch.Tensor) -> torch.Tensor:
            return inner(x) + 1

        record = Record()
        with framelift.optimize("eager"), framelift.set_stance("eager_on_recompile"), record.listening():
            outer(X)
        assert not record.captures
        assert len(record.of(RanEagerly)) == 1

    def test_fail(self) -> None:
        def f(x: torch.Tensor) -> torch.Tensor:
            return x.sin()

        lifted = framelift.compile(f, backend="eager")
        with framelift.set_stance("fail_on_recompile"):
            with pytest.raises(RecompileError, match=r"f \(.*test_stance.py:\d+\) has no entry .*: it has none at all"):
                lifted(torch.ones(3))
        lifted(torch.ones(3))
        with framelift.set_stance("fail_on_recompile"):
            assert torch.equal(lifted(torch.ones(3)), torch.ones(3).sin())
            with pytest.raises(RecompileError, match=r"(?s)f .*\n  L\['x'\].size\(\)\[0\] was 3, now 4"):
                lifted(torch.ones(4))
        lifted(torch.ones(4))

    def test_what_runs_in_python_anyway_does_not_fail(self) -> None:
        lifted = framelift.compile(lambda x: x + 1, backend="eager")
        with framelift.set_stance("fail_on_recompile"), torch.overrides.BaseTorchFunctionMode():
            assert torch.equal(lifted(X), X + 1)


class TestEagerThenCompile:
    def test_sizes_are_symbolic_at_once(self) -> None:
        def f(x: torch.Tensor) -> torch.Tensor:
            return x.sin() * x.shape[0]

        with framelift.set_stance("eager_then_compile"):
            assert transcript(f, [(torch.ones(n),) for n in (3, 4, 5, 6)]) == "eager miss hit hit"

    def test_numbers_and_containers(self) -> None:
        def f(items: list[torch.Tensor], n: int, *, by: dict[str, Any]) -> torch.Tensor:
            return items[0] * n + by["step"]

        with framelift.set_stance("eager_then_compile"):
            lifted = framelift.compile(f, backend="eager")
            record = Record()
            with record.listening():
                for n in (3, 4, 5, 6):
                    args: Any = ([torch.ones(n)], n)
                    assert torch.equal(lifted(*args, by={"step": n}), f(*args, by={"step": n}))
        assert record.captures == 1 and len(record.of(RanEagerly)) == 1

    def test_a_module(self) -> None:
        lifted = framelift.compile(torch.nn.Linear(2, 2), backend="eager")
        record = Record()
        with framelift.set_stance("eager_then_compile"), record.listening():
            for n in (3, 4, 5):
                lifted(torch.ones(n, 2))
        assert record.captures == 1

    def test_what_has_an_entry_is_no_first_call(self) -> None:
        lifted = framelift.compile(lambda x: x.sin(), backend="eager")
        lifted(torch.ones(3))
        record = Record()
        with framelift.set_stance("eager_then_compile"), record.listening():
            lifted(torch.ones(4))
        assert record.captures == 1 and not record.of(RanEagerly)


class TestOfTorch:
    def test_force_eager(self) -> None:
        lifted = framelift.compile(told, backend="eager")
        assert lifted(X)[1]
        torch.compiler.set_stance("force_eager")
        assert not lifted(X)[1] and not lifted(X)[1]
        torch.compiler.set_stance("default")
        assert lifted(X)[1]
        with torch.compiler.set_stance("force_eager"):
            assert not lifted(X)[1]
        assert lifted(X)[1]

    def test_ours_goes_first(self) -> None:
        lifted = framelift.compile(told, backend="eager")
        with torch.compiler.set_stance("force_eager"), framelift.set_stance("eager_on_recompile"):
            record = Record()
            with record.listening():
                lifted(X)
            assert len(record.of(RanEagerly)) == 1

    def test_on_recompile(self) -> None:
        lifted = framelift.compile(told, backend="eager")
        with torch.compiler.set_stance("fail_on_recompile"), pytest.raises(RecompileError):
            lifted(X)
        with torch.compiler.set_stance("aot_eager_then_compile"):
            assert not lifted(X)[1]
            assert lifted(X)[1]


class TestForcedBackend:
    """`torch.compiler.set_stance(force_backend=...)`: another backend takes the place of the chosen one."""

    def test_a_backend_for_a_while(self) -> None:
        used: list[str] = []
        backends = {name: recording(used, name) for name in ("own", "forced")}
        lifted = framelift.compile(lambda x: x.sin() + 1, backend=backends["own"])
        lifted(X)
        with torch.compiler.set_stance("default", force_backend=backends["forced"]):
            for _ in range(3):
                assert torch.equal(lifted(X), X.sin() + 1)
        lifted(X)
        with torch.compiler.set_stance(force_backend=backends["forced"]):
            lifted(X)
        assert used == ["own", "forced"]

    def test_by_name_and_of_modules(self) -> None:
        used: list[str] = []
        model = torch.nn.Linear(2, 2)
        lifted = framelift.compile(model, backend=recording(used, "own"))
        with torch.compiler.set_stance(force_backend="eager"):
            assert torch.equal(lifted(torch.ones(1, 2)), model(torch.ones(1, 2)))
        assert not used

    def test_what_follows_a_break(self) -> None:
        def fn(x):
            y = x + 1
            framelift.graph_break()
            return y * 2

        used: list[str] = []
        lifted = framelift.compile(fn, backend=recording(used, "own"))
        torch.compiler.set_stance("default", force_backend=recording(used, "forced"))
        try:
            assert torch.equal(lifted(X), fn(X)) and torch.equal(lifted(X), fn(X))
        finally:
            torch.compiler.set_stance("default")
        assert used == ["forced", "forced"]

    def test_histories_are_kept(self) -> None:
        used: list[str] = []
        lifted = framelift.compile(lambda x: x + 1, backend=recording(used, "own"))
        forced = recording(used, "forced")
        for size in (2, 3, 4, 5):
            with torch.compiler.set_stance(force_backend=forced):
                lifted(torch.ones(size))
        assert used == ["forced", "forced"]

    def test_a_backend_that_does_not_exist(self) -> None:
        lifted = framelift.compile(lambda x: x + 1, backend="eager")
        with torch.compiler.set_stance(force_backend="no such thing"), pytest.raises(ValueError, match="no such thing"):
            lifted(X)
        assert torch.equal(lifted(X), X + 1)

    def test_force_eager_goes_first(self) -> None:
        used: list[str] = []
        lifted = framelift.compile(lambda x: x + 1, backend=recording(used, "own"))
        with torch.compiler.set_stance(force_backend=recording(used, "forced")), framelift.set_stance("force_eager"):
            assert torch.equal(lifted(X), X + 1)
        assert not used


def recording(used: list[str], name: str) -> Callable[..., Any]:
    def backend(graph_module: Any, example_inputs: Any) -> Any:
        used.append(name)
        return graph_module.forward

    return backend


def test_guards_hold_in_every_stance() -> None:
    with framelift.set_stance("eager_on_recompile"):
        lifted = framelift.compile(lambda x, n: x * n, backend="eager")
        for n in (1, 2, 2, "a"):
            if n == "a":
                with pytest.raises(TypeError):
                    lifted(X, n)
            else:
                assert torch.equal(lifted(X, n), X * n)
    check(lambda x, n: x * n, X, 3)


@pytest.mark.parametrize(("wrong", "error"), [("eager", ValueError), ("force-eager", ValueError), (3, TypeError)])
def test_unknown_stances_are_refused(wrong: Any, error: type[Exception]) -> None:
    with pytest.raises(error, match="force_eager"):
        framelift.set_stance(wrong)
    assert stance.current() == "default"


def test_blocks_of_several_threads_leave_the_stance_of_the_process_alone() -> None:
    """Made in one order and entered in another, as two threads may do it."""
    first = framelift.set_stance("eager_on_recompile")
    second = framelift.set_stance("fail_on_recompile")
    with first, second:
        assert stance.current() == "fail_on_recompile"
    assert stance.current() == "default"


@pytest.mark.parametrize("many", [False, True])
def test_a_block_is_never_a_stance_of_the_process(many: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    """Not even between the call of `set_stance` and the beginning of the block."""
    monkeypatch.setattr(stance._STANCES, "set", pytest.fail)
    if many:
        with framelift.config.patch(strict=True), framelift.set_stance("force_eager") as both:
            assert stance.current() == "force_eager"
        with both, framelift.set_stance(stance="fail_on_recompile"):
            assert stance.current() == "fail_on_recompile"
    else:
        with framelift.set_stance("force_eager"):
            assert stance.current() == "force_eager"
    assert stance.current() == "default"


def test_settings_of_the_process_do_not_pile_up() -> None:
    for _ in range(50):
        framelift.set_stance("force_eager")
    framelift.set_stance("default")
    count, setting = 0, stance._STANCES._setting
    while setting is not None:
        count, setting = count + 1, setting.before
    assert count <= 2 and stance.current() == "default"
