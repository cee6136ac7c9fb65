"""The backend that runs the graph's operations as they are, one by one."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch.fx import GraphModule
from torch.fx._lazy_graph_module import _LazyGraphModule


def eager(module: GraphModule, example_inputs: Sequence[torch.Tensor]) -> Callable[..., Any]:
    """The graph's own forward.

    >>> from framelift.graph import GraphBuilder
    >>> builder = GraphBuilder()
    >>> x = builder.add_input("x", torch.ones(2))
    >>> compiled = eager(builder.finish([builder.call_function(torch.neg, (x,))]), [])
    >>> compiled(torch.ones(2))
    (tensor([-1., -1.]),)
    """
    # Generates the code now: a call through a module that does it lazily costs microseconds every time.
    _LazyGraphModule.force_recompile(module)
    return module.forward
