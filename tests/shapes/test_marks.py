"""What marks on tensors promise: bounds that hold, sizes that are never specialised, hints for compilers."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch

import framelift
from framelift.errors import DynamicError
from framelift.shapes.marks import Mark, marks_of
from tests.shapes.test_sequences import BACKENDS, captures, rows

decorators: Any = pytest.importorskip("torch._dynamo.decorators")

OWN_AND_TORCHS = pytest.mark.parametrize("owner", [framelift, decorators], ids=["framelift", "torch"])


def sin(x: torch.Tensor) -> torch.Tensor:
    return x.sin()


def branch(x: torch.Tensor) -> torch.Tensor:
    return x.sin() if x.shape[0] < 10 else x.cos()


def specialises(x: torch.Tensor) -> torch.Tensor:
    return x + torch.ones(3, 4)


def tensor(size: int, mark: Callable[..., Any] | None = None, **options: Any) -> torch.Tensor:
    ((x,),) = rows(size)
    if mark is not None:
        mark(x, 0, **options)
    return x


@OWN_AND_TORCHS
class TestBounds:
    @pytest.mark.parametrize("backend", BACKENDS)
    @pytest.mark.parametrize("name", ["mark_dynamic", "mark_unbacked"])
    def test_a_size_out_of_them_is_an_error(self, owner: Any, name: str, backend: str) -> None:
        mark, kind = getattr(owner, name), name.removeprefix("mark_")
        lifted = framelift.compile(sin, backend=backend)
        words = rf"L\['x'\].size\(\)\[0\] was marked {kind}, from 2 to 8, but it is "
        for size in (9, 3, 10, 5, 1, 8, 2):
            x = tensor(size, mark, min=2, max=8)
            if 2 <= size <= 8:
                assert torch.equal(lifted(x), x.sin())
            else:
                with pytest.raises(DynamicError, match=words + str(size)):
                    lifted(x)

    def test_within_them_is_one_entry(self, owner: Any) -> None:
        calls = [(tensor(n, owner.mark_dynamic, min=2, max=8),) for n in (3, 4, 8, 2)]
        assert captures(sin, calls) == [1, 0, 0, 0]

    def test_tensors_without_marks_are_captured_anew(self, owner: Any) -> None:
        calls = [(tensor(3, owner.mark_dynamic, min=2, max=8),), *rows(5, 9, 10, 7)]
        assert captures(sin, calls) == [1, 0, 1, 0, 0]

    def test_they_are_known_to_the_program(self, owner: Any) -> None:
        calls = [(tensor(n, owner.mark_dynamic, min=2, max=8),) for n in (3, 5)]
        assert captures(branch, calls) == [1, 0]
        lifted = framelift.compile(branch, backend="eager")
        with pytest.raises(DynamicError, match="but it is 12"):
            lifted(tensor(12, owner.mark_dynamic, min=2, max=8))
        assert captures(branch, [(tensor(12, owner.mark_dynamic, min=2, max=16),), *rows(13, 4, 20)]) == [1, 0, 0, 1]

    def test_wider_ones_later(self, owner: Any) -> None:
        first = tensor(3, owner.mark_dynamic, min=2, max=8)
        others = [(tensor(n, owner.mark_dynamic, min=2, max=16),) for n in (12, 4, 13)]
        assert captures(sin, [(first,), *others]) == [1, 1, 0, 0]

    def test_fullgraph_and_no_graph(self, owner: Any) -> None:
        for options in ({"fullgraph": True}, {"dynamic": False}, {"dynamic": True}, {"dynamic": {"x": {1: True}}}):
            with pytest.raises(DynamicError, match="but it is 9"):
                framelift.compile(sin, backend="eager", **options)(tensor(9, owner.mark_dynamic, min=2, max=8))

    def test_of_a_module(self, owner: Any) -> None:
        lifted = framelift.compile(torch.nn.Linear(4, 2), backend="eager")
        with pytest.raises(DynamicError, match="was marked dynamic, from 2 to 8, but it is 9"):
            lifted(tensor(9, owner.mark_dynamic, min=2, max=8))

    def test_after_a_break(self, owner: Any) -> None:
        def fn(x, y):
            z = x + 1
            framelift.graph_break()
            return z.sum() + y

        lifted = framelift.compile(fn, backend="eager")
        with pytest.raises(DynamicError, match="but it is 9"):
            lifted(torch.ones(2), tensor(9, owner.mark_dynamic, min=2, max=8))

    def test_exported(self, owner: Any) -> None:
        with pytest.raises(DynamicError, match="but it is 9"):
            framelift.export(sin, tensor(9, owner.mark_dynamic, min=2, max=8))


class TestSizesThatAreNeeded:
    @OWN_AND_TORCHS
    def test_dynamic(self, owner: Any) -> None:
        with pytest.raises(DynamicError, match=r"was marked dynamic, but .*test_marks.py:\d+ needs it to be 3"):
            framelift.compile(specialises, backend="eager")(tensor(3, owner.mark_dynamic))

    @OWN_AND_TORCHS
    def test_maybe(self, owner: Any) -> None:
        assert captures(specialises, [(tensor(3, owner.maybe_mark_dynamic),)] * 2) == [1, 0]

    @OWN_AND_TORCHS
    def test_unbacked(self, owner: Any) -> None:
        assert captures(specialises, [(tensor(3, owner.mark_unbacked),)] * 2) == [1, 0]

    @OWN_AND_TORCHS
    def test_unbacked_strictly(self, owner: Any) -> None:
        assert captures(sin, [(tensor(n, owner.mark_unbacked, strict=True),) for n in (3, 4)]) == [1, 0]
        with pytest.raises(DynamicError, match="needs it to be 3"):
            framelift.compile(specialises, backend="eager")(tensor(3, owner.mark_unbacked, strict=True))


class TestWhatIsSaid:
    def test_maybe_with_bounds(self) -> None:
        """torch 2.15 has them, too."""
        calls = [(tensor(n, framelift.maybe_mark_dynamic, min=2, max=8),) for n in (3, 4)]
        assert captures(sin, [*calls, *rows(9, 8)]) == [1, 0, 1, 0]
        theirs = torch.ones(3)
        theirs._dynamo_weak_dynamic_indices = {0}
        theirs._dynamo_dynamic_range = {decorators._DimRange(0, 2, None)}
        assert marks_of(theirs) == {0: Mark("maybe", 2, None)}

    def test_maybe_does_not_weaken(self) -> None:
        x = tensor(3, framelift.mark_dynamic, min=2)
        framelift.maybe_mark_dynamic(x, (0, -1), max=9)
        assert marks_of(x) == {0: Mark("dynamic", 2, strict=True), 1: Mark("maybe", None, 9)}

    @OWN_AND_TORCHS
    def test_hints(self, owner: Any) -> None:
        for mark in (owner.mark_dynamic, owner.mark_unbacked):
            assert marks_of(tensor(3, mark, hint_override=4096))[0].hint == 4096
            hints = []

            def backend(module, inputs, hints=hints):
                hints.extend(getattr(module.shape_env, "var_to_hint_override", {}).values())
                return module

            lifted = framelift.compile(sin, backend=backend)
            assert torch.equal(lifted(tensor(3, mark, hint_override=4096)), tensor(3).sin())
            assert hints == [4096]
            framelift.reset()

    def test_one_bound(self) -> None:
        calls = [(tensor(5, framelift.mark_dynamic, min=4),), *rows(6, 20, 3)]
        assert captures(sin, calls) == [1, 0, 0, 1]
        framelift.reset()  # the last entry is for size 3, whatever was said
        with pytest.raises(DynamicError, match="was marked dynamic, from 4, but it is 3"):
            framelift.compile(sin, backend="eager")(tensor(3, framelift.mark_dynamic, min=4))
        with pytest.raises(DynamicError, match="was marked unbacked, to 4, but it is 5"):
            framelift.compile(sin, backend="eager")(tensor(5, framelift.mark_unbacked, max=4))

    def test_the_last_mark_counts(self) -> None:
        x = tensor(9, framelift.mark_dynamic, min=2, max=8)
        framelift.mark_dynamic(x, 0, max=16)
        assert captures(sin, [(x,), *rows(3)]) == [1, 0]
        framelift.mark_static(x)
        assert marks_of(x) == {0: Mark("static"), 1: Mark("static")}

    def test_nonsense_is_refused(self) -> None:
        x = torch.ones(3)
        with pytest.raises(ValueError, match="no size is from 8 to 2"):
            framelift.mark_dynamic(x, 0, min=8, max=2)
        with pytest.raises(TypeError, match="an int, not 2.0"):
            framelift.mark_unbacked(x, 0, min=2.0)  # type: ignore[arg-type]
        assert marks_of(x) == {}
