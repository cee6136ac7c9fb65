"""cat of cat copies twice; the same cat made twice is made once."""

from __future__ import annotations

from collections.abc import Mapping

from torch.fx import Node

from framelift.passes import facts, ops
from framelift.passes.build import Builder
from framelift.passes.declare import Match, Rewrite, Work, register
from framelift.passes.facts import NoMatch, Reject


def operands_of(node: Node) -> tuple[list[Node], int]:
    """The operands of a cat and the axis they are joined on."""
    call = ops.bound(node, "cat")
    return facts.nodes(call["tensors"]), call.dim(facts.rank(node))


def is_empty(node: Node) -> bool:
    """Whether an operand of a cat adds nothing, whatever the others are: a vector without elements."""
    return facts.rank(node) == 1 and facts.shape(node) == (0,)


class NestedCat(Rewrite):
    """Operands that are a cat along the same axis, used by such cats alone, are replaced by their operands."""

    name = "merge_concats_pass"
    roots = ("cat",)

    def match(self, root: Node, work: Work) -> Match | None:
        operands, dim = operands_of(root)
        inner: list[Node] = []
        leaves = _leaves(root, operands, dim, inner)
        filled = [leaf for leaf in leaves if not is_empty(leaf)] or leaves[:1]
        if not inner and len(filled) == len(leaves):
            raise NoMatch("no cat inside")
        return Match(root, *inner, leaves=leaves, filled=filled, dim=dim)

    def condition(self, match: Match, work: Work) -> str | None:
        # Two steps of promotion round differently from one.
        dtypes = {facts.tensor(leaf).dtype for leaf in (*match.leaves, match.root)}
        return "operands differ in dtype" if len(dtypes) > 1 else None

    def profit(self, match: Match, work: Work) -> bool:
        # One operand that is left would be copied all the same (where it need not be, remove_noop_pass sees it).
        return len(match.filled) > 1 and len(match.leaves) <= work.options.max_fuse_set_size

    def rewrite(self, match: Match, build: Builder) -> Mapping[Node, Node]:
        return {match.root: build.cat(match.filled, match.dim)}


def _leaves(node: Node, operands: list[Node], dim: int, inner: list[Node]) -> list[Node]:
    """The operands of a cat, those of cats inside it in their place; the cats inside are noted in `inner`."""
    found: list[Node] = []
    for operand in operands:
        if _joins(operand, dim, facts.rank(node)) and _is_only_joined(operand, operands, dim):
            inner.append(operand)
            found += _leaves(operand, operands_of(operand)[0], dim, inner)
        else:
            found.append(operand)
    return found


def _is_only_joined(node: Node, operands: list[Node], dim: int) -> bool:
    """Whether all users of a cat are cats that can take its operands instead; else it is made in any case."""
    rank = facts.rank(node)
    return operands.count(node) == 1 and all(_joins(user, dim, rank) for user in node.users)


def _joins(node: Node, dim: int, rank: int) -> bool:
    return ops.op(node) == "cat" and facts.rank(node) == rank and operands_of(node)[1] == dim


class SameCat(Rewrite):
    """A second cat of the same operands is the first."""

    name = "merge_concats_pass"
    roots = ("cat",)
    may_copy = False

    def match(self, root: Node, work: Work) -> Match | None:
        operands, dim = operands_of(root)
        for other in operands[0].users:
            if other < root and ops.op(other) == "cat" and operands_of(other) == (operands, dim):
                return Match(root, other, first=other)
        return None

    def rewrite(self, match: Match, build: Builder) -> Mapping[Node, Node]:
        return {match.root: match.first}


@register
class MergeConcatsPass(Rewrite):
    """Nested cats become one, empty operands go, equal cats are made once."""

    name = "merge_concats_pass"
    roots = ("cat",)

    def run(self, work: Work) -> None:
        work.rewrite_all(NestedCat())
        work.rewrite_all(SameCat())


@register
class StackToUnsqueezePass(Rewrite):
    """stack is cat of unsqueezed operands, which the passes on cat understand."""

    name = "stack_to_unsqueeze_pass"
    roots = ("stack",)

    def match(self, root: Node, work: Work) -> Match | None:
        call = ops.bound(root, "stack")
        return Match(root, tensors=facts.nodes(call["tensors"]), dim=call.dim(facts.rank(root)))

    def rewrite(self, match: Match, build: Builder) -> Mapping[Node, Node]:
        parts = [build.unsqueeze(tensor, match.dim) for tensor in match.tensors]
        return {match.root: build.cat(parts, match.dim)}


@register
class RestoreStack(Rewrite):
    """The way back: cat of operands that are all unsqueezed on its axis is a stack, which runs fewer calls."""

    name = "restore_stack"
    roots = ("cat",)

    def match(self, root: Node, work: Work) -> Match | None:
        operands, dim = operands_of(root)
        rank = facts.rank(root)
        inner: list[Node] = []
        for operand in operands:
            call = ops.bound(operand, "unsqueeze")
            if call.dim(rank) != dim:
                raise NoMatch("unsqueezed on another axis")
            inner.append(call["input"])
        if len(inner) < 2:
            raise NoMatch("one operand")
        if len({facts.shape(tensor) for tensor in inner}) > 1:
            raise Reject("operands of different shapes")
        return Match(root, *operands, inner=inner, dim=dim)

    def rewrite(self, match: Match, build: Builder) -> Mapping[Node, Node]:
        return {match.root: build.stack(match.inner, match.dim)}
