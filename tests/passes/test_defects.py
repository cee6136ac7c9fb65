"""What other implementations got wrong, one test per finding; the names are those of the list they came from.

A14 (deduplication) and A15 (jumps in bytecode) are tested where these live.
"""

from __future__ import annotations

import math

import pytest
import torch
from torch.nn import functional as F

from framelift.passes import PassOptions, facts, pre_grad_passes
from framelift.passes.declare import REGISTRY
from tests.passes.support import calls, optimised
from tests.passes.test_default_passes import NORMAL, after, tensors, unchanged

A, B = tensors((3, 4), (3, 4))
PAIRS = {"min_fuse_set_size": 2, "exact": False, "approximate": True}
# Every pass that keeps results, on the normalized graph.
ALL = " ".join(name for name, each in REGISTRY.items() if each.exactness != "semantic")


def kept(function, *args, **options):
    """Equal results with every pass, whatever they do."""
    optimised(function, *args, passes=NORMAL + ALL, again=False, **{**PAIRS, "threshold_to_cat": 2, **options})


@pytest.mark.parametrize("name", ["relu", "tanh", "sigmoid", "nan_to_num"])
def test_a1_dtypes_are_not_mixed_in_a_batch(name):
    function = getattr(torch, name)
    f = lambda a, b: (function(a) + 1, function(b) + 1)  # noqa: E731
    assert unchanged(f, A, B.double(), passes=f"batch_{name}", **PAIRS)


def test_a2_a_batch_does_not_read_before_a_write():
    def f(a, b):
        y = torch.tanh(a)
        b.add_(1)
        return y + 1, torch.tanh(b) + 1

    assert unchanged(f, A, B, passes="batch_tanh", **PAIRS)


def copy_written_later(x):
    x = x + 0
    y = torch.cat(torch.split(x, 2, 1), 1)
    x.add_(1)
    return y * 1


def test_a3_a_copy_does_not_become_a_view_of_what_is_written_later():
    kept(copy_written_later, A)
    assert unchanged(copy_written_later, A, passes="split_cat_pass")
    # Returned, it is a tensor of its own.
    assert after(lambda x: torch.cat(torch.split(x, 2, 1), 1), A, passes="split_cat_pass") == ["clone"]


@pytest.mark.parametrize("size, sections", [(4, [4, 4, 2]), (5, [5, 5]), (3, [3, 3, 3, 1]), (12, [10])])
def test_a4_the_last_section_may_be_short(size, sections):
    gm, _ = optimised(lambda x: [t + 1 for t in torch.split(x, size, 1)], torch.randn(2, 10), passes=NORMAL.strip())
    (split,) = [node for node in gm.graph.nodes if node.target is torch.split]
    assert split.args[1] == sections


@pytest.mark.parametrize(
    "name, one, other, count",
    [
        ("clamp", lambda x: torch.clamp(x, 0, 1), lambda x: torch.clamp(x, 0, 1), 1),
        ("clamp", lambda x: torch.clamp(x, 0, 1), lambda x: torch.clamp(x, 0, 2), 2),
        ("nan_to_num", lambda x: torch.nan_to_num(x, 1.0), lambda x: torch.nan_to_num(x, 2.0), 2),
        ("dropout", lambda x: F.dropout(x, 0.1, True), lambda x: F.dropout(x, 0.1, True), 2),
        ("dropout", lambda x: F.dropout(x, 0.0, True), lambda x: F.dropout(x, 0.0, True), 0),
    ],
)
def test_a5_positional_arguments_count(name, one, other, count):
    x = A.clone()
    x[0, 0] = math.nan
    f = lambda a, b: (one(a) + 1, other(b) + 1)  # noqa: E731
    gm, _ = optimised(f, x if name == "nan_to_num" else A, B, passes=NORMAL + f"batch_{name}", min_fuse_set_size=2)
    assert calls(gm).count(name) == count


def test_a6_a_call_in_place_keeps_its_write():
    def f(a, b):
        return F.relu(a, inplace=True) + a, F.relu(b, inplace=True) + b

    assert unchanged(f, A, B, passes="batch_relu", **PAIRS)


def test_a7_the_axis_of_the_cat_is_compared_with_that_of_the_split():
    (x,) = tensors((4, 3))
    for name in ("split_cat_to_slices_pass", "mutate_cat_pass", "merge_getitem_cat_pass"):
        f = lambda x: torch.cat(torch.split(x, 2, 0), 1) + 1  # noqa: E731
        assert unchanged(f, x, passes=name, threshold_to_cat=2)


def test_a8_the_order_of_slices_and_the_way_axes_move():
    (x,) = tensors((2, 3, 4, 5))
    kept(lambda x: torch.cat([x.unbind(0)[1], x.unbind(0)[0]]) + 1, x)
    kept(lambda x: torch.cat(x.unbind(0), 2) + 1, x)
    f = lambda x: torch.cat([x.unbind(0)[1], x.unbind(0)[0]]) + 1  # noqa: E731
    assert unchanged(f, x, passes="unbind_cat_to_view_pass", threshold_to_cat=2)


def test_a9_reshapes_between_split_and_stack():
    (x,) = tensors((4, 8))

    def f(x):
        return torch.stack([t.reshape(4, 2, 2) for t in torch.split(x, 4, 1)], 0) + 1

    kept(f, x)
    found = after(f, x, passes="move_reshape_out_of_split_stack_pass", layout="relaxed")
    assert found == ["unflatten", "permute", "reshape", "add"]


class ConvolutionAndNorm(torch.nn.Module):
    def __init__(self, first, norm):
        super().__init__()
        self.first, self.norm = first, norm

    def forward(self, x):
        return self.norm(self.first(x))


@pytest.mark.parametrize(
    "first, norm, shape",
    [
        (torch.nn.Linear(4, 5), torch.nn.BatchNorm1d(3), (2, 3, 4)),  # A10: channels are not the last axis
        (torch.nn.ConvTranspose2d(4, 6, 3, groups=2), torch.nn.BatchNorm2d(6), (2, 4, 5, 5)),  # A11
    ],
)
def test_a10_a11_normalisation_behind_a_product(first, norm, shape):
    norm.running_mean.normal_()
    norm.running_var.uniform_(0.5, 2)
    model = ConvolutionAndNorm(first, norm).eval().requires_grad_(False)
    optimised(model, torch.randn(shape), freeze_weights=True, exact=False, approximate=True)


def test_a12_sampling_by_softmax_over_another_axis():
    def f(x):
        noise = torch.empty_like(x).exponential_(1)
        return torch.argmax(torch.softmax(x, 0) / noise, -1, keepdim=True)

    kept(f, torch.randn(16, 8))


@pytest.mark.parametrize("dim", range(4))
@pytest.mark.parametrize("split", range(3))
def test_a13_stacks_of_splits(split, dim):
    (x,) = tensors((4, 2, 8))
    kept(lambda x: torch.stack(torch.split(x, 2, split), dim) + 1, x)


def test_a16_effects_survive_dead_code_removal():
    def f(x, y, w):
        x.add_(1)
        torch.relu_(y)
        torch.nn.init.zeros_(w)
        F.relu(x, inplace=True)
        torch.mul(x, 2, out=w)
        y[0] = 3
        x += 1
        torch._check(x.shape[0] == 3)
        F.dropout(y, 0.5, True)
        dead = y * 5
        return x.reshape(x.shape) * 2

    gm, _ = optimised(f, *tensors((3,), (3,), (3,)), again=False)
    found = calls(gm)
    assert found.count("mul") == 2
    for name in (".add_", "relu_", "relu", "setitem", "dropout"):
        assert name in found, (name, found)


@pytest.mark.parametrize(
    "function",
    [
        lambda x, w, v: (F.linear(x, w), F.linear(x, v)),
        lambda x, w, v: torch.stack(torch.split(x, 2, 1), 0) + 1,
        lambda x, w, v: torch.stack(torch.unbind(x, 1), 0),
        lambda x, w, v: torch.stack(torch.unbind(x, 1), 0).view(-1) + 1,
    ],
)
def test_a17_results_lie_in_memory_as_without_the_passes(function):
    # `kept` compares strides and sharing.
    kept(function, A, *tensors((5, 4), (5, 4)), layout="strict")


def test_metadata_of_another_kind_does_no_harm():
    """The no-op remover of torch tripped over numbers (its pull request 154460)."""
    assert not facts.same_geometry(torch.ones(2), 2)
    gm = torch.fx.symbolic_trace(lambda x, n: x.view(n, -1).reshape(n, -1) + n)
    pre_grad_passes(gm, [A, 3], options=PassOptions(on_error="raise"))
    assert torch.equal(gm(A, 3), A + 3)
