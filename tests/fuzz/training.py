"""Random training steps: `make fuzz ARGS=--training`.

A program is one step of a small model. It is run some times on each of two equal worlds, in eager mode and lifted, with
new data each time, and something that changes between the calls: after each call all is compared bit for bit, what the
step gives or raises, parameters, gradients, states of optimizer and scheduler, what it noted, random state.
"""

from __future__ import annotations

import contextlib
import copy
import io
import pathlib
import random
import warnings
from collections.abc import Callable
from typing import Any

import torch
from torch import nn

import framelift
from framelift import config
from tests.fuzz import training_phrases as phrases
from tests.fuzz.generate import Statement
from tests.fuzz.run import BACKENDS, ONE_NODE, Endless, Failure, Way, build, limited
from tests.helpers.same import Comparison, Difference
from tests.helpers.world import random_state, seed

PRELUDE = (pathlib.Path(__file__).parent / "training_prelude.py").read_text()
OPENING = """\
def program(model, optimizer, scheduler, scaler, average, saved, handles, total, log, x, y):
    params = list(model.parameters())
    out, loss = x, torch.zeros(())
"""
CLOSING = "return loss, out.detach()"
CALLS = 5
# What AOTAutograd's graphs raise otherwise than eager mode, or when they are made.
KNOWN = (*ONE_NODE, "Cannot set version_counter for inference tensor")


def shown(statements: list[Statement]) -> str:
    """The program without what stands in front of every program."""
    lines = [line for statement in statements for line in statement.lines(4)]
    return OPENING + "\n".join([*lines, "    " + CLOSING]) + "\n"


def write(seed: int, size: int, way: Way | None = None) -> list[Statement]:
    """A step: what every step does, with so many other statements in between."""
    return Writer(seed).program(size)


class Writer:
    """Writes steps. The same seed gives the same ones."""

    def __init__(self, seed: int) -> None:
        self.random = random.Random(seed)

    def program(self, size: int) -> list[Statement]:
        needed = [phrases.ZERO, phrases.FORWARD, phrases.LOSSES, phrases.BACKWARD, phrases.STEP]
        statements = [_line(self.one_of(each)(self)) for each in needed]
        for _ in range(size // 2):
            statements.insert(self.random.randint(0, len(statements)), self.statement(2))
        return statements

    def statement(self, depth: int) -> Statement:
        pick = self.random.random()
        if depth and pick < 0.15:
            line = self.one_of(phrases.MANAGERS if pick < 0.08 else phrases.BRANCHES)(self)
            return Statement([(line, [self.statement(depth - 1) for _ in range(self.random.randint(1, 3))])])
        if pick < 0.35:
            kinds = [phrases.FORWARD, phrases.LOSSES, phrases.BACKWARD, phrases.STEP, phrases.ZERO]
            return _line(self.one_of(self.one_of(kinds))(self))
        return _line(self.one_of(phrases.SIMPLE)(self))

    def one_of(self, options: list[Any]) -> Any:
        return self.random.choice(options)

    def parameter(self) -> str:
        return f"params[{self.one_of([0, 0, 1, -1])}]"

    def coin(self) -> bool:
        return self.random.random() < 0.5


def _line(text: str) -> Statement:
    return Statement([(text, [])])


# -- worlds ----------------------------------------------------------------------------------------------------------

MODELS: list[Callable[[], nn.Sequential]] = [
    lambda: nn.Sequential(nn.Linear(4, 3), nn.Tanh(), nn.Linear(3, 2)),
    lambda: nn.Sequential(nn.Linear(4, 3), nn.BatchNorm1d(3), nn.ReLU(inplace=True), nn.Dropout(0.2), nn.Linear(3, 2)),
    lambda: nn.Sequential(nn.Unflatten(1, (1, 2, 2)), nn.Conv2d(1, 2, 2), nn.GELU(), nn.Flatten(), nn.Linear(2, 2)),
    lambda: nn.Sequential(nn.LayerNorm(4), nn.Linear(4, 4, bias=False), nn.Dropout(0.1), nn.Linear(4, 2)),
]
OPTIMIZERS: list[Callable[[Any], torch.optim.Optimizer]] = [
    lambda given: torch.optim.SGD(given, lr=0.1),
    lambda given: torch.optim.SGD(given, lr=0.1, momentum=0.9, nesterov=True, weight_decay=0.01),
    lambda given: torch.optim.SGD(given, lr=0.1, foreach=True),
    lambda given: torch.optim.Adam(given, lr=0.01),
    lambda given: torch.optim.AdamW(given, lr=0.01, foreach=True),
    lambda given: torch.optim.AdamW(given, lr=torch.tensor(0.01)),
    lambda given: torch.optim.AdamW(given, lr=0.01, amsgrad=True, maximize=True),
    lambda given: torch.optim.Adam(given, lr=0.01, fused=True),
    lambda given: torch.optim.RMSprop(given, lr=0.01, centered=True),
    lambda given: torch.optim.Adagrad(given, lr=0.1),
    lambda given: torch.optim.NAdam(given, lr=0.01),
    lambda given: torch.optim.RAdam(given, lr=0.01),
    lambda given: torch.optim.Adafactor(given, lr=0.01),
    lambda given: torch.optim.Rprop(given, lr=0.01),
]
SCHEDULERS: list[Callable[[Any], Any]] = [
    lambda optimizer: torch.optim.lr_scheduler.StepLR(optimizer, 2),
    lambda optimizer: torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, 10),
    lambda optimizer: torch.optim.lr_scheduler.ExponentialLR(optimizer, 0.9),
    lambda optimizer: torch.optim.lr_scheduler.LambdaLR(optimizer, lambda epoch: 1 / (1 + epoch)),
    lambda optimizer: torch.optim.lr_scheduler.LinearLR(optimizer, 0.1, total_iters=3),
    lambda optimizer: torch.optim.lr_scheduler.MultiStepLR(optimizer, [1, 3]),
]


class World:
    """All that a step is given. Equal numbers give equal worlds."""

    def __init__(self, number: int) -> None:
        chosen = random.Random(number)
        seed(number)
        self.model = chosen.choice(MODELS)()
        groups = [{"params": [p]} for p in self.model.parameters()] if chosen.random() < 0.2 else None
        self.optimizer = chosen.choice(OPTIMIZERS)(groups or self.model.parameters())
        self.scheduler = chosen.choice(SCHEDULERS)(self.optimizer)
        self.scaler = torch.amp.GradScaler("cpu", init_scale=4.0, growth_interval=2, enabled=chosen.random() < 0.3)
        self.average = [p.detach().clone() for p in self.model.parameters()]
        self.saved: dict[str, Any] = {}
        self.handles: list[Any] = []
        self.total = [0.0]
        self.log: list[Any] = []
        self.rows = 6
        self.chosen = chosen

    def arguments(self, number: int) -> tuple[Any, ...]:
        """Of one call. Before it something changes, in some calls."""
        if number > 2 and self.chosen.random() < 0.5:
            self.chosen.choice(CHANGES)(self)
        seed(number)
        x, y = torch.randn(self.rows, 4), torch.randint(2, (self.rows,))
        given = (self.model, self.optimizer, self.scheduler, self.scaler, self.average, self.saved, self.handles)
        return (*given, self.total, self.log, x, y)

    def left(self) -> list[Any]:
        """What a call leaves behind."""
        parameters = list(self.model.parameters())
        facts = [(p.requires_grad, p.grad, p.is_leaf) for p in parameters]
        states = [each.state_dict() for each in (self.optimizer, self.scheduler, self.scaler)]
        return [
            self.model.state_dict(),
            facts,
            *states,
            self.average,
            self.saved,
            len(self.handles),
            self.total,
            self.log,
            self.model.training,
        ]


CHANGES: list[Callable[[World], Any]] = [
    lambda world: world.optimizer.zero_grad(),
    lambda world: world.model.eval(),
    lambda world: world.model.train(),
    lambda world: world.model[-1].requires_grad_(False),
    lambda world: world.model.requires_grad_(True),
    lambda world: setattr(world, "rows", 4),
    lambda world: world.optimizer.param_groups[0].update(lr=0.05),
    lambda world: world.optimizer.load_state_dict(copy.deepcopy(world.optimizer.state_dict())),
    lambda world: world.handles.append(world.model[-1].weight.register_hook(lambda gradient: gradient * 2)),
    lambda world: world.handles.append(world.model[0].register_forward_hook(lambda module, args, out: out * 0.5)),
    lambda world: world.handles.append(world.model[-1].weight.register_post_accumulate_grad_hook(_noting(world))),
    lambda world: [handle.remove() for handle in world.handles],
    lambda world: world.log.append(0),
    lambda world: world.scheduler.step(),
    lambda world: world.model.load_state_dict({name: t * 0.5 for name, t in world.model.state_dict().items()}),
    lambda world: _node_hook(world),
]


def _noting(world: World) -> Callable[[torch.Tensor], None]:
    return lambda parameter: world.log.append(parameter.grad.sum())  # type: ignore[union-attr]


def _node_hook(world: World) -> None:
    """A hook where gradients are added up, which lives as long as somebody knows the node."""
    parameter = next(world.model.parameters())
    if parameter.requires_grad:
        node = torch.autograd.graph.get_gradient_edge(parameter).node
        node.register_prehook(lambda gradients: (gradients[0] * 2,))
        world.handles.append(_Node(node))


class _Node:
    """Holds a node, and lets go of it as a handle does."""

    def __init__(self, node: Any) -> None:
        self.node = node

    def remove(self) -> None:
        self.node = None


# -- running ---------------------------------------------------------------------------------------------------------


def failure_of(statements: list[Statement], number: int, way: Way | None = None) -> Failure:
    """What is wrong with the lifted step, if anything is."""
    backend = way.backend if way is not None else ("aot_eager" if number % 4 == 3 else "eager")
    try:
        with (
            contextlib.redirect_stderr(io.StringIO()),
            warnings.catch_warnings(),
            config.patch(strict=True),
            limited(),
        ):
            warnings.simplefilter("ignore")
            return _first_difference(PRELUDE + shown(statements), number, backend)
    except Endless:
        return "does not end"
    finally:
        torch.set_grad_enabled(True)


def _first_difference(text: str, number: int, backend: str) -> Failure:
    framelift.reset()
    eager, lifted = World(number), World(number)
    one, two = (build(text, f"fuzz_training_{number}_{side}").program for side in ("eager", "lifted"))
    two = framelift.compile(two, backend=BACKENDS.get(backend, backend))
    for call in range(CALLS):
        expected, actual = _outcome(one, eager, call), _outcome(two, lifted, call)
        if backend != "eager" and any(each in str(actual[1]) for each in KNOWN) and expected[:2] != actual[:2]:
            return None
        try:
            Comparison().compare(expected, actual, f"call {call}")
        except Difference as difference:
            return str(difference)
    return None


def _outcome(step: Callable[..., Any], world: World, call: int) -> list[Any]:
    given = world.arguments(call)
    result: Any
    try:
        result = ("returned", step(*given))
    except Exception as error:
        result = (type(error).__name__, str(error).splitlines()[:1])
    grad = torch.is_grad_enabled()
    torch.set_grad_enabled(True)
    return [*result, world.left(), random_state(), grad]
