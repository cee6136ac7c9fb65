"""Sizes and numbers that depend on data stay in the graph; sizes 0 and 1 are run by Python. Results are eager's."""

from __future__ import annotations

from functools import partial
from typing import Any

import pytest
import torch

import framelift
from framelift.breaks import REGISTRY
from framelift.errors import BackendError
from tests.helpers import assert_same, check
from tests.shapes.data_dependent import CASES, COUNTS
from tests.tolerances import tolerance


@pytest.mark.parametrize("name", CASES)
@pytest.mark.parametrize("backend", ["eager", "aot_eager"])
def test_all_sizes(name: str, backend: str) -> None:
    case = CASES[name]
    first, *others = [case.arguments(count) for count in COUNTS]
    # What compilers ask is presumed as it was: in the end such graphs break.
    check(case.function, *first, changed=others, backend=backend, expect_breaks=0 if backend == "eager" else None)


def test_largest_of_several_numbers() -> None:
    def fn(x, lengths):
        counts = lengths.tolist()
        rows = [x[:count] for count in counts]
        pad = torch.nn.utils.rnn.pad_sequence
        padded = pad(rows, batch_first=True), pad(rows, padding_value=2.0, padding_side="left")
        return x[: max(counts)] + min(counts), torch.arange(max(counts)) < lengths[:, None], padded

    x = torch.arange(12.0).reshape(6, 2)
    calls = [(x, torch.tensor([2, count, 4])) for count in COUNTS]
    check(fn, *calls[0], changed=calls[1:], expect_breaks=0)


@pytest.mark.parametrize("backend", ["eager", "aot_eager"])
def test_a_write_that_some_sizes_do_not_fit(backend: str) -> None:
    """Its rule raises for some of the sizes it is tried with: what was written to is still known afterwards."""

    def fn(x, y, count):
        rows = x[: count[0]].clone()
        rows.add_(1)
        rows.masked_fill_(y < 0, 5)
        return rows

    x, y = torch.arange(12.0).reshape(6, 2), torch.tensor([[-1.0, 1.0], [1.0, -1.0]])
    calls = [(x, y[:rows], torch.tensor([count])) for count, rows in ((2, 2), (0, 2), (1, 2), (2, 1), (1, 1), (2, 2))]
    check(fn, *calls[0], changed=calls[1:], backend=backend, expect_breaks=None)


@pytest.mark.parametrize("backend", ["eager", "aot_eager", pytest.param("inductor", marks=pytest.mark.slow)])
def test_gradients(backend: str) -> None:
    def fn(x, m):
        return (x[m] * x[m]).sum() + x[m].sin().sum()

    lifted = framelift.compile(fn, backend=backend)
    for count in COUNTS:
        x = torch.arange(12.0).reshape(6, 2).requires_grad_()
        m = torch.arange(6) < count
        expected, actual = [torch.autograd.grad(f(x, m), x)[0] for f in (fn, lifted)]
        assert_same(expected, actual, partial(tolerance, backend))


@pytest.mark.parametrize("backend", ["aot_eager", pytest.param("inductor", marks=pytest.mark.slow)])
def test_gradients_twice(backend: str) -> None:
    """`retain_graph=True` keeps what was saved, though the backward was compiled before anybody asked for it."""

    def fn(x, m):
        return (x[m] ** 2).sum() + (x * x.shape[0]).sin().exp().sum()

    lifted = framelift.compile(fn, backend=backend)
    for count in (3, 4, 5, 1):
        x = torch.linspace(0, 1, 6 * count).reshape(6, count).requires_grad_()
        m = torch.arange(6) < count
        (expected,) = torch.autograd.grad(fn(x, m), x)
        result = lifted(x, m)
        for retain in (True, False):
            (actual,) = torch.autograd.grad(result, x, retain_graph=retain)
            assert_same(expected, actual, partial(tolerance, backend))
        with pytest.raises(RuntimeError, match="second time"):
            torch.autograd.grad(result, x)


@pytest.mark.slow
@pytest.mark.parametrize("name", CASES)
def test_all_sizes_with_inductor(name: str) -> None:
    case = CASES[name]
    first, *others = [case.arguments(count) for count in COUNTS]
    check(case.function, *first, changed=others, backend="inductor", expect_breaks=None, deterministic=False)


@pytest.mark.parametrize("backend", ["eager", "aot_eager"])
class TestChecks:
    """What a program says about numbers, or raises because of them."""

    def test_check(self, backend: str) -> None:
        def fn(x, n):
            u = n.item()
            torch._check(u >= 2)
            torch._check(u <= 5, lambda: f"too many: {u}")
            return x[:u] * 2

        calls = [(torch.arange(6.0), torch.tensor(n)) for n in (3, 5, 2, 6, 1)]
        check(fn, *calls[0], changed=calls[1:], backend=backend)

    def test_check_of_a_size(self, backend: str) -> None:
        def fn(x, m):
            y = x[m]
            torch._check(y.shape[0] == 3, lambda: "three are needed")
            return y.reshape(3, 2) + torch.ones(3, 2)

        calls = [(torch.arange(12.0).reshape(6, 2), torch.arange(6) < n) for n in (3, 3, 2)]
        check(fn, *calls[0], changed=calls[1:], backend=backend)

    def test_check_is_size(self, backend: str) -> None:
        def fn(x, n):
            u = n.item()
            torch._check_is_size(u, max=8)
            return torch.ones(u).sum() + x

        calls = [(torch.arange(6.0), torch.tensor(n)) for n in (3, 2, -1, 9)]
        check(fn, *calls[0], changed=calls[1:], backend=backend)

    def test_raise(self, backend: str) -> None:
        def fn(x, n):
            u = n.item()
            if u > 4:
                raise ValueError(f"{u} is too much")
            if not u:
                raise ValueError
            return x * u

        calls = [(torch.arange(6.0), torch.tensor(n)) for n in (3, 4, 5, 0)]
        check(fn, *calls[0], changed=calls[1:], backend=backend)

    def test_a_branch_breaks_and_says_why(self, backend: str) -> None:
        def fn(x, n):
            y = x + 1
            return y * 2 if n.item() > 3 else y - 1

        calls = [(torch.arange(6.0), torch.tensor(n)) for n in (3, 4)]
        seen = check(fn, *calls[0], changed=calls[1:], backend=backend, expect_breaks=None)
        reasons = [event for event in seen.record.breaks if "u0 > 3, where u0 is what item gives" in event.reason]
        assert reasons and "n.item() > 3" in reasons[0].text


def test_a_part_that_is_written_and_read() -> None:
    """The number of a slice is looked at where it stands, not later."""

    def fn(x, p):
        q = p + 1
        p += 1
        return x[q:], x[:p], q

    calls = [(torch.arange(9.0), torch.tensor(n)) for n in (3, 2, 4)]
    check(fn, *calls[0], changed=calls[1:])


def test_an_int32_position_that_wraps_around() -> None:
    def fn(x, p):
        return x[p + 1 :]

    calls = [(torch.arange(9.0), torch.tensor(n, dtype=torch.int32)) for n in (3, 2**31 - 1, -1)]
    check(fn, *calls[0], changed=calls[1:])


def test_a_backend_that_takes_no_symbols() -> None:
    """What it rejects is captured again, with breaks."""

    def backend(module, inputs):
        if any(node.meta.get("unbacked_bindings") for node in module.graph.nodes):
            raise NotImplementedError("sizes that depend on data")
        return module.forward

    def fn(x, m):
        return (x * 2)[m] + 1

    check(fn, torch.arange(6.0), torch.arange(6) < 3, backend=backend, expect_breaks=1)
    with pytest.raises(BackendError, match="sizes that depend"):
        framelift.compile(fn, backend=backend, fullgraph=True)(torch.arange(6.0), torch.arange(6) < 3)


def test_data_that_decides_breaks_on_request() -> None:
    with framelift.config.patch(data_dependent=False):
        check(lambda x, m: (x * 2)[m] + 1, torch.arange(6.0), torch.arange(6) < 3, expect_breaks=1)


def test_a_large_write_before_a_check() -> None:
    """What was written could not be put back: the graph ends before the check."""
    large = 5 << 20

    def fn(x, m):
        x.add_(1)
        return x[: m.numel()][m] * 2

    calls = [(torch.zeros(large), torch.arange(6) < n) for n in (3, 1)]
    check(fn, *calls[0], changed=calls[1:], expect_breaks=None)


def printed(x: Any) -> Any:
    print(x.sum().item())
    return x * 2


NEEDED: dict[str, tuple[Any, str, str]] = {
    "printed": (printed, "FL0308", "print, log or convert"),
    "formatted": (lambda x: (f"{x.sum().item():.2f}", x * 2), "FL0308", "print, log or convert"),
    "a key": (lambda x: {x.sum().item(): x * 2}, "FL0308", "print, log or convert"),
    "rounded": (lambda x: (round(x.sum().item(), 2), x * 2), "FL0308", "print, log or convert"),
    "compared": (lambda x: x * 2 if x.sum().item() > 0 else x, "FL0301", "torch.where"),
    "truth": (lambda x: x * 2 if x.sum() > 0 else x, "FL0301", "torch.where"),
}


@pytest.mark.parametrize("name", NEEDED)
def test_the_remedy_fits(name: str) -> None:
    function, reason, advice = NEEDED[name]
    checked = check(function, torch.ones(3), expect_breaks=None, expect_ops=0, expect_hit=False)
    assert {event.id for event in checked.record.breaks} == {reason}
    assert advice in REGISTRY[reason].remedy


@pytest.mark.parametrize("backend", ["eager", "aot_eager"])
@pytest.mark.parametrize("number", [0.5, 2.0, -0.0, float("nan"), float("inf")])
def test_larger_and_smaller_floats(number: float, backend: str) -> None:
    def f(x: Any) -> Any:
        n = (x * 1).sum().item()
        larger, smaller = max(1.0, n), min(n, 1.0)
        return x / larger, x * smaller, x * max(n, 0.0), x * min(0.0, n), larger, smaller

    check(f, torch.tensor([number]), backend=backend)


def test_a_number_of_the_graph_after_a_write() -> None:
    """Nothing is presumed of a float, so nothing is to be taken back."""

    def f(x: Any, w: Any) -> Any:
        with torch.no_grad():
            w.mul_(x.norm().item())
            w.mul_(w.norm().item())
        return w * 2

    check(f, torch.randn(3), torch.randn(3, requires_grad=True), fullgraph=True)


def test_a_division_by_a_number_of_a_tensor():
    def f(x, n):
        number = n.item()
        return x / number, 7 // number, 7 % number, x * (1.0 / float(n))

    calls = [(torch.ones(3), torch.tensor(number)) for number in (3, 2, -2, 0, 5)]
    check(f, *calls[0], changed=calls[1:3], fullgraph=True)
    check(f, *calls[0], changed=calls[1:], expect_breaks=None)
    check(f, *calls[3], changed=calls, expect_breaks=None, expect_ops=0, expect_hit=False)


def test_a_division_by_a_float_of_a_tensor():
    def f(x, n):
        return x * (1.0 / n.item())

    calls = [(torch.ones(3), torch.tensor(number)) for number in (3.0, 0.5, float("nan"), float("inf"), 0.0, -0.0)]
    check(f, *calls[0], changed=calls[1:4], fullgraph=True)
    check(f, *calls[0], changed=calls[1:], expect_breaks=None)
