"""One spelling per operation, so that later passes look for one form."""

from __future__ import annotations

import operator
from collections.abc import Callable, Mapping
from typing import Any

import torch
from torch import nn
from torch.fx import Node

from framelift.passes import facts, ops
from framelift.passes.analysis import modules
from framelift.passes.analysis.effects import OPAQUE, is_pure, traits
from framelift.passes.build import Builder
from framelift.passes.declare import Match, Respelling, Rewrite, Work, register
from framelift.passes.facts import Reject
from framelift.passes.ops import Bound

# What a call should be: an operation and its arguments by name, those equal to their default left out.
Spelling = tuple[str, dict[str, Any]]


def _sections(call: Bound) -> Spelling:
    """Sections as they are, not as they were asked for: the last piece may be short, and pieces may be missing."""
    dim = call.dim()
    pieces = facts.value(call.node)
    if not isinstance(pieces, list | tuple):
        raise Reject("the pieces are not known")
    sections = [facts.integer(piece.shape[dim]) for piece in pieces]
    if sum(sections) != facts.shape(call.first)[dim]:
        raise Reject("the pieces do not make up the whole")
    return "split", {"tensor": call.first, "split_size_or_sections": sections, "dim": dim}


def _same(call: Bound) -> Spelling:
    return call.op, call.arguments


def _with_dim(call: Bound) -> Spelling:
    return call.op, {**call.arguments, "dim": call.dim()}


def _with_dim_of_result(call: Bound) -> Spelling:
    return call.op, {**call.arguments, "dim": call.dim(facts.rank(call.node))}


def _joined(call: Bound) -> Spelling:
    return call.op, {"tensors": facts.nodes(call["tensors"]), "dim": call.dim(facts.rank(call.node))}


def _squeezed(call: Bound) -> Spelling:
    sizes = facts.shape(call.first)
    given = call["dim"]
    if given is None:
        return "squeeze", {"input": call.first, "dim": tuple(d for d, size in enumerate(sizes) if size == 1)}
    if type(given) is int:
        return _with_dim(call) if sizes else _same(call)
    return "squeeze", {"input": call.first, "dim": tuple(facts.wrapped(d, len(sizes)) for d in facts.ints(given))}


def _reshaped(call: Bound) -> Spelling:
    facts.ints(call["shape"])
    return "reshape", {"input": call.first, "shape": facts.shape(call.node)}


def _viewed(call: Bound) -> Spelling:
    facts.ints(call["shape"])
    return "view", {"input": call.first, "shape": facts.shape(call.node)}


def _permuted(call: Bound) -> Spelling:
    return "permute", {"input": call.first, "dims": permutation(call)}


def permutation(call: Bound) -> tuple[int, ...]:
    """The axes of the result in terms of the operand's, for every way to say it."""
    rank = facts.rank(call.first)
    axes = list(range(rank))
    if call.op == "permute":
        return tuple(facts.wrapped(dim, rank) for dim in facts.ints(call["dims"]))
    if call.op == "transpose":
        if rank:
            one, other = facts.wrapped(call["dim0"], rank), facts.wrapped(call["dim1"], rank)
            axes[one], axes[other] = other, one
        return tuple(axes)
    if call.op == "movedim":
        return _moved(call, rank)
    if call.op == "attribute" and call["name"] == "mT":
        if rank < 2:
            raise Reject("a dimension is out of range")
        return (*axes[:-2], axes[-1], axes[-2])
    return tuple(reversed(axes))  # t() and T


def _moved(call: Bound, rank: int) -> tuple[int, ...]:
    def as_dims(given: Any) -> tuple[int, ...]:
        found = (given,) if type(given) is int else facts.ints(given)
        return tuple(facts.wrapped(dim, rank) for dim in found)

    sources, destinations = as_dims(call["source"]), as_dims(call["destination"])
    rest = iter(dim for dim in range(rank) if dim not in sources)
    return tuple(
        sources[destinations.index(position)] if position in destinations else next(rest) for position in range(rank)
    )


def _clamped(call: Bound) -> Spelling:
    return "clamp", {"input": call.first, "min": call.arguments.get("min"), "max": call.arguments.get("max")}


def _arithmetic(call: Bound) -> Spelling:
    """torch's functions want the tensor first."""
    if call.op in ("add", "mul") and isinstance(call["input"], int | float):
        return call.op, {**call.arguments, "input": call["other"], "other": call["input"]}
    facts.tensor(call["input"])
    return _same(call)


NORMAL_FORMS: dict[str, Callable[[Bound], Spelling]] = {
    **dict.fromkeys(("split", "chunk", "tensor_split"), _sections),
    **dict.fromkeys(("cat", "stack"), _joined),
    **dict.fromkeys(("permute", "transpose", "movedim", "t", "attribute"), _permuted),
    **dict.fromkeys(("clamp", "clamp_min", "clamp_max"), _clamped),
    **dict.fromkeys(("add", "sub", "mul", "div"), _arithmetic),
    **dict.fromkeys(("relu", "tanh", "sigmoid", "detach", "matmul", "neg"), _same),
    "unbind": _with_dim,
    "narrow": _with_dim,
    "unsqueeze": _with_dim_of_result,
    "squeeze": _squeezed,
    "reshape": _reshaped,
    "view": _viewed,
}


class ModuleCall(Rewrite):
    """A module that is one function of its parameters: that function."""

    name = "normalization_pass_aten"

    def match(self, root: Node, work: Work) -> Match | None:
        module = modules.module_at(root)
        if not modules.is_plain(module):
            raise Reject("the module is more than a function")
        if len(root.args) != 1 or root.kwargs:
            raise Reject("the module is not called with one input")
        return Match(root, module=module, x=root.args[0])

    def rewrite(self, match: Match, build: Builder) -> Mapping[Node, Node]:
        if type(match.module) is nn.Identity:
            return {match.root: match.x}
        function, arguments = modules.call_of(match.module, lambda name: build.attribute(f"{match.root.target}.{name}"))
        return {match.root: build.call(function, match.x, **arguments)}


@register
class NormalizationPassAten(Respelling):
    """Writes calls in the one form of the table above; takes negative and repeated items of results out."""

    name = "normalization_pass_aten"

    def run(self, work: Work) -> None:
        for node in work.calls():
            if node.op == "call_module":
                work.try_at(ModuleCall(), node)
        work.respell_all(self)
        merge_items(work)

    def respell(self, node: Node, work: Work) -> tuple[Any, tuple[Any, ...], dict[str, Any]] | None:
        call = ops.bind(node)
        if call is None or call.op not in NORMAL_FORMS:
            return _without_numpy_names(node, work)
        if call.arguments.get("inplace"):
            return None
        if call.op == "getitem" or not _is_plain_call(call):
            return None
        if call.op == "tensor_split" and work.effects.writers.keys() & work.memory.of(node):
            raise Reject("a piece is written, which a piece of split cannot be")
        name, arguments = NORMAL_FORMS[call.op](call)
        operation = ops.OPERATIONS[name]
        # A view stays the call it is: torch has no function for it.
        target = node.target if name == "view" else operation.emitted
        if node.target is target and _equal(call.arguments, arguments):
            return None
        return target, *positional(operation, arguments)


def positional(operation: ops.Operation, arguments: dict[str, Any]) -> tuple[tuple[Any, ...], dict[str, Any]]:
    """Arguments as args and kwargs: defaults left out, keywords after the first gap."""
    args: list[Any] = []
    kwargs: dict[str, Any] = {}
    for parameter in operation.parameters:
        given = arguments.get(parameter.name, parameter.default)
        if _is(given, parameter.default):
            continue
        if kwargs or len(args) < operation.parameters.index(parameter) or parameter.name in ("alpha", "rounding_mode"):
            kwargs[parameter.name] = given
        else:
            args.append(given)
    return tuple(args), kwargs


def _is(one: Any, other: Any) -> bool:
    if isinstance(one, list | tuple) and isinstance(other, list | tuple):
        return len(one) == len(other) and all(map(_is, one, other))
    return one is other or (type(one) is type(other) and not isinstance(one, Node) and one == other)


def _equal(given: dict[str, Any], wanted: dict[str, Any]) -> bool:
    return all(_is(given[name], wanted.get(name, given[name])) for name in given)


def _is_plain_call(call: Bound) -> bool:
    first = call["other"] if call.op in ("add", "mul") and isinstance(call.first, int | float) else call.first
    operands = first if isinstance(first, list | tuple) else [first]
    return all(isinstance(each, Node) and facts.is_plain(facts.value(each)) for each in operands)


def _without_numpy_names(node: Node, work: Work) -> tuple[Any, tuple[Any, ...], dict[str, Any]] | None:
    """axis=, x= and the like in torch's words, for all of torch's own functions and methods that take these."""
    known = traits(node)
    if known is OPAQUE or known.signature is not None or not node.kwargs.keys() & ops.NUMPY_NAMES.keys():
        return None
    kwargs = {ops.NUMPY_NAMES.get(key, key): item for key, item in node.kwargs.items()}
    return (node.target, node.args, kwargs) if is_pure(node) and work.takes(node, node.args, kwargs) else None


def merge_items(work: Work) -> None:
    """Items of results with several parts: counted from the front, each taken out once."""
    seen: dict[tuple[Node, int], Node] = {}
    for node in list(work.graph.find_nodes(op="call_function", target=operator.getitem)):
        index = ops.index_of(node)
        if index is None:
            continue
        whole = node.args[0]
        parts = facts.value(whole)
        if not isinstance(parts[index], torch.Tensor):
            continue
        if index < 0:
            work.respell(node, operator.getitem, (whole, index + len(parts)), {})
            index += len(parts)
        if (whole, index) in seen:
            work.merge(seen[whole, index], node)
        else:
            seen[whole, index] = node


@register
class NormalizationPass(NormalizationPassAten):
    """The other name of normalization_pass_aten."""

    name = "normalization_pass"
    group = "split_cat"
