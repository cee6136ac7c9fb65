"""What an operation raises is raised, although nobody uses its result."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import Tensor
from torch._functorch.aot_autograd import aot_module_simplified, make_boxed_func
from torch._subclasses.fake_tensor import FakeTensorMode
from torch.nn import functional as F

import framelift
from tests.helpers import check

COUNTS = torch.tensor([2, 0, 1])


def users(module: Any, examples: Any) -> Any:
    return aot_module_simplified(module, examples, fw_compiler=lambda graph, _: make_boxed_func(graph.forward))


BACKENDS = ["eager", "aot_eager", users]


def stored(x: Tensor) -> None:
    torch.zeros(4)[x + 2] = 1


def stored_twice(x: Tensor) -> None:
    rows = torch.zeros(4)
    rows[x] = 1
    rows[x + 2] = 1


UNUSED: list[Callable[[Tensor], Any]] = [
    # kernels that are not there for these types
    lambda x: x.softmax(0),
    lambda x: x.log_softmax(0),
    lambda x: x.softmax(0) * 2 + x,
    lambda x: F.gelu(x),
    lambda x: F.silu(x),
    lambda x: F.mse_loss(x, x),
    lambda x: x.std(),
    lambda x: x.frac(),
    lambda x: (x > 1).relu(),
    lambda x: (x > 1).argmax(),
    lambda x: (x > 1).abs(),
    lambda x: (x > 1) @ (x > 1),
    lambda x: (x * 1j).sort(),
    lambda x: (x * 1j).amax(0),
    # what is in the data
    lambda x: 1 // x,
    lambda x: x % 0,
    lambda x: x**-1,
    lambda x: torch.zeros(4).scatter(0, x + 2, 1.0),
    lambda x: torch.zeros(4).index_select(0, x + 2),
    lambda x: torch.zeros(4).take(x + 2),
    lambda x: torch.zeros(4).index_add(0, x + 2, torch.ones(3)),
    lambda x: F.cross_entropy(torch.zeros(3, 3), x + 3),
    lambda x: torch.zeros(4).masked_scatter(torch.ones(4) > 0, torch.ones(2)),
    lambda x: F.binary_cross_entropy(x.float() + 2, x.float()),
    lambda x: torch.linalg.svd(x.float().diag() / 0 * 0),
    stored,
    stored_twice,
]


@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize("unused", UNUSED)
def test_errors_of_what_nobody_uses(unused: Callable[[Tensor], Any], backend: Any) -> None:
    def program(x: Tensor) -> Tensor:
        unused(x)
        return x + 1

    with pytest.raises(Exception) as expected:
        program(COUNTS)
    with pytest.raises(Exception) as found:
        framelift.compile(program, backend=backend)(COUNTS.clone())
    assert (type(found.value), str(found.value)) == (type(expected.value), str(expected.value))


def compares_masks() -> bool:
    """Whether torch's own rule compares the sizes of a mask, as from 2.15 on: those that do not fit break the graph."""
    with FakeTensorMode():
        try:
            torch.ones(2, 3)[torch.ones(3, 3) > 0] = 1
        except IndexError:
            return True
    return False


@pytest.mark.parametrize("backend", BACKENDS)
def test_masks_of_unequal_sizes(backend: Any) -> None:
    def program(weight: Tensor, mask: Tensor) -> Tensor:
        rows = weight[:2] + 1
        rows[mask] = 1
        return weight * 2

    further = [(torch.ones(3, 3), torch.ones(size, 3) > 0) for size in (3, 4, 2, 5)]
    breaks = None if compares_masks() else 0
    check(program, torch.ones(3, 3), torch.ones(2, 3) > 0, changed=further, backend=backend, expect_breaks=breaks)


@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize("requires_grad", [False, True])
def test_what_raises_for_some_data_only(backend: Any, requires_grad: bool) -> None:
    def program(x: Tensor, indices: Tensor) -> Tensor:
        (x * 2).index_select(0, indices)
        torch.zeros(3).index_put((indices,), x.new_ones(2)).sum()
        return x * 3

    x = torch.ones(3, requires_grad=requires_grad)
    further = [(x, torch.tensor(indices)) for indices in ([2, 2], [1, 3], [0, 1])]
    check(program, x, torch.tensor([0, 1]), changed=further, backend=backend)


def test_what_raises_for_nobody_is_dropped() -> None:
    """What takes these types, and whose data cannot be wrong, need not be computed."""
    graphs: list[Any] = []

    def backend(module: Any, examples: Any) -> Any:
        graphs.append(module)
        return module.forward

    def program(x: Tensor, flags: Tensor) -> Tensor:
        (x.float() * 2).softmax(0)
        (x.cumsum(0) - 1).masked_fill(flags, 0).view(-1)
        (flags & flags.logical_not()).any()
        return x + 1

    framelift.compile(program, backend=backend, fullgraph=True)(COUNTS, COUNTS > 1)
    calls = [node for graph in graphs for node in graph.graph.nodes if node.op.startswith("call")]
    assert len(calls) == 1


DERIVED: list[Callable[[Tensor, Tensor, Tensor], Any]] = [
    lambda x, w, i: (x * 2).index_select(0, i),
    lambda x, w, i: torch.zeros(3).__setitem__(i, 1),
    lambda x, w, i: i.softmax(0),
    lambda x, w, i: torch.autograd.grad((w * x).index_select(0, i).sum(), w),
    lambda x, w, i: torch.autograd.grad((w * x)[i].sum(), w),
    lambda x, w, i: F.cross_entropy(x * w, i[0]),
]


@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize("unused", DERIVED)
def test_beside_derivatives(unused: Callable[..., Any], backend: Any) -> None:
    def program(x: Tensor, weight: Tensor, indices: Tensor) -> Tensor:
        unused(x, weight, indices)
        (gradient,) = torch.autograd.grad(((weight * x) ** 2).sum(), weight)
        return gradient

    weight = torch.ones(3, requires_grad=True)
    further = [(torch.ones(3), weight, torch.tensor(indices)) for indices in ([5, 1], [2, 0], [1, 3])]
    check(program, torch.ones(3), weight, torch.tensor([0, 1]), changed=further, backend=backend)
