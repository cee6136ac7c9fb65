"""Numbers that are read from tensors of the host: known before the graph runs, whatever the graph writes to them."""

from __future__ import annotations

from typing import Any

import pytest
import torch

import framelift
from tests.helpers import check, transcript
from tests.helpers.record import Record

BACKENDS = ("eager", "aot_eager")


def scalar(number: float, dtype: torch.dtype = torch.float32) -> torch.Tensor:
    return torch.tensor(number, dtype=dtype)


def calls(*numbers: float) -> list[tuple[torch.Tensor, torch.Tensor]]:
    return [(torch.ones(3), scalar(number)) for number in numbers]


@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_arithmetic_is_pythons(dtype: torch.dtype, backend: str) -> None:
    def f(x: Any, n: Any) -> Any:
        correction = 1 - 0.9 ** n.item()
        return x.mul(0.1 / correction).addcdiv_(x, x + 1, value=-0.3 / correction**0.5)

    changed = [(torch.randn(3), scalar(number, dtype)) for number in (4.0, 5.0, 1e6, 0.1)]
    check(f, torch.randn(3), scalar(3.0, dtype), changed=changed, backend=backend, fullgraph=True)


def test_another_number_is_no_reason_to_capture_again() -> None:
    def f(x: Any, n: Any) -> Any:
        return x * 0.9 ** n.item()

    assert transcript(f, calls(1.0, 2.0, 3.5, -7.0)) == "miss hit hit hit"


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
@pytest.mark.parametrize(
    "change",
    [
        pytest.param(lambda n: n.add_(1), id="add_"),
        pytest.param(lambda n: n.__iadd__(0.1), id="iadd"),
        pytest.param(lambda n: n.sub_(0.3).mul_(0.7).div_(3), id="chain"),
        pytest.param(lambda n: n.mul_(n), id="itself"),
        pytest.param(lambda n: n.copy_(torch.tensor(0.7)), id="copy_"),
        pytest.param(lambda n: n.fill_(0.7), id="fill_"),
        pytest.param(lambda n: torch._foreach_add_([n], torch.tensor(1.0), alpha=1.0), id="foreach, a tensor"),
        pytest.param(lambda n: torch._foreach_mul_([n], [0.3]), id="foreach, a list"),
        pytest.param(lambda n: n.detach().add_(1), id="an alias"),
    ],
)
def test_what_the_graph_wrote_is_seen(change: Any, dtype: torch.dtype) -> None:
    def f(x: Any, n: Any) -> Any:
        before = n.item()
        change(n)
        return x * (n.item() / 3) - before**2, n.item()

    changed = [(torch.randn(3), scalar(number, dtype)) for number in (0.1, 1e7, -2.0)]
    check(f, torch.randn(3), scalar(3.0, dtype), changed=changed, fullgraph=True)


@pytest.mark.parametrize("operation", ["add", "sub", "mul", "div"])
def test_rounding_is_that_of_the_tensor(operation: str) -> None:
    def f(x: Any, n: Any, m: Any) -> Any:
        return x * getattr(n, operation)(m).item() + getattr(n, operation)(0.3).item()

    generator = torch.Generator().manual_seed(1)
    changed = [(torch.ones(2), *torch.randn(2, generator=generator)) for _ in range(50)]
    check(f, torch.ones(2), scalar(0.1), scalar(0.7), changed=changed, fullgraph=True)


def test_a_decision_is_guarded() -> None:
    def f(x: Any, n: Any) -> Any:
        n += 1
        length = 19.0 - 2 * n.item() * 0.9 ** n.item() / (1 - 0.9 ** n.item())
        return x * length if length > 5.0 else x - length

    check(f, torch.ones(3), scalar(1.0), changed=calls(2.0, 9.0, 5.0, 20.0, 3.0), fullgraph=True)
    assert transcript(f, calls(1.0, 2.0)) == "miss hit"


def test_a_decision_on_what_was_rounded_is_guarded() -> None:
    def f(x: Any, n: Any) -> Any:
        n *= 0.1
        return x + 1 if n.item() > 0.1 else x - 1

    # 0.1 * 1.0 as a float of 32 bits is more than Python's 0.1.
    check(f, torch.ones(3), scalar(1.0), changed=calls(0.9999999, 1.0000001, 1.0), fullgraph=True)


def test_decisions_that_change_all_the_time_are_left_to_the_program() -> None:
    def f(x: Any, n: Any) -> Any:
        number = n.item()
        for bound in range(20):
            if number < bound:
                return x * bound
        return x

    record, lifted = Record(), framelift.compile(f, backend="eager")
    with record.listening():
        for number in range(20):
            x = torch.ones(3)
            assert torch.equal(lifted(x, scalar(number)), f(x, scalar(number)))
    assert {each.id for each in record.breaks} == {"FL0301"}


def test_equal_numbers_are_one() -> None:
    def f(x: Any, n: Any, m: Any) -> Any:
        return x * 0.9 ** n.item() + x * 0.9 ** m.item()

    apart = [(torch.ones(3), scalar(a), scalar(b)) for a, b in ((1, 1), (2, 2), (2, 3), (3, 3), (5, 4))]
    reason = "L['m'].item() == L['n'].item() was true, now L['n'].item() is 2.0 and L['m'].item() is 3.0"
    assert transcript(f, apart) == f"miss hit miss({reason}) hit hit"


def test_equal_numbers_are_one_input() -> None:
    def f(x: Any, n: Any, m: Any) -> Any:
        return x * 0.9 ** n.item() + x * 0.9 ** m.item()

    checked = check(f, torch.ones(3), scalar(1.0), scalar(1.0), changed=[(torch.ones(3), scalar(3.0), scalar(3.0))])
    numbers = [node for node in checked.graphs[0].graph.nodes if node.meta.get("input_kind") == "number"]
    assert len(numbers) == 1


def test_numbers_that_are_equal_are_not_both_zero_with_one_sign() -> None:
    def f(x: Any, n: Any, m: Any) -> Any:
        return x * n.item(), x * m.item(), n.item(), m.item()

    ones = torch.ones(3)
    check(
        f,
        ones,
        scalar(0.0),
        scalar(0.0),
        changed=[(ones, scalar(0.0), scalar(-0.0)), (ones, scalar(-0.0), scalar(0.0))],
    )


@pytest.mark.parametrize("number", [float("inf"), float("nan"), -float("inf"), -0.0])
def test_numbers_of_other_kinds(number: float) -> None:
    def f(x: Any, n: Any) -> Any:
        return x * n.item()

    check(f, torch.ones(3), scalar(2.0), changed=calls(number, 3.0))


@pytest.mark.parametrize("number", [float("inf"), float("nan"), -0.0])
def test_a_first_number_of_another_kind(number: float) -> None:
    def f(x: Any, n: Any) -> Any:
        return x * n.item()

    check(f, torch.ones(3), scalar(number), changed=calls(2.0))


def test_the_number_itself() -> None:
    """A text needs the number: then it is the graph's, and read when that has run."""

    def f(x: Any, n: Any) -> Any:
        return x + 1, f"{n.item():.2f}"

    check(f, torch.ones(3), scalar(2.0), changed=calls(3.0), expect_breaks=None)


def test_another_tensor_in_its_memory() -> None:
    def f(x: Any, values: Any, n: Any) -> Any:
        values.add_(1)
        return x * n.item()

    def inputs() -> Any:
        values = torch.arange(3.0)
        return torch.ones(2), values, values[1]

    check(f, inputs=inputs, expect_breaks=None)


def test_memory_that_is_written_to_unseen() -> None:
    """Nothing but the number itself tells that it changed."""

    def f(x: Any, n: Any) -> Any:
        return x + 1 if n.item() > 2 else x - 1

    lifted = framelift.compile(f, backend="eager", fullgraph=True)
    x, n = torch.ones(2), scalar(1.0)
    memory = n.detach().numpy()
    for number in (1.0, 5.0, 1.5, 3.0):
        memory.fill(number)
        assert torch.equal(lifted(x, n), f(x, n))


class Holder:
    def __init__(self, number: float) -> None:
        self.state = {"step": scalar(number)}


def test_in_objects() -> None:
    def f(x: Any, holder: Any) -> Any:
        holder.state["step"] += 1
        return x / (1 - 0.9 ** holder.state["step"].item())

    checked = check(f, torch.ones(3), Holder(1.0), changed=[(torch.ones(3), Holder(4.0))])
    assert any(".item()" in guard for guard in checked.guards) is False  # nothing was decided


@pytest.mark.parametrize("backend", BACKENDS)
def test_where_torch_takes_numbers_only(backend: str) -> None:
    def f(x: Any, n: Any) -> Any:
        return x.add(x, alpha=-n), torch._foreach_add([x], [x], alpha=n), x.addcdiv(x, x + 1, value=n / 3)

    check(f, torch.randn(3), scalar(2.0), changed=[(torch.randn(3), scalar(3.0))], backend=backend, fullgraph=True)


def test_where_torch_takes_numbers_only_and_the_graph_computes_them() -> None:
    def f(x: Any, n: Any) -> Any:
        return x.add(x, alpha=n.sin())

    check(f, torch.randn(3), scalar(2.0), changed=[(torch.randn(3), scalar(3.0))], fullgraph=True)


def test_of_a_tensor_that_needs_gradients() -> None:
    def f(x: Any, n: Any) -> Any:
        return (x * n.item()).sum()

    check(f, torch.ones(3), scalar(2.0).requires_grad_(), changed=[(torch.ones(3), scalar(3.0).requires_grad_())])
