"""What differs from call to call without any input changing is computed anew on every call."""

from __future__ import annotations

import contextvars
import datetime
import itertools
import os
import random
import sys
import threading
import time
import uuid
import weakref
from typing import Any

import pytest
import torch

import framelift
from tests.soundness.scenario import ANY, MISS, Scenarios, Steps, X, play

FRESH: dict[str, Any] = {
    "time.perf_counter": time.perf_counter,
    "time.time_ns": time.time_ns,
    "random.random": random.random,
    "random.randint": lambda: random.randint(0, 10**9),
    "uuid.uuid4": uuid.uuid4,
    "os.urandom": lambda: os.urandom(8),
    "datetime.now": datetime.datetime.now,
    "next(count)": lambda counter=itertools.count(): next(counter),
    "torch.rand": lambda: float(torch.rand(())),
    "torch.randint": lambda: int(torch.randint(0, 10**9, ())),
    "os.times": lambda: os.times().elapsed + time.perf_counter(),
}


@pytest.mark.parametrize("name", FRESH)
@pytest.mark.parametrize("inline", [True, False])
def test_fresh_on_every_call(name: str, inline: bool) -> None:
    source = FRESH[name]

    def f(x: torch.Tensor) -> Any:
        y = x + 1
        return source(), y

    def g(x: torch.Tensor) -> Any:
        y = x + 1
        value = source()
        return value, y

    lifted = framelift.compile(f if inline else g, backend="eager")
    values = [lifted(X)[0] for _ in range(4)]
    assert len(set(values)) == 4


variable: contextvars.ContextVar[int] = contextvars.ContextVar("variable", default=1)


def number(value: Any) -> Any:
    return len(value) if isinstance(value, str) else value


# What reads state of the process: how to read it, and two ways to set it.
STATE: dict[str, tuple[Any, Any]] = {
    "environ": (
        lambda: len(os.environ.get("FRAMELIFT_IMPURE", "")),
        lambda n: os.environ.update(FRAMELIFT_IMPURE="x" * n),
    ),
    "getenv": (lambda: len(os.getenv("FRAMELIFT_IMPURE", "")), lambda n: os.environ.update(FRAMELIFT_IMPURE="x" * n)),
    "contextvar": (lambda: variable.get(), variable.set),
    "recursion limit": (lambda: sys.getrecursionlimit(), lambda n: sys.setrecursionlimit(1000 + n)),
    "switch interval": (lambda: sys.getswitchinterval(), lambda n: sys.setswitchinterval(0.01 * n)),
    "thread name": (
        lambda: number(threading.current_thread().name),
        lambda n: setattr(threading.current_thread(), "name", "x" * n),
    ),
    "torch threads": (lambda: torch.get_num_threads(), torch.set_num_threads),
    "torch seed": (lambda: torch.initial_seed(), torch.manual_seed),
    "matmul precision": (
        lambda: number(torch.get_float32_matmul_precision()),
        lambda n: torch.set_float32_matmul_precision(("highest", "high", "medium")[n % 3]),
    ),
    "cudnn benchmark": (
        lambda: int(torch.backends.cudnn.benchmark),
        lambda n: setattr(torch.backends.cudnn, "benchmark", n % 2 == 0),
    ),
    "cudnn enabled": (
        lambda: int(torch.backends.cudnn.enabled),
        lambda n: setattr(torch.backends.cudnn, "enabled", n % 2 == 0),
    ),
    "mkldnn flags": (
        lambda: int(torch.backends.mkldnn.enabled),
        lambda n: setattr(torch.backends.mkldnn, "enabled", n % 2 == 0),
    ),
    "flash attention": (
        lambda: int(torch.backends.cuda.flash_sdp_enabled()),
        lambda n: torch.backends.cuda.enable_flash_sdp(n % 2 == 0),
    ),
    "anomaly mode": (lambda: int(torch.is_anomaly_enabled()), lambda n: torch.autograd.set_detect_anomaly(n % 2 == 0)),
    "deterministic": (
        lambda: int(torch.are_deterministic_algorithms_enabled()),
        lambda n: torch.use_deterministic_algorithms(n % 2 == 0),
    ),
    "fill uninitialized": (
        lambda: int(torch.utils.deterministic.fill_uninitialized_memory),
        lambda n: setattr(torch.utils.deterministic, "fill_uninitialized_memory", n % 2 == 0),
    ),
    "default dtype": (
        lambda: torch.finfo(torch.get_default_dtype()).bits,
        lambda n: torch.set_default_dtype((torch.float32, torch.float64)[n % 2]),
    ),
    "tf32": (
        lambda: int(torch.backends.cuda.matmul.allow_tf32),
        lambda n: setattr(torch.backends.cuda.matmul, "allow_tf32", n % 2 == 0),
    ),
}


@pytest.fixture
def restored() -> Any:
    """Puts back what the setters above change."""
    kept = {name: read() for name, (read, _) in STATE.items() if name not in ("contextvar", "torch seed")}
    limit, interval, name = sys.getrecursionlimit(), sys.getswitchinterval(), threading.current_thread().name
    precision = torch.get_float32_matmul_precision()
    yield
    sys.setrecursionlimit(limit)
    sys.setswitchinterval(interval)
    threading.current_thread().name = name
    torch.set_float32_matmul_precision(precision)
    torch.set_num_threads(kept["torch threads"])
    torch.backends.cudnn.benchmark = bool(kept["cudnn benchmark"])
    torch.backends.cudnn.enabled = bool(kept["cudnn enabled"])
    torch.backends.mkldnn.enabled = bool(kept["mkldnn flags"])
    torch.backends.cuda.enable_flash_sdp(bool(kept["flash attention"]))
    torch.autograd.set_detect_anomaly(bool(kept["anomaly mode"]))
    torch.use_deterministic_algorithms(bool(kept["deterministic"]))
    torch.utils.deterministic.fill_uninitialized_memory = bool(kept["fill uninitialized"])
    torch.set_default_dtype(torch.float32)
    torch.backends.cuda.matmul.allow_tf32 = bool(kept["tf32"])
    os.environ.pop("FRAMELIFT_IMPURE", None)
    variable.set(1)


@pytest.mark.parametrize("name", STATE)
@pytest.mark.filterwarnings("ignore")
def test_state_of_the_process(name: str, restored: Any) -> None:
    read, write = STATE[name]

    def f(x: torch.Tensor) -> Any:
        return x * 2 + read()

    lifted = framelift.compile(f, backend="eager")
    for n in (1, 2, 1, 2, 3):
        write(n)
        assert torch.equal(lifted(X), f(X)), (name, n)


scenario = Scenarios()


class Thing:
    pass


@scenario(breaks=True)
def identity_numbers() -> Steps:
    yield (lambda a, x: x * (1 if id(a) == expected[0] else 2)), (first := Thing(), X)
    expected[0] = id(first)
    yield ANY


expected = [0]


@scenario(breaks=True)
def a_weak_reference_dies() -> Steps:
    things = [Thing()]
    reference = weakref.ref(things[0])
    yield (lambda x: x + 1 if reference() is None else x - 1), (X,)
    things.clear()
    yield ANY


@scenario(breaks=True)
def globals_and_locals() -> Steps:
    def f(x: Any) -> Any:
        y = x * 2
        return y * globals()["SCALE"] + len(locals())

    globals()["SCALE"] = 2
    yield f, (X,)
    globals()["SCALE"] = 3
    yield ANY


@scenario
def grown_while_iterated() -> Steps:
    def f(values: list[int], x: Any) -> Any:
        for value in values:
            if len(values) < 4:
                values.append(value + 1)
            x = x * value
        return x

    yield f, lambda: ([1], X)
    yield MISS, lambda: ([2], X)


@scenario.parametrize()
def test_change_is_seen(steps: Any, breaks: bool) -> None:
    play(steps, breaks)
