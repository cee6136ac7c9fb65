"""One way to pass arguments: by name, defaults left out, so that equal calls look equal."""

from __future__ import annotations

import warnings
from inspect import Signature
from typing import Any

import torch
from torch.fx import Node
from torch.fx.operator_schemas import normalize_function

from framelift.passes import facts, ops
from framelift.passes.analysis.effects import is_pure, traits
from framelift.passes.declare import Respelling, Work, register

Key = tuple[Any, ...]


@register
class NormalizeNodeKwargsPass(Respelling):
    """Binds the arguments of functions of torch to their names."""

    name = "normalize_node_kwargs_pass"

    def __init__(self) -> None:
        # What torch's schemas call the arguments of a kind of call, once they were tried: finding out takes long.
        self._schemas: dict[Key, tuple[str, ...] | None] = {}

    def respell(self, node: Node, work: Work) -> tuple[Any, tuple[Any, ...], dict[str, Any]] | None:
        if node.op != "call_function" or not node.args or node.target in ops.POSITIONAL:
            return None
        named = self._by_name(node, work)
        return (node.target, (), named) if named is not None else None

    def _by_name(self, node: Node, work: Work) -> dict[str, Any] | None:
        """All arguments of a call by name, without those equal to their default; None where names are not known."""
        call = ops.bind(node)
        if call is not None and node.target is call.operation.emitted:
            return call.operation.without_defaults(call.arguments)
        known = traits(node)
        if known.is_opaque or known.is_mode or known.is_check:
            return None
        if known.signature is not None:
            return _by_signature(node, known.signature)
        return self._by_schema(node, work)

    def _by_schema(self, node: Node, work: Work) -> dict[str, Any] | None:
        key = (node.target, tuple(node.kwargs), *map(_type, node.args))
        if key not in self._schemas:
            self._schemas[key] = _schema_names(node, work)
        names = self._schemas[key]
        return None if names is None else dict(zip(names, node.args, strict=True)) | node.kwargs


def _by_signature(node: Node, signature: Signature) -> dict[str, Any] | None:
    parameters = signature.parameters.values()
    if any(each.kind not in (each.POSITIONAL_OR_KEYWORD, each.KEYWORD_ONLY) for each in parameters):
        return None
    try:
        bound = signature.bind(*node.args, **node.kwargs).arguments
    except TypeError:
        return None
    defaults = {each.name: each.default for each in parameters}
    return {name: given for name, given in bound.items() if not ops.is_default(given, defaults[name])}


def _type(given: Any) -> type:
    if isinstance(given, Node):
        given = facts.value(given)
    return torch.Tensor if isinstance(given, torch.Tensor) else type(given)


def _schema_names(node: Node, work: Work) -> tuple[str, ...] | None:
    """What torch's schemas call the positional arguments, if the function takes these names (some do not)."""
    if not is_pure(node):
        return None
    types = tuple(map(_type, node.args))
    kwarg_types = {name: _type(given) for name, given in node.kwargs.items()}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        found = normalize_function(node.target, node.args, node.kwargs, types, kwarg_types, True)
    if found is None or found.args or len(found.kwargs) < len(node.args):
        return None
    names = tuple(found.kwargs)[: len(node.args)]
    if not all(found.kwargs[name] is given for name, given in zip(names, node.args, strict=True)):
        return None
    named = dict(zip(names, node.args, strict=True)) | node.kwargs
    return names if work.takes(node, (), named) else None
