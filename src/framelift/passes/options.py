"""What can be asked of the passes, in one immutable object."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field, fields
from pathlib import Path
from typing import Any, Literal

from torch.fx import Graph

from framelift.errors import short, unknown

CHOICES: dict[str, tuple[str, ...]] = {
    "layout": ("strict", "relaxed"),
    "on_error": ("revert", "raise"),
    "verify": ("off", "meta", "numeric"),
}


@dataclass(frozen=True)
class PassOptions:
    """How `pre_grad_passes` works.

    >>> PassOptions(on_error="raise").layout
    'strict'
    """

    # Results keep the strides they have without the passes; "relaxed" lets them change where nobody looks.
    layout: Literal["strict", "relaxed"] = "strict"
    # Passes that re-associate floating point run; off for backends that promise eager's very bits.
    approximate: bool = False
    # Names of passes that may change results.
    allow_semantic_changes: frozenset[str] = frozenset()
    # The user declares that parameters never change again: packed weights are made once and kept.
    freeze_weights: bool = False
    # Batch fusions may round differently in half precision.
    allow_precision_loss: bool = False
    # Nodes of a fusing backend are not separate kernels: some passes pay only, or only not, for it.
    fusing_backend: bool = False
    # Which fusions group_batch_fusion_passes runs; None: its own choice.
    batch: tuple[str, ...] | None = None
    min_fuse_set_size: int = 5
    max_fuse_set_size: int = 300
    # How many shape-only calls may stand between a piece of a tensor and the place where it is joined again.
    max_search_depth: int = 5
    threshold_to_cat: int = 10
    # Rewrites are made even where they do not pay (tests of legality want that).
    ignore_profit: bool = False
    on_error: Literal["revert", "raise"] = "revert"
    # What is checked after each pass: nothing, the promises of the graph, or also what it computes, gradients included.
    verify: Literal["off", "meta", "numeric"] = "meta"
    # Where to write a page for each pass that changed the graph, both graphs side by side, and inputs on which one of
    # them computes something else.
    diff_dir: str | Path | None = None
    # No new pass is started after so many milliseconds; no rewrite made after so many rewrites (for bisection).
    budget_ms: float | None = None
    max_rewrites: int | None = None
    # Functions of the user's that change a graph as they like: each runs once, behind all passes, checked as they are.
    # One may have a method `uuid()`, and an attribute `exactness` if it is not exact.
    custom: tuple[Callable[[Graph], object], ...] = ()
    # Other values of these options for single passes: {"fuse_parallel_linear_pass": {"min_fuse_set_size": 2}}.
    overrides: dict[str, dict[str, Any]] = field(default_factory=dict, hash=False)

    def __post_init__(self) -> None:
        for name, allowed in CHOICES.items():
            given = getattr(self, name)
            if given not in allowed:
                raise ValueError(unknown(name, given, allowed))
        # Names may be given in any collection.
        object.__setattr__(self, "allow_semantic_changes", frozenset(self.allow_semantic_changes))
        object.__setattr__(self, "custom", tuple(self.custom))
        for each in self.custom:
            if not callable(each):
                raise TypeError(f"custom has {short(each)}: functions that take a Graph are needed")
        object.__setattr__(self, "batch", None if self.batch is None else tuple(self.batch))
        names = [each.name for each in fields(self)]
        for name, changes in self.overrides.items():
            if not isinstance(changes, dict):
                raise TypeError(f"overrides[{name!r}] is {short(changes)}: a dict of options is needed")
            for option in changes:
                if option not in names:
                    raise ValueError(unknown("option", option, names))

    def of(self, name: str) -> PassOptions:
        """The options as one pass sees them."""
        changes = self.overrides.get(name)
        if not changes:
            return self
        plain = {each.name: getattr(self, each.name) for each in fields(self) if each.name != "overrides"}
        return PassOptions(**{**plain, **changes})
