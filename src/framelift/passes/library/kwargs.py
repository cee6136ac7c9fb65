"""One way to pass arguments: by name, defaults left out, so that equal calls look equal."""

from __future__ import annotations

from typing import Any

import torch
from torch.fx import Node
from torch.fx.operator_schemas import normalize_function

from framelift.passes import facts, ops
from framelift.passes.declare import Respelling, register
from framelift.passes.effects import traits
from framelift.passes.work import Work


@register
class NormalizeNodeKwargsPass(Respelling):
    """Binds the arguments of functions of torch to their names."""

    name = "normalize_node_kwargs_pass"

    def respell(self, node: Node, work: Work) -> tuple[Any, tuple[Any, ...], dict[str, Any]] | None:
        if node.op != "call_function" or not node.args or node.target in ops.POSITIONAL:
            return None
        named = by_name(node)
        return (node.target, (), named) if named is not None else None


def by_name(node: Node) -> dict[str, Any] | None:
    """All arguments of a call by name, without those equal to their default; None where names are not known."""
    call = ops.bind(node)
    if call is not None and node.target is call.operation.emitted:
        return call.operation.without_defaults(call.arguments)
    known = traits(node)
    if known.is_opaque or known.is_mode or known.is_check:
        return None
    if known.signature is not None:
        return _by_signature(node, known.signature)
    return _by_schema(node)


def _by_signature(node: Node, signature: Any) -> dict[str, Any] | None:
    parameters = signature.parameters.values()
    if any(each.kind not in (each.POSITIONAL_OR_KEYWORD, each.KEYWORD_ONLY) for each in parameters):
        return None
    try:
        bound = signature.bind(*node.args, **node.kwargs).arguments
    except TypeError:
        return None
    defaults = {each.name: each.default for each in parameters}
    return {name: given for name, given in bound.items() if not ops.is_default(given, defaults[name])}


def _by_schema(node: Node) -> dict[str, Any] | None:
    """Through torch's schemas; which of several overloads is meant, the types of the operands say."""
    types = tuple(type(facts.value(each)) if isinstance(each, Node) else type(each) for each in node.args)
    types = tuple(torch.Tensor if issubclass(each, torch.Tensor) else each for each in types)
    kwarg_types = {key: torch.Tensor if isinstance(each, Node) else type(each) for key, each in node.kwargs.items()}
    found = normalize_function(node.target, node.args, node.kwargs, types, kwarg_types, True)
    if found is None or found.args:
        return None
    # The schema fills defaults in; whoever was not named stays unnamed.
    given = [*node.args, *node.kwargs.values()]
    named = {key: item for key, item in found.kwargs.items() if any(item is each for each in given)}
    return named if len(named) == len(given) else None
