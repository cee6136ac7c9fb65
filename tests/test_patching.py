"""patch_torch: programs that say torch.compile or module.compile() get framelift, until it is taken back."""

from __future__ import annotations

import copy
import pickle
from typing import Any

import pytest
import torch
from torch import nn

import framelift
from framelift.modules import LiftedModule
from framelift.native import _core
from tests.training_models import TASKS, Perceptron

ORIGINALS = (torch.compile, nn.Module.compile, torch.compiler.compile)


@pytest.fixture(autouse=True)
def torchs_own() -> Any:
    yield
    assert (torch.compile, nn.Module.compile, torch.compiler.compile) == ORIGINALS


def double(x: torch.Tensor) -> torch.Tensor:
    return x * 2


class TestPatching:
    def test_for_a_block(self) -> None:
        with framelift.patch_torch():
            assert isinstance(torch.compile(double, backend="eager"), _core.Lifted)
            assert isinstance(torch.compiler.compile(double, backend="eager"), _core.Lifted)
        assert torch.compile is ORIGINALS[0]

    def test_by_a_call(self) -> None:
        patched = framelift.patch_torch()
        assert torch.compile is not ORIGINALS[0]
        patched.undo()
        patched.undo()
        assert torch.compile is ORIGINALS[0]

    def test_several_at_once_in_any_order(self) -> None:
        first, second = framelift.patch_torch(), framelift.patch_torch()
        first.undo()
        assert torch.compile is not ORIGINALS[0]
        second.undo()

    def test_undone_when_the_block_raises(self) -> None:
        with pytest.raises(KeyError), framelift.patch_torch():
            raise KeyError

    def test_what_was_lifted_stays_lifted(self) -> None:
        with framelift.patch_torch():
            lifted = torch.compile(double, backend="eager")
        assert torch.equal(lifted(torch.ones(2)), torch.full((2,), 2.0))
        assert framelift.counters().captured == 1


class TestArguments:
    def test_as_a_decorator(self) -> None:
        with framelift.patch_torch():

            @torch.compile(backend="eager", fullgraph=True)
            def f(x: torch.Tensor) -> torch.Tensor:
                return x + 1

            assert f(torch.ones(1)).tolist() == [2.0]
        assert framelift.counters().captured == 1

    def test_the_default_backend(self) -> None:
        with framelift.patch_torch():
            assert isinstance(torch.compile(double), _core.Lifted)
            assert isinstance(torch.compile(double, backend=None), _core.Lifted)

    def test_disabled(self) -> None:
        with framelift.patch_torch():
            assert torch.compile(double, disable=True) is double
            model = Perceptron()
            model.compile(disable=True)
            assert model._compiled_call_impl is None

    def test_what_means_nothing_here(self) -> None:
        with framelift.patch_torch():
            lifted = torch.compile(double, backend="eager", name="f", recompile_limit=3, isolate_recompiles=True)
            torch.compile(double, backend="eager", shapes_spec=None)
        assert isinstance(lifted, _core.Lifted)

    def test_what_has_no_counterpart(self) -> None:
        with framelift.patch_torch(), pytest.raises(TypeError, match=r"shapes_spec=3\) has no counterpart"):
            torch.compile(double, shapes_spec=3)

    def test_slips(self) -> None:
        with framelift.patch_torch():
            with pytest.raises(TypeError, match="unknown argument of torch.compile 'bakend': did you mean 'backend'"):
                torch.compile(double, bakend="eager")  # type: ignore[call-overload]
            with pytest.raises(TypeError, match="unknown argument of torch.compile 'mod'"):
                Perceptron().compile(mod="default")
            with pytest.raises(ValueError, match="unknown backend 'eagre'"):
                Perceptron().compile(backend="eagre")
            with pytest.raises(TypeError, match="a function, a method, an nn.Module"):
                torch.compile(3)  # type: ignore[call-overload]


class TestModules:
    def test_compiled_from_outside(self) -> None:
        with framelift.patch_torch():
            lifted = torch.compile(Perceptron(), backend="eager")
        assert isinstance(lifted, LiftedModule) and isinstance(lifted, Perceptron)

    def test_compiled_in_place(self) -> None:
        model = Perceptron()
        x = torch.randn(6, 8)
        expected = model(x)
        with framelift.patch_torch():
            assert model.compile(backend="eager", fullgraph=True) is None
        for _ in range(2):
            torch.testing.assert_close(model(x), expected, rtol=0, atol=0)
        counts = framelift.counters()
        assert counts.captured == 1 and not counts.breaks
        assert type(model) is Perceptron and list(model.state_dict()) == list(Perceptron().state_dict())

    def test_hooks_of_a_module_compiled_in_place(self) -> None:
        model = Perceptron()
        with framelift.patch_torch():
            model.compile(backend="eager")
        x = torch.randn(6, 8)
        before = model(x)
        handle = model.register_forward_hook(lambda module, args, result: result * 3)
        torch.testing.assert_close(model(x), before * 3)
        handle.remove()
        torch.testing.assert_close(model(x), before)

    def test_a_part_compiled_in_place(self) -> None:
        """Called by its owner in Python, and inside the owner's own graph."""
        model = Perceptron()
        x = torch.randn(6, 8)
        expected = model(x)
        with framelift.patch_torch():
            model.layers.compile(backend="eager")
        torch.testing.assert_close(model(x), expected, rtol=0, atol=0)
        assert framelift.counters().captured == 1
        lifted = framelift.compile(model, backend="eager", fullgraph=True)
        torch.testing.assert_close(lifted(x), expected, rtol=0, atol=0)
        assert framelift.counters().captured == 2

    def test_each_of_many_layers(self) -> None:
        """As libraries do to compile a model region by region: layers of one class share their entry."""
        layers = nn.ModuleList([nn.Linear(4, 4) for _ in range(4)])
        x = torch.randn(2, 4)
        expected = x
        for layer in layers:
            expected = layer(expected)
        with framelift.patch_torch():
            for layer in layers:
                layer.compile(backend="eager", fullgraph=True)
        for layer in layers:
            x = layer(x)
        torch.testing.assert_close(x, expected, rtol=0, atol=0)

    def test_compiled_again_with_other_options(self) -> None:
        model = Perceptron()
        with framelift.patch_torch():
            model.compile(backend="eager")
            model.compile(backend="aot_eager")
        model(torch.randn(6, 8))
        assert framelift.counters().captured == 1

    def test_copies_and_pickles(self) -> None:
        model = Perceptron()
        with framelift.patch_torch():
            model.compile(backend="eager")
        x = torch.randn(6, 8)
        expected = model(x)
        loaded = pickle.loads(pickle.dumps(model))
        assert loaded._compiled_call_impl is None
        torch.testing.assert_close(loaded(x), expected)
        copied = copy.deepcopy(model)
        with torch.no_grad():
            copied.layers[0].weight.zero_()
        assert not torch.equal(copied(x), expected)
        torch.testing.assert_close(model(x), expected)


# -- as a library would use it ---------------------------------------------------------------------------------------


class Trainer:
    """A loop in the style of the trainers people use: it compiles what it is given and calls hooks of the module."""

    def __init__(self, in_place: bool) -> None:
        self.in_place = in_place
        self.losses: list[float] = []

    def fit(self, module: nn.Module, batches: list[tuple[torch.Tensor, torch.Tensor]]) -> None:
        model: Any = module
        if self.in_place:
            module.compile(backend="aot_eager")
        else:
            model = torch.compile(module, backend="aot_eager", dynamic=False)
        optimizer = model.configure_optimizers()
        model.train()
        for index, batch in enumerate(batches):
            optimizer.zero_grad()
            loss = model.training_step(model, batch, index)
            loss.backward()
            optimizer.step()
            self.losses.append(loss.item())


class Task(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.net = Perceptron()

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.net(x)

    def training_step(self, model: Any, batch: tuple[torch.Tensor, torch.Tensor], index: int) -> torch.Tensor:
        x, y = batch
        return nn.functional.cross_entropy(model(x), y)

    def configure_optimizers(self) -> torch.optim.Optimizer:
        return torch.optim.AdamW(self.parameters(), lr=1e-2)


@pytest.mark.parametrize("in_place", [False, True])
def test_a_trainer(in_place: bool) -> None:
    task = TASKS["perceptron"]
    batches = [(task.inputs(), task.targets()) for _ in range(3)]
    module, twin = Task(), Task()
    twin.load_state_dict(module.state_dict())
    with framelift.patch_torch():
        trainer = Trainer(in_place)
        trainer.fit(module, batches)
    optimizer = twin.configure_optimizers()
    for index, batch in enumerate(batches):
        optimizer.zero_grad()
        loss = twin.training_step(twin, batch, index)
        loss.backward()
        optimizer.step()
        assert loss.item() == pytest.approx(trainer.losses[index], abs=1e-5)
    torch.testing.assert_close(module.state_dict(), twin.state_dict(), rtol=1e-4, atol=1e-4)
    assert framelift.counters().captures == 1
