"""relu that stops NaNs: changes results, so it acts only where it is asked for."""

from __future__ import annotations

import math
from collections.abc import Mapping

import torch
from torch.fx import Node

from framelift.passes import facts, ops
from framelift.passes.build import Builder
from framelift.passes.declare import Match, Rewrite, Work, register


@register
class ReluNanToNum(Rewrite):
    """relu(x) becomes relu(nan_to_num(x, 0)): NaN gives 0, infinities stay."""

    name = "relu_nan_to_num"
    exactness = "semantic"
    roots = ("relu",)

    def match(self, root: Node, work: Work) -> Match | None:
        call = ops.bound(root, "relu")
        return Match(root, x=call["input"])

    def condition(self, match: Match, work: Work) -> str | None:
        if not facts.tensor(match.x).is_floating_point():
            return "not a floating-point tensor"
        before = ops.bind(match.x)
        if before is not None and before.op == "nan_to_num" and before["nan"] in (None, 0, 0.0):
            return "has no NaN already"
        return None

    def rewrite(self, match: Match, build: Builder) -> Mapping[Node, Node]:
        finite = build.call(torch.nan_to_num, match.x, nan=0.0, posinf=math.inf, neginf=-math.inf)
        return {match.root: build.call(torch.relu, finite)}
