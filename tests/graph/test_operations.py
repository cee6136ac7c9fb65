"""Every operation of the table: metadata, aliasing and effects as in eager mode, and the graph computes the same."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from torch.utils._pytree import tree_leaves

from framelift.graph import MetadataMemo, TensorRef
from tests.graph.cases import CASES, Case
from tests.graph.support import Built, Eager, make_arguments, metadata, same_structure

every_case = pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
with_and_without_grad = pytest.mark.parametrize("requires_grad", [False, True], ids=["nograd", "grad"])

pytestmark = pytest.mark.filterwarnings("ignore")


def tensors(nest: Any) -> list[torch.Tensor]:
    return [leaf for leaf in tree_leaves(nest) if isinstance(leaf, torch.Tensor)]


def refs(nest: Any) -> list[TensorRef]:
    return [leaf for leaf in tree_leaves(nest) if isinstance(leaf, TensorRef)]


def compare(eager: Eager, built: Built) -> None:
    if eager.error is not None:
        assert built.failure is not None and built.failure.kind == "error", f"eager raises {eager.error!r}"
        return
    if built.failure is not None:
        raise AssertionError(f"eager works, building fails: {built.failure}") from built.failure
    same_structure(eager.result, built.result)
    real_inputs, real_outputs = tensors(eager.arguments), tensors(eager.result)
    # Metadata of the results, and of the arguments afterwards.
    assert [metadata(ref) for ref in refs(built.result)] == [metadata(tensor) for tensor in real_outputs]
    assert [metadata(ref) for ref in built.inputs] == [metadata(tensor) for tensor in real_inputs]
    # Aliasing: the same objects, the same storages.
    for real, ref in zip(real_outputs, refs(built.result), strict=True):
        for real_input, input in zip(real_inputs, built.inputs, strict=True):
            assert (real is real_input) == (ref is input)
            shares = real.untyped_storage()._cdata == real_input.untyped_storage()._cdata
            assert shares == (ref.storage is input.storage)
    # Effects.
    before = tensors(make_arguments(built.case, built.requires_grad))
    for tensor, original, ref in zip(real_inputs, before, built.inputs, strict=True):
        if tensor.shape == original.shape and not torch.equal(tensor, original):
            assert ref in built.builder.mutated
    torch.manual_seed(11)
    assert built.builder.uses_rng == (not torch.equal(torch.get_rng_state(), eager.random_state))
    # Values, values of the arguments afterwards, random state.
    values = built.run()
    torch.testing.assert_close(values, real_outputs, rtol=0, atol=0, equal_nan=True)
    torch.testing.assert_close(tensors(built.arguments), real_inputs, rtol=0, atol=0, equal_nan=True)
    assert torch.equal(torch.get_rng_state(), eager.random_state)
    assert [value.requires_grad for value in values] == [tensor.requires_grad for tensor in real_outputs]


@every_case
@with_and_without_grad
def test_as_in_eager_mode(case: Case, requires_grad: bool) -> None:
    compare(Eager(case, requires_grad), Built(case, requires_grad))


@every_case
@with_and_without_grad
def test_from_the_memo(case: Case, requires_grad: bool) -> None:
    """The second time the memo answers, and all is as the first time; check mode agrees."""
    memo = MetadataMemo()
    first = Built(case, requires_grad, memo)
    hits = memo.hits
    second = Built(case, requires_grad, memo)
    if memo.hits > hits:
        assert not second.builder.mutated
    compare(Eager(case, requires_grad), second)
    Built(case, requires_grad, memo, checks_memo=True)
    assert first.builder.uses_rng == second.builder.uses_rng
