"""Several products that are one: on the same input, or summed over the slices of an input."""

from __future__ import annotations

import itertools
from collections.abc import Hashable, Mapping, Sequence
from dataclasses import dataclass

import torch
from torch.fx import Node

from framelift.passes import facts, ops
from framelift.passes.analysis.pieces import Piece, Run, piece_of
from framelift.passes.build import Builder
from framelift.passes.declare import Fusion, Match, Rewrite, Work, register
from framelift.passes.facts import NoMatch, Reject


@dataclass(frozen=True, slots=True)
class Linear:
    """A call of linear with a matrix as weight."""

    node: Node
    x: Node
    weight: Node
    bias: Node | None

    @property
    def rows(self) -> int:
        """How many vectors are multiplied."""
        sizes = facts.shape(self.x)
        return facts.tensor(self.x).numel() // max(sizes[-1], 1)

    @property
    def inner(self) -> int:
        return facts.shape(self.weight)[1]

    @property
    def outer(self) -> int:
        return facts.shape(self.weight)[0]

    @property
    def operands(self) -> list[Node]:
        return [each for each in (self.x, self.weight, self.bias) if each is not None]


def linear_at(node: Node) -> Linear:
    """A node as a linear; anything else is no match."""
    call = ops.bound(node, "linear")
    found = Linear(node, call["input"], call["weight"], call["bias"])
    if facts.rank(found.weight) != 2:
        raise Reject("the weight is not a matrix")
    if found.bias is not None and facts.shape(found.bias) != (found.outer,):
        raise Reject("the bias is not one number per output")
    if not facts.shape(found.x):
        raise Reject("the input is not a vector")
    if len({facts.tensor(each).dtype for each in (*found.operands, node)}) > 1:
        raise Reject("operands differ in dtype")
    return found


def packed_bias(linears: Sequence[Linear], build: Builder) -> Node | None:
    biases = [each.bias for each in linears if each.bias is not None]
    return build.pack(biases, (torch.cat, 0)) if biases else None


@register
class FuseParallelLinearPass(Fusion):
    """Linears on one input: one linear with all weights, split again."""

    name = "fuse_parallel_linear_pass"
    exactness = "approx"
    roots = ("linear",)
    min_size = 2

    def key(self, node: Node, work: Work) -> Hashable | None:
        found = linear_at(node)
        work.check_unwritten(node)
        return found.x, found.bias is None

    def gather(self, group: list[Node], work: Work) -> Match | None:
        return Match(group[0], *group[1:], linears=[linear_at(node) for node in group])

    def may_pay(self, bucket: list[Node], work: Work) -> bool:
        # (See profit: on CPUs only what is folded pays.)
        return work.options.freeze_weights or facts.tensor(bucket[0]).device.type == "cuda"

    def profit(self, match: Match, work: Work) -> bool:
        linears: list[Linear] = match.linears
        folded = work.can_fold([each for one in linears for each in one.operands[1:]])
        rows = linears[0].rows
        sizes = [rows * each.inner * each.outer for each in linears]
        if facts.tensor(linears[0].x).device.type == "cuda":
            # Small products take less time than their launch.
            return (rows <= 256 or max(sizes) < 100_000_000) if folded else rows >= 1024
        # On CPUs packing on every call costs more than it gains, and so does merging large products.
        return folded and sum(sizes) < 10_000_000

    def rewrite(self, match: Match, build: Builder) -> Mapping[Node, Node]:
        linears: list[Linear] = match.linears
        weight = build.pack([each.weight for each in linears], (torch.cat, 0))
        whole = build.linear(linears[0].x, weight, packed_bias(linears, build))
        parts = build.split(whole, [each.outer for each in linears], facts.rank(whole) - 1)
        return {each.node: part for each, part in zip(linears, parts, strict=True)}


@register
class FuseSplitLinearAddPass(Rewrite):
    """The sum of linears on the slices of an input: one linear on the input."""

    name = "fuse_split_linear_add_pass"
    exactness = "approx"
    roots = ("add",)

    def match(self, root: Node, work: Work) -> Match | None:
        if any(_is_plain_add(user, facts.shape(root)) and len(root.users) == 1 for user in root.users):
            raise NoMatch("part of a larger sum")
        adds: list[Node] = []
        terms = _terms(root, facts.shape(root), adds)
        slices = [(one, piece) for term in terms if (one := _linear_term(term, adds)) and (piece := _slice(one))]
        run, linears = _longest(slices)
        others = [term for term in terms if term not in {each.node for each in linears}]
        nodes = [*adds, *(each.node for each in linears), *(node for piece in run.pieces for node in piece.nodes)]
        return Match(root, *nodes, run=run, linears=linears, others=others)

    def profit(self, match: Match, work: Work) -> bool:
        linears: list[Linear] = match.linears
        folded = work.can_fold([each.weight for each in linears])
        return folded or (linears[0].rows >= 64 and len(linears) >= 4)

    def rewrite(self, match: Match, build: Builder) -> Mapping[Node, Node]:
        run: Run = match.run
        linears: list[Linear] = match.linears
        x = build.narrow(run.source, run.dim, run.low, run.length)
        weight = build.pack([each.weight for each in linears], (torch.cat, 1))
        total = build.linear(x, weight, _summed_bias(linears, build))
        return {match.root: build.sum([total, *match.others])}


@register
class FuseLinearSplitAdd(Rewrite):
    """The sum of all equal pieces of a linear: a linear with the sum of the pieces of its weight."""

    name = "fuse_linear_split_add"
    exactness = "approx"
    roots = ("add",)

    def match(self, root: Node, work: Work) -> Match | None:
        adds: list[Node] = []
        terms = _terms(root, facts.shape(root), adds)
        pieces = [piece_of(term) for term in terms if len(term.users) == 1]
        for linear in dict.fromkeys(piece.source for piece in pieces if ops.op(piece.source) == "linear"):
            own = sorted((piece for piece in pieces if piece.source is linear), key=lambda piece: piece.low)
            if _are_all_pieces(own, linear):
                others = [term for term in terms if term not in {piece.node for piece in own}]
                nodes = [*adds, linear, *(node for piece in own for node in piece.nodes)]
                return Match(root, *nodes, linear=linear_at(linear), count=len(own), others=others)
        raise NoMatch("not all pieces of a linear")

    def profit(self, match: Match, work: Work) -> bool:
        # Summing the weight on every call costs as much as multiplying a few rows.
        return work.can_fold(match.linear.operands[1:]) or match.linear.rows >= 8

    def rewrite(self, match: Match, build: Builder) -> Mapping[Node, Node]:
        linear: Linear = match.linear
        weight, bias = (each and _folded(each, match.count, build) for each in (linear.weight, linear.bias))
        total = build.linear(linear.x, weight, bias)
        return {match.root: build.sum([total, *match.others])}


def _are_all_pieces(pieces: list[Piece], whole: Node) -> bool:
    """Whether equal pieces, each once, make up the last axis of what only they are cut from."""
    last = facts.rank(whole) - 1
    if len(pieces) < 2 or any(piece.chain or piece.dim != last for piece in pieces):
        return False
    run = Run(tuple(pieces), last)
    follow = all(one.continues(before) for before, one in itertools.pairwise(pieces))
    cutting = {piece.head[-1] for piece in pieces}
    return follow and run.is_whole and run.is_even and cutting >= set(whole.users)


def _folded(parameter: Node, count: int, build: Builder) -> Node:
    """The sum of equal parts of a weight or bias."""
    shape = facts.shape(parameter)
    parts = (count, shape[0] // count)
    if build.folds([parameter]):
        return build.pack([parameter], (torch.cat, 0), (torch.unflatten, 0, parts), (torch.sum, 0))
    return build.call(torch.sum, build.unflatten(parameter, 0, parts), 0)


def _summed_bias(linears: Sequence[Linear], build: Builder) -> Node | None:
    biases = [each.bias for each in linears if each.bias is not None]
    if not biases:
        return None
    if build.folds(biases):
        return build.pack(biases, (torch.stack, 0), (torch.sum, 0))
    return build.sum(biases)


def _is_plain_add(node: Node, shape: tuple[int, ...]) -> bool:
    call = ops.bind(node)
    if call is None or call.op != "add" or call["alpha"] != 1:
        return False
    return facts.value(node) is not None and tuple(facts.value(node).shape) == shape


def _terms(node: Node, shape: tuple[int, ...], adds: list[Node]) -> list[Node]:
    """The terms of a sum, through adds that nobody else uses; all of the sum's own shape."""
    if not _is_plain_add(node, shape) or (adds and len(node.users) > 1):
        return [node]
    call = ops.bound(node, "add")
    operands = [call["input"], call["other"]]
    if not all(isinstance(each, Node) and facts.shape(each) == shape for each in operands):
        return [node]
    adds.append(node)
    return [term for operand in operands for term in _terms(operand, shape, adds)]


def _linear_term(node: Node, adds: list[Node]) -> Linear | None:
    if ops.op(node) != "linear" or len(node.users) > 1 or not adds:
        return None
    return linear_at(node)


def is_term(linear: Linear) -> bool:
    """Whether fuse_split_linear_add_pass might take it: a linear on a slice, used in a sum alone."""
    (user, *others) = list(linear.node.users) or [None]
    return not others and user is not None and _is_plain_add(user, facts.shape(linear.node)) and bool(_slice(linear))


def _slice(linear: Linear) -> Piece | None:
    piece = piece_of(linear.x)
    last = facts.rank(piece.source) - 1
    return piece if piece.is_slice and not piece.chain and piece.dim == last else None


def _longest(slices: list[tuple[Linear, Piece]]) -> tuple[Run, list[Linear]]:
    """The most slices of one source that lie side by side; a slice used twice is not among them."""
    by_source: dict[Node, list[tuple[Linear, Piece]]] = {}
    for one in slices:
        by_source.setdefault(one[1].source, []).append(one)
    best: list[tuple[Linear, Piece]] = []
    for group in by_source.values():
        group.sort(key=lambda one: one[1].low)
        current = group[:1]
        for one in group[1:]:
            current = [*current, one] if one[1].continues(current[-1][1]) else [one]
            best = max(best, current, key=len)
    if len(best) < 2:
        raise NoMatch("no slices of one input side by side")
    return Run(tuple(piece for _, piece in best), best[0][1].dim), [linear for linear, _ in best]
