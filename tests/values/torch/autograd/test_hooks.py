"""Hooks that autograd calls: of modules, of tensors and of leaves, registered outside of lifted code and inside."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterator
from typing import Any

import pytest
import torch
from torch import Tensor, nn
from torch.utils.hooks import RemovableHandle

import framelift
from tests.helpers import check
from tests.helpers.same import Comparison

BACKENDS = pytest.mark.parametrize("backend", ["eager", "aot_eager"])
X = torch.linspace(-1, 1, 12).reshape(3, 4)
ROW = torch.linspace(-1, 1, 4)


@pytest.fixture(autouse=True)
def numbers_of_hooks() -> Iterator[None]:
    before = RemovableHandle.next_id
    yield
    RemovableHandle.next_id = max(RemovableHandle.next_id, before)


def leaf(size: int = 4) -> Tensor:
    torch.manual_seed(3)
    return torch.randn(size, requires_grad=True)


def net() -> nn.Sequential:
    torch.manual_seed(0)
    return nn.Sequential(nn.Linear(4, 4), nn.Tanh(), nn.Linear(4, 2))


class Pair(nn.Module):
    def forward(self, a: Tensor, b: Tensor, scale: float) -> tuple[Tensor, Any, Tensor]:
        return a * 2, scale, (a * b).tanh()


class TwoTowers(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.pair = Pair()
        self.first, self.second = nn.Linear(4, 4), nn.Linear(4, 4)

    def forward(self, x: Tensor) -> Tensor:
        a, scale, b = self.pair(self.first(x), self.second(x), 3.0)
        return a.sum() if scale < 0 else b.sum() + a.square().sum()


class OneOfTwo(TwoTowers):
    """A result of a module through which no gradient comes."""

    def forward(self, x: Tensor) -> Tensor:
        return self.pair(self.first(x), self.second(x), 3.0)[0].sum()


def train(model: nn.Module, x: Tensor) -> Any:
    loss = model(x).square().sum()
    loss.backward()
    return loss.detach()


def doubled(module: nn.Module, inputs: Any, outputs: Any) -> Any:
    return tuple([None if gradient is None else gradient * 2 for gradient in inputs])


def seen(module: Any, inputs: Any, outputs: Any) -> None:
    module.seen = [None if gradient is None else gradient.clone() for gradient in (*inputs, *outputs)]


def seen_and_scaled(module: Any, inputs: Any, outputs: Any) -> Any:
    module.calls = getattr(module, "calls", 0) + 1
    return tuple([None if gradient is None else gradient * module.calls for gradient in inputs])


def clipped(module: nn.Module, outputs: Any) -> Any:
    return tuple([gradient.clamp(-0.1, 0.1) for gradient in outputs])


def unchanged(module: nn.Module, *given: Any) -> None:
    pass


HOOKS = [doubled, seen, seen_and_scaled, unchanged]


@BACKENDS
@pytest.mark.parametrize("place", [1, 2, None])
@pytest.mark.parametrize("hook", HOOKS, ids=lambda hook: hook.__name__)
def test_of_modules(hook: Any, place: int | None, backend: str) -> None:
    model = net()
    (model if place is None else model[place]).register_full_backward_hook(hook)
    check(train, model, X.clone().requires_grad_(), backend=backend, fullgraph=hook is not seen)


@BACKENDS
@pytest.mark.parametrize("hook", HOOKS, ids=lambda hook: hook.__name__)
def test_of_all_modules(hook: Any, backend: str) -> None:
    model = net()
    for module in model.modules():
        module.register_full_backward_hook(hook)
    check(train, model, X, backend=backend, expect_breaks=None)


@BACKENDS
def test_before_the_backward_of_modules(backend: str) -> None:
    model = net()
    model[2].register_full_backward_pre_hook(clipped)
    model[2].register_full_backward_pre_hook(unchanged)
    model[0].register_full_backward_pre_hook(clipped)
    model[0].register_full_backward_hook(doubled)
    check(train, model, X.clone().requires_grad_(), backend=backend)


@BACKENDS
@pytest.mark.parametrize("model", [TwoTowers, OneOfTwo])
@pytest.mark.parametrize("hook", [doubled, seen, seen_and_scaled], ids=lambda hook: hook.__name__)
def test_of_modules_with_several_tensors(hook: Any, model: Any, backend: str) -> None:
    torch.manual_seed(1)
    made = model()
    made.pair.register_full_backward_hook(hook)
    check(train, made, X, backend=backend, expect_breaks=None)


def test_a_warning_of_a_module_whose_inputs_require_no_gradients() -> None:
    heard = []
    for wrap in (lambda function: function, lambda function: framelift.compile(function, backend="eager")):
        model = net()
        model[0].register_full_backward_hook(seen)
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            wrap(train)(model, X)
        heard.append([(str(each.message), each.filename, each.lineno) for each in caught])
    assert heard[0] == heard[1] and heard[0]


@BACKENDS
@pytest.mark.parametrize("hook", HOOKS, ids=lambda hook: hook.__name__)
def test_a_backward_behind_the_frame(hook: Any, backend: str) -> None:
    """Autograd calls the hooks, which Python has registered."""

    class Outer(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.inner = net()

        def forward(self, x: Tensor) -> Tensor:
            y = x * 2 + 1
            y = self.inner(y)
            return (y + 1).square().sum()

    outcomes = []
    for wrap in (lambda model: model, lambda model: framelift.compile(model, backend=backend)):
        model = Outer()
        model.inner.register_full_backward_hook(hook)
        lifted, leaves = wrap(model), []
        for number in range(3):
            x = (X + number).requires_grad_()
            lifted(x).backward()
            leaves.append(x)
        gradients = [each.grad for each in (*leaves, *model.parameters())]
        outcomes.append([*gradients, vars(model.inner).get("seen")])
    Comparison().compare(*outcomes, "gradients, and what hooks have seen")


def test_added_and_removed_after_a_capture() -> None:
    outcomes = []
    for wrap in (lambda function: function, lambda function: framelift.compile(function, backend="eager")):
        model, run, found = net(), wrap(train), []

        def step(model: Any = model, run: Any = run, found: Any = found) -> None:
            x = X.clone().requires_grad_()
            run(model, x)
            found.append(x.grad)

        step()
        handle = model[1].register_full_backward_hook(doubled)
        step()
        other = nn.modules.module.register_module_full_backward_hook(doubled)
        step()
        other.remove()
        step()
        handle.remove()
        step()
        outcomes.append(found)
    Comparison().compare(*outcomes, "gradients")
    assert not torch.equal(outcomes[0][0], outcomes[0][1]) and torch.equal(outcomes[0][0], outcomes[0][-1])


def for_a_while(model: Any, x: Tensor) -> Any:
    found: list[Any] = []
    handle = model[2].register_full_backward_hook(lambda module, inputs, outputs: found.append(outputs[0].sum()))
    other = model[1].register_full_backward_hook(doubled)
    loss = model(x).square().sum()
    loss.backward()
    handle.remove()
    other.remove()
    return loss.detach(), found


def forward_for_a_while(model: Any, x: Tensor) -> Any:
    found: list[Any] = []
    handle = model[0].register_forward_hook(lambda module, args, out: found.append(out.sum()))
    other = model[0].register_forward_pre_hook(lambda module, args: (args[0] * 2,))
    y = model(x).sum()
    handle.remove()
    other.remove()
    return y, found


def everywhere(model: Any, x: Tensor) -> Any:
    found: list[str] = []
    register = nn.modules.module.register_module_full_backward_hook
    handle = register(lambda module, inputs, outputs: found.append(type(module).__name__))
    try:
        model(x).sum().backward()
    finally:
        handle.remove()
    return found


def in_a_block(model: Any, x: Tensor) -> Any:
    y = model(x)
    with y.register_hook(lambda gradient: gradient * 2):
        y.sum().backward()


@BACKENDS
@pytest.mark.parametrize("program", [for_a_while, forward_for_a_while, everywhere, in_a_block])
def test_registered_inside(program: Callable[..., Any], backend: str) -> None:
    """The number of a hook is another one each time, and no reason to capture again."""
    x = X.clone().requires_grad_()
    check(program, net(), x, backend=backend, fullgraph=True, deterministic=False)
    if program is forward_for_a_while:
        lifted = framelift.compile(program, backend=backend)
        model, before = net(), framelift.counters().captures
        numbers = []
        for _ in range(5):
            numbers.append(RemovableHandle.next_id)
            lifted(model, x)
        assert framelift.counters().captures == before + 1
        assert numbers == list(range(numbers[0], numbers[0] + 10, 2))


def test_registered_inside_for_good() -> None:
    def program(module: nn.Module, x: Tensor) -> Any:
        handle = module.register_forward_hook(lambda module, args, out: out + 1)
        return module(x), handle

    lifted = framelift.compile(program, backend="eager")
    module = nn.Linear(4, 4)
    before = module(ROW)
    results = [lifted(module, ROW) for _ in range(3)]
    for number, (result, _) in enumerate(results, 1):
        torch.testing.assert_close(result, before + number)
    assert list(module._forward_hooks) == [handle.id for _, handle in results]
    results[1][1].remove()
    torch.testing.assert_close(module(ROW), before + 2)


def of_a_leaf(x: Tensor, w: Tensor) -> Any:
    handle = w.register_hook(lambda gradient: gradient * 2)
    (x * w).sum().backward()
    handle.remove()
    return w.grad


def of_a_leaf_for_good(x: Tensor, w: Tensor) -> None:
    w.register_hook(lambda gradient: gradient * 2)
    (x * w).sum().backward()


def behind_a_leaf(x: Tensor, w: Tensor) -> Any:
    found: list[Any] = []

    def hook(leaf: Tensor) -> None:
        assert leaf.grad is not None
        found.append(leaf.grad.clone())
        leaf.grad = None

    handle = w.register_post_accumulate_grad_hook(hook)
    (x * w).exp().sum().backward()
    handle.remove()
    return found


@BACKENDS
@pytest.mark.parametrize("program", [of_a_leaf, of_a_leaf_for_good, behind_a_leaf])
def test_of_leaves(program: Callable[..., Any], backend: str) -> None:
    check(program, ROW, leaf(), backend=backend, fullgraph=True, deterministic=False)


def test_of_a_leaf_and_a_backward_behind_the_frame() -> None:
    def program(x: Tensor, w: Tensor) -> Any:
        w.register_hook(lambda gradient: gradient * 2)
        return (x * w).sum()

    found = []
    for run in (program, framelift.compile(program, backend="eager")):
        w = leaf()
        for _ in range(2):
            run(ROW, w).backward()
        found.append(w.grad)
    Comparison().compare(*found, "the gradient")


def changed_in_between(x: Tensor, w: Tensor) -> Any:
    scale = [1.0]
    y = x * w
    y.register_hook(lambda gradient: gradient * scale[0])
    scale[0] = 5.0
    y.sum().backward()


def assigned_in_between(x: Tensor, w: Tensor) -> Any:
    scale = 1.0
    y = x * w
    y.register_hook(lambda gradient: gradient * scale)
    scale = 5.0
    y.sum().backward()


def assigned_in_a_loop(x: Tensor, w: Tensor) -> Any:
    total = torch.zeros(())
    for number in range(3):
        y = x * w
        y.register_hook(lambda gradient: gradient * number)  # noqa: B023
        total = total + y.sum()
    total.backward()


def assigned_by_another(x: Tensor, w: Tensor) -> Any:
    scale = 1.0

    def set_scale() -> None:
        nonlocal scale
        scale = 7.0

    y = x * w
    y.register_hook(lambda gradient: gradient * scale)
    set_scale()
    y.sum().backward()


def changes_and_counts(x: Tensor, w: Tensor) -> Any:
    found: list[Any] = []

    def hook(gradient: Tensor) -> Tensor:
        found.append(gradient)
        return gradient * len(found)

    y = x * w
    y.register_hook(hook)
    z = y.sin()
    z.register_hook(hook)
    (z.exp() + y).sum().backward(retain_graph=True)
    z.sum().backward()
    return found


def taken_away(x: Tensor, w: Tensor) -> Any:
    found: list[Any] = []
    y = x * w
    handle = y.register_hook(found.append)
    y.sum().backward(retain_graph=True)
    handle.remove()
    y.sum().backward()
    return found


def written_in_between(x: Tensor, w: Tensor) -> Any:
    """The hook is for the tensor as it was."""
    found: list[Any] = []
    y = x * w
    y.register_hook(lambda gradient: found.append(gradient.clone()))
    y.mul_(2)
    y.exp().sum().backward()
    return found


@BACKENDS
def test_a_tensor_that_is_written_to_behind_its_hook(backend: str) -> None:
    check(written_in_between, ROW, leaf(), backend=backend, expect_breaks=None)


def test_numbers_of_hooks() -> None:
    def program(module: Any, x: Tensor) -> Any:
        first = module.register_forward_hook(lambda module, args, out: out + 1)
        second = module.register_forward_hook(lambda module, args, out: out * 2)
        known = first.id < second.id, first.id == first.id, list(module._forward_hooks) == [first.id, second.id]
        first.remove()
        first.remove()
        y = module(x), first.id in module._forward_hooks, second.id in module._forward_hooks
        second.remove()
        return known, y

    check(program, nn.Linear(4, 4), ROW, fullgraph=True, deterministic=False)


PROGRAMS = [changed_in_between, assigned_in_between, assigned_in_a_loop, assigned_by_another]


@BACKENDS
@pytest.mark.parametrize("program", [*PROGRAMS, changes_and_counts, taken_away], ids=lambda program: program.__name__)
def test_hooks_are_called_when_backward_is(program: Callable[..., Any], backend: str) -> None:
    check(program, ROW, leaf(), backend=backend, fullgraph=True)


SCALE = {"now": 1.0}
FACTOR = 1.0


def by_a_dict(x: Tensor, w: Tensor) -> Any:
    y = x * w
    y.register_hook(lambda gradient: gradient * SCALE["now"])
    return y.sum()


def by_a_global(x: Tensor, w: Tensor) -> Any:
    y = x * w
    y.register_hook(lambda gradient: gradient * FACTOR)
    return y.sum()


@BACKENDS
@pytest.mark.parametrize("program", [by_a_dict, by_a_global], ids=lambda program: program.__name__)
def test_what_a_hook_reads_later(program: Callable[..., Any], backend: str, monkeypatch: Any) -> None:
    found = []
    for run in (program, framelift.compile(program, backend=backend)):
        w = leaf()
        monkeypatch.setitem(SCALE, "now", 1.0)
        monkeypatch.setitem(globals(), "FACTOR", 1.0)
        loss = run(ROW, w)
        monkeypatch.setitem(SCALE, "now", 5.0)
        monkeypatch.setitem(globals(), "FACTOR", 5.0)
        loss.backward()
        found.append(w.grad)
    Comparison().compare(*found, "the gradient")


def test_a_hook_that_would_do_the_same_at_any_time_is_in_the_graph() -> None:
    def program(x: Tensor, w: Tensor, scale: float) -> Any:
        y = x * w
        y.register_hook(lambda gradient: torch.clamp(gradient, -scale, scale))
        return y.exp().sum()

    check(program, ROW, leaf(), 0.5, fullgraph=True)


def test_derivatives_past_a_hook_are_left_to_python() -> None:
    def program(x: Tensor, w: Tensor) -> Any:
        found: list[Any] = []
        y = x * w
        y.register_hook(found.append)
        return torch.autograd.grad(y.exp().sum(), w), found

    check(program, ROW, leaf(), expect_breaks=None)
