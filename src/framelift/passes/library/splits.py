"""Splits that are not needed: pieces put together as they were, pieces nobody uses, splits of splits."""

from __future__ import annotations

from collections.abc import Mapping

import torch
from torch.fx import Node

from framelift.passes import facts, ops
from framelift.passes.build import Builder
from framelift.passes.declare import Match, Rewrite, register
from framelift.passes.facts import NoMatch, Reject
from framelift.passes.library.noop import SameView
from framelift.passes.library.pointwise import applied, check_place, unary
from framelift.passes.library.reassemble import Reassembled
from framelift.passes.ops import Bound
from framelift.passes.pieces import Join, Piece, Run, sections_of, slice_of
from framelift.passes.work import Work

SPLITS = tuple(sorted(ops.SPLITS))


def split_at(node: Node) -> tuple[Bound, int, list[int], dict[int, Node]]:
    """A split: the call, its axis, its sections, and its pieces that are used."""
    call = ops.bound(node, *SPLITS)
    bounds = sections_of(call)
    assert bounds is not None
    return call, *bounds, ops.items_of(node)


class WholeAgain(Reassembled):
    """cat of all pieces in order is what was split."""

    name = "remove_split_ops_pass"

    def takes(self, piece: Piece, join: Join) -> bool:
        return piece.is_slice and not piece.chain and piece.dim == join.dim

    def wants(self, run: Run, join: Join, work: Work) -> bool:
        return run.is_whole


class PointwiseAround(Rewrite):
    """The same pointwise operation on every piece, then cat: the operation on the whole."""

    name = "remove_split_ops_pass"
    roots = ("cat",)

    def match(self, root: Node, work: Work) -> Match | None:
        call = ops.bound(root, "cat")
        dim = call.dim(facts.rank(root))
        each = [unary(node) for node in facts.nodes(call["tensors"])]
        first = each[0]
        if any((other.op, other.rest()) != (first.op, first.rest()) for other in each[1:]):
            raise Reject("the pieces are not treated alike")
        high = 0
        nodes: list[Node] = []
        sources = set()
        for one in each:
            cut = slice_of(one["input"])
            if cut is None or cut[1] != dim or cut[2] != high or set(one.node.users) != {root} or not _keeps_axis(cut):
                raise NoMatch("not the pieces of a split in order")
            source, _, _, high, cutting = cut
            sources.add(source)
            nodes += [one.node, *cutting]
        if len(sources) > 1 or high != facts.shape(source)[dim]:
            raise NoMatch("not all pieces of one split")
        for one in each:
            check_place(one, work)
        return Match(root, *nodes, source=source, call=first)

    def rewrite(self, match: Match, build: Builder) -> Mapping[Node, Node]:
        call = match.call
        return {match.root: build.call(call.operation.emitted, match.source, **applied(call))}


def _keeps_axis(cut: tuple[Node, int, int, int, tuple[Node, ...]]) -> bool:
    return ops.op(cut[-1][-1]) in ops.SPLITS | {"narrow"}


class FewUsed(Rewrite):
    """A split of which at most half is used: only these pieces are cut."""

    name = "remove_split_ops_pass"
    roots = SPLITS

    def match(self, root: Node, work: Work) -> Match | None:
        call, dim, sections, items = split_at(root)
        if not items or 2 * len(items) > len(sections):
            raise NoMatch("most pieces are used")
        if any(work.has_later_write(item) for item in items.values()):
            raise Reject("a piece is written, which autograd forbids for pieces of a split only")
        return Match(root, *items.values(), place=root, x=call.first, dim=dim, sections=sections, items=items)

    def rewrite(self, match: Match, build: Builder) -> Mapping[Node, Node]:
        made = {}
        for index, item in match.items.items():
            start = sum(match.sections[:index])
            made[item] = build.call(torch.narrow, match.x, match.dim, start, match.sections[index])
        return made


class SplitOfSplit(Rewrite):
    """A piece that is split again along the same axis: one split with all sections."""

    name = "merge_splits_pass"
    roots = SPLITS

    def match(self, root: Node, work: Work) -> Match | None:
        inner, dim, inner_sections, inner_items = split_at(root)
        piece = inner.first
        index = ops.index_of(piece)
        if index is None or set(piece.users) != {root}:
            raise NoMatch("not a split of a piece")
        outer, outer_dim, outer_sections, outer_items = split_at(piece.args[0])
        if outer_dim != dim:
            raise Reject("splits along different axes")
        sections = [*outer_sections[:index], *inner_sections, *outer_sections[index + 1 :]]
        shift = len(inner_sections) - 1
        items = {item: at if at < index else at + shift for at, item in outer_items.items() if at != index}
        items |= {item: index + at for at, item in inner_items.items()}
        nodes = (outer.node, piece, *items)
        return Match(root, *nodes, place=outer.node, x=outer.first, dim=dim, sections=sections, items=items)

    def rewrite(self, match: Match, build: Builder) -> Mapping[Node, Node]:
        whole = build.call(torch.split, match.x, match.sections, match.dim)
        return {item: build.item(whole, index) for item, index in match.items.items()}


@register
class RemoveSplitOpsPass(Rewrite):
    """Drops splits that nobody needs; see the classes above."""

    name = "remove_split_ops_pass"

    def run(self, work: Work) -> None:
        views = SameView()
        for node in reversed([node for node in work.calls() if ops.index_of(node) is not None]):
            work.try_at(views, node)
        for rule in (WholeAgain(), PointwiseAround(), FewUsed(), SplitOfSplit()):
            work.rewrite_all(rule)
