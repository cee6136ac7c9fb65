"""What data-dependent numbers are in the call that is captured is known, and nothing is presumed that it disproves."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch

import framelift
from framelift.errors import FullGraphError
from framelift.graph import GraphBuilder
from framelift.report.events import CaptureFinished, GraphBroke, RanEagerly
from tests.helpers import assert_same, check
from tests.helpers.record import Record


def history(function: Callable[..., Any], calls: list[tuple[Any, ...]], **options: Any) -> str:
    """One word a call: what was done. Results are eager's."""
    framelift.reset()
    lifted = framelift.compile(function, backend=options.pop("backend", "eager"), **options)
    words = []
    for arguments in calls:
        record = Record()
        with record.listening():
            results = [_outcome(each, arguments) for each in (function, lifted)]
        assert_same(*results)
        captured, broke, python = map(record.of, (CaptureFinished, GraphBroke, RanEagerly))
        seen = {"capture": captured, "break": broke, "python": python}
        words.append("+".join(word for word, found in seen.items() if found) or "hit")
    framelift.reset()
    return " ".join(words)


def _outcome(function: Callable[..., Any], arguments: tuple[Any, ...]) -> Any:
    try:
        return function(*[value.clone() for value in arguments])
    except (RuntimeError, ValueError, IndexError) as error:
        return type(error).__name__


# -- programs --------------------------------------------------------------------------------------------------------


def image(e, s):
    s = s.tolist()
    return e[..., : s[0] // 2, : s[1] // 2] * 2


def parts(x, grid):
    return [part.sum(0) for part in x.split([(t * h * w) // 4 for t, h, w in grid.tolist()])]


def one_kind(x, m, mask):
    torch._check(torch.unique_consecutive(m).numel() == 1)
    return x[mask] * 2


def masked(x, m):
    return x[m] + 1


def experts(x, chosen):
    result = torch.zeros_like(x)
    for index in range(4):
        rows = (chosen == index).nonzero().squeeze(1)
        result = result.index_add(0, rows, x[rows] * index)
    return result


def _mask(count: int) -> torch.Tensor:
    return torch.arange(6) < count


_X = torch.arange(18.0).reshape(6, 3)


def test_a_slice_that_is_the_whole() -> None:
    calls = [(torch.ones(3, 8, 8), torch.tensor(size)) for size in ([16, 16], [8, 16], [16, 10], [6, 4], [40, 16])]
    assert history(image, calls[:4]) == "capture hit hit hit"
    check(image, *calls[0], changed=calls[1:], expect_breaks=None)


def test_a_part_of_size_one() -> None:
    calls = [(_X, torch.tensor(grid)) for grid in ([[1, 2, 2], [1, 4, 5]], [[1, 4, 5], [1, 2, 2]], [[1, 2, 6]] * 2)]
    assert history(parts, [calls[0], *calls]) == "capture hit hit hit"
    check(parts, *calls[0], changed=calls[1:])


def test_a_check_of_size_one() -> None:
    calls = [(_X, torch.ones(5), _mask(count)) for count in (3, 1, 0, 5)]
    assert history(one_kind, [*calls, *calls]) == "capture python capture hit hit hit hit hit"
    check(one_kind, *calls[0], changed=calls[1:])


@pytest.mark.parametrize("first", [0, 1, 2, 3])
def test_the_first_size_is_any(first: int) -> None:
    """A size that was ordinary and is not is a symbol without that assumption; 0 and 1 never had it."""
    calls = [(_X, _mask(count)) for count in (first, 3, 1, 0, 2, 6, 1)]
    learns = "capture hit hit hit hit hit hit" if first < 2 else "capture hit python capture hit hit hit"
    assert history(masked, calls) == learns


def test_experts() -> None:
    torch.manual_seed(0)
    calls = [(torch.randn(6, 3), torch.randint(0, 4, (6,))) for _ in range(14)]
    words = history(experts, calls).split()
    assert words[4:] == ["hit"] * 10 and words.count("capture") <= 2


def test_bounds_lie_as_they_do() -> None:
    def fn(x, n):
        return x[: n.item()], x[n.item() :]

    for first in (9, -2, -9, 3):
        calls = [(_X, torch.tensor(n)) for n in (first, first, 3, 9, -2, 0, 6)]
        assert history(fn, calls).startswith("capture hit")


# -- what teaches -----------------------------------------------------------------------------------------------------


def _contradictory(x, m):
    y = x[m]
    return y * 2 if y.squeeze().dim() == 1 else y + 1


def test_it_settles_on_breaks() -> None:
    """What makes a difference, and is always another, is captured four times; then nothing is presumed."""
    calls = [(_X[:, 0].clone(), _mask(count)) for count in (3, 1) * 8]
    words = history(_contradictory, calls).split()
    assert sum("capture" in word for word in words) <= 6 and words[-4:] == ["hit"] * 4


def test_one_graph_that_cannot_be() -> None:
    """With `fullgraph=True` Python runs calls while it learns; in the end it raises."""
    lifted = framelift.compile(_contradictory, backend="eager", fullgraph=True)
    with pytest.raises(FullGraphError, match="FL0301"):
        for count in (3, 1) * 8:
            lifted(_X[:, 0].clone(), _mask(count))


@pytest.mark.parametrize("fullgraph", [False, True])
def test_a_call_that_raises_is_not_captured(fullgraph: bool) -> None:
    def fn(x, n):
        if n.item() > 4:
            raise ValueError
        return x * n.item()

    calls = [(_X, torch.tensor(n)) for n in (5, 3, 5, 4)]
    assert history(fn, calls, fullgraph=fullgraph) == "python capture hit hit"


@pytest.mark.parametrize("backend", ["eager", "aot_eager"])
def test_nothing_is_compiled_that_is_not_used(backend: str) -> None:
    """Whatever the first call is, the second one, with the same data, is run by its graph."""
    for count in (0, 1, 2, 6):
        assert history(masked, [(_X, _mask(count))] * 3, backend=backend) == "capture hit hit"


# -- what is run ------------------------------------------------------------------------------------------------------


def _graph(*inputs: torch.Tensor) -> tuple[GraphBuilder, list[Any]]:
    builder = GraphBuilder()
    builder.shape_env.takes_data = True
    return builder, [builder.add_input(f"x{place}", value, f"x{place}") for place, value in enumerate(inputs)]


def test_inputs_are_copied_where_they_are_written() -> None:
    given = torch.tensor([1, 0, 0])
    view = given[1:]
    builder, (x, y) = _graph(given, view)
    builder.call_method("add_", (y, 1))
    rows = builder.call_method("nonzero", (x,))
    builder.call_method("zero_", (x,))
    none = builder.call_method("nonzero", (y,))
    assert len(builder.evidence.of_result(none.record)) == 0
    assert len(builder.evidence.of_result(rows.record)) == 3, "as it was then"
    assert given.tolist() == [1, 0, 0]


def test_random_numbers_are_those_of_the_graph() -> None:
    def fn(x):
        first = torch.rand(6)
        mask = first.bernoulli() > 0.5
        return x[mask] + 1, torch.rand(1)

    for seed in range(4):
        torch.manual_seed(seed)
        expected = fn(_X)
        torch.manual_seed(seed)
        actual = framelift.compile(fn, backend="eager")(_X)
        assert_same(expected, actual)


def test_operators_of_others_are_not_run() -> None:
    ran = []

    @torch.library.custom_op("evidence_tests::halve", mutates_args=())
    def halve(x: torch.Tensor) -> torch.Tensor:
        ran.append(x)
        return x / 2

    halve.register_fake(lambda x: torch.empty_like(x))
    builder, (x,) = _graph(torch.ones(3))
    rows = builder.call_method("nonzero", (builder.call_function(torch.ops.evidence_tests.halve.default, (x,)),))
    assert builder.evidence.of_result(rows.record) is None and not ran


def test_a_number_that_is_known_here_is_not_known_elsewhere() -> None:
    """What `item()` gives a second time is a constant where a check says so, in that graph only."""

    def known(x, n):
        torch._check(n.item() == 3)
        return x[: n.item()]

    def unknown(x, n):
        return n.item() * x, x[: n.item()]

    assert history(known, [(_X, torch.tensor(3))]) == "capture"
    lifted = framelift.compile(known, backend="eager"), framelift.compile(unknown, backend="eager")
    for size in (3, 2, 5):
        given = _X, torch.tensor(size)
        if size == 3:
            assert_same(known(*given), lifted[0](*given))
        assert_same(unknown(*given), lifted[1](*given))


@pytest.mark.parametrize("backend", ["eager", "aot_eager"])
@pytest.mark.parametrize("first", [0, 1, 3])
def test_what_raises_for_nothing_is_not_left_out(backend: str, first: int) -> None:
    def fn(x, m):
        y = x[m]
        y.max(0)
        return y + 1

    calls = [(_X, _mask(count)) for count in (first, 3, 0, 1, 0, 2, 1, 0, 6)]
    assert "hit" in history(fn, calls, backend=backend)


def test_a_branch_on_a_size_goes_as_in_this_call() -> None:
    def fn(x, m):
        y = x[m]
        return y.sum(0) if y.shape[0] > 0 else x[0]

    for first in (0, 1, 3):
        calls = [(_X, _mask(count)) for count in (first, first, 3, 0, 2, 0, 1, 0, 6, 0, 5, 1, 0, 2)]
        words = history(fn, calls).split()
        assert words[:2] == ["capture", "hit"] and words[-2:] == ["hit", "hit"]
        assert words.count("python") == 3


def test_a_number_that_is_needed_itself_is_not_guessed() -> None:
    def fn(x, m):
        return {x[m].shape[0]: x + 1}, x.repeat_interleave(m.long(), 0).shape[0] % 5

    calls = [(_X, _mask(count)) for count in (3, 1, 0, 2, 3, 5, 6)]
    assert "break" in history(fn, calls)


def test_a_check_fails_in_front_of_a_slice() -> None:
    """Code that has a slice among its constants has no hash."""

    def fn(x, m):
        y = x[m]
        key = slice(0, 2)
        framelift.graph_break()
        return y[key], key

    calls = [(_X, _mask(count)) for count in (3, 1, 2)]
    assert history(fn, calls).split()[1].startswith("python")


def test_a_symbol_belongs_to_the_operation_that_brought_it() -> None:
    """What is presumed of it is checked there, though nobody uses what comes later."""

    def fn(x, index):
        return x.repeat_interleave(index, 0).squeeze().dim(), x + 1

    for first in ([0, 1], [1, 1], [0, 0]):
        calls = [(_X[:2], torch.tensor(index)) for index in (first, [0, 0], [1, 0], [1, 1], [0, 2], [2, 3], [0, 1])]
        assert "python" in history(fn, calls)
