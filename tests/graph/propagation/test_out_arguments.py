"""`out=`: a result is written where, and as, eager writes it, whatever the operation is made of."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch.utils import _pytree as pytree

import framelift
from framelift.errors import FullGraphError
from tests.helpers import assert_same, check

SQUARE = torch.tensor([[4.0, 1, 0], [1, 3, 1], [0, 1, 2]])
OTHER = torch.tensor([[0.5, 2, 1], [0, 1, 1], [2, 0, 3]])
VECTOR = torch.tensor([1.0, -2, 3])
aten: Any = torch.ops.aten

# Kernels, operators composed of others, functions of Python; by element, reductions, of several results.
OPERATIONS: dict[str, Callable[..., Any]] = {
    "add": lambda a, b, **given: torch.add(a, b, **given),
    "scaled": lambda a, b, **given: torch.sub(a, b, alpha=2, **given),
    "sin": lambda a, b, **given: torch.sin(a, **given),
    "compared": lambda a, b, **given: torch.gt(a, b, **given),
    "of a scalar": lambda a, b, **given: torch.mul(a[0, 0], 2, **given),
    "sum": lambda a, b, **given: torch.sum(a, 1, **given),
    "mean of all": lambda a, b, **given: torch.mean(a, (0, 1), **given),
    "amax": lambda a, b, **given: torch.amax(a, 0, **given),
    "cumsum": lambda a, b, **given: torch.cumsum(a, 0, **given),
    "logsumexp": lambda a, b, **given: torch.logsumexp(a, 1, **given),
    "softmax": lambda a, b, **given: torch.softmax(a, 1, **given),
    "mm": lambda a, b, **given: torch.mm(a, b, **given),
    "matmul": lambda a, b, **given: torch.matmul(a, b[0], **given),
    "addmm": lambda a, b, **given: torch.addmm(a, a, b, **given),
    "dot": lambda a, b, **given: torch.dot(a[0], b[0], **given),
    "cross": lambda a, b, **given: torch.linalg.cross(a, b, **given),
    "cat": lambda a, b, **given: torch.cat([a, b], 1, **given),
    "stack": lambda a, b, **given: torch.stack([a, b], **given),
    "gather": lambda a, b, **given: torch.gather(a, 1, torch.tensor([[0], [1], [2]]), **given),
    "index_select": lambda a, b, **given: torch.index_select(a, 0, torch.tensor([2, 0]), **given),
    "gelu": lambda a, b, **given: torch._C._nn.gelu(a, **given),
    "pooled": lambda a, b, **given: torch._C._nn.avg_pool2d(a[None, None], 2, **given),
    "rank": lambda a, b, **given: torch.linalg.matrix_rank(a, **given),
    "rank, symmetric": lambda a, b, **given: torch.linalg.matrix_rank(a, tol=0.1, hermitian=True, **given),
    "norm": lambda a, b, **given: torch.norm(a, 2, 1, **given),
    "matrix norm": lambda a, b, **given: torch.linalg.matrix_norm(a, **given),
    "inverse": lambda a, b, **given: torch.linalg.inv(a, **given),
    "solved": lambda a, b, **given: torch.linalg.solve(a, b, **given),
    "determinant": lambda a, b, **given: torch.linalg.det(a, **given),
    "pinv": lambda a, b, **given: torch.linalg.pinv(a, hermitian=True, **given),
    "chain": lambda a, b, **given: torch.linalg.multi_dot([a, b, a], **given),
    "tensordot": lambda a, b, **given: torch.tensordot(a, b, 1, **given),
    "diff": lambda a, b, **given: torch.diff(a, **given),
    "special": lambda a, b, **given: torch.special.expit(a, **given),
    "fft": lambda a, b, **given: torch.fft.fft(a, **given),
    "frequencies": lambda a, b, **given: torch.fft.fftfreq(4, **given),
    "max": lambda a, b, **given: torch.max(a, 0, **given),
    "sorted": lambda a, b, **given: torch.sort(a, 1, **given),
    "topk": lambda a, b, **given: torch.topk(a, 2, **given),
    "qr": lambda a, b, **given: torch.linalg.qr(a, **given),
    "eigh": lambda a, b, **given: torch.linalg.eigh(a, **given),
    "factors": lambda a, b, **given: torch.linalg.lu_factor(a, **given),
    "frexp": lambda a, b, **given: torch.frexp(a, **given),
    "ones": lambda a, b, **given: torch.ones(2, 2, **given),
    "arange": lambda a, b, **given: torch.arange(4, **given),
    "random": lambda a, b, **given: torch.rand(3, **given),
    "of data": lambda a, b, **given: torch.nonzero(a, **given),
    "packet": lambda a, b, **given: aten.mul(a, b, **given),
    "sparse": lambda a, b, **given: torch.mm(a.to_sparse(), b, **given),
}
MOLDS: dict[str, Callable[[torch.Tensor], torch.Tensor]] = {
    "right": torch.zeros_like,
    "another shape": lambda t: torch.zeros((*t.shape, 2), dtype=t.dtype),
    "another of one element": lambda t: torch.zeros((1, *t.shape), dtype=t.dtype),
    "empty": lambda t: torch.empty(0, dtype=t.dtype),
    "a view": lambda t: torch.zeros((2, *t.shape), dtype=t.dtype)[1],
    "with gaps": lambda t: torch.zeros((*t.shape, 2), dtype=t.dtype)[..., 1],
    "another type": lambda t: torch.zeros(t.shape, dtype=torch.float64 if t.dtype != torch.float64 else torch.int64),
    "requiring gradients": lambda t: torch.zeros_like(t).requires_grad_(t.is_floating_point()),
}
BACKENDS = ["eager", "aot_eager"]


def results_of(name: str) -> list[torch.Tensor]:
    return [*pytree.tree_leaves(OPERATIONS[name](SQUARE, OTHER))]


def molded(operation: Callable[..., Any], mold: Callable[[torch.Tensor], torch.Tensor]) -> Any:
    """Tensors to hold the results."""
    results = operation(SQUARE, OTHER)
    return mold(results) if isinstance(results, torch.Tensor) else tuple([mold(result) for result in results])


def calling(operation: Callable[..., Any]) -> Callable[..., Any]:
    def function(a: Any, b: Any, out: Any) -> Any:
        result = operation(a, b, out=out)
        same = result is out if isinstance(out, torch.Tensor) else [one is two for one, two in zip(result, out)]  # noqa: B905
        return result, same, (out if isinstance(out, torch.Tensor) else out[0]) + 1

    return function


@pytest.mark.parametrize("mold, backend", [(mold, "aot_eager") for mold in MOLDS] + [("right", "eager")])
@pytest.mark.parametrize("name", OPERATIONS)
def test_given(name: str, mold: str, backend: str) -> None:
    operation = OPERATIONS[name]
    out = molded(operation, MOLDS[mold])
    check(calling(operation), SQUARE, OTHER, out, changed=[], backend=backend, expect_ops=0, expect_breaks=None)


@pytest.mark.parametrize("name", OPERATIONS)
def test_made_inside(name: str) -> None:
    operation = OPERATIONS[name]
    facts = [(tuple(t.shape), t.dtype) for t in results_of(name)]

    def function(a: Any, b: Any) -> Any:
        found = []
        for make in (torch.zeros, lambda shape, dtype: torch.empty(0, dtype=dtype)):
            made = [make(shape, dtype=dtype) for shape, dtype in facts]
            operation(a, b, out=made[0] if len(made) == 1 else tuple(made))
            found.append(made)
        return found

    check(function, SQUARE, OTHER, backend="aot_eager", expect_ops=0, expect_breaks=None)


@pytest.mark.parametrize("name", OPERATIONS)
def test_in_inference_mode(name: str) -> None:
    """Operators composed of others come whole, and say that they write to `out`."""
    operation = calling(OPERATIONS[name])
    lifted = framelift.compile(operation, backend="aot_eager")
    with torch.inference_mode():
        for _ in range(2):
            given = [molded(OPERATIONS[name], MOLDS["right"]) for _ in range(2)]
            results = []
            for function, out in zip((operation, lifted), given, strict=True):
                torch.manual_seed(0)
                results.append((function(SQUARE, OTHER, out), out))
            expected, found = map(pytree.tree_leaves, results)
            for one, two in zip(expected, found, strict=True):
                assert_same(one, two)


SMALL = [name for name in OPERATIONS if [t.numel() <= 9 for t in results_of(name)] == [True]]


@pytest.mark.parametrize("name", SMALL)
def test_in_the_memory_of_an_argument(name: str) -> None:
    operation = OPERATIONS[name]
    (result,) = results_of(name)

    def function(a: Any, b: Any) -> Any:
        return operation(a, b, out=a.view(-1)[: result.numel()].view(result.shape)), a

    check(function, SQUARE, OTHER, changed=[], backend="aot_eager", expect_ops=0, expect_breaks=None)


@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize("name", ["add", "mm", "cumsum", "addmm", "inverse"])
def test_the_argument_itself(name: str, backend: str) -> None:
    breaks = 0 if name == "add" else None
    check(
        lambda a, b: OPERATIONS[name](a, b, out=a), SQUARE, OTHER, backend=backend, expect_ops=0, expect_breaks=breaks
    )


ONE_GRAPH = ["add", "sin", "sum", "mm", "matmul", "cat", "max", "sorted", "norm", "packet"]


@pytest.mark.parametrize("mold", ["right", "a view"])
@pytest.mark.parametrize("name", ONE_GRAPH)
def test_stays_in_the_graph(name: str, mold: str) -> None:
    operation = OPERATIONS[name]
    check(calling(operation), SQUARE, OTHER, molded(operation, MOLDS[mold]), backend="aot_eager", fullgraph=True)


OTHERWISE: dict[str, Callable[[Any, Any], Any]] = {
    "by place": lambda a, out: torch.norm(a, 2, 1, False, out),
    "by place, and one behind": lambda a, out: torch.norm(a, 2, 1, False, out, torch.float32),
    "by place in a module": lambda a, out: torch.nn.functional.normalize(a[0], 2.0, 0, 1e-12, out),
    "named otherwise": lambda a, out: aten.max(a, 0, max=out, max_values=torch.zeros(3, dtype=torch.int64)),
    "overload": lambda a, out: aten.sum.IntList_out(a, [1], out=out),
    "none": lambda a, out: torch.sum(a, 1, out=None) + out,
    "list": lambda a, out: torch.max(a, 0, out=(out, torch.zeros(3, dtype=torch.int64))),
    "twice the same": lambda a, out: torch.frexp(a[0], out=(out, out)),
    "two in one memory": lambda a, out: torch.max(a, 0, out=(out, out.view(torch.int32).long())),
    "expanded": lambda a, out: torch.add(a[0], 1, out=out[:1].expand(3)),
    "of a parameter": lambda a, out: torch.sum(a * torch.nn.Parameter(torch.ones(3)), 1, out=out),
    "detached": lambda a, out: torch.sum(a * torch.nn.Parameter(torch.ones(3)).detach(), 1, out=out),
    "read before": lambda a, out: (out * 2, torch.sum(a, 1, out=out), out * 2),
    "in a branch": lambda a, out: torch.cond(
        a.shape[0] == 3, lambda x: torch.sin(x, out=torch.zeros(3)), lambda x: x, (out,)
    ),
}


@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize("name", OTHERWISE)
def test_otherwise(name: str, backend: str) -> None:
    check(OTHERWISE[name], SQUARE, VECTOR, changed=[], backend=backend, expect_ops=0, expect_breaks=None)


@pytest.mark.parametrize("mold", ["right", "another shape"])
def test_sizes_that_change(mold: str) -> None:
    def function(a: Any, out: Any) -> Any:
        return torch.add(a, 1, out=out), out * 2

    def inputs(size: int) -> tuple[Any, ...]:
        return torch.arange(float(size)), MOLDS[mold](torch.zeros(size))

    check(function, *inputs(4), changed=map(inputs, (5, 6, 7)), backend="aot_eager", expect_ops=0, expect_breaks=None)


def test_the_reason_is_said() -> None:
    def rank(a: Any, out: Any) -> Any:
        return torch.linalg.matrix_rank(a, out=out)

    with pytest.raises(FullGraphError, match="its rule for fake tensors does not write to `out`"):
        framelift.compile(rank, backend="eager", fullgraph=True)(SQUARE, torch.tensor(0))
    with pytest.raises(
        FullGraphError, match=r"the shape of a result is torch.Size\(\[\]\), the tensor that is to hold"
    ):
        framelift.compile(rank, backend="eager", fullgraph=True)(SQUARE, torch.zeros(2, dtype=torch.int64))
