"""Backward through some results of a compiled graph: what only the others depend on gets no gradient."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import nn

import framelift
from tests.backends.test_users_backends import simplified_boxed

COMPILERS = pytest.mark.parametrize("backend", ["aot_eager", "inductor", simplified_boxed])
CHEAP = pytest.mark.parametrize("backend", ["aot_eager", simplified_boxed])

Function = Callable[..., Any]


def leaf(*shape: int) -> torch.Tensor:
    return torch.randn(*shape or (3, 3), requires_grad=True)


def frozen_branch(a, b, c):
    with torch.no_grad():
        still = (b * 2).sum()
    return (a * still + a.detach() * c).sum(), (b * b.detach()).sum(), (a * b * c).sum()


def written_within(a, b, c):
    y = torch.zeros_like(a)
    first = y[0]
    before = (a + y).sum()
    y[1:].add_(b[1:])
    return before, first.sum() + c.sum() * 0, (c * 2).sum()


def views(a, b, c):
    y = a * b
    return y[0], y.t(), (c + 1).view(-1), b.unsqueeze(0)


def detached_in_place(a, b, c):
    y = a * 2
    z = (y + b).sum()
    y.detach_()
    return z, (y * c).sum()


def of_several(a, b, c):
    left, right = (a * b).chunk(2, 1)
    values, places = c.max(0)
    return left.sum(), right, values, places


def loss_and_part(a, b, c):
    hidden = torch.relu(a @ b)
    return (hidden @ c).mean(), hidden


def input_written(a, b, c):
    d = torch.ones_like(a)
    d.mul_(a)
    return d, (b * c).sum()


def a_leaf_within(a, b, c):
    y = torch.where(a > 0, a, b)
    return y.sum(), torch.stack([b, c]).sum(), torch.linalg.norm(c), a


PROGRAMS = [
    frozen_branch,
    written_within,
    views,
    detached_in_place,
    of_several,
    loss_and_part,
    input_written,
    a_leaf_within,
]


def gradients(run: Function, program: Function, which: int, size: int, how: str) -> list[torch.Tensor | None]:
    torch.manual_seed(size)
    inputs = [leaf(size, size) for _ in range(3)]
    sources = [each * 1 if how == "history" else each for each in inputs]
    result = run(program)(*sources)[which]
    if not result.requires_grad:
        return []
    if how == "grad":
        return list(torch.autograd.grad(result.sum(), inputs, allow_unused=True))
    result.sum().backward(retain_graph=True)
    if how == "twice":
        result.sum().backward()
    return [each.grad for each in inputs]


@COMPILERS
@pytest.mark.parametrize("how", ["backward", "grad", "history", "twice"])
@pytest.mark.parametrize("program", PROGRAMS)
def test_inputs_that_a_result_does_not_depend_on(program: Function, how: str, backend: Any) -> None:
    if backend == "inductor" and how != "backward":
        pytest.skip("what autograd does with one node does not depend on who compiled it")
    lifted = framelift.compile(program, backend=backend)
    for size in (3, 4, 5):
        for which in range(len(program(*[leaf(size, size) for _ in range(3)]))):
            expected = gradients(lambda each: each, program, which, size, how)
            found = gradients(lambda _: lifted, program, which, size, how)
            assert [each is None for each in found] == [each is None for each in expected], (which, size)
            for one, other in zip(found, expected, strict=True):
                torch.testing.assert_close(one, other)


class TwoHeads(nn.Module):
    def __init__(self, is_split: bool) -> None:
        super().__init__()
        self.trunk, self.left, self.right = nn.Linear(4, 4), nn.Linear(4, 2), nn.Linear(4, 2)
        self.is_split = is_split

    def forward(self, x):
        hidden = torch.tanh(self.trunk(x))
        if self.is_split:
            framelift.graph_break()
        return self.left(hidden).sum(), (self.right(x) ** 2).sum()


@COMPILERS
@pytest.mark.parametrize("is_split", [False, True])
@pytest.mark.parametrize("kind", ["decay", "momentum", "adam"])
def test_optimizers_leave_what_got_no_gradient(kind: str, is_split: bool, backend: Any) -> None:
    if backend == "inductor" and kind != "adam":
        pytest.skip("one optimizer is enough for it")
    make: dict[str, Function] = {
        "decay": lambda parameters: torch.optim.SGD(parameters, 0.1, weight_decay=0.5),
        "momentum": lambda parameters: torch.optim.SGD(parameters, 0.1, momentum=0.9),
        "adam": lambda parameters: torch.optim.AdamW(parameters, 0.1, weight_decay=0.5),
    }
    trained = []
    for is_lifted in (False, True):
        torch.manual_seed(0)
        model = TwoHeads(is_split)
        run = framelift.compile(model, backend=backend) if is_lifted else model
        optimizer = make[kind](model.parameters())
        for step in range(6):
            optimizer.zero_grad()
            run(torch.randn(3 + step % 3, 4))[step // 2 % 2].backward()
            optimizer.step()
        trained.append([each.detach().clone() for each in model.parameters()])
    torch.testing.assert_close(trained[1], trained[0])


@CHEAP
def test_graphs_that_nothing_comes_back_to(backend: Any) -> None:
    """What AOTAutograd makes of no gradient is zeros, which would go on into the graph before."""

    def f(weight, x, other):
        hidden = (weight * x).sin()
        framelift.graph_break()
        return (hidden * other).sum(), other.sum()

    weight, other = leaf(), leaf()
    lifted = framelift.compile(f, backend=backend)
    for _ in range(2):
        lifted(weight, torch.randn(3, 3), other)[1].backward()
    assert weight.grad is None and torch.equal(other.grad, torch.full((3, 3), 2.0))
    lifted(weight, torch.randn(3, 3), other)[0].backward()
    assert weight.grad is not None


@CHEAP
def test_hooks_of_tensors_are_not_called_without_a_gradient(backend: Any) -> None:
    calls = []
    one, other = leaf(), leaf()
    middle = other.clone()
    other.register_hook(lambda gradient: calls.append(("leaf", gradient.shape)))
    middle.register_hook(lambda gradient: calls.append(("middle", gradient.shape)) or gradient * 2)
    lifted = framelift.compile(lambda a, b: (a.sum(), (b * 2).sum()), backend=backend)
    lifted(one, middle)[0].backward()
    assert not calls and other.grad is None
    lifted(one, middle)[1].backward()
    assert calls == [("middle", (3, 3)), ("leaf", (3, 3))] and torch.equal(other.grad, torch.full((3, 3), 4.0))


@CHEAP
def test_hooks_of_the_program_keep_their_numbers(backend: Any) -> None:
    one, other = leaf(), leaf()
    lifted = framelift.compile(lambda a, b: (a.sum(), (b * 2).sum()), backend=backend)
    lifted(one, other)
    first = one.register_hook(lambda gradient: None)
    result = lifted(one, other)[0]
    second = result.grad_fn.register_hook(lambda *_: None)
    assert second.id == first.id + 1
    result.backward()
    assert other.grad is None


@CHEAP
def test_both_results_and_gradients_that_stay(backend: Any) -> None:
    one, other = leaf(), leaf()
    lifted = framelift.compile(lambda a, b: (a.sum(), (b * 2).sum()), backend=backend)
    sum(lifted(one, other)).backward()
    lifted(one, other)[0].backward(create_graph=True)
    assert torch.equal(one.grad, torch.full((3, 3), 2.0)) and torch.equal(other.grad, torch.full((3, 3), 2.0))


@CHEAP
def test_graphs_that_reach_the_same_are_called_as_they_are(backend: Any) -> None:
    from framelift.graph.analysis import reach

    made = []
    original = reach._OnlyReached.__init__
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(reach._OnlyReached, "__init__", lambda self, *args: made.append(self) or original(self, *args))
        lifted = framelift.compile(lambda a, b: ((a * b).sum(), (a + b), a.argmax(), b.detach(), a[0]), backend=backend)
        lifted(leaf(), leaf())
        assert not made
        framelift.compile(lambda a, b: ((a * b).sum(), a.sum()), backend=backend)(leaf(), leaf())
        assert made
