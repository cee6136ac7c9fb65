"""Schedulers of learning rates and scalers of losses inside of lifted steps: equal to eager, and nothing captured anew
because a rate or a scale is another one each step."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch
import torch.nn.functional as F
from torch import nn
from torch.optim import lr_scheduler

import framelift
from framelift.report import stream
from framelift.report.events import GraphBroke

STEPS = 9
BACKENDS = pytest.mark.parametrize("backend", ["eager", "aot_eager"])

# Of each scheduler how it is made, and how many captures nine steps take: one without gradients and state, one with
# them, and one for each turn that it takes.
SCHEDULERS: dict[str, tuple[Callable[[Any], Any], int]] = {
    "lambda": (lambda given: lr_scheduler.LambdaLR(given, lambda epoch: 0.95**epoch), 2),
    "multiplied": (lambda given: lr_scheduler.MultiplicativeLR(given, lambda epoch: 0.95), 2),
    "steps": (lambda given: lr_scheduler.StepLR(given, 3), 5),
    "milestones": (lambda given: lr_scheduler.MultiStepLR(given, [4, 7]), 5),
    "constant": (lambda given: lr_scheduler.ConstantLR(given, 0.5, 3), 4),
    "linear": (lambda given: lr_scheduler.LinearLR(given, 0.1, total_iters=4), 3),
    "exponential": (lambda given: lr_scheduler.ExponentialLR(given, 0.9), 2),
    "polynomial": (lambda given: lr_scheduler.PolynomialLR(given, 5), 3),
    "cosine": (lambda given: lr_scheduler.CosineAnnealingLR(given, 20), 2),
    "restarts": (lambda given: lr_scheduler.CosineAnnealingWarmRestarts(given, 4), 3),
    "cyclic": (lambda given: lr_scheduler.CyclicLR(given, 0.01, 0.1, 5, cycle_momentum=False), 3),
    "one cycle": (lambda given: lr_scheduler.OneCycleLR(given, 0.1, total_steps=20), 4),
    "chained": (
        lambda given: lr_scheduler.ChainedScheduler(
            [lr_scheduler.ConstantLR(given, 0.1, 3), lr_scheduler.ExponentialLR(given, 0.9)]
        ),
        4,
    ),
    "one after the other": (
        lambda given: lr_scheduler.SequentialLR(
            given, [lr_scheduler.LinearLR(given, 0.1, total_iters=3), lr_scheduler.ExponentialLR(given, 0.9)], [3]
        ),
        5,
    ),
}


class Training:
    """A small model with what trains it. Equal numbers give equal ones."""

    def __init__(self, make: Callable[[Any], Any], scale: float | None = None, **settings: Any) -> None:
        torch.manual_seed(0)
        self.model = nn.Sequential(nn.Linear(4, 3), nn.Tanh(), nn.Linear(3, 2))
        self.optimizer = torch.optim.AdamW(self.model.parameters(), **{"lr": 0.01, **settings})
        self.scheduler = make(self.optimizer)
        self.scaler = torch.amp.GradScaler("cpu", init_scale=scale or 1.0, growth_interval=2, enabled=scale is not None)

    def left(self) -> list[Any]:
        states = [each.state_dict() for each in (self.model, self.optimizer, self.scaler)]
        return [*states, self.scheduler.get_last_lr(), self.scheduler.state_dict().get("last_epoch")]


def step(training: Training, x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
    training.optimizer.zero_grad()
    loss = F.cross_entropy(training.model(x), y)
    loss.backward()
    training.optimizer.step()
    training.scheduler.step()
    return loss


def scaled_step(training: Training, x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
    training.optimizer.zero_grad()
    loss = F.cross_entropy(training.model(x), y)
    training.scaler.scale(loss).backward()
    training.scaler.step(training.optimizer)
    training.scaler.update()
    return loss


def compare(eager: Training, lifted: Training, run: Callable[..., Any], compiled: Any, infinite: int = -1) -> int:
    """Some steps of two equal trainings, compared after each; how often the second was captured."""
    before = framelift.counters().captures
    for number in range(STEPS):
        torch.manual_seed(number)
        x, y = torch.randn(5, 4), torch.randint(2, (5,))
        x = x * torch.inf if number == infinite else x
        expected, found = run(eager, x, y), compiled(lifted, x, y)
        torch.testing.assert_close(found, expected, rtol=0, atol=0, equal_nan=True)
        torch.testing.assert_close(lifted.left(), eager.left(), rtol=0, atol=0, equal_nan=True)
    return framelift.counters().captures - before


@BACKENDS
@pytest.mark.parametrize("scheduler", SCHEDULERS)
def test_a_scheduler_in_the_step(scheduler: str, backend: str) -> None:
    make, captures = SCHEDULERS[scheduler]
    compiled = framelift.compile(step, backend=backend, fullgraph=True)
    assert compare(Training(make), Training(make), step, compiled) <= captures


@pytest.mark.parametrize("scheduler", SCHEDULERS)
def test_a_rate_that_is_a_tensor(scheduler: str) -> None:
    make, captures = SCHEDULERS[scheduler]
    eager, lifted = (Training(make, lr=torch.tensor(0.01)) for _ in range(2))
    assert compare(eager, lifted, step, framelift.compile(step, backend="eager", fullgraph=True)) <= captures


@BACKENDS
def test_a_scaler(backend: str) -> None:
    """Whether the optimizer steps is decided by the gradients: a break there, and nowhere else."""
    broke: list[Any] = []
    make = SCHEDULERS["lambda"][0]
    compiled = framelift.compile(scaled_step, backend=backend)
    with stream.listening(broke.append, GraphBroke):
        compare(Training(make, 4.0), Training(make, 4.0), scaled_step, compiled, infinite=5)
    assert {event.id for event in broke} == {"FL0301"}


@BACKENDS
def test_a_scaler_with_a_fused_optimizer(backend: str) -> None:
    """Then the optimizer is told what was found, and the step is one graph."""
    make = SCHEDULERS["lambda"][0]
    eager, lifted = (Training(make, 4.0, fused=True) for _ in range(2))
    compiled = framelift.compile(scaled_step, backend=backend, fullgraph=True)
    assert compare(eager, lifted, scaled_step, compiled, infinite=5) <= 3
