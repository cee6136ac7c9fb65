"""Training steps of lifted models: after three steps of AdamW, parameters, statistics and losses are eager's."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch
import torch.nn.functional as F
from torch import nn

import framelift
from tests.training_models import TASKS, Task

BACKENDS = ["eager", "aot_eager", pytest.param("inductor", marks=pytest.mark.slow)]
STEPS = 3
# Three steps multiply what kernels round differently; the step size of AdamW does not depend on the gradient's size,
# so a gradient near zero may move a parameter by another sign of the learning rate. Hence a small one.
CLOSE = {"rtol": 1e-4, "atol": 1e-4}

Lift = Callable[[Any], Any]


def train(task: Task, lift_model: Lift, lift_step: Lift) -> tuple[list[float], dict[str, torch.Tensor]]:
    """The losses of three steps and the state afterwards."""
    torch.manual_seed(0)
    model = task.build().train()
    lifted = lift_model(model)
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3, eps=1e-4)

    def loss_of(model: nn.Module, x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
        return F.cross_entropy(model(x), y)

    loss_of = lift_step(loss_of)
    losses = []
    for step in range(STEPS):
        torch.manual_seed(100 + step)
        x, y = task.inputs(), task.targets()
        optimizer.zero_grad(set_to_none=step % 2 == 0)
        loss = loss_of(lifted, x, y)
        loss.backward()
        optimizer.step()
        losses.append(loss.item())
    return losses, {name: tensor.detach().clone() for name, tensor in model.state_dict().items()}


def as_it_is(target: Any) -> Any:
    return target


def compiled(backend: str, fullgraph: bool = True) -> Lift:
    return framelift.compile(backend=backend, fullgraph=fullgraph)


def compare(task: Task, lift_model: Lift, lift_step: Lift) -> None:
    losses, state = train(task, as_it_is, as_it_is)
    before = framelift.counters()
    lifted_losses, lifted_state = train(task, lift_model, lift_step)
    after = framelift.counters()
    torch.testing.assert_close(lifted_losses, losses, **CLOSE)
    torch.testing.assert_close(lifted_state, state, **CLOSE)
    assert after.captures - before.captures == 1, "what was captured in the first step serves all others"
    assert after.graphs - before.graphs == 1


@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize("task", TASKS)
def test_a_lifted_model(task: str, backend: str) -> None:
    compare(TASKS[task], compiled(backend), as_it_is)


@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize("task", TASKS)
def test_forward_and_loss_in_one_graph(task: str, backend: str) -> None:
    compare(TASKS[task], as_it_is, compiled(backend))


@pytest.mark.parametrize("backend", BACKENDS)
def test_a_loss_that_raises_after_statistics_were_written(backend: str) -> None:
    """A class out of range: the graph is undone, and Python writes the statistics once and raises."""
    task = TASKS["residual"]
    x, targets = task.inputs(), task.targets()
    wrong = targets.clone()
    wrong[-1] = 99
    states = []
    for lift in (as_it_is, compiled(backend)):
        torch.manual_seed(0)
        model = task.build().train()
        loss_of = lift(lambda x, y, model=model: F.cross_entropy(model(x), y))
        for y in (targets, wrong, targets):
            if y is wrong:
                with pytest.raises(IndexError, match="Target 99 is out of bounds"):
                    loss_of(x, y)
            else:
                loss_of(x, y).backward()
        states.append({name: tensor.detach().clone() for name, tensor in model.state_dict().items()})
    torch.testing.assert_close(states[1], states[0], **CLOSE)


@pytest.mark.parametrize("backend", ["eager", "aot_eager"])
@pytest.mark.parametrize("task", TASKS)
def test_steps_in_a_block(task: str, backend: str) -> None:
    """Frames are lifted as they are called, backward and the optimizer included."""
    losses, state = train(TASKS[task], as_it_is, as_it_is)
    with framelift.optimize(backend):
        lifted_losses, lifted_state = train(TASKS[task], as_it_is, as_it_is)
    torch.testing.assert_close(lifted_losses, losses, **CLOSE)
    torch.testing.assert_close(lifted_state, state, **CLOSE)


@pytest.mark.parametrize("backend", BACKENDS)
def test_compiled_graphs_are_not_lifted_themselves(backend: str) -> None:
    def squares(x: torch.Tensor) -> torch.Tensor:
        return (x * x).sum()

    x = torch.ones(3, requires_grad=True)
    with framelift.optimize(backend):
        for _ in range(2):
            squares(x).backward()
    assert framelift.counters().captures == 1


@pytest.mark.parametrize("backend", ["eager", "aot_eager"])
def test_evaluation_between_steps(backend: str) -> None:
    """Each mode has its entry; coming back captures nothing."""
    torch.manual_seed(0)
    model, twin = TASKS["residual"].build(), TASKS["residual"].build()
    twin.load_state_dict(model.state_dict())
    lifted = framelift.compile(model, backend=backend)
    for _ in range(3):
        x = TASKS["residual"].inputs()
        for one in (lifted, twin):
            one.train()
        lifted(x).sum().backward()
        twin(x).sum().backward()
        for one in (lifted, twin):
            one.eval()
        with torch.no_grad():
            torch.testing.assert_close(lifted(x), twin(x), **CLOSE)
    torch.testing.assert_close(model.state_dict(), twin.state_dict(), **CLOSE)
    assert framelift.counters().captures == 2


@pytest.mark.parametrize("backend", ["eager", "aot_eager"])
def test_accumulated_gradients_and_frozen_parameters(backend: str) -> None:
    torch.manual_seed(0)
    model, twin = TASKS["transformer"].build(), TASKS["transformer"].build()
    twin.load_state_dict(model.state_dict())
    for one in (model, twin):
        one.qkv.requires_grad_(False)
    lifted = framelift.compile(model, backend=backend)
    for _ in range(2):
        tokens = TASKS["transformer"].inputs()
        lifted(tokens).logsumexp(-1).sum().backward()
        twin(tokens).logsumexp(-1).sum().backward()
    for (name, parameter), other in zip(model.named_parameters(), twin.parameters(), strict=True):
        assert (parameter.grad is None) == (other.grad is None), name
        if parameter.grad is not None:
            torch.testing.assert_close(parameter.grad, other.grad, **CLOSE)
    assert framelift.counters().captures == 1
