"""Equal calls on different tensors: one call on the stack of them."""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Mapping
from typing import ClassVar

import torch
from torch.fx import Node
from torch.nn import functional

from framelift.passes import facts, ops
from framelift.passes.analysis.pieces import Sections, slice_of
from framelift.passes.build import Builder
from framelift.passes.declare import REGISTRY, Fusion, Match, Pass, Rewrite, Several, Work, register
from framelift.passes.facts import NoMatch, Reject
from framelift.passes.library.linear import FuseParallelLinearPass, is_term, linear_at
from framelift.passes.library.noop import SameView
from framelift.passes.library.pointwise import applied, check_place, unary
from framelift.passes.library.splits import SPLITS, split_at

# A stack copies: it pays while the cost of a call is more than that of the copy.
LARGEST = {"cpu": 64 << 10, "cuda": 1 << 20}


class Batch(Fusion):
    """Equal calls on different inputs: the inputs stacked, one call for all of them, its result taken apart.

    A batch says what its members are (`member`) and how the call is made for all (`whole`).
    """

    group = "batch"

    def member(self, node: Node, work: Work) -> tuple[Node, Hashable]:
        """The input that is stacked, and what must agree among the members besides its shape and dtype."""
        raise NotImplementedError

    def whole(self, members: list[Node], stacked: Node, build: Builder) -> Node:
        """The call on the stack; results lie along the first axis."""
        raise NotImplementedError

    def key(self, node: Node, work: Work) -> Hashable | None:
        x, alike = self.member(node, work)
        work.check_unwritten(node)
        return alike, facts.shape(x), facts.tensor(x).dtype

    def gather(self, group: list[Node], work: Work) -> Match | None:
        return Match(group[0], *group[1:], inputs=[self.member(node, work)[0] for node in group])

    def profit(self, match: Match, work: Work) -> bool:
        # What is returned would have to be copied out of the batch.
        return not are_returned(match.nodes) and (are_small(match.nodes) or _are_pieces(match.inputs))

    def rewrite(self, match: Match, build: Builder) -> Mapping[Node, Node]:
        whole = self.whole(list(match.nodes), build.stack(match.inputs, 0), build)
        return dict(zip(match.nodes, build.unbind(whole, 0), strict=True))


def are_returned(nodes: Iterable[Node]) -> bool:
    return any(user.op == "output" for node in nodes for user in node.users)


def are_small(nodes: Iterable[Node]) -> bool:
    """Whether calls on these cost more than copies of them."""
    tensors = [facts.tensor(node) for node in nodes]
    return all(each.numel() * each.element_size() <= LARGEST.get(each.device.type, 0) for each in tensors)


def _are_pieces(nodes: list[Node]) -> bool:
    """Whether they were cut from one tensor: then stacking them need not copy."""
    known: Sections = {}
    cuts = [slice_of(node, known) for node in nodes]
    return len({cut[0] for cut in cuts if cut is not None}) == 1 and None not in cuts


# -- pointwise -----------------------------------------------------------------------------------------------------


class OnAllPieces(Rewrite):
    """The same pointwise call on every piece of a split: one call on the whole, which is split in its place."""

    name = "batch_pieces"
    roots = SPLITS

    def __init__(self, operations: tuple[str, ...]) -> None:
        self.operations = operations

    def match(self, root: Node, work: Work) -> Match | None:
        call, dim, sections, items = split_at(root)
        if len(items) < max(2, len(sections)) or any(len(item.users) > 1 for item in items.values()):
            raise NoMatch("not every piece is used, and once")
        each = [unary(user) for item in items.values() for user in item.users]
        first = each[0]
        if first.op not in self.operations or any((one.op, one.rest()) != (first.op, first.rest()) for one in each):
            raise NoMatch("the pieces are not treated alike")
        for one in each:
            check_place(one, work)
            work.check_unwritten(one.node)
        results = [one.node for one in each]
        return Match(root, *items.values(), *results, x=call.first, cut=(sections, dim), call=first, results=results)

    def profit(self, match: Match, work: Work) -> bool:
        return are_small(match.results) or not are_returned(match.results)

    def rewrite(self, match: Match, build: Builder) -> Mapping[Node, Node]:
        whole = build.call(match.call.operation.emitted, match.x, **applied(match.call))
        return dict(zip(match.results, build.split(whole, *match.cut), strict=True))


class BatchUnary(Batch):
    """One pointwise operation with equal arguments on tensors of one shape."""

    def member(self, node: Node, work: Work) -> tuple[Node, Hashable]:
        call = unary(node)
        check_place(call, work)
        return call["input"], call.rest()

    def whole(self, members: list[Node], stacked: Node, build: Builder) -> Node:
        call = ops.bound(members[0], *self.roots)
        return build.call(call.operation.emitted, stacked, **applied(call))

    def applies(self, work: Work) -> bool:
        return super().applies(work) or (work.count(self.roots) > 1 and work.count(SPLITS) > 0)

    def run(self, work: Work) -> None:
        work.rewrite_all(OnAllPieces(self.roots))
        super().run(work)


@register
class BatchTanh(BatchUnary):
    name = "batch_tanh"
    roots = ("tanh",)


@register
class BatchSigmoid(BatchUnary):
    name = "batch_sigmoid"
    roots = ("sigmoid",)


@register
class BatchRelu(BatchUnary):
    name = "batch_relu"
    roots = ("relu",)


@register
class BatchNanToNum(BatchUnary):
    name = "batch_nan_to_num"
    roots = ("nan_to_num",)


@register
class BatchClamp(BatchUnary):
    name = "batch_clamp"
    roots = ("clamp",)


@register
class BatchDetach(Batch):
    """Detaching costs nothing, stacking a copy: off unless asked for."""

    name = "batch_detach"
    roots = ("detach",)

    def member(self, node: Node, work: Work) -> tuple[Node, Hashable]:
        return ops.bound(node, "detach")["input"], ()

    def profit(self, match: Match, work: Work) -> bool:
        return _are_pieces(match.inputs)

    def whole(self, members: list[Node], stacked: Node, build: Builder) -> Node:
        return build.call(torch.detach, stacked)


@register
class BatchDropout(SameView):
    """Dropout that is off returns its operand; dropout that is on is never merged."""

    name = "batch_dropout"
    group = "batch"
    roots = ("dropout",)

    def run(self, work: Work) -> None:
        work.rewrite_all(self)


# -- with weights --------------------------------------------------------------------------------------------------


@register
class BatchLinear(Batch):
    """Linears of one size on different inputs: one batched product."""

    name = "batch_linear"
    exactness = "approx"
    roots = ("linear",)

    def member(self, node: Node, work: Work) -> tuple[Node, Hashable]:
        found = linear_at(node)
        if is_term(found):
            raise Reject("its sum with others is one linear")
        cut = slice_of(found.x)
        return found.x, (facts.shape(found.weight), found.bias is None, cut and cut[0])

    def gather(self, group: list[Node], work: Work) -> Match | None:
        match = super().gather(group, work)
        # fuse_parallel_linear_pass does better on one input.
        return match if match is not None and len(set(match.inputs)) > 1 else None

    def whole(self, members: list[Node], stacked: Node, build: Builder) -> Node:
        linears = [linear_at(node) for node in members]
        count, (*rows, inner) = len(linears), facts.shape(linears[0].x)
        x = build.reshape(stacked, (count, linears[0].rows, inner))
        weight = build.pack([each.weight for each in linears], (torch.stack, 0), (torch.permute, (0, 2, 1)))
        biases = [each.bias for each in linears if each.bias is not None]
        if biases:
            bias = build.pack(biases, (torch.stack, 0), (torch.unsqueeze, 1))
            product = build.call(torch.baddbmm, bias, x, weight)
        else:
            product = build.call(torch.bmm, x, weight)
        return build.reshape(product, (count, *rows, linears[0].outer))


@register
class BatchLayernorm(Batch):
    """Layer norms of one size on different inputs: one without weights, then weights and biases for all."""

    name = "batch_layernorm"
    exactness = "approx"
    roots = ("layer_norm",)
    # Of one member: larger ones lose to the copy.
    largest: ClassVar[int] = 4 << 10

    def member(self, node: Node, work: Work) -> tuple[Node, Hashable]:
        call = ops.bound(node, "layer_norm")
        half = facts.tensor(call["input"]).dtype in (torch.float16, torch.bfloat16)
        if half and not work.options.allow_precision_loss:
            raise Reject("the step in between would be rounded to half precision")
        shapes = [None if call[name] is None else facts.shape(call[name]) for name in ("weight", "bias")]
        return call["input"], (facts.ints(call["normalized_shape"]), tuple(shapes), repr(call["eps"]))

    def profit(self, match: Match, work: Work) -> bool:
        tensor = facts.tensor(match.inputs[0])
        return tensor.device.type != "cpu" or tensor.numel() * tensor.element_size() <= self.largest

    def whole(self, members: list[Node], stacked: Node, build: Builder) -> Node:
        norms = [ops.bound(node, "layer_norm") for node in members]
        first = norms[0]
        whole = build.call(functional.layer_norm, stacked, first["normalized_shape"], eps=first["eps"])
        weight, bias = (_packed(norms, name, build) for name in ("weight", "bias"))
        if weight is not None and bias is not None:
            return build.call(torch.addcmul, bias, weight, whole)
        if weight is not None:
            return build.call(torch.mul, whole, weight)
        return whole if bias is None else build.call(torch.add, whole, bias)


def _packed(norms: list[ops.Bound], name: str, build: Builder) -> Node | None:
    """The weights or biases of layer norms, in a shape that goes with the stack of their inputs."""
    first = norms[0]
    if first[name] is None:
        return None
    inner = facts.shape(first[name])
    shape = (len(norms), *[1] * (facts.rank(first["input"]) - len(inner)), *inner)
    return build.pack([each[name] for each in norms], (torch.stack, 0), (torch.reshape, shape))


@register
class BatchLinearLhs(FuseParallelLinearPass):
    """The other name of fuse_parallel_linear_pass."""

    name = "batch_linear_lhs"
    group = "batch"


@register
class GroupBatchFusionPasses(Several):
    """The batch fusions that are asked for, then what joins their stacks with the splits and cats around them."""

    name = "group_batch_fusion_passes"
    choice: ClassVar[tuple[str, ...]] = (
        "batch_linear_lhs",
        "batch_linear",
        "batch_layernorm",
        "batch_tanh",
        "batch_sigmoid",
        "batch_relu",
        "batch_nan_to_num",
        "batch_clamp",
    )
    cleaning: ClassVar[tuple[str, ...]] = ("unbind_stack_pass", "split_cat_pass")

    def steps(self, work: Work) -> list[Pass]:
        chosen = self.choice if work.options.batch is None else work.options.batch
        fusions = [REGISTRY[name] for name in chosen]
        return [each for each in fusions if each.exactness == "exact" or work.options.approximate]

    def run(self, work: Work) -> None:
        """Cleans up only after a fusion: what stood there before is not this pass's."""
        before = work.record.rewrites
        super().run(work)
        if work.record.rewrites > before:
            for name in self.cleaning:
                REGISTRY[name].run(work)
