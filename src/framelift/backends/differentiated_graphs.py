"""Graphs that ask autograd for derivatives, for compilers: forward and backward as one graph of plain operations.

A compiler takes a graph for something that autograd differentiates later. Here that has happened by its end: the graph
is run once on fake tensors, autograd with it, and what reaches the dispatcher is the graph that is compiled, without
gradients. What leaves it and requires gradients in eager mode is given a history again, whose backward says what
autograd says: that the saved tensors are gone. Where they are not, the graph is left to autograd as it is.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import torch
from torch._subclasses.fake_tensor import FakeTensorMode
from torch.fx import GraphModule, Interpreter
from torch.fx.experimental.proxy_tensor import make_fx
from torch.fx.traceback import preserve_node_meta

from framelift.backends.tracing import end_as_it_began, fake_of
from framelift.graph import GraphBuilder, TensorRef
from framelift.graph.errors import MetadataFailure, first_line
from framelift.graph.operations.derivatives import accumulated_gradients, has_hooks_at_node
from framelift.graph.propagation.fake import unobserved
from framelift.graph.torch_caches import release_source
from framelift.options import Backend

# oneDNN's layer of an LSTM keeps its workspace where gradients are recorded.
_ASKS_FOR_GRAD_MODE = (torch.ops.aten.mkldnn_rnn_layer.default,)
# What is known of an input, for whoever compiles a graph.
_OF_INPUTS = ("input_source", "input_kind", "example_value", "symbolic")


class LeftToAutograd(Exception):
    """No compiler is given a graph: its operations run one by one, under autograd. Says why."""


class Spent(NamedTuple):
    """A result that requires gradients, of which autograd has none to give any more."""

    place: int
    # The leaves behind it, by their places among the inputs.
    leaves: tuple[int, ...]
    # What autograd says.
    words: str


def compile_differentiated(
    backend: Backend, module: GraphModule, graph: GraphBuilder, outputs: Sequence[Any]
) -> Callable[..., Any]:
    """What a compiler makes of a graph that asks for derivatives, or LeftToAutograd."""
    as_it_is: Callable[..., Any] = module.forward
    spent, examples = _spent_results(graph, outputs), graph.example_inputs
    if _warns(graph):
        raise LeftToAutograd("autograd warns of gradients that have a history")
    try:
        taken_apart = _without_autograd(module, examples)
    except RuntimeError as error:  # what autograd refuses of fakes it does, or refuses, when the graph runs
        raise LeftToAutograd(f"it cannot be taken apart: {first_line(error)}") from error
    if _asks_for_grad_mode(taken_apart):
        if backend.is_bitwise:
            raise LeftToAutograd("a layer of oneDNN computes in another way where gradients are recorded")
        with torch.backends.mkldnn.flags(enabled=False):
            taken_apart = _without_autograd(module, examples)
    with torch.no_grad():
        compiled = backend.compile(taken_apart, examples)
    leaves = _leaves(graph)

    def run(*args: Any) -> Any:
        if _is_watched() or any(has_hooks_at_node(args[place]) for place in leaves):
            return as_it_is(*args)
        with torch.no_grad():
            results = compiled(*args)
        return _with_history(results, args, spent) if spent else results

    return run


def _spent_results(graph: GraphBuilder, outputs: Sequence[Any]) -> list[Spent]:
    """The results of a graph that require gradients, of which there are none to give any more."""
    places = {id(ref): place for place, ref in enumerate(graph.live_inputs)}
    if any(ref in graph.mutated and ref.requires_grad and not ref.descriptor.is_leaf for ref in graph.inputs):
        raise LeftToAutograd("a tensor with a history is written to")
    found: list[Spent] = []
    for place, ref in enumerate(outputs):
        if isinstance(ref, TensorRef) and ref.requires_grad:
            try:
                spent = graph.history.spent(ref)
            except MetadataFailure as failure:  # the history of sizes that depend on data is not followed
                raise LeftToAutograd(failure.reason) from failure
            if spent is None:
                raise LeftToAutograd("a result can be differentiated once more")
            words, leaves = spent
            found.append(Spent(place, tuple([places[id(leaf)] for leaf in leaves]), words))
    return found


def _without_autograd(module: GraphModule, examples: Sequence[Any]) -> GraphModule:
    """The operations that reach the dispatcher, autograd's among them."""
    end_as_it_began(module)  # its modes are the process's while it is traced, and when it is compiled
    given = module.graph.find_nodes(op="placeholder")
    mode = FakeTensorMode(shape_env=module.shape_env, allow_non_fake_inputs=True)
    fakes = [fake_of(mode, value, node.meta.get("symbolic")) for node, value in zip(given, examples, strict=True)]
    grad = torch.set_grad_enabled(torch.is_grad_enabled())
    with unobserved(), grad, torch.autograd.set_detect_anomaly(False), preserve_node_meta(), mode:
        traced = make_fx(Interpreter(module).run)(*fakes)
    release_source(traced)
    for node, original in zip(traced.graph.find_nodes(op="placeholder"), given, strict=True):
        node._rename(original.name)
        node.target = node.name
        node.meta.update({key: original.meta.get(key) for key in _OF_INPUTS})
    _spell_constants(traced)
    _mark_effects(traced, module)
    traced.recompile()
    traced.shape_env = module.shape_env
    traced.meta.update(module.meta)
    return traced


def _spell_constants(traced: GraphModule) -> None:
    """Tensors that the program has written down are made in the graph: compilers take those that a module holds for
    its parameters, and ask where these come from."""
    held = {node: getattr(traced, node.target) for node in traced.graph.find_nodes(op="get_attr")}
    for node, value in held.items():
        if isinstance(value, torch.Tensor):
            with traced.graph.inserting_before(node):
                kwargs = {"dtype": value.dtype, "device": value.device}
                made = traced.graph.call_function(torch.tensor, (value.tolist(),), kwargs)
            made.meta.update(node.meta)
            node.replace_all_uses_with(made)
            traced.graph.erase_node(node)
    for name in {node.target for node, value in held.items() if isinstance(value, torch.Tensor)}:
        delattr(traced, name)


def _is_watched() -> bool:
    """Whether the program is told what autograd saves, or wants gradients searched for NaN."""
    return torch._C._autograd._top_saved_tensors_default_hooks(False) is not None or torch.is_anomaly_enabled()


def _leaves(graph: GraphBuilder) -> list[int]:
    """The places of the inputs whose gradients are added up."""
    found = {id(leaf) for record in graph.records if record.target is accumulated_gradients for leaf in record.args[4]}
    return [place for place, ref in enumerate(graph.live_inputs) if id(ref) in found]


def _warns(graph: GraphBuilder) -> bool:
    """Whether autograd warns when the graph runs: gradients with a history of their own make cycles of references."""
    return any(record.target is accumulated_gradients and record.args[3] for record in graph.records)


def _mark_effects(traced: GraphModule, module: GraphModule) -> None:
    """Say which operations are more than what they give: seeds, numbers that are drawn for nobody, what may raise."""
    raising = {node.name for node in module.graph.nodes if node.meta.get("is_private")}
    for node in traced.graph.nodes:
        draws = torch.Tag.nondeterministic_seeded in getattr(node.target, "tags", ())
        if draws or any(name in raising for name, _ in node.meta.get("source_fn_stack", ())):
            node.meta.update(is_private=True, example_value=node.meta.get("val"))


def _asks_for_grad_mode(traced: GraphModule) -> bool:
    """Whether an operator leaves out what its backward needs where gradients are not recorded, as when this runs."""
    return any(traced.graph.find_nodes(op="call_function", target=target) for target in _ASKS_FOR_GRAD_MODE)


def _with_history(results: Sequence[Any], args: Sequence[Any], spent: Sequence[Spent]) -> list[Any]:
    made = list(results)
    for one in spent:
        with torch.enable_grad():
            made[one.place] = _Spent.apply(one.words, [made[one.place]], *[args[place] for place in one.leaves])
    return made


class _Spent(torch.autograd.Function):
    """The history of a result whose backward has run."""

    @staticmethod
    def forward(ctx: Any, words: str, result: list[torch.Tensor], *leaves: torch.Tensor) -> torch.Tensor:
        ctx.words = words
        return result[0]

    @staticmethod
    def backward(ctx: Any, *gradients: torch.Tensor) -> Any:
        raise RuntimeError(ctx.words)
