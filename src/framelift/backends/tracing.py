"""What AOTAutograd and Inductor want around them when they compile a graph."""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import torch
from torch._guards import (
    CompileContext,
    CompileId,
    GuardSource,
    Source,
    TracingContext,
    compile_context,
    tracing,
)
from torch._subclasses.fake_tensor import FakeTensorMode
from torch.fx import GraphModule
from torch.fx.experimental.symbolic_shapes import ShapeEnv

_COMPILE_NUMBERS = itertools.count()

# Kinds of inputs that keep their address from call to call, so that a CUDA graph need not copy them.
STATIC_KINDS = ("parameter", "buffer")


@contextmanager
def compiling(module: GraphModule, example_inputs: Sequence[Any]) -> Iterator[list[Any]]:
    """A tracing context for a compiler of torch; gives the inputs as it wants them.

    The fake tensors of the capture may have been written to by the operations captured, so the inputs become fake
    tensors of a fresh mode, with static sizes, that shares the capture's ShapeEnv.
    """
    shape_env = getattr(module, "shape_env", None) or ShapeEnv()
    mode = FakeTensorMode(shape_env=shape_env, allow_non_fake_inputs=True)
    number = CompileId(frame_id=next(_COMPILE_NUMBERS), frame_compile_id=0)
    _name_inputs(module, example_inputs, number)
    with compile_context(CompileContext(number)), tracing(TracingContext(mode)):
        yield [_fake(mode, value) for value in example_inputs]


@dataclass(frozen=True)
class InputSource(Source):
    """Tells torch's compilers one input of a graph from another."""

    placeholder: str

    @property
    def _name_template(self) -> str:
        return self.placeholder

    @property
    def guard_source(self) -> GuardSource:
        return GuardSource.LOCAL


def _name_inputs(module: GraphModule, example_inputs: Sequence[Any], number: CompileId) -> None:
    """Says where inputs come from and which of them stay where they are, in the way AOTAutograd looks for it."""
    module.meta["dynamo_compile_id"] = number
    module._param_name_to_source = {}
    placeholders = module.graph.find_nodes(op="placeholder")
    for node, value in zip(placeholders, example_inputs, strict=True):
        is_static = isinstance(value, torch.nn.Parameter) or node.meta.get("input_kind") in STATIC_KINDS
        node._dynamo_source = InputSource(node.name)
        node.meta["tensor_dict"] = {"_dynamo_static_input_type": "unguarded"} if is_static else {}


def _fake(mode: FakeTensorMode, value: Any) -> Any:
    return mode.from_tensor(value, static_shapes=True) if isinstance(value, torch.Tensor) else value
