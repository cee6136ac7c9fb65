"""The passes as capture runs them: on every graph, just before the backend gets it.

By default these are the exact ones, and for backends that round otherwise themselves also those that re-associate.
Passes that only respell calls are left out: the other passes see through spellings, and the backend, the user's
perhaps, gets the program's own words.
"""

from __future__ import annotations

import functools
from collections.abc import Iterable
from typing import Literal

from torch.fx import GraphModule

from framelift import config
from framelift.errors import short
from framelift.passes.declare import REGISTRY, Pass, Respelling
from framelift.passes.deduplication import apply_graph_deduplication, call_subgraph
from framelift.passes.options import PassOptions
from framelift.passes.pipeline import may_apply, names_in, planned, run_planned
from framelift.passes.report import PassReport
from framelift.shapes.symbols import forbids_guards


def checked_passes(given: object) -> tuple[str, ...] | None:
    """`options={"pre_grad_passes": ...}` of compile(): None for the default passes, else the names of those to run.

    >>> checked_passes(False), checked_passes(["remove_noop_pass"])
    ((), ('remove_noop_pass',))
    """
    if given is None or given is True:
        return None
    if given is False:
        return ()
    if not isinstance(given, str | Iterable):
        raise TypeError(f"pre_grad_passes is {short(given)}: True, False or a list of names is needed")
    return tuple(names_in("pre_grad_passes", given))


def deduplicate(module: GraphModule, takes_subgraphs: bool) -> None:
    """Repeated layers become one subgraph; whoever does not know how torch calls those gets plain calls."""
    if takes_subgraphs:
        apply_graph_deduplication(module)
    else:
        apply_graph_deduplication(module, call=call_subgraph)


def improve(module: GraphModule, names: tuple[str, ...] | None, is_bitwise: bool) -> PassReport:
    """Runs the passes on a captured graph, in place."""
    options = _options(is_bitwise, config.strict)
    chosen = [REGISTRY[name] for name in names] if names is not None else _default(options)
    if not may_apply(module, chosen, options):
        return PassReport()
    # Symbolic sizes stay as unknown as they are: a rewrite that would have to assume something is not made.
    without_guards = forbids_guards(getattr(module, "shape_env", None))
    if without_guards is None:
        return PassReport()
    with without_guards:
        return run_planned(module, (), chosen, options)


@functools.cache
def _options(is_bitwise: bool, is_strict: bool) -> PassOptions:
    on_error: Literal["raise", "revert"] = "raise" if is_strict else "revert"
    return PassOptions(approximate=not is_bitwise, fusing_backend=not is_bitwise, on_error=on_error)


def _default(options: PassOptions) -> list[Pass]:
    return [each for each in planned(None, None, options) if not isinstance(each, Respelling)]
