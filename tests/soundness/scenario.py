"""Scenarios: lift a function, change something, call again: the change must be seen.

    @scenario
    def global_rebound():
        names = namespace(k=2)
        yield function("def f(x): return x * k", names), (X,)   # captured, then a hit
        names["k"] = 3
        yield MISS                                              # same call: captured anew, equal to eager
        names["unrelated"] = 1
        yield HIT                                               # served by an entry, equal to eager

A step may bring other arguments: `yield MISS, (torch.ones(3),)`. Every call is compared with eager's.
"""

from __future__ import annotations

import copy
from collections.abc import Callable, Iterator
from types import FunctionType
from typing import Any

import pytest
import torch

import framelift
from framelift.report.events import RanEagerly
from tests.helpers.record import Record
from tests.helpers.same import Comparison

HIT, MISS, EAGER, ANY = "hit", "miss", "eager", "any"

Steps = Iterator[Any]
X = torch.linspace(-1, 1, 4)


class Scenarios:
    """The scenarios of one test module."""

    def __init__(self) -> None:
        self.all: list[Any] = []

    def __call__(self, steps: Callable[[], Steps] | None = None, *, breaks: bool = False, gap: str = "") -> Any:
        """Register; `breaks`: the first capture may have a graph break. `gap`: a known one, and why it is there."""
        marks = [pytest.mark.xfail(reason=gap, strict=True)] if gap else []

        def register(steps: Callable[[], Steps]) -> Callable[[], Steps]:
            self.all.append(pytest.param(steps, breaks, id=steps.__name__, marks=marks))
            return steps

        return register if steps is None else register(steps)

    def parametrize(self) -> Any:
        return pytest.mark.parametrize(("steps", "breaks"), self.all)


def namespace(**names: Any) -> dict[str, Any]:
    return {"torch": torch, "framelift": framelift, **names}


def function(source: str, names: dict[str, Any], name: str = "f") -> FunctionType:
    """A function whose globals are `names`."""
    made: dict[str, Any] = {}
    exec(compile(source, "<scenario>", "exec"), names, made)
    result: FunctionType = made[name]
    return result


def play(
    steps: Callable[[], Steps],
    breaks: bool = False,
    backend: Any = "eager",
    around: Callable[[Callable[..., Any]], Callable[..., Any]] | None = None,
) -> None:
    """Run a scenario. With a function put around the scenario's, results count, not hits and misses."""
    script = steps()
    try:
        fn, args = next(script)
        if around is not None:
            _compare_all(around(fn), args, script, backend)
            return
        lifted = framelift.compile(fn, backend=backend, dynamic=False)
        record = _call(fn, lifted, args, MISS, "first call")
        assert breaks or record.ops >= 1, "nothing was captured"
        assert breaks or not record.breaks, record.breaks
        _call(fn, lifted, args, HIT if not breaks else ANY, "second call")
        for number, step in enumerate(script, 1):
            expected, args = step if isinstance(step, tuple) else (step, args)
            _call(fn, lifted, args, expected, f"after change {number}")
    finally:
        script.close()


def _compare_all(fn: Callable[..., Any], args: Any, script: Steps, backend: Any) -> None:
    lifted = framelift.compile(fn, backend=backend, dynamic=False)
    for when in ("first call", "second call"):
        _call(fn, lifted, args, ANY, when)
    for number, step in enumerate(script, 1):
        _, args = step if isinstance(step, tuple) else (step, args)
        _call(fn, lifted, args, ANY, f"after change {number}")


def _call(fn: Any, lifted: Any, args: Any, expected: str, when: str) -> Record:
    mine, theirs = (args(), args()) if callable(args) else (args, args)
    outcome = _outcome(fn, mine)
    record = Record()
    with record.listening():
        actual = _outcome(lifted, theirs)
    Comparison().compare((outcome, mine), (actual, theirs), when)
    did = MISS if record.captures else EAGER if record.of(RanEagerly) else HIT
    assert expected in (ANY, did), f"{when}: {did} where a {expected} was expected\n{record.text()}"
    return record


def _outcome(fn: Any, args: Any) -> Any:
    try:
        return fn(*args)
    except Exception as error:
        return type(error), str(error)


def copied(*args: Any) -> Callable[[], Any]:
    """Fresh copies for each call, for functions that write to their arguments."""
    return lambda: copy.deepcopy(args)


def classes() -> tuple[Any, Any]:
    """A class and one derived from it, made anew for each scenario."""

    class Base:
        factor = 2

        def __init__(self) -> None:
            self.own = 5

        def scale(self, x: Any) -> Any:
            return x * self.factor

        @property
        def size(self) -> int:
            return 3

        @staticmethod
        def fixed(x: Any) -> Any:
            return x - 1

        @classmethod
        def made(cls, x: Any) -> Any:
            return x + cls.factor

    class Derived(Base):
        pass

    return Base, Derived
