"""The piece algebra: tensors that are put together from slices of others, in one representation.

However a program says it (split, chunk, unbind, narrow, select, then reshape, squeeze or unsqueeze, then cat or stack),
a join is a list of pieces:

    Piece(source, dim, low, high, shape)      source[..., low:high, ...] along dim, its elements in order, as `shape`

Adjacent pieces of one source form a run, and a run can be made without taking it apart:

* *pure*: the elements before `dim` in the source are as many as those before the joined axis in the result. Then row by
  row the run is what stands in the source: one reshape.
* *even*: all pieces are equally long and of one shape. Then the axis is cut in (pieces, length) and moved to where the
  pieces are joined.

Bounds are sums over all sections and every question is asked of the whole list of operands, so no pass counts on its
own.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

from torch.fx import Node

from framelift.passes import facts, ops
from framelift.passes.build import Builder
from framelift.passes.facts import Reject


@dataclass(frozen=True, slots=True)
class Piece:
    """A slice of a tensor in some shape. A tensor that is no slice of another is a piece of itself: all of it."""

    node: Node  # the operand itself
    source: Node
    dim: int
    low: int
    high: int
    shape: tuple[int, ...]  # as it is joined
    chain: tuple[Node, ...] = ()  # the shape-only calls between slice and operand, last first
    head: tuple[Node, ...] = ()  # the calls that cut it: (item, split), (narrow,)

    @property
    def length(self) -> int:
        return self.high - self.low

    @property
    def is_slice(self) -> bool:
        return bool(self.head)

    @property
    def is_split(self) -> bool:
        """Whether a split, chunk or the like cut it."""
        return self.is_slice and ops.op(self.head[-1]) in ops.SPLITS

    @property
    def is_unbound(self) -> bool:
        return self.is_slice and ops.op(self.head[-1]) == "unbind"

    @property
    def is_part(self) -> bool:
        """Whether its source was taken apart as a whole, and it was not cut by a call of its own."""
        return self.is_split or self.is_unbound

    @property
    def nodes(self) -> tuple[Node, ...]:
        return (*self.chain, *self.head)

    @property
    def kinds(self) -> tuple[str | None, ...]:
        """The shape-only operations between slice and operand."""
        return tuple(ops.op(node) for node in self.chain)

    def continues(self, before: Piece) -> bool:
        """Whether it starts where another piece of the same source ends."""
        return (
            self.is_slice
            and before.is_slice
            and self.source is before.source
            and self.dim == before.dim
            and self.low == before.high
        )


@dataclass(frozen=True, slots=True)
class Join:
    """Pieces joined along an axis. A stack is a join of pieces that are one long on the new axis."""

    node: Node
    dim: int
    pieces: tuple[Piece, ...]
    is_stack: bool

    @property
    def nodes(self) -> tuple[Node, ...]:
        """Everything that takes part."""
        return tuple(dict.fromkeys((self.node, *(node for piece in self.pieces for node in piece.nodes))))

    def runs(self) -> list[Run]:
        """The pieces in maximal runs, in order."""
        found: list[list[Piece]] = []
        for piece in self.pieces:
            if found and piece.continues(found[-1][-1]):
                found[-1].append(piece)
            else:
                found.append([piece])
        return [Run(tuple(pieces), self.dim) for pieces in found]


@dataclass(frozen=True, slots=True)
class Run:
    """Adjacent pieces of one source, joined along an axis."""

    pieces: tuple[Piece, ...]
    joined: int

    @property
    def source(self) -> Node:
        return self.pieces[0].source

    @property
    def dim(self) -> int:
        return self.pieces[0].dim

    @property
    def shape(self) -> tuple[int, ...]:
        shape = list(self.pieces[0].shape)
        shape[self.joined] = sum(piece.shape[self.joined] for piece in self.pieces)
        return tuple(shape)

    @property
    def low(self) -> int:
        return self.pieces[0].low

    @property
    def length(self) -> int:
        return self.pieces[-1].high - self.low

    @property
    def is_whole(self) -> bool:
        """Whether the run is all of its source."""
        return self.pieces[0].is_slice and self.length == facts.shape(self.source)[self.dim]

    @property
    def is_pure(self) -> bool:
        """Whether one reshape of the source makes it."""
        return math.prod(facts.shape(self.source)[: self.dim]) == math.prod(self.shape[: self.joined])

    @property
    def is_even(self) -> bool:
        """Whether all pieces are alike."""
        first = self.pieces[0]
        return first.length > 0 and all(
            piece.length == first.length and piece.shape == first.shape for piece in self.pieces
        )

    @property
    def can_be_made(self) -> bool:
        """Whether it can be made without taking the source apart."""
        return self.pieces[0].is_slice and (self.is_pure or self.is_even)

    def make(self, build: Builder) -> Node:
        """The nodes that make the run from its source."""
        base = build.narrow(self.source, self.dim, self.low, self.length)
        if self.is_pure:
            return shaped(build, base, self.shape)
        return self._even(build, base)

    def _even(self, build: Builder, base: Node) -> Node:
        count, length, joined = len(self.pieces), self.pieces[0].length, self.joined
        sizes = list(facts.shape(base))
        inner = list(self.pieces[0].shape)
        if length == 1:
            rest = sizes[: self.dim] + sizes[self.dim + 1 :]
        else:
            base = build.unflatten(base, self.dim, (count, length))
            rest = sizes[: self.dim] + [length] + sizes[self.dim + 1 :]
        needs_flatten = inner[joined] != 1
        if not needs_flatten:
            del inner[joined]
        if rest == inner:
            base = build.move(base, self.dim, joined)
        else:
            base = build.reshape(build.move(base, self.dim, 0), (count, *inner))
            base = build.move(base, 0, joined)
        return build.flatten(base, joined, joined + 1) if needs_flatten else base


def shaped(build: Builder, x: Node, shape: Sequence[int]) -> Node:
    """x in another shape; two axes merged are said so."""
    sizes = facts.shape(x)
    for dim in range(len(sizes) - 1):
        merged = (*sizes[:dim], sizes[dim] * sizes[dim + 1], *sizes[dim + 2 :])
        if merged == tuple(shape) and 1 not in sizes[dim : dim + 2]:
            return build.flatten(x, dim, dim + 1)
    return build.reshape(x, shape)


# -- reading a graph -----------------------------------------------------------------------------------------------


Sections = dict[Node, tuple[int, list[int]] | None]


def piece_of(node: Node, known: Sections | None = None) -> Piece:
    """A tensor as a piece of what it was cut from, through any shape-only calls.

    `known` remembers the sections of splits whose pieces are asked for one after the other.
    """
    shape = facts.shape(node)
    chain: list[Node] = []
    head = node
    while ops.op(head) in ops.SHAPES:
        call = ops.bind(head)
        if call is None or not isinstance(call.first, Node):
            break
        facts.shape(call.first)
        chain.append(head)
        head = call.first
    cut = slice_of(head, known)
    if cut is None:
        return Piece(node, node, 0, 0, shape[0] if shape else 1, shape)
    source, dim, low, high, nodes = cut
    return Piece(node, source, dim, low, high, shape, tuple(chain), nodes)


def slice_of(node: Node, known: Sections | None = None) -> tuple[Node, int, int, int, tuple[Node, ...]] | None:
    """What a node cuts out of another: (source, dim, low, high, the nodes that do it)."""
    index = ops.index_of(node)
    if index is not None:
        whole = ops.bind(node.args[0])
        if whole is None or index < 0:
            return None
        if known is None or whole.node not in known:
            bounds = sections_of(whole)
            if known is not None:
                known[whole.node] = bounds
        else:
            bounds = known[whole.node]
        if bounds is None:
            return None
        dim, sections = bounds
        return whole.first, dim, sum(sections[:index]), sum(sections[: index + 1]), (node, whole.node)
    call = ops.bind(node)
    if call is None or call.op not in ("narrow", "select"):
        return None
    dim = call.dim()
    size = facts.shape(call.first)[dim]
    low = facts.wrapped(call["start"] if call.op == "narrow" else call["index"], size + (call.op == "narrow"))
    length = facts.integer(call["length"]) if call.op == "narrow" else 1
    return call.first, dim, low, low + length, (node,)


def sections_of(whole: ops.Bound) -> tuple[int, list[int]] | None:
    """The axis and the lengths of the pieces of a split or unbind, as its metadata has them."""
    if whole.op not in (*ops.SPLITS, "unbind"):
        return None
    dim = whole.dim()
    size = facts.shape(whole.first)[dim]
    parts = facts.value(whole.node)
    if not isinstance(parts, list | tuple):
        raise Reject("the pieces are not known")
    sections = [1] * len(parts) if whole.op == "unbind" else [facts.integer(part.shape[dim]) for part in parts]
    if sum(sections) != size:
        raise Reject("the pieces do not make up the whole")
    return dim, sections


def join_of(node: Node) -> Join:
    """A cat or stack as a join of pieces."""
    call = ops.bound(node, "cat", "stack")
    rank = len(facts.shape(node))
    dim = call.dim(rank)
    known: Sections = {}
    pieces = [piece_of(each, known) for each in facts.nodes(call["tensors"])]
    if call.op == "stack":
        pieces = [_unsqueezed(piece, dim) for piece in pieces]
    elif any(len(piece.shape) != rank for piece in pieces):
        raise Reject("an operand of cat is an empty tensor of another rank")
    first = facts.tensor(pieces[0].node)
    if not all(facts.same_kind(first, facts.tensor(piece.node)) for piece in pieces):
        raise Reject("operands differ in dtype or device")
    return Join(node, dim, tuple(pieces), call.op == "stack")


def _unsqueezed(piece: Piece, dim: int) -> Piece:
    shape = (*piece.shape[:dim], 1, *piece.shape[dim:])
    return Piece(piece.node, piece.source, piece.dim, piece.low, piece.high, shape, piece.chain, piece.head)


# -- making a join anew --------------------------------------------------------------------------------------------


def rejoined(join: Join, made: Sequence[bool], runs: Sequence[Run], build: Builder) -> Node:
    """The join with some of its runs made from their sources, the other operands as they were."""
    whole = [run.make(build) if make else None for make, run in zip(made, runs, strict=True)]
    if len(whole) == 1 and whole[0] is not None:
        return whole[0]
    if join.is_stack and not any(made):
        raise Reject("nothing to do")
    operands: list[Node] = []
    for node, run in zip(whole, runs, strict=True):
        if node is not None:
            operands.append(node)
        else:
            operands += [_operand(piece, join, build) for piece in run.pieces]
    return build.cat(operands, join.dim)


def _operand(piece: Piece, join: Join, build: Builder) -> Node:
    return build.unsqueeze(piece.node, join.dim) if join.is_stack else piece.node
