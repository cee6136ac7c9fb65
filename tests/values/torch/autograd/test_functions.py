"""Autograd functions that are differentiated: both methods are bodies in one graph."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from torch import nn

import framelift
from tests.helpers import check, transcript

X = torch.arange(12.0).reshape(3, 4) / 7 - 0.5
BACKENDS = pytest.mark.parametrize("backend", ["eager", "aot_eager"])


def leaf(*shape: int) -> torch.Tensor:
    count = torch.Size(shape or (3, 4)).numel()
    return (torch.arange(float(count)).reshape(shape or (3, 4)) / 7 - 0.5).requires_grad_()


class Scaled(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, x: torch.Tensor, w: torch.Tensor, factor: float, flag: bool = True) -> torch.Tensor:
        ctx.save_for_backward(x, w)
        ctx.factor = factor
        return x * w * factor

    @staticmethod
    def backward(ctx: Any, *grads: torch.Tensor) -> Any:
        x, w = ctx.saved_tensors
        return grads[0] * w * ctx.factor, (grads[0] * x * ctx.factor).sum(0), None, None


class Linear(torch.autograd.Function):
    """The way it is written in torch's own notes: an optional argument, gradients where they are needed."""

    @staticmethod
    def forward(ctx: Any, x: torch.Tensor, w: torch.Tensor, b: torch.Tensor | None = None) -> torch.Tensor:
        ctx.save_for_backward(x, w, b)
        out = x.mm(w.t())
        if b is not None:
            out += b.unsqueeze(0).expand_as(out)
        return out

    @staticmethod
    def backward(ctx: Any, *grads: torch.Tensor) -> Any:
        x, w, b = ctx.saved_tensors
        grad_x = grad_w = grad_b = None
        if ctx.needs_input_grad[0]:
            grad_x = grads[0].mm(w)
        if ctx.needs_input_grad[1]:
            grad_w = grads[0].t().mm(x)
        if b is not None and ctx.needs_input_grad[2]:
            grad_b = grads[0].sum(0)
        return grad_x, grad_w, grad_b


class Sorted(torch.autograd.Function):
    """Two results, one of them not differentiable; what backward uses is computed in forward."""

    @staticmethod
    def forward(ctx: Any, x: torch.Tensor) -> Any:
        indices = x.sin().argsort()
        ctx.mark_non_differentiable(indices)
        ctx.save_for_backward(indices)
        return x.gather(-1, indices), indices

    @staticmethod
    def backward(ctx: Any, *grads: torch.Tensor) -> Any:
        (indices,) = ctx.saved_tensors
        return torch.zeros_like(grads[0]).scatter(-1, indices, grads[0])


class Kept(torch.autograd.Function):
    """Tensors hung on the context, a random mask, and a question about memory layout."""

    @staticmethod
    def forward(ctx: Any, x: torch.Tensor, p: float) -> torch.Tensor:
        ctx.mask = torch.bernoulli(torch.full_like(x, p))
        ctx.shape = x.shape
        return x * ctx.mask

    @staticmethod
    def backward(ctx: Any, *grads: torch.Tensor) -> Any:
        grad = grads[0] if grads[0].is_contiguous() else grads[0].contiguous()
        assert grad.shape == ctx.shape
        return grad.view(-1).view(ctx.shape) * ctx.mask, None


class WithSetup(torch.autograd.Function):
    @staticmethod
    def forward(x: torch.Tensor, factor: float = 3.0) -> torch.Tensor:
        return x.exp() * factor

    @staticmethod
    def setup_context(ctx: Any, inputs: Any, output: Any) -> None:
        ctx.save_for_backward(output)
        ctx.count = len(inputs)

    @staticmethod
    def backward(ctx: Any, *grads: torch.Tensor) -> Any:
        return grads[0] * ctx.saved_tensors[0] * ctx.count, None


class Once(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, x: torch.Tensor) -> torch.Tensor:
        ctx.save_for_backward(x)
        return x.sin()

    @staticmethod
    @torch.autograd.function.once_differentiable
    def backward(ctx: Any, *grads: torch.Tensor) -> Any:
        return grads[0] * ctx.saved_tensors[0].cos()


class Cubed(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, x: torch.Tensor) -> torch.Tensor:
        ctx.save_for_backward(x)
        return x**3

    @staticmethod
    def backward(ctx: Any, *grads: torch.Tensor) -> Any:
        return 3 * grads[0] * ctx.saved_tensors[0] ** 2


class Itself(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, x: torch.Tensor) -> torch.Tensor:
        return x

    @staticmethod
    def backward(ctx: Any, *grads: torch.Tensor) -> Any:
        return grads[0] * 3


class Reversal(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, x: torch.Tensor, alpha: float) -> torch.Tensor:
        ctx.alpha = alpha
        return x.view_as(x)

    @staticmethod
    def backward(ctx: Any, *grads: torch.Tensor) -> Any:
        return grads[0].neg() * ctx.alpha, None


class Nested(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, x: torch.Tensor) -> torch.Tensor:
        ctx.save_for_backward(x)
        return Cubed.apply(x) + 1

    @staticmethod
    def backward(ctx: Any, *grads: torch.Tensor) -> Any:
        return grads[0] * 2 * ctx.saved_tensors[0]


W = (torch.arange(16.0).reshape(4, 4) / 9 - 0.7).requires_grad_()


class FromOutside(torch.autograd.Function):
    """Uses a tensor it is not given: no gradient goes there."""

    @staticmethod
    def forward(ctx: Any, x: torch.Tensor) -> torch.Tensor:
        return x @ W

    @staticmethod
    def backward(ctx: Any, *grads: torch.Tensor) -> Any:
        return grads[0] @ W.t() + W.sum()


PROGRAMS: dict[str, tuple[Any, tuple[Any, ...]]] = {
    "saved tensors and constants": (lambda x, w: Scaled.apply(x, w, 2.0).sum(), (leaf(), leaf(4))),
    "some need no gradient": (lambda x, w: Scaled.apply(x, w, 2.0) + 1, (X, leaf(4))),
    "optional argument": (lambda x, w, b: Linear.apply(x, w, b), (leaf(2, 4), leaf(3, 4), leaf(3))),
    "argument left out": (lambda x, w: Linear.apply(x, w), (X, leaf(3, 4))),
    "the same tensor twice": (lambda x: Linear.apply(x, x), (leaf(3, 3),)),
    "two results": (lambda x: Sorted.apply(x)[0] * 2, (leaf(),)),
    "two results returned": (lambda x: Sorted.apply(x * 2), (leaf(),)),
    "tensors on the context": (lambda x: Kept.apply(x, 0.5).t() * 2, (leaf(),)),
    "strides of gradients": (lambda x: Cubed.apply(x).t().reshape(-1)[::2], (leaf(),)),
    "setup_context": (lambda x: WithSetup.apply(x, 2.0) + WithSetup.apply(x), (leaf(),)),
    "once differentiable": (lambda x: Once.apply(x) + 1, (leaf(),)),
    "returns its argument": (lambda x: Itself.apply(x) * 2, (leaf(),)),
    "returns a view": (lambda x: Reversal.apply(x * 1, 0.5), (leaf(),)),
    "nested": (lambda x: Nested.apply(x) * 2, (leaf(),)),
    "tensors from outside": (lambda x: FromOutside.apply(x), (leaf(),)),
    "in a row": (lambda x: Cubed.apply(Cubed.apply(x)) + Cubed.apply(x), (leaf(),)),
    "changed afterwards": (lambda x: Cubed.apply(x * 1).mul_(2), (leaf(),)),
}


@BACKENDS
@pytest.mark.parametrize("name", PROGRAMS)
def test_differentiated(name: str, backend: str) -> None:
    function, args = PROGRAMS[name]
    assert len(check(function, *args, backend=backend).graphs) == 1


def test_only_forward_without_a_use_of_the_gradient() -> None:
    """The same function where nothing requires a gradient is another entry."""

    def f(x: torch.Tensor) -> torch.Tensor:
        return Cubed.apply(x)

    assert transcript(f, [(X,), (leaf(),), (X,), (leaf(),)]).count("hit") == 2


def test_differentiated_twice() -> None:
    for function in (Cubed, Nested):
        x = leaf()
        results = []
        for f in (lambda x: function.apply(x), framelift.compile(lambda x: function.apply(x), backend="eager")):  # noqa: B023
            (first,) = torch.autograd.grad(f(x).sum(), x, create_graph=True)
            (second,) = torch.autograd.grad(first.sum(), x)
            results.append((first, second))
        assert all(torch.equal(mine, theirs) for mine, theirs in zip(*results, strict=True))


def test_once_differentiable_is_so() -> None:
    x = leaf()
    y = framelift.compile(lambda x: Once.apply(x), backend="eager", fullgraph=True)(x)
    (first,) = torch.autograd.grad((y * y).sum(), x, create_graph=True)
    with pytest.raises(RuntimeError, match="once_differentiable"):
        first.sum().backward()


def test_saved_tensors_are_watched() -> None:
    """What was saved must not be changed before backward runs: torch says so."""
    x = leaf()
    lifted = framelift.compile(lambda x: Cubed.apply(x), backend="eager", fullgraph=True)
    y = x * 1
    z = lifted(y)
    y.data.add_(0)
    y.add_(1)
    with pytest.raises(RuntimeError, match="modified by an inplace operation"):
        z.sum().backward()


class Counts(torch.autograd.Function):
    calls: list[str] = []

    @staticmethod
    def forward(ctx: Any, x: torch.Tensor) -> torch.Tensor:
        return x * 2

    @staticmethod
    def backward(ctx: Any, *grads: torch.Tensor) -> Any:
        Counts.calls.append("backward")
        return grads[0] * 2


class Leaks(torch.autograd.Function):
    seen: list[torch.Tensor] = []

    @staticmethod
    def forward(ctx: Any, x: torch.Tensor) -> torch.Tensor:
        y = x * 5
        Leaks.seen.append(y)
        return y + 1

    @staticmethod
    def backward(ctx: Any, *grads: torch.Tensor) -> Any:
        return grads[0] * 5


class MayGetNone(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, x: torch.Tensor) -> Any:
        ctx.set_materialize_grads(False)
        return x * 2, x * 3

    @staticmethod
    def backward(ctx: Any, *grads: Any) -> Any:
        return sum(grad * (i + 2) for i, grad in enumerate(grads) if grad is not None)


class SwitchesModes(torch.autograd.Function):
    """Backward that must know whether it is differentiated itself."""

    @staticmethod
    def forward(ctx: Any, x: torch.Tensor) -> torch.Tensor:
        return x * 2

    @staticmethod
    def backward(ctx: Any, *grads: torch.Tensor) -> Any:
        with torch.no_grad():
            scale = grads[0].abs().max()
        return grads[0] * scale


@pytest.mark.parametrize("function", [Counts, Leaks, MayGetNone, SwitchesModes])
def test_left_to_python(function: Any) -> None:
    def f(x: torch.Tensor) -> torch.Tensor:
        made = function.apply(x)
        return (made[0] if isinstance(made, tuple) else made) * 2

    check(f, leaf(), expect_breaks=None, expect_ops=0)


class Block(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.inner = nn.Linear(4, 4)
        self.norm = nn.BatchNorm1d(4)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        for _ in range(3):
            x = x + Cubed.apply(self.norm(self.inner(x)))
        return Reversal.apply(x, 0.1)


@BACKENDS
def test_inside_of_a_module(backend: str) -> None:
    torch.manual_seed(0)
    check(Block(), X, backend=backend, expect_hit=True)


class Flattened(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, x: torch.Tensor) -> torch.Tensor:
        ctx.shape = x.shape
        return x.reshape(x.shape[0] * x.shape[1]) * x.shape[0]

    @staticmethod
    def backward(ctx: Any, *grads: torch.Tensor) -> Any:
        return grads[0].reshape(ctx.shape) * ctx.shape[0]


@BACKENDS
def test_sizes_that_change(backend: str) -> None:
    check(lambda x: Flattened.apply(x) + 1, leaf(3, 4), changed=[(leaf(n, 4),) for n in (5, 7, 2)], backend=backend)


def test_sizes_that_change_in_one_entry() -> None:
    calls = [(leaf(n, 4),) for n in (3, 5, 7, 9)]
    assert transcript(lambda x: Flattened.apply(x) + 1, calls).count("hit") == 2


APPLY = Cubed.apply


def test_apply_that_was_looked_up_before() -> None:
    def f(x: torch.Tensor, given: Any) -> torch.Tensor:
        return APPLY(x) + given(x)

    lifted, captured = framelift.compile(f, backend="eager", fullgraph=True), framelift.counters
    for given, captures in ((lambda: Cubed.apply, 1), (lambda: Cubed.apply, 1), (lambda: Itself.apply, 2)):
        x, y = leaf(), leaf()
        lifted(x, given()).sum().backward()  # each look-up gives another object
        f(y, given()).sum().backward()
        assert torch.equal(x.grad, y.grad)
        assert captured().captured == captures


class TakesAList(torch.autograd.Function):
    boxed_grads_call = True

    @staticmethod
    def forward(ctx: Any, x: torch.Tensor) -> torch.Tensor:
        return x * 2

    @staticmethod
    def backward(ctx: Any, *grads: Any) -> Any:
        return grads[0].pop() * 3 if isinstance(grads[0], list) else grads[0] * 2


class ForgetsWhatItSaved(torch.autograd.Function):
    clear_saved_tensors_on_access = True

    @staticmethod
    def forward(ctx: Any, x: torch.Tensor) -> torch.Tensor:
        ctx.save_for_backward(x)
        return x * 2

    @staticmethod
    def backward(ctx: Any, *grads: torch.Tensor) -> Any:
        ctx.saved_tensors
        try:
            return grads[0] * ctx.saved_tensors[0]
        except RuntimeError:
            return grads[0] * 3


@BACKENDS
@pytest.mark.parametrize("function", [TakesAList, ForgetsWhatItSaved])
def test_backward_is_called_in_another_way(function: Any, backend: str) -> None:
    check(lambda x: function.apply(x) * 2, leaf(), backend=backend, expect_breaks=None, expect_ops=0)


class GradientInBackward(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, x: torch.Tensor) -> torch.Tensor:
        with torch.no_grad():
            ctx.save_for_backward(x)
            return x * x

    @staticmethod
    def backward(ctx: Any, gradient: torch.Tensor) -> torch.Tensor:
        with torch.enable_grad():
            x = ctx.saved_tensors[0].detach().requires_grad_()
            return gradient * torch.autograd.grad((x * x).sum(), x)[0]


def test_a_function_that_switches_grad_mode_and_is_left_to_python() -> None:
    check(lambda x: GradientInBackward.apply(x * 2) + 1, leaf(), expect_breaks=None)


# -- functions that the program makes ----------------------------------------------------------------------------------


def masking(factor):
    class Masked(torch.autograd.Function):
        @staticmethod
        def forward(ctx, x, mask):
            ctx.save_for_backward(mask)
            return x * mask * factor

        @staticmethod
        def backward(ctx, grad):
            (mask,) = ctx.saved_tensors
            return grad * mask * factor * 3, None

    return Masked


MASK = torch.tensor([True, False, True])


def test_a_function_made_where_it_is_used():
    def f(x, mask):
        return masking(2).apply(x, mask) + masking(5).apply(x, mask)

    check(f, torch.ones(3).requires_grad_(), MASK, fullgraph=True)
    check(f, torch.ones(3), MASK, fullgraph=True)


def test_a_function_that_nobody_calls():
    def f(x, mask):
        masking(2)
        return torch.masked.sum(x, 0, mask=mask)

    check(f, torch.ones(3).requires_grad_(), MASK, fullgraph=True)


def test_a_function_that_leaves_is_one_of_autograds():
    def f(x):
        return masking(3), x + 1

    made, _ = framelift.compile(f, backend="eager", fullgraph=True)(torch.ones(2))
    assert issubclass(made, torch.autograd.Function) and made.__name__ == "Masked"
    assert made._backward_cls.__name__ == "MaskedBackward" and made._backward_cls._forward_cls is made
    assert made._backward_cls is not torch.autograd.Function._backward_cls
    x = torch.ones(3).requires_grad_()
    result = made.apply(x, MASK)
    assert type(result.grad_fn) is made._backward_cls
    (gradient,) = torch.autograd.grad(result.sum(), x)
    assert result.tolist() == [3, 0, 3] and gradient.tolist() == [9, 0, 9]


def test_what_autograd_keeps_of_a_function_is_seen():
    def f(x):
        return x + 1, masking(3)._backward_cls.__name__

    check(f, torch.ones(3), expect_breaks=None, expect_ops=0, expect_hit=False, deterministic=False)


class Identity(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, x: torch.Tensor, other: torch.Tensor) -> Any:
        return x, other * 2

    @staticmethod
    def backward(ctx: Any, first: torch.Tensor, second: torch.Tensor) -> Any:
        return -first, second * 2


def test_an_argument_that_is_returned_is_a_view_of_it() -> None:
    def f(x: torch.Tensor) -> Any:
        first, second = Identity.apply(x, x + 1)
        first.add_(1)
        return first, second, first is x

    check(f, X, fullgraph=True)


class WithNumber(torch.autograd.Function):
    """Backward is given None for what is no tensor."""

    @staticmethod
    def forward(ctx: Any, x: torch.Tensor) -> Any:
        ctx.save_for_backward(x)
        return x * 2, 5, x * 3

    @staticmethod
    def backward(ctx: Any, first: Any, number: Any, second: Any) -> Any:
        assert number is None
        return first * 2 + second * 3 * ctx.saved_tensors[0]


class ByNumpy(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, x: torch.Tensor) -> torch.Tensor:
        ctx.save_for_backward(x)
        return torch.tensor(x.numpy() ** 2, device=x.device)

    @staticmethod
    def backward(ctx: Any, *grads: torch.Tensor) -> Any:
        return grads[0] * 2 * ctx.saved_tensors[0]


@BACKENDS
@pytest.mark.parametrize("function", [WithNumber, ByNumpy], ids=lambda function: function.__name__)
def test_results_and_arguments_besides_tensors(function: Any, backend: str) -> None:
    def f(x: torch.Tensor) -> Any:
        made = function.apply(x)
        return (made[0] * made[1] + made[2]) if isinstance(made, tuple) else made * 2

    check(f, leaf(), backend=backend, fullgraph=True)


def test_numpy_that_writes_to_what_autograd_knows() -> None:
    def f(x: torch.Tensor) -> Any:
        y = x.exp()
        with torch.no_grad():
            y.numpy()[0] = 1.0
        return y.sum()

    check(f, leaf(), expect_breaks=None)
