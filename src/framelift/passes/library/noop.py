"""Operations that change nothing."""

from __future__ import annotations

import operator
from collections.abc import Iterator, Mapping
from typing import Any

import torch
from torch.fx import Node
from torch.nn import functional

from framelift.passes import facts, ops
from framelift.passes.analysis.effects import is_pure
from framelift.passes.build import Builder
from framelift.passes.declare import Match, Rewrite, Work, register
from framelift.passes.facts import Reject
from framelift.passes.library.concat import is_empty
from framelift.passes.ops import Bound

# Calls that may return their operand's memory, by method name and by function.
VIEW_METHODS = frozenset(
    """view reshape flatten unflatten expand expand_as view_as reshape_as permute transpose movedim squeeze unsqueeze t
    contiguous to type_as float double half bfloat16 cpu detach narrow swapaxes type""".split()
)
VIEW_FUNCTIONS = frozenset(
    {
        *(getattr(torch, name) for name in VIEW_METHODS if hasattr(torch, name) and callable(getattr(torch, name))),
        torch.Tensor.view,
        torch.Tensor.contiguous,
        torch.Tensor.expand,
        functional.dropout,
        torch.dropout,
        operator.getitem,
    }
) - {torch.float, torch.double, torch.half, torch.bfloat16}
# Of these, the ones that make a new object although nothing changes.
SAME_OBJECT = frozenset({"contiguous", "to", "type_as", "float", "double", "half", "bfloat16", "cpu", "type"})


def operand_of(node: Node) -> Node | None:
    """The tensor a call may return unchanged; for an item of a split, what was split."""
    if node.op == "call_method":
        return node.args[0] if node.target in VIEW_METHODS else None
    if node.op != "call_function" or (node.target not in VIEW_FUNCTIONS and ops.op(node) != "attribute"):
        return None
    first = node.args[0] if node.args else next(iter(node.kwargs.values()), None)
    if not isinstance(first, Node):
        return None
    if node.target is operator.getitem and isinstance(facts.value(first), list | tuple):
        whole = ops.bind(first)
        return whole.first if whole is not None and whole.op in ops.SPLITS else None
    return first


def ways_up(node: Node) -> Iterator[tuple[Node, list[Node]]]:
    """The values a node may be a mere view of, nearest first, with the nodes in between."""
    chain = [node]
    operand = operand_of(node)
    while operand is not None:
        yield operand, list(chain)
        chain.append(operand)
        operand = operand_of(operand)


class Noop(Rewrite):
    """Common to the no-ops: nothing is made, an operand stands for the result."""

    may_copy = False

    def rewrite(self, match: Match, build: Builder) -> Mapping[Node, Node]:
        return {match.root: match.operand}


class SameView(Noop):
    """A view, or views that undo each other, with the very geometry of a value further up."""

    name = "remove_noop_pass"

    def match(self, root: Node, work: Work) -> Match | None:
        best: Match | None = None
        value = facts.value(root)
        rank = value.dim() if isinstance(value, torch.Tensor) else -1
        for operand, chain in ways_up(root):
            above = facts.value(operand)
            # Most differ in rank or shape, which is the quickest to see.
            if not isinstance(above, torch.Tensor) or above.dim() != rank or not facts.same_geometry(above, value):
                continue
            if work.memory.of(operand) == work.memory.of(root):
                best = Match(root, *chain, operand=operand, is_same_object=all(map(_is_same_object, chain)))
        return best

    def condition(self, match: Match, work: Work) -> str | None:
        if work.has_later_write(match.root):
            return "written later"
        # (It may be one of several views, which autograd forbids to write.)
        is_piece = any(ops.index_of(node) is not None for node in match.nodes)
        return "may be written by the caller" if is_piece and work.may_be_written(match.root) else None


def _is_same_object(node: Node) -> bool:
    return node.target in SAME_OBJECT or ops.op(node) == "dropout"


def _same_copy(call: Bound) -> Node | None:
    return call.first


def _single(call: Bound) -> Node | None:
    """The only operand of a cat that has any elements."""
    tensors = facts.nodes(call["tensors"])
    full = [each for each in tensors if not is_empty(each)] or tensors[:1]
    return full[0] if len(full) == 1 else None


def _ones(call: Bound) -> Node | None:
    return call.first if set(facts.ints(call["repeats"])) <= {1} else None


def _times_one(call: Bound) -> Node | None:
    if _is_integer(call["input"], 1):
        return call["other"] if facts.tensor(call["other"]).is_floating_point() else None
    return _by_one(call)


def _by_one(call: Bound) -> Node | None:
    return call.first if _is_integer(call["other"], 1) and _is_floating(call) else None


def _by_zero(call: Bound) -> Node | None:
    return call.first if _is_integer(call["other"], 0) and _is_floating(call) else None


def _is_integer(given: Any, number: int) -> bool:
    return type(given) is int and given == number


def _no_padding(call: Bound) -> Node | None:
    return call.first if set(facts.ints(call["pad"])) <= {0} else None


def _is_floating(call: Bound) -> bool:
    return call.arguments.get("rounding_mode") is None and facts.tensor(call.first).is_floating_point()


def _twice(call: Bound) -> Node | None:
    return call.first if ops.op(call.first) == "relu" else None


# Operations that copy, and the operand that is as good if nobody writes to either. x + 0 is not among them:
# it turns -0.0 into 0.0.
COPIES: dict[str, Any] = {
    "clone": _same_copy,
    "cat": _single,
    "repeat": _ones,
    "mul": _times_one,
    "div": _by_one,
    "sub": _by_zero,
    "pad": _no_padding,
    "relu": _twice,
}


class SameCopy(Noop):
    """A copy of a value that nobody writes to."""

    name = "remove_noop_pass"
    roots = tuple(COPIES)

    def match(self, root: Node, work: Work) -> Match | None:
        call = ops.bind(root)
        if call is None or call.arguments.get("inplace"):
            return None
        operand = COPIES[call.op](call)
        if not isinstance(operand, Node):
            return None
        if not facts.same_kind(facts.tensor(operand), facts.tensor(root)):
            raise Reject("the copy has another dtype")
        if facts.shape(operand) != facts.shape(root):
            raise Reject("the copy has another shape")
        alike = facts.same_numbers(facts.tensor(operand).stride(), facts.tensor(root).stride())
        if not alike and work.options.layout == "strict":
            raise Reject("the copy lies otherwise in memory")
        return Match(root, operand=operand)


@register
class RemoveNoopPass(Rewrite):
    """Removes views that change nothing, views that undo each other, and copies nobody needs."""

    name = "remove_noop_pass"

    def applies(self, work: Work) -> bool:
        return work.count(COPIES) > 0 or any(operand_of(node) is not None for node in work.graph.nodes)

    def run(self, work: Work) -> None:
        views = SameView()
        candidates = [node for node in work.calls() if operand_of(node) is not None and is_pure(node)]
        for node in reversed(candidates):
            work.try_at(views, node)
        work.rewrite_all(SameCopy())
