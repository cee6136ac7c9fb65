"""Inductor's schedule with checks before whatever relies on them.

A check of a size or number that depends on data reads nothing and writes nothing, so Inductor may run a kernel before
the check that allows it, if it fuses that kernel with an earlier one. It would then read memory that is not there, or
write to an input although the graph raises. Here, kernels depend on the checks that precede them.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from typing import Any

from framelift.graph.emission.runtime_asserts import NOT_SO

Schedule = Callable[[list[Any]], list[Any]]


def asserts_first(before: Schedule | None = None) -> Schedule:
    """A pass over Inductor's nodes before fusion, to run after the one that the user asked for."""

    def run(nodes: list[Any]) -> list[Any]:
        if before is not None:
            nodes = before(nodes)
        _order(nodes)
        return nodes

    return run


def _order(nodes: list[Any]) -> None:
    # Inductor calls this, so it is loaded.
    ir, dependencies = sys.modules["torch._inductor.ir"], sys.modules["torch._inductor.dependencies"]
    checks: list[Any] = []
    for node in nodes:
        if isinstance(node.node, ir.AssertScalar):
            if not str(node.node.msg).startswith(NOT_SO):
                node.node.msg = f"{NOT_SO}{node.node.msg}"
            checks.append(node)
        elif checks:
            symbols = node.node.get_free_symbol_uses(unbacked_only=True) if node.node is not None else set()
            for check in checks:
                if node.has_aliasing_or_mutation() or symbols & check.node.get_free_symbol_uses(unbacked_only=True):
                    node.add_fake_dep(dependencies.StarDep(check.node.get_name()))
    if checks:
        nodes[0].scheduler.compute_ancestors()
