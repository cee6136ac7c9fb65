"""What user code can say inside lifted code."""

from __future__ import annotations

import functools
from typing import Any

import pytest
import torch

import framelift
from framelift.errors import FullGraphError
from tests.helpers import check

X = torch.linspace(-1, 1, 4)


def test_graph_break() -> None:
    def f(x: torch.Tensor) -> torch.Tensor:
        y = x + 1
        framelift.graph_break()
        return y * 2

    assert [event.id for event in check(f, X, expect_breaks=1).record.breaks] == ["FL0103"]


def test_graph_break_of_torch() -> None:
    def f(x: torch.Tensor) -> torch.Tensor:
        y = x + 1
        torch._dynamo.graph_break()
        return y * 2

    assert [event.id for event in check(f, X, expect_breaks=1).record.breaks] == ["FL0103"]


def test_a_wrapper_that_says_it_is_torchs() -> None:
    """`functools.wraps` copies the name and the module."""

    @functools.wraps(torch._dynamo.graph_break)
    def own() -> int:
        return 3

    check(lambda x: x + own(), X, expect_breaks=0)


def test_the_reason_is_told() -> None:
    def f(x: torch.Tensor) -> torch.Tensor:
        framelift.graph_break("not today")
        return x

    with pytest.raises(FullGraphError, match="not today"):
        framelift.compile(f, backend="eager", fullgraph=True)(X)


def test_is_compiling() -> None:
    def f(x: torch.Tensor) -> Any:
        return x + 1, framelift.is_compiling(), torch.compiler.is_compiling()

    assert framelift.compile(f, backend="eager")(X)[1:] == (True, True)
    assert f(X)[1:] == (False, False)


@pytest.mark.parametrize("disable", [framelift.disable, torch.compiler.disable])
def test_disabled_functions_break(disable: Any) -> None:
    seen = []

    @disable
    def inner(x: torch.Tensor) -> torch.Tensor:
        seen.append(framelift.is_compiling())
        return x * 2

    lifted = framelift.compile(lambda x: inner(x + 1) - 1, backend="eager")
    for _ in range(2):
        assert torch.equal(lifted(X), (X + 1) * 2 - 1)
    assert seen == [False, False]


def test_a_disabled_function_that_calls_lifted_ones() -> None:
    inner = framelift.compile(lambda x: framelift.is_compiling(), backend="eager")
    inner(X)
    assert framelift.disable(lambda x: inner(x))(X) is False
    assert inner(X) is True


def test_a_program_that_raises_because_it_is_told_it_is_compiled_is_not_told() -> None:
    def program(x: torch.Tensor) -> torch.Tensor:
        mask = None if torch.compiler.is_compiling() else torch.ones(2)
        return x * mask[None]  # type: ignore[index]

    assert len(check(program, torch.ones(3, 2)).graphs) == 1


def test_a_program_that_raises_either_way_raises() -> None:
    def program(x: torch.Tensor) -> torch.Tensor:
        y = x * 2
        if torch.compiler.is_compiling():
            raise ValueError("compiled")
        raise KeyError(str(y.shape[0]))

    check(program, torch.ones(3, 2), expect_ops=0, expect_breaks=1)


def test_only_the_question_that_leads_astray_is_answered_with_no() -> None:
    def program(x: torch.Tensor) -> Any:
        first = torch.compiler.is_compiling()
        mask = None
        if not torch.compiler.is_compiling():
            mask = torch.ones(2)
        return x * mask[None], first  # type: ignore[index]

    lifted = framelift.compile(program, backend="eager", fullgraph=True)
    result, first = lifted(torch.ones(3, 2))
    assert first and torch.equal(result, torch.ones(3, 2))


def test_a_function_that_is_left_by_an_exception_was_not_to_leave_out_its_handler() -> None:
    trail: list[str] = []

    class Failing(torch.nn.Module):
        def forward(self, x: torch.Tensor) -> torch.Tensor:
            raise ValueError("nothing to do")

    module = Failing()
    module.register_forward_hook(lambda module, args, result: trail.append("called"), always_call=True)

    def program(x: torch.Tensor) -> torch.Tensor:
        try:
            return module(x)  # type: ignore[no-any-return]
        except ValueError as error:
            trail.append(str(error))
            return x * 2

    lifted = framelift.compile(program, backend="eager", fullgraph=True)
    for _ in range(2):
        trail.clear()
        assert torch.equal(lifted(torch.ones(3, 2)), torch.full((3, 2), 2.0))
        assert trail == ["called", "nothing to do"]


def test_operators_for_torchs_own_compiler_are_not_called_by_programs_that_need_not() -> None:
    from torch._higher_order_ops.associative_scan import associative_scan

    def program(x: torch.Tensor) -> torch.Tensor:
        if torch.compiler.is_compiling():
            return associative_scan(torch.add, x, dim=0, combine_mode="generic")
        return x.cumsum(0)

    assert len(check(program, torch.ones(3, 2)).graphs) == 1


def test_encoders_are_not_misled() -> None:
    """Where it is padded, an encoder gives zeros in Python, and something else to a compiler."""

    def encoder() -> Any:
        torch.manual_seed(0)
        layer = torch.nn.TransformerEncoderLayer(4, 2, 8, batch_first=True)
        return torch.nn.TransformerEncoder(layer, 2).eval(), torch.arange(12.0).reshape(1, 3, 4)

    def f(model: Any, x: Any) -> Any:
        with torch.no_grad():
            return model(x, src_key_padding_mask=torch.tensor([[False, False, True]]))

    check(f, inputs=encoder, expect_breaks=None)
