"""Runs passes on a function's graph and compares: values, strides, sharing, changed inputs, gradients, a second run."""

from __future__ import annotations

import copy
from typing import Any

import torch
from torch.fx import GraphModule
from torch.utils import _pytree as pytree

import framelift
from framelift.graph.emission.exported import Call
from framelift.passes import PassOptions, PassReport, pre_grad_passes, run_passes
from tests.tolerances import MERGED_PRODUCTS


def calls(gm: GraphModule) -> list[str]:
    """The calls of a graph in order, as the specification writes them; what only keeps writes alive is left out."""
    found = []
    for node in gm.graph.nodes:
        if node.op == "call_method":
            found.append(f".{node.target}")
        elif node.op == "call_function" and node.target is not torch._assert:
            found.append(node.target.__name__)
    return found


def exported(function: Any, *args: Any) -> GraphModule:
    gm, _ = framelift.export(function, *copies(args))
    return gm


def copies(args: Any) -> Any:
    """Copies that lie in memory as the originals do."""

    def one(x: Any) -> Any:
        if not isinstance(x, torch.Tensor):
            return x
        base = x.detach()
        for dim, (size, stride) in enumerate(zip(x.shape, x.stride(), strict=True)):
            base = base.narrow(dim, 0, 1) if stride == 0 and size > 1 else base
        copied = torch.empty_strided(base.shape, base.stride(), dtype=x.dtype, device=x.device).copy_(base)
        return copied.expand(x.shape).requires_grad_(x.requires_grad)

    return pytree.tree_map(one, args)


def is_overlapping(value: Any) -> bool:
    """Whether elements of a tensor are one element of memory."""
    return isinstance(value, torch.Tensor) and any(
        stride == 0 and size > 1 for stride, size in zip(value.stride(), value.shape, strict=True)
    )


def optimised(
    function: Any,
    *args: Any,
    passes: str | None = None,
    add: str | None = None,
    exact: bool = True,
    again: bool = True,
    **options: Any,
) -> tuple[GraphModule, PassReport]:
    """The graph of a call after some passes (by default: all), proven equal to what it was.

    `passes` names the passes that run, and only these; `add` adds to the default ones.
    """
    chosen = PassOptions(**{"on_error": "raise", "ignore_profit": True, **options})
    gm = exported(function, *args)
    original = copy.deepcopy(gm)

    def run() -> PassReport:
        if passes is None:
            return pre_grad_passes(gm, args, add_passes=add, options=chosen).meta["pass_report"]
        return run_passes(gm, passes.split(), args, options=chosen)

    report = run()
    gm.graph.lint()
    same_results(original, gm, args, exact, strides=chosen.layout == "strict")
    same_gradients(original, gm, args)
    if again:
        first = calls(gm)
        second = run()
        # What a pair of passes does and undoes again (stack, unsqueeze and cat, stack) is no change.
        assert second.rewrites == 0 or calls(gm) == first, f"a second run changes the graph again:\n{second}"
    return gm, report


def same_results(before: GraphModule, after: GraphModule, args: Any, exact: bool = True, strides: bool = True) -> None:
    args_before, args_after = copies(args), copies(args)
    with torch.no_grad():
        torch.manual_seed(0)
        expected = before(*args_before)
        torch.manual_seed(0)
        found = after(*args_after)
        reference = expected if exact else _in_double(before, args, expected)
    expected_leaves, structure = pytree.tree_flatten(expected)
    found_leaves, found_structure = pytree.tree_flatten(found)
    assert structure == found_structure
    for want, got, exactly in zip(expected_leaves, found_leaves, pytree.tree_leaves(reference), strict=True):
        same_value(want, got, exactly, exact, strides)
    assert sharing(args_before, expected_leaves) == sharing(args_after, found_leaves)
    for want, got in zip(args_before, args_after, strict=True):
        same_value(want, got, want, True)


def same_value(want: Any, got: Any, exactly: Any, exact: bool, strides: bool = True) -> None:
    if not isinstance(want, torch.Tensor):
        assert want == got
        return
    assert (want.dtype, want.shape) == (got.dtype, got.shape)
    # Fake and real tensors do not agree on the strides of axes of length one.
    steps = zip(want.shape, want.stride(), got.stride(), strict=True)
    assert not strides or all(one == other for size, one, other in steps if size > 1 and want.numel())
    if exact or not want.is_floating_point():
        torch.testing.assert_close(got, want, rtol=0, atol=0, equal_nan=True)
        assert torch.equal(torch.signbit(want), torch.signbit(got)) or want.isnan().any()
    else:
        closer(want, got, exactly)


def closer(want: torch.Tensor, got: torch.Tensor, exactly: torch.Tensor) -> None:
    """The new error is not worse than twice the old one: both are approximations of the same value."""
    if not want.numel():
        return
    exactly = exactly.double()
    old = (want.double() - exactly).abs().max().item()
    new = (got.double() - exactly).abs().max().item()
    scale = exactly.abs().max().item()
    assert new <= 2 * old + MERGED_PRODUCTS[want.dtype] * (1 + scale), (old, new)


def _in_double(module: GraphModule, args: Any, otherwise: Any) -> Any:
    """The results in double precision; others where the program itself insists on a dtype."""

    def widened(x: Any) -> Any:
        return x.double() if isinstance(x, torch.Tensor) and x.is_floating_point() else x

    try:
        return _wide(module)(*pytree.tree_map(widened, copies(args)))
    except RuntimeError:
        return otherwise


def _wide(module: GraphModule) -> GraphModule:
    """The module in double precision; it does not insist on the dtypes it was exported for."""
    wide = copy.deepcopy(module).double()
    if isinstance(wide.graph._codegen, Call):
        wide.graph._codegen.checks = None
    return wide


def sharing(args: Any, results: Any) -> list[tuple[int, int]]:
    """Which results share memory with which inputs or other results."""
    tensors = [x for x in (*args, *results) if isinstance(x, torch.Tensor) and x.numel()]
    addresses = [x.untyped_storage().data_ptr() for x in tensors]
    return [(i, addresses.index(address)) for i, address in enumerate(addresses)]


def same_gradients(before: GraphModule, after: GraphModule, args: Any) -> None:
    if not any(isinstance(x, torch.Tensor) and x.is_floating_point() for x in args) or any(map(is_overlapping, args)):
        return
    want = gradients(before, args)
    if want is None:
        return
    got = gradients(after, args)
    assert got is not None

    # Even where results are the same bits, gradients may be summed in another order.
    def widened(x: Any) -> Any:
        return x.double() if isinstance(x, torch.Tensor) and x.is_floating_point() else x

    exactly = gradients(_wide(before), pytree.tree_map(widened, args))
    for one, other, best in zip(want, got, exactly or want, strict=True):
        closer(one, other, best)


def gradients(module: GraphModule, args: Any) -> list[torch.Tensor] | None:
    """Gradients of all floating inputs and parameters of a scalar made of all floating results."""
    leaves = [x.requires_grad_() if isinstance(x, torch.Tensor) and x.is_floating_point() else x for x in copies(args)]
    parameters = [p for p in module.parameters() if p.is_floating_point()]
    # A leaf cannot be written in place, its copy can.
    inner = [x.clone() if isinstance(x, torch.Tensor) and x.requires_grad else x for x in leaves]
    torch.manual_seed(0)
    try:
        results = pytree.tree_leaves(module(*inner))
        return _gradients(results, leaves, parameters)
    except RuntimeError:  # eager does not differentiate this program
        return None


def _gradients(results: list[Any], leaves: list[Any], parameters: list[Any]) -> list[torch.Tensor] | None:
    total: Any = 0.0
    generator = torch.Generator().manual_seed(1)
    for result in results:
        if isinstance(result, torch.Tensor) and result.is_floating_point():
            # Drawn for every result: which of them need gradients may differ where the graph was made without.
            weights = torch.randn(result.shape, generator=generator, dtype=torch.float64).to(result.dtype)
            total = total + (result * weights).sum() if result.requires_grad else total
    if not isinstance(total, torch.Tensor):
        return None
    wanted = [x for x in leaves if isinstance(x, torch.Tensor) and x.requires_grad]
    wanted += [p for p in parameters if p.requires_grad]
    found = torch.autograd.grad(total, wanted, allow_unused=True)
    return [torch.zeros_like(x) if g is None else g for x, g in zip(wanted, found, strict=True)]
