"""Two passes of the split-cat family that are not about pieces alone: a stack undone around a pointwise call, and small
einsums as multiplication and sum."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import ClassVar

import torch
from torch.fx import Node

from framelift.passes import facts, ops
from framelift.passes.analysis.pieces import join_of
from framelift.passes.build import Builder
from framelift.passes.declare import Match, Rewrite, Work, register
from framelift.passes.facts import NoMatch, Reject
from framelift.passes.library.pointwise import applied, check_place, unary


@register
class MergeStackTahnUnbindPass(Rewrite):
    """All pieces of a split stacked, one pointwise call, taken apart again: the call on the whole, then the split."""

    name = "merge_stack_tahn_unbind_pass"
    group = "split_cat"
    roots = ("unbind",)

    def match(self, root: Node, work: Work) -> Match | None:
        outer = ops.bound(root, "unbind")
        middle = unary(outer.first)
        join = join_of(ops.bound(middle["input"], "stack").node)
        runs = join.runs()
        if len(runs) > 1 or not runs[0].is_whole or any(piece.chain for piece in join.pieces):
            raise NoMatch("not all pieces of a split in order")
        if outer.dim() != join.dim or any(len(node.users) > 1 for node in (middle.node, join.node)):
            raise NoMatch("not taken apart as it was put together")
        if not join.pieces[0].is_split:
            raise NoMatch("not the pieces of a split")
        check_place(middle, work)
        items = ops.items_of(root)
        return Match(root, middle.node, *join.nodes, *items.values(), run=runs[0], call=middle, items=items)

    def rewrite(self, match: Match, build: Builder) -> Mapping[Node, Node]:
        whole = build.call(match.call.operation.emitted, match.run.source, **applied(match.call))
        parts = build.split(whole, [piece.length for piece in match.run.pieces], match.run.dim)
        return {item: parts[index] for index, item in match.items.items()}


VECTOR_TIMES_MATRIX = re.compile(r"(\w)(\w)(\w),\1\2\3(\w)->\1\2\4")


@register
class EinsumToPointwisePass(Rewrite):
    """A batch of small vector-matrix products that something is added to: multiplication and sum, for backends that
    fuse them."""

    name = "einsum_to_pointwise_pass"
    group = "split_cat"
    exactness = "approx"
    roots = ("einsum",)
    largest: ClassVar[int] = 4096

    def match(self, root: Node, work: Work) -> Match | None:
        equation, operands = root.args[0], list(root.args[1:])
        found = VECTOR_TIMES_MATRIX.fullmatch(str(equation).replace(" ", ""))
        if found is None or len(set(found.groups())) < 4:
            raise NoMatch("not a batch of vector-matrix products")
        if len(operands) == 1 and isinstance(operands[0], list | tuple):
            operands = list(operands[0])
        x, weight = facts.nodes(operands)
        if not any(ops.op(user) == "add" for user in root.users):
            raise Reject("nothing is added to the product")
        return Match(root, x=x, weight=weight)

    def profit(self, match: Match, work: Work) -> bool:
        *_, inner, outer = facts.shape(match.weight)
        return work.options.fusing_backend and inner * outer <= self.largest

    def rewrite(self, match: Match, build: Builder) -> Mapping[Node, Node]:
        product = build.call(torch.mul, build.unsqueeze(match.x, 3), match.weight)
        return {match.root: build.call(torch.sum, product, 2)}
