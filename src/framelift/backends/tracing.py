"""What torch's compilers want around them when they compile a graph, and with them every backend that uses one.

A backend is given real tensors. What it assumes about their sizes must become guards, so the mode for fake tensors that
compilers find in the tracing context knows for each of them a fake with the symbols of the capture.
"""

from __future__ import annotations

import functools
import importlib
import itertools
from collections.abc import Iterator, Sequence
from contextlib import AbstractContextManager, ExitStack, contextmanager, nullcontext
from typing import Any

import torch
import torch._functorch.config
import torch.compiler.config
from torch._guards import (
    CompileContext,
    CompileId,
    TracingContext,
    compile_context,
    tracing,
)
from torch._subclasses.fake_tensor import FakeTensorMode
from torch.fx import Graph, GraphModule
from torch.fx.experimental.symbolic_shapes import ShapeEnv
from torch.fx.node import has_side_effect
from torch.utils.hooks import RemovableHandle

from framelift.backends.assert_order import asserts_first
from framelift.backends.size_reads import SymbolicAnswers
from framelift.graph.propagation.fake import fake_with_layout, is_part
from framelift.graph.torch_caches import forget_tracebacks
from framelift.shapes.symbols import Layout, NamedSource, hidden_floats
from framelift.shapes.unbacked import Presumed, PresumingEnv
from framelift.silence import raising_no_warnings

_COMPILE_NUMBERS = itertools.count()

# Kinds of inputs that keep their address from call to call, so that a CUDA graph need not copy them.
STATIC_KINDS = ("parameter", "buffer", "static")


@functools.cache
def keep_checks() -> None:
    """What raises and has no result is no dead code: torch 2.11 leaves the checks of linear algebra out of graphs."""
    check = torch.ops.aten._linalg_check_errors.default
    if not Graph().call_function(check, (None, "")).is_impure():
        has_side_effect(check)


@contextmanager
def compiling(
    module: GraphModule, example_inputs: Sequence[Any], answers: bool = False, reuses_saved: bool = False
) -> Iterator[list[Any]]:
    """A tracing context for a compiler; gives the inputs as it wants them: tensors, and symbols for numbers.

    With `answers` a size that the compiler reads off one of the tensors is a symbol, too. With `reuses_saved` its
    backwards may use the memory of what was saved for them; else AOTAutograd need not refuse `retain_graph=True`
    after a backward without.

    The fake tensors of the capture may have been written to by the operations captured, so compilers make others, in a
    fresh mode that shares the capture's ShapeEnv: what they assume about symbolic sizes becomes guards. The environment
    is frozen afterwards, because nobody would hear of a later assumption; so a backward over symbolic sizes is compiled
    at once.
    """
    forget_tracebacks()
    keep_checks()
    shape_env = getattr(module, "shape_env", None) or _env_without_capture()
    known = len(shape_env.guards)
    mode = FakeTensorMode(shape_env=shape_env, allow_non_fake_inputs=True)
    number = CompileId(frame_id=next(_COMPILE_NUMBERS), frame_compile_id=0)
    _name_inputs(module, example_inputs, number)
    end_as_it_began(module)
    placeholders = module.graph.find_nodes(op="placeholder")
    symbolic = [node.meta.get("symbolic") for node in placeholders]
    takes_numbers = any(node.meta.get("input_kind") == "number" for node in placeholders)
    at_once = depends_on_data(module) or any(entry is not None for entry in symbolic)
    shape_env.is_static = not at_once
    with ExitStack() as stack:
        stack.enter_context(raising_no_warnings())
        stack.enter_context(_hooks_of_its_own())
        # As torch asks users to call it: outside of the block that switches autocast on for the forward.
        stack.enter_context(torch._functorch.config.patch(backward_pass_autocast="off"))
        stack.enter_context(compile_context(CompileContext(number)))
        context = _Context(mode)
        stack.enter_context(tracing(context))
        stack.enter_context(_caches_for(module, example_inputs))
        stack.enter_context(hidden_floats(shape_env, _symbols_of_inputs(module)))
        if at_once:
            # A backward that is compiled before it is known how it is called must leave what was saved alone: it may
            # be called with `retain_graph=True`.
            stack.enter_context(torch._functorch.config.patch(force_non_lazy_backward_lowering=True))
        keeps_saved = at_once or not reuses_saved
        if keeps_saved:
            stack.enter_context(torch._functorch.config.patch(donated_buffer=False))
        # The mode knows a fake by its tensor as long as somebody holds the fake. Where nothing is symbolic, compilers
        # make them as they need them, if they can.
        fakes = [fake_of(mode, value) if _needs_ours(value) else value for value in example_inputs]
        if at_once or takes_numbers:
            fakes = [fake_of(mode, *pair) for pair in zip(example_inputs, symbolic, strict=True)]
        triples = list(zip(example_inputs, fakes, symbolic, strict=True))
        asked = [(value, fake) for value, fake, entry in triples if isinstance(value, torch.Tensor) and entry]
        if answers and asked:
            stack.enter_context(SymbolicAnswers(asked))
        yield [value if isinstance(value, torch.Tensor) else fake for value, fake, _ in triples]
        if keeps_saved:
            for metadata in context.of_graphs:  # none are given away; torch takes None for some
                metadata.bw_donated_idxs = []
    if not at_once:
        _forget_guards(module, shape_env, known)
    shape_env.freeze()


class _Context(TracingContext):
    """A tracing context that knows what AOTAutograd has found out of each graph it was called with, not of the last
    one only."""

    def __init__(self, mode: FakeTensorMode) -> None:
        self.of_graphs: list[Any] = []
        super().__init__(mode)

    @property
    def fw_metadata(self) -> Any:
        return self.of_graphs[-1] if self.of_graphs else None

    @fw_metadata.setter
    def fw_metadata(self, metadata: Any) -> None:
        if metadata is not None:
            self.of_graphs.append(metadata)


@contextmanager
def _hooks_of_its_own() -> Iterator[None]:
    """Hooks that a compiler adds to what it makes are not counted among the program's, which number those to come."""
    count = RemovableHandle.next_id
    try:
        yield
    finally:
        if RemovableHandle.next_id != count:
            RemovableHandle.next_id = count


def _needs_ours(value: Any) -> bool:
    return isinstance(value, torch.Tensor) and is_part(value)


def _env_without_capture() -> PresumingEnv:
    """For a graph that nobody captured: it checks nothing that could be presumed."""
    env = PresumingEnv()
    env.takes_data, env.presumes = True, False
    return env


def _forget_guards(module: GraphModule, shape_env: ShapeEnv, known: int) -> None:
    """A compiler that was given no symbols has assumed something of symbols that it made of numbers: nothing may."""
    if len(shape_env.guards) > known and getattr(module, "shape_env", None) is None:
        facts = ", ".join(str(guard.expr) for guard in shape_env.guards[known:])
        raise RuntimeError(f"the compiler assumed {facts} of sizes, which nothing checks when the graph is called")
    del shape_env.guards[known:]


def end_as_it_began(module: GraphModule) -> None:
    """AOTAutograd takes no graph that ends with other settings of autocast, or derives it as if backward were called
    with autocast as it is at the end; residual code switches to what the program wants itself."""
    graph = module.graph
    ends = [(each, {node.args[0] for node in graph.find_nodes(op="call_function", target=each)}) for each in _AUTOCAST]
    with graph.inserting_before(graph.output_node()):
        for switch, devices in ends:
            for device in sorted(devices):
                graph.call_function(switch, (device, _AUTOCAST[switch](device)))
        if graph.find_nodes(op="call_function", target=torch.set_autocast_cache_enabled):
            graph.call_function(torch.set_autocast_cache_enabled, (torch.is_autocast_cache_enabled(),))
    if any(devices for _, devices in ends):
        module.recompile()


# How autocast is switched on a device, and how it stands.
_AUTOCAST = {
    torch.set_autocast_enabled: torch.is_autocast_enabled,
    torch.set_autocast_dtype: torch.get_autocast_dtype,
}


def _name_inputs(module: GraphModule, example_inputs: Sequence[Any], number: CompileId) -> None:
    """Says where inputs come from and which of them stay where they are, in the way AOTAutograd looks for it."""
    module.meta["dynamo_compile_id"] = number
    # Numbers that were written into tensors while the graph was traced once more.
    module._param_name_to_source = {name: NamedSource(name) for name in module.state_dict(keep_vars=True)}
    placeholders = module.graph.find_nodes(op="placeholder")
    for node, value in zip(placeholders, example_inputs, strict=True):
        is_static = isinstance(value, torch.nn.Parameter) or node.meta.get("input_kind") in STATIC_KINDS
        node._dynamo_source = NamedSource(node.name)
        if isinstance(value, torch.Tensor):
            node.meta["tensor_dict"] = {"_dynamo_static_input_type": "unguarded"} if is_static else {}


def _symbols_of_inputs(module: GraphModule) -> set[Any]:
    """The symbols of the numbers that a graph takes."""
    values = (node.meta.get("example_value") for node in module.graph.find_nodes(op="placeholder"))
    return {value.node.expr for value in values if isinstance(value, torch.SymFloat)}


def depends_on_data(module: GraphModule) -> bool:
    """Whether sizes or numbers in a graph are known only when it runs."""
    given = getattr(getattr(module, "shape_env", None), "unbacked_inputs", None)
    return bool(given) or any(node.meta.get("unbacked_bindings") for node in module.graph.nodes)


def presumed_so_far(module: GraphModule) -> Presumed | None:
    """What a graph checks of what it presumes about data, if it does."""
    return module.shape_env.presumed() if depends_on_data(module) else None


def current_symbols() -> ShapeEnv | None:
    """The environment of the symbols of the graph that is being compiled."""
    context = TracingContext.try_get()
    mode = None if context is None else context.fake_mode
    return None if mode is None else mode.shape_env


def _caches_for(module: GraphModule, example_inputs: Sequence[Any]) -> AbstractContextManager[Any]:
    """Tell the caches in what graphs differ beyond what their keys say, or keep them away.

    AOTAutograd's key does not say how inputs share memory: what was compiled for memory that lies apart would be
    taken. No key says what was presumed about sizes that depend on data.
    """
    if depends_on_data(module):
        stack = ExitStack()
        stack.enter_context(torch._functorch.config.patch(enable_autograd_cache=False))
        inductor = importlib.import_module("torch._inductor.config")  # not loaded before somebody needs it: it is big
        ordered = asserts_first(inductor._pre_fusion_custom_pass)
        stack.enter_context(inductor.patch(fx_graph_cache=False, _pre_fusion_custom_pass=ordered))
        return stack
    shared = _shared_memory(example_inputs)
    if not shared:
        return nullcontext()
    tag = f"{torch.compiler.config.cache_key_tag} inputs in shared memory: {shared}"
    tagged: AbstractContextManager[Any] = torch.compiler.config.patch(cache_key_tag=tag)
    return tagged


def _shared_memory(example_inputs: Sequence[Any]) -> list[tuple[int, ...]]:
    """Of each input whose memory another has, too: which it is, the first of them, where it lies in how much memory,
    and whether it is a view."""
    sharing: dict[int, list[int]] = {}
    for index, value in enumerate(example_inputs):
        if isinstance(value, torch.Tensor) and torch._C._has_storage(value):
            sharing.setdefault(value.untyped_storage()._cdata, []).append(index)
    return [
        (index, indices[0], tensor.storage_offset(), tensor.untyped_storage().nbytes(), int(tensor._is_view()))
        for indices in sharing.values()
        for index, tensor in ((index, example_inputs[index]) for index in indices if len(indices) > 1)
    ]


def fake_of(mode: FakeTensorMode, value: Any, symbolic: Any = None) -> Any:
    """An input as a compiler sees it; `symbolic` is the layout of a tensor, or the symbol that is a number."""
    if not isinstance(value, torch.Tensor):
        return value if symbolic is None else symbolic
    if symbolic is None and is_part(value):
        symbolic = Layout(value.size(), value.stride())
    if symbolic is None:
        return mode.from_tensor(value, static_shapes=True)
    fake = fake_with_layout(mode, value, symbolic)
    mode.fake_tensor_converter.set_tensor_memo(value, fake)
    return fake
