"""The operation of a graph that runs a body with a gradient of the program's own: a `torch.autograd.Function`.

The graph names the two bodies and says where backward finds its tensors; when the graph runs, or a backend traces it,
this is an autograd function like any other.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import torch
from torch._C import _are_functorch_transforms_active


class Plan(NamedTuple):
    """How the two bodies of an autograd function fit together. All of it is constants, as an argument in a graph is."""

    # How many of forward's results are the function's; the others are for backward alone.
    outputs: int
    # Which of those are marked as not differentiable.
    non_differentiable: tuple[int, ...]
    # Where backward finds what it uses besides the gradients: ("given" | "result", position).
    used: tuple[tuple[str, int], ...]
    # Which of these the program saved with `save_for_backward`: torch checks that nobody changes them in between.
    saved: tuple[int, ...]
    # For which given tensor each result of backward is the gradient.
    gradients: tuple[int, ...]
    # Backward was captured for contiguous gradients, and asked how they lie in memory.
    contiguous: bool
    # Backward may be differentiated itself.
    twice: bool


def differentiated(
    forward: Callable[..., Any], backward: Callable[..., Any], plan: Sequence[Any], *given: torch.Tensor
) -> tuple[torch.Tensor, ...]:
    """The results of `forward(*given)`, whose gradient is `backward`."""
    function = _Transformed if _are_functorch_transforms_active() else _Differentiated
    results: tuple[torch.Tensor, ...] = function.apply(forward, backward, Plan(*plan), *given)
    return results


class _Differentiated(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, forward: Any, backward: Any, plan: Plan, *given: torch.Tensor) -> Any:
        results = forward(*given)
        outputs = results[: plan.outputs]
        places = {"given": given, "result": results}
        used = [places[kind][position] for kind, position in plan.used]
        ctx.run, ctx.plan, ctx.count = backward, plan, len(given)
        ctx.save_for_backward(*[used[index] for index in plan.saved])
        ctx.kept = {index: tensor for index, tensor in enumerate(used) if index not in plan.saved}
        ctx.mark_non_differentiable(*[outputs[index] for index in plan.non_differentiable])
        return tuple(outputs)

    @staticmethod
    def backward(ctx: Any, *gradients: torch.Tensor) -> Any:
        plan: Plan = ctx.plan
        saved = dict(zip(plan.saved, ctx.saved_tensors, strict=True))
        used = [saved[index] if index in saved else ctx.kept[index] for index in range(len(plan.used))]
        given = [gradient.contiguous() for gradient in gradients] if plan.contiguous else gradients
        again = torch.is_grad_enabled()
        with torch.set_grad_enabled(again and plan.twice):
            results = ctx.run(*given, *used)
        if again and not plan.twice and any(gradient.requires_grad for gradient in gradients):
            results = _differentiated_once(results)
        return None, None, None, *_arriving(ctx, results)


class _Transformed(torch.autograd.Function):
    """The same for functorch, which wants to see all that backward uses, and where it comes from."""

    generate_vmap_rule = True

    @staticmethod
    def forward(forward: Any, backward: Any, plan: Plan, *given: torch.Tensor) -> Any:
        return tuple(forward(*given))

    @staticmethod
    def setup_context(ctx: Any, inputs: tuple[Any, ...], output: tuple[torch.Tensor, ...]) -> None:
        _, ctx.run, plan, *given = inputs
        ctx.plan, ctx.count = plan, len(given)
        places = {"given": given, "result": output}
        ctx.save_for_backward(*[places[kind][position] for kind, position in plan.used])
        ctx.mark_non_differentiable(*[output[index] for index in plan.non_differentiable])

    @staticmethod
    def backward(ctx: Any, *gradients: torch.Tensor) -> Any:
        return None, None, None, *_arriving(ctx, ctx.run(*gradients, *ctx.saved_tensors))


def _arriving(ctx: Any, results: Sequence[torch.Tensor]) -> list[torch.Tensor | None]:
    """The gradient of each given tensor: the sum of those that backward has for it."""
    arriving: list[torch.Tensor | None] = [None] * ctx.count
    for position, result in zip(ctx.plan.gradients, results, strict=True):
        sofar = arriving[position]
        arriving[position] = result if sofar is None else sofar + result
    return arriving


def _differentiated_once(results: Sequence[torch.Tensor]) -> Sequence[torch.Tensor]:
    """Results whose own gradient raises, as `once_differentiable` makes them."""
    words = "trying to differentiate twice a function that was marked with @once_differentiable"
    error = torch._C._functions.DelayedError(words.encode(), len(results))
    leaves = [result.detach().requires_grad_() for result in results]
    made = error(*leaves)
    return made if isinstance(made, tuple) else (made,)
