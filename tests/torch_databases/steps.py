"""Whether the steps of an optimizer are whole: each is one graph, and what was captured serves the steps to come.

An optimizer makes its state in its first step, so the second is captured, too; from then on nothing is. (RAdam begins
to do something else in its sixth step; ASGD and Adafactor may later.) In `optim_db` gradients are given; in
`training_steps` a step begins with the forward.
"""

from __future__ import annotations

import warnings
from typing import Any

import torch

from tests.helpers.same import Difference
from tests.torch_databases.databases import Call, Case
from tests.torch_databases.verdict import Bits, Verdict, judge, plain
from tests.torch_databases.ways import Way

STEPS = 5
# What a differentiable step leaves in the state has a history of its own in the second and third step as well.
_CAPTURES = {"differentiable": 3}


def judge_case(case: Case, way: Way, at_most: int | None = None) -> Verdict:
    """Run a case of any database."""
    return judge_steps(case, way) if case.database in ("optim_db", "training_steps") else judge(case, way, at_most)


def judge_steps(case: Case, way: Way) -> Verdict:
    """Some steps with given gradients, eager and compiled, compared after each."""
    verdict = Verdict(calls=1)
    reason = _first_problem(case, way, verdict, fullgraph=True)
    if reason is None:
        verdict.whole = 1
    else:
        _first_problem(case, way, verdict, fullgraph=False)  # what is not one graph must be right nevertheless
        verdict.broke[plain(reason)] += 1
    return verdict


def _first_problem(case: Case, way: Way, verdict: Verdict, fullgraph: bool) -> str | None:
    """Why the steps are not whole; what is wrong goes into the verdict."""
    (eager,), (compiled,) = case.calls(), case.calls()
    step, captures = way.compiled(compiled.function, fullgraph), 0
    steps = 3 if case.form == "differentiable" else STEPS
    for number in range(steps):
        eager.state["prepare"](number)
        compiled.state["prepare"](number)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            expected = eager.function(*eager.args)
            try:
                value = step(*compiled.args)
            except Exception as error:
                way.new_events()
                return str(error)
        captured, reasons = way.new_events()
        captures += captured
        try:
            Bits().compare((expected, _left_by(eager)), (value, _left_by(compiled)), f"step {number}")
        except Difference as difference:
            verdict.wrong.append(str(difference))
            return str(difference)
        if reasons:
            return reasons[0]
    allowed = _CAPTURES.get(case.form, 2)
    return f"{captures} captures in {steps} steps" if captures > allowed else None


def _left_by(call: Call) -> Any:
    """What a step leaves behind."""
    parameters = call.state["parameters"]
    return (
        parameters,
        [_dense(parameter.grad) for parameter in parameters],
        [arg.state_dict() for arg in call.args if isinstance(arg, torch.optim.Optimizer)],
    )


def _dense(gradient: Any) -> Any:
    return gradient.to_dense() if gradient is not None and gradient.layout is not torch.strided else gradient
