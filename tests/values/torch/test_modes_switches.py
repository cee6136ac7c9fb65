"""Flags of torch's that a program reads and sets: in one graph, left as the program leaves them."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
import torch

import framelift
from framelift.graph.switches import SWITCHES
from tests.helpers import check, transcript

X = torch.arange(12.0).reshape(3, 4) / 5 - 1


@pytest.fixture(autouse=True)
def as_before(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    # torch's own tests, once imported, forbid that flags are set but by `with`.
    monkeypatch.setitem(torch.backends.flags_frozen.__globals__, "__allow_nonbracketed_mutation_flag", True)
    before = [row.read() for row in SWITCHES]
    yield
    for row, values in zip(SWITCHES, before, strict=True):
        row.set(*values)


def default_dtype(x: Any) -> Any:
    before = torch.get_default_dtype()
    torch.set_default_dtype(torch.float64)
    try:
        y = torch.ones(4) / 3
    finally:
        torch.set_default_dtype(before)
    return y + x, torch.ones(2), torch.get_default_dtype()


def deterministic(x: Any) -> Any:
    torch.use_deterministic_algorithms(True, warn_only=True)
    asked = torch.are_deterministic_algorithms_enabled(), torch.is_deterministic_algorithms_warn_only_enabled()
    y = x.cumsum(0)
    torch.use_deterministic_algorithms(False)
    return y, asked, torch.get_deterministic_debug_mode()


def threads(x: Any) -> Any:
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    y = x @ x.t()
    during = torch.get_num_threads()
    torch.set_num_threads(before)
    return y, during


def anomaly(x: Any) -> Any:
    with torch.autograd.set_detect_anomaly(True, check_nan=False):
        y = x * 2
        asked = torch.is_anomaly_enabled(), torch.is_anomaly_check_nan_enabled()
    with torch.autograd.detect_anomaly():
        y = y + 1
    return y, asked, torch.is_anomaly_enabled()


def backends(x: Any) -> Any:
    torch.backends.cudnn.benchmark = True
    first = torch.backends.cudnn.benchmark
    torch.backends.cudnn.benchmark = False
    torch.backends.cuda.matmul.allow_tf32 = not torch.backends.cuda.matmul.allow_tf32
    second = torch.backends.cuda.matmul.allow_tf32
    torch.backends.cuda.matmul.allow_tf32 = not second
    return x * 2, first, second, torch.backends.mkldnn.enabled


def precision(x: Any) -> Any:
    torch.set_float32_matmul_precision("high")
    asked = torch.get_float32_matmul_precision()
    y = x @ x.t()
    torch.set_float32_matmul_precision("highest")
    return y, asked


def raises_within(x: Any) -> Any:
    try:
        with torch.autograd.set_multithreading_enabled(False):
            torch.utils.deterministic.fill_uninitialized_memory = False
            y = x * 2
            raise ValueError
    except ValueError:
        torch.utils.deterministic.fill_uninitialized_memory = True
        return y, x + 1


PROGRAMS = [default_dtype, deterministic, threads, anomaly, backends, precision, raises_within]


@pytest.mark.parametrize("program", PROGRAMS, ids=lambda program: program.__name__)
def test_one_graph(program: Any) -> None:
    check(program, X.clone().requires_grad_(), fullgraph=True)


@pytest.mark.parametrize("program", PROGRAMS, ids=lambda program: program.__name__)
def test_compilers_are_given_none_of_it(program: Any) -> None:
    """A compiled graph does not switch what its kernels read: Python does so between graphs."""
    check(program, X.clone().requires_grad_(), backend="aot_eager", expect_breaks=None)


LEFT: dict[str, Any] = {
    "default dtype": lambda: torch.set_default_dtype(torch.float64),
    "deterministic": lambda: torch.use_deterministic_algorithms(True),
    "threads": lambda: torch.set_num_threads(torch.get_num_threads() + 1),
    "anomaly": lambda: torch.autograd.set_detect_anomaly(True),
    "benchmark": lambda: torch._C._set_cudnn_benchmark(True),
    "precision": lambda: torch.set_float32_matmul_precision("medium"),
}


@pytest.mark.parametrize("name", LEFT)
@pytest.mark.parametrize("ending", ["returned", "raised", "broke"])
def test_what_the_program_leaves(name: str, ending: str) -> None:
    switch = LEFT[name]

    def f(x: Any) -> Any:
        y = x + 1
        switch()
        if ending == "raised":
            raise KeyError(name)
        if ending == "broke":
            framelift.graph_break()
        return y, torch.ones(2)

    before = [row.read() for row in SWITCHES]
    ends = []
    for function in (f, framelift.compile(f, backend="eager", fullgraph=ending == "returned")):
        for row, values in zip(SWITCHES, before, strict=True):
            row.set(*values)
        results = []
        for _ in range(2):  # the second call begins as the first has left it
            try:
                results.append(function(X)[1].dtype)
            except KeyError:
                results.append(None)
        ends.append((results, [row.read() for row in SWITCHES]))
    assert ends[0] == ends[1] and ends[0][1] != before


def test_a_flag_that_was_read_or_set_is_seen() -> None:
    def f(x: Any) -> Any:
        return x * (2 if torch.get_num_threads() > 1 else 3)

    def sets(x: Any) -> Any:
        torch.set_num_threads(2)
        return x * 2

    for function in (f, sets):
        lifted = framelift.compile(function, backend="eager", fullgraph=True)
        for count in (1, 2, 1, 3):
            torch.set_num_threads(count)
            expected = function(X)
            after = torch.get_num_threads()
            torch.set_num_threads(count)
            assert torch.equal(lifted(X), expected) and torch.get_num_threads() == after


def test_a_flag_that_was_neither_read_nor_set_is_not() -> None:
    def calls() -> Iterator[Any]:
        for count in (1, 2):
            torch.set_num_threads(count)
            yield (X,)

    assert transcript(lambda x: x * 2, calls()) == "miss hit"


def test_texts_of_tensors_are_shown_as_the_program_chose() -> None:
    def options(x: Any) -> Any:
        torch.set_printoptions(precision=2)
        print(x * 2)
        torch.set_printoptions(profile="default")
        return x + 1

    def dtype(x: Any) -> Any:
        y = x * 2
        print(y)
        torch.set_default_dtype(torch.float64)
        print(y)
        torch.set_default_dtype(torch.float32)
        return y

    check(options, X, expect_breaks=None)
    check(dtype, X, expect_breaks=None)
