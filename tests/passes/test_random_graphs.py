"""Random graphs before and after the passes: the same bits, strides, sharing, writes, gradients; and a second run."""

from __future__ import annotations

import copy
import os

import pytest

from framelift.passes import PassOptions, pre_grad_passes, run_passes
from framelift.passes.declare import REGISTRY
from framelift.passes.facts import tensors_in, value
from tests.passes.programs import program
from tests.passes.support import calls, same_gradients, same_results

COUNT = int(os.environ.get("FRAMELIFT_RANDOM_GRAPHS", "60"))
EVERY = " ".join(name for name, each in REGISTRY.items() if each.exactness == "exact")


def check(seed: int, *, only: str | None = None, exact: bool = True, **options) -> int:
    gm, inputs = program(seed)
    original = copy.deepcopy(gm)
    chosen = PassOptions(on_error="raise", min_fuse_set_size=2, ignore_profit=seed % 2 == 0, **options)

    def run():
        if only is not None:
            return run_passes(gm, only.split(), inputs, options=chosen)
        return pre_grad_passes(gm, inputs, options=chosen).meta["pass_report"]

    report = run()
    gm.graph.lint()
    same_results(original, gm, inputs, exact)
    same_gradients(original, gm, inputs)
    first = calls(gm)
    second = run()
    # Fake and real tensors do not agree on whether an empty tensor is a view.
    is_empty = any(not tensor.numel() for node in gm.graph.nodes for tensor in tensors_in(value(node)))
    if only is None and not is_empty:
        assert second.rewrites == 0 or calls(gm) == first, f"a second run changes the graph again:\n{second}"
    return report.rewrites


@pytest.mark.parametrize("block", range(6))
def test_the_default_passes(block):
    rewrites = [check(seed) for seed in range(block * COUNT // 6, (block + 1) * COUNT // 6)]
    assert sum(rewrites) > len(rewrites)


@pytest.mark.parametrize("block", range(6))
def test_every_exact_pass(block):
    base = 100_000
    for seed in range(base + block * COUNT // 6, base + (block + 1) * COUNT // 6):
        check(seed, only=EVERY, threshold_to_cat=2)


@pytest.mark.parametrize("block", range(3))
def test_the_default_passes_with_other_rounding(block):
    base = 300_000
    for seed in range(base + block * COUNT // 6, base + (block + 1) * COUNT // 6):
        check(seed, exact=False, approximate=True)
