"""Graphs that a compiler of derivatives would get wrong, or refuse, where autograd is right: they run as they are."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch._dispatch.python import enable_python_dispatcher

import framelift
from framelift.errors import BackendError
from tests.backends.test_users_backends import simplified_boxed
from tests.helpers import check

COMPILERS = pytest.mark.parametrize("backend", ["aot_eager", simplified_boxed])


def weights() -> torch.Tensor:
    return torch.randn(3, 3, requires_grad=True)


@COMPILERS
@pytest.mark.parametrize("dynamic", [False, True])
def test_a_backward_that_must_fail_fails_when_it_is_called(backend: Any, dynamic: bool) -> None:
    def f(x, weight, scale):
        y = torch.nn.functional.linear(x, weight) * scale
        x.add_(1)
        return y

    check(f, torch.randn(4, 3), weights(), 0.5, backend=backend, dynamic=dynamic)


@COMPILERS
def test_of_results_whose_backward_must_fail_others_have_one(backend: Any) -> None:
    def f(x, weight):
        failing = torch.nn.functional.linear(x, weight)
        x.add_(1)
        return weight * 2, failing

    weight = weights()
    passing, failing = framelift.compile(f, backend=backend)(torch.randn(4, 3), weight)
    passing.sum().backward()
    assert weight.grad is not None and torch.equal(weight.grad, torch.full((3, 3), 2.0))
    with pytest.raises(RuntimeError, match="modified by an inplace operation"):
        failing.sum().backward()


@COMPILERS
def test_what_compilers_hide_is_not_heard(backend: Any) -> None:
    """They ask tensors that have a history for their gradients."""

    def f(weight):
        y = weight * 2
        framelift.graph_break()
        y.add_(1)
        return y * 3

    check(f, weights(), backend=backend, expect_breaks=1)


def test_another_error_of_a_backend_is_its_own() -> None:
    def backend(module, example_inputs):
        raise RuntimeError("no backward can be modified by an inplace operation")

    def f(x, weight):
        y = torch.nn.functional.linear(x, weight)
        x.add_(1)
        return y.detach()

    with pytest.raises(BackendError, match="no backward"):
        framelift.compile(f, backend=backend)(torch.randn(4, 3), weights())


def test_a_graph_that_a_backend_gives_up_in_inference_mode() -> None:
    """What it entered is left, and operators are dispatched as before."""

    def failing(module, example_inputs):
        with enable_python_dispatcher():
            kept = torch.autograd.grad_mode._enter_inference_mode(True)
            assert kept is not None
            raise RuntimeError("no backend")

    before = torch._C._dispatch_tls_local_include_set(), torch._C._dispatch_tls_local_exclude_set()
    with pytest.raises(BackendError, match="no backend"):
        framelift.compile(lambda x: x * 2, backend=failing)(torch.ones(2))
    after = torch._C._dispatch_tls_local_include_set(), torch._C._dispatch_tls_local_exclude_set()
    assert after == before and not torch.is_inference_mode_enabled()
    assert torch.nn.Linear(2, 2).weight.detach().requires_grad is False


REFUSED: dict[str, Callable[[torch.Tensor], Any]] = {
    "one of several views": lambda y: y.unbind(0)[1].zero_(),
    "a chunk": lambda y: y.chunk(3)[1].add_(1),
    "a part": lambda y: y.split(1, 1)[0].mul_(2),
    "a window": lambda y: torch.tensor_split(y, 3)[2].copy_(y[0]),
}


@COMPILERS
@pytest.mark.parametrize("name", REFUSED)
def test_writes_that_autograd_refuses(name: str, backend: Any) -> None:
    def f(weight):
        y = weight + 1
        REFUSED[name](y)
        return y

    check(f, weights(), backend=backend, expect_breaks=None)


@COMPILERS
def test_a_view_made_without_derivatives_is_not_written_to(backend: Any) -> None:
    def f(weight):
        y = weight + 1
        with torch.no_grad():
            view = y[0]
        try:
            view.add_(1)
        except RuntimeError as error:
            return y, str(error)
        return y, None

    check(f, weights(), backend=backend, expect_breaks=None)


@COMPILERS
@pytest.mark.parametrize("is_trained", [False, True])
def test_derivatives_that_begin_within_a_graph(backend: Any, is_trained: bool) -> None:
    """The graph after the break begins without them."""

    def f(x, scale):
        with torch.no_grad():
            framelift.graph_break()
        leaf = x.detach().clone().requires_grad_()
        (leaf * scale).sum().backward()
        return leaf.grad, x * scale

    scale = torch.tensor(3.0, requires_grad=is_trained)
    check(f, torch.ones(2, 3), scale, backend=backend, expect_breaks=None)


WRITTEN: dict[str, Callable[..., Any]] = {
    "an element of the other": lambda x, view: (x.sub_(1), view[1], x + 0)[1:],
    "a row of the one written": lambda x, view: (x.sub_(1), x[0], view + 1)[1:],
    "the other in another shape": lambda x, view: (x.sub_(1), view.reshape(-1), view.detach()),
    "written by way of the other": lambda x, view: (view.mul_(2), x[1], x + 1),
}
SHARED: dict[str, Callable[[], tuple[torch.Tensor, torch.Tensor]]] = {
    "transposed": lambda: (lambda x: (x, x.t()))(torch.arange(9.0).view(3, 3)),
    "overlapping": lambda: (lambda x: (x[:6], x[3:9]))(torch.arange(12.0)),
    "the rest": lambda: (lambda x: (x, x[1:]))(torch.arange(9.0).view(3, 3)),
}


@COMPILERS
@pytest.mark.parametrize("memory", SHARED)
@pytest.mark.parametrize("name", WRITTEN)
def test_views_of_inputs_in_one_memory_that_is_written_to(name: str, memory: str, backend: Any) -> None:
    """AOTAutograd gave other elements, or raised when the graph ran."""

    def f(x, view):
        return WRITTEN[name](x, view)

    check(f, inputs=SHARED[memory], backend=backend, dynamic=False)


@COMPILERS
@pytest.mark.parametrize(
    "compute",
    [
        torch.linalg.svdvals,
        torch.linalg.matrix_rank,
        torch.linalg.cond,
        lambda a: torch.linalg.eigvalsh(a @ a.T),
        lambda a: torch.linalg.norm(a, 2),
        lambda a: torch.linalg.matrix_norm(a, "nuc"),
    ],
)
def test_values_without_vectors(compute: Callable[[torch.Tensor], torch.Tensor], backend: Any) -> None:
    """A compiler computes vectors as well, by an algorithm that rounds otherwise, or has no rule."""
    lifted = framelift.compile(lambda a: compute(a) * 2, backend=backend, fullgraph=True)
    for size in (4, 7, 30, 41):
        a = torch.randn(size, 6, generator=torch.Generator().manual_seed(size))
        assert torch.equal(lifted(a), compute(a) * 2)


@COMPILERS
def test_least_squares(backend: Any) -> None:
    def solve(a):
        return torch.linalg.lstsq(a, a[:, :1]).solution + 1

    a = torch.randn(6, 3, generator=torch.Generator().manual_seed(0))
    torch.testing.assert_close(framelift.compile(solve, backend=backend, fullgraph=True)(a), solve(a))


@COMPILERS
def test_ranks_of_what_has_no_rank(backend: Any) -> None:
    """Where singular vectors do not converge, singular values are not numbers, and no error."""

    def rank(a):
        return torch.linalg.matrix_rank(a / 0) + 1

    for a in (torch.ones(2, 3), torch.zeros(4, 3)):
        try:
            expected: Any = rank(a)
        except RuntimeError as error:
            with pytest.raises(type(error)):
                framelift.compile(rank, backend=backend)(a)
        else:
            assert torch.equal(expected, framelift.compile(rank, backend=backend)(a))


def test_it_is_said() -> None:
    def twice(x, weight):
        loss = (x * weight).pow(2).sum()
        loss.backward(retain_graph=True)
        return loss

    def embedded(indices, weight):
        return torch.nn.functional.embedding(indices, weight, sparse=True).sum()

    def ordinary(x, weight):
        return (x * weight).sum()

    framelift.reset()
    for function, first in ((ordinary, torch.randn(3)), (twice, torch.randn(3)), (embedded, torch.tensor([0, 2]))):
        framelift.compile(function, backend="aot_eager")(first, weights())
    assert framelift.counters().uncompiled == {"a result can be differentiated once more": 1, "gradients are sparse": 1}
