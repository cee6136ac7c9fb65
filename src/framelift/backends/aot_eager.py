"""The backend that runs the graph as AOTAutograd leaves it: functional, with its own backward, not compiled.

It tells a fault of graph capture from one of AOTAutograd, and both from one of Inductor.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from torch._functorch.aot_autograd import aot_module_simplified, make_boxed_func
from torch.fx import GraphModule
from torch.fx._lazy_graph_module import _LazyGraphModule, _use_lazy_graph_module

from framelift.backends.registry import takes_no_options
from framelift.backends.tracing import current_symbols, depends_on_data
from framelift.controls import disable_function
from framelift.graph.emission.runtime_asserts import insert_deferred_runtime_asserts
from framelift.graph.torch_caches import release_source


@takes_no_options
def aot_eager(module: GraphModule, example_inputs: Sequence[Any], *, mode: str | None = None) -> Callable[..., Any]:
    """The graph through AOTAutograd, forward and backward, with torch's own kernels.

    ``mode`` tunes code generation and means nothing here.
    """
    del mode
    compiled: Callable[..., Any]
    # AOTAutograd changes its graphs after it made them. It does not generate code of each state, whose source would
    # stay in torch's table for ever, when they are lazy.
    with _use_lazy_graph_module(True):
        compiled = aot_module_simplified(module, list(example_inputs), fw_compiler=_as_it_is, bw_compiler=_as_it_is)
    return compiled


def _as_it_is(module: GraphModule, example_inputs: Sequence[Any]) -> Callable[..., Any]:
    del example_inputs
    release_source(module)
    shape_env = current_symbols()
    if shape_env is not None and depends_on_data(module):
        # AOTAutograd leaves out checks of what it takes for true: they are made from what was presumed once more.
        insert_deferred_runtime_asserts(module, shape_env, "AOTAutograd")
    _LazyGraphModule.force_recompile(module)
    # The backward is called from outside the lifted frame, where frames may be watched: it is compiled already.
    return make_boxed_func(disable_function(module.forward, recursive=True, reason="it is a compiled graph"))


aot_eager.is_own = True  # type: ignore[attr-defined]
aot_eager.takes_subgraphs = True  # type: ignore[attr-defined]
