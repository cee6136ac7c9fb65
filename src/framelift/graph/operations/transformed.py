"""Operations of a graph that run a body in torch's own ways: mapped over a dimension, differentiated, recomputed."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch._C import _get_dispatch_mode, _TorchDispatchModeKey
from torch._higher_order_ops.wrap import tag_activation_checkpoint
from torch.utils.checkpoint import checkpoint


def mapped(
    body: Callable[..., Any], in_dims: Any, out_dims: Any, randomness: str, chunk_size: int | None, *given: Any
) -> Any:
    """`torch.vmap` of a body."""
    function = torch.vmap(_as_function(body), tuple(in_dims), tuple(out_dims), randomness, chunk_size=chunk_size)
    return function(*given)


def gradient(body: Callable[..., Any], argnums: Any, with_value: bool, *given: Any) -> Any:
    """`torch.func.grad` of a body, whose first result is differentiated and whose others are handed on.

    Gives the gradients, and with a value the results too, all in one tuple.
    """

    def function(*args: Any) -> Any:
        results = tuple(body(*args))
        return results[0], results

    gradients, results = torch.func.grad(function, tuple(argnums), has_aux=True)(*given)
    return (*gradients, *results) if with_value else (*gradients, *results[1:])


def _split(body: Callable[..., Any], values: int, rest: Any) -> Callable[..., Any]:
    """A body as a function of its first tensors, with the rest fixed: its first results, and the others besides."""

    def function(*args: Any) -> Any:
        results = tuple(body(*args, *rest))
        return results[:values], results[values:]

    return function


def pulled_back(body: Callable[..., Any], count: int, values: int, *given: Any) -> Any:
    """`torch.func.vjp` of the first results of a body by its first tensors; the last ones given are cotangents."""
    inputs, cotangents = given[: len(given) - values], given[len(given) - values :]
    function = _split(body, values, inputs[count:])
    _, pull, _ = torch.func.vjp(function, *inputs[:count], has_aux=True)
    return tuple(pull(tuple(cotangents)))


def pushed_forward(body: Callable[..., Any], count: int, values: int, *given: Any) -> Any:
    """`torch.func.jvp` of the first results of a body; the last tensors given are tangents of the first."""
    inputs, tangents = given[: len(given) - count], given[len(given) - count :]
    function = _split(body, values, inputs[count:])
    results, pushed, others = torch.func.jvp(function, tuple(inputs[:count]), tuple(tangents), has_aux=True)
    return (*results, *pushed, *others)


def jacobian(body: Callable[..., Any], mode: str, argnums: Any, values: int, options: Any, *given: Any) -> Any:
    """The Jacobians of the first results of a body by some of its tensors, row by row, and its other results."""
    count = len(argnums)
    function = _split(body, values, given[count:])
    transform = {"jacrev": torch.func.jacrev, "jacfwd": torch.func.jacfwd}[mode]
    rows, others = transform(function, tuple(argnums), has_aux=True, **options)(*given[:count])
    return (*[item for row in rows for item in row], *others)


def applied(body: Callable[..., Any], *given: Any) -> Any:
    """What a body computes."""
    return tuple(body(*given))


def recomputed(
    body: Callable[..., Any], preserve_rng_state: bool, is_random: bool, places: tuple[int, ...], *given: Any
) -> Any:
    """`torch.utils.checkpoint` of a body: what backward needs of it is computed again.

    `places`: of the arguments that the program gave. Those are not to change until then; others may, like parameters.
    """
    tracing = (_TorchDispatchModeKey.PROXY, _TorchDispatchModeKey.FUNCTIONAL)
    if not any(_get_dispatch_mode(key) is not None for key in tracing):

        def run(*args: Any) -> Any:
            arguments = dict(zip(places, args, strict=True))
            return body(*[arguments.get(place, other) for place, other in enumerate(given)])

        arguments = [given[place] for place in places]
        return checkpoint(run, *arguments, use_reentrant=False, preserve_rng_state=preserve_rng_state)
    # Compilers recompute by copying operations; random ones would draw other numbers.
    return body(*given) if is_random else tag_activation_checkpoint(body, *given, use_reentrant=False)


def _as_function(body: Callable[..., Any]) -> Callable[..., Any]:
    """A module has attributes that torch's transforms would ask for."""
    return lambda *args: body(*args)
