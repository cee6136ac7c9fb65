"""The two places of the core that rely on what nobody promises: on, off, and off where their tests disagree."""

from __future__ import annotations

import signal
import threading
from _signal import signal as set_handler
from collections.abc import Iterator
from typing import Any

import pytest

from framelift.native import _core, selftest
from framelift.native.switches import HOLD_SIGNALS, READ_GETTERS
from tests.native.entry_helpers import run_in

BOTH = pytest.mark.parametrize("on", [True, False], ids=["on", "off"])


def said_by(script: str, **environment: str) -> str:
    done = run_in(None, "-c", script, **environment)
    return done.stdout.strip() or done.stderr.strip().splitlines()[-1]


def test_what_they_are_called() -> None:
    assert (HOLD_SIGNALS.variable, READ_GETTERS.variable) == ("FRAMELIFT_HOLD_SIGNALS", "FRAMELIFT_READ_GETTERS")


# ---- the main thread is exchanged ----

HOLDS = "from framelift.native import core; print(core.holds_signals())"


@pytest.fixture
def holding() -> Iterator[None]:
    before = _core.holds_signals()
    yield
    _core.hold_signals(before)


@pytest.mark.parametrize(("value", "said"), [("", "True"), ("1", "True"), ("0", "False"), ("off", "False")])
def test_the_variable_for_signals(value: str, said: str) -> None:
    assert said_by(HOLDS, FRAMELIFT_HOLD_SIGNALS=value) == said


def test_another_value_is_an_error() -> None:
    assert "FRAMELIFT_HOLD_SIGNALS" in said_by(HOLDS, FRAMELIFT_HOLD_SIGNALS="maybe")


@BOTH
def test_signals_wait_or_come(on: bool, holding: None) -> None:
    order = []
    before = signal.signal(signal.SIGUSR1, lambda *_: order.append("came"))
    try:
        _core.hold_signals(on)
        with _core.undisturbed():
            signal.raise_signal(signal.SIGUSR1)
            order.append("within")
            _core.let_signals_in()
            with _core.disturbed():
                order.append("let in")
        signal.raise_signal(signal.SIGUSR1)
    finally:
        signal.signal(signal.SIGUSR1, before)
    assert order == (["within", "came"] if on else ["came", "within"]) + ["let in", "came"]


@BOTH
def test_switched_within_a_block(on: bool, holding: None) -> None:
    """The block ends as it began: the main thread is the main thread again, and stays it."""
    _core.hold_signals(not on)
    with _core.undisturbed():
        _core.hold_signals(on)
        with _core.disturbed():
            pass
    signal.signal(signal.SIGUSR1, signal.getsignal(signal.SIGUSR1) or signal.SIG_DFL)  # raises anywhere else
    with _core.undisturbed():
        if on:
            with pytest.raises(ValueError, match="main thread"):
                signal.signal(signal.SIGUSR1, signal.SIG_DFL)


def test_the_test_looks_whether_cpython_follows() -> None:
    here = threading.get_ident()
    assert _core.main_thread_can_be_exchanged(set_handler, here)
    asked = []

    def always_main(*args: Any) -> None:
        asked.append(args)
        raise TypeError

    assert not _core.main_thread_can_be_exchanged(always_main, here)
    assert asked == [(signal.SIGINT, None)] * 2

    def never_main(*args: Any) -> None:
        raise ValueError

    assert not _core.main_thread_can_be_exchanged(never_main, here)
    assert not _core.main_thread_can_be_exchanged(lambda *_: None, here)
    assert not _core.main_thread_can_be_exchanged(set_handler, here + 1), "kept elsewhere"
    assert _core.main_thread_can_be_exchanged(set_handler, here)


def test_off_where_the_test_disagrees(monkeypatch: pytest.MonkeyPatch, holding: None) -> None:
    monkeypatch.setattr(selftest, "signal", lambda *_: None)
    selftest.run_selftest()
    assert not _core.holds_signals()
    monkeypatch.undo()
    selftest.run_selftest()
    assert _core.holds_signals()
    disagreeing = "import _signal\ndef signal(*_): raise TypeError\nreal, _signal.signal = _signal.signal, signal\n"
    assert said_by(disagreeing + HOLDS) == "False"
    assert said_by(disagreeing + "_signal.signal = real\n" + HOLDS) == "True"


def test_imported_by_another_thread() -> None:
    script = (
        "import signal, threading\n"
        "def load():\n    global core\n    from framelift.native import core\n"
        "thread = threading.Thread(target=load); thread.start(); thread.join()\n"
        "signal.signal(signal.SIGUSR1, lambda *_: print('came', end=' '))\n"
        "with core.undisturbed():\n    signal.raise_signal(signal.SIGUSR1); print('held', end=' ')\n"
        "print(core.holds_signals())\n"
    )
    assert said_by(script) == "held came True"


# ---- torch's getters are read ----

READ = """
from framelift.native import core
from framelift.native.torch import calibrate
calibrate.ensure()
print(core.getters_read() != [])
"""


@pytest.fixture
def state_tests(monkeypatch: pytest.MonkeyPatch) -> Iterator[Any]:
    """The tests of torch's state; torch is calibrated anew when all is as it was."""
    pytest.importorskip("torch", reason="these tests also run on interpreters without torch")
    from framelift.native.torch import calibrate
    from tests.native.torch import test_tensor_probe_state

    yield test_tensor_probe_state
    monkeypatch.undo()
    calibrate._calibrate_state()


def test_the_variable_for_getters() -> None:
    pytest.importorskip("torch", reason="these tests also run on interpreters without torch")
    assert said_by(READ, FRAMELIFT_READ_GETTERS="0") == "False"
    assert said_by(READ, FRAMELIFT_READ_GETTERS="1") == said_by(READ)


@BOTH
def test_changes_are_seen(on: bool, state_tests: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    native = set(_core.native_state())
    monkeypatch.setenv(READ_GETTERS.variable, str(int(on)))
    state_tests.calibrate._calibrate_state()
    read = _core.getters_read()
    assert set(_core.native_state()) == native >= set(read)
    assert on or not read
    for text in state_tests.CHANGES:
        if not text.startswith("fp16 reduction on cpu"):  # not every CPU lets that be changed
            state_tests.test_changes_are_seen(text)


@pytest.mark.parametrize("name", ["flash attention", "default dtype"])
def test_off_where_python_disagrees(name: str, state_tests: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    calibrate, torch = state_tests.calibrate, state_tests.torch
    calibrate._calibrate_state()
    if name not in _core.getters_read():
        pytest.skip("this processor's getters are not read")
    others = set(_core.getters_read()) - {name}
    lies = {"flash attention": lambda: not torch._C._get_flash_sdp_enabled(), "default dtype": lambda: torch.int8}
    parts = [part._replace(get=lies[name]) if part.name == name else part for part in calibrate.state_parts()]
    monkeypatch.setattr(calibrate, "state_parts", lambda: parts)
    calibrate._calibrate_state()
    assert _core.getters_read() == []
    assert name not in _core.native_state(), "Python is asked"
    assert others <= set(_core.native_state()), "C++ is asked"
    state = _core.torch_state()
    assert state.matches()
    with torch.nn.attention.sdpa_kernel(torch.nn.attention.SDPBackend.MATH):
        assert not state.matches()
    assert state.matches()
