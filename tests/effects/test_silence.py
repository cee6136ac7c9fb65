"""What framelift runs to learn about operations is heard by nobody; what others warn about meanwhile is."""

from __future__ import annotations

import logging
import subprocess
import sys
import textwrap
import threading
import warnings
from typing import Any

import pytest
import torch

import framelift
from framelift.silence import hush, silence
from tests.helpers import check

X = torch.ones(2, 2, 2)


def deprecated(x: torch.Tensor) -> torch.Tensor:
    return x.T * 2  # torch warns: not a matrix


def elsewhere(function: Any) -> None:
    thread = threading.Thread(target=function)
    thread.start()
    thread.join()


def texts(caught: list[warnings.WarningMessage]) -> list[str]:
    return [str(entry.message) for entry in caught]


def test_other_threads_are_heard() -> None:
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        with silence():
            warnings.warn("mine", stacklevel=1)
            elsewhere(lambda: warnings.warn("theirs", stacklevel=1))
        warnings.warn("afterwards", stacklevel=1)
    assert texts(caught) == ["theirs", "afterwards"]


def test_a_thread_that_records_is_not_disturbed() -> None:
    """Blocks of two threads overlap: what one put in place is not taken away by the other."""
    began, ended = threading.Event(), threading.Event()
    caught: list[Any] = []

    def record() -> None:
        with warnings.catch_warnings(record=True) as found:
            warnings.simplefilter("always")
            began.set()
            ended.wait(10)
            warnings.warn("recorded", stacklevel=1)
            caught.extend(found)

    thread = threading.Thread(target=record)
    with silence():
        thread.start()
        began.wait(10)
    ended.set()
    thread.join()
    assert texts(caught) == ["recorded"]


def test_a_silent_warning_was_not_shown() -> None:
    def warn() -> None:
        warnings.warn("once per place", stacklevel=1)

    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("default")
        with silence():
            warn()
        assert not caught
        warn()
        warn()
        with silence():
            warn()
        warn()
    assert len(caught) == 1


def test_log_records() -> None:
    logger = logging.getLogger("framelift.test_silence")
    records: list[str] = []
    handler = logging.Handler()
    handler.emit = lambda record: records.append(record.getMessage())  # type: ignore[method-assign]
    logger.addHandler(handler)
    hush(logger)
    with silence():
        logger.warning("mine")
        elsewhere(lambda: logger.warning("theirs"))
    logger.warning("afterwards")
    assert records == ["theirs", "afterwards"]


def test_what_torch_warns_about_is_said_when_the_graph_runs() -> None:
    check(deprecated, X)


def test_a_filter_that_raises() -> None:
    def f(x: torch.Tensor) -> Any:
        try:
            return deprecated(x + 1)
        except UserWarning as warning:
            return x, str(warning)

    def raising(x: torch.Tensor) -> Any:
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            return f(x)

    check(raising, X, expect_ops=0, expect_breaks=None)
    always = torch.is_warn_always_enabled()
    torch.set_warn_always(True)
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            lifted = framelift.compile(f, backend="eager")
            assert lifted(X)[1] == f(X)[1]
            with pytest.raises(UserWarning):
                framelift.compile(deprecated, backend="eager")(X)
    finally:
        torch.set_warn_always(always)


def test_what_torch_says_once_is_said() -> None:
    program = """
        import warnings, torch, framelift
        def f(x):
            return x.T * 2
        lifted = framelift.compile(f, backend="eager")
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            for _ in range(3):
                lifted(torch.ones(2, 2, 2))
        print(len(caught))
    """
    done = subprocess.run([sys.executable, "-c", textwrap.dedent(program)], capture_output=True, text=True, check=True)
    assert done.stdout == "1\n"
