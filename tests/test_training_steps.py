"""Whole training steps as one lifted function: after five of them all is as in eager mode, and nothing is captured anew
once gradients and the optimizer's state are there."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch
import torch.nn.functional as F
from torch import nn

import framelift
from tests.training_models import TASKS, Task

STEPS = 5
BACKENDS = ["eager", "aot_eager"]


class Recurrent(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.cells = nn.LSTM(4, 8, num_layers=2, batch_first=True, dropout=0.2)
        self.head = nn.Linear(8, 4)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.head(self.cells(x)[0][:, -1])


class Dropped(nn.Module):
    """Batch norm and dropout of two kinds."""

    def __init__(self) -> None:
        super().__init__()
        self.layers = nn.Sequential(nn.Conv2d(3, 4, 3), nn.BatchNorm2d(4), nn.ReLU(inplace=True), nn.Dropout2d(0.3))
        self.head = nn.Sequential(nn.Flatten(), nn.Dropout(0.2), nn.Linear(64, 4))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.head(self.layers(x))


MODELS = {
    **TASKS,
    "recurrent": Task(Recurrent, lambda: torch.randn(3, 5, 4), lambda: torch.randint(4, (3,))),
    "dropped": Task(Dropped, lambda: torch.randn(4, 3, 6, 6), lambda: torch.randint(4, (4,))),
}
OPTIMIZERS: dict[str, Callable[[Any], Any]] = {
    "sgd": lambda parameters: torch.optim.SGD(parameters, lr=0.1),
    "momentum": lambda parameters: torch.optim.SGD(parameters, lr=0.05, momentum=0.9, weight_decay=0.01),
}


def step(model: nn.Module, optimizer: Any, x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
    optimizer.zero_grad()
    loss = F.cross_entropy(model(x), y)
    loss.backward()
    nn.utils.clip_grad_norm_(model.parameters(), 1.0)
    optimizer.step()
    return loss


def step_by_hand(model: nn.Module, optimizer: Any, x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
    """Two halves of a batch, whose gradients add up in what was there before."""
    del optimizer
    model.zero_grad(set_to_none=False)
    total = 0.0
    for half, targets in zip(x.chunk(2), y.chunk(2), strict=True):
        loss = F.cross_entropy(model(half), targets) / 2
        loss.backward()
        total = total + loss.detach()
    with torch.no_grad():
        for parameter in model.parameters():
            parameter -= 0.1 * parameter.grad
    return total


def train(task: Task, optimizer: Callable[[Any], Any], run: Callable[..., Any]) -> Any:
    """What five steps leave behind, and how many captures each took."""
    torch.manual_seed(0)
    model = task.build().train()
    made = optimizer(model.parameters())
    losses, captures = [], []
    for number in range(STEPS):
        torch.manual_seed(100 + number)
        x, y = task.inputs(), task.targets()
        before = framelift.counters().captures
        losses.append(run(model, made, x, y).detach().clone())
        captures.append(framelift.counters().captures - before)
    gradients = [parameter.grad for parameter in model.parameters()]
    return [losses, [*model.state_dict().values()], gradients, torch.get_rng_state()], captures


def compare(task: Task, optimizer: Callable[[Any], Any], run: Callable[..., Any], backend: str) -> None:
    expected, _ = train(task, optimizer, run)
    options = {"fallback_random": True} if backend == "inductor" else None
    lifted = framelift.compile(run, backend=backend, fullgraph=True, options=options)
    found, captures = train(task, optimizer, lifted)
    close = {"rtol": 1e-4, "atol": 1e-5} if backend == "inductor" else {"rtol": 0, "atol": 0}
    torch.testing.assert_close(found, expected, check_stride=True, **close)
    assert captures[0] == 1 and captures[1] <= 1 and not any(captures[2:])


@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize("optimizer", OPTIMIZERS)
@pytest.mark.parametrize("model", MODELS)
def test_with_an_optimizer(model: str, optimizer: str, backend: str) -> None:
    compare(MODELS[model], OPTIMIZERS[optimizer], step, backend)


@pytest.mark.slow
@pytest.mark.parametrize(("model", "optimizer"), [("dropped", "sgd"), ("transformer", "momentum")])
def test_with_inductor(model: str, optimizer: str) -> None:
    compare(MODELS[model], OPTIMIZERS[optimizer], step, "inductor")


@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize("model", ["perceptron", "residual", "recurrent"])
def test_by_hand_with_accumulation(model: str, backend: str) -> None:
    task = MODELS[model]
    even = Task(task.build, lambda: task.inputs()[:2], lambda: task.targets()[:2])
    compare(even, OPTIMIZERS["sgd"], step_by_hand, backend)


def test_what_invalidates_a_step() -> None:
    """A frozen parameter, another learning rate, a mode of the model: each is a capture of its own, and as in eager."""
    task, sgd = MODELS["dropped"], OPTIMIZERS["sgd"]

    def changes(model: nn.Module, optimizer: Any, number: int) -> None:
        if number == 2:
            model.layers[0].weight.requires_grad_(False)
        elif number == 3:
            optimizer.param_groups[0]["lr"] = 0.5
        elif number == 4:
            model.eval()

    def run_with(step: Callable[..., Any]) -> Callable[..., Any]:
        numbers = iter(range(STEPS))

        def run(model: nn.Module, optimizer: Any, *given: Any) -> Any:
            changes(model, optimizer, next(numbers))
            return step(model, optimizer, *given)

        return run

    expected, _ = train(task, sgd, run_with(step))
    found, captures = train(task, sgd, run_with(framelift.compile(step, backend="eager", fullgraph=True)))
    torch.testing.assert_close(found, expected, rtol=0, atol=0)
    assert captures == [1, 1, 1, 1, 1]


@pytest.mark.parametrize("backend", [*BACKENDS, "inductor"])
def test_numbers_written_beside_a_backward(backend: str) -> None:
    """They are constants of the graph that a compiler is given."""

    def f(x: torch.Tensor, scale: torch.Tensor, number: int) -> tuple[Any, torch.Tensor]:
        leaf = x.detach().clone().requires_grad_()
        (leaf * scale).sum().backward()
        table = torch.zeros(4)
        table[0] = number % 5
        table.view(-1)[1] = 3.0
        return leaf.grad, table

    lifted = framelift.compile(f, backend=backend, fullgraph=True)
    x, scale = torch.ones(3), torch.randn(3, requires_grad=True)
    for number in (2, 3, 4):
        for one, two in zip(f(x, scale, number), lifted(x, scale, number), strict=True):
            assert torch.equal(one, two)


@pytest.mark.parametrize("backend", BACKENDS)
def test_seeds_and_numbers_drawn_for_nobody(backend: str) -> None:
    """Beside a backward they are part of the graph as well, in their order."""

    def f(x: torch.Tensor, scale: torch.Tensor) -> Any:
        torch.manual_seed(7)
        noise = torch.randn(3)
        torch.rand(2)
        leaf = (x + noise).detach().clone().requires_grad_()
        (F.dropout(leaf) * scale).sum().backward()
        F.dropout(leaf)
        return leaf.grad, noise

    lifted = framelift.compile(f, backend=backend, fullgraph=True)
    x, scale = torch.ones(3), torch.randn(3)
    for seed in (1, 2, 3):
        torch.manual_seed(seed)
        expected, state = f(x, scale), torch.get_rng_state()
        torch.manual_seed(seed)
        for one, two in zip(expected, lifted(x, scale), strict=True):
            assert torch.equal(one, two)
        assert torch.equal(state, torch.get_rng_state())
