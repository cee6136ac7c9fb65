"""Export: one call as one graph that can be printed, changed and run on its own."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Sequence
from types import FunctionType, MethodType
from typing import Any

import torch
from torch.fx import GraphModule
from torch.fx.experimental.proxy_tensor import make_fx
from torch.utils import _pytree as pytree

from framelift.breaks import FL0107, GraphBreak
from framelift.capture.capture import Request, trace_whole
from framelift.capture.lift import Lift
from framelift.capture.numbers import note_symbols
from framelift.errors import FullGraphError
from framelift.graph import NumberRef, TensorRef
from framelift.guards.guardset import Guard, Relation
from framelift.native import _core
from framelift.options import Options, Wishes
from framelift.report import stream
from framelift.runtime.histories import wishes_for
from framelift.runtime.lifting import Runtime
from framelift.values.base import Value
from framelift.values.dicts import DictValue
from framelift.values.sequences import SequenceValue
from framelift.values.symbolic import SymbolicValue
from framelift.values.tensors import TensorValue


def export_call(
    runtime: Runtime,
    target: Callable[..., Any],
    args: Sequence[Any],
    kwargs: dict[str, Any],
    aten_graph: bool,
    dynamic: Wishes | None = None,
) -> tuple[GraphModule, list[Guard | Relation]]:
    """`(graph_module, guards)` of the call: the module takes the tensors among the arguments, in order."""
    given = [leaf for leaf in pytree.tree_leaves((args, kwargs)) if isinstance(leaf, torch.Tensor)]
    function, args = _as_function(target, args)
    options = Options(_no_backend, fullgraph=True, dynamic=dynamic)  # type: ignore[arg-type]
    slots = _bind(function, args, kwargs)
    wishes = wishes_for(options, slots)
    request = Request(function, slots, options, None, runtime.pieces, runtime.make_graph, wishes=wishes)
    with runtime.lock:
        lift, result = trace_whole(request, runtime.programs, stream.new_capture())
    if lift.journal.changed:
        names = ", ".join(value.describe() for value in lift.journal.changed)
        raise FullGraphError(f"export: the function changes {names}, which a graph cannot do")
    structure = _structure(lift, result)
    module = lift.graph.finish(_refs(structure))
    note_symbols(lift)
    _name_inputs(module, lift, given)
    _return_structure(module, structure)
    module.graph.lint()
    module.recompile()
    if aten_graph:
        module = _to_aten(module, lift)
    return module, [*lift.guards.guards, *lift.guards.relations]


def _as_function(target: Callable[..., Any], args: Sequence[Any]) -> tuple[FunctionType, Sequence[Any]]:
    """A Python function to trace, and its arguments."""
    target = getattr(target, "_orig_mod", target)
    if isinstance(target, _core.Lifted):
        target = target.__wrapped__
    if isinstance(target, MethodType) and isinstance(target.__func__, FunctionType):
        return target.__func__, (target.__self__, *args)
    if isinstance(target, FunctionType):
        return target, args

    def call(self: Any, *args: Any, **kwargs: Any) -> Any:
        return self(*args, **kwargs)

    assert isinstance(call, FunctionType)
    return call, (target, *args)


def _no_backend(*_: Any) -> Any:
    raise AssertionError("an exported graph is not compiled")


_no_backend.takes_symbolic_floats = True  # type: ignore[attr-defined]


def _bind(function: FunctionType, args: Sequence[Any], kwargs: dict[str, Any]) -> tuple[Any, ...]:
    """The argument slots of the call: positional, keyword-only, *args, **kwargs."""
    bound = inspect.signature(function).bind(*args, **kwargs)
    bound.apply_defaults()
    code = function.__code__
    count = code.co_argcount + code.co_kwonlyargcount + bool(code.co_flags & 4) + bool(code.co_flags & 8)
    return tuple(bound.arguments[name] for name in code.co_varnames[:count])


# -- the result ------------------------------------------------------------------------------------------------------


def _structure(lift: Lift, value: Any) -> Any:
    """The result as plain containers of graph values and constants."""
    if not isinstance(value, Value):
        return value
    value.note(lift)
    if isinstance(value, TensorValue | SymbolicValue):
        return value.ref(lift)
    if isinstance(value, SequenceValue):
        return value.kind(_structure(lift, item) for item in value.items(lift))
    if isinstance(value, DictValue):
        return {lift.constant(key): _structure(lift, item) for key, item in value.entries(lift).items()}
    try:
        return lift.constant(value)
    except GraphBreak:
        raise FullGraphError(f"{FL0107.id}: {FL0107.text.format(what=value.describe())}") from None


def _refs(structure: Any) -> list[TensorRef | NumberRef]:
    return [leaf for leaf in pytree.tree_leaves(structure) if isinstance(leaf, TensorRef | NumberRef)]


def _return_structure(module: GraphModule, structure: Any) -> None:
    def node_of(leaf: Any) -> Any:
        return leaf.node if isinstance(leaf, TensorRef | NumberRef) else leaf

    output = module.graph.output_node()
    output.args = (pytree.tree_map(node_of, structure),)


# -- the inputs ------------------------------------------------------------------------------------------------------


def _name_inputs(module: GraphModule, lift: Lift, arguments: list[torch.Tensor]) -> None:
    """Arguments become the module's inputs, in their order; parameters and other tensors become its attributes."""
    tensors = lift.inputs.tensors
    values = {id(value.concrete): value for value in tensors.values()}
    placeholders = [node for node in module.graph.nodes if node.op == "placeholder"]
    live = zip(lift.graph.live_inputs, placeholders, strict=True)
    nodes = {id(tensors[id(ref)].concrete): node for ref, node in live}
    first = module.graph._root.next
    for index, tensor in enumerate(arguments):
        node = nodes.pop(id(tensor), None)
        if node is None:
            with module.graph.inserting_before(first):
                module.graph.placeholder(f"unused_argument_{index}").meta["example_value"] = tensor
        elif node is first:
            first = first.next
        else:
            first.prepend(node)
    for tensor_id, node in nodes.items():
        _hold(module, node.name, values[tensor_id].concrete)
        with module.graph.inserting_before(node):
            held = module.graph.get_attr(node.name)
        held.meta = dict(node.meta)
        node.replace_all_uses_with(held)
        module.graph.erase_node(node)


def _hold(module: GraphModule, name: str, tensor: torch.Tensor) -> None:
    if isinstance(tensor, torch.nn.Parameter):
        module.register_parameter(name, tensor)
    else:
        module.register_buffer(name, tensor)


# -- the ATen level --------------------------------------------------------------------------------------------------


def _to_aten(module: GraphModule, lift: Lift) -> GraphModule:
    """The same graph in terms of ATen operators."""
    placeholders = [node for node in module.graph.nodes if node.op == "placeholder"]
    fakes = [node.meta["example_value"] for node in placeholders]
    lowered: GraphModule = make_fx(module, tracing_mode="fake", _allow_non_fake_inputs=True)(*fakes)
    lowered.shape_env = lift.graph.shape_env
    return lowered
