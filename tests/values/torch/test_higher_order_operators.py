"""torch's operators that take functions: each function is a body of the graph."""

from __future__ import annotations

import functools
import warnings
from typing import Any

import pytest
import torch
from torch import nn
from torch._higher_order_ops import associative_scan, map, scan, strict_mode, while_loop, while_loop_stack_output
from torch._ops import HigherOrderOperator
from torch.nn.attention.flex_attention import create_block_mask, flex_attention
from torch.overrides import TorchFunctionMode

import framelift.errors
from tests.helpers.check import check


def _grads(*shapes: tuple[int, ...]) -> tuple[torch.Tensor, ...]:
    return tuple(torch.randn(shape, requires_grad=True) for shape in shapes)


def _operators(record: Any) -> list[str]:
    """The operators that take functions, over all graphs."""
    nodes = [node for graph in record.graphs for node in graph.graph.nodes]
    return [node.target.name() for node in nodes if isinstance(node.target, HigherOrderOperator)]


@pytest.fixture(autouse=True, scope="module")
def _warned() -> None:
    """torch warns once of what happens in eager mode alone: that it compiles, or should be compiled."""
    x = torch.ones(2, requires_grad=True)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        scan(lambda c, x: (c * x, c + x), torch.ones(1, requires_grad=True), x.reshape(2, 1))[1].sum().backward()
        torch.func.jvp(torch.sin, (torch.ones(2),), (torch.ones(2),))
        flex_attention(*_qkv(), return_lse=True)


class TestCond:
    def test_of_modules(self) -> None:
        class Chosen(nn.Module):
            def __init__(self) -> None:
                super().__init__()
                self.one, self.other = nn.Linear(3, 3), nn.Linear(3, 3)

            def forward(self, x: torch.Tensor) -> torch.Tensor:
                return torch.cond(x.sum() > 0, self.one, self.other, (x,)) + 1

        checked = check(Chosen(), torch.ones(2, 3), changed=[(-torch.ones(2, 3),)], fullgraph=True)
        assert _operators(checked) == ["cond"]

    def test_nested_within_a_scan(self) -> None:
        def step(carry: Any, x: Any) -> Any:
            made = torch.cond(x.sum() > 0, lambda c, x: c + x, lambda c, x: c - x, (carry, x))
            return made, made * 2

        check(lambda init, xs: scan(step, init, xs), torch.zeros(3), torch.randn(5, 3), fullgraph=True)

    def test_of_operands_in_containers(self) -> None:
        def one(d: Any) -> Any:
            return {"sum": d["a"] + d["b"][0], "rest": (d["a"] * 2,)}

        def other(d: Any) -> Any:
            return {"sum": d["a"] - d["b"][0], "rest": (d["a"] * 3,)}

        given = {"a": torch.randn(3), "b": [torch.randn(3)]}
        check(lambda d: torch.cond(d["a"].sum() > 0, one, other, (d,)), given, fullgraph=True)

    def test_predicate_of_python(self) -> None:
        def function(x: torch.Tensor) -> torch.Tensor:
            return torch.cond(x.shape[0] > 2, lambda x: x.sin(), lambda x: x.cos(), (x,))

        check(function, torch.randn(3), changed=[(torch.randn(2),)], fullgraph=True)


class TestLoops:
    def test_while(self) -> None:
        def function(x: torch.Tensor, limit: torch.Tensor) -> Any:
            factor = x.abs() + 0.5
            return while_loop(lambda i, x: i < limit, lambda i, x: (i + 1, x * factor), (torch.tensor(0), x))

        checked = check(
            function, torch.randn(3), torch.tensor(4), changed=[(torch.ones(3), torch.tensor(0))], fullgraph=True
        )
        assert _operators(checked) == ["while_loop"]

    def test_while_with_containers(self) -> None:
        def body(i: Any, d: Any) -> Any:
            return i + 1, {"a": d["a"] + 1, "b": d["b"] * 2}

        def function(x: torch.Tensor) -> Any:
            return while_loop(lambda i, d: i < 3, body, (torch.tensor(0), {"a": x, "b": x + 1}))

        check(function, torch.randn(3), fullgraph=True)

    def test_while_that_keeps_each_round(self) -> None:
        def function(x: torch.Tensor) -> Any:
            start = (torch.tensor(3), x)
            return while_loop_stack_output(lambda i, x: i > 0, lambda i, x: (i - 1, x.cos()), start, ())

        check(function, torch.randn(3), fullgraph=True, expect_breaks=None)

    @pytest.mark.parametrize("backend", ["eager", "aot_eager"])
    def test_scan_with_gradients(self, backend: str) -> None:
        def function(init: torch.Tensor, xs: torch.Tensor, w: torch.Tensor) -> Any:
            def step(carry: torch.Tensor, x: torch.Tensor) -> Any:
                made = torch.tanh(carry @ w + x)
                return made, made.clone()

            return scan(step, init, xs)

        check(function, *_grads((2, 3), (4, 2, 3), (3, 3)), fullgraph=True, backend=backend)

    def test_scan_from_the_end_over_a_dimension(self) -> None:
        def function(init: torch.Tensor, xs: torch.Tensor) -> Any:
            return scan(lambda c, x: (c + x, c * x), init, xs, dim=1, reverse=True)

        check(function, torch.zeros(3), torch.randn(3, 4), fullgraph=True)

    @pytest.mark.parametrize("backend", ["eager", "aot_eager"])
    def test_map_with_gradients(self, backend: str) -> None:
        def function(xs: torch.Tensor, y: torch.Tensor) -> Any:
            scale = y.exp()
            return map(lambda d, y: (d["a"] * scale, [d["b"] + y]), {"a": xs, "b": xs + 1}, y)

        check(function, *_grads((4, 3), (3,)), fullgraph=True, backend=backend)

    def test_maps_in_maps(self) -> None:
        def function(xs: torch.Tensor, y: torch.Tensor) -> Any:
            return map(lambda x, y: map(lambda u, y: u * y.sum(), x, y), xs, y)

        check(function, torch.randn(2, 3, 4), torch.randn(3), fullgraph=True)

    def test_associative_scan(self) -> None:
        def function(x: torch.Tensor) -> Any:
            return associative_scan(lambda a, b: a * b + a, x, 1, reverse=True, combine_mode="generic")

        check(function, *_grads((3, 5)), fullgraph=True)


class TestRefused:
    """What torch refuses is left to torch, which says why."""

    def test_effects(self) -> None:
        seen = []

        def step(carry: torch.Tensor, x: torch.Tensor) -> Any:
            seen.append(1)
            return carry + x, carry * x

        with pytest.raises(framelift.errors.FullGraphError, match="does more than compute"):
            framelift.compile(lambda init, xs: scan(step, init, xs), fullgraph=True)(torch.zeros(2), torch.ones(3, 2))
        assert not seen
        with pytest.raises(Exception, match=r"seen\.append") as raised:
            framelift.compile(lambda init, xs: scan(step, init, xs))(torch.zeros(2), torch.ones(3, 2))
        assert type(raised.value).__name__ == "UncapturedHigherOrderOpError"

    def test_results_that_are_operands(self) -> None:
        def function(x: torch.Tensor) -> Any:
            return torch.cond(x.sum() > 0, lambda x: x, lambda x: x + 1, (x,))

        with pytest.raises(framelift.errors.FullGraphError, match="share memory"):
            framelift.compile(function, fullgraph=True)(torch.ones(3))

    def test_carried_that_changes_its_shape(self) -> None:
        def function(init: torch.Tensor, xs: torch.Tensor) -> Any:
            return scan(lambda c, x: (torch.cat([c, x]), x + 1), init, xs)

        with pytest.raises(framelift.errors.FullGraphError, match="differ from what it is given"):
            framelift.compile(function, fullgraph=True)(torch.ones(3), torch.ones(2, 3))


def _qkv() -> tuple[torch.Tensor, ...]:
    return tuple(torch.randn(2, 2, 128, 8) for _ in range(3))


def _causal(b: Any, h: Any, q: Any, k: Any) -> Any:
    return q >= k


class TestAttention:
    def test_scores_with_what_they_capture(self) -> None:
        def function(q: Any, k: Any, v: Any, bias: torch.Tensor, last: torch.Tensor) -> torch.Tensor:
            slopes = bias * 2

            def score(s: Any, b: Any, h: Any, i: Any, j: Any) -> Any:
                return torch.where(j <= last[b], s + slopes[h] * (i - j), -float("inf"))

            return flex_attention(q, k, v, score_mod=score)

        args = (*_qkv(), torch.randn(2), torch.tensor([60, 90]))
        checked = check(function, *args, fullgraph=True, changed=[(*_qkv(), torch.randn(2), torch.tensor([5, 128]))])
        assert _operators(checked) == ["flex_attention"]

    def test_masks_made_before(self) -> None:
        documents = torch.arange(128) // 40

        def same(b: Any, h: Any, q: Any, k: Any) -> Any:
            return (documents[q] == documents[k]) & (q >= k)

        mask = create_block_mask(same, None, None, 128, 128, device="cpu")
        check(lambda q, k, v: flex_attention(q, k, v, block_mask=mask), *_qkv(), fullgraph=True)

    def test_masks_as_arguments(self) -> None:
        def function(q: Any, k: Any, v: Any, mask: Any) -> Any:
            return flex_attention(q, k, v, block_mask=mask, scale=0.3)

        causal = create_block_mask(_causal, None, None, 128, 128, device="cpu")
        window = create_block_mask(lambda b, h, q, k: q - k <= 32, None, None, 128, 128, device="cpu")
        given = _qkv()
        lifted = framelift.compile(function, fullgraph=True, backend="eager")
        for mask in (causal, causal, window):
            assert torch.equal(lifted(*given, mask), function(*given, mask))

    def test_masks_made_inside(self) -> None:
        def function(q: Any, k: Any, v: Any, documents: torch.Tensor) -> Any:
            def same(b: Any, h: Any, i: Any, j: Any) -> Any:
                return (documents[i] == documents[j]) & (i >= j)

            mask = create_block_mask(same, None, None, 128, 128, device="cpu")
            return flex_attention(q, k, v, block_mask=mask), mask.to_dense()

        changed = [(*_qkv(), torch.arange(128) // 100)]
        check(function, *_qkv(), torch.arange(128) // 40, fullgraph=True, changed=changed)

    def test_an_operator_in_a_mode_is_left_to_python(self) -> None:
        class Doubling(TorchFunctionMode):
            def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
                result = func(*args, **(kwargs or {}))
                return result * 2 if func is torch.sin else result

        def function(x: torch.Tensor) -> Any:
            with Doubling():
                return strict_mode(lambda x: (x.cos(), torch.sin(x)), (x,))

        with pytest.raises(framelift.errors.FullGraphError, match="in a mode"):
            framelift.compile(function, fullgraph=True)(torch.ones(3))

    def test_grouped_heads_and_log_sums(self) -> None:
        def function(q: Any, k: Any, v: Any) -> Any:
            return flex_attention(q, k, v, enable_gqa=True, return_lse=True)

        args = (torch.randn(1, 4, 128, 8), torch.randn(1, 2, 128, 8), torch.randn(1, 2, 128, 8))
        check(function, *args, fullgraph=True, expect_breaks=0)


class TestDifferentiatedFunctions:
    """What torch.func differentiates is left as the program wrote it."""

    @pytest.mark.parametrize("transform", [torch.func.grad, functools.partial(torch.func.jacrev)])
    def test_detached_operands(self, transform: Any) -> None:
        check(lambda x: transform(lambda x: (x.detach() * x).sum())(x), torch.randn(3), fullgraph=True)

    def test_forwards(self) -> None:
        check(
            lambda x, t: torch.func.jvp(lambda x: x.detach() * x, (x,), (t,)),
            torch.randn(3),
            torch.randn(3),
            fullgraph=True,
        )

    def test_the_question_whether_gradients_are_required(self) -> None:
        def function(x: torch.Tensor) -> torch.Tensor:
            return torch.func.grad(lambda x: (x * 2).sum() if x.requires_grad else x.sum())(x)

        check(function, torch.randn(3), fullgraph=True)
