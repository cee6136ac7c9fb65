"""Calls of lifted functions that Python runs: each has a reason, which is counted, said once, or an error."""

from __future__ import annotations

import builtins
import contextlib
import sys
from collections.abc import Callable, Iterator
from types import FunctionType
from typing import Any

import pytest
import torch
from torch._subclasses.fake_tensor import FakeTensorMode
from torch.fx.experimental.proxy_tensor import make_fx
from torch.overrides import BaseTorchFunctionMode
from torch.utils._python_dispatch import TorchDispatchMode

import framelift
from framelift import config
from framelift.capture.interpreter.program import Programs
from framelift.errors import FullGraphError, InternalError
from framelift.fallbacks import FALLBACKS
from framelift.native import _core
from framelift.report.events import InternalFailure, RanEagerly
from tests.helpers.record import Record

X = torch.linspace(-1, 1, 4)
Call = Callable[[Any], Any]


def program(x: Any) -> Any:
    return x.sin() + len("a")


class Watches(TorchDispatchMode):
    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        return func(*args, **(kwargs or {}))


@contextlib.contextmanager
def other_len() -> Iterator[None]:
    original = builtins.len
    builtins.len = lambda obj: original(obj)  # type: ignore[assignment]
    try:
        yield
    finally:
        builtins.len = original


@contextlib.contextmanager
def tracing(install: Any = sys.settrace, now: Any = sys.gettrace) -> Iterator[None]:
    before = now()
    install(lambda *_: None)
    try:
        yield
    finally:
        install(before)


def within(block: Callable[[], Any]) -> Callable[[Call], Any]:
    def call(lifted: Call) -> Any:
        with block():
            return lifted(X)

    return call


def faked(lifted: Call) -> Any:
    with FakeTensorMode() as mode:
        return lifted(mode.from_tensor(X)).shape


def deep_in_recursion(lifted: Call) -> Any:
    """So deep that a capture does not fit any more."""

    def down(levels: int) -> Any:
        return lifted(X) if levels == 0 else down(levels - 1)

    depth, frame = 0, sys._getframe()
    while frame is not None:
        depth, frame = depth + 1, frame.f_back  # type: ignore[assignment]
    return down(sys.getrecursionlimit() - depth - 30)


# How a call comes to run in Python, with the id of the reason.
SURROUNDINGS = {
    "vmap": ("FL0601", lambda lifted: torch.func.vmap(lifted)(torch.ones(2, 3))),
    "grad": ("FL0601", lambda lifted: torch.func.grad(lambda x: lifted(x).sum())(X)),
    "jvp": ("FL0601", lambda lifted: torch.func.jvp(lifted, (X,), (X,))),
    "vjp": ("FL0601", lambda lifted: torch.func.vjp(lifted, X)[0]),
    "jacrev": ("FL0601", lambda lifted: torch.func.jacrev(lifted)(X)),
    "functionalize": ("FL0601", lambda lifted: torch.func.functionalize(lifted)(X)),
    "dispatch mode": ("FL0602", within(Watches)),
    "fake mode": ("FL0602", faked),
    "function mode": ("FL0603", within(BaseTorchFunctionMode)),
    "builtins": ("FL0604", within(other_len)),
    "stack": ("FL0606", deep_in_recursion),
}
# The same for what the program asks for: with fullgraph, too.
ON_REQUEST = {
    "disable": ("FL0501", lambda lifted: framelift.disable(lambda x: lifted(x))(X)),
    "force_eager": ("FL0502", within(lambda: framelift.set_stance("force_eager"))),
    "eager_on_recompile": ("FL0502", within(lambda: framelift.set_stance("eager_on_recompile"))),
    "eager_then_compile": ("FL0502", within(lambda: framelift.set_stance("eager_then_compile"))),
    "stance of torch": ("FL0502", within(lambda: torch.compiler.set_stance("force_eager"))),
    "make_fx": ("FL0504", lambda lifted: make_fx(lifted)(X)(X)),
    "symbolic_trace": ("FL0504", lambda lifted: torch.fx.symbolic_trace(lambda x: lifted(x))(X)),
    "export": ("FL0504", lambda lifted: torch.export.export(Calls(lifted), (X,), strict=False).module()(X)),
}


class Calls(torch.nn.Module):
    def __init__(self, function: Call) -> None:
        super().__init__()
        self.function = function

    def forward(self, x: Any) -> Any:
        return self.function(x)


def ids(record: Record) -> list[str]:
    return [event.id for event in record.of(RanEagerly)]


def lifted_anew(function: Any = program, **options: Any) -> Any:
    """Of code of its own: no entries from elsewhere."""
    own = FunctionType(function.__code__.replace(), function.__globals__, "program", None, function.__closure__)
    return framelift.compile(own, backend="eager", **options)


@pytest.mark.parametrize("case", SURROUNDINGS)
@pytest.mark.parametrize("warm", [False, True])
class TestSurroundings:
    def test_python_runs_it_and_says_why(self, case: str, warm: bool) -> None:
        id, call = SURROUNDINGS[case]
        lifted, record = lifted_anew(), Record()
        if warm and case not in ("builtins", "stack"):
            lifted(X)
        with record.listening():
            actual, expected = call(lifted), call(program)
        torch.testing.assert_close(actual, expected)
        assert ids(record) and set(ids(record)) == {id}
        assert framelift.counters().eager == {FALLBACKS[id].because(names="len").words: len(ids(record))}
        assert torch.equal(lifted(X), program(X))

    def test_fullgraph_raises(self, case: str, warm: bool) -> None:
        id, call = SURROUNDINGS[case]
        lifted, record = lifted_anew(fullgraph=True), Record()
        if warm and case not in ("builtins", "stack"):
            lifted(X)
        with (
            record.listening(),
            pytest.raises(FullGraphError, match=rf"(?s){id}: .*program.*test_fallbacks.py") as info,
        ):
            call(lifted)
        assert FALLBACKS[id].remedy in str(info.value)
        assert not record.of(RanEagerly) and not record.captures
        assert torch.equal(lifted(X), program(X)) and len(lifted.table.entries) == 1


@pytest.mark.parametrize("fullgraph", [False, True])
@pytest.mark.parametrize("case", ON_REQUEST)
def test_what_the_program_asks_for(case: str, fullgraph: bool) -> None:
    id, call = ON_REQUEST[case]
    lifted, record = lifted_anew(fullgraph=fullgraph), Record()
    with record.listening():
        assert torch.equal(call(lifted), program(X))
    assert ids(record) and set(ids(record)) == {id}
    assert sum(framelift.counters().eager.values()) == len(ids(record))
    assert not record.captures


@pytest.mark.parametrize("case", ["disable", "force_eager", "stance of torch"])
def test_what_the_program_asks_for_is_counted_without_a_word(case: str) -> None:
    id, call = ON_REQUEST[case]
    lifted, other, record = lifted_anew(), lifted_anew(), Record()
    words = FALLBACKS[id].because(stance="'force_eager'").words
    for _ in range(2):
        with record.listening():
            for _ in range(5):
                call(lifted)
                call(other)
        assert framelift.counters().eager == {words: 10}
        framelift.reset()
        assert framelift.counters().eager == {}
    assert ids(record) == [id] * 4


def test_what_has_an_entry_is_used_whatever_builtins_it_does_not_need() -> None:
    lifted, record = lifted_anew(lambda x: x * 2, fullgraph=True), Record()
    lifted(X)
    with other_len(), record.listening():
        assert torch.equal(lifted(X), X * 2)
    assert not record.events


def test_builtins_of_its_own() -> None:
    names: dict[str, Any] = {"__builtins__": {"len": len}}
    own = FunctionType(program.__code__.replace(), names, "own")
    record = Record()
    with record.listening():
        assert torch.equal(framelift.compile(own, backend="eager")(X), program(X))
    assert ids(record) == ["FL0605"]
    with pytest.raises(FullGraphError, match="FL0605"):
        framelift.compile(own, backend="eager", fullgraph=True)(X)


def test_what_follows_a_break_that_is_allowed() -> None:
    def f(x: Any) -> Any:
        y = x.sin()
        with framelift.error_on_graph_break(False):
            with Watches():
                framelift.graph_break()
                y = y * 2
        return y + 1

    lifted, record = framelift.compile(f, backend="eager", fullgraph=True), Record()
    with record.listening():
        for _ in range(3):
            assert torch.equal(lifted(X), f(X))
    assert set(ids(record)) == {"FL0602"}


# -- who watches -----------------------------------------------------------------------------------------------------


class TestWatched:
    def test_one_graph_is_captured_and_used_under_a_trace_function(self) -> None:
        lifted, record = lifted_anew(fullgraph=True), Record()
        with tracing(), record.listening():
            assert torch.equal(lifted(X), program(X))
            assert torch.equal(lifted(X), program(X))
        (entry,) = lifted.table.entries
        assert record.captures == 1 and entry.hits == 2 and not record.of(RanEagerly)

    def test_one_graph_behind_an_entry_from_before(self) -> None:
        lifted = lifted_anew(fullgraph=True)
        lifted(X)
        with tracing():
            lifted(X)
        assert lifted.table.entries[0].hits == 2

    def test_a_module(self) -> None:
        model, record = torch.nn.Linear(4, 4), Record()
        lifted = framelift.compile(model, backend="eager", fullgraph=True)
        with tracing(), record.listening():
            torch.testing.assert_close(lifted(X), model(X))
        assert record.captures == 1 and not record.of(RanEagerly)

    @pytest.mark.parametrize("fullgraph", [False, True])
    def test_a_profiler(self, fullgraph: bool) -> None:
        lifted, record = lifted_anew(fullgraph=fullgraph), Record()
        with tracing(sys.setprofile, sys.getprofile), record.listening():
            lifted(X)
            lifted(X)
        assert record.captures == 1 and lifted.table.entries[0].hits == 2 and not record.of(RanEagerly)

    def test_without_fullgraph_the_tool_sees_the_program(self) -> None:
        lifted, record = lifted_anew(), Record()
        with tracing(), record.listening():
            lifted(X)
        assert ids(record) == ["FL0503"] and not record.captures
        assert framelift.counters().eager_functions == {"program": 1}

    def test_the_tool_does_not_see_who_is_told(self) -> None:
        lifted, seen = lifted_anew(), set()

        def trace(frame: Any, event: str, _: Any) -> Any:
            seen.add(frame.f_code.co_filename)
            return trace

        before = sys.gettrace()
        sys.settrace(trace)
        try:
            lifted(X)
        finally:
            sys.settrace(before)
        assert program.__code__.co_filename in seen
        assert not any("framelift/report" in name or "framelift/runtime" in name for name in seen)

    @pytest.mark.skipif(sys.version_info < (3, 12), reason="sys.monitoring is new in 3.12")
    @pytest.mark.parametrize("fullgraph", [False, True])
    def test_a_tool_that_watches_one_function(self, fullgraph: bool) -> None:
        monitoring = sys.monitoring  # type: ignore[attr-defined,unused-ignore]
        lifted, record = lifted_anew(fullgraph=fullgraph), Record()
        code, tool = lifted.__wrapped__.__code__, monitoring.COVERAGE_ID
        monitoring.use_tool_id(tool, "test")
        try:
            monitoring.set_local_events(tool, code, monitoring.events.LINE)
            with record.listening():
                lifted(X)
        finally:
            monitoring.set_local_events(tool, code, 0)
            monitoring.free_tool_id(tool)
        assert (record.captures, ids(record)) == ((1, []) if fullgraph else (0, ["FL0503"]))


# -- limits and failures ---------------------------------------------------------------------------------------------


def test_the_recompile_limit_is_an_error_with_fullgraph() -> None:
    lifted = lifted_anew(fullgraph=True, dynamic=False, recompile_limit=2)
    for size in (2, 3):
        lifted(torch.ones(size))
    for _ in range(2):
        with pytest.raises(FullGraphError, match=r"(?s)FL0002: program has 2 entries.*size\(\)\[0\] was 3, now 4"):
            lifted(torch.ones(4))
    assert torch.equal(lifted(torch.ones(3)), program(torch.ones(3)))
    assert framelift.counters().eager == {}


@pytest.mark.lenient
def test_a_failed_capture_is_an_error_with_fullgraph(monkeypatch: pytest.MonkeyPatch) -> None:
    lifted, record = lifted_anew(fullgraph=True), Record()
    fault = KeyError("internal")

    def broken(self: Any, code: Any) -> Any:
        raise fault

    with monkeypatch.context() as patch, record.listening():
        patch.setattr(Programs, "of", broken)
        for _ in range(2):
            with pytest.raises(FullGraphError, match="(?s)FL0001: .*program.*KeyError.*report") as info:
                lifted(X)
            assert info.value.__cause__ is fault
        with config.patch(strict=True), pytest.raises(InternalError):
            lifted(X)
    assert len(record.of(InternalFailure)) == 3 and not record.of(RanEagerly)
    assert torch.equal(lifted(X), program(X)) and len(lifted.table.entries) == 1


def test_an_entry_that_does_not_fit_when_it_is_made() -> None:
    """What it depends on is changed by what else runs meanwhile: here by a callback of the installation."""

    def scaled(x: Any) -> Any:
        return x * names["scale"]

    names = {"scale": 2}
    made = framelift.compile(scaled, backend="eager")

    def miss(lifted: Any, slots: Any) -> Any:
        entry = made.miss(lifted, slots)
        names["scale"] = 3
        return entry

    record = Record()
    with record.listening():
        assert torch.equal(_core.Lifted(scaled, made.table, miss)(X), X * 3)
    assert ids(record) == ["FL0608"]


# -- saying it -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("log", ["fallbacks", "capture"])
def test_the_log_says_it_once(log: str, capsys: pytest.CaptureFixture[str]) -> None:
    first, second = lifted_anew(), lifted_anew(lambda x: x.cos())
    framelift.set_logs(log)
    try:
        for _ in range(3):
            torch.func.vmap(first)(torch.ones(2, 3))
            torch.func.vmap(second)(torch.ones(2, 3))
        said = capsys.readouterr().err
        framelift.reset()
        torch.func.vmap(first)(torch.ones(2, 3))
        again = capsys.readouterr().err
    finally:
        framelift.set_logs()
    assert said.count("FL0601 a torch.func transform is active") == 2  # of each function
    assert again.count("FL0601") == 1
    torch.func.vmap(first)(torch.ones(2, 3))
    assert sum(framelift.counters().eager.values()) == 2


def test_explain_says_it() -> None:
    with Watches():
        explanation = framelift.explain(program)(X)
    assert [event.id for event in explanation.ran_eagerly] == ["FL0602"]
    assert "ran in Python: a torch dispatch mode is active" in str(explanation)


def test_whoever_listens_may_call_what_is_lifted() -> None:
    lifted, heard = lifted_anew(), []

    def listen(event: RanEagerly) -> None:
        heard.append(event.id)
        lifted(X)

    with framelift.report.stream.listening(listen, RanEagerly), tracing():
        lifted(X)
    assert heard == ["FL0503", "FL0501"]


def test_an_interrupt_while_it_is_told_reaches_the_program() -> None:
    ran: list[int] = []

    def own(x: Any) -> Any:
        ran.append(1)
        return x

    def interrupt(event: RanEagerly) -> None:
        raise KeyboardInterrupt

    lifted = framelift.compile(own, backend="eager")
    with framelift.report.stream.listening(interrupt, RanEagerly), framelift.set_stance("force_eager"):
        with pytest.raises(KeyboardInterrupt):
            lifted(X)
    assert ran == [] and not _core.is_suspended()


def test_every_id_is_unlike_the_others() -> None:
    assert all(fallback.id == id and fallback.remedy for id, fallback in FALLBACKS.items())
    words = [fallback.text for fallback in FALLBACKS.values()]
    assert len(set(words)) == len(words)
