"""Operations that compute one thing on plain tensors and another on those of a compiler that traces them.

Singular values and eigenvalues are computed without their vectors where nothing is differentiated, but with them where
a tensor is one of a tracer's: by another algorithm, which rounds otherwise, and may not converge. A pooling in one
dimension has a kernel of its own on the CPU, which takes no integers. And for least squares AOTAutograd has no rule.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch.fx import Graph, Node

from framelift.graph.record import operation_name

# Orders of norms that are computed from singular values.
_SPECTRAL = frozenset({2, -2, "nuc"})


def depends_on_tracing(graph: Graph) -> bool:
    """Whether a compiler that traces a graph may get another result, or none, for what it is to compute."""
    return any(
        decides(node)
        for node in graph.nodes
        if node.op in ("call_function", "call_method")
        and (decides := _DECIDES.get(operation_name(node.target).removeprefix("linalg_"))) is not None
    )


def _given(node: Node) -> torch.Tensor | None:
    value = node.args[0].meta.get("example_value") if node.args and isinstance(node.args[0], Node) else None
    return value if isinstance(value, torch.Tensor) else None


def _without_gradients(node: Node) -> bool:
    given = _given(node)
    return given is None or not given.requires_grad or not torch.is_grad_enabled()


def _is_spectral(node: Node) -> bool:
    order = node.args[1] if len(node.args) > 1 else node.kwargs.get("ord", node.kwargs.get("p"))
    given = _given(node)
    is_matrix = given is None or given.dim() > 1
    return is_matrix and isinstance(order, int | float | str) and order in _SPECTRAL and _without_gradients(node)


def _on_integers(node: Node) -> bool:
    given = _given(node)
    return given is not None and not given.dtype.is_floating_point


def _always(node: Node) -> bool:
    return True


_DECIDES: dict[str, Callable[[Any], bool]] = {
    **dict.fromkeys(("svdvals", "eigvalsh", "matrix_rank", "cond", "nuclear_norm"), _without_gradients),
    **dict.fromkeys(("norm", "matrix_norm"), _is_spectral),
    "max_pool1d": _on_integers,
    "lstsq": _always,
}
