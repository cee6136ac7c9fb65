"""What becomes of a program: whole (one graph, used by the next call, all as in eager), broke, or wrong."""

from __future__ import annotations

import contextlib
import re
import warnings
from collections.abc import Callable
from typing import Any, NamedTuple

import torch

from framelift.errors import FrameliftWarning
from tests.helpers.check import Outcome, compare, run
from tests.helpers.same import Difference
from tests.helpers.world import Side
from tests.kinds.program import Program
from tests.torch_databases.ways import Way

# Where torch computes what NumPy did, numbers are rounded in another way.
_ROUNDING = {"numpy_arrays": "numpy"}
_AT = re.compile(r" ?\(?/[^ ]*|0x[0-9a-f]+")


class Verdict(NamedTuple):
    word: str
    reason: str = ""


def judge(program: Program, way: Way) -> Verdict:
    """Run a program in eager and compiled as one graph; if that cannot be, with breaks, which must be right as well."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        reason = _problem(program, way, fullgraph=True)
        if reason is None:
            return Verdict("whole")
        problem = _problem(program, way, fullgraph=False)
    if isinstance(reason, Difference) or isinstance(problem, Difference):
        return Verdict("wrong", _line(reason if isinstance(reason, Difference) else problem))
    return Verdict("broke", _line(reason))


def _problem(program: Program, way: Way, fullgraph: bool) -> Any:
    """Why two calls are not one graph; a Difference where they are not as in eager."""
    eager, compiled = _Side(program.function), _Side(program.function)
    compiled.function = way.compiled(compiled.function, fullgraph)
    way.new_events()
    for number in range(2):
        expected = _called(eager, program, number)
        actual = _called(compiled, program, number)
        captures, reasons = way.new_events()
        if fullgraph and (reasons or (actual.error is not None and expected.error is None)):
            return reasons[0] if reasons else actual.error
        try:
            compare(expected, actual, eager, compiled, _ROUNDING.get(program.area, "eager"), number)
        except Difference as difference:
            return difference
        except (AssertionError, RuntimeError) as error:  # of what autograd is asked about one side
            return Difference(f"{type(error).__name__}: {error}")
        if fullgraph and not number and not captures:
            return "nothing was captured"
        if fullgraph and number and captures:
            return "the second call was captured again"
    return None


class _Side(Side):
    """One without globals: compilers put things of their own there, and programs leave them alone."""

    def __init__(self, function: Callable[..., Any]) -> None:
        super().__init__(function)
        self._dict, self.globals = {}, {}


def _called(side: Side, program: Program, number: int) -> Outcome:
    around = contextlib.nullcontext() if program.around is None else program.around()
    made = tuple(program.make())
    with around:
        outcome = run(side, (), {}, number, lambda: made)
    outcome.warned = [entry for entry in outcome.warned or () if issubclass(entry[0], FrameliftWarning)]
    return outcome


def _line(reason: Any) -> str:
    """The first line of a reason, without places and addresses."""
    name = f"{type(reason).__name__}: " if isinstance(reason, Exception) and not isinstance(reason, Difference) else ""
    lines = [line.strip() for line in str(reason).splitlines() if line.strip()]
    return _AT.sub("", f"{name}{lines[0] if lines else ''}")[:110].strip()


def reset() -> None:
    """Torch's global state as programs expect it."""
    torch.set_grad_enabled(True)
    torch.set_default_dtype(torch.float32)
