"""The backend that runs the graph's operations as they are, one by one."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from torch.fx import GraphModule

from framelift.backends.registry import takes_no_options


@takes_no_options
def eager(module: GraphModule, example_inputs: Sequence[Any], *, mode: str | None = None) -> Callable[..., Any]:
    """The graph's own forward.

    >>> import torch
    >>> from framelift.graph import GraphBuilder
    >>> builder = GraphBuilder()
    >>> x = builder.add_input("x", torch.ones(2))
    >>> compiled = eager(builder.finish([builder.call_function(torch.neg, (x,))]), [])
    >>> compiled(torch.ones(2))
    (tensor([-1., -1.]),)
    """
    del example_inputs, mode
    # Generates the code now: a call through a module that does it lazily costs microseconds every time.
    module.code  # noqa: B018
    return module.forward


eager.runs_as_it_is = True  # type: ignore[attr-defined]
