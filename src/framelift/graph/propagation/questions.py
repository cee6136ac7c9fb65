"""What operations ask of data on their way: whether a window adds up to zero, whether two tensors are equal.

Many such operations decide by it only whether there is an error, or a warning. What they give is known then, whatever
the data says: an operation is run on fake tensors with every series of answers, and all that do not raise must give the
same. The graph calls the operation itself, which asks again when it runs, and raises what it has to.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch._subclasses.fake_tensor import (
    DataDependentOutputException,
    DynamicOutputShapeException,
    UnsupportedFakeTensorException,
    UnsupportedOperatorException,
)
from torch.fx.experimental.symbolic_shapes import GuardOnDataDependentSymNode
from torch.utils import _pytree as pytree

from framelift.shapes.bindings import Unlikely
from framelift.torch_names import TORCH_NAMES

# What fake tensors raise of their own, and not the operation.
DATA_DEPENDENT = (DataDependentOutputException, DynamicOutputShapeException, GuardOnDataDependentSymNode, Unlikely)
UNSUPPORTED = (UnsupportedFakeTensorException, UnsupportedOperatorException, NotImplementedError)

# Operators that answer with a truth value; the last one does if its tensor holds one.
_ITEM = TORCH_NAMES.operator("aten._local_scalar_dense.default")
_QUESTIONS = frozenset(
    TORCH_NAMES.operator(f"aten.{name}.default") for name in ("equal", "allclose", "is_nonzero", "_local_scalar_dense")
)
# So many series of answers are tried.
_MOST = 16


def is_question(operator: Any, args: tuple[Any, ...]) -> bool:
    """Whether an operator asks for a truth value that is in data."""
    return operator in _QUESTIONS and (operator is not _ITEM or args[0].dtype is torch.bool)


class Answers:
    """One series of answers: those given, then yes to whatever else is asked."""

    def __init__(self, given: tuple[bool, ...] = ()) -> None:
        self._given = given
        self._asked = 0

    def next(self) -> bool:
        self._asked += 1
        return self._given[self._asked - 1] if self._asked <= len(self._given) else True

    def others(self) -> list[tuple[bool, ...]]:
        """The series that begin like this one and say no to one of the new questions."""
        return [(*self._given, *[True] * more, False) for more in range(self._asked - len(self._given))]


def whatever_the_data(run: Callable[[Answers], Any], facts: Callable[[torch.Tensor], Any]) -> list[Any]:
    """Results of an operation that are all the same, one for each series of answers; none if they are not."""
    results: list[Any] = []
    described: list[Any] = []
    waiting: list[tuple[bool, ...]] = [()]
    for _ in range(_MOST):
        answers = Answers(waiting.pop())
        try:
            results.append(run(answers))
        except (*DATA_DEPENDENT, *UNSUPPORTED):
            return []
        except (RuntimeError, ValueError, IndexError):
            pass  # so will the operation itself, where the data says so
        else:
            leaves, structure = pytree.tree_flatten(results[-1])
            described.append((structure, [facts(x) if isinstance(x, torch.Tensor) else (type(x), x) for x in leaves]))
            if described[-1] != described[0]:
                return []
        waiting += answers.others()
        if not waiting:
            return results
    return []
