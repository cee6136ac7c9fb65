"""Gradients that the program asked to be sparse are sparse with every backend."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch.nn import functional

import framelift
from framelift.graph.analysis.sparse_gradients import has_sparse_gradients

INDEX = torch.tensor([[1, 1], [0, 2]])

PROGRAMS: dict[str, Callable[[Any], Any]] = {
    "embedding": lambda w: functional.embedding(INDEX, w, sparse=True),
    "embedding by place": lambda w: functional.embedding(INDEX, w, None, None, 2.0, False, True),
    "embedding of torch": lambda w: torch.embedding(w, INDEX, -1, False, True),
    "bag": lambda w: functional.embedding_bag(INDEX, w, mode="sum", sparse=True),
    "gather": lambda w: torch.gather(w, 1, INDEX, sparse_grad=True),
    "gather as a method": lambda w: w.gather(1, INDEX, sparse_grad=True),
}


@pytest.mark.parametrize("dynamic", [False, True])
@pytest.mark.parametrize("backend", ["eager", "aot_eager", pytest.param("inductor", marks=pytest.mark.slow)])
@pytest.mark.parametrize("name", PROGRAMS)
def test_gradients_are_sparse(name: str, backend: str, dynamic: bool) -> None:
    gradients = []
    lifted = framelift.compile(PROGRAMS[name], backend=backend, dynamic=dynamic, fullgraph=True)
    for function in (PROGRAMS[name], lifted):
        weight = torch.ones(3, 4, requires_grad=True)
        (function(weight) * 2).sum().backward()
        gradients.append(weight.grad)
    assert gradients[0].is_sparse and gradients[1].is_sparse
    assert torch.equal(gradients[0].to_dense(), gradients[1].to_dense())


def test_where_nobody_asks() -> None:
    module = torch.fx.symbolic_trace(
        lambda w: functional.embedding(INDEX, w) + w.gather(1, INDEX, sparse_grad=False)[0, 0]
    )
    assert not has_sparse_gradients(module.graph)


@pytest.mark.parametrize("backend", ["eager", "aot_eager"])
def test_a_parameter_that_the_program_makes(backend: str) -> None:
    def function(x: torch.Tensor) -> Any:
        table = torch.nn.Parameter(x.detach().clone())
        return table, functional.embedding(INDEX, table, sparse=True).sum()

    table, loss = framelift.compile(function, backend=backend, fullgraph=True)(torch.ones(3, 4))
    loss.backward()
    assert table.grad.is_sparse
