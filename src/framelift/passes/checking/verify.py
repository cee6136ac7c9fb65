"""Numeric verification, on demand: the graph before and after a pass, run on the same inputs and compared.

Inputs are the examples, if they are real tensors, and others made up from the metadata: random, zero, large, and with
NaN and infinities for passes that promise the same bits. A trial on which the graph as it was raises says nothing.
Everything runs on copies, with random numbers of its own: who asks for proof finds the world as it was.
"""

from __future__ import annotations

import copy
from collections.abc import Iterator, Sequence
from typing import Any

import torch
from torch._subclasses.fake_tensor import FakeTensor
from torch.fx import Graph, GraphModule, Interpreter
from torch.utils import _pytree as pytree

from framelift.passes.analysis.metadata import FOLDED
from framelift.passes.facts import value
from framelift.passes.rules import PassError

# How much larger the error of a pass that re-associates may be, against a run in double precision.
ALLOWED = {torch.float64: 1e-12, torch.float32: 1e-5, torch.bfloat16: 2e-2, torch.float16: 2e-3}
KINDS = ("random", "zero", "large", "special")


class Mismatch(PassError):
    """A pass changed a result; `inputs` are those on which it did."""

    inputs: Sequence[Any] = ()


def verify(
    module: GraphModule, before: Graph, exactness: str, examples: Sequence[Any] = (), *, is_frozen: bool = False
) -> int:
    """Raises if the module's graph computes something else than `before` did; gives the number of trials that ran.

    `is_frozen`: nobody wants gradients of the module's parameters.
    """
    was, module = copy.deepcopy(GraphModule(module, before)), copy.deepcopy(module)
    if is_frozen:
        was.requires_grad_(False)
        module.requires_grad_(False)
    ran = 0
    for kind, inputs in _trials(before, examples, exactness):
        outcome = _outcome(was, inputs)
        if outcome is not None:
            ran += 1
            try:
                _compare(kind, outcome, _outcome(module, inputs), exactness, _wide(was, inputs, exactness))
            except Mismatch as mismatch:
                mismatch.inputs = inputs
                raise
    return ran


def _trials(graph: Graph, examples: Sequence[Any], exactness: str) -> Iterator[tuple[str, list[Any]]]:
    inputs = [value(node) for node in graph.find_nodes(op="placeholder")]
    if len(examples) == len(inputs) and all(map(_is_real, examples)):
        # What a pass may change on purpose is what it does with NaN.
        yield "example", [_without_nans(each) for each in examples] if exactness == "semantic" else list(examples)
    if all(_is_known(each) for each in inputs):
        generator = torch.Generator().manual_seed(0)
        for kind in KINDS if exactness == "exact" else KINDS[:3]:
            yield kind, [_made_up(each, kind, generator) for each in inputs]


def _without_nans(example: Any) -> Any:
    is_floating = _is_tensor(example) and example.is_floating_point()
    return example.detach().nan_to_num().requires_grad_(example.requires_grad) if is_floating else example


def _is_real(example: Any) -> bool:
    return not isinstance(example, FakeTensor | torch.SymInt)


def _is_known(found: Any) -> bool:
    if isinstance(found, torch.Tensor):
        return found.layout is torch.strided and all(type(size) is int for size in (*found.shape, *found.stride()))
    return not isinstance(found, torch.SymInt | torch.SymFloat)


def _made_up(found: Any, kind: str, generator: torch.Generator) -> Any:
    """A real input with the metadata of a fake one."""
    if not isinstance(found, torch.Tensor):
        return found
    if found.is_floating_point() or found.is_complex():
        drawn = torch.randn(found.shape, generator=generator, dtype=torch.float64)
        drawn = {"zero": drawn * 0, "large": drawn * 1e4}.get(kind, drawn)
        if kind == "special":
            marks = torch.rand(found.shape, generator=generator)
            drawn = torch.where(marks < 0.1, torch.nan, torch.where(marks < 0.2, torch.inf, drawn))
    else:
        drawn = torch.randint(0, 2, found.shape, generator=generator)
    real = torch.empty_strided(found.shape, found.stride(), dtype=found.dtype, device=found.device)
    if 0 in found.stride():  # places that share memory cannot be written one by one
        return drawn.to(found.dtype).to(found.device).requires_grad_(found.requires_grad)
    return real.copy_(drawn).requires_grad_(found.requires_grad)


def _outcome(module: GraphModule, inputs: list[Any]) -> list[Any] | None:
    """Results, inputs and buffers after the call, and gradients; None if it raises."""
    module = copy.deepcopy(module)
    own = [each.detach().clone().requires_grad_(each.requires_grad) if _is_tensor(each) else each for each in inputs]
    given = [each.clone() if _is_tensor(each) and each.requires_grad else each for each in own]
    with torch.random.fork_rng(), torch.set_grad_enabled(torch.is_grad_enabled()):
        torch.manual_seed(0)
        try:
            # The graph itself: an exported module would insist on the arguments it was exported for.
            results = pytree.tree_leaves(Interpreter(module).run(*given, enable_io_processing=False))
        except Exception:  # noqa: BLE001  (a user's graph may raise anything on inputs that are made up)
            return None
        return [*results, *given, *_buffers(module), *_gradients(module, results, own)]


def _buffers(module: GraphModule) -> list[torch.Tensor]:
    """What a call may have written in the module; what was folded is not the user's."""
    return [each for name, each in module.named_buffers() if not name.startswith(FOLDED)]


def _gradients(module: GraphModule, results: list[Any], inputs: list[Any]) -> list[Any]:
    leaves = [each for each in (*inputs, *module.parameters()) if _is_tensor(each) and each.requires_grad]
    roots = [each for each in results if _is_tensor(each) and each.requires_grad and each.is_floating_point()]
    if not leaves or not roots:
        return []
    generator = torch.Generator().manual_seed(1)
    weights = [torch.randn(each.shape, generator=generator).to(each) for each in roots]
    return list(torch.autograd.grad(roots, leaves, weights, allow_unused=True))


def _wide(module: GraphModule, inputs: list[Any], exactness: str) -> list[Any] | None:
    """The outcome in double precision, against which passes that round otherwise are measured."""
    if exactness == "exact":
        return None
    wide = [each.double() if _is_tensor(each) and each.is_floating_point() else each for each in inputs]
    return _outcome(copy.deepcopy(module).double(), wide)


def _compare(kind: str, before: list[Any], after: list[Any] | None, exactness: str, wide: list[Any] | None) -> None:
    if after is None:
        raise Mismatch(f"on {kind} inputs the graph raises, which it did not before")
    if len(before) != len(after):
        raise Mismatch(f"on {kind} inputs there are {len(after)} values, not {len(before)}")
    for index, (one, other) in enumerate(zip(before, after, strict=True)):
        if not _is_tensor(one) or not _is_tensor(other):
            same = (one is None) == (other is None) and (_is_tensor(one) or one == other)
        elif exactness == "exact" or not one.is_floating_point():
            same = _same_bits(one, other)
        else:
            same = _close(one, other, wide[index] if wide is not None else None)
        if not same:
            raise Mismatch(f"on {kind} inputs value {index} is another")


def _same_bits(one: torch.Tensor, other: torch.Tensor) -> bool:
    if one.dtype != other.dtype or one.shape != other.shape:
        return False
    if not one.is_floating_point():
        return torch.equal(one, other)
    same = torch.equal(one.isnan(), other.isnan()) and torch.equal(one.nan_to_num(), other.nan_to_num())
    return same and bool((one.isnan() | (one.signbit() == other.signbit())).all())


def _close(one: torch.Tensor, other: torch.Tensor, exactly: torch.Tensor | None) -> bool:
    if one.dtype != other.dtype or one.shape != other.shape or not torch.equal(one.isfinite(), other.isfinite()):
        return False
    truth = exactly.double() if exactly is not None else one.double()
    finite = one.isfinite() & truth.isfinite()
    if not bool(finite.any()):
        return True
    old, new = ((each.double() - truth)[finite].abs().max().item() for each in (one, other))
    scale = 1 + truth[finite].abs().max().item()
    return new <= 2 * old + ALLOWED.get(one.dtype, 0.0) * scale


def _is_tensor(found: Any) -> bool:
    return isinstance(found, torch.Tensor)
