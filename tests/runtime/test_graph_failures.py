"""A graph that raises: the program's own error, something presumed that did not hold, or a failure of the backend."""

from __future__ import annotations

import contextlib
import functools
import math
import sys
import warnings
import weakref
from collections.abc import Callable, Iterator
from typing import Any

import pytest
import torch
from torch.utils.checkpoint import checkpoint

import framelift
from framelift.errors import BackendError, FrameliftWarning, FullGraphError
from framelift.native import _core
from framelift.report.events import GraphFailed, RanEagerly
from tests.helpers import check
from tests.helpers.record import Record

X = torch.linspace(-1, 1, 4)
GOOD, BAD = torch.eye(2), -torch.eye(2)
lenient = pytest.mark.lenient


class Failing:
    """A backend whose graphs raise as long as `error` is set."""

    def __init__(self, error: Exception | None = None) -> None:
        self.error: Exception | None = RuntimeError("the kernel is broken\nand more") if error is None else error
        self.compiled = 0

    @property
    def __name__(self) -> str:
        return "failing"

    def __call__(self, graph_module: Any, example_inputs: Any) -> Any:
        self.compiled += 1

        def run(*args: Any) -> Any:
            if self.error is not None:
                raise self.error
            return graph_module(*args)

        return run


@contextlib.contextmanager
def warned() -> Iterator[list[str]]:
    texts: list[str] = []
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        yield texts
    texts += [str(entry.message) for entry in caught if issubclass(entry.category, FrameliftWarning)]


def ids(record: Record) -> list[str]:
    return [event.id for event in record.of(RanEagerly)]


def plain(x: torch.Tensor) -> torch.Tensor:
    y = x.sin()
    return y + 1


def several(x: torch.Tensor) -> Any:
    return x.sin(), x.cos()


def in_no_grad(x: torch.Tensor) -> Any:
    with torch.no_grad():
        return x.sin()


def with_finally(x: torch.Tensor) -> Any:
    y = x
    try:
        y = x.sin()
    finally:
        y = y + 1
    return y


def raises_again(x: torch.Tensor) -> Any:
    try:
        return x.sin()
    except RuntimeError as error:
        raise ValueError("worse") from error


def in_a_manager(x: torch.Tensor) -> Any:
    with Manager():
        return x.sin()


class Manager:
    def __enter__(self) -> None:
        pass

    def __exit__(self, *_: object) -> None:
        return None


def behind_a_try(x: torch.Tensor) -> Any:
    try:
        n = int("3")
    except ValueError:
        n = 4
    return x.sin() * n


PROGRAMS = [plain, several, in_no_grad, with_finally, raises_again, in_a_manager, behind_a_try]


# -- a failure of the backend ----------------------------------------------------------------------------------------


@lenient
@pytest.mark.parametrize("function", PROGRAMS)
def test_it_is_warned_of_once_and_counted_and_then_not_used(function: Callable[..., Any]) -> None:
    backend, record = Failing(), Record()
    lifted = framelift.compile(function, backend=backend)
    with warned() as texts, record.listening():
        for _ in range(6):
            torch.testing.assert_close(lifted(X), function(X), rtol=0, atol=0)
    line = function.__code__.co_firstlineno
    (text,) = texts
    assert text.startswith(f"FL0003: the graph of {function.__name__} (")
    assert "'failing'" in text and "RuntimeError: the kernel is broken\n" in text and f"{__file__}:" in text
    assert len(record.of(GraphFailed)) == 3 and ids(record) == ["FL0003"] * 6
    failed = record.of(GraphFailed)[0]
    assert (failed.function, failed.backend, failed.error) == (
        function.__name__,
        "failing",
        "RuntimeError: the kernel is broken",
    )
    assert int(failed.lines.split(":")[1].split()[0]) in range(line + 1, line + 6)
    counts = framelift.counters()
    assert counts.failures == {"FL0003": 3}
    assert counts.eager == {"its graph raised RuntimeError where Python does not": 6}
    assert counts.eager_functions == {function.__qualname__: 6}
    assert backend.compiled == 1 and len(lifted.table.entries) == 1


@pytest.mark.parametrize("way", ["fullgraph", "strict"])
@pytest.mark.parametrize("function", PROGRAMS)
def test_it_is_raised_with_fullgraph_and_in_strict_mode(function: Callable[..., Any], way: str) -> None:
    backend, record = Failing(), Record()
    with framelift.config.patch(strict=way == "strict"):
        lifted = framelift.compile(function, backend=backend, fullgraph=way == "fullgraph")
        with record.listening():
            for _ in range(4):
                with pytest.raises(BackendError, match="'failing'.*RuntimeError: the kernel is broken") as info:
                    lifted(X)
                assert info.value.__cause__ is backend.error and __file__ in info.value.location
        assert len(record.of(GraphFailed)) == 4 and ids(record) == []
        backend.error = None
        torch.testing.assert_close(lifted(X), function(X), rtol=0, atol=0)
    assert backend.compiled == 1


@lenient
def test_the_warning_stands_at_the_users_line() -> None:
    lifted = framelift.compile(plain, backend=Failing())
    with pytest.warns(FrameliftWarning) as caught:
        lifted(X)
    assert caught[0].filename == __file__


@lenient
def test_a_graph_that_fails_less_than_three_times_stays() -> None:
    backend, record = Failing(), Record()
    lifted = framelift.compile(plain, backend=backend)
    with warned():
        lifted(X)
        lifted(X)
    backend.error = None
    with record.listening():
        for _ in range(3):
            assert torch.equal(lifted(X), plain(X))
    assert not record.events


@lenient
def test_only_the_entry_that_failed_goes() -> None:
    def f(x: torch.Tensor, n: int) -> torch.Tensor:
        return x * n

    backend, record = Failing(), Record()
    lifted = framelift.compile(f, backend=backend, dynamic=False)
    with warned():
        for _ in range(4):
            lifted(X, 2)
        backend.error = None
        lifted(X, 3)
    with record.listening():
        assert torch.equal(lifted(X, 3), X * 3)
        assert not record.events
        assert torch.equal(lifted(X, 2), X * 2)
    assert ids(record) == ["FL0003"] and backend.compiled == 2
    framelift.reset()
    assert torch.equal(lifted(X, 2), X * 2) and backend.compiled == 3  # a new start


@lenient
def test_what_the_graph_held_goes_with_it() -> None:
    class Compiled:
        def __call__(self, *args: Any) -> Any:
            raise MemoryError("no room")

    def backend(graph_module: Any, example_inputs: Any) -> Any:
        made = Compiled()
        alive.append(weakref.ref(made))
        return made

    alive: list[Any] = []
    lifted = framelift.compile(plain, backend=backend)
    with warned():
        for _ in range(3):
            lifted(X)
    assert alive[0]() is None


@lenient
@pytest.mark.parametrize("retired", [False, True])
def test_effects_happen_once(retired: bool) -> None:
    def f(x: torch.Tensor, seen: list[int], table: dict[str, int]) -> Any:
        seen.append(1)
        table["n"] = table.get("n", 0) + 1
        print("once")
        noise = torch.rand(2)
        x.add_(1)
        return x * 2, noise

    backend = Failing()
    lifted = framelift.compile(f, backend=backend)
    with warned():
        for _ in range(4 if retired else 0):
            lifted(X.clone(), [], {})
        results: list[Any] = []
        for call in (f, lifted):
            torch.manual_seed(5)
            x, seen, table = torch.zeros(2), [0], {"n": 4}
            results.append([*call(x, seen, table), x, torch.rand(1), seen, table])
    for eager, actual in zip(*results, strict=True):
        assert torch.equal(eager, actual) if isinstance(eager, torch.Tensor) else eager == actual


def test_effects_happen_once_where_it_is_raised(capsys: pytest.CaptureFixture[str]) -> None:
    def f(x: torch.Tensor, seen: list[int]) -> Any:
        seen.append(1)
        print("once")
        return x.mul_(2)

    x, seen = torch.ones(2), list[int]()
    with pytest.raises(BackendError):
        framelift.compile(f, backend=Failing(), fullgraph=True)(x, seen)
    assert torch.equal(x, torch.full((2,), 2.0)) and seen == [1] and capsys.readouterr().out == "once\n"


def test_what_a_failed_graph_wrote_half_way_is_not_written_twice() -> None:
    """It writes, then raises in its first run: put back. In a later one: the exception is the graph's own."""

    def backend(graph_module: Any, example_inputs: Any) -> Any:
        def run(*args: Any) -> Any:
            graph_module(*args)
            if failing:
                raise RuntimeError("broken")
            return graph_module(*args)

        return run

    def f(x: torch.Tensor) -> torch.Tensor:
        return x.add_(1)

    failing = [1]
    for fullgraph in (False, True):
        x = torch.zeros(2)
        with pytest.raises(BackendError):
            framelift.compile(f, backend=backend, fullgraph=fullgraph)(x)
        assert torch.equal(x, torch.ones(2))


@lenient
def test_a_frame_below_a_break_and_what_follows_it() -> None:
    @functools.partial(framelift.disable, recursive=False)
    def in_python(x: torch.Tensor) -> torch.Tensor:
        return plain(x)

    def f(x: torch.Tensor, seen: list[int]) -> torch.Tensor:
        y = x * 2
        seen.append(1)
        y = in_python(y)
        seen.append(2)
        return y * 3

    backend, record, seen = Failing(), Record(), list[int]()
    lifted = framelift.compile(f, backend=backend)
    expected = f(X, [])
    with warned() as texts, record.listening():
        for number in range(5):
            assert torch.equal(lifted(X, seen), expected)
            assert seen == [1, 2] * (number + 1)
    names = {event.function.rpartition(".")[2] for event in record.of(GraphFailed)}
    assert names >= {"f"} and texts
    assert set(ids(record)) == {"FL0003"}


@pytest.mark.parametrize("fullgraph", [False, True])
def test_below_a_block(fullgraph: bool) -> None:
    def inner(x: torch.Tensor) -> torch.Tensor:
        return x.sin()

    with framelift.optimize(Failing(), fullgraph=fullgraph):
        for _ in range(3):
            with pytest.raises(BackendError):
                inner(X)


@lenient
def test_frames_below_a_block() -> None:
    def inner(x: torch.Tensor) -> torch.Tensor:
        return x.sin()

    record = Record()
    with warned() as texts, record.listening(), framelift.optimize(Failing()):
        for _ in range(5):
            assert torch.equal(inner(X), X.sin())
    assert len(texts) == 1 and len(record.of(GraphFailed)) == 3 and ids(record) == ["FL0003"] * 5


@lenient
def test_a_module_in_training() -> None:
    torch.manual_seed(1)
    model = torch.nn.Sequential(torch.nn.Linear(4, 4), torch.nn.BatchNorm1d(4))
    lifted = framelift.compile(model, backend=Failing())
    x = torch.randn(3, 4)
    with warned() as texts:
        lifted(x).sum().backward()
    assert len(texts) == 1 and model[1].num_batches_tracked == 1
    assert all(parameter.grad is not None for parameter in model.parameters())


@lenient
def test_a_filter_that_raises_warnings() -> None:
    lifted = framelift.compile(plain, backend=Failing())
    with warnings.catch_warnings():
        warnings.simplefilter("error", FrameliftWarning)
        with pytest.raises(FrameliftWarning, match="FL0003"):
            lifted(X)
    assert torch.equal(lifted(X), plain(X))


def test_a_real_backend_that_loses_its_memory() -> None:
    def f(x: torch.Tensor) -> torch.Tensor:
        return x.sin()

    lifted = framelift.compile(f, backend=Failing(torch.OutOfMemoryError("no room")), fullgraph=True)
    with pytest.raises(BackendError, match="OutOfMemoryError: no room"):
        lifted(X)


@lenient
@pytest.mark.parametrize("outputs", [1, 2])
def test_python_has_the_memory_that_the_graph_took(outputs: int) -> None:
    """Exceptions hold frames, and frames what was computed in them: of causes and contexts, too."""

    def backend(graph_module: Any, example_inputs: Any) -> Any:
        def fail(large: torch.Tensor) -> Any:
            taken.append(weakref.ref(large))
            raise torch.OutOfMemoryError("no room")

        def run(*args: Any) -> Any:
            large = torch.zeros(100)
            try:
                fail(large)
            except RuntimeError as error:
                raise MemoryError("still no room") from error

        return run

    def f(x: torch.Tensor) -> Any:
        y = x.sin()
        return (y, x.cos()) if outputs == 2 else y

    taken: list[Any] = []
    seen: list[bool] = []

    def run_by_python(frame: Any, event: str, _: Any) -> None:
        if event == "call" and frame.f_code is f.__code__:
            seen.extend(each() is not None for each in taken)

    lifted = framelift.compile(f, backend=backend)
    before = sys.getprofile()
    with warned():
        sys.setprofile(run_by_python)
        try:
            lifted(X)
        finally:
            sys.setprofile(before)
    assert seen == [False]


@pytest.mark.parametrize("fullgraph", [False, True])
def test_a_graph_that_needs_more_of_the_stack_than_there_is(fullgraph: bool) -> None:
    """Nothing is wrong with it."""
    record = Record()
    lifted = framelift.compile(plain, backend=Failing(RecursionError("too deep")), fullgraph=fullgraph)
    with record.listening():
        for _ in range(5):
            if fullgraph:
                with pytest.raises(FullGraphError, match="FL0606"):
                    lifted(X)
            else:
                assert torch.equal(lifted(X), plain(X))
    assert ids(record) == ([] if fullgraph else ["FL0606"] * 5) and not record.of(GraphFailed)


def test_nothing_is_left_behind() -> None:
    backend = Failing()
    lifted = framelift.compile(plain, backend=backend, fullgraph=True)
    x = torch.zeros(4)
    gone = weakref.ref(x)
    for _ in range(10):
        with contextlib.suppress(BackendError):
            lifted(x)
    backend.error = None
    del x
    assert gone() is None and not _core.is_suspended()


# -- the program's own error -----------------------------------------------------------------------------------------


@pytest.mark.parametrize("fullgraph", [False, True])
def test_an_error_of_the_program_is_nobody_elses(fullgraph: bool) -> None:
    def f(x: torch.Tensor) -> torch.Tensor:
        return torch.linalg.cholesky(x * 1)

    lifted, record = framelift.compile(f, backend="eager", fullgraph=fullgraph), Record()
    lifted(GOOD)
    with record.listening():
        for _ in range(5):
            with pytest.raises(torch.linalg.LinAlgError):
                lifted(BAD)
        assert torch.equal(lifted(GOOD), GOOD)
    assert not record.events and framelift.counters().eager == {} and framelift.counters().failures == {}


@pytest.mark.parametrize("fullgraph", [False, True])
def test_an_error_that_a_tensor_decides(fullgraph: bool) -> None:
    def f(x: torch.Tensor) -> torch.Tensor:
        if not (x > 0).any():
            raise AssertionError("too small")
        if (x > 9).any():
            raise ValueError("too large")
        return x + 1

    lifted, record = framelift.compile(f, backend="eager", fullgraph=fullgraph), Record()
    lifted(torch.ones(2))
    with record.listening():
        with pytest.raises(AssertionError, match="too small"):
            lifted(-torch.ones(2))
        with pytest.raises(ValueError, match="too large"):
            lifted(torch.ones(2) * 10)
    assert not record.events


def test_a_check_that_the_program_makes_of_data() -> None:
    def f(x: torch.Tensor, m: torch.Tensor) -> torch.Tensor:
        rows = x[m]
        torch._check(rows.shape[0] >= 3)
        return rows + 1

    lifted, record = framelift.compile(f, backend="eager"), Record()
    lifted(torch.arange(6.0), torch.arange(6) < 4)
    with record.listening():
        for _ in range(8):
            with pytest.raises(RuntimeError):
                lifted(torch.arange(6.0), torch.arange(6) < 2)
        lifted(torch.arange(6.0), torch.arange(6) < 5)
    assert not record.events


# -- what did not hold -----------------------------------------------------------------------------------------------


def test_data_that_is_unlike_what_is_presumed_with_fullgraph() -> None:
    """Python runs the call, and says so; the next graph is for other sizes as well."""

    def f(x: torch.Tensor, m: torch.Tensor) -> torch.Tensor:
        return x[m] + 1

    lifted, record = framelift.compile(f, backend="eager", fullgraph=True), Record()
    x = torch.arange(6.0)
    with record.listening():
        for count in (3, 1, 0, 1, 0, 1, 0, 1, 4):
            assert torch.equal(lifted(x, torch.arange(6) < count), f(x, torch.arange(6) < count))
    assert record.captures == 2 and ids(record) == ["FL0801"]
    assert all("u0 >= 2" in reason for reason in framelift.counters().eager)


@pytest.mark.parametrize("backend", ["eager", "aot_eager"])
def test_an_error_that_the_program_handles(backend: str) -> None:
    def f(x: torch.Tensor) -> Any:
        try:
            if (x < 0).any():
                raise ValueError("negative")
        except ValueError:
            return x - 1
        return x + 1

    record = Record()
    with record.listening():
        check(f, torch.ones(2), changed=[(-torch.ones(2),)], backend=backend)
    assert ids(record)[:1] == ["FL0802"] and not record.of(GraphFailed)


def handled_at_once(x: torch.Tensor) -> Any:
    try:
        y = torch.linalg.cholesky(x * 1)
    except RuntimeError:
        y = x - 1
    return y


def handled_by_the_caller(x: torch.Tensor) -> Any:
    try:
        return factor(x)
    except RuntimeError:
        return x - 1


def factor(x: torch.Tensor) -> torch.Tensor:
    with torch.no_grad():
        return torch.linalg.cholesky(x * 1)


def handled_around_a_with(x: torch.Tensor) -> Any:
    try:
        with torch.no_grad(), Manager():
            try:
                y = torch.linalg.cholesky(x * 1)
            finally:
                x = x + 1
    except RuntimeError:
        y = x - 1
    return y


def suppressed(x: torch.Tensor) -> Any:
    y = x * 2
    with contextlib.suppress(RuntimeError):
        y = torch.linalg.cholesky(x * 1)
    return y


def ended_by_return(x: torch.Tensor) -> Any:
    try:
        return torch.linalg.cholesky(x * 1)
    finally:
        return x - 1  # noqa: B012


class Swallows:
    def __enter__(self) -> None:
        pass

    def __exit__(self, kind: Any, error: Any, at: Any) -> bool:
        return kind is not None


def swallowed(x: torch.Tensor) -> Any:
    y = x * 2
    with Swallows():
        y = torch.linalg.cholesky(x * 1)
    return y


def handled_around_a_generator(x: torch.Tensor) -> Any:
    def factors() -> Iterator[torch.Tensor]:
        yield torch.linalg.cholesky(x * 1)

    try:
        return list(factors())
    except RuntimeError:
        return x - 1


def handled_in_a_loop(x: torch.Tensor) -> Any:
    for step in range(3):
        try:
            return torch.linalg.cholesky(x + step * 2 * torch.eye(2)), step
        except torch.linalg.LinAlgError:
            continue
    return x, 3


class Goes:
    def on(self) -> None:
        pass


def swallowed_where_something_else_was(x: torch.Tensor) -> Any:
    """A method lies on the stack where the manager will lie; this one ends nothing."""
    y: Any = None
    try:
        y = (1, Goes().on, torch.linalg.cholesky(x * 1))[2]
    except:  # noqa: E722
        with Swallows():
            raise
    return y


HANDLED = [
    handled_at_once,
    handled_by_the_caller,
    handled_around_a_with,
    suppressed,
    ended_by_return,
    swallowed,
    handled_around_a_generator,
    handled_in_a_loop,
    swallowed_where_something_else_was,
]


@pytest.mark.parametrize("backend", ["eager", "aot_eager"])
@pytest.mark.parametrize("function", HANDLED)
def test_an_operation_in_a_try_raises(function: Callable[..., Any], backend: str) -> None:
    """No failure of the backend: the program counts on it."""
    record = Record()
    with record.listening():
        check(function, GOOD, changed=[(BAD,), (GOOD,), (BAD,)], backend=backend)
    assert set(ids(record)) == {"FL0803"} and not record.of(GraphFailed)


@pytest.mark.parametrize("fullgraph", [False, True])
def test_an_operation_in_a_try_counts_with_fullgraph_too(fullgraph: bool) -> None:
    lifted = framelift.compile(handled_at_once, backend="eager", fullgraph=fullgraph)
    lifted(GOOD)
    for _ in range(5):
        assert torch.equal(lifted(BAD), BAD - 1)
    assert framelift.counters().eager == {"an operation raised _LinAlgError in a `try` or `with` of the program": 5}
    assert framelift.counters().failures == {}


def test_a_number_that_cannot_be_calculated() -> None:
    def f(x: torch.Tensor, n: float) -> Any:
        try:
            return x * math.sqrt(n)
        except ValueError:
            return x

    record = Record()
    lifted = framelift.compile(f, backend="eager")
    with record.listening():
        for n in (2.0, 3.0, 5.0, -1.0, -2.0, 4.0):
            assert torch.equal(lifted(X, n), f(X, n))
    assert ids(record) == ["FL0804"] * 2 and not record.of(GraphFailed)


def test_a_block_that_a_handler_enters() -> None:
    """Whoever ends the error is not there yet when the operation runs, nor as much on the stack as below them."""

    def f(x: torch.Tensor, n: torch.Tensor) -> Any:
        y: Any = None
        try:
            y = x // n
        except:  # noqa: E722
            with Swallows(), Swallows():
                raise
        return y

    record, x, zero = Record(), torch.tensor([7]), torch.tensor([0])
    with record.listening():
        check(f, x, torch.tensor([2]), changed=[(x, zero), (x, torch.tensor([3])), (x, zero)])
    assert set(ids(record)) == {"FL0803"} and not record.of(GraphFailed)


@pytest.mark.parametrize("backend", ["eager", "aot_eager"])
@pytest.mark.parametrize("fullgraph", [False, True])
def test_a_checkpoint_that_has_what_it_needs(backend: str, fullgraph: bool) -> None:
    """It ends the second run by an exception, which a hook of its own raises in the midst of the graph."""

    def block(x: torch.Tensor) -> torch.Tensor:
        y = x.sin()
        if not fullgraph:
            framelift.graph_break()
        return (y * x).exp() * x

    def gradient(function: Callable[..., Any]) -> Any:
        x = X.clone().requires_grad_()
        checkpoint(function, x, use_reentrant=False).sum().backward()
        return x.grad

    lifted = framelift.compile(block, backend=backend, fullgraph=fullgraph)
    for _ in range(4):
        assert torch.equal(gradient(lifted), gradient(block))
    counted = framelift.counters()
    assert not counted.eager and not counted.failures


class RaisingHook:
    """A hook on saved tensors, which raises at the second of them."""

    def __init__(self) -> None:
        self.calls = 0

    def __call__(self, tensor: torch.Tensor) -> torch.Tensor:
        self.calls += 1
        if self.calls == 2:
            raise ValueError("enough")
        return tensor

    def method(self, tensor: torch.Tensor) -> torch.Tensor:
        return self(tensor)


@pytest.mark.parametrize("kind", ["object", "method", "partial", "function"])
def test_a_hook_on_saved_tensors_that_raises(kind: str) -> None:
    """It has heard of what was saved: nobody calls it once more."""

    def calls(function: Callable[..., Any]) -> int:
        counting = RaisingHook()
        hooks = {
            "object": counting,
            "method": counting.method,
            "partial": functools.partial(RaisingHook.method, counting),
            "function": lambda tensor: counting(tensor),
        }
        x = X.clone().requires_grad_()
        with torch.autograd.graph.saved_tensors_hooks(hooks[kind], lambda saved: saved):
            with pytest.raises(ValueError, match="enough"):
                function(x)
        return counting.calls

    def function(x: torch.Tensor) -> torch.Tensor:
        return x.sin().exp().cos()

    lifted = framelift.compile(function, backend="eager")
    for _ in range(3):
        assert calls(lifted) == calls(function) == 2
    x = X.clone().requires_grad_()
    assert torch.equal(lifted(x), function(x))
