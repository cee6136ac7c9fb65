"""Steps of torch's optimizers, the norms of gradients, and the marks for the profiler around them."""

from __future__ import annotations

import copy
from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import nn

import framelift
from tests.helpers import check
from tests.helpers.record import Record
from tests.helpers.same import Comparison


class Training:
    """Two parameters with gradients, and an optimizer; `deepcopy` of a parameter would leave its gradient behind."""

    def __init__(self, make: Callable[[list[Any]], Any]) -> None:
        self.parameters = [nn.Parameter(torch.linspace(-1, 1, 12).reshape(3, 4)), nn.Parameter(torch.ones(4))]
        self.optimizer = make(self.parameters)

    def give_gradients(self, number: int) -> None:
        for parameter in self.parameters:
            parameter.grad = (parameter.detach() * (number + 2)).cos()

    def state(self) -> Any:
        gradients = [None if p.grad is None else p.grad.clone() for p in self.parameters]
        return [p.detach().clone() for p in self.parameters], gradients, copy.deepcopy(self.optimizer.state_dict())


def check_steps(
    make: Callable[[list[Any]], Any], step: Callable[[Training], Any], captures: int, backend: str = "eager"
) -> None:
    """Four rounds of giving gradients and `step`, eager and lifted, must leave the same behind every time."""
    eager, lifted = Training(make), Training(make)
    compiled = framelift.compile(step, backend=backend, fullgraph=True)
    record = Record()
    for number in range(4):
        eager.give_gradients(number)
        lifted.give_gradients(number)
        expected = step(eager)
        with record.listening():
            actual = compiled(lifted)
        Comparison().compare((expected, eager.state()), (actual, lifted.state()), f"round {number}")
    assert record.captures == captures


def step_only(training: Training) -> None:
    training.optimizer.step()


@pytest.mark.parametrize(
    ("make", "captures"),
    [
        pytest.param(lambda ps: torch.optim.SGD(ps, lr=0.1), 1, id="sgd"),
        pytest.param(lambda ps: torch.optim.SGD(ps, lr=0.1, momentum=0.9, nesterov=True), 2, id="momentum"),
        pytest.param(lambda ps: torch.optim.SGD(ps, lr=0.1, momentum=0.9, foreach=True), 2, id="foreach"),
        pytest.param(lambda ps: torch.optim.RMSprop(ps, lr=0.1, centered=True), 2, id="rmsprop"),
        pytest.param(lambda ps: torch.optim.Adadelta(ps), 2, id="adadelta"),
        pytest.param(lambda ps: torch.optim.Rprop(ps), 2, id="rprop"),
        pytest.param(lambda ps: torch.optim.Adam(ps, amsgrad=True, weight_decay=0.1), 2, id="adam"),
        pytest.param(lambda ps: torch.optim.Adam(ps, lr=torch.tensor(0.1)), 2, id="adam with a tensor as its rate"),
        pytest.param(lambda ps: torch.optim.AdamW(ps, lr=0.1), 2, id="adamw"),
        pytest.param(lambda ps: torch.optim.AdamW(ps, lr=0.1, foreach=True), 2, id="adamw foreach"),
        pytest.param(lambda ps: torch.optim.NAdam(ps), 2, id="nadam"),
        pytest.param(lambda ps: torch.optim.NAdam(ps, foreach=True), 2, id="nadam foreach"),
        pytest.param(lambda ps: torch.optim.Adamax(ps), 2, id="adamax"),
        pytest.param(lambda ps: torch.optim.Adamax(ps, foreach=True), 2, id="adamax foreach"),
        pytest.param(lambda ps: torch.optim.Adagrad(ps, lr_decay=0.5), 1, id="adagrad"),
        pytest.param(lambda ps: torch.optim.Adagrad(ps, lr_decay=0.5, foreach=True), 1, id="adagrad foreach"),
        pytest.param(lambda ps: torch.optim.ASGD(ps, lambd=0.1, weight_decay=0.1), 2, id="asgd"),
        pytest.param(lambda ps: torch.optim.ASGD(ps, foreach=True), 2, id="asgd foreach"),
        pytest.param(lambda ps: torch.optim.Adafactor(ps), 2, id="adafactor"),
        pytest.param(lambda ps: torch.optim.Adafactor(ps, d=1.5, foreach=True), 2, id="adafactor foreach"),
        pytest.param(lambda ps: torch.optim.Muon(ps[:1]), 2, id="muon"),
        pytest.param(lambda ps: torch.optim.Muon(ps[:1], lr=torch.tensor(0.1)), 2, id="muon with a tensor as its rate"),
        pytest.param(lambda ps: torch.optim.SGD(ps, lr=torch.tensor(0.1)), 1, id="sgd with a tensor as its rate"),
        pytest.param(lambda ps: torch.optim.SGD(ps, momentum=0.9, fused=True), 2, id="sgd fused"),
        pytest.param(lambda ps: torch.optim.AdamW(ps, fused=True), 2, id="adamw fused"),
        pytest.param(lambda ps: torch.optim.Adagrad(ps, fused=True), 2, id="adagrad fused"),
    ],
)
def test_steps(make: Callable[[list[Any]], Any], captures: int) -> None:
    """The first step makes the optimizer's state, so the second is captured too; all further ones hit."""
    check_steps(make, step_only, captures)


@pytest.mark.parametrize("kind", [torch.optim.AdamW, torch.optim.SGD, torch.optim.Adagrad])
def test_fused_steps_run_as_they_are(kind: Any) -> None:
    check_steps(lambda ps: kind(ps, lr=0.1, fused=True), step_only, 2, "aot_eager")


@pytest.mark.parametrize("foreach", [False, True])
def test_the_count_of_steps_is_a_number_for_compilers_too(foreach: bool) -> None:
    check_steps(lambda ps: torch.optim.AdamW(ps, lr=0.1, foreach=foreach), step_only, 2, "aot_eager")


@pytest.mark.parametrize("foreach", [False, True])
def test_a_count_that_decides(foreach: bool) -> None:
    """RAdam rectifies from the sixth step on."""
    eager, lifted = [Training(lambda ps: torch.optim.RAdam(ps, foreach=foreach)) for _ in range(2)]
    compiled, record = framelift.compile(step_only, backend="eager", fullgraph=True), Record()
    for number in range(10):
        for training, step in ((eager, step_only), (lifted, compiled)):
            training.give_gradients(number)
            with record.listening():
                step(training)
        Comparison().compare(eager.state(), lifted.state(), f"round {number}")
    assert record.captures == 3  # no state, not rectified, rectified


def test_equal_counts_of_steps_are_one_number() -> None:
    lifted = Training(lambda ps: torch.optim.AdamW(ps, lr=0.1))
    compiled, record = framelift.compile(step_only, backend="eager", fullgraph=True), Record()
    with record.listening():
        for number in range(2):
            lifted.give_gradients(number)
            compiled(lifted)
    numbers = [node for node in record.graphs[-1].graph.nodes if node.meta.get("input_kind") == "number"]
    assert len(numbers) == 2  # the size of the step and the root of the second correction, for both parameters


@pytest.mark.parametrize("foreach", [False, True])
def test_many_parameters(foreach: bool) -> None:
    """What is decided for each of them is decided once."""

    def make(parameters: list[Any]) -> Any:
        parameters += [nn.Parameter(torch.full((2,), float(number))) for number in range(80)]
        return torch.optim.RAdam(parameters, foreach=foreach)

    check_steps(make, step_only, 2)


def test_counts_of_steps_that_differ() -> None:
    """A parameter without a gradient is left out of a step: its count is another from then on."""
    eager, lifted = [Training(lambda ps: torch.optim.AdamW(ps, lr=0.1)) for _ in range(2)]
    compiled, record = framelift.compile(step_only, backend="eager", fullgraph=True), Record()
    for number in range(8):
        for training, step in ((eager, step_only), (lifted, compiled)):
            training.give_gradients(number)
            if number == 2:
                training.parameters[1].grad = None
            with record.listening():
                step(training)
        Comparison().compare(eager.state(), lifted.state(), f"round {number}")
    assert record.captures == 4  # no state, state, no gradient, other counts


@pytest.mark.parametrize(
    "schedule",
    [
        lambda optimizer: torch.optim.lr_scheduler.ExponentialLR(optimizer, 0.9),
        lambda optimizer: torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, 20),
        lambda optimizer: torch.optim.lr_scheduler.OneCycleLR(optimizer, 0.1, total_steps=20),
    ],
)
@pytest.mark.parametrize("foreach", [False, True])
def test_a_rate_that_changes_with_every_step(schedule: Callable[[Any], Any], foreach: bool) -> None:
    eager, lifted = [Training(lambda ps: torch.optim.AdamW(ps, lr=0.1, foreach=foreach)) for _ in range(2)]
    schedules = schedule(eager.optimizer), schedule(lifted.optimizer)
    compiled, record = framelift.compile(step_only, backend="eager", fullgraph=True), Record()
    for number in range(6):
        for training, step, each in ((eager, step_only, schedules[0]), (lifted, compiled, schedules[1])):
            training.give_gradients(number)
            with record.listening():
                step(training)
            each.step()
        Comparison().compare(eager.state(), lifted.state(), f"round {number}")
    assert record.captures == 2  # the second is the first with another rate


def test_a_loaded_count_of_steps_is_seen() -> None:
    eager, lifted = [Training(lambda ps: torch.optim.AdamW(ps, lr=0.1)) for _ in range(2)]
    compiled = framelift.compile(step_only, backend="eager", fullgraph=True)
    for number in range(4):
        for training, step in ((eager, step_only), (lifted, compiled)):
            training.give_gradients(number)
            if number == 2:
                saved = copy.deepcopy(training.optimizer.state_dict())
                saved["state"][0]["step"].fill_(100.0)
                saved["state"][1]["step"].fill_(7.0)
                training.optimizer.load_state_dict(saved)
            step(training)
        Comparison().compare(eager.state(), lifted.state(), f"round {number}")


def test_after_torch_compile_marked_its_optimizers() -> None:
    torch.compile(lambda x: x + 1, backend="eager")(torch.ones(1))
    assert hasattr(torch.optim.SGD._init_group, "_torchdynamo_disable")
    check_steps(lambda ps: torch.optim.SGD(ps, lr=0.1), step_only, 1)


def test_a_changed_learning_rate_is_seen() -> None:
    eager, lifted = [Training(lambda ps: torch.optim.SGD(ps, lr=0.1)) for _ in range(2)]
    compiled = framelift.compile(step_only, backend="eager")
    for number, rate in enumerate((0.1, 0.2, 0.1)):
        for training, step in ((eager, step_only), (lifted, compiled)):
            training.give_gradients(number)
            training.optimizer.param_groups[0]["lr"] = rate
            step(training)
        Comparison().compare(eager.state(), lifted.state(), f"round {number}")


def test_another_parameter_in_the_state_is_seen() -> None:
    """A state is found by the parameter: one optimizer's entry must not serve another's."""
    trainings = [Training(lambda ps: torch.optim.SGD(ps, lr=0.1, momentum=0.9)) for _ in range(4)]
    compiled = framelift.compile(step_only, backend="eager")
    for number in range(3):
        for index, training in enumerate(trainings):
            training.give_gradients(number + index // 2)
            (compiled if index % 2 else step_only)(training)
        for eager, lifted in (trainings[:2], trainings[2:]):
            Comparison().compare(eager.state(), lifted.state(), f"round {number}")


def clip_norm(training: Training) -> Any:
    return nn.utils.clip_grad_norm_(training.parameters, 1.0)


def clip_value(training: Training) -> Any:
    nn.utils.clip_grad_value_(training.parameters, 0.5)
    return training.parameters[0] * 2


def total_norm(training: Training) -> Any:
    return nn.utils.get_total_norm([p.grad for p in training.parameters if p.grad is not None])


def by_hand(training: Training) -> Any:
    with torch.no_grad():
        for parameter in training.parameters:
            if parameter.grad is not None:
                parameter -= 0.1 * parameter.grad
    return training.parameters[0].sum()


@pytest.mark.parametrize("step", [clip_norm, clip_value, total_norm, by_hand])
def test_gradients_are_read_and_scaled(step: Callable[[Training], Any]) -> None:
    check_steps(lambda ps: torch.optim.SGD(ps, lr=0.1), step, captures=1)


def grouped(tensors: list[torch.Tensor]) -> Any:
    groups = torch.utils._foreach_utils._group_tensors_by_device_and_dtype([tensors, tensors], with_indices=True)
    return [(key, rows, indices) for key, (rows, indices) in groups.items()], tensors[0] + 1


def test_groups_are_in_torch_s_order() -> None:
    dtypes = (torch.float32, torch.float64, torch.float16, torch.float32, torch.float64)
    tensors = [torch.full((2,), i, dtype=dtype) for i, dtype in enumerate(dtypes)]
    expected, actual = grouped(tensors), framelift.compile(grouped, backend="eager", fullgraph=True)(tensors)
    Comparison().compare(expected, actual, "groups")


def marked(x: torch.Tensor) -> torch.Tensor:
    with torch.profiler.record_function("outer"), torch.autograd.profiler.record_function("inner"):
        return x * 2


def test_marks_for_the_profiler_do_not_break() -> None:
    x = torch.ones(3)
    compiled = framelift.compile(marked, backend="eager", fullgraph=True)
    assert torch.equal(compiled(x), marked(x))


def broken_in_a_mark(x: torch.Tensor) -> torch.Tensor:
    with torch.profiler.record_function("outer"):
        y = x * 2
        framelift.graph_break()
        y = y + 1
    return y * 3


def broken_before_a_mark(x: torch.Tensor) -> torch.Tensor:
    block = torch.profiler.record_function("later")
    y = x * 2
    framelift.graph_break()
    with block:
        return y * 3


@pytest.mark.parametrize("function", [broken_in_a_mark, broken_before_a_mark])
def test_a_graph_break_beside_a_mark(function: Callable[..., Any]) -> None:
    assert len(check(function, torch.ones(3), expect_breaks=1).graphs) == 2


MADE_BEFORE = torch.profiler.record_function("made before")


def marked_by_a_global(x: torch.Tensor) -> torch.Tensor:
    with MADE_BEFORE:
        return x * 2


@torch.profiler.record_function("decorated")
def decorated(x: torch.Tensor) -> torch.Tensor:
    return x * 3


def calls_decorated(x: torch.Tensor) -> torch.Tensor:
    return decorated(x) + 1


@pytest.mark.parametrize("function", [marked_by_a_global, calls_decorated])
def test_a_mark_made_before_the_frame(function: Callable[..., Any]) -> None:
    x = torch.ones(3)
    compiled = framelift.compile(function, backend="eager", fullgraph=True)
    assert torch.equal(compiled(x), function(x))
    assert torch.equal(compiled(x + 1), function(x + 1))


def zero_grad(training: Training) -> Any:
    training.optimizer.zero_grad()
    return training.parameters[0] * 2


def zero_grad_in_place(training: Training) -> Any:
    training.optimizer.zero_grad(set_to_none=False)
    return training.parameters[0] * 2


def assign(training: Training) -> Any:
    first, second = training.parameters
    first.grad = first.detach() * 2
    first.grad.add_(1)
    second.grad, kept = None, second.grad
    return first.grad + 1, second.grad is None, kept


def clip_and_step(training: Training) -> Any:
    norm = nn.utils.clip_grad_norm_(training.parameters, 1.0)
    training.optimizer.step()
    training.optimizer.zero_grad()
    return norm


@pytest.mark.parametrize("step", [zero_grad, zero_grad_in_place, assign, clip_and_step])
def test_gradients_are_assigned(step: Callable[[Training], Any]) -> None:
    check_steps(lambda ps: torch.optim.SGD(ps, lr=0.1), step, captures=1)


def assign_wrong(x: torch.Tensor) -> Any:
    y = x + 1
    x.grad = torch.ones(7)
    return y


def test_a_gradient_that_does_not_fit_is_refused_by_torch() -> None:
    check(assign_wrong, torch.ones(3, requires_grad=True), expect_breaks=None)


def share_gradient(x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
    x.grad = x.detach() * 3
    return y.grad * 2 if y.grad is not None else y.detach() + 1


def test_two_names_of_one_tensor() -> None:
    """The assignment shows through every name of the tensor, and tensors that were two may become one."""
    lifted = framelift.compile(share_gradient, backend="eager")
    for same in (True, False, True):
        results = []
        for function in (share_gradient, lifted):
            x = torch.ones(2, requires_grad=True)
            y = x if same else torch.ones(2, requires_grad=True)
            results.append((function(x, y), x.grad, y.grad))
        Comparison().compare(*results, "results")
