"""Capturing again: what one attempt finds out changes the next one, and some reasons are the last."""

from __future__ import annotations

from typing import Any

import pytest
import torch

import framelift
from framelift.backends import lookup
from framelift.breaks import FL0103, GraphBreak
from framelift.capture.interpreter.program import Programs
from framelift.capture.interpreter.steps import BreakEarlier, StepInto
from framelift.capture.lift import Lift
from framelift.capture.request import Request
from framelift.capture.retry import Retries
from framelift.errors import BackendError, FullGraphError
from framelift.graph import NeedsNumbers
from framelift.options import Options

BREAK = GraphBreak(FL0103, why="")


def f(x: Any) -> Any:
    return x


def attempts(*reasons: Exception) -> tuple[Retries, list[tuple[int, int | None]]]:
    """One attempt for each of these, and one that gets to the end: how deep they step, before what they break."""
    retries, seen = Retries(Request(f, (1,), Options(lookup("eager")), None), Programs()), []
    left = list(reasons)

    def attempt(lift: Lift) -> str:
        before = lift.steps.break_before
        seen.append((lift.steps.depth, None if before is None else before.count))
        if left:
            raise left.pop(0)
        return "the end"

    assert retries.is_first
    assert retries.run(attempt) == "the end"
    assert not retries.is_first or not reasons
    return retries, seen


def test_one_attempt_is_enough() -> None:
    assert attempts()[1] == [(0, None)]


def test_the_depth_stays_and_the_break_does_not() -> None:
    _, seen = attempts(StepInto(2), BreakEarlier(7, BREAK), NeedsNumbers(["L['x']"]))
    assert seen == [(0, None), (2, None), (2, 7), (2, None)]


def test_a_break_is_always_earlier_than_the_last() -> None:
    _, seen = attempts(BreakEarlier(7, BREAK), BreakEarlier(5, BREAK), BreakEarlier(5, BREAK))
    assert [count for _, count in seen] == [None, 7, 5, 1]


def test_numbers_are_insisted_on() -> None:
    retries, _ = attempts(NeedsNumbers(["L['x']", None]))
    assert retries.policy.insists_on(("L['x']",)) and not retries.policy.insists_on(("L['y']",))


@pytest.mark.parametrize("error", [BackendError("eager", "f.py:1", "raised"), KeyError("x"), BREAK])
def test_what_no_other_attempt_could_better_is_raised(error: Exception) -> None:
    with pytest.raises(type(error)) as caught:
        attempts(error)
    assert caught.value is error


def test_an_export_that_must_break_earlier_says_where_it_breaks() -> None:
    """The exception lies on the stack of a handler that does not take it: that needs another attempt."""

    def raises(x: torch.Tensor) -> torch.Tensor:
        try:
            raise ValueError("never handled")
        except KeyError:
            return x

    with pytest.raises(FullGraphError, match="FL0401: the exception ValueError"):
        framelift.export(raises, torch.ones(2))
