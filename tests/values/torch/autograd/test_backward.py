"""`backward()` and `torch.autograd.grad` in lifted code: gradients, `grad` of leaves, and what is left to Python."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch
import torch.nn.functional as F
from torch.utils.checkpoint import checkpoint
from torch.utils.hooks import RemovableHandle

import framelift
from framelift.errors import FullGraphError
from framelift.report import stream
from framelift.report.events import GraphBroke
from tests.helpers import check, transcript
from tests.helpers.same import Comparison

BACKENDS = pytest.mark.parametrize("backend", ["eager", "aot_eager"])
Tensor = torch.Tensor
X = torch.linspace(-1, 1, 12).reshape(3, 4)


def leaf(*shape: int, grad: bool = False) -> Tensor:
    made = torch.linspace(-2, 3, torch.Size(shape).numel()).reshape(shape).requires_grad_()
    if grad:
        made.grad = torch.full(shape, 0.5)
    return made


def loss_of(x: Tensor, *leaves: Tensor) -> Tensor:
    for each in leaves:
        x = torch.tanh(x * each)
    return (x * x).sum()


def one_leaf(x: Tensor, w: Tensor) -> Any:
    loss_of(x, w).backward()


def returns_the_gradient(x: Tensor, w: Tensor) -> Any:
    loss_of(x, w).backward()
    return w.grad, w.grad * 2


def returns_the_loss(x: Tensor, w: Tensor) -> Any:
    y = x * w
    loss = y.tanh().sum()
    loss.backward()
    return loss, y.detach(), loss.requires_grad, loss.grad_fn is not None


def twice_over(x: Tensor, w: Tensor) -> Any:
    for scale in (1.0, 0.5):
        (loss_of(x, w) * scale).backward()
    return w.grad.clone()


def cleared_first(x: Tensor, w: Tensor) -> Any:
    w.grad = None
    loss_of(x, w).backward()


def zeroed_first(x: Tensor, w: Tensor) -> Any:
    if w.grad is not None:
        w.grad.zero_()
    loss_of(x, w).backward()


def dropped_between(x: Tensor, w: Tensor) -> Any:
    loss_of(x, w).backward()
    first, w.grad = w.grad, None
    loss_of(x * 2, w).backward()
    return first


def kept_for_another(x: Tensor, w: Tensor) -> Any:
    loss = loss_of(x, w)
    loss.backward(retain_graph=True)
    loss.backward()


def descends(x: Tensor, w: Tensor) -> Any:
    loss = loss_of(x, w)
    loss.backward()
    with torch.no_grad():
        w -= 0.1 * w.grad
        w.grad.zero_()
    return loss.detach()


def descends_by_data(x: Tensor, w: Tensor) -> Any:
    for _ in range(2):
        w.grad = None
        loss_of(x, w).backward()
        w.data.add_(w.grad, alpha=-0.1)


def with_a_gradient(x: Tensor, w: Tensor) -> Any:
    (x * w).backward(torch.ones_like(x) * 3)


def several_outputs(x: Tensor, w: Tensor) -> Any:
    torch.autograd.backward([(x * w).sum(), w.sin()], [None, torch.ones_like(w)])


def of_a_leaf(x: Tensor, w: Tensor) -> Any:
    w.backward(x.sum(0))
    return x + 1


def a_view_of_what_arrives(x: Tensor, w: Tensor) -> Any:
    arriving = x.sum(0)
    w.view(2, 2).backward(arriving.view(2, 2))
    arriving.add_(1)
    return arriving


def an_expanded_gradient(x: Tensor, w: Tensor) -> Any:
    (w.sum() + x.sum()).backward()


def a_gradient_of_zeros(x: Tensor, w: Tensor) -> Any:
    (w * 0 + x).sum().backward()


def part_of_a_leaf(x: Tensor, w: Tensor) -> Any:
    (x[:, 1:3] * w[1:3]).sum().backward()


def clipped(x: Tensor, w: Tensor) -> Any:
    loss_of(x, w).backward()
    norm = torch.nn.utils.clip_grad_norm_([w], 0.1)
    return norm, w.grad


def clipped_by_value(x: Tensor, w: Tensor) -> Any:
    loss_of(x, w).backward()
    torch.nn.utils.clip_grad_value_([w], 0.1)


def by_grad(x: Tensor, w: Tensor) -> Any:
    (gradient,) = torch.autograd.grad(loss_of(x, w), w)
    return gradient


def by_grad_twice(x: Tensor, w: Tensor) -> Any:
    (gradient,) = torch.autograd.grad(loss_of(x, w), w, create_graph=True)
    return torch.autograd.grad(gradient.square().sum(), w)[0]


def a_penalty(x: Tensor, w: Tensor) -> Any:
    loss = loss_of(x, w)
    (gradient,) = torch.autograd.grad(loss, w, create_graph=True)
    (loss + gradient.square().sum()).backward()


def of_what_is_computed(x: Tensor, w: Tensor) -> Any:
    y = x * w
    return torch.autograd.grad(y.exp().sum(), [y, w])


def unused(x: Tensor, w: Tensor) -> Any:
    y = x.clone().requires_grad_()
    return torch.autograd.grad(loss_of(x, w), [w, y], allow_unused=True)


def of_what_it_makes(x: Tensor, w: Tensor) -> Any:
    y = x.clone().requires_grad_()
    loss_of(y, w).backward()
    return y.grad


def chosen_inputs(x: Tensor, w: Tensor) -> Any:
    y = x.clone().requires_grad_()
    loss_of(y, w).backward(inputs=[y])
    return y.grad


def with_grad_enabled_inside(x: Tensor, w: Tensor) -> Any:
    with torch.no_grad():
        y = x * 2
        with torch.enable_grad():
            loss_of(y, w).backward()
        w.mul_(0.5)


def with_autocast(x: Tensor, w: Tensor) -> Any:
    with torch.autocast("cpu", dtype=torch.bfloat16):
        y = F.linear(x, w[None]) + F.linear(x + 1, w[None])
        loss = y.float().sum()
    loss.backward()
    return y.dtype


def with_constants(x: Tensor, w: Tensor) -> Any:
    weights = torch.tensor([1.0, float("inf"), -0.5, 2.0]).clamp(max=3)
    weights[0] += 1
    loss = F.cross_entropy(x * w * weights, torch.tensor([0, 1, 2]))
    (loss * torch.tensor(2.0, dtype=torch.float64)).backward()
    return loss.detach(), torch.tensor([[True, False]])


def with_dropout(x: Tensor, w: Tensor) -> Any:
    F.dropout(x * w, 0.5).sum().backward()
    return torch.rand(2)


class Cube(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, x: Tensor) -> Tensor:
        ctx.save_for_backward(x)
        return x**3

    @staticmethod
    def backward(ctx: Any, gradient: Tensor) -> Tensor:
        (x,) = ctx.saved_tensors
        return gradient * 3 * x**2


def a_function_of_its_own(x: Tensor, w: Tensor) -> Any:
    (Cube.apply(w) * x).sum().backward()


def checkpointed(x: Tensor, w: Tensor) -> Any:
    torch.utils.checkpoint.checkpoint(lambda y: torch.sin(y * w).exp(), x, use_reentrant=False).sum().backward()


def conditional(x: Tensor, w: Tensor) -> Any:
    loss_of(x, w).backward()
    return "none" if w.grad is None else "some"


def detached(x: Tensor, w: Tensor) -> Any:
    y = x * w
    y.detach_()
    (y * w).sum().backward()


def reads_before_and_after(x: Tensor, w: Tensor) -> Any:
    before = w.grad
    loss_of(x, w).backward()
    return before, w.grad, before is w.grad


def descends_in_place_of_data(x: Tensor, w: Tensor) -> Any:
    loss_of(x, w).backward()
    w.data -= 0.1 * w.grad.data


def deleted(x: Tensor, w: Tensor) -> Any:
    loss_of(x, w).backward()
    gradient = w.grad
    del w.grad
    return gradient, w.grad


def differentiable_gradient(x: Tensor, w: Tensor) -> Any:
    loss_of(x, w).backward(create_graph=True)
    penalty = w.grad.square().sum()
    w.grad = None
    penalty.backward()


def materialized(x: Tensor, w: Tensor) -> Any:
    y = x.clone().requires_grad_()
    return torch.autograd.grad(loss_of(x, w), [w, y], allow_unused=True, materialize_grads=True)


def batched(x: Tensor, w: Tensor) -> Any:
    return torch.autograd.grad((x * w).tanh().sum(1), w, torch.eye(3), is_grads_batched=True)


def retained(x: Tensor, w: Tensor) -> Any:
    y, z = x * w, x + w
    y.retain_grad()
    z.retain_grad()
    before = y.grad
    y.exp().sum().backward()
    return before, y.grad, z.grad


def a_hook_that_is_removed(x: Tensor, w: Tensor) -> Any:
    y = x * w
    handle = y.register_hook(lambda gradient: gradient * 2)
    y.sum().backward(retain_graph=True)
    handle.remove()
    y.sum().backward()


PROGRAMS: list[Callable[..., Any]] = [
    one_leaf,
    returns_the_gradient,
    returns_the_loss,
    twice_over,
    cleared_first,
    zeroed_first,
    dropped_between,
    kept_for_another,
    descends,
    descends_by_data,
    with_a_gradient,
    several_outputs,
    of_a_leaf,
    a_view_of_what_arrives,
    an_expanded_gradient,
    a_gradient_of_zeros,
    part_of_a_leaf,
    clipped,
    clipped_by_value,
    by_grad,
    by_grad_twice,
    a_penalty,
    of_what_is_computed,
    unused,
    of_what_it_makes,
    chosen_inputs,
    with_grad_enabled_inside,
    with_autocast,
    with_constants,
    with_dropout,
    a_function_of_its_own,
    checkpointed,
    conditional,
    detached,
    reads_before_and_after,
    descends_in_place_of_data,
    deleted,
    differentiable_gradient,
    materialized,
    batched,
    retained,
    a_hook_that_is_removed,
]


@BACKENDS
@pytest.mark.parametrize("grad", [False, True], ids=["first", "again"])
@pytest.mark.parametrize("program", PROGRAMS, ids=lambda program: program.__name__)
def test_programs(program: Callable[..., Any], grad: bool, backend: str) -> None:
    check(program, X, leaf(4, grad=grad), backend=backend, fullgraph=True)


def test_a_second_backward_raises_as_in_eager() -> None:
    def program(x: Tensor, w: Tensor) -> Any:
        loss = loss_of(x, w)
        loss.backward()
        loss.backward()

    check(program, X, leaf(4), expect_breaks=None)


@BACKENDS
def test_a_loss_that_was_differentiated(backend: str) -> None:
    """Autograd refuses another backward, in its own words; `check` compares what backward of the results does."""
    lifted = framelift.compile(returns_the_loss, backend=backend, fullgraph=True)
    w = leaf(4)
    loss, *_ = lifted(X, w)
    with pytest.raises(RuntimeError, match="Trying to backward through the graph a second time"):
        loss.backward()
    with pytest.raises(RuntimeError, match="Trying to backward through the graph a second time"):
        torch.autograd.grad(loss, w)


def kept(x: Tensor, w: Tensor) -> Any:
    loss = loss_of(x, w)
    loss.backward(retain_graph=True)
    return loss


def saves_nothing(x: Tensor, w: Tensor) -> Any:
    loss = (x + w).sum()
    loss.backward()
    return loss


def another_branch(x: Tensor, w: Tensor) -> Any:
    y = torch.tanh(x * w)
    (y * 2).sum().backward(retain_graph=True)
    return y, (y * w).sum()


def partly_used_up(x: Tensor, w: Tensor, v: Tensor) -> Any:
    loss = loss_of(x, w)
    both = loss + v.sum()
    loss.backward()
    return both


@BACKENDS
@pytest.mark.parametrize("program", [kept, saves_nothing, another_branch], ids=lambda program: program.__name__)
def test_what_can_be_differentiated_again(program: Callable[..., Any], backend: str) -> None:
    check(program, X, leaf(4), backend=backend, fullgraph=True)


@BACKENDS
def test_what_can_be_differentiated_in_part(backend: str) -> None:
    check(partly_used_up, X, leaf(4), leaf(4), backend=backend, fullgraph=True)
    lifted = framelift.compile(partly_used_up, backend=backend)
    w, v = leaf(4), leaf(4)
    both = lifted(X, w, v)
    (gradient,) = torch.autograd.grad(both, v)
    assert torch.equal(gradient, torch.ones(4))


def no_leaf(x: Tensor, w: Tensor) -> Any:
    return loss_of(x, w.detach()).backward()


def no_scalar(x: Tensor, w: Tensor) -> Any:
    (x * w).backward()


def written_in_between(x: Tensor, w: Tensor) -> Any:
    y = x * w
    z = y.exp()
    z.add_(1)
    z.sum().backward()


@pytest.mark.parametrize("program", [no_leaf, no_scalar, written_in_between], ids=lambda program: program.__name__)
def test_what_autograd_refuses(program: Callable[..., Any]) -> None:
    check(program, X, leaf(4), expect_breaks=None)


def test_an_input_that_was_computed() -> None:
    """Backward leaves the frame, so Python runs it."""

    def program(y: Tensor) -> Any:
        return (y * y).sum().backward()

    lifted = framelift.compile(program, backend="eager")
    for _ in range(2):
        w = leaf(4)
        lifted(w * 2)
        assert w.grad is not None and torch.equal(w.grad, 8 * w.detach())
    with pytest.raises(FullGraphError, match="computed before"):
        framelift.compile(program, backend="eager", fullgraph=True)(leaf(4) * 2)


def hooked(w: Tensor, v: Tensor, log: list[Any]) -> None:
    """Hooks of all kinds: one that changes the gradient, some that note when they are called, an optimizer."""

    def descend(leaf: Tensor) -> None:
        assert leaf.grad is not None
        log.append(("descend", leaf.grad.clone()))
        leaf.sub_(leaf.grad)
        leaf.grad = None

    w.register_hook(lambda gradient: gradient * 3)
    w.register_hook(lambda gradient: log.append(("w", gradient.sum())))
    v.register_hook(lambda gradient: log.append(("v", gradient.sum())))
    v.register_post_accumulate_grad_hook(descend)


def two_leaves(x: Tensor, w: Tensor, v: Tensor) -> Any:
    loss_of(x, w, v).backward()


def other_way_round(x: Tensor, w: Tensor, v: Tensor) -> Any:
    loss_of(x, v, w).backward()


def three_times(x: Tensor, *leaves: Tensor, run: Callable[..., Any], prepare: Callable[..., Any]) -> tuple[Any, int]:
    """What a program leaves behind at its leaves, whose hooks note something; and how often it was captured."""
    log: list[Any] = []
    prepare(*leaves, log)
    before = framelift.counters().captures
    for number in range(3):
        run(x + number, *leaves)
    return [*leaves, *[each.grad for each in leaves], *log], framelift.counters().captures - before


@BACKENDS
@pytest.mark.parametrize("program", [two_leaves, other_way_round], ids=lambda program: program.__name__)
def test_hooks_of_leaves(program: Callable[..., Any], backend: str) -> None:
    """They are called as autograd would call them, in its order."""
    expected, _ = three_times(X, leaf(4), leaf(4), run=program, prepare=hooked)
    lifted = framelift.compile(program, backend=backend, fullgraph=True)
    found, captures = three_times(X, leaf(4), leaf(4), run=lifted, prepare=hooked)
    Comparison().compare(expected, found, "what the program leaves behind")
    assert captures <= 2, "once without a gradient, once with one"


def test_a_hook_that_is_registered_or_removed() -> None:
    seen: list[Tensor] = []
    w, twin = leaf(4), leaf(4)
    lifted = framelift.compile(one_leaf, backend="eager", fullgraph=True)
    for run, given in ((one_leaf, twin), (lifted, w)):
        run(X, given)
        handle = given.register_hook(lambda gradient: seen.append(gradient))
        run(X, given)
        handle.remove()
        run(X, given)
    torch.testing.assert_close(w.grad, twin.grad, rtol=0, atol=0)
    assert len(seen) == 2 and torch.equal(*seen)


@BACKENDS
@pytest.mark.parametrize("register", ["register_hook", "register_prehook"])
def test_hooks_where_gradients_are_added_up(register: str, backend: str) -> None:
    seen: list[int] = []
    w = leaf(4)
    node = torch.autograd.graph.get_gradient_edge(w).node
    getattr(node, register)(lambda *gradients: seen.append(len(gradients)))
    lifted = framelift.compile(one_leaf, backend=backend)
    for _ in range(2):
        lifted(X, w)
    assert len(seen) == 2


def test_a_hook_that_writes_what_backward_needs_is_left_to_python() -> None:
    def program(x: Tensor, w: Tensor, v: Tensor) -> Any:
        (x * w * v).sum().backward()

    def prepare(w: Tensor, v: Tensor, log: list[Any]) -> None:
        def double(other: Tensor) -> Callable[[Tensor], None]:
            def hook(gradient: Tensor) -> None:
                other.data.mul_(2)

            return hook

        w.register_hook(double(v))
        v.register_hook(double(w))

    expected, _ = three_times(X, leaf(4), leaf(4), run=program, prepare=prepare)
    lifted = framelift.compile(program, backend="eager")
    found, _ = three_times(X, leaf(4), leaf(4), run=lifted, prepare=prepare)
    torch.testing.assert_close(found, expected, rtol=0, atol=0)


def a_hook_between(x: Tensor, w: Tensor) -> Any:
    y = x * w
    mask = y.detach() > 0
    y.register_hook(lambda gradient: gradient * 2 * mask)
    y.register_hook(torch.tanh)
    y.exp().sum().backward()


def a_hook_for_later(x: Tensor, w: Tensor) -> Any:
    y = x * w
    y.register_hook(lambda gradient: gradient.clamp(-1, 1))
    return y.exp().sum()


@BACKENDS
@pytest.mark.parametrize("program", [a_hook_between, a_hook_for_later], ids=lambda program: program.__name__)
def test_hooks_of_what_is_computed(program: Callable[..., Any], backend: str) -> None:
    check(program, X, leaf(4), backend=backend, fullgraph=True)


def tells(x: Tensor, w: Tensor) -> Any:
    seen: list[Tensor] = []
    y = x * w
    z = y.exp()
    z.register_hook(seen.append)
    y.register_hook(lambda gradient: seen.append(gradient.sum()))
    z.sum().backward()
    return seen


def tells_twice(x: Tensor, w: Tensor) -> Any:
    seen: list[Tensor] = []
    y = x * w
    y.register_hook(seen.append)
    y.exp().sum().backward(retain_graph=True)
    y.sin().sum().backward()
    return seen


def raises(x: Tensor, w: Tensor) -> Any:
    def hook(gradient: Tensor) -> None:
        raise ValueError("no gradients here")

    y = x * w
    y.register_hook(hook)
    try:
        y.exp().sum().backward()
    except ValueError as error:
        return str(error), x + 1


@BACKENDS
@pytest.mark.parametrize("program", [tells, tells_twice, raises], ids=lambda program: program.__name__)
def test_hooks_that_do_more_than_compute(program: Callable[..., Any], backend: str) -> None:
    """They are called behind the backward, in autograd's order."""
    check(program, X, leaf(4), backend=backend, fullgraph=True)


def tells_later(x: Tensor, w: Tensor, seen: list[Tensor]) -> Any:
    y = x * w
    y.register_hook(seen.append)
    return y.exp().sum()


def tells_now_and_later(x: Tensor, w: Tensor, seen: list[Tensor]) -> Any:
    loss = tells_later(x, w, seen)
    loss.backward(retain_graph=True)
    return loss


def tells_and_changes(x: Tensor, w: Tensor, seen: list[Tensor]) -> Any:
    def hook(gradient: Tensor) -> Tensor:
        seen.append(gradient)
        return gradient * 2

    y = x * w
    y.register_hook(hook)
    y.exp().sum().backward()
    return (w * 2).sum()


@BACKENDS
@pytest.mark.parametrize(
    "program", [tells_later, tells_now_and_later, tells_and_changes], ids=lambda program: program.__name__
)
def test_hooks_that_python_must_register(program: Callable[..., Any], backend: str) -> None:
    """Autograd calls them after the frame, or goes on with what they return."""
    outcomes = []
    for run in (program, framelift.compile(program, backend=backend)):
        w, seen = leaf(4), []
        for _ in range(2):
            run(X, w, seen).backward()
        outcomes.append((w.grad, seen))
    Comparison().compare(*outcomes, "gradients and what the hook has seen")


def test_a_tensor_that_keeps_its_gradient_leaves_the_frame() -> None:
    def program(x: Tensor, w: Tensor) -> Any:
        y = x * w
        y.retain_grad()
        y.exp().sum().backward()
        return y

    lifted = framelift.compile(program, backend="eager")
    assert torch.equal(lifted(X, leaf(4)).grad, program(X, leaf(4)).grad)


@BACKENDS
def test_hooks_on_saved_tensors_around_the_call(backend: str) -> None:
    """Compiled graphs save nothing: while the program wants to hear of it, autograd runs the graph."""

    def counted(run: Callable[..., Any]) -> tuple[int, Tensor]:
        packed: list[Tensor] = []
        w = leaf(4)
        run(X, w)
        w.grad = None

        def pack(tensor: Tensor) -> Tensor:
            packed.append(tensor)
            return tensor

        with torch.autograd.graph.saved_tensors_hooks(pack, lambda tensor: tensor * 2):
            run(X, w)
        assert w.grad is not None
        return len(packed), w.grad

    expected, found = counted(one_leaf), counted(framelift.compile(one_leaf, backend=backend, fullgraph=True))
    assert expected[0] == found[0] > 0
    assert torch.equal(expected[1], found[1])


@BACKENDS
def test_anomaly_mode_around_the_call(backend: str) -> None:
    def program(x: Tensor, w: Tensor) -> Any:
        w.grad = None
        (x * w).sqrt().sum().backward()

    lifted = framelift.compile(program, backend=backend, fullgraph=True)
    for first in (True, False):
        framelift.reset()
        w = leaf(4)
        if first:
            lifted(X.abs(), w)
        with pytest.warns(UserWarning, match="Anomaly Detection"), torch.autograd.detect_anomaly():
            lifted(torch.ones(3, 4), leaf(4).detach().abs().add(1).requires_grad_())
            with pytest.raises(RuntimeError, match="returned nan values"):
                lifted(-X.abs() - 1, leaf(4).detach().abs().add(1).requires_grad_())


@BACKENDS
def test_a_result_that_reaches_beyond_the_frame(backend: str) -> None:
    def program(x: Tensor, w: Tensor, y: Tensor) -> Any:
        loss_of(x, w).backward()
        return (y * 2).sum()

    lifted = framelift.compile(program, backend=backend, fullgraph=True)
    w, v = leaf(4), leaf(4)
    lifted(X, w, v * 3).backward()
    assert v.grad is not None and torch.equal(v.grad, torch.full((4,), 6.0)) and w.grad is not None


def test_the_very_gradient_is_added_to() -> None:
    lifted = framelift.compile(one_leaf, backend="eager", fullgraph=True)
    w = leaf(4)
    lifted(X, w)
    first = w.grad
    lifted(X, w)
    assert w.grad is first
    w.grad = None
    lifted(X, w)
    assert w.grad is not first


def test_guards() -> None:
    def program(x: Tensor, w: Tensor, v: Tensor) -> Any:
        (loss_of(x, w) + v.sin().sum()).backward()

    frozen, given = leaf(4).requires_grad_(False), leaf(4, grad=True)
    told = transcript(
        program,
        [(X, leaf(4), leaf(4)), (X, leaf(4), leaf(4)), (X, given, leaf(4)), (X, leaf(4), frozen), (X, frozen, leaf(4))],
    )
    assert [each.partition("(")[0] for each in told.split(" ")[:2]] == ["miss", "hit"]
    assert "L['w'].grad" in told and "L['v']" in told and told.count("miss") == 4


def test_grad_mode_is_guarded() -> None:
    lifted = framelift.compile(lambda x, w: (x * w).sum().backward(), backend="eager")
    lifted(X, leaf(4))
    with torch.no_grad(), pytest.raises(RuntimeError, match="does not require grad"):
        lifted(X, leaf(4))


@BACKENDS
def test_a_break_behind_backward(backend: str) -> None:
    def program(x: Tensor, w: Tensor) -> Any:
        loss = loss_of(x, w)
        loss.backward()
        framelift.graph_break()
        with torch.no_grad():
            w.sub_(w.grad)
        return loss

    check(program, X, leaf(4), backend=backend, expect_breaks=1)
    check(program, X, leaf(4, grad=True), backend=backend, expect_breaks=1)


@BACKENDS
@pytest.mark.parametrize("grad", [False, True])
def test_a_graph_that_raises_behind_backward(grad: bool, backend: str) -> None:
    """What was accumulated is taken back before Python runs the call."""

    def program(x: Tensor, w: Tensor, index: Tensor) -> Any:
        loss_of(x, w).backward()
        return F.embedding(index, x)

    outside = torch.tensor([1, 7])
    changed = [(X, leaf(4, grad=grad), outside), (X, leaf(4), outside)]
    check(program, X, leaf(4, grad=grad), torch.tensor([1, 2]), changed=changed, backend=backend)


def test_symbolic_sizes() -> None:
    def program(x: Tensor, w: Tensor) -> Any:
        loss = loss_of(x, w) / len(x)
        loss.backward()
        return loss.detach(), w.grad

    for backend in ("eager", "aot_eager"):
        check(
            program,
            X,
            leaf(4),
            changed=[(torch.randn(n, 4), leaf(4)) for n in (5, 6, 7)],
            backend=backend,
            dynamic=True,
            fullgraph=True,
        )


def of_what_requires_none(x: torch.Tensor) -> Any:
    return torch.autograd.grad((x * 2).sum(), x)


@pytest.mark.parametrize("backend", ["eager", "aot_eager"])
def test_gradients_of_what_requires_none(backend: str) -> None:
    check(of_what_requires_none, torch.ones(3), backend=backend, expect_ops=0, expect_breaks=None, expect_hit=False)


@pytest.mark.parametrize("register", ["register_hook", "register_prehook"])
@BACKENDS
def test_hooks_where_gradients_are_added_up_come_and_go(backend: str, register: str) -> None:
    """What was captured without them is for calls without them."""
    seen: list[tuple[int, ...]] = []
    w = leaf(4)
    lifted = framelift.compile(one_leaf, backend=backend, fullgraph=True)
    lifted(X, w)
    lifted(X, w)
    node = torch.autograd.graph.get_gradient_edge(w).node
    handle = getattr(node, register)(lambda *gradients: seen.append(tuple(map(len, gradients))))
    lifted(X, w)
    handle.remove()
    lifted(X, w)
    del node
    lifted(X, w)
    assert len(seen) == 1
    twin = leaf(4)
    for _ in range(5):
        one_leaf(X, twin)
    assert torch.equal(w.grad, twin.grad)


def grad_through(w: Tensor, h: Tensor) -> Any:
    return torch.autograd.grad((h * h * w).sum(), [w], allow_unused=True)


def grad_to_both(w: Tensor, h: Tensor) -> Any:
    return torch.autograd.grad((h * h).sum(), [w, h], allow_unused=True)


def grad_to_nothing_here(w: Tensor, h: Tensor) -> Any:
    return torch.autograd.grad((h * h).sum(), w, allow_unused=True)


def backward_through(w: Tensor, h: Tensor) -> Any:
    (h * h * w).sum().backward(inputs=[w])
    return w.grad


def grad_up_to_it(w: Tensor, h: Tensor) -> Any:
    return torch.autograd.grad((h * h * w).sum(), h)


@BACKENDS
@pytest.mark.parametrize(
    ("program", "breaks"),
    [(grad_through, 1), (grad_to_both, 1), (grad_to_nothing_here, 1), (backward_through, 1), (grad_up_to_it, 0)],
)
def test_derivatives_by_way_of_what_was_computed_before(program: Any, breaks: int, backend: str) -> None:
    """Behind an input that is no leaf there may be another one."""
    events: list[Any] = []
    lifted = framelift.compile(program, backend=backend)
    with stream.listening(events.append, GraphBroke):
        for _ in range(2):
            given, twins = leaf(4), leaf(4)
            expected, found = program(twins, twins * 2), lifted(given, given * 2)
            Comparison().compare((expected, twins.grad), (found, given.grad), "result")
    assert len(events) == breaks


@BACKENDS
def test_hooks_registered_beside_those_of_modules(backend: str) -> None:
    """What capture registers is not counted: hooks are numbered as in eager mode."""

    def program(x: Tensor, model: torch.nn.Module) -> Any:
        y = model(x)
        y.register_hook(lambda gradient: gradient * 2)
        handle = model.register_forward_hook(lambda module, args, result: result * 2)
        model(x).sum().backward()
        y.sum().backward()
        handle.remove()
        return handle.id, model.weight.grad

    model, twin = (torch.nn.Linear(4, 2) for _ in range(2))
    twin.load_state_dict(model.state_dict())
    lifted = framelift.compile(program, backend=backend, fullgraph=True)
    before = RemovableHandle.next_id
    for _ in range(3):
        number, gradient = lifted(X, model)
        expected = program(X, twin)
        assert before <= number < RemovableHandle.next_id and torch.equal(gradient, expected[1])


@BACKENDS
@pytest.mark.parametrize("mode", [torch.inference_mode, torch.no_grad])
def test_derivatives_where_none_are_recorded(mode: Any, backend: str) -> None:
    def of_a_leaf(x, w):
        return torch.autograd.grad(w, w, torch.ones_like(w))[0] + x

    def of_a_loss(x, w):
        return torch.autograd.grad((w**2).sum(), w)[0] + x

    def backward_of_a_loss(x, w):
        (w**2).sum().backward()

    for function in (of_a_leaf, of_a_loss, backward_of_a_loss):

        def program(x, w, function=function):
            with mode():
                return function(x, w)

        check(program, X, leaf(3, 4), backend=backend, expect_breaks=None, expect_ops=0)
        with mode():
            check(function, X, leaf(3, 4), backend=backend, expect_breaks=None, expect_ops=0)


@BACKENDS
@pytest.mark.parametrize("of_argument", [False, True])
def test_a_checkpoint_whose_tensors_change_before_backward(of_argument: bool, backend: str) -> None:
    """It computes with parameters as they are then; arguments that it was given must not have changed."""
    seen: list[Any] = []
    for lifts in (False, True):
        torch.manual_seed(0)
        model = torch.nn.Linear(4, 2)

        def program(x: Tensor, model: torch.nn.Linear = model) -> Any:
            x = x * 2
            loss = checkpoint(model, x, use_reentrant=False).square().sum()
            with torch.no_grad():
                (x if of_argument else model.weight).add_(0.5)
            loss.backward()
            return loss

        run = framelift.compile(program, backend=backend) if lifts else program
        try:
            loss = run(X)
        except RuntimeError as error:
            loss = "modified by an inplace operation" in str(error)
        seen.append([loss, model.weight, model.weight.grad, model.bias.grad])
    if backend == "eager" or not isinstance(seen[1][0], bool):
        Comparison().compare(*seen, "result")


@BACKENDS
def test_sizes_that_depend_on_data_behind_backward(backend: str) -> None:
    def program(x: Tensor, w: Tensor) -> Any:
        loss = loss_of(x, w)
        loss.backward()
        return loss, x[x > 0].sum()

    check(program, X, leaf(4), changed=[(-X, leaf(4)), (X + 3, leaf(4))], backend=backend, expect_breaks=None)
