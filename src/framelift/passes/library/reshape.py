"""Shapes on the way: several shape-only calls are one reshape, and rows need not be regrouped for a row-wise call."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from torch.fx import Node

from framelift.passes import facts, ops
from framelift.passes.build import Builder
from framelift.passes.declare import Match, Rewrite, Work, register
from framelift.passes.facts import NoMatch, Reject
from framelift.passes.library.pointwise import check_layout, unary
from framelift.passes.ops import Bound

SHAPES = tuple(sorted(ops.SHAPES))


class ShapeOfShape(Rewrite):
    """A shape-only call on the result of another, which nobody else uses."""

    name = "remove_reshape_pass"
    roots = SHAPES

    def match(self, root: Node, work: Work) -> Match | None:
        inner = ops.bound(ops.bound(root, *SHAPES).first, *SHAPES)
        if len(inner.node.users) > 1:
            raise NoMatch("the shape in between is used")
        return Match(root, inner.node, x=inner.first, shape=facts.shape(root))

    def rewrite(self, match: Match, build: Builder) -> Mapping[Node, Node]:
        return {match.root: build.reshape(match.x, match.shape)}


class Sandwich(Rewrite):
    """reshape, a call that treats every row alike, reshape back: the call as it is."""

    name = "remove_reshape_pass"
    roots = SHAPES

    def match(self, root: Node, work: Work) -> Match | None:
        outer = ops.bound(root, *SHAPES)
        middle = ops.bind(outer.first)
        if middle is None or not isinstance(middle.arguments.get("input"), Node) or len(middle.node.users) > 1:
            raise NoMatch("no call in between")
        inner = ops.bound(middle["input"], *SHAPES)
        if len(inner.node.users) > 1:
            raise NoMatch("the shape in between is used")
        kept = _kept_dims(middle, work)
        x, between, after = facts.shape(inner.first), facts.shape(inner.node), facts.shape(root)
        result = facts.shape(middle.node)
        if len(x) < kept or x[len(x) - kept :] != between[len(between) - kept :]:
            raise Reject("the reshape regroups what the call works on")
        if after != (*x[: len(x) - kept], *result[len(result) - kept :]):
            raise Reject("the rows are not put back as they were")
        return Match(root, middle.node, inner.node, x=inner.first, middle=middle)

    def rewrite(self, match: Match, build: Builder) -> Mapping[Node, Node]:
        middle: Bound = match.middle
        arguments = middle.operation.without_defaults({**middle.arguments, "input": match.x})
        if isinstance(arguments.get("dim"), int):
            arguments["dim"] = -1
        return {match.root: build.call(middle.operation.emitted, **arguments)}


def _linear(call: Bound, work: Work) -> int:
    if not work.options.approximate:
        raise Reject("another shape may be multiplied in another way")
    return 1


def _normalized(call: Bound, work: Work) -> int:
    return len(facts.ints(call["normalized_shape"]))


def _over_last(call: Bound, work: Work) -> int:
    rank = facts.rank(call["input"])
    if call["dim"] is None or facts.wrapped(call["dim"], rank) != rank - 1:
        raise Reject("works on another axis than the last")
    return 1


# How many of the last axes a call works on together.
ROW_WISE: dict[str, Callable[[Bound, Work], int]] = {
    "linear": _linear,
    "layer_norm": _normalized,
    "rms_norm": _normalized,
    "softmax": _over_last,
    "torch_softmax": _over_last,
    "log_softmax": _over_last,
}


def _kept_dims(call: Bound, work: Work) -> int:
    if call.op in ROW_WISE:
        return ROW_WISE[call.op](call, work)
    check_layout(unary(call.node), work)
    return 0


@register
class RemoveReshapePass(Rewrite):
    """Drops shape-only calls that undo or follow each other."""

    name = "remove_reshape_pass"
    roots = SHAPES

    def run(self, work: Work) -> None:
        work.rewrite_all(ShapeOfShape())
        work.rewrite_all(Sandwich())
