"""Operators of tensors that a program has replaced: what was captured before does not stand for them."""

import pytest
import torch

import framelift
from framelift.errors import FullGraphError
from tests.helpers.record import Record

BACKENDS = ("eager", "aot_eager")


def hundred_more(operator):
    """An operator that gives a hundred more than torch's."""
    original = getattr(torch.Tensor, operator)
    return lambda *operands: original(*operands) + 100


def twice(x):
    return x * 2 + 1


@pytest.mark.parametrize("backend", BACKENDS)
class TestReplaced:
    def test_after_the_capture(self, backend, monkeypatch):
        lifted, x = framelift.compile(twice, backend=backend), torch.ones(2)
        torch.testing.assert_close(lifted(x), twice(x))
        with monkeypatch.context() as patch:
            patch.setattr(torch.Tensor, "__mul__", hundred_more("__mul__"))
            assert twice(x)[0] == 103
            for _ in range(2):
                torch.testing.assert_close(lifted(x), twice(x))
        with Record().listening() as record:
            torch.testing.assert_close(lifted(x), twice(x))
        assert not record.captures, "what was captured before is good again"

    def test_before_the_capture(self, backend, monkeypatch):
        x = torch.ones(2)
        with monkeypatch.context() as patch:
            patch.setattr(torch.Tensor, "__mul__", hundred_more("__mul__"))
            lifted = framelift.compile(twice, backend=backend)
            with Record().listening() as record:
                torch.testing.assert_close(lifted(x), twice(x))
            assert {event.id for event in record.breaks} == {"FL0305"}
            assert not record.failures
        with Record().listening() as record:
            torch.testing.assert_close(lifted(x), twice(x))
        assert record.ops == 2

    def test_put_back_where_it_was_not(self, backend):
        x, original = torch.ones(2), torch.Tensor.__mul__
        lifted = framelift.compile(twice, backend=backend)
        try:
            torch.Tensor.__mul__ = hundred_more("__mul__")
            torch.testing.assert_close(lifted(x), twice(x))
            torch.Tensor.__mul__ = original
            with Record().listening() as record:
                torch.testing.assert_close(lifted(x), twice(x))
            assert record.ops == 2 and not record.breaks
        finally:
            del torch.Tensor.__mul__

    def test_by_something_of_torchs(self, backend, monkeypatch):
        lifted, x = framelift.compile(twice, backend=backend), torch.full((2,), 5.0)
        lifted(x)
        monkeypatch.setattr(torch.Tensor, "__mul__", torch.Tensor.__add__)
        torch.testing.assert_close(lifted(x), twice(x))

    def test_those_of_parameters(self, backend, monkeypatch):
        lifted, x = framelift.compile(twice, backend=backend), torch.nn.Parameter(torch.ones(2))
        lifted(x)
        monkeypatch.setattr(torch.nn.Parameter, "__mul__", hundred_more("__mul__"), raising=False)
        torch.testing.assert_close(lifted(x), twice(x))

    @pytest.mark.parametrize("operator", ["__getitem__", "__neg__", "__rsub__", "__matmul__"])
    def test_others(self, backend, operator, monkeypatch):
        def fn(x):
            return -x[0] + (1 - x) @ x

        lifted, x = framelift.compile(fn, backend=backend), torch.ones(2, 2)
        lifted(x)
        monkeypatch.setattr(torch.Tensor, operator, hundred_more(operator))
        torch.testing.assert_close(lifted(x), fn(x))

    def test_in_the_program(self, backend):
        other, original = hundred_more("__mul__"), torch.Tensor.__mul__

        def fn(x):
            y = x * 2
            torch.Tensor.__mul__ = other
            y = y * 2
            torch.Tensor.__mul__ = original
            return y * 2

        try:
            x = torch.ones(2)
            lifted = framelift.compile(fn, backend=backend)
            for _ in range(2):
                torch.testing.assert_close(lifted(x), fn(x))
        finally:
            del torch.Tensor.__mul__


class TestLeftAlone:
    def test_an_attribute_of_another_name_changes_nothing(self, monkeypatch):
        lifted, x = framelift.compile(twice, backend="eager"), torch.ones(2)
        lifted(x)
        monkeypatch.setattr(torch.Tensor, "of_the_program", 1, raising=False)
        with Record().listening() as record:
            lifted(x)
        assert not record.captures

    def test_how_tensors_are_shown_changes_nothing(self, monkeypatch):
        lifted, x = framelift.compile(twice, backend="eager"), torch.ones(2)
        lifted(x)
        monkeypatch.setattr(torch.Tensor, "__repr__", lambda self: "a tensor")
        with Record().listening() as record:
            lifted(x)
        assert not record.captures

    def test_it_says_so(self, monkeypatch):
        monkeypatch.setattr(torch.Tensor, "__mul__", hundred_more("__mul__"))
        with pytest.raises(FullGraphError, match=r"FL0305.*Tensor\.__mul__"):
            framelift.compile(twice, backend="eager", fullgraph=True)(torch.ones(2))
