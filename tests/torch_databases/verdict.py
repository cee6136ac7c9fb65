"""Whether a case is whole: captured as one graph, which the second call uses, and equal to eager bit for bit."""

from __future__ import annotations

import itertools
import re
import warnings
from collections import Counter
from dataclasses import dataclass, field
from typing import Any

import torch

from tests.helpers.same import Comparison, Difference
from tests.helpers.world import random_state, seed, tensors_in
from tests.tolerances import Tolerance
from tests.torch_databases.databases import Call, Case
from tests.torch_databases.ways import Way


@dataclass
class Verdict:
    """What became of the calls of one case."""

    calls: int = 0
    whole: int = 0
    refused: int = 0  # eager raises, and so does the compiled function
    broke: Counter[str] = field(default_factory=Counter)
    wrong: list[str] = field(default_factory=list)

    @property
    def word(self) -> str:
        if self.wrong:
            return "wrong"
        return "broke" if self.broke else "whole" if self.whole else "refused"


def judge(case: Case, way: Way, at_most: int | None = None) -> Verdict:
    """Run the calls of a case, `at_most` so many of them from all over, and compare each with eager."""
    judgement = Judgement(case, way)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        numbers = None if at_most is None else _spread(sum(1 for _ in case.calls()), at_most)
        for number, calls in enumerate(zip(*(case.calls() for _ in range(4)), strict=True)):
            if numbers is None or number in numbers:
                judgement.add(number, calls)
    return judgement.verdict


def _spread(count: int, at_most: int) -> set[int]:
    """So many numbers below `count`, evenly."""
    return {index * count // at_most for index in range(at_most)} if count > at_most else set(range(count))


class Judgement:
    """One case being run."""

    def __init__(self, case: Case, way: Way) -> None:
        self.verdict = Verdict()
        self._case, self._way = case, way
        self._with_breaks, self._eager_again = Later(case), [Later(case) for _ in range(8)]

    def add(self, number: int, calls: tuple[Call, ...]) -> None:
        one, two, three, four = calls
        self.verdict.calls += 1
        expected = [Outcome(one.function, one), Outcome(one.function, two)]
        compiled = self._way.compiled(three.function)
        actual = [Outcome(compiled, three)]
        captures, reasons = self._way.new_events()
        if not reasons and (actual[0].error is None or expected[0].error is not None):
            actual.append(Outcome(compiled, four))
            captured_again, reasons = self._way.new_events()
            if captured_again and not reasons:
                reasons = ["the second call was captured again"]
        else:
            reasons = reasons or [str(actual[0].error)]
            actual = self._outcomes_with_breaks(number)
        difference = self._difference(number, expected, actual)
        if difference is not None:
            self.verdict.wrong.append(f"call {number}: {difference}")
        elif expected[0].error is not None:
            self.verdict.refused += 1
        elif reasons:
            self.verdict.broke[plain(reasons[0])] += 1
        else:
            self.verdict.whole += 1

    def _outcomes_with_breaks(self, number: int) -> list[Outcome]:
        """What is not one graph must give the right results nevertheless."""
        calls = self._with_breaks.calls(number)
        compiled = self._way.compiled(calls[0].function, fullgraph=False)
        outcomes = [Outcome(compiled, call) for call in calls]
        self._way.new_events()
        return outcomes

    def _difference(self, number: int, expected: list[Outcome], actual: list[Outcome]) -> str | None:
        """Where the calls differ; of values only if eager gives the same values each time."""
        if self._case.uninitialised:
            return _first_difference(expected, actual, Facts)
        difference = _first_difference(expected, actual, Bits)
        if difference is not None and self._differs_from_itself(number, expected):
            return _first_difference(expected, actual, Facts)
        return difference

    def _differs_from_itself(self, number: int, expected: list[Outcome]) -> bool:
        """Whether eager gives other values now and then: LAPACK rounds by where matrices lie in memory."""
        kept = []
        for later in self._eager_again:
            calls = later.calls(number)
            kept.append([Outcome(calls[0].function, call) for call in calls])
            if _first_difference(expected, kept[-1], Bits) is not None:
                return True
        return False


class Later:
    """Two more of some calls of a case, which are asked for in their order."""

    def __init__(self, case: Case) -> None:
        self._streams = zip(case.calls(), case.calls(), strict=True)
        self._next = 0

    def calls(self, number: int) -> tuple[Call, Call]:
        skipped, self._next = number - self._next, number + 1
        return next(itertools.islice(self._streams, skipped, None))


def plain(reason: object) -> str:
    """A reason without what differs from call to call."""
    text = " ".join(str(reason).split())
    return re.sub(r"0x[0-9a-f]+|\d+(?=[,)\]]| at )", "…", text)[:200]


class Outcome:
    """Everything that one call did."""

    def __init__(self, function: Any, call: Call) -> None:
        self.call, self.value, self.error = call, None, None
        seed(1)
        try:
            self.value = function(*call.args, **call.kwargs)
        except Exception as error:
            self.error = error
        self.random = random_state()
        self.gradients = self._gradients()
        self.random_after = random_state()

    def _gradients(self) -> Any:
        """What arrives at the leaves, or what torch says instead."""
        if self.error is not None or not self.call.leaves:
            return None
        results = [result for result in tensors_in([self.value, self.call.args]) if result.grad_fn is not None]
        if not results:
            return None
        try:
            weights = [_weights_like(result) for result in results]
            return torch.autograd.grad(results, self.call.leaves, weights, allow_unused=True)
        except Exception as error:
            return _said(error)

    @property
    def facts(self) -> list[tuple[str, Any]]:
        return [
            ("arguments afterwards", (self.call.args, self.call.kwargs)),
            ("result", self.value),
            ("state", self.call.state),
            ("random state", self.random),
            ("gradients", self.gradients),
            ("random state after backward", self.random_after),
        ]


def _weights_like(result: torch.Tensor) -> torch.Tensor:
    """Different for each element, so that gradients that went to the wrong element are seen."""
    if result.layout is not torch.strided:
        return torch.ones_like(result)
    return torch.linspace(0.5, 1.5, result.numel()).to(result.dtype).reshape(result.shape)


def _said(error: BaseException) -> tuple[str, str]:
    return type(error).__name__, str(error)


class Bits(Comparison):
    """Bit for bit, but for which of the many NaNs it is."""

    def _values(self, expected: Any, actual: Any, path: str, limit: Tolerance) -> None:
        if expected.dtype is torch.complex32:  # what cannot be compared as it is
            expected, actual = (torch.view_as_real(tensor.detach().resolve_conj()) for tensor in (expected, actual))
        super()._values(expected, actual, path, limit)
        if type(expected) is torch.Tensor and expected.layout is torch.strided and expected.is_floating_point():
            known = ~expected.detach().isnan()
            if not torch.equal(expected.detach().signbit() & known, actual.detach().signbit() & known):
                raise Difference(f"{path}: the signs of zeros differ")


class Facts(Comparison):
    """Everything but the values, where eager gives others each time."""

    def _values(self, expected: Any, actual: Any, path: str, limit: Tolerance) -> None:
        pass


def _first_difference(expected: list[Outcome], actual: list[Outcome], kind: type[Comparison]) -> str | None:
    for which, one, other in zip(("first", "second"), expected, actual, strict=True):
        try:
            if (one.error is None) != (other.error is None) or _said_of(one) != _said_of(other):
                raise Difference(f"eager {_said_of(one)}, compiled {_said_of(other)}")
            comparison = kind()
            for (what, mine), (_, theirs) in zip(one.facts, other.facts, strict=True):
                comparison.compare(mine, theirs, what)
        except Difference as difference:
            return f"{which} time: {difference}"
    return None


def _said_of(outcome: Outcome) -> tuple[str, str] | None:
    return _said(outcome.error) if outcome.error is not None else None
