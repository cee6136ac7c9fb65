"""Which rewrite changed a result: found by running the passes again with fewer and fewer rewrites."""

from __future__ import annotations

import copy
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any

import torch
from torch.fx import GraphModule
from torch.utils import _pytree as pytree

from framelift.passes.checking.diff import lines, text_diff
from framelift.passes.options import PassOptions
from framelift.passes.pipeline import pre_grad_passes
from framelift.passes.report import PassReport


@dataclass(frozen=True, slots=True)
class Culprit:
    """The first rewrite with which a graph is no longer good."""

    name: str  # of the pass
    rewrite: int  # its number among all rewrites, from 1
    diff: str  # what it did to the graph

    def __str__(self) -> str:
        return f"rewrite {self.rewrite}, by {self.name}\n{self.diff}"


def bisect_passes(
    gm: GraphModule,
    example_inputs: Sequence[Any],
    is_good: Callable[[GraphModule], bool] | None = None,
    *,
    options: PassOptions | None = None,
    **choice: Any,
) -> Culprit | None:
    """The rewrite that turns a good graph into a bad one; None if all of them leave it good.

    `is_good` judges a graph module; without it the results must be those of `gm` on copies of the inputs. `choice` is
    what `pre_grad_passes` takes besides. The graph itself is left as it is.

    >>> print(bisect_passes(gm, inputs, lambda candidate: torch.allclose(candidate(*inputs), expected)))
    """
    asked = options if options is not None else PassOptions()
    judge = is_good if is_good is not None else _same_as(gm, example_inputs)

    def after(rewrites: int | None) -> GraphModule:
        candidate = copy.deepcopy(gm)
        return pre_grad_passes(candidate, example_inputs, options=replace(asked, max_rewrites=rewrites), **choice)

    whole = after(None)
    if judge(whole):
        return None
    good, bad = 0, _count(whole)
    while bad - good > 1:
        middle = (good + bad) // 2
        if judge(after(middle)):
            good = middle
        else:
            bad = middle
    before, broken = after(good), after(bad)
    name = _last_of(broken.meta["pass_report"], before.meta["pass_report"])
    return Culprit(name, bad, text_diff(lines(before.graph), lines(broken.graph), name))


def _count(gm: GraphModule) -> int:
    report: PassReport = gm.meta["pass_report"]
    return report.rewrites


def _last_of(more: PassReport, fewer: PassReport) -> str:
    """The pass that made one rewrite more."""
    counts = [record.rewrites for record in fewer.records]
    for index, record in enumerate(more.records):
        if record.rewrites > (counts[index] if index < len(counts) else 0):
            return record.name
    return ""


def _same_as(gm: GraphModule, example_inputs: Sequence[Any]) -> Callable[[GraphModule], bool]:
    def run(module: GraphModule) -> list[Any]:
        copies = [each.detach().clone() if isinstance(each, torch.Tensor) else each for each in example_inputs]
        with torch.random.fork_rng(), torch.no_grad():
            torch.manual_seed(0)
            return pytree.tree_leaves((copy.deepcopy(module)(*copies), copies))

    expected = run(gm)

    def is_good(candidate: GraphModule) -> bool:
        found = run(candidate)
        return len(found) == len(expected) and all(map(_equal, found, expected))

    return is_good


def _equal(one: Any, other: Any) -> bool:
    if isinstance(one, torch.Tensor) and isinstance(other, torch.Tensor):
        return one.dtype == other.dtype and torch.equal(one.nan_to_num(), other.nan_to_num())
    return bool(one == other)
