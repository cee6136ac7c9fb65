"""Export: one call as one graph that can be printed, changed and run on its own."""

from __future__ import annotations

import inspect
from collections import OrderedDict
from collections.abc import Callable, Mapping, Sequence
from types import FunctionType, MethodType
from typing import Any

import torch
from torch.fx import GraphModule, Node
from torch.fx.experimental.proxy_tensor import make_fx
from torch.utils import _pytree as pytree

from framelift.breaks import FL0107, GraphBreak
from framelift.capture.capture import trace_whole
from framelift.capture.lift import Lift
from framelift.capture.numbers import note_symbols, refuse_constants
from framelift.capture.request import Request
from framelift.effects.journal import Replayed
from framelift.errors import FullGraphError
from framelift.graph import NumberRef, TensorRef
from framelift.graph.emission.argument_checks import ArgumentChecks, Asked
from framelift.graph.emission.exported import Call
from framelift.guards.guardset import Guard, Relation
from framelift.guards.quantity import Quantity
from framelift.guards.source import Source
from framelift.native import _core
from framelift.options import Options, frozen_wishes
from framelift.report import stream
from framelift.runtime.exported_arguments import Passing
from framelift.runtime.histories import wishes_for
from framelift.runtime.lifting import Runtime
from framelift.shapes.dynamic_shapes import CommonSizes, by_name
from framelift.values.containers.dicts import DictValue
from framelift.values.containers.sequences import SequenceValue
from framelift.values.core.base import Value
from framelift.values.core.hash_keys import from_key
from framelift.values.numbers.symbolic import SymbolicValue
from framelift.values.objects.instances import UserObjectValue
from framelift.values.subclasses.containers import ContainerObjectValue
from framelift.values.subclasses.tuples import TupleObjectValue
from framelift.values.tensors.tensors import TensorValue


def export_call(
    runtime: Runtime,
    target: Callable[..., Any],
    args: Sequence[Any],
    kwargs: dict[str, Any],
    aten_graph: bool,
    dynamic_shapes: Any = None,
) -> tuple[GraphModule, list[Guard | Relation]]:
    """`(graph_module, guards)` of the call: the module is called as the target is."""
    given = _arguments(target, args, kwargs)
    call = Call.of(given.signature.replace(return_annotation=given.signature.empty), given.arguments)
    function, args, is_wrapped = _as_function(target, args)
    passing = Passing(call.signature, is_wrapped, tuple(kwargs))
    dynamic = None
    if dynamic_shapes is not None:
        dynamic = frozen_wishes(_wishes(dynamic_shapes, given.arguments, passing))
        call.common_sizes = _common_sizes(dynamic_shapes, given.arguments, call)
    options = Options(_no_backend, fullgraph=True, dynamic=dynamic)  # type: ignore[arg-type]
    slots = _bind(function, args, kwargs)
    wishes = wishes_for(options, function, slots)
    request = Request(function, slots, options, None, runtime.fragments, runtime.make_graph, wishes=wishes)
    with runtime.lock:
        lift, result = trace_whole(request, runtime.programs, stream.new_capture())
    if lift.journal.changed:
        names = ", ".join(dict.fromkeys(_spelled(value) for value in lift.journal.changed))
        raise FullGraphError(f"export: the function changes {names}, which a graph cannot do")
    structure = _structure(lift, result)
    module = lift.graph.finish(_refs(structure), export=True)
    refuse_constants(lift)
    note_symbols(lift)
    _return_structure(module, structure, call)
    _take_arguments(module, lift, call, passing)
    module.graph.lint()
    layout = aten_graph or lift.graph.layout_questions > 0 or lift.graph.layout_decisions > 0
    asked = Asked(layout, lift.graph.history_questions > 0)
    call.checks = ArgumentChecks(lift.guards.guards, lift.guards.relations, passing.place_of, asked)
    if aten_graph:
        module = _to_aten(module, lift)
    module.graph.set_codegen(call)
    module.recompile()
    call.forget_values()
    return module, [*lift.guards.guards, *lift.guards.relations]


def _arguments(target: Callable[..., Any], args: Sequence[Any], kwargs: dict[str, Any]) -> inspect.BoundArguments:
    """The arguments by name: a module is called as its `forward`, whose parameters have names."""
    plain = getattr(target, "_orig_mod", target)
    signature = inspect.signature(plain.forward if isinstance(plain, torch.nn.Module) else plain)
    bound = signature.bind(*args, **kwargs)
    bound.apply_defaults()
    return bound


def _wishes(shapes: Any, arguments: Mapping[str, Any], passing: Passing) -> dict[Any, Any]:
    """What is said about inputs, by names that the traced function has for them."""
    wishes = by_name(shapes, arguments)
    return {passing.source_name(name) if isinstance(name, str) else name: wish for name, wish in wishes.items()}


def _common_sizes(shapes: Any, arguments: Mapping[str, Any], call: Call) -> CommonSizes:
    """The sizes that were given names, which must be true of the call that is exported."""
    found = CommonSizes.of(shapes, arguments)
    wrong = found.failure(dict(zip(call.names, call.leaves, strict=True)))
    if wrong is not None:
        raise ValueError(f"dynamic_shapes says that {wrong}")
    return found


def _as_function(target: Callable[..., Any], args: Sequence[Any]) -> tuple[FunctionType, Sequence[Any], bool]:
    """A Python function to trace, its arguments, and whether it takes those of the target by `*args` and `**kwargs`."""
    target = getattr(target, "_orig_mod", target)
    if isinstance(target, _core.Lifted):
        target = target.__wrapped__
    if isinstance(target, MethodType) and type(target.__func__) is FunctionType:
        return target.__func__, (target.__self__, *args), False
    if isinstance(target, FunctionType):
        return target, args, False

    def call(self: Any, *args: Any, **kwargs: Any) -> Any:
        return self(*args, **kwargs)

    assert isinstance(call, FunctionType)
    return call, (target, *args), True


def _no_backend(*_: Any) -> Any:
    raise AssertionError("an exported graph is not compiled")


def _bind(function: FunctionType, args: Sequence[Any], kwargs: dict[str, Any]) -> tuple[Any, ...]:
    """The argument slots of the call: positional, keyword-only, *args, **kwargs."""
    bound = inspect.signature(function).bind(*args, **kwargs)
    bound.apply_defaults()
    code = function.__code__
    count = code.co_argcount + code.co_kwonlyargcount + bool(code.co_flags & 4) + bool(code.co_flags & 8)
    return tuple(bound.arguments[name] for name in code.co_varnames[:count])


def _spelled(value: Replayed) -> str:
    return value.describe() if value.source is None else f"{value.source.name}, a {value.describe()}"


# -- the result ------------------------------------------------------------------------------------------------------


def _structure(lift: Lift, value: Any) -> Any:
    """The result as plain containers of graph values and constants."""
    if not isinstance(value, Value):
        return value
    value.note(lift)
    if isinstance(value, TensorValue | SymbolicValue):
        return value.ref(lift)
    kind = value.python_type()
    if isinstance(value, TupleObjectValue):
        return tuple.__new__(kind, [_structure(lift, item) for item in value.items(lift)])
    if isinstance(value, SequenceValue):
        return value.kind(_structure(lift, item) for item in value.items(lift))
    if isinstance(value, DictValue) and kind in (dict, OrderedDict):
        return kind((lift.constant(key), _structure(lift, item)) for key, item in value.entries(lift).items())
    if isinstance(value, UserObjectValue) and kind in pytree.SUPPORTED_NODES:
        return _instance(lift, value)
    try:
        return lift.constant(value)
    except GraphBreak:
        raise FullGraphError(f"{FL0107.id}: {FL0107.text.format(what=value.describe())}") from None


def _instance(lift: Lift, value: UserObjectValue) -> Any:
    """An object of a class that pytree takes apart; none of the class's own code makes it."""
    base: Any = value.base if isinstance(value, ContainerObjectValue) else object
    made = base.__new__(value.cls)
    if isinstance(value, ContainerObjectValue) and issubclass(base, dict):
        for key, item in value.storage(lift).entries(lift).items():
            base.__setitem__(made, from_key(key), _structure(lift, item))
    namespace = value.namespace(lift)
    if namespace is not None:
        made.__dict__.update((key, _structure(lift, item)) for key, item in namespace.entries(lift).items())
    return made


def _refs(structure: Any) -> list[TensorRef | NumberRef]:
    return [leaf for leaf in pytree.tree_leaves(structure) if isinstance(leaf, TensorRef | NumberRef)]


def _return_structure(module: GraphModule, structure: Any, call: Call) -> None:
    """Nodes take the places of the values they compute."""
    output = module.graph.output_node()
    nodes = iter(output.args[0])
    leaves, spec = pytree.tree_flatten(structure)
    leaves = [next(nodes) if isinstance(leaf, TensorRef | NumberRef) else leaf for leaf in leaves]
    if _is_written_by_fx(structure):
        output.args = (pytree.tree_unflatten(leaves, spec),)
    else:
        output.args, call.result = (tuple(leaves),), spec


def _is_written_by_fx(structure: Any) -> bool:
    """Whether FX can write a structure of containers as Python code."""
    if isinstance(structure, list | tuple | dict):
        parts = structure.values() if isinstance(structure, dict) else structure
        return type(structure) in (list, tuple, dict) and all(map(_is_written_by_fx, parts))
    return type(structure) not in pytree.SUPPORTED_NODES


# -- the inputs ------------------------------------------------------------------------------------------------------


def _take_arguments(module: GraphModule, lift: Lift, call: Call, passing: Passing) -> None:
    """Leaves of the arguments become the module's inputs, in their order; other tensors become its attributes."""
    placeholders = module.graph.find_nodes(op="placeholder")
    places: dict[int, Any] = {}
    for ref, node in zip(lift.graph.live_inputs, placeholders, strict=True):
        concrete = None if isinstance(ref, NumberRef) else lift.inputs.tensors[id(ref)].concrete
        place = _place_in(call, lift.inputs.origin(ref), passing) if concrete is None else _tensor_at(call, concrete)
        if place is None and concrete is not None and lift.inputs.source(ref).access == "AS_TENSOR":
            place = _array_at(call, lift.inputs.source(ref), passing)
        if place is not None:
            places[place] = node
        elif concrete is not None:
            _hold(module, node, concrete)
        else:
            raise FullGraphError(f"export: {ref.source_name} is no argument that a graph could take")
    call.takes = tuple(sorted(places))
    first = module.graph._root.next
    for place in call.takes:
        if places[place] is first:
            first = first.next
        else:
            first.prepend(places[place])


def _tensor_at(call: Call, tensor: torch.Tensor) -> int | None:
    return next((i for i, leaf in enumerate(call.leaves) if leaf is tensor), None)


def _place_in(call: Call, origin: Any, passing: Passing) -> int | None:
    """The leaf that is this number."""
    if not isinstance(origin, Quantity) or origin.kind != "VALUE":
        return None
    return _leaf_at(call, passing.place_of(origin.source))


def _array_at(call: Call, source: Source, passing: Passing) -> int | None:
    """The leaf that is an array, which the graph takes as a tensor."""
    assert source.parent is not None, "an array is found somewhere"
    place = _leaf_at(call, passing.place_of(source.parent))
    if place is not None:
        call.conversions[place] = source.argument
    return place


def _leaf_at(call: Call, place: Source | None) -> int | None:
    return None if place is None else next((i for i, name in enumerate(call.names) if name == place.name), None)


def _hold(module: GraphModule, node: Node, tensor: torch.Tensor) -> None:
    """A tensor that is no argument: an attribute of the module."""
    if isinstance(tensor, torch.nn.Parameter):
        module.register_parameter(node.name, tensor)
    else:
        module.register_buffer(node.name, tensor)
    with module.graph.inserting_before(node):
        held = module.graph.get_attr(node.name)
    held.meta = dict(node.meta)
    node.replace_all_uses_with(held)
    module.graph.erase_node(node)


# -- the ATen level --------------------------------------------------------------------------------------------------


def _to_aten(module: GraphModule, lift: Lift) -> GraphModule:
    """The same graph in terms of ATen operators."""
    fakes = [node.meta["example_value"] for node in module.graph.find_nodes(op="placeholder")]
    lowered: GraphModule = make_fx(module, tracing_mode="fake", _allow_non_fake_inputs=True)(*fakes)
    lowered.shape_env = lift.graph.shape_env
    return lowered
