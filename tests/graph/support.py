"""Runs a case eagerly and through a graph builder, and compares all there is to compare."""

from __future__ import annotations

from typing import Any

import torch
from torch.utils._pytree import tree_leaves, tree_map

from framelift.graph import GraphBuilder, MetadataFailure, MetadataMemo, TensorRef
from tests.graph.cases import Case, T


def make_arguments(case: Case, requires_grad: bool) -> tuple[Any, Any]:
    """Fresh tensors in the arguments of a case, the same ones every time."""
    torch.manual_seed(3)
    nest = (case.args, case.kwargs)
    return tree_map(lambda leaf: leaf.make(requires_grad) if isinstance(leaf, T) else leaf, nest)


def call(target: Any, args: Any, kwargs: Any) -> Any:
    torch.manual_seed(11)
    if isinstance(target, str):
        return getattr(args[0], target)(*args[1:], **kwargs)
    return target(*args, **kwargs)


class Eager:
    """A case run eagerly: its result or its error, and the arguments after it."""

    def __init__(self, case: Case, requires_grad: bool) -> None:
        self.arguments = make_arguments(case, requires_grad)
        self.result: Any = None
        self.error: Exception | None = None
        try:
            self.result = call(case.target, *self.arguments)
        except (RuntimeError, TypeError, ValueError, IndexError, NotImplementedError) as error:
            self.error = error
        self.random_state = torch.get_rng_state()


class Built:
    """A case put through a graph builder."""

    def __init__(
        self, case: Case, requires_grad: bool, memo: MetadataMemo | None = None, checks_memo: bool = False
    ) -> None:
        self.case = case
        self.requires_grad = requires_grad
        self.arguments = make_arguments(case, requires_grad)
        self.builder = GraphBuilder(memo, checks_memo)
        self.inputs: list[TensorRef] = []
        args, kwargs = tree_map(self._input, self.arguments)
        self.result: Any = None
        self.failure: MetadataFailure | None = None
        before = torch.get_rng_state()
        try:
            if isinstance(case.target, str):
                self.result = self.builder.call_method(case.target, args, kwargs)
            else:
                self.result = self.builder.call_function(case.target, args, kwargs)
        except MetadataFailure as failure:
            self.failure = failure
        assert torch.equal(before, torch.get_rng_state()), "building a graph must not draw random numbers"

    def _input(self, leaf: Any) -> Any:
        if isinstance(leaf, torch.Tensor):
            ref = self.builder.add_input(f"t{len(self.inputs)}", leaf)
            self.inputs.append(ref)
            return ref
        return leaf

    def run(self) -> list[torch.Tensor]:
        """Finishes the graph and runs it on the arguments."""
        outputs = [ref for ref in tree_leaves(self.result) if isinstance(ref, TensorRef)]
        module = self.builder.finish(outputs)
        module.graph.eliminate_dead_code()
        module.graph.lint()
        module.recompile()
        torch.manual_seed(11)
        return list(module(*self.builder.example_inputs))


def metadata(tensor: Any) -> dict[str, Any]:
    """What must be the same of a real tensor and of a value in the graph."""
    if isinstance(tensor, TensorRef):
        d = tensor.descriptor
        return {
            "shape": tuple(d.shape),
            "stride": tuple(d.stride),
            "offset": d.offset,
            "dtype": d.dtype,
            "device": d.device,
            "requires_grad": d.requires_grad,
            "is_leaf": d.is_leaf,
            "is_conj": d.is_conj,
            "is_neg": d.is_neg,
            "is_inference": d.is_inference,
        }
    return {
        "shape": tuple(tensor.shape),
        "stride": tuple(tensor.stride()),
        "offset": tensor.storage_offset(),
        "dtype": tensor.dtype,
        "device": tensor.device,
        "requires_grad": tensor.requires_grad,
        "is_leaf": is_leaf(tensor),
        "is_conj": tensor.is_conj(),
        "is_neg": tensor.is_neg(),
        "is_inference": tensor.is_inference(),
    }


def is_leaf(tensor: torch.Tensor) -> bool:
    try:
        return tensor.is_leaf
    except (RuntimeError, IndexError):  # a view whose base was written to in a way that forbids its further use
        return False


def same_structure(real: Any, built: Any) -> None:
    """A result and its stand-in have the same types and constants throughout."""
    if isinstance(real, torch.Tensor):
        assert isinstance(built, TensorRef), f"{built!r} in place of a tensor"
        return
    assert type(real) is type(built), f"{type(built)} in place of {type(real)}"
    if isinstance(real, tuple | list):
        assert len(real) == len(built)
        for ours, theirs in zip(real, built, strict=True):
            same_structure(ours, theirs)
    elif isinstance(real, dict):
        assert list(real) == list(built)
        for key in real:
            same_structure(real[key], built[key])
    else:
        assert real == built
