"""patch_torch: programs that say torch.compile or module.compile() get framelift, until it is taken back."""

from __future__ import annotations

import copy
import pickle
from typing import Any

import pytest
import torch
from torch import nn

import framelift
import framelift.errors
from framelift.modules import LiftedModule
from framelift.native import _core
from tests.native.entry_helpers import run_python
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


# -- the rest of torch.compiler --------------------------------------------------------------------------------------

PATCHED = (
    "set_stance reset disable list_backends allow_in_graph assume_constant_result nested_compile_region compile".split()
)
UNCHANGED = ("is_compiling", "is_dynamo_compiling", "is_exporting", "cudagraph_mark_step_begin")


def raises_if_run(x: torch.Tensor) -> torch.Tensor:
    if not framelift.is_compiling():
        raise AssertionError("run in Python")
    return x * 2


class TestCompiler:
    def test_is_undone(self) -> None:
        before = {name: getattr(torch.compiler, name) for name in [*PATCHED, *UNCHANGED]}
        with framelift.patch_torch():
            for name in PATCHED[:-1]:
                assert getattr(torch.compiler, name) is not before[name]
                assert getattr(torch.compiler, name).__name__ == name
        assert {name: getattr(torch.compiler, name) for name in before} == before

    def test_does_not_load_dynamo(self) -> None:
        program = """
            import sys, torch, framelift
            with framelift.patch_torch():
                torch.compiler.reset()
                torch.compiler.disable(lambda: 1)
                torch.compiler.list_backends()
                with torch.compiler.set_stance("force_eager"):
                    pass
                torch.compiler.allow_in_graph(len)
                torch.compiler.assume_constant_result(len)
                torch.compiler.nested_compile_region(len)
                assert not torch.compiler.is_compiling()
            print("torch._dynamo" in sys.modules)
        """
        done = run_python(program)
        assert done.stdout == "False\n", done.stderr

    def test_stance_for_a_block(self) -> None:
        with framelift.patch_torch():
            lifted = torch.compile(double, backend="eager")
            with torch.compiler.set_stance("force_eager"):
                lifted(torch.ones(2))
                assert framelift.counters().captures == 0
            lifted(torch.ones(2))
            assert framelift.counters().captures == 1
            with torch.compiler.set_stance("fail_on_recompile"), pytest.raises(framelift.errors.RecompileError):
                lifted(torch.ones(2, 2))

    def test_stance_of_the_process(self) -> None:
        with framelift.patch_torch():
            lifted = torch.compile(double, backend="eager")
            torch.compiler.set_stance("force_eager")
            try:
                lifted(torch.ones(2))
            finally:
                torch.compiler.set_stance("default")
            assert framelift.counters().captures == 0
            lifted(torch.ones(2))
            assert framelift.counters().captures == 1

    def test_stance_of_a_function(self) -> None:
        with framelift.patch_torch():
            lifted = torch.compile(double, backend="eager")

            @torch.compiler.set_stance("force_eager")
            def eager(x: torch.Tensor) -> torch.Tensor:
                return lifted(x)

            eager(torch.ones(2))
            assert framelift.counters().captures == 0
            lifted(torch.ones(2))
            assert framelift.counters().captures == 1

    def test_stances_of_torch_alone(self) -> None:
        with framelift.patch_torch():
            lifted = torch.compile(double, backend="eager")
            with torch.compiler.set_stance("aot_eager_then_compile", skip_guard_eval_unsafe=False):
                lifted(torch.ones(2))
                assert framelift.counters().captures == 0
            graphs: list[Any] = []

            def recording(graph_module: Any, inputs: Any) -> Any:
                graphs.append(graph_module)
                return graph_module.forward

            with torch.compiler.set_stance(force_backend=recording):
                lifted(torch.ones(2))
            assert len(graphs) == 1
            with pytest.raises(ValueError, match="unknown stance 'force_eagr': did you mean 'force_eager'"):
                torch.compiler.set_stance("force_eagr")

    def test_reset(self) -> None:
        with framelift.patch_torch():
            lifted = torch.compile(double, backend="eager")
            lifted(torch.ones(2))
            torch.compiler.reset()
            assert framelift.counters().captures == 0 and lifted.table.entries == []

    def test_disable(self) -> None:
        with framelift.patch_torch():

            @torch.compiler.disable
            def plain(x: torch.Tensor) -> bool:
                return torch.compiler.is_compiling()

            @torch.compiler.disable(recursive=False, reason="because")
            def itself(x: torch.Tensor) -> torch.Tensor:
                return x

            lifted = torch.compile(lambda x: (plain(x + 1), itself(x)), backend="eager")
            assert lifted(torch.ones(2))[0] is False
            assert torch.compile(torch.compiler.disable(Perceptron()), backend="eager") is not None
        assert sum(framelift.counters().breaks.values()) == 2

    def test_is_compiling(self) -> None:
        with framelift.patch_torch():
            assert not torch.compiler.is_compiling()
            assert torch.compile(lambda x: (x + 1, torch.compiler.is_compiling()), backend="eager")(torch.ones(2))[1]
            exported = torch.export.export(Compiling(), (torch.ones(2),), strict=False)
        assert torch.equal(exported.module()(torch.ones(2)), torch.full((2,), 3.0))

    def test_marked_steps(self) -> None:
        from torch._inductor.cudagraph_trees import CUDAGraphTreeManager, MarkStepBox

        before = MarkStepBox.mark_step_counter
        try:
            with framelift.patch_torch():
                lifted = torch.compile(double, backend="eager")
                torch.compiler.cudagraph_mark_step_begin()
                lifted(torch.ones(2))
                assert CUDAGraphTreeManager.get_curr_generation() == before - 1
        finally:
            MarkStepBox.mark_step_counter = before

    def test_backends(self) -> None:
        with framelift.patch_torch():
            assert torch.compiler.list_backends() == framelift.list_backends()
            assert torch.compiler.list_backends(exclude_tags=()) == framelift.list_backends(())

    def test_the_default_backend(self) -> None:
        graphs: list[Any] = []

        def recording(graph_module: Any, inputs: Any) -> Any:
            graphs.append(graph_module)
            return graph_module.forward

        with framelift.patch_torch():
            torch.compiler.set_default_backend(recording)
            try:
                torch.compile(double)(torch.ones(2))
                Perceptron().compile()
            finally:
                torch.compiler.set_default_backend(None)
        assert len(graphs) == 1

    def test_promises(self) -> None:
        calls: list[int] = []
        with framelift.patch_torch():

            @torch.compiler.assume_constant_result
            def constant(number: int) -> int:
                calls.append(number)
                return number

            @torch.compiler.allow_in_graph
            def operation(x: torch.Tensor) -> torch.Tensor:
                framelift.graph_break()
                return x + 1

            lifted = torch.compile(lambda x: operation(x) * constant(3), backend="eager", fullgraph=True)
            for _ in range(2):
                assert torch.equal(lifted(torch.ones(2)), torch.full((2,), 6.0))
        assert calls == [3]

    def test_regions(self) -> None:
        with framelift.patch_torch():

            @torch.compiler.nested_compile_region
            def one(x: torch.Tensor) -> torch.Tensor:
                return x + 1

            @torch.compiler.nested_compile_region(max_reuse_entries=3)
            def two(x: torch.Tensor) -> torch.Tensor:
                return x * 2

            lifted = torch.compile(lambda x: one(two(x)) + one(x), backend="eager", fullgraph=True)
            assert torch.equal(lifted(torch.ones(2)), torch.full((2,), 5.0))
            with pytest.raises(TypeError, match=r"options=3\) has no counterpart"):
                torch.compiler.nested_compile_region(double, options=3)


class Compiling(nn.Module):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return x * 3 if torch.compiler.is_compiling() else x * 2
