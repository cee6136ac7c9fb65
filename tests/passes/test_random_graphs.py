"""Random graphs before and after the passes: the same bits, strides, sharing, writes, gradients; and a second run.

The source of chance is hypothesis, which looks for a small graph when one fails. FRAMELIFT_RANDOM_GRAPHS says how many
graphs a test makes; with another number than the default they are others on every run.
"""

from __future__ import annotations

import copy
import os

import pytest
import torch
from hypothesis import HealthCheck, event, given, settings
from hypothesis import strategies as st

from framelift.passes import PassOptions, pre_grad_passes, run_passes
from framelift.passes.declare import REGISTRY
from framelift.passes.facts import tensors_in, value
from tests.passes.programs import program
from tests.passes.support import calls, exported, same_gradients, same_results
from tests.passes.test_default_passes import DEFAULT_PIECES, NORMAL

DEFAULT_COUNT = 60
COUNT = int(os.environ.get("FRAMELIFT_RANDOM_GRAPHS", DEFAULT_COUNT))
EVERY = " ".join(name for name, each in REGISTRY.items() if each.exactness == "exact")
# All that may round otherwise, in addition to the default passes.
APPROXIMATE = ",".join(name for name, each in REGISTRY.items() if each.exactness == "approx")
SPLIT_CAT = " ".join(name for name, each in REGISTRY.items() if each.group == "split_cat" and each.exactness == "exact")

chances = st.randoms(use_true_random=False)
thorough = settings(
    max_examples=COUNT,
    derandomize=COUNT == DEFAULT_COUNT,
    deadline=None,
    database=None,
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large, HealthCheck.filter_too_much],
)


def check(chance, *, only: str | None = None, add: str | None = None, exact: bool = True, **options) -> None:
    gm, inputs = program(chance)
    original = copy.deepcopy(gm)
    chosen = PassOptions(on_error="raise", min_fuse_set_size=2, ignore_profit=chance.random() < 0.5, **options)

    def run():
        if only is not None:
            return run_passes(gm, only.split(), inputs, options=chosen)
        return pre_grad_passes(gm, inputs, add, options=chosen).meta["pass_report"]

    report = run()
    gm.graph.lint()
    same_results(original, gm, inputs, exact)
    same_gradients(original, gm, inputs)
    event("rewritten" if report.rewrites else "as it was")
    first = calls(gm)
    second = run()
    # Fake and real tensors do not agree on whether an empty tensor is a view.
    is_empty = any(not tensor.numel() for node in gm.graph.nodes for tensor in tensors_in(value(node)))
    if only is None and not is_empty:
        assert second.rewrites == 0 or calls(gm) == first, f"a second run changes the graph again:\n{second}"


@thorough
@given(chances)
def test_the_default_passes(chance):
    check(chance)


@thorough
@given(chances)
def test_every_exact_pass(chance):
    check(chance, only=EVERY, threshold_to_cat=2)


@thorough
@given(chances)
def test_the_default_passes_with_other_rounding(chance):
    check(chance, exact=False, approximate=True)


@thorough
@given(chances)
def test_every_pass_with_other_rounding(chance):
    check(chance, add=APPROXIMATE, exact=False, approximate=True, fusing_backend=chance.random() < 0.5)


@thorough
@given(chances)
def test_any_few_passes(chance):
    """Passes that others would leave nothing to do."""
    names = chance.sample([name for name, each in REGISTRY.items() if each.exactness != "semantic"], 3)
    exact = all(REGISTRY[name].exactness == "exact" for name in names)
    check(chance, only=NORMAL + " ".join(names), exact=exact, approximate=not exact, threshold_to_cat=2)


@thorough
@given(chances)
def test_the_pipeline_with_any_pass_left_out(chance):
    gm, inputs = program(chance)
    original = copy.deepcopy(gm)
    left_out = chance.choice([name for name in REGISTRY if REGISTRY[name].exactness == "exact"])
    pre_grad_passes(gm, inputs, remove_passes=left_out, options=PassOptions(on_error="raise", ignore_profit=True))
    same_results(original, gm, inputs)


# -- what must be left alone ---------------------------------------------------------------------------------------


@thorough
@given(st.permutations(range(4)), st.integers(0, 1), st.integers(0, 2))
def test_pieces_in_another_order_are_never_joined(order, dim, joined):
    """No two neighbours in order: nothing to do for any pass on pieces."""
    if any(b == a + 1 for a, b in zip(order, order[1:], strict=False)):
        return

    def f(x):
        parts = [part.unsqueeze(0) if joined == 2 else part for part in torch.split(x, 2, dim)]
        return torch.cat([parts[index] for index in order], joined) + 1

    left_alone(f, torch.randn(8, 8), f"{DEFAULT_PIECES} {SPLIT_CAT}")


@thorough
@given(st.sampled_from(["add_", "mul_", "relu_"]), st.booleans(), st.sampled_from([(4, 1, 2), (4, 2), (4, 2, 1)]))
def test_pieces_of_what_is_written_later_are_never_joined(write, through_view, shape):
    def f(x):
        x = x * 2
        joined = torch.cat([part.reshape(shape) for part in torch.chunk(x, 4, 1)], 1)
        target = x.view(-1) if through_view else x
        getattr(target, write)(*([3] if write != "relu_" else []))
        return joined * x.sum()

    left_alone(f, torch.randn(4, 8), f"{DEFAULT_PIECES} {SPLIT_CAT}")


@thorough
@given(st.lists(st.sampled_from([torch.float32, torch.float64, torch.float16]), min_size=2, max_size=4, unique=True))
@pytest.mark.parametrize("name", ["relu", "tanh", "sigmoid", "nan_to_num"])
def test_tensors_of_different_dtypes_are_never_one_batch(name, dtypes):
    function = getattr(torch, name)
    args = [torch.randn(3, 4).to(dtype) for dtype in dtypes]
    left_alone(lambda *args: [function(x) + 1 for x in args], *args, f"batch_{name}", approximate=True)


def left_alone(function, *args, **options) -> None:
    *inputs, passes = args
    gm = exported(function, *inputs)
    chosen = PassOptions(on_error="raise", ignore_profit=True, min_fuse_set_size=2, threshold_to_cat=2, **options)
    run_passes(gm, NORMAL.split(), inputs, options=chosen)
    before = calls(gm)
    run_passes(gm, passes.split(), inputs, options=chosen)
    assert calls(gm) == before
