"""Attention written out, as one call."""

from __future__ import annotations

from collections.abc import Mapping
from typing import ClassVar

from torch.fx import Node
from torch.nn import functional

from framelift.passes import facts, ops
from framelift.passes.analysis.effects import is_random
from framelift.passes.build import Builder
from framelift.passes.declare import Match, Rewrite, Work, register
from framelift.passes.facts import NoMatch, Reject
from framelift.passes.library.interactions import PRODUCTS, swapped

SOFTMAX = ("softmax", "torch_softmax")


@register
class FuseSdpa(Rewrite):
    """softmax(q kᵀ · scale + mask) v, as one call.

    A mask may hide a whole row, for which the two differ (NaN here, 0 there), so masks are left alone unless the pass
    is among the options' `allow_semantic_changes`.
    """

    name = "fuse_sdpa"
    exactness = "approx"
    roots: ClassVar[tuple[str, ...]] = PRODUCTS

    def match(self, root: Node, work: Work) -> Match | None:
        outer = ops.bound(root, *PRODUCTS)
        weights, value = outer.first, list(outer.arguments.values())[1]
        steps = [weights]
        if ops.op(weights) == "dropout":
            if is_random(weights):
                raise Reject("dropout is active")
            weights = ops.bound(weights, "dropout")["input"]
            steps.append(weights)
        softmax = ops.bound(weights, *SOFTMAX)
        if facts.wrapped(softmax["dim"], facts.rank(weights)) != facts.rank(weights) - 1:
            raise Reject("softmax over another axis")
        masked, mask = _masked(softmax["input"])
        if mask is not None and self.name not in work.options.allow_semantic_changes:
            raise Reject("a mask may hide a whole row")
        scores, scale = _scaled(masked)
        steps += [softmax["input"], masked, scores]
        product = ops.bound(scores, *PRODUCTS)
        query, transposed = list(product.arguments.values())[:2]
        found = {"query": query, "key": swapped(transposed), "value": value, "mask": mask, "scale": scale}
        if any(len(step.users) > 1 for step in steps):
            raise Reject("the weights are used elsewhere")
        return Match(root, *steps, scores=scores, **found)

    def condition(self, match: Match, work: Work) -> str | None:
        parts = [facts.tensor(each) for each in (match.query, match.key, match.value)]
        if any(part.dim() not in (3, 4) or part.shape[:-2] != parts[0].shape[:-2] for part in parts):
            return "not attention over a batch"
        values = [facts.tensor(node) for node in match.nodes]
        if any(each.dtype != parts[0].dtype or not each.is_floating_point() for each in (*parts, *values)):
            return "a step is computed in another precision"
        if match.mask is not None and facts.tensor(match.mask).dtype != parts[0].dtype:
            return "the mask has another dtype"
        return None

    def rewrite(self, match: Match, build: Builder) -> Mapping[Node, Node]:
        fused = functional.scaled_dot_product_attention
        mask = {} if match.mask is None else {"attn_mask": match.mask}
        return {match.root: build.call(fused, match.query, match.key, match.value, scale=match.scale, **mask)}


def _masked(node: Node) -> tuple[Node, Node | None]:
    """Scores, and the mask that is added to them, if any: the operand that is not computed from a product."""
    call = ops.bind(node)
    if call is None or call.op != "add" or call["alpha"] != 1:
        return node, None
    if not isinstance(call["other"], Node) or facts.shape(call["input"]) != facts.shape(node):
        raise Reject("not scores and a mask")
    return call["input"], call["other"]


def _scaled(node: Node) -> tuple[Node, float]:
    """What is scaled by a constant, and by how much."""
    call = ops.bind(node)
    if call is None or call.op not in ("mul", "div"):
        return node, 1.0
    factor = call["other"]
    if type(factor) not in (int, float) or not factor:
        raise NoMatch("not scaled by a constant")
    return call["input"], float(factor if call.op == "mul" else 1 / factor)
