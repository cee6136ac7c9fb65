"""Products of embeddings: compression across them, and pairwise products that are compressed at once."""

from __future__ import annotations

from collections.abc import Hashable, Mapping
from typing import ClassVar

import torch
from torch.fx import Node

from framelift.passes import facts, kernels, ops
from framelift.passes.build import Builder
from framelift.passes.declare import Fusion, Match, Rewrite, Work, register
from framelift.passes.facts import NoMatch, Reject
from framelift.passes.library.linear import Linear, linear_at, packed_bias
from framelift.passes.library.normalize import permutation

AXES = tuple(sorted(ops.AXES))


def swapped(node: Node) -> Node:
    """The operand of a call that exchanges the last two axes and nothing else; anything else is no match."""
    call = ops.bound(node, *AXES)
    rank = facts.rank(call.first)
    if rank < 2 or permutation(call) != (*range(rank - 2), rank - 1, rank - 2):
        raise NoMatch("not the last two axes exchanged")
    found = call.first
    assert isinstance(found, Node)
    return found


class Compression(Rewrite):
    """Last two axes exchanged, a linear, exchanged back: the weight times the embeddings as they lie."""

    group = "lce"
    exactness = "approx"
    roots = AXES
    biased: ClassVar[bool] = True

    def match(self, root: Node, work: Work) -> Match | None:
        inner = _compression(root)
        x = swapped(inner.x)
        if (inner.bias is not None) != self.biased:
            raise NoMatch("with a bias" if inner.bias is not None else "without a bias")
        return Match(root, inner.node, inner.x, x=x, linear=inner)

    def rewrite(self, match: Match, build: Builder) -> Mapping[Node, Node]:
        product = build.call(torch.matmul, match.linear.weight, match.x)
        return {match.root: with_bias(product, match.linear.bias, build)}


class TritonCompression(Compression):
    """The same by one kernel, where there is one for the device; else by the library's product."""

    def rewrite(self, match: Match, build: Builder) -> Mapping[Node, Node]:
        if not kernels.takes_compression(facts.tensor(match.x)):
            return super().rewrite(match, build)
        return {match.root: build.call(kernels.COMPRESS, match.x, match.linear.weight, match.linear.bias)}


def with_bias(product: Node, bias: Node | None, build: Builder) -> Node:
    if bias is None:
        return product
    return build.call(torch.add, product, build.unsqueeze(bias, 1))


@register
class TritonSimpleCompression(TritonCompression):
    """Without a bias."""

    name = "use_triton_lce_replace_simple_LCE"
    biased = False


@register
class TritonNormalCompression(TritonCompression):
    """With a bias."""

    name = "use_triton_lce_replace_normal_LCE"


@register
class MatmulNormalCompression(Compression):
    """With a bias, by the library's product on every device."""

    name = "use_matmul_lce_replace_normal_LCE"


@register
class MatmulFirstCompression(Compression):
    """Of embeddings that were only joined for it: each part is multiplied with its part of the weight."""

    name = "use_matmul_fuse_lce_replace_first_LCE"
    most_parts: ClassVar[int] = 4

    def match(self, root: Node, work: Work) -> Match | None:
        inner = linear_at(swapped(root))
        x = swapped(inner.x)
        call = ops.bound(x, "cat")
        if call.dim(facts.rank(x)) != facts.rank(x) - 2:
            raise NoMatch("joined along another axis")
        parts = facts.nodes(call["tensors"])
        if len(parts) > self.most_parts:
            raise Reject("too many parts")
        if any(len(node.users) > 1 for node in (x, inner.x, inner.node)):
            raise Reject("a step in between is used elsewhere")
        return Match(root, inner.node, inner.x, x, linear=inner, parts=parts)

    def rewrite(self, match: Match, build: Builder) -> Mapping[Node, Node]:
        start = 0
        products = []
        for part in match.parts:
            length = facts.shape(part)[-2]
            products.append(build.call(torch.matmul, build.narrow(match.linear.weight, 1, start, length), part))
            start += length
        return {match.root: with_bias(build.sum(products), match.linear.bias, build)}


@register
class FuseParallelCompression(Fusion):
    """Compressions of the same embeddings: one with all weights, split again."""

    name = "fuse_parallel_LCE"
    group = "lce"
    exactness = "approx"
    roots = AXES
    min_size = 2

    def key(self, node: Node, work: Work) -> Hashable | None:
        found = _compression(node)
        work.check_unwritten(node)
        return swapped(found.x), found.bias is None

    def gather(self, group: list[Node], work: Work) -> Match | None:
        linears = [_compression(node) for node in group]
        inside = [node for each in linears for node in (each.node, each.x)]
        return Match(group[0], *group[1:], *inside, members=group, linears=linears, x=swapped(linears[0].x))

    def profit(self, match: Match, work: Work) -> bool:
        weights = [each.weight for each in match.linears]
        size = sum(facts.tensor(weight).numel() for weight in weights)
        return work.can_fold(weights) or facts.tensor(match.x).numel() >= 8 * size

    def rewrite(self, match: Match, build: Builder) -> Mapping[Node, Node]:
        linears: list[Linear] = match.linears
        weight = build.pack([each.weight for each in linears], (torch.cat, 0))
        product = with_bias(build.call(torch.matmul, weight, match.x), packed_bias(linears, build), build)
        parts = build.split(product, [each.outer for each in linears], facts.rank(product) - 2)
        return dict(zip(match.members, parts, strict=True))


def _compression(node: Node) -> Linear:
    """The linear in the middle of a compression that nothing else uses."""
    inner = linear_at(swapped(node))
    swapped(inner.x)
    if len(inner.node.users) > 1:
        raise Reject("the linear is used elsewhere")
    return inner


PRODUCTS = ("matmul", "bmm")


@register
class DotCompress(Rewrite):
    """(X Xᵀ) Y is X (Xᵀ Y): the pairwise products are never made where that is less work."""

    name = "use_triton_dot_compress"
    group = "lce"
    exactness = "approx"
    roots: ClassVar[tuple[str, ...]] = (*PRODUCTS, "linear")

    def match(self, root: Node, work: Work) -> Match | None:
        outer = ops.bound(root, *self.roots)
        pairs = ops.bound(outer["input"], *PRODUCTS)
        x, transposed = _operands(pairs)
        if swapped(transposed) is not x:
            raise NoMatch("not the product of embeddings with themselves")
        if len(pairs.node.users) > 1:
            raise Reject("the pairwise products are used elsewhere")
        linear = linear_at(root) if outer.op == "linear" else None
        other = linear.weight if linear is not None else _operands(outer)[1]
        if facts.rank(x) != 3 or facts.rank(other) not in (2, 3):
            raise Reject("not a batch of embeddings")
        return Match(root, pairs.node, x=x, transposed=transposed, other=other, linear=linear)

    def condition(self, match: Match, work: Work) -> str | None:
        _, count, size = facts.shape(match.x)
        width = facts.shape(match.other)[0 if match.linear is not None else -1]
        if 2 * size * width >= count * (size + width):
            return "more work than before"
        x = facts.tensor(match.x)
        if x.dtype not in (torch.float32, torch.float64) and not kernels.takes_dot_compress(x, width):
            return "in half precision the step in between would be rounded"
        return None

    def rewrite(self, match: Match, build: Builder) -> Mapping[Node, Node]:
        other = build.swap(match.other) if match.linear is not None else match.other
        if kernels.takes_dot_compress(facts.tensor(match.x), facts.shape(other)[-1]):
            product = build.call(kernels.DOT_COMPRESS, match.x, other)
        else:
            product = build.call(torch.bmm, match.x, build.call(torch.matmul, match.transposed, other))
        if match.linear is not None and match.linear.bias is not None:
            product = build.call(torch.add, product, match.linear.bias)
        return {match.root: product}


def _operands(call: ops.Bound) -> tuple[Node, Node]:
    one, other = (call.arguments[parameter.name] for parameter in call.operation.parameters[:2])
    if not isinstance(one, Node) or not isinstance(other, Node):
        raise NoMatch("not a product of two tensors")
    return one, other
