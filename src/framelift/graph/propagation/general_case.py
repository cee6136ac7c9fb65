"""Which answers about data make a difference to what an operation gives.

The rule of an operation asks whether a size is 1, and goes on as if it were not: the general case. In most operations
the answer decides nothing that shows: what they give has the same shape, the same strides and the same memory either
way. That is found out by running the rule again for each special case, and comparing. Where nothing differs nothing
need be presumed, and the graph is for all sizes.

    >>> u = sympy.Symbol("u0", integer=True)
    >>> special_values(sympy.Eq(2 * u, 0), False, u), special_values(u < 40, False, u)
    ([0], None)
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import sympy
import torch
from torch.fx.experimental.symbolic_shapes import free_unbacked_symbols
from torch.utils._pytree import tree_leaves

from framelift.graph.propagation.fake import address_of
from framelift.shapes.symbols import SYMBOLIC
from framelift.shapes.truth import truth
from framelift.shapes.unbacked import PresumingEnv

# Numbers are tried so far, and around the numbers in a question.
_SMALL = range(41)
_NEAR = range(-1, 3)
# With more values, or cases, it is no special case any more.
_MOST_VALUES = 4
_MOST_CASES = 12


def special_values(question: Any, answer: bool, symbol: sympy.Symbol) -> list[int] | None:
    """For which values of its only symbol the answer is another one; None if those are many, or not known."""
    constants = [int(number) for number in question.atoms(sympy.Integer)]
    quotients = [a * b for a, b in itertools.combinations(constants, 2)] + [
        a // b for a, b in itertools.permutations(constants, 2) if b
    ]
    near = {abs(number) + step for number in (*constants, *quotients) for step in _NEAR}
    tried = sorted({*_SMALL, *(number for number in near if number >= 0)})
    found = [value for value in tried if truth(question, {symbol: value}) is not answer]
    if isinstance(question, sympy.Eq | sympy.Ne) and not found:
        return None  # where the sides are equal was not found
    return found if len(found) <= _MOST_VALUES else None


@dataclass(frozen=True, slots=True)
class Case:
    """What some symbols are, and which questions are answered differently whatever the symbols are."""

    values: Mapping[sympy.Symbol, sympy.Integer]
    flipped: Mapping[Any, bool]

    def answer(self, question: Any) -> bool | None:
        """What a question is answered in this case; None: as in the general one."""
        flipped = self.flipped.get(question)
        if flipped is not None:
            return flipped
        return truth(question, self.values)

    def of(self, expression: Any) -> Any:
        """An expression in this case."""
        equal = [question for question, answer in self.flipped.items() if isinstance(question, sympy.Eq) and answer]
        return expression.xreplace({**{fact.lhs: fact.rhs for fact in equal}, **self.values})


class SpecialCases:
    """The cases in which questions of one rule have other answers than it was given."""

    def __init__(self, env: PresumingEnv, questions: Mapping[Any, bool]) -> None:
        self._env = env
        self._questions = questions
        self._values: dict[sympy.Symbol, set[int]] = {}
        # Questions that have other answers for many values.
        self._wide: list[Any] = []
        for question, answer in questions.items():
            symbols = free_unbacked_symbols(question)
            found = None
            if len(symbols) == 1 == len(question.free_symbols):
                (symbol,) = symbols
                found = special_values(question, answer, symbol)
                self._values.setdefault(symbol, set()).update(found or ())
            if found is None:
                self._wide.append(question)

    @property
    def are_many(self) -> bool:
        """Whether there are too many to try them all."""
        return math.prod(len(found) + 1 for found in self._values.values()) << len(self._wide) > _MOST_CASES

    def __iter__(self) -> Iterator[Case]:
        """The cases, but those that are known not to come about."""
        choices = [[(symbol, value) for value in (None, *sorted(found))] for symbol, found in self._values.items()]
        flips = [[(), ((question, not self._questions[question]),)] for question in self._wide]
        for chosen in itertools.product(*choices):
            values = {symbol: sympy.Integer(value) for symbol, value in chosen if value is not None}
            if self._is_impossible(values):
                continue
            for flipped in itertools.product(*flips):
                case = Case(values, dict(itertools.chain(*flipped)))
                if self.decided_in(case):
                    yield case

    def decided_in(self, case: Case) -> dict[Any, bool]:
        """The questions that have another answer in a case."""
        return {
            question: answer for question, answer in self._questions.items() if case.answer(question) is (not answer)
        }

    def _is_impossible(self, values: Mapping[sympy.Symbol, sympy.Integer]) -> bool:
        env = self._env
        for symbol, value in values.items():
            limits = env.var_to_range[symbol]
            if not limits.lower <= value <= limits.upper:
                return True
        facts = (fact.expr for fact in env.presumptions if not values.keys().isdisjoint(fact.expr.free_symbols))
        return any(truth(fact, values) is False for fact in facts)


def signature(result: Any, arguments: Iterable[Any], case: Case) -> list[Any]:
    """What shows of a result in a case: numbers, the metadata of tensors, and which of the arguments they are or
    share their memory with."""
    tensors = [argument for argument in arguments if isinstance(argument, torch.Tensor)]
    return [_describe(leaf, tensors, case) for leaf in tree_leaves(result)]


def _describe(leaf: Any, arguments: Sequence[torch.Tensor], case: Case) -> Any:
    def number(value: Any) -> Any:
        return case.of(value.node.expr) if isinstance(value, SYMBOLIC) else value

    if not isinstance(leaf, torch.Tensor):
        return number(leaf)
    shape, kind = tuple(map(number, leaf.shape)), (leaf.dtype, leaf.device, leaf.layout)
    if leaf.layout is not torch.strided:
        return shape, kind
    address = address_of(leaf)
    is_argument = [leaf is argument for argument in arguments]
    shares = [address == address_of(argument) for argument in arguments]
    return shape, tuple(map(number, leaf.stride())), number(leaf.storage_offset()), kind, is_argument, shares
