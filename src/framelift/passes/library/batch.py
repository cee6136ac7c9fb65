"""Equal calls on different tensors: one call on the stack of them."""

from __future__ import annotations

from collections.abc import Hashable, Mapping
from typing import ClassVar

import torch
from torch.fx import Node
from torch.nn import functional

from framelift.passes import facts, ops
from framelift.passes.build import Builder
from framelift.passes.declare import REGISTRY, Fusion, Match, Pass, Several, register
from framelift.passes.facts import Reject
from framelift.passes.library.linear import FuseParallelLinearPass, Linear, is_term, linear_at
from framelift.passes.library.pointwise import applied, check_place, unary
from framelift.passes.pieces import Sections, slice_of
from framelift.passes.work import Work

# A stack copies: it pays while the cost of a call is more than that of the copy.
LARGEST = {"cpu": 64 << 10, "cuda": 1 << 20}


class Batch(Fusion):
    """Common to the batch fusions: when they pay, and what must not be among the members."""

    group = "batch"

    def profit(self, match: Match, work: Work) -> bool:
        # What is returned would have to be copied out of the batch.
        if any(user.op == "output" for node in match.nodes for user in node.users):
            return False
        return all(_is_small(node) for node in match.nodes) or _are_pieces(match.inputs)

    def check(self, node: Node, work: Work) -> None:
        if work.has_later_write(node):
            raise Reject("the result is written later")


def _is_small(node: Node) -> bool:
    tensor = facts.tensor(node)
    return tensor.numel() * tensor.element_size() <= LARGEST.get(tensor.device.type, 0)


def _are_pieces(nodes: list[Node]) -> bool:
    """Whether they were cut from one tensor: then stacking them need not copy."""
    known: Sections = {}
    cuts = [slice_of(node, known) for node in nodes]
    return len({cut[0] for cut in cuts if cut is not None}) == 1 and None not in cuts


class BatchUnary(Batch):
    """One pointwise operation with equal arguments on tensors of one shape."""

    def key(self, node: Node, work: Work) -> Hashable | None:
        call = unary(node)
        check_place(call, work)
        self.check(node, work)
        return call.rest(), facts.shape(call["input"]), facts.tensor(call["input"]).dtype

    def gather(self, group: list[Node], work: Work) -> Match | None:
        return Match(group[0], *group[1:], inputs=[ops.bound(node, *self.roots)["input"] for node in group])

    def rewrite(self, match: Match, build: Builder) -> Mapping[Node, Node]:
        call = ops.bound(match.root, *self.roots)
        whole = build.call(call.operation.emitted, build.stack(match.inputs, 0), **applied(call))
        return dict(zip(match.nodes, build.unbind(whole, 0), strict=True))


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

    def key(self, node: Node, work: Work) -> Hashable | None:
        self.check(node, work)
        return facts.shape(ops.bound(node, "detach")["input"])

    def gather(self, group: list[Node], work: Work) -> Match | None:
        return Match(group[0], *group[1:], inputs=[ops.bound(node, "detach")["input"] for node in group])

    def profit(self, match: Match, work: Work) -> bool:
        return _are_pieces(match.inputs)

    def rewrite(self, match: Match, build: Builder) -> Mapping[Node, Node]:
        whole = build.call(torch.detach, build.stack(match.inputs, 0))
        return dict(zip(match.nodes, build.unbind(whole, 0), strict=True))


@register
class BatchLinear(Batch):
    """Linears of one size on different inputs: one batched product."""

    name = "batch_linear"
    exactness = "approx"
    roots = ("linear",)

    def key(self, node: Node, work: Work) -> Hashable | None:
        found = linear_at(node)
        self.check(node, work)
        if is_term(found):
            raise Reject("its sum with others is one linear")
        cut = slice_of(found.x)
        return facts.shape(found.x), facts.shape(found.weight), found.bias is None, cut and cut[0]

    def gather(self, group: list[Node], work: Work) -> Match | None:
        linears = [linear_at(node) for node in group]
        if len({each.x for each in linears}) == 1:
            return None  # fuse_parallel_linear_pass does that better
        return Match(group[0], *group[1:], linears=linears, inputs=[each.x for each in linears])

    def rewrite(self, match: Match, build: Builder) -> Mapping[Node, Node]:
        linears: list[Linear] = match.linears
        sizes = facts.shape(linears[0].x)
        x = build.stack(match.inputs, 0)
        if len(sizes) != 2:
            x = build.reshape(x, (len(linears), linears[0].rows, linears[0].inner))
        weight = build.pack([each.weight for each in linears], (torch.stack, 0), (torch.permute, (0, 2, 1)))
        biases = [each.bias for each in linears if each.bias is not None]
        if biases:
            bias = build.pack(biases, (torch.stack, 0), (torch.unsqueeze, 1))
            whole = build.call(torch.baddbmm, bias, x, weight)
        else:
            whole = build.call(torch.bmm, x, weight)
        whole = build.reshape(whole, (len(linears), *sizes[:-1], linears[0].outer))
        return dict(zip(match.nodes, build.unbind(whole, 0), strict=True))


@register
class BatchLayernorm(Batch):
    """Layer norms of one size on different inputs: one without weights, then weights and biases for all."""

    name = "batch_layernorm"
    exactness = "approx"
    roots = ("layer_norm",)
    # Of one member: larger ones lose to the copy.
    largest: ClassVar[int] = 4 << 10

    def key(self, node: Node, work: Work) -> Hashable | None:
        call = ops.bound(node, "layer_norm")
        self.check(node, work)
        half = facts.tensor(call["input"]).dtype in (torch.float16, torch.bfloat16)
        if half and not work.options.allow_precision_loss:
            raise Reject("the step in between would be rounded to half precision")
        shapes = [None if call[name] is None else facts.shape(call[name]) for name in ("weight", "bias")]
        return facts.shape(call["input"]), facts.ints(call["normalized_shape"]), tuple(shapes), repr(call["eps"])

    def gather(self, group: list[Node], work: Work) -> Match | None:
        bound = [ops.bound(node, "layer_norm") for node in group]
        return Match(group[0], *group[1:], norms=bound, inputs=[each["input"] for each in bound])

    def profit(self, match: Match, work: Work) -> bool:
        tensor = facts.tensor(match.inputs[0])
        return tensor.device.type != "cpu" or tensor.numel() * tensor.element_size() <= self.largest

    def rewrite(self, match: Match, build: Builder) -> Mapping[Node, Node]:
        norms: list[ops.Bound] = match.norms
        first = norms[0]
        sizes = facts.shape(first["input"])
        whole = build.stack(match.inputs, 0)
        whole = build.call(functional.layer_norm, whole, first["normalized_shape"], eps=first["eps"])

        def packed(name: str) -> Node | None:
            if first[name] is None:
                return None
            inner = facts.shape(first[name])
            shape = (len(norms), *[1] * (len(sizes) - len(inner)), *inner)
            return build.pack([each[name] for each in norms], (torch.stack, 0), (torch.reshape, shape))

        weight, bias = packed("weight"), packed("bias")
        if weight is not None and bias is not None:
            whole = build.call(torch.addcmul, bias, weight, whole)
        elif weight is not None:
            whole = build.call(torch.mul, whole, weight)
        elif bias is not None:
            whole = build.call(torch.add, whole, bias)
        return dict(zip(match.nodes, build.unbind(whole, 0), strict=True))


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
        wanted = [each for each in fusions if each.exactness == "exact" or work.options.approximate]
        return [*wanted, *(REGISTRY[name] for name in self.cleaning)]

    def run(self, work: Work) -> None:
        """Cleans up only after a fusion: what stood there before is not this pass's."""
        fusions, cleaning = self.steps(work)[: -len(self.cleaning)], self.steps(work)[-len(self.cleaning) :]
        before = work.record.rewrites
        for each in fusions:
            each.run(work)
        if work.record.rewrites > before:
            for each in cleaning:
                each.run(work)
