"""Floats among the inputs of a graph, for compilers that take none: each becomes a tensor with one number in it.

The graph reads the number out of the tensor, so operations see a number as before: a number has no part in the dtype of
a result, which a tensor has. The compiler gives the number a symbol of its own, about which it can assume nothing.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch.fx import GraphModule

_CLAMPS = frozenset({"clamp", "clip", "clamp_", "clip_", torch.clamp, torch.clip})


class FloatInputs:
    """Where the floats are among the inputs of a graph."""

    def __init__(self, inputs: Sequence[Any]) -> None:
        self.places = frozenset(index for index, value in enumerate(inputs) if type(value) is float)

    def read_in(self, module: GraphModule) -> None:
        """Change a graph that takes floats to one that takes tensors."""
        inputs = module.graph.find_nodes(op="placeholder")
        for index in sorted(self.places):
            node = inputs[index]
            with module.graph.inserting_after(inputs[-1]):
                number = module.graph.call_method("item", (node,))
            node.replace_all_uses_with(number)
            number.args = (node,)
            number.meta["example_value"] = node.meta.pop("example_value", None)
            node.meta["symbolic"] = None
        if self.places:
            module.recompile()

    def promote(self, module: GraphModule) -> None:
        """Give integers that are clamped at a float the dtype of the result: Inductor forgets it (torch 2.13)."""
        for node in module.graph.nodes if self.places else ():
            if node.target not in _CLAMPS:
                continue
            given, made = [getattr(each.meta.get("example_value"), "dtype", None) for each in (node.args[0], node)]
            if given is not None and made is not None and given != made:
                with module.graph.inserting_before(node):
                    promoted = module.graph.call_method("to", (node.args[0], made))
                node.args = (promoted, *node.args[1:])

    def as_tensors(self, inputs: Sequence[Any]) -> Sequence[Any]:
        """The inputs of the graph that takes tensors."""
        if not self.places:
            return inputs
        return [_tensor(value) if index in self.places else value for index, value in enumerate(inputs)]

    def given_to(self, compiled: Callable[..., Any]) -> Callable[..., Any]:
        """A compiled graph that takes tensors, as one that takes floats."""
        return functools.partial(self._run, compiled) if self.places else compiled

    def _run(self, compiled: Callable[..., Any], *inputs: Any) -> Any:
        return compiled(*self.as_tensors(inputs))


def _tensor(number: float) -> torch.Tensor:
    # On the CPU, whatever the default device is: reading it must not wait for an accelerator.
    return torch.scalar_tensor(number, dtype=torch.float64, device="cpu")
