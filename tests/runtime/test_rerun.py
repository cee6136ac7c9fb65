"""A graph that raises is undone by running Python: the original raises, or handles, what it really raises."""

from __future__ import annotations

import functools
import traceback
from collections.abc import Callable
from typing import Any

import pytest
import torch

import framelift
from framelift import config
from framelift.graph.metadata import Interner
from framelift.graph.record import Storage, TensorRef
from framelift.native import _core
from framelift.residual.rollback import Precautions
from framelift.values.torch.data_errors import may_raise
from tests.helpers import check

GOOD, BAD = torch.eye(2), -torch.eye(2)
WEIGHT = torch.ones(2, requires_grad=True)
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
    @functools.partial(framelift.disable, recursive=False)
    def in_python(x: torch.Tensor) -> torch.Tensor:
        return factor(x)

    def f(x: torch.Tensor) -> torch.Tensor:
        return in_python(x)

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


def test_a_handler_that_raises_what_another_handles() -> None:
    def f(x: torch.Tensor) -> torch.Tensor:
        y = x
        try:
            y = torch.linalg.cholesky(x * 1) + x
        except Exception:
            try:
                raise ValueError from None
            except ValueError:
                y = y + 1
        return y

    with config.patch(strict=True):
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


@backends
def test_a_write_before_what_may_raise(backend: str) -> None:
    """Little memory: it is copied before the graph runs, and put back."""

    def f(x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
        x.add_(1)
        x[1:].mul_(2)
        return torch.linalg.cholesky(y * 1)

    check(f, torch.zeros(2), GOOD, changed=[(torch.zeros(2), BAD)], backend=backend, fullgraph=True)


def test_writes_before_and_after_what_may_raise() -> None:
    def f(x: torch.Tensor, y: torch.Tensor, seen: list[int]) -> torch.Tensor:
        x.add_(1)
        try:
            factor(y * 1)
        except RuntimeError:
            seen.append(1)
        return x.mul_(3)

    check(f, torch.zeros(2), GOOD, [], changed=[(torch.zeros(2), BAD, []), (torch.ones(2), GOOD, [])])


def write_beyond(x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
    x.as_strided((4,), (1,)).add_(1)
    return torch.linalg.cholesky(y * 1)


def write_first(x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
    x[0].add_(1)
    return torch.linalg.cholesky(y * 1)


def write_gradient(x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
    x.mul_(WEIGHT)
    return torch.linalg.cholesky(y * 1)


@pytest.mark.parametrize(
    ("function", "make"),
    [
        pytest.param(write_beyond, lambda: torch.zeros(4)[:2], id="memory it does not show"),
        pytest.param(write_first, lambda: torch.zeros(1).expand(2), id="two elements in one place"),
        pytest.param(write_first, lambda: torch.zeros(2, 1 << 20), id="much memory"),
        pytest.param(write_first, lambda: torch.zeros(2, 2)[:, 0], id="gaps"),
        pytest.param(write_gradient, lambda: torch.zeros(2), id="it gets a gradient"),
    ],
)
def test_writes_that_copies_do_not_undo(function: Callable[..., Any], make: Callable[[], torch.Tensor]) -> None:
    lifted = framelift.compile(function, backend="eager")
    lifted(make(), GOOD)
    assert any(reason.startswith("FL0303") for reason in framelift.counters().breaks)
    memory = []
    for call in (function, lifted):
        x = make()
        raised_by(call, x, BAD)
        base = x if x._base is None else x._base
        memory.append((base.detach().clone(), x.requires_grad))
    assert torch.equal(memory[0][0], memory[1][0]) and memory[0][1] == memory[1][1]


def test_a_write_to_memory_another_input_shows() -> None:
    def f(x: torch.Tensor, y: torch.Tensor, z: torch.Tensor) -> torch.Tensor:
        x.add_(1)
        return torch.linalg.cholesky(y * 1) + z.sum()

    base, other = torch.zeros(4), torch.zeros(4)
    check(f, base[:3], GOOD, base[1:], changed=[(other[:3], BAD, other[1:])], expect_breaks=None)


def test_indices_raise_on_the_cpu_and_stop_a_gpu() -> None:
    def tensor(device: str) -> TensorRef:
        facts = (torch.Size([2]), (1,), 0, torch.int64, torch.device(device), False, True, *[False] * 6, 16, True, True)
        return TensorRef(Interner().intern(facts), Storage(), None, (), lambda ref: torch.empty(0))

    cpu, gpu = tensor("cpu"), tensor("cuda")
    for name in ("gather", "__getitem__", "embedding"):
        assert may_raise(name, (cpu, cpu))
        assert not may_raise(name, (gpu, gpu))
    assert may_raise("cholesky", (gpu,)) and may_raise("embedding", ())


def test_a_result_nobody_uses_may_raise() -> None:
    def f(x: torch.Tensor) -> torch.Tensor:
        torch.linalg.cholesky(x)
        return x + 1

    check(f, GOOD, changed=[(BAD,)], fullgraph=True)


def test_a_graph_that_wrote_before_it_raised_is_not_run_again() -> None:
    """Memory that runs out, say, in a later run: the write must not be made twice, the exception goes on as it is."""
    failing = []

    def backend(graph_module: Any, example_inputs: Any) -> Any:
        def run(*args: Any) -> Any:
            result = graph_module(*args)
            if failing:
                raise RuntimeError("out of memory")
            return result

        return run

    def f(x: torch.Tensor) -> torch.Tensor:
        x.add_(1)
        return x * 2

    lifted = framelift.compile(f, backend=backend)
    x = torch.zeros(2)
    lifted(x)
    failing.append(1)
    with pytest.raises(RuntimeError, match="out of memory"):
        lifted(x)
    assert torch.equal(x, torch.full((2,), 2.0))


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


def masked_after_a_write(x: torch.Tensor, mask: torch.Tensor, out: torch.Tensor) -> torch.Tensor:
    torch.mul(x, 2, out=out)
    x[mask] = 1
    return x


def masked_rows_after_a_write(x: torch.Tensor, mask: torch.Tensor, out: torch.Tensor) -> torch.Tensor:
    torch.mul(x, 2, out=out)
    x[mask[0], 1] = 1
    return x


@pytest.mark.parametrize("program", [masked_after_a_write, masked_rows_after_a_write])
def test_masks_of_another_size_raise_after_what_was_written(program) -> None:
    check(program, torch.ones(3, 3), torch.ones(2, 2).bool(), torch.zeros(3, 3), expect_breaks=None)


def test_masks_of_the_same_size_do_not_break() -> None:
    check(masked_after_a_write, torch.ones(3, 3), torch.eye(3).bool(), torch.zeros(3, 3))


def write_then_misfit(x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
    x.add_(1)
    z = y + 1
    z.mul_(x)
    return z


def misfit_handled(x: torch.Tensor, y: torch.Tensor) -> Any:
    x.add_(1)
    try:
        return (y + 1).mul_(x)
    except RuntimeError as error:
        return str(error)


WHOLE = torch.ones(2, 2, dtype=torch.int64)


@pytest.mark.parametrize("program", [write_then_misfit, misfit_handled])
@pytest.mark.parametrize(
    "make",
    [
        pytest.param(lambda: torch.ones(2, 2), id="a block"),
        pytest.param(lambda: torch.ones(2, 4)[:, ::2], id="gaps"),
        pytest.param(lambda: torch.ones(2, 2).t(), id="transposed"),
    ],
)
@backends
def test_a_result_that_cannot_be_cast_is_refused_after_a_write(program: Any, make: Any, backend: str) -> None:
    changed = [(make(), torch.ones(2, 2)), (make(), WHOLE)]
    check(program, make(), WHOLE, changed=changed, backend=backend, expect_breaks=None, expect_hit=False)


def test_a_first_run_that_raises_puts_back_what_two_views_show() -> None:
    def f(x: torch.Tensor, other: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
        x.add_(1)
        other.mul_(2)
        return (y + 1).mul_(x)

    def inputs() -> tuple[torch.Tensor, ...]:
        base = torch.arange(6.0)
        return base[:4], base[2:], torch.ones(4, dtype=torch.int64)

    check(f, inputs=inputs, expect_breaks=None)


def test_only_first_runs_are_copied() -> None:
    precautions = Precautions(writes=True)
    written = torch.zeros(2)
    assert precautions.save(written)[-1] is not None
    assert precautions.save(written)[-1] is None


@pytest.mark.parametrize("handled", [False, True])
def test_memory_that_counts_no_changes(handled: bool) -> None:
    def f(x: torch.Tensor, y: torch.Tensor) -> Any:
        try:
            z = torch.linalg.cholesky(y * 1)
        except RuntimeError if handled else KeyError:
            z = y
        x.add_(1)
        return z, x * 2

    with torch.inference_mode():
        first = torch.zeros(2), GOOD * 1
        check(f, *first, changed=[(torch.zeros(2), BAD * 1), (torch.zeros(2), GOOD * 1), (torch.ones(2), BAD * 1)])


def test_what_metadata_lets_pass_raises_in_the_first_run() -> None:
    """Fake tensors take the absolute value of truth values."""

    def f(x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
        x.add_(1)
        return y.logical_not().abs_()

    check(f, torch.ones(2), torch.ones(2))


def test_a_warning_about_a_result_that_nobody_uses() -> None:
    def f(x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
        z = y + 1
        torch.add(x, 1, out=z)
        return x * 2

    check(f, torch.ones(3, 3), torch.ones(2, 3), expect_breaks=None)
