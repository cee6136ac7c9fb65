"""What ends a program may come at any moment of a capture: handlers run, the process stays usable, nothing is kept.

A function is called with an exception raised at the first, second, third, ... of many points inside framelift. The
places: at the top, in an inlined call, in a generator, behind a break, in a loop that was resumed, in a backend.
"""

from __future__ import annotations

import contextlib
import ctypes
import itertools
import os
import subprocess
import sys
import threading
import traceback
from collections.abc import Callable, Iterator
from types import FunctionType
from typing import Any

import pytest
import torch

import framelift
from framelift import config
from framelift.backends.registry import Backend
from framelift.effects.journal import Journal
from framelift.errors import BackendError, FullGraphError
from framelift.guards.guardset import GuardSet
from framelift.native import _core
from framelift.residual.emitter import ResidualEmitter
from framelift.residual.segments import Segments
from tests.helpers.record import Record

X = torch.linspace(0, 1, 3)
POINTS: list[tuple[Any, str]] = [
    (GuardSet, "add"),
    (Journal, "begin_step"),
    (ResidualEmitter, "value"),
    (Backend, "__call__"),
]


@contextlib.contextmanager
def raising(error: type[BaseException], at: int) -> Iterator[list[int]]:
    """An exception comes when framelift has passed so many points; the list says how many were passed."""
    passed = [0]

    def counted(real: Callable[..., Any]) -> Callable[..., Any]:
        def wrapper(*args: Any, **kwargs: Any) -> Any:
            passed[0] += 1
            if passed[0] == at:
                raise error("stop")
            return real(*args, **kwargs)

        return wrapper

    with pytest.MonkeyPatch.context() as patch:
        for owner, name in POINTS:
            patch.setattr(owner, name, counted(getattr(owner, name)))
        yield passed


def files_in(error: BaseException) -> list[str]:
    """The files of the frames in a traceback."""
    return [frame.filename for frame in traceback.extract_tb(error.__traceback__)]


def is_ours(file: str) -> bool:
    return file.startswith(os.path.dirname(framelift.__file__))


def plain(x: torch.Tensor, log: list[str]) -> torch.Tensor:
    log.append("plain")
    return x.sin() + len(log)


def inlined(x: torch.Tensor, log: list[str]) -> torch.Tensor:
    with torch.no_grad():
        y = plain(x, log)
    return y * 2


def generating(x: torch.Tensor, log: list[str]) -> torch.Tensor:
    def steps() -> Iterator[torch.Tensor]:
        try:
            yield x + 1
            yield x + 2
        finally:
            log.append("generated")

    return sum(steps(), x)


def resumed(x: torch.Tensor, log: list[str]) -> torch.Tensor:
    try:
        y = x + 1
        framelift.graph_break()
        y = y * 2
    finally:
        log.append("finally")
    return y


def resumed_in_a_call(x: torch.Tensor, log: list[str]) -> torch.Tensor:
    with torch.no_grad():
        y = resumed(x + 1, log)
    return y - 1


def resumed_in_a_loop(x: torch.Tensor, log: list[str]) -> torch.Tensor:
    for number in range(3):
        try:
            x = x + number
            framelift.graph_break()
            x = x * 2
        finally:
            log.append(str(number))
    return x


def resumed_in_a_generator(x: torch.Tensor, log: list[str]) -> torch.Tensor:
    def steps() -> Iterator[torch.Tensor]:
        try:
            for number in range(2):
                framelift.graph_break()
                yield x + number
        finally:
            log.append("generated")

    return sum(steps(), x)


PROGRAMS = [plain, inlined, generating, resumed, resumed_in_a_call, resumed_in_a_loop, resumed_in_a_generator]
ERRORS = [KeyboardInterrupt, SystemExit, MemoryError]


@pytest.mark.parametrize("error", ERRORS)
@pytest.mark.parametrize("program", PROGRAMS)
def test_at_any_point_of_a_capture(program: Callable[..., Any], error: type[BaseException]) -> None:
    expected, entered = program(X, []), []
    program(X, entered)
    with raising(error, 0) as passed:
        framelift.compile(program, backend="eager")(X, [])
    framelift.reset()
    grad = torch.is_grad_enabled()
    for at in _spread(passed[0]):
        lifted, log = framelift.compile(program, backend="eager"), []
        with raising(error, at), pytest.raises(error) as info:
            lifted(X, log)
        _check_frames(info.value, program)
        assert log in (entered[: len(log)], ["generated"]), f"{at}: {log}"
        # What had begun has ended: a block that was entered was left, one that was not was not.
        assert torch.is_grad_enabled() is grad
        assert not _core.is_suspended()
        assert not _core.hook_state()["installed"]
        again: list[str] = []
        assert torch.equal(lifted(X, again), expected)
        assert again == entered
        assert lifted.table.entries
        framelift.reset()


def _spread(count: int) -> list[int]:
    """All of the first points, and some of the later ones."""
    return sorted({*range(1, min(count, 6) + 1), *range(6, count + 1, max(1, count // 10)), count})


def _check_frames(error: BaseException, program: Callable[..., Any]) -> None:
    files = files_in(error)
    assert not any(map(is_ours, files)), files
    assert __file__ in files


@pytest.mark.parametrize("error", ERRORS)
def test_a_block_that_was_entered_is_left(error: type[BaseException]) -> None:
    """Behind a break Python has entered `try` and `with`; an exception of the capture is raised inside them."""
    left: list[str] = []

    class Block:
        def __enter__(self) -> None:
            left.append("in")

        def __exit__(self, kind: Any, *rest: Any) -> bool:
            left.append("out" if kind is None else kind.__name__)
            return False

    def function(x: torch.Tensor) -> torch.Tensor:
        with Block():
            framelift.graph_break()
            x = x + 1
        return x * 2

    lifted = framelift.compile(function, backend="eager")
    with raising(error, 0) as passed:
        lifted(X)
    framelift.reset()
    for at in range(1, passed[0] + 1):
        left.clear()
        with raising(error, at), contextlib.suppress(error):
            framelift.compile(function, backend="eager")(X)
        assert left in ([], ["in", error.__name__], ["in", "out"]), left
        framelift.reset()


@pytest.mark.parametrize("error", ERRORS)
@pytest.mark.parametrize("broken", [False, True])
def test_while_a_backend_compiles(error: type[BaseException], broken: bool) -> None:
    failing = [True]

    def backend(graph_module: Any, example_inputs: Any) -> Any:
        if failing[0]:
            raise error("stop")
        return graph_module.forward

    def function(x: torch.Tensor, log: list[str]) -> torch.Tensor:
        try:
            if broken:
                framelift.graph_break()
            return x.sin()
        finally:
            log.append("finally")

    lifted, log = framelift.compile(function, backend=backend), []
    # Memory that a compiler does not get is its failure; what asks the program to end is not.
    with pytest.raises(BackendError if error is MemoryError else error) as info:
        lifted(X, log)
    assert log == (["finally"] if broken else [])
    assert not any(map(is_ours, files_in(info.value)))
    failing[0] = False
    assert torch.equal(lifted(X, log), X.sin())


@pytest.mark.lenient  # strictly, memory that runs out is a failure of the backend
@pytest.mark.filterwarnings("ignore:FL0003")
@pytest.mark.parametrize("error", [*ERRORS, RecursionError])
@pytest.mark.parametrize("broken", [False, True])
def test_while_a_graph_runs(error: type[BaseException], broken: bool) -> None:
    calls: list[int] = []

    def backend(graph_module: Any, example_inputs: Any) -> Any:
        def run(*args: Any) -> Any:
            calls.append(1)
            if len(calls) == 2:
                raise error("stop")
            return graph_module.forward(*args)

        return run

    def function(x: torch.Tensor, log: list[str]) -> torch.Tensor:
        log.append("before")
        try:
            if broken:
                framelift.graph_break()
            return x.sin()
        finally:
            log.append("finally")

    lifted = framelift.compile(function, backend=backend)
    for _ in range(3):
        log: list[str] = []
        try:
            assert torch.equal(lifted(X, log), X.sin())
        except error as problem:
            assert issubclass(error, KeyboardInterrupt | SystemExit)
            assert not any(map(is_ours, files_in(problem)))
        else:
            assert log == ["before", "finally"]
    assert len(calls) == 3


def interrupt_this_thread(error: type[BaseException]) -> None:
    """An exception comes as signals do: at the next moment when the interpreter looks."""
    set_exception = ctypes.pythonapi.PyThreadState_SetAsyncExc
    set_exception(ctypes.c_ulong(threading.get_ident()), ctypes.py_object(error))


def blocked(x: torch.Tensor, log: list[str]) -> torch.Tensor:
    with torch.no_grad():
        try:
            log.append("try")
            x = x + 1
            framelift.graph_break()
            x = x * 2
        finally:
            log.append("finally")
    return x.sin()


def blocked_in_a_call(x: torch.Tensor, log: list[str]) -> torch.Tensor:
    x = blocked(x + 1, log)
    return x - 1


@pytest.mark.parametrize("warm", [False, True])
@pytest.mark.parametrize("number", [1, 2])
@pytest.mark.parametrize("program", [blocked, blocked_in_a_call])
def test_modes_and_blocks_end_where_a_graph_is_interrupted(
    program: Callable[..., Any], number: int, warm: bool
) -> None:
    """The first graph ends with another mode than it began with, behind the second `finally` waits."""
    calls: list[int] = []

    def backend(graph_module: Any, example_inputs: Any) -> Any:
        def run(*args: Any) -> Any:
            result = graph_module.forward(*args)
            calls.append(1)
            if len(calls) == number:
                interrupt_this_thread(KeyboardInterrupt)
            return result

        return run

    lifted, log = framelift.compile(program, backend=backend), []
    if warm:
        calls += [1, 1]
        lifted(X, [])
        calls.clear()
    with pytest.raises(KeyboardInterrupt):
        lifted(X, log)
    assert log == [[], ["try", "finally"]][number - 1]
    assert torch.is_grad_enabled()


@pytest.mark.parametrize("name", ["resume", "chain"])
@pytest.mark.parametrize("error", [KeyboardInterrupt, SystemExit])
def test_between_the_pieces_of_a_frame(name: str, error: type[BaseException]) -> None:
    """While framelift looks for the fragment to go on with, no frame of the program runs; yet its handlers do."""
    real, calls = getattr(Segments, name), []
    inner = FunctionType(blocked.__code__.replace(), blocked.__globals__)  # no fragment of it was made before

    def program(x: torch.Tensor, log: list[str]) -> torch.Tensor:
        return inner(x + 1, log) - 1

    def interrupted(*args: Any, **kwargs: Any) -> Any:
        calls.append(name)
        if len(calls) == 1:
            raise error("stop")
        return real(*args, **kwargs)

    lifted, log = framelift.compile(program, backend="eager"), []
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(Segments, name, interrupted)
        with pytest.raises(error) as info:
            lifted(X, log)
    assert calls
    assert log == ["try", "finally"]
    assert torch.is_grad_enabled()
    assert not any(map(is_ours, files_in(info.value)))
    assert torch.equal(lifted(X, log), program(X, []))


INTERRUPTED_WHILE_TORCH_LOADS = """
import signal, sys, threading
import torch, framelift

class Interrupting:
    comes = "torch._inductor.config"

    def find_spec(self, name, path=None, target=None):
        if name == self.comes:
            self.comes = None
            signal.pthread_kill(threading.main_thread().ident, signal.SIGINT)

signal.signal(signal.SIGINT, signal.default_int_handler)  # a job in the background has none
framelift.config.strict = True
finder = Interrupting()
sys.meta_path.insert(0, finder)
lifted = framelift.compile(lambda x: x + 1, backend="eager")
assert finder.comes is not None, "loaded too early for this test"
try:
    lifted(torch.ones(2))
except KeyboardInterrupt:
    print("interrupted")
assert torch.equal(lifted(torch.ones(2)), torch.full((2,), 2.0))
print(len(lifted.table.entries), "entry")
"""


def test_while_torch_loads_what_it_needs() -> None:
    """The first capture makes torch import a lot, which cannot be begun again."""
    command = [sys.executable, "-c", INTERRUPTED_WHILE_TORCH_LOADS]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.stdout == "interrupted\n1 entry\n", done.stderr


def endless(x: torch.Tensor) -> torch.Tensor:
    return endless(x + 1)


def endless_behind_breaks(x: torch.Tensor) -> torch.Tensor:
    framelift.graph_break()
    return endless_behind_breaks(x + 1)


def endless_generators(x: torch.Tensor) -> Iterator[torch.Tensor]:
    yield from endless_generators(x + 1)


def endless_in_blocks(x: torch.Tensor) -> torch.Tensor:
    with torch.no_grad():
        return endless_in_blocks(x + 1)


@pytest.mark.parametrize(
    "recursion",
    [endless, endless_behind_breaks, lambda x: list(endless_generators(x)), endless_in_blocks],
    ids=["inlined", "behind breaks", "generators", "blocks"],
)
def test_recursion_without_end_can_be_handled(recursion: Callable[..., Any]) -> None:
    def function(x: torch.Tensor, log: list[str]) -> Any:
        try:
            log.append("in")
            recursion(x)
        except RecursionError as error:
            return x - 1, str(error)[:32]
        finally:
            log.append("out")
        return None

    for around in (function, lambda x, log: function(x, log)):
        expected, expected_log = around(X, log := []), log
        lifted = framelift.compile(around, backend="eager")
        for _ in range(2):
            value, words = lifted(X, log := [])
            assert torch.equal(value, expected[0])
            assert words == expected[1]
            assert log == expected_log


# -- tracebacks ------------------------------------------------------------------------------------------------------


def refused(x: torch.Tensor) -> torch.Tensor:
    framelift.graph_break()
    return x


def test_errors_of_ours_begin_in_the_users_code() -> None:
    lifted = framelift.compile(refused, backend="eager", fullgraph=True)
    with pytest.raises(FullGraphError) as info:
        lifted(X)
    assert not any(map(is_ours, files_in(info.value)))
    with config.patch(full_traceback=True), pytest.raises(FullGraphError) as info:
        lifted(X)
    assert any(map(is_ours, files_in(info.value)))


def test_the_backends_own_frames_are_the_cause() -> None:
    def backend(graph_module: Any, example_inputs: Any) -> Any:
        raise ValueError("cannot")

    lifted = framelift.compile(plain, backend=backend)
    with pytest.raises(BackendError) as info:
        lifted(X, [])
    cause = info.value.__cause__
    assert cause is not None
    assert [frame.name for frame in traceback.extract_tb(cause.__traceback__)] == ["backend"]
    with config.patch(full_traceback=True), pytest.raises(BackendError) as info:
        lifted(X, [])
    assert info.value.__cause__ is not None
    assert len(traceback.extract_tb(info.value.__cause__.__traceback__)) > 1


def failing(x: torch.Tensor) -> torch.Tensor:
    if x.dim() == 1:
        raise ValueError("one dimension")
    return x


def raising_in_a_call(x: torch.Tensor) -> torch.Tensor:
    return failing(x + 1)


def raising_in_a_generator(x: torch.Tensor) -> Any:
    return [failing(item) for item in (y * 2 for y in [x])]


def raising_behind_a_break(x: torch.Tensor) -> torch.Tensor:
    framelift.graph_break()
    return failing(x + 1)


def raising_behind_a_break_in_a_call(x: torch.Tensor) -> torch.Tensor:
    with torch.no_grad():
        return raising_behind_a_break(x + 1)


def raising_in_a_resumed_loop(x: torch.Tensor) -> torch.Tensor:
    for number in range(4):
        x = x + 1
        framelift.graph_break()
        if number == 3:
            failing(x)
    return x


def raising_in_a_graph(x: torch.Tensor) -> torch.Tensor:
    return (x + 1).index_select(0, torch.tensor([7]))


def raising_in_a_graph_behind_a_break(x: torch.Tensor) -> torch.Tensor:
    framelift.graph_break()
    return raising_in_a_graph(x * 2)


def raising_in_a_finally(x: torch.Tensor) -> torch.Tensor:
    try:
        return failing(x)
    finally:
        x = x + 1
        framelift.graph_break()
        raising_in_a_graph(x)


@pytest.mark.parametrize(
    "program",
    [
        raising_in_a_call,
        raising_in_a_generator,
        raising_behind_a_break,
        raising_behind_a_break_in_a_call,
        raising_in_a_resumed_loop,
        raising_in_a_graph,
        raising_in_a_graph_behind_a_break,
        raising_in_a_finally,
    ],
)
def test_tracebacks_are_those_of_python(program: Callable[..., Any]) -> None:
    lifted, record = framelift.compile(program, backend="eager"), Record()
    expected = _frames(program)
    with record.listening():
        for _ in range(3):
            assert _frames(lifted) == expected
    assert record.captures


def _frames(function: Callable[..., Any]) -> list[Any]:
    """Function and line of every frame below the caller's, of the exception and of those it came from."""
    with pytest.raises(Exception) as info:  # noqa: PT011
        function(X)
    chain = itertools.takewhile(lambda error: error is not None, _contexts(info.value))
    return [
        (type(error).__name__, str(error), [(f.name, f.lineno) for f in traceback.extract_tb(error.__traceback__)][1:])
        for error in chain
    ]


def _contexts(error: BaseException | None) -> Iterator[Any]:
    while error is not None:
        yield error
        error = error.__context__
