"""The passes as capture runs them: on every graph, just before the backend gets it.

By default these are the exact ones, and for backends that round otherwise themselves also those that re-associate.
Passes that only respell calls are left out: the other passes see through spellings, and the backend, the user's
perhaps, gets the program's own words.
"""

from __future__ import annotations

import functools
from collections.abc import Iterable, Mapping
from dataclasses import fields, replace

from torch.fx import GraphModule

from framelift import config
from framelift.errors import short, unknown
from framelift.passes.declare import REGISTRY, Custom, Pass, Respelling
from framelift.passes.deduplication.deduplicate import apply_graph_deduplication
from framelift.passes.deduplication.subgraphs import INVOKED, PLAIN
from framelift.passes.options import PassOptions
from framelift.passes.pipeline import checked, may_apply, names_in, planned, run_planned
from framelift.passes.report import PassReport


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


def checked_pass_options(given: object) -> PassOptions | None:
    """`options={"pass_options": ...}` of compile(): a PassOptions, or a dict of what it should say.

    >>> checked_pass_options({"verify": "numeric"}).verify
    'numeric'
    """
    if given is None or isinstance(given, PassOptions):
        return given and checked(given)
    if not isinstance(given, Mapping):
        raise TypeError(f"pass_options is {short(given)}: a PassOptions or a dict is needed")
    known = [each.name for each in fields(PassOptions)]
    for name in given:
        if name not in known:
            raise ValueError(unknown("option", name, known))
    return checked(PassOptions(**given))


def deduplicate(module: GraphModule, takes_subgraphs: bool) -> None:
    """Repeated layers become one subgraph; whoever does not know how torch calls those gets plain calls."""
    apply_graph_deduplication(module, convention=INVOKED if takes_subgraphs else PLAIN)


def improve(
    module: GraphModule, names: tuple[str, ...] | None, is_bitwise: bool, given: PassOptions | None = None
) -> PassReport:
    """Runs the passes on a captured graph, in place; `given` is what the user wants of them."""
    options = _options(given if given is not None else PassOptions(), is_bitwise, config.strict)
    if names is None:
        chosen = _default(options)
    else:
        chosen = [*[REGISTRY[name] for name in names], *map(Custom, options.custom)]
    if not may_apply(module, chosen, options):
        return PassReport()
    return run_planned(module, (), chosen, options)


@functools.lru_cache
def _options(given: PassOptions, is_bitwise: bool, is_strict: bool) -> PassOptions:
    """What the user wants, and what the backend and the configuration ask for besides."""
    return replace(
        given,
        approximate=given.approximate or not is_bitwise,
        fusing_backend=given.fusing_backend or not is_bitwise,
        on_error="raise" if is_strict else given.on_error,
    )


def _default(options: PassOptions) -> list[Pass]:
    return [each for each in planned(None, None, options) if not isinstance(each, Respelling)]
