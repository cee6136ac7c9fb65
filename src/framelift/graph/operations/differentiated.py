"""The operation of a graph that runs a body with a gradient of the program's own: a `torch.autograd.Function`.

The graph names the two bodies and says where backward finds its tensors; when the graph runs, or a backend traces it,
this is an autograd function like any other.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import torch


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
    results: tuple[torch.Tensor, ...] = _Differentiated.apply(forward, backward, Plan(*plan), *given)
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
        arriving: list[torch.Tensor | None] = [None] * ctx.count
        for position, result in zip(plan.gradients, results, strict=True):
            sofar = arriving[position]
            arriving[position] = result if sofar is None else sofar + result
        return None, None, None, *arriving


def _differentiated_once(results: Sequence[torch.Tensor]) -> Sequence[torch.Tensor]:
    """Results whose own gradient raises, as `once_differentiable` makes them."""
    words = "trying to differentiate twice a function that was marked with @once_differentiable"
    error = torch._C._functions.DelayedError(words.encode(), len(results))
    leaves = [result.detach().requires_grad_() for result in results]
    made = error(*leaves)
    return made if isinstance(made, tuple) else (made,)
