"""What users say about sizes: `dynamic=`, marks on tensors, and what is told about it."""

from __future__ import annotations

import types
from typing import Any

import pytest
import torch

import framelift
from framelift.errors import DynamicError
from framelift.report.events import BecameDynamic
from tests.helpers import assert_same
from tests.helpers.record import Record
from tests.shapes.test_sequences import captures, rows


def sin(x: torch.Tensor) -> torch.Tensor:
    return x.sin()


def once_per_row(x: torch.Tensor) -> torch.Tensor:
    """Needs the very size."""
    for _ in range(x.shape[0]):
        x = x + 1
    return x


FACTOR = 0
SETTINGS = types.SimpleNamespace(value=0)


class TestDynamicTrue:
    def test_one_entry_for_all_sizes(self) -> None:
        def fn(x):
            return x.sin() * x.shape[0]

        assert captures(fn, rows(3, 4, 5), dynamic=True) == [1, 0, 0]

    def test_zero_and_one_are_cases_of_their_own(self) -> None:
        assert captures(sin, rows(1, 2, 3, 0), dynamic=True) == [1, 1, 0, 1]

    def test_equal_sizes_stay_equal(self) -> None:
        calls = [(torch.ones(*shape),) for shape in ((3, 3), (4, 4), (5, 6))]
        assert captures(sin, calls, dynamic=True) == [1, 0, 1]

    def test_int_arguments(self) -> None:
        def fn(x, n):
            return x * n

        assert captures(fn, [(torch.ones(3), n) for n in (3, 4, 0, 1)], dynamic=True) == [1, 0, 0, 0]

    def test_parameters_are_part_of_a_model(self) -> None:
        model = torch.nn.Linear(3, 4)
        lifted = framelift.compile(model, backend="eager", dynamic=True)
        record = Record()
        with record.listening():
            for n in (2, 5, 9):
                assert torch.equal(lifted(torch.ones(n, 3)), model(torch.ones(n, 3)))
        assert record.captures == 1


class TestDict:
    def test_sizes(self) -> None:
        def fn(x, y):
            return x.sin(), y.sin()

        calls = [(torch.ones(n, 3), torch.ones(4)) for n in (3, 4, 5)]
        assert captures(fn, calls, dynamic={"x": {0: (2, 64)}}) == [1, 0, 0]

    def test_bounds_are_guarded(self) -> None:
        assert captures(sin, rows(3, 4, 9, 10, 8), dynamic={"x": {0: (2, 8)}}) == [1, 0, 1, 1, 0]

    def test_bounds_are_known(self) -> None:
        def fn(x):
            return x.sin() if x.shape[0] < 10 else x.cos()

        record = Record()
        with record.listening():
            framelift.compile(fn, backend="eager", dynamic={"x": {0: (2, 8)}})(torch.ones(3))
        assert not any("< 10" in words for words in record.guards)

    def test_numbers(self) -> None:
        class Model(torch.nn.Module):
            step = 0

            def forward(self, x):
                return x * self.step

        model = Model()
        model.step = 3
        lifted = framelift.compile(model, backend="eager", dynamic={"self.step": True})
        record = Record()
        with record.listening():
            for _ in range(4):
                model.step += 1
                assert lifted(torch.ones(2))[0] == model.step
        assert record.captures == 1

    def test_arguments_of_forward(self) -> None:
        class Model(torch.nn.Module):
            def forward(self, x, y):
                return x.sum() + y

        lifted = framelift.compile(Model(), backend="eager", dynamic={"y": {0: True}})
        record = Record()
        with record.listening():
            for n in (3, 4, 5):
                lifted(torch.ones(2), torch.ones(n))
                lifted(torch.ones(2), y=torch.ones(n))
        assert record.captures == 2

    def test_never(self) -> None:
        def fn(x, n):
            return x * n

        calls = [(torch.ones(size), 3) for size in (3, 4, 5)]
        assert captures(fn, calls, dynamic={"x": False}) == [1, 1, 1]
        calls = [(torch.ones(3), n) for n in (3, 4, 5)]
        assert captures(fn, calls, dynamic={"n": False})[1:] == [1, 1]

    def test_paths(self) -> None:
        class Inner(torch.nn.Module):
            def __init__(self):
                super().__init__()
                self.k = 3
                self.box = types.SimpleNamespace(y=2, t=torch.ones(4, 2))

            def forward(self, x):
                return x * self.k + self.box.y * self.box.t.sum()

        class Model(torch.nn.Module):
            def __init__(self):
                super().__init__()
                self.layers = torch.nn.ModuleList([Inner(), Inner()])
                self.state = {"n": [1, 5]}

            def forward(self, x):
                return self.layers[1](self.layers[0](x)) * self.state["n"][1]

        model = Model()
        names = ("layers[1].k", "layers[0].box.y", "state['n'][1]")
        wishes = {**{f"self.{name}": True for name in names}, "self.layers[0].box.t": {0: (2, 64)}}
        lifted = framelift.compile(model, backend="eager", dynamic=wishes)
        record = Record()
        with record.listening():
            for n in range(4):
                model.layers[1].k, model.layers[0].box.y, model.state["n"][1] = n + 3, n + 4, n + 5
                model.layers[0].box.t = torch.ones(n + 4, 2)
                assert torch.equal(lifted(torch.ones(2)), model.forward(torch.ones(2)))
        assert record.captures == 1

    def test_globals_closures_and_arguments_in_containers(self) -> None:
        global FACTOR
        factor = 0

        def fn(x, *rest, **named):
            return x * FACTOR + factor + rest[1] * named["n"] + SETTINGS.value

        lifted = framelift.compile(
            fn,
            backend="eager",
            dynamic={"FACTOR": True, "factor": True, "rest[1]": True, "named['n']": True, "SETTINGS.value": True},
        )
        record = Record()
        with record.listening():
            for n in range(4):
                FACTOR, factor, SETTINGS.value = n + 3, n + 7, n + 20
                given = (torch.ones(2), 1, n + 4)
                assert torch.equal(lifted(*given, n=n + 2), fn(*given, n=n + 2))
        assert record.captures == 1

    def test_the_last_dimension(self) -> None:
        assert captures(sin, [(torch.ones(3, n),) for n in (3, 4, 5)], dynamic={"x": {-1: (2, 64)}}) == [1, 0, 0]

    @pytest.mark.parametrize(
        "wrong", [{"x": 3}, {1: True}, {"x": {"a": True}}, {"x": {0: 7}}, {"x": {0: (1, 2, 3)}}, 5]
    )
    def test_nonsense_is_refused(self, wrong: Any) -> None:
        with pytest.raises(TypeError, match="dynamic"):
            framelift.compile(lambda x: x, dynamic=wrong)


class TestMarks:
    def test_dynamic(self) -> None:
        (first,), *others = rows(3, 4, 5)
        framelift.mark_dynamic(first, 0)
        assert captures(sin, [(first,), *others]) == [1, 0, 0]

    def test_a_size_that_is_needed_is_an_error_with_the_line(self) -> None:
        x = torch.ones(3)
        framelift.mark_dynamic(x, 0)
        with pytest.raises(
            DynamicError, match=r"L\['x'\].size\(\)\[0\] was marked dynamic, but .*test_dynamic_argument.py:\d+ needs"
        ):
            framelift.compile(once_per_row, backend="eager")(x)

    def test_maybe(self) -> None:
        x = torch.ones(3)
        framelift.maybe_mark_dynamic(x, 0)
        assert captures(once_per_row, [(x,), (torch.ones(4),)]) == [1, 1]

    def test_static(self) -> None:
        calls = rows(3, 4, 5, 6)
        for (x,) in calls:
            framelift.mark_static(x)
        assert captures(sin, calls) == [1, 1, 1, 1]

    def test_marks_of_torch(self) -> None:
        (first,), *others = rows(3, 4, 5)
        first._dynamo_dynamic_indices = {0}
        assert captures(sin, [(first,), *others]) == [1, 0, 0]

    def test_dimensions_that_do_not_exist(self) -> None:
        with pytest.raises(IndexError):
            framelift.mark_dynamic(torch.ones(2), 1)
        with pytest.raises(TypeError):
            framelift.mark_dynamic([1], 0)  # type: ignore[arg-type]


def test_what_became_dynamic_is_told() -> None:
    def fn(x, n):
        return x * n

    lifted = framelift.compile(fn, backend="eager")
    record = Record()
    with record.listening():
        lifted(torch.ones(3), 5)
        lifted(torch.ones(4), 6)
        lifted(torch.ones(5), 7)
    (event,) = record.of(BecameDynamic)
    assert event.changes == ("L['n'] was 5, now 6", "L['x'].size()[0] was 3, now 4")


class TestExport:
    def test_marked_sizes_stay_symbolic(self) -> None:
        def fn(x):
            return x.view(-1, 2).sum(1), x.shape[0]

        x = torch.ones(4, 3)
        framelift.mark_dynamic(x, 0)
        module, guards = framelift.export(fn, x)
        for size in (6, 10):
            tensor, number = module(torch.ones(size, 3))
            assert tensor.shape == (size * 3 // 2,) and number == size
        assert any("% 2) == 0" in str(guard) and "L['x'].size()[0] >= 2" in str(guard) for guard in guards)

    def test_a_size_that_is_needed_is_an_error(self) -> None:
        x = torch.ones(4)
        framelift.mark_dynamic(x, 0)
        with pytest.raises(DynamicError, match="test_dynamic_argument.py"):
            framelift.export(lambda x: [x + i for i in range(x.shape[0])], x)

    def test_named_sizes(self) -> None:
        def fn(x, y):
            return x.sin(), y.view(-1, 2)

        shapes = {"x": {0: (2, 64)}, "y": {0: torch.export.Dim("rows", min=2, max=32), 1: None}}
        module, guards = framelift.export(fn, dynamic_shapes=shapes)(torch.ones(4), torch.ones(4, 2))
        for size in (3, 7):
            first, second = module(torch.ones(size), torch.ones(size + 1, 2))
            assert first.shape == (size,) and second.shape == (size + 1, 2)
        words = " ".join(map(str, guards))
        assert "L['x'].size()[0] <= 64" in words and "L['y'].size()[0] <= 32" in words

    def test_forms_of_torch(self) -> None:
        """In the order of the arguments, dimension by dimension, and in the structure of containers."""

        def fn(x, batch, *rest, scale=2):
            return x * scale, batch["a"][0].sum() + batch["b"], rest[0] + 1

        dim = torch.export.Dim
        given = torch.ones(4, 3), {"a": [torch.ones(5)], "b": torch.ones(2)}, torch.ones(6)
        shapes = ((dim("rows", max=64), None), {"a": [{0: dim("n")}], "b": None}, ({0: dim.DYNAMIC},), None)
        names = dict(zip(("x", "batch", "rest", "scale"), shapes, strict=True))
        for form in (shapes, list(shapes), names):
            module, guards = framelift.export(fn, *given, dynamic_shapes=form)
            others = torch.ones(7, 3), {"a": [torch.ones(8)], "b": torch.ones(2)}, torch.ones(9)
            assert_same(fn(*others), module(*others))
            assert any("L['x'].size()[0] <= 64" in str(guard) for guard in guards)

    def test_a_number_in_the_forms_of_torch(self) -> None:
        module, _ = framelift.export(lambda x, n: x * n, torch.ones(2), 3, dynamic_shapes=(None, torch.export.Dim.AUTO))
        assert torch.equal(module(torch.ones(2), 9), torch.full((2,), 9.0))

    @pytest.mark.parametrize("size", [0, 1, 9])
    def test_a_size_that_is_no_symbol_is_an_error(self, size: int) -> None:
        with pytest.raises(DynamicError, match=r"L\['x'\].size\(\)\[0\] was marked dynamic"):
            framelift.export(sin, torch.ones(size), dynamic_shapes={"x": {0: torch.export.Dim("rows", max=8)}})

    def test_a_name_that_is_no_argument_is_refused(self) -> None:
        with pytest.raises(TypeError, match="the arguments are x"):
            framelift.export(sin, torch.ones(3), dynamic_shapes={"y": {0: True}})

    def test_an_entry_too_many_is_refused(self) -> None:
        with pytest.raises(TypeError, match="an entry for each of x"):
            framelift.export(sin, torch.ones(3), dynamic_shapes=({0: True}, None))

    def test_arguments_of_forward(self) -> None:
        module, _ = framelift.export(torch.nn.Linear(3, 2), torch.ones(4, 3), dynamic_shapes={"input": {0: True}})
        assert module(torch.ones(7, 3)).shape == (7, 2)

    def test_a_named_size_that_is_needed_is_an_error(self) -> None:
        with pytest.raises(DynamicError, match="test_dynamic_argument.py"):
            framelift.export(once_per_row, torch.ones(4), dynamic_shapes={"x": {0: torch.export.Dim("rows")}})

    def test_hints_of_torch(self) -> None:
        dim = torch.export.Dim
        module, _ = framelift.export(sin, torch.ones(4, 3), dynamic_shapes={"x": {0: dim.AUTO, 1: dim.STATIC}})
        (x,) = [node.meta["example_value"] for node in module.graph.nodes if node.op == "placeholder"]
        assert [type(size) is int for size in x.shape] == [False, True]

    @pytest.mark.parametrize("wrong", [{"x": 3}, {1: True}, {"x": {0: "a"}}, 5])
    def test_nonsense_is_refused(self, wrong: Any) -> None:
        with pytest.raises(TypeError, match="dynamic"):
            framelift.export(sin, torch.ones(3), dynamic_shapes=wrong)
