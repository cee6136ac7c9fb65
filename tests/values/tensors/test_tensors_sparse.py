"""Tensors that no graph holds: sparse, nested and quantized ones.

Fakes know neither how many elements they have nor whose memory they share, and compilers of torch's go wrong on them.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch

import framelift
from tests.helpers import check

X = torch.tensor([[0.0, 1, 0, 3], [2, 0, 5, 0], [0, 0, 0, 7]])
BLOCKS = torch.block_diag(torch.ones(2, 2), torch.ones(2, 2) * 3)
LAYOUTS: dict[str, Callable[[], torch.Tensor]] = {
    "coo": X.to_sparse,
    "uncoalesced": lambda: torch.sparse_coo_tensor(torch.tensor([[0, 0, 1], [1, 1, 2]]), torch.ones(3), (3, 4)),
    "hybrid": lambda: X.to_sparse(1),
    "csr": X.to_sparse_csr,
    "csc": X.to_sparse_csc,
    "bsr": lambda: BLOCKS.to_sparse_bsr((2, 2)),
    "bsc": lambda: BLOCKS.to_sparse_bsc((2, 2)),
}


def values_of(s: Any) -> Any:
    return s._values() if s.layout is torch.sparse_coo else s.values()


def indices_of(s: Any) -> Any:
    if s.layout is torch.sparse_coo:
        return s._indices()
    return s.col_indices() if s.layout in (torch.sparse_csr, torch.sparse_bsr) else s.row_indices()


QUESTIONS: dict[str, Callable[[Any], Any]] = {
    "nnz": lambda s: s._nnz(),
    "numel": lambda s: values_of(s).numel(),
    "shape": lambda s: values_of(s).shape,
    "size": lambda s: values_of(s).size(0),
    "shape of indices": lambda s: indices_of(s).shape,
    "len": lambda s: len(values_of(s)),
    "iteration": lambda s: [value * 2 for value in values_of(s)],
    "of a copy": lambda s: s.clone()._nnz(),
    "of a product": lambda s: values_of(s * 2).shape,
    "made inside": lambda s: s.to_dense().to_sparse()._nnz(),
    "made inside by rows": lambda s: s.to_dense().to_sparse_csr().values().shape,
    "by a branch": lambda s: torch.ones(2) if (s * 1)._nnz() else torch.zeros(3),
    "dimensions": lambda s: (s.sparse_dim(), s.dense_dim()),
    "of the whole": lambda s: (s.shape, s.size(), s.ndim, s.dim(), s.numel(), len(s)),
    "facts": lambda s: (s.dtype, s.device, s.layout, s.is_sparse, s.is_sparse_csr, s.requires_grad, s.is_leaf),
    "size in bytes": lambda s: s.nbytes,
}


@pytest.mark.parametrize("layout", LAYOUTS)
@pytest.mark.parametrize("name", QUESTIONS)
def test_questions(name: str, layout: str) -> None:
    check(QUESTIONS[name], inputs=lambda: (LAYOUTS[layout](),), expect_ops=0, expect_breaks=None)


def test_facts_are_no_graph_break() -> None:
    def function(s: Any, x: Any) -> Any:
        return x * 2 if s.is_sparse and s.shape[0] == 3 and s.dtype is torch.float32 else x

    check(function, X.to_sparse(), X, changed=[(X, X), (X[:2].to_sparse(), X), (X.double().to_sparse(), X)])


COALESCED: dict[str, Callable[[Any], Any]] = {
    "given": lambda s: s.is_coalesced(),
    "a sum": lambda s: (s + s).is_coalesced(),
    "transposed": lambda s: s.coalesce().t().is_coalesced(),
    "same object": lambda s: s.coalesce() is s,
    "values or all of them": lambda s: s.values() if s.is_coalesced() else s._values() * 2,
}


@pytest.mark.parametrize("name", COALESCED)
def test_coalesced(name: str) -> None:
    given = LAYOUTS["uncoalesced"]()
    changed = [(given.coalesce(),), (given,), (X.to_sparse(1),)]
    check(COALESCED[name], given, changed=changed, expect_ops=0, expect_breaks=None)


def made_of_parts(x: Any) -> Any:
    values = x * 1
    s = torch.sparse_coo_tensor(torch.tensor([[0, 1], [1, 2]]), values, (3, 3))
    values.add_(1)
    return s.to_dense()


def made_of_an_input(x: Any) -> Any:
    s = torch.sparse_csr_tensor(torch.tensor([0, 1, 2]), torch.tensor([0, 1]), x, (2, 2))
    x.add_(1)
    return s.to_dense()


def written_by_another(x: Any) -> Any:
    s = torch.diag(x).to_sparse()
    s.detach().mul_(2)
    s._values().add_(1)
    return s.to_dense()


@pytest.mark.parametrize("function", [made_of_parts, made_of_an_input, written_by_another])
@pytest.mark.parametrize("backend", ["eager", "aot_eager"])
def test_shared_memory(function: Any, backend: str) -> None:
    check(function, torch.tensor([3.0, 4.0]), backend=backend, expect_ops=0, expect_breaks=None)


DERIVED: dict[str, Callable[[Any, Any], Any]] = {
    "product": lambda s, w: (s * 2 @ w).sum(),
    "dense": lambda s, w: (s.to_dense() @ w).pow(2).sum(),
    "of a weight": lambda s, w: (w.to_sparse().to_dense() * 2).sum(),
    "by sparse": lambda s, w: (s @ w.to_sparse()).to_dense().sum() if s.layout is torch.sparse_coo else w.sum(),
    "sparse gradient": lambda s, w: torch.nn.functional.embedding(torch.tensor([1, 2, 1]), w, sparse=True).sum(),
}


@pytest.mark.parametrize("needs_grad", [False, True])
@pytest.mark.parametrize("layout", ["coo", "csr"])
@pytest.mark.parametrize("name", DERIVED)
def test_derivatives(name: str, layout: str, needs_grad: bool) -> None:
    def inputs() -> tuple[Any, ...]:
        return LAYOUTS[layout]().requires_grad_(needs_grad), torch.arange(8.0).reshape(4, 2).requires_grad_()

    check(DERIVED[name], inputs=inputs, backend="aot_eager", expect_ops=0, expect_breaks=None)


@pytest.mark.parametrize("maximize", [False, True])
def test_sparse_adam(maximize: bool) -> None:
    def train(embedding: Any, optimizer: Any, ids: Any) -> Any:
        optimizer.zero_grad()
        loss = embedding(ids).pow(2).sum()
        loss.backward()
        optimizer.step()
        return loss

    def inputs() -> tuple[Any, ...]:
        torch.manual_seed(0)
        embedding = torch.nn.Embedding(5, 3, sparse=True)
        optimizer = torch.optim.SparseAdam(embedding.parameters(), lr=0.1, maximize=maximize)
        return embedding, optimizer, torch.tensor([1, 3, 1])

    check(train, inputs=inputs, expect_breaks=None, deterministic=False, expect_hit=False)


def nested() -> torch.Tensor:
    return torch.nested.nested_tensor([torch.ones(2), torch.ones(3)])


NESTED: dict[str, Callable[[Any], Any]] = {
    "product": lambda n: n * 2,
    "parts": lambda n: [part + 1 for part in n.unbind()],
    "dim": lambda n: (n.dim(), n.ndim),
    "size": lambda n: n.size(0),
    "facts": lambda n: (n.dtype, n.layout, n.requires_grad, n.is_nested, n.device),
    "shape": lambda n: n.shape,
    "len": lambda n: len(n),
    "padded": lambda n: torch.nested.to_padded_tensor(n, 0.0) + 1,
    "made inside": lambda n: torch.nested.as_nested_tensor([n.unbind()[0], torch.ones(4)]).to_padded_tensor(0.0) + 1,
    "passed through": lambda n: [n],
    "truth": lambda n: 1 if n is not None else 2,
}


@pytest.mark.parametrize("name", NESTED)
def test_nested(name: str) -> None:
    check(NESTED[name], inputs=lambda: (nested(),), expect_ops=0, expect_breaks=None)


def test_nested_where_a_plain_one_was() -> None:
    lifted = framelift.compile(lambda x: x * 2, backend="eager")
    for given in (X, nested(), X, X.to_sparse(), X.to_sparse_csr(), nested(), X + 1):
        expected, actual = given * 2, lifted(given)
        assert (expected.layout, expected.is_nested) == (actual.layout, actual.is_nested)
        parts = zip(expected.unbind(), actual.unbind(), strict=True)
        assert all(torch.equal(a.to_dense(), b.to_dense()) for a, b in parts)


QUANTIZED: dict[str, Callable[[Any], Any]] = {
    "shape": lambda q: (q.shape, q.size(), len(q), q.dtype, q.is_quantized, q.layout),
    "view": lambda q: q.view(3, 1),
    "dense": lambda q: q.dequantize() * 2,
    "relu": lambda q: q.relu(),
}


@pytest.mark.parametrize("name", QUANTIZED)
def test_quantized(name: str) -> None:
    def inputs() -> tuple[Any, ...]:
        return (torch.quantize_per_tensor(torch.tensor([-1.0, 2, 3]), 0.1, 0, torch.qint8),)

    check(QUANTIZED[name], inputs=inputs, expect_ops=0, expect_breaks=None)


OTHERWISE: dict[str, Callable[[Any], Any]] = {
    "a parameter": lambda s: torch.nn.Parameter(s),
    "truth": lambda s: 1 if s else 2,
    "membership": lambda s: 3 in s,
    "an operand": lambda s: (1 + s.to_dense(), torch.ones(3, 4) + s, s == s),
    "written": lambda s: (s.mul_(2), s.zero_(), s.add_(X.to_sparse()))[0],
    "a field": lambda s: (setattr(s, "note", 3), s.note * torch.ones(2))[1],
    "its data": lambda s: s.data._nnz(),
    "text": lambda s: f"{s.shape} {s.dtype}",
    "a key": lambda s: {s: torch.ones(2) * 2}[s],
    "unpacked": lambda s: [row.to_dense() for row in s],
    "dense by columns": lambda s: s.to_dense().to_mkldnn().to_dense() + 1,
}


@pytest.mark.parametrize("name", OTHERWISE)
def test_other_uses(name: str) -> None:
    check(OTHERWISE[name], X.to_sparse(), changed=[], expect_ops=0, expect_breaks=None)


def test_the_break_says_what_is_wrong() -> None:
    checked = check(lambda x: (x * 2).to_sparse()._nnz() + 1, X, expect_breaks=None)
    assert {event.id for event in checked.record.breaks} == {"FL0307"}
    given, used = [event.reason for event in checked.record.breaks][:2]
    assert given == "a result of to_sparse is a sparse_coo tensor, which no graph holds"
    assert used.startswith("tensor ") and used.endswith("is a sparse_coo tensor, which no graph holds")
