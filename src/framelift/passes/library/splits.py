"""Splits that are not needed: pieces put together as they were, pieces nobody uses, splits of splits."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping

import torch
from torch.fx import Node

from framelift.passes import facts, ops
from framelift.passes.analysis.pieces import Join, Piece, Run, sections_of, slice_of
from framelift.passes.build import Builder
from framelift.passes.declare import Match, Rewrite, Work, register
from framelift.passes.facts import NoMatch, Reject
from framelift.passes.library.noop import SameView
from framelift.passes.library.pointwise import applied, check_place, unary
from framelift.passes.library.reassemble import Reassembled
from framelift.passes.ops import Bound

SPLITS = tuple(sorted(ops.SPLITS))


def split_at(node: Node) -> tuple[Bound, int, list[int], dict[int, Node]]:
    """A split: the call, its axis, its sections, and its pieces that are used."""
    call = ops.bound(node, *SPLITS)
    bounds = sections_of(call)
    assert bounds is not None
    return call, *bounds, ops.items_of(node)


def drop_single_pieces(rule: SameView, work: Work) -> None:
    """The piece of a split in one piece is what was split."""
    for node in reversed([node for node in work.calls() if ops.index_of(node) is not None]):
        work.try_at(rule, node)


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
        if any(work.may_be_written(item) for item in items.values()):
            raise Reject("a piece may be written, which autograd forbids for pieces of a split only")
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


class CoarserSplit(Rewrite):
    """Neighbouring pieces that only one cat uses, side by side and along the axis of the split: one larger piece."""

    name = "merge_getitem_cat_pass"
    roots = SPLITS

    def match(self, root: Node, work: Work) -> Match | None:
        call, dim, sections, items = split_at(root)
        cats = [user for item in items.values() for user in item.users if _joins(user, dim)]
        index_of = {item: index for index, item in items.items() if len(item.users) == 1}
        runs = {cat: found for cat in cats if (found := _runs_in(cat, index_of))}
        if not runs:
            raise NoMatch("no neighbouring pieces in a cat")
        return Match(root, *items.values(), *runs, x=call.first, dim=dim, sections=sections, items=items, runs=runs)

    def condition(self, match: Match, work: Work) -> str | None:
        written = any(work.has_later_write(node) for node in match.nodes)
        return "written later, which a piece of a split cannot be" if written else None

    def rewrite(self, match: Match, build: Builder) -> Mapping[Node, Node]:
        ends = dict(bound for found in match.runs.values() for bound in found)
        sections: list[int] = []
        place: dict[int, int] = {}  # of an old piece: the number of the new one
        index = 0
        while index < len(match.sections):
            end = ends.get(index, index + 1)
            place.update(dict.fromkeys(range(index, end), len(sections)))
            sections.append(sum(match.sections[index:end]))
            index = end
        if len(sections) == 1:
            pieces = {0: match.x}
        else:
            whole = build.call(torch.split, match.x, sections, match.dim)
            pieces = {at: build.item(whole, at) for at in sorted({place[index] for index in match.items})}
        new = {item: pieces[place[index]] for index, item in match.items.items()}
        whole_pieces = Counter(place.values())
        made = {item: new[item] for index, item in match.items.items() if whole_pieces[place[index]] == 1}
        for cat in match.runs:
            operands = [new.get(each, each) for each in facts.nodes(ops.bound(cat, "cat")["tensors"])]
            made[cat] = build.cat(list(dict.fromkeys(operands)), match.dim)
        return made


def _joins(node: Node, dim: int) -> bool:
    """Whether a node is a cat of distinct operands along an axis."""
    call = ops.bind(node)
    if call is None or call.op != "cat":
        return False
    operands = facts.nodes(call["tensors"])
    return call.dim(facts.rank(node)) == dim and len(set(operands)) == len(operands)


def _runs_in(cat: Node, index_of: dict[Node, int]) -> list[tuple[int, int]]:
    """The pieces that stand in a cat side by side as they were cut: (first, behind the last) of two or more."""
    found: list[tuple[int, int]] = []
    for operand in facts.nodes(ops.bound(cat, "cat")["tensors"]):
        index = index_of.get(operand)
        if index is None:
            found.append((0, 0))
        elif found and found[-1][1] == index > 0:
            found[-1] = (found[-1][0], index + 1)
        else:
            found.append((index, index + 1))
    return [(low, high) for low, high in found if high - low > 1]


class SqueezedPieces(Rewrite):
    """A split in pieces of one, each squeezed: an unbind."""

    name = "split_cat_pass"
    roots = SPLITS

    def match(self, root: Node, work: Work) -> Match | None:
        call, dim, sections, items = split_at(root)
        if set(sections) != {1} or len(items) < len(sections):
            raise NoMatch("not all pieces of one")
        squeezed = [ops.bound(user, "squeeze") for item in items.values() for user in item.users]
        if len(squeezed) < len(items) or any(_squeezed_axes(each) != (dim,) for each in squeezed):
            raise NoMatch("not every piece is squeezed")
        index_of = {item: index for index, item in items.items()}
        results = {each.node: index_of[each.first] for each in squeezed}
        return Match(root, *items.values(), *results, place=root.next, x=call.first, dim=dim, results=results)

    def rewrite(self, match: Match, build: Builder) -> Mapping[Node, Node]:
        parts = build.unbind(match.x, match.dim)
        return {node: parts[index] for node, index in match.results.items()}


@register
class CopyPieces(Rewrite):
    """Every piece of a split copied by a call of its own: all by one call. Passes that merge calls leave this behind
    where each result must be a tensor of its own."""

    name = "copy_pieces"
    roots = SPLITS

    def match(self, root: Node, work: Work) -> Match | None:
        call, dim, sections, items = split_at(root)
        if len(items) < max(2, len(sections)) or any(len(item.users) > 1 for item in items.values()):
            raise NoMatch("not every piece is used, and once")
        copies = [ops.bound(user, "contiguous") for item in items.values() for user in item.users]
        if any(
            each["memory_format"] is not None or facts.contiguity(facts.tensor(each.first)) is not False
            for each in copies
        ):
            raise NoMatch("not every piece is copied")
        results = [each.node for each in copies]
        return Match(root, *items.values(), *results, x=call.first, dim=dim, sections=sections, results=results)

    def profit(self, match: Match, work: Work) -> bool:
        return not work.options.fusing_backend

    def rewrite(self, match: Match, build: Builder) -> Mapping[Node, Node]:
        whole = build.call(torch.split_with_sizes_copy, match.x, match.sections, match.dim)
        return {node: build.item(whole, index) for index, node in enumerate(match.results)}


def _squeezed_axes(call: Bound) -> tuple[int, ...]:
    """The axes a squeeze drops."""
    given = call["dim"]
    rank = facts.rank(call.first)
    sizes = facts.shape(call.first)
    wanted = range(rank) if given is None else [facts.wrapped(dim, rank) for dim in _listed(given)]
    return tuple(dim for dim in wanted if sizes[dim] == 1)


def _listed(given: object) -> tuple[int, ...]:
    return (given,) if isinstance(given, int) else facts.ints(given)


@register
class RemoveSplitOpsPass(Rewrite):
    """Drops splits that nobody needs; see the classes above."""

    name = "remove_split_ops_pass"
    roots = ("cat", *SPLITS)

    def run(self, work: Work) -> None:
        drop_single_pieces(SameView(), work)
        for rule in (WholeAgain(), PointwiseAround(), FewUsed(), SplitOfSplit()):
            work.rewrite_all(rule)
