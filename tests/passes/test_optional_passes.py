"""The passes selected by name: the split-cat family and the batch fusions, with the cases others got wrong."""

from __future__ import annotations

import pytest
import torch
from torch.nn import functional as F

from tests.passes.support import calls, optimised
from tests.passes.test_default_passes import ABC, APPROXIMATE, X48, after, tensors, unchanged

# -- the split-cat family ------------------------------------------------------------------------------------------


def family(function, *args, passes, **options):
    return after(function, *args, passes=passes, **{"layout": "strict", "threshold_to_cat": 2, **options})


def test_slices_of_a_split():
    def f(x):
        s = torch.split(x, 2, 1)
        return torch.cat([s[0], s[1]], 1) + 1, torch.cat([s[2], s[3]], 1) * 2

    merged = family(f, X48, passes="merge_getitem_cat_pass")
    assert sorted(merged) == sorted(["split", "getitem", "getitem", "add", "mul"])
    assert family(f, X48, passes="mutate_cat_pass") == ["narrow", "add", "narrow", "mul"]

    def used(x):
        s = torch.split(x, 2, 1)
        return torch.cat([s[0], s[1]], 1) + 1, s[1] * 3

    assert unchanged(used, X48, passes="merge_getitem_cat_pass")
    assert "narrow" in family(used, X48, passes="mutate_cat_pass")


def test_split_cat_in_general():
    assert family(lambda x: torch.cat(torch.split(x, 4, 1), 1) + 1, X48, passes="split_cat_pass") == ["add"]

    def stacked(x):
        return (torch.stack(torch.split(x, 2, 1), 0) + 1).sum()

    assert family(stacked, X48, passes="split_cat_pass", approximate=True)[:2] == ["unflatten", "permute"]

    def across(x):
        return torch.cat(torch.split(x, 2, 1), 0) + 1

    assert family(across, X48, passes="split_cat_pass") == ["unflatten", "permute", "flatten", "add"]


def test_a_view_must_not_see_later_writes():
    def f(x):
        x = x + 0
        y = torch.cat(torch.split(x, 2, 1), 1)
        x.add_(1)
        return y * x.sum()

    for name in ("split_cat_pass", "mutate_cat_pass", "remove_split_ops_pass"):
        assert unchanged(f, X48, passes=name)
    assert family(lambda x: torch.cat(torch.split(x, 2, 1), 1), X48, passes="split_cat_pass") == ["clone"]


def test_unbind_then_stack():
    (x,) = tensors((2, 3, 4))
    relaxed = {"passes": "unbind_stack_pass", "approximate": True}
    assert family(lambda x: (torch.stack(torch.unbind(x, 0), 1) + 1).sum(), x, **relaxed)[:2] == ["permute", "add"]
    (b,) = tensors((3, 5))

    def with_other(x, b):
        return torch.cat([b, *torch.unbind(x, 0)], 1) + 1

    assert family(with_other, x, b, passes="unbind_stack_pass") == ["permute", "flatten", "cat", "add"]
    assert unchanged(lambda x: torch.stack([x.unbind(0)[1], x.unbind(0)[0]]) + 1, x, passes="unbind_stack_pass")


def test_the_axis_of_the_cat_matters():
    def f(x):
        return torch.cat(torch.split(x, 2, 0), 1) + 1

    assert unchanged(f, X48, passes="split_cat_to_slices_pass", threshold_to_cat=2)


@pytest.mark.parametrize("dim", [0, 1, 2])
def test_moving_an_axis_is_not_swapping_two(dim):
    (x,) = tensors((2, 3, 4, 5))
    for name in ("unbind_cat_to_view_pass", "unbind_stack_pass"):
        gm, report = optimised(lambda x: torch.cat(torch.unbind(x, 0), dim) + 1, x, passes=name, threshold_to_cat=2)
        assert report.rewrites == 1
        assert unchanged(lambda x: torch.cat([x.unbind(0)[1], x.unbind(0)[0]], dim) + 1, x, passes=name)


@pytest.mark.parametrize("split", [0, 1, 2])
@pytest.mark.parametrize("dim", [0, 1, 2, 3])
def test_split_and_stack_along_any_axes(split, dim):
    (x,) = tensors((4, 6, 8))
    for name in ("split_stack_to_cats_pass", "split_cat_pass"):
        _, report = optimised(lambda x: torch.stack(torch.split(x, 2, split), dim) + 1, x, passes=name)
        assert report.rewrites == 1


@pytest.mark.parametrize("dim", [0, 1, 2])
def test_reshapes_between_split_and_stack(dim):
    def f(x):
        return torch.stack([t.reshape(4, 2, 2) for t in torch.split(x, 4, 1)], dim) + 1

    _, report = optimised(f, X48, passes="move_reshape_out_of_split_stack_pass")
    assert report.rewrites == 1


def test_a_run_of_an_unbind():
    (x,) = tensors((3, 4, 5))

    def f(x):
        u = torch.unbind(x, 1)
        return torch.stack([u[0], u[1]], 1) + 1, u[2] + 1

    assert "narrow" in family(f, x, passes="unbind_stack_to_slices_pass")


def test_squeezed_pieces_among_others():
    x, y = tensors((2, 4, 5), (2, 5))

    def f(x, y):
        parts = [part.squeeze(1) for part in torch.split(x, 1, 1)]
        return torch.cat([*parts[:3], y], 1) + 1, parts[3] + 1

    found = family(f, x, y, passes="fuse_split_getitem_squeeze_cat")
    assert sorted(found) == sorted(["split", "getitem", "squeeze", "narrow", "flatten", "cat", "add", "add"])


def test_splits_of_one_and_of_splits():
    assert family(lambda x: torch.split(x, 8, 1)[0] + 1, X48, passes="remove_split_with_size_one_pass") == ["add"]

    def f(x):
        a, b, c = torch.split(x, [2, 3, 3], 1)
        d, e = torch.split(b, [1, 2], 1)
        return a + 1, c + 1, d + 1, e + 1

    assert family(f, X48, passes="merge_splits_pass").count("split") == 1


# -- batch fusions -------------------------------------------------------------------------------------------------

PAIRS = {"min_fuse_set_size": 2}
A, B, W, V = tensors((3, 4), (3, 4), (5, 4), (5, 4))
C, D = tensors((5,), (5,))


def test_linears_in_a_batch():
    found = after(
        lambda a, b, w, v: (F.linear(a, w) + 1, F.linear(b, v) + 1),
        A,
        B,
        W,
        V,
        passes="batch_linear",
        **APPROXIMATE,
        **PAIRS,
    )
    assert found == ["stack", "stack", "permute", "bmm", "unbind", "getitem", "add", "getitem", "add"]

    def biased(a, b, w, v, c, d):
        return F.linear(a, w, c) + 1, F.linear(b, v, d) + 1

    found = after(biased, A, B, W, V, C, D, passes="batch_linear", **APPROXIMATE, **PAIRS)
    assert found[:6] == ["stack", "stack", "permute", "stack", "unsqueeze", "baddbmm"]


@pytest.mark.parametrize(
    "function",
    [
        lambda a, b, w, v: (F.linear(a, w) + 1, F.linear(b[:, :2], v[:, :2]) + 1),
        lambda a, b, w, v: F.linear(F.linear(a, w[:4]), w) + 1,
        lambda a, b, w, v: (F.linear(a, w).add_(1), F.linear(b, v) + 1),
    ],
)
def test_linears_that_are_no_batch(function):
    assert unchanged(function, A, B, W, V, passes="batch_linear", **APPROXIMATE, **PAIRS)


def test_layer_norms_in_a_batch():
    def f(a, b, w, v):
        return F.layer_norm(a, (4,), w[0], v[0]) + 1, F.layer_norm(b, (4,), w[1], v[1]) + 1

    found = after(f, A, B, W, V, passes="batch_layernorm", **APPROXIMATE, **PAIRS)
    assert found.count("layer_norm") == 1 and "addcmul" in found
    plain = after(
        lambda a, b: (F.layer_norm(a, (4,)) + 1, F.layer_norm(b, (4,)) + 1),
        A,
        B,
        passes="batch_layernorm",
        **APPROXIMATE,
        **PAIRS,
    )
    assert plain == ["stack", "layer_norm", "unbind", "getitem", "add", "getitem", "add"]
    assert unchanged(
        lambda a, b: (F.layer_norm(a, (4,)) + 1, F.layer_norm(b, (4,), eps=1e-6) + 1),
        A,
        B,
        passes="batch_layernorm",
        **APPROXIMATE,
        **PAIRS,
    )


def test_half_precision_is_not_rounded_once_more():
    def f(a, b):
        return F.layer_norm(a, (4,)) + 1, F.layer_norm(b, (4,)) + 1

    assert unchanged(f, A.bfloat16(), B.bfloat16(), passes="batch_layernorm", **APPROXIMATE, **PAIRS)


@pytest.mark.parametrize("name", ["tanh", "sigmoid", "relu"])
def test_pointwise_in_a_batch(name):
    function = getattr(torch, name)
    wanted = {} if name == "relu" else APPROXIMATE
    found = after(lambda a, b: (function(a) + 1, function(b) + 1), A, B, passes=f"batch_{name}", **PAIRS, **wanted)
    assert found == ["stack", name, "unbind", "getitem", "add", "getitem", "add"]


def written_in_between(a, b):
    y = torch.tanh(a)
    b.add_(1)
    return y + 1, torch.tanh(b) + 1


@pytest.mark.parametrize(
    "name, function, args",
    [
        ("batch_relu", lambda a, b: (torch.relu(a) + 1, torch.relu(b) + 1), (A, B.double())),
        ("batch_tanh", written_in_between, (A, B)),
        ("batch_relu", lambda a, b: (F.relu(a, inplace=True) + 1, F.relu(b, inplace=True) + a), (A, B)),
        ("batch_clamp", lambda a, b: (torch.clamp(a, 0, 1) + 1, torch.clamp(b, 0, 2) + 1), (A, B)),
        ("batch_nan_to_num", lambda a, b: (torch.nan_to_num(a, 1.0) + 1, torch.nan_to_num(b, 2.0) + 1), (A, B)),
        ("batch_tanh", lambda a, b: torch.tanh(torch.tanh(a)) + 1, (A, B)),
    ],
)
def test_pointwise_that_is_no_batch(name, function, args):
    assert unchanged(function, *args, passes=name, **PAIRS, **APPROXIMATE)


def test_what_may_round_differently_elsewhere_is_no_exact_pass():
    assert unchanged(lambda a, b: (torch.sigmoid(a) + 1, torch.sigmoid(b) + 1), A, B, passes="batch_sigmoid", **PAIRS)


def test_bound_arguments_make_the_batch():
    found = after(lambda a, b: (torch.clamp(a, 0, 1) + 1, b.clamp(0, max=1) + 1), A, B, passes="batch_clamp", **PAIRS)
    assert found.count("clamp") == 1


def test_active_dropout_is_never_merged_or_moved():
    def f(a, b):
        return F.dropout(a, 0.5, True) + 1, F.dropout(b, 0.5, True) + 1

    gm, _ = optimised(f, A, B, min_fuse_set_size=2)
    assert calls(gm).count("dropout") == 2


def test_two_fusions_that_would_need_each_other():
    """tanh before sigmoid in one chain and after it in the other: fusing both pairs makes a cycle."""

    def f(a, b):
        return torch.sigmoid(torch.tanh(a)) + 1, torch.tanh(torch.sigmoid(b)) + 1

    gm, _ = optimised(f, A, B, passes="batch_tanh batch_sigmoid", **PAIRS, **APPROXIMATE)
    assert calls(gm).count("stack") == 1


class FeatureRows(torch.nn.Module):
    def __init__(self, count=8, size=4):
        super().__init__()
        self.linears = torch.nn.ModuleList(torch.nn.Linear(size, size) for _ in range(count))
        self.last = torch.nn.Linear(count * size, 3)
        self.size = size

    def forward(self, x):
        parts = torch.split(x, self.size, 1)
        return self.last(torch.cat([torch.tanh(f(p)) for f, p in zip(self.linears, parts)], 1))


def test_batches_meet_the_splits_around_them():
    model = FeatureRows().requires_grad_(False)
    gm, _ = optimised(model, torch.randn(6, 32), freeze_weights=True, **APPROXIMATE)
    assert calls(gm) == ["unflatten", "permute", "baddbmm", "tanh", "permute", "flatten", "linear"]
    trained, _ = optimised(FeatureRows(), torch.randn(6, 32), **APPROXIMATE)
    assert calls(trained).count("baddbmm") == 1


def test_a_batch_of_nothing_but_views_is_not_made_by_default():
    _, report = optimised(lambda a, b, c: (a.detach() + 1, b.detach() + 1, c.detach() + 1), *ABC, min_fuse_set_size=2)
    assert "batch_detach" not in {record.name for record in report.records}
