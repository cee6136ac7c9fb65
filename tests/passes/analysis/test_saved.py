"""What autograd saves for backward is what eager saves: the program may write to its tensors before backward runs."""

from __future__ import annotations

import random
from typing import Any

import pytest
import torch
from torch import nn
from torch.nn import functional as F

import framelift
from framelift.passes import PassOptions
from tests.passes.support import calls

BACKENDS = ["eager", "aot_eager"]
# Ways to copy y.
COPIES = {
    "clone": lambda y: y.clone(),
    "times one": lambda y: y * 1,
    "by one": lambda y: y / 1,
    "minus zero": lambda y: y - 0,
    "cat": lambda y: torch.cat([y]),
    "cat with nothing": lambda y: torch.cat([y, torch.empty(0)]),
    "stack": lambda y: torch.stack([y])[0],
    "repeat": lambda y: y.repeat(1),
    "pad": lambda y: F.pad(y, (0, 0)),
    "contiguous clone": lambda y: y.contiguous().clone(),
    "view of a clone": lambda y: y.clone().view(3),
    "clone of a view": lambda y: y.view(1, 3).clone()[0],
    "pieces joined": lambda y: torch.cat(y.split(1)),
    "pieces stacked": lambda y: torch.stack(y.unbind(0)),
    "cat of cats": lambda y: torch.cat([torch.cat([y[:1]]), y[1:]]),
    "pieces multiplied": lambda y: torch.cat([part * 2 for part in y.split(1)]) / 2,
}


class Keeper:
    """A backend that runs the graph as it is and keeps it."""

    def __init__(self) -> None:
        self.graphs: list[Any] = []

    def __call__(self, graph_module: Any, example_inputs: Any) -> Any:
        self.graphs.append(graph_module)
        return graph_module

    @property
    def calls(self) -> list[str]:
        return [name for graph in self.graphs for name in calls(graph)]


def gradients(function: Any, write: Any, *, frozen: tuple[int, ...] = (1,), in_grad_mode: bool = False) -> Any:
    """The gradients of what a function makes of x and y if something is written before backward; or what it raises."""
    x, y = torch.tensor([0.5, 2.0, 3.0]), torch.tensor([1.0, 2.0, -3.0])
    leaves = [each for index, each in enumerate((x, y)) if index not in frozen]
    for each in leaves:
        each.requires_grad_()
    results = function(x, y)
    results = results if isinstance(results, tuple) else (results,)
    try:
        with torch.set_grad_enabled(in_grad_mode):
            write(x, y, *results)
        total = sum(result.sin().sum() for result in results if result.requires_grad)
        return [
            None if found is None else found.tolist() for found in torch.autograd.grad(total, leaves, allow_unused=True)
        ]
    except RuntimeError as error:
        return type(error)


def same_gradients(function: Any, write: Any, backend: Any = "eager", **keywords: Any) -> Any:
    expected = gradients(function, write, **keywords)
    assert gradients(framelift.compile(function, backend=backend), write, **keywords) == expected
    return expected


# -- copies of what the caller may write ---------------------------------------------------------------------------


WRITES = {
    "data": lambda x, y, *results: y.data.fill_(7),
    "in place": lambda x, y, *results: y.add_(5),
    "detached": lambda x, y, *results: y.detach().mul_(3),
    "view": lambda x, y, *results: y[1:].zero_(),
}


@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize("write", WRITES)
@pytest.mark.parametrize("copy", COPIES)
def test_a_copy_is_saved_and_not_what_it_was_made_of(copy: str, write: str, backend: str) -> None:
    found = same_gradients(lambda x, y: x * COPIES[copy](y), WRITES[write], backend)
    assert isinstance(found, list)


@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize("copy", COPIES)
def test_an_optimizer_steps_before_backward(copy: str, backend: str) -> None:
    def run(function: Any) -> list[Any]:
        x, y = torch.ones(3, requires_grad=True), nn.Parameter(torch.tensor([1.0, 2.0, 3.0]))
        result = function(x, y)
        y.grad = torch.ones(3)
        torch.optim.SGD([y], lr=0.5).step()
        y.grad = None
        result.sum().backward()
        return [x.grad, y.grad, y.detach()]

    def f(x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
        return x * COPIES[copy](y)

    expected, found = run(f), run(framelift.compile(f, backend=backend))
    assert all(map(torch.equal, expected, found))


class Counting(nn.Module):
    """Writes its buffer, then multiplies by a copy of it."""

    def __init__(self, copy: str) -> None:
        super().__init__()
        self.copy = COPIES[copy]
        self.register_buffer("seen", torch.ones(3))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        self.seen.add_(x.detach())
        return x * self.copy(self.seen)


@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize("copy", COPIES)
def test_a_second_call_writes_the_buffer_before_backward(copy: str, backend: str) -> None:
    def run(module: Any) -> list[torch.Tensor]:
        inputs = [torch.tensor([1.0, 2.0, 3.0], requires_grad=True) for _ in range(3)]
        sum(module(x).sum() for x in inputs).backward()  # type: ignore[union-attr]
        return [x.grad for x in inputs if x.grad is not None]

    expected, found = run(Counting(copy)), run(framelift.compile(Counting(copy), backend=backend))
    assert len(expected) == 3 and all(map(torch.equal, expected, found))


@pytest.mark.parametrize("backend", BACKENDS)
def test_a_differentiable_optimizer(backend: str) -> None:
    """Its second step writes to what the first made copies of."""

    def run(lift: Any) -> tuple[torch.Tensor, ...]:
        start, slope = (torch.tensor([1.0, -2.0, 3.0], dtype=torch.double, requires_grad=True) for _ in range(2))
        weight = start.clone()
        optimizer = torch.optim.Adam([weight], lr=0.1, differentiable=True)
        step = lift(optimizer.step)
        for number in range(1, 4):
            weight.grad = slope * start / number
            step()
        return (weight.detach(), *torch.autograd.grad(weight.square().sum(), [start, slope]))

    expected = run(lambda step: step)
    torch.testing.assert_close(run(lambda step: framelift.compile(step, backend=backend)), expected)


# -- other ways in which what is saved moves -----------------------------------------------------------------------


def returned(x: torch.Tensor, y: torch.Tensor) -> Any:
    base = x.sin()
    return base, x * base.clone()


def second_cat(x: torch.Tensor, y: torch.Tensor) -> Any:
    return torch.cat([x, y]), torch.cat([x, y]).exp() * torch.cat([x, y])


def twice_relu(x: torch.Tensor, y: torch.Tensor) -> Any:
    return torch.relu(torch.relu(x))


def relu_of_pieces(x: torch.Tensor, y: torch.Tensor) -> Any:
    return torch.cat([part.relu() for part in x.split(1)])


def clamped_inputs(x: torch.Tensor, y: torch.Tensor) -> Any:
    return [each.clamp(-1, 1) for each in (x, y, x * 2, y * 2, x * 3, y * 3)][2] + x.clamp(0, 1)


def laid_out(x: torch.Tensor, y: torch.Tensor) -> Any:
    return x.view(1, 3) * torch.stack(y.view(3, 1).unbind(0), 1).contiguous()


def reshaped_relu(x: torch.Tensor, y: torch.Tensor) -> Any:
    return x.view(1, 3).relu().view(3)


def through_views(x: torch.Tensor, y: torch.Tensor) -> Any:
    return x.view(3, 1) * y.clone().view(1, 3).t().expand(3, 2)


def in_place(x: torch.Tensor, y: torch.Tensor) -> Any:
    return (x * 1).mul_(y.clone())


def made_without_gradients(x: torch.Tensor, y: torch.Tensor) -> Any:
    with torch.no_grad():
        scale = y.clone()
    return x * scale


class Times(torch.autograd.Function):
    """Saves a copy of what it multiplies by."""

    @staticmethod
    def forward(ctx: Any, x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
        ctx.save_for_backward(y.clone())
        return x * y

    @staticmethod
    def backward(ctx: Any, *gradients: torch.Tensor) -> Any:
        (scale,) = ctx.saved_tensors
        return gradients[0] * scale, gradients[0] * 2


def by_a_function(x: torch.Tensor, y: torch.Tensor) -> Any:
    return Times.apply(x, y * 1) + Times.apply(x, y)


def assigned(x: torch.Tensor, y: torch.Tensor) -> Any:
    made = torch.zeros(3)
    made[torch.tensor([0, 2])] = x[:2] * y.clone()[:2]
    return made


@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize("frozen", [(), (1,)])
@pytest.mark.parametrize("which", ["x", "y", "first", "last"])
@pytest.mark.parametrize("way", ["data", "in place"])
@pytest.mark.parametrize(
    "function",
    [
        returned,
        second_cat,
        twice_relu,
        relu_of_pieces,
        clamped_inputs,
        laid_out,
        reshaped_relu,
        through_views,
        in_place,
        made_without_gradients,
        by_a_function,
        assigned,
    ],
)
def test_writes_before_backward(function: Any, way: str, which: str, frozen: Any, backend: str) -> None:
    def write(x: torch.Tensor, y: torch.Tensor, *results: torch.Tensor) -> None:
        written = {"x": x, "y": y, "first": results[0], "last": results[-1]}[which]
        written.data.fill_(7) if way == "data" else written.add_(5)

    same_gradients(function, write, backend, frozen=frozen)


def test_a_result_that_was_not_saved_may_be_written() -> None:
    """One relu of all pieces saves its result, which the relus of the pieces did not return."""
    for backend in BACKENDS:
        assert isinstance(same_gradients(relu_of_pieces, lambda x, y, result: result.add_(1), backend), list)


def test_a_piece_of_a_split_stays_one_of_several_views() -> None:
    """Autograd forbids to write to such a view, or to use it after a write to what it is a view of."""

    def few(x: torch.Tensor, y: torch.Tensor) -> Any:
        return (x * 2).split(1)[0]

    def whole(x: torch.Tensor, y: torch.Tensor) -> Any:
        return (x * 2).split(3)[0]

    def base(x: torch.Tensor, y: torch.Tensor) -> Any:
        made = x * 2
        return made.split(1)[0].expand(3), made

    for function in (few, whole):
        assert same_gradients(function, lambda x, y, piece: piece.add_(1), in_grad_mode=True) is RuntimeError
    assert same_gradients(base, lambda x, y, piece, made: made.add_(1), in_grad_mode=True) is RuntimeError


def test_a_view_made_without_gradients_stays_a_view() -> None:
    """Autograd forbids to write to it where gradients are recorded, whether or not what it is a view of has any."""

    def of_a_constant(x: torch.Tensor, y: torch.Tensor) -> Any:
        with torch.no_grad():
            return (x * 2).view(3)

    def of_a_result(x: torch.Tensor, y: torch.Tensor) -> Any:
        made = x * 2
        with torch.no_grad():
            return made.view(3)

    def there_and_back(x: torch.Tensor, y: torch.Tensor) -> Any:
        with torch.no_grad():
            return (x * 2).unsqueeze(0).squeeze(0)

    def expanded(x: torch.Tensor, y: torch.Tensor) -> Any:
        with torch.no_grad():
            return (x * 2).expand(3), x * 3

    def written(function: Any) -> Any:
        view = function(torch.ones(3), None)
        view = view[0] if isinstance(view, tuple) else view
        with pytest.raises(RuntimeError, match="created in no_grad mode"):
            view.add_(torch.ones(3, requires_grad=True))

    for function in (of_a_constant, of_a_result, there_and_back, expanded):
        written(function)
        written(framelift.compile(function, backend="eager"))


@framelift.compile(backend="eager")
def halved_again(x: torch.Tensor) -> torch.Tensor:
    return (x / 2).view(3)


def test_a_view_made_in_a_block_around_the_call_stays_a_view() -> None:
    weight = torch.ones(3, requires_grad=True)
    with torch.no_grad():
        view = halved_again(torch.ones(3))
    with pytest.raises(RuntimeError, match="created in no_grad mode"):
        view.add_(weight)


def test_gradients_of_a_view_with_many_uses_keep_their_order() -> None:
    def f(x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
        made = x.relu().view(10, 5)
        return (made.t() @ made).sum() + made.view(-1).view(10, 5).sin().sum()

    def run(function: Any) -> torch.Tensor:
        x = torch.randn(50, generator=torch.Generator().manual_seed(0), requires_grad=True)
        function(x, x).backward()
        assert x.grad is not None
        return x.grad

    assert torch.equal(run(framelift.compile(f, backend="eager")), run(f))


# -- copies go where nobody can tell ------------------------------------------------------------------------------


def graph_of(function: Any, *args: Any, **options: Any) -> list[str]:
    keeper = Keeper()
    framelift.compile(function, backend=keeper, options=options)(*args)
    return keeper.calls


X, Y = torch.ones(3, requires_grad=True), torch.full((3,), 2.0)


@pytest.mark.parametrize(
    "function, kept",
    [
        (lambda x, y: x * y.clone(), True),
        (lambda x, y: x + y.clone(), False),  # no operand is saved
        (lambda x, y: torch.cat([x, y.clone()]), False),
        (lambda x, y: x.exp() * (x * y).clone(), False),  # nobody has what was copied
        (lambda x, y: (x.exp() * (c := x * y).clone(), c)[0], False),
        (lambda x, y: (c := x * y, x.exp() * c.clone()), True),  # the caller has it
        (lambda x, y: x.where(y.clone() > 0, y), False),  # what is saved is computed from it
        (lambda x, y: y * y.clone(), False),  # no gradient flows there
        (lambda x, y: x.detach() * y.clone(), False),
        (lambda x, y: x / y.clone(), True),
        (lambda x, y: y.clone() / x, True),
        (lambda x, y: y.clone() - x, False),
        (lambda x, y: (x * y.clone()).detach(), True),
        (lambda x, y: F.linear(x[None], y.clone()[None]), True),
        (lambda x, y: F.linear(x[None], x[None], y.clone()[:1]), False),  # a bias
        (lambda x, y: (x * 2).copy_(y.clone()), False),
        (lambda x, y: (x * 2).mul_(y.clone()), True),
    ],
)
def test_a_copy_is_kept_only_where_it_is_saved(function: Any, kept: bool) -> None:
    assert (".clone" in graph_of(function, X, Y)) == kept
    with torch.no_grad():
        assert ".clone" not in graph_of(function, X, Y)


def test_where_no_gradient_is_recorded_copies_go() -> None:
    def f(x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
        with torch.no_grad():
            scale = y.clone() * x * 2
        return x + scale

    assert ".clone" not in graph_of(f, X, Y)
    assert ".clone" not in graph_of(lambda x, y: x * y.clone(), X.detach(), Y)


def test_joined_pieces_are_copied_once_where_the_whole_would_be_saved() -> None:
    made = graph_of(lambda x, y: x * torch.cat(y.split(1)), X, Y)
    assert made == ["clone", "mul"]


def test_where_torch_does_not_tell_what_is_saved_copies_stay() -> None:
    with torch.autograd.graph.disable_saved_tensors_hooks("not here"):
        assert ".clone" in graph_of(lambda x, y: x * y.clone(), X, Y)
        assert ".clone" not in graph_of(lambda x, y: y * y.clone(), X, Y)


def test_frozen_weights_are_written_by_nobody() -> None:
    class Scaled(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.weight = nn.Parameter(torch.ones(3))

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return x * self.weight.clone()

    for freeze_weights in (False, True):
        gm, _ = framelift.export(Scaled(), X)
        framelift.passes.pre_grad_passes(gm, options=PassOptions(freeze_weights=freeze_weights, on_error="raise"))
        assert (calls(gm) == ["mul"]) == freeze_weights


# -- at random -----------------------------------------------------------------------------------------------------

STEPS = """
{a}.clone() | {a} * 1 | torch.cat([{a}]) | torch.stack([{a}])[0] | {a}.relu() | F.relu(F.relu({a})) | {a}.tanh()
{a}.clamp(-1, 1) | {a}.reshape(12).view(4, 3) | {a}.t().contiguous().t() | torch.cat({a}.split(2, 0), 0) | {a}[:]
torch.cat([p.relu() for p in {a}.chunk(2, 0)], 0) | torch.cat([p.clamp(min=0) for p in {a}.chunk(2, 0)], 0)
torch.stack({a}.unbind(0)) | torch.stack({a}.unbind(0), 1).t() | {a}.reshape(-1).relu().view(4, 3) | {a}.sin()
{a}.split(2, 0)[0].repeat(2, 1) | torch.cat([torch.cat([{a}[:1]]), {a}[1:]]) | {a}.chunk(4, 0)[0].expand(4, 3)
{a} * {b} | {a} + {b} | {a} / ({b} + 9) | torch.where({a} > 0, {a}, {b}) | torch.atan2({a}, {b} + 5) | {a} * {b}
{a}.detach() | {a}.contiguous()
"""
STEPS_AT_RANDOM = [step.strip() for line in STEPS.strip().splitlines() for step in line.split("|")]


def program(seed: int) -> tuple[Any, str, list[tuple[int, str]]]:
    """A function of x and y, its text, and what is written before backward: to which input or result, and how."""
    draw = random.Random(seed)
    names, lines = ["x", "y"], []
    for number in range(draw.randint(2, 6)):
        step = draw.choice(STEPS_AT_RANDOM).format(a=draw.choice(names[-3:]), b=draw.choice(names))
        lines.append(f"    v{number} = {step}\n")
        names.append(f"v{number}")
    given = [names[-1], *draw.sample(names[2:], min(len(names) - 2, 2))]
    text = f"def f(x, y):\n{''.join(lines)}    return {', '.join(given)}\n"
    namespace: dict[str, Any] = {"torch": torch, "F": F}
    exec(text, namespace)
    writes = [(draw.randrange(2 + len(given)), draw.choice(["data.fill_", "add_"])) for _ in range(draw.randint(1, 2))]
    return namespace["f"], text, writes


def outcome(function: Any, writes: list[tuple[int, str]], frozen: bool) -> list[Any]:
    generator = torch.Generator().manual_seed(0)
    x, y = (torch.randn(4, 3, generator=generator) for _ in range(2))
    leaves = [x.requires_grad_()] if frozen else [x.requires_grad_(), y.requires_grad_()]
    results = function(x, y)
    tensors = [x, y, *results]
    found: list[Any] = []
    try:
        with torch.no_grad():
            for which, how in writes:
                written = tensors[which]
                written.data.fill_(7) if how == "data.fill_" else written.add_(5)
        found += [result.detach().clone() for result in results]
        total: Any = sum((result * (1.3 + number)).sum() for number, result in enumerate(results))
        found += torch.autograd.grad(total, leaves, allow_unused=True) if total.requires_grad else ()
    except RuntimeError as error:
        found.append(type(error))
    return found


@pytest.mark.parametrize("start", range(0, 300, 50))
def test_programs_at_random(start: int) -> None:
    for seed in range(start, start + 50):
        function, text, writes = program(seed)
        frozen = bool(seed % 2)
        framelift.reset()
        options = {"pass_options": {"ignore_profit": True, "min_fuse_set_size": 2}} if seed % 3 == 0 else {}
        lifted = framelift.compile(function, backend="eager", options=options)
        for one, other in zip(outcome(function, writes, frozen), outcome(lifted, writes, frozen), strict=True):
            # (Uses outside of the graph are added up with those inside in an order of their own.)
            same = torch.allclose(one, other, equal_nan=True) if isinstance(one, torch.Tensor) else one == other
            assert same, f"seed {seed}: {writes}\n{text}"
