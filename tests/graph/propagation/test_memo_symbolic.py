"""The memo of a capture for tensors with symbolic sizes, and the fakes that are made from their metadata."""

from __future__ import annotations

from typing import Any

import pytest
import torch

from framelift.graph import GraphBuilder, MemoMismatch, MetadataMemo, TensorRef
from framelift.shapes.symbols import Dimension


class Capture:
    """A graph with inputs some of whose sizes are symbolic."""

    def __init__(self, check: bool = False) -> None:
        self.memo = MetadataMemo()
        self.builder = GraphBuilder(self.memo, check)

    @property
    def counts(self) -> tuple[int, int]:
        memo = self.builder._memo_for_symbols
        assert memo is not None
        return memo.hits, memo.misses

    def input(self, name: str, example: torch.Tensor, *dims: int) -> TensorRef:
        layout = self.builder.symbols.layout(
            example.shape,
            example.stride(),
            {dim: Dimension() for dim in dims},
            (),
            lambda kind, dim: ((name, kind, dim), f"{name}.{kind}[{dim}]"),
        )
        return self.builder.add_input(name, example, name, layout=layout)

    def call(self, target: Any, *args: Any) -> Any:
        if isinstance(target, str):
            return self.builder.call_method(target, args)
        return self.builder.call_function(target, args)

    def assumptions(self) -> list[str]:
        return [str(guard.expr) for guard in self.builder.shape_env.guards]


X = torch.randn(5, 4)


@pytest.mark.parametrize("check", [False, True])
def test_the_second_time_is_a_hit(check: bool) -> None:
    capture = Capture(check)
    x = capture.input("x", X, 0)
    first, second = capture.call(torch.relu, x), capture.call(torch.relu, x)
    assert capture.counts == (1, 1)
    assert first is not second and first.descriptor is second.descriptor
    third = capture.call(torch.relu, second)
    assert third.descriptor.shape[0] is not None and capture.counts[0] >= 1
    (module,) = [capture.builder.finish([first, second, third])]
    for result in module(X):
        assert torch.equal(result, X.relu())


def test_captures_have_one_each() -> None:
    memo = MetadataMemo()
    for _ in range(2):
        capture = Capture()
        capture.memo, capture.builder = memo, GraphBuilder(memo)
        capture.call(torch.relu, capture.input("x", X, 0))
        assert capture.counts == (0, 1)
    assert len(memo) == 0


def test_symbols_are_told_apart() -> None:
    capture = Capture()
    x, y = capture.input("x", X, 0), capture.input("y", torch.randn(7, 4), 0)
    a, b = capture.call(torch.relu, x), capture.call(torch.relu, y)
    assert capture.counts == (0, 2)
    assert str(a.shape) != str(b.shape)


def test_numbers_are_told_apart() -> None:
    capture = Capture()
    x = capture.input("x", X, 0)
    n = capture.builder.add_number(capture.builder.symbols.number(3, "n", "n"), 3, "n")
    m = capture.builder.add_number(capture.builder.symbols.number(3, "m", "m"), 3, "m")
    sums = [capture.call(torch.mul, x, number) for number in (n, m, n)]
    assert capture.counts == (1, 2)
    assert len({id(ref.descriptor) for ref in sums}) == 1


def test_the_same_memory_is_told_apart() -> None:
    capture = Capture()
    x = capture.input("x", X, 0)
    y = capture.call("view", x, -1)
    z = capture.call(torch.mul, y, y)
    other = capture.call("clone", y)
    w = capture.call(torch.mul, y, other)
    assert z.descriptor.shape == w.descriptor.shape
    assert capture.counts[0] == 0


def test_views_share_the_memory_of_their_argument() -> None:
    capture = Capture()
    x = capture.input("x", X, 0)
    capture.call("t", capture.call("sin", x))
    base = capture.call("sin", x)
    view = capture.call("t", base)
    assert capture.counts[0] >= 1
    assert view.storage is base.storage
    fake = view.fake
    assert fake.untyped_storage()._cdata == base.fake.untyped_storage()._cdata
    assert [str(size) for size in fake.shape] == [str(size) for size in view.shape]


def test_what_is_assumed_stays_assumed() -> None:
    capture = Capture()
    x = capture.input("x", torch.randn(6, 4), 0)
    capture.call("view", x, -1, 8)
    before = capture.assumptions()
    assert any("Mod" in words for words in before)
    capture.call("view", x, -1, 8)
    assert capture.counts == (1, 1) and capture.assumptions() == before


def test_writes_are_not_remembered() -> None:
    capture = Capture()
    x = capture.input("x", X, 0)
    y = capture.call("sin", x)
    for _ in range(2):
        capture.call("add_", y, 1)
    assert capture.counts[0] == 0
    assert len(y.storage.changes) == 2


def test_taken_back_operations_may_be_repeated() -> None:
    capture = Capture()
    x = capture.input("x", X, 0)
    mark = capture.builder.mark()
    capture.call("sin", x)
    capture.builder.rollback(mark)
    again = capture.call("sin", x)
    assert torch.equal(capture.builder.finish([again])(X)[0], X.sin())


def test_fakes_made_from_metadata_are_what_operations_give() -> None:
    """The first of each pair is run, the second comes from the memo, with a fake made of its metadata."""
    capture = Capture()
    x = capture.input("x", torch.randn(3, 6, 4, requires_grad=True), 0, 1)
    for call in (
        lambda: capture.call("transpose", x, 0, 1),
        lambda: capture.call("relu", x),
        lambda: capture.call("reshape", x, -1, 4),
        lambda: capture.call(torch.cat, (x, x), 1),
        lambda: capture.call("sum", x, -1),
        lambda: capture.call("half", x),
    ):
        ran, remembered = call(), call()
        assert ran.descriptor is remembered.descriptor
        one, other = ran.fake, remembered.fake
        for ask in ("size", "stride", "storage_offset", "is_contiguous", "numel", "is_inference"):
            assert str(getattr(one, ask)()) == str(getattr(other, ask)()), ask
        for name in ("dtype", "device", "requires_grad", "is_leaf"):
            assert getattr(one, name) == getattr(other, name)


def test_sizes_need_no_fakes() -> None:
    capture = Capture()
    x = capture.input("x", X, 0)
    y = [capture.call("sin", x) for _ in range(2)][1]
    size = capture.call(torch.ops.aten.sym_size.int, y, 0)
    assert y.known_fake is None
    assert str(size.known_fake) == str(y.shape[0])
    assert capture.call(torch.ops.aten.sym_size.int, y, 1) == 4


def test_an_operation_that_does_something_else_is_found() -> None:
    capture = Capture(check=True)
    x = capture.input("x", X, 0)
    capture.call("sin", x)
    memo = capture.builder._memo_for_symbols
    assert memo is not None
    (key,) = memo._entries
    other = Capture()
    other.builder = GraphBuilder(other.memo)
    y = other.input("x", X, 1)
    other.call("sin", y)
    assert other.builder._memo_for_symbols is not None
    (template,) = other.builder._memo_for_symbols._entries.values()
    memo._entries[key] = template
    with pytest.raises(MemoMismatch, match="shape"):
        capture.call("sin", x)
