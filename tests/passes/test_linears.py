"""Linears and norms: more of what is merged, in which groups, and what is left alone."""

from __future__ import annotations

import pytest
import torch
from torch.nn import functional as F

from tests.passes.support import calls, closer, optimised
from tests.passes.test_default_passes import APPROXIMATE, NORMAL, SUM, after, tensors, unchanged

X, W, V, C, D = tensors((3, 4), (6, 4), (6, 4), (6,), (6,))
PAIRS = {"min_fuse_set_size": 2, **APPROXIMATE}


def summed(x, w, b):
    first, second, third = torch.split(F.linear(x, w, b), 2, -1)
    return first + second + third


def summed_with_rest(x, w, b):
    first, second, third = torch.split(F.linear(x, w), 2, -1)
    return second + x[:, :2] + third + first


def test_the_sum_of_the_pieces_of_a_linear():
    name = "fuse_linear_split_add"
    assert after(summed, X, W, C, passes=name, **APPROXIMATE) == ["unflatten", "sum", "unflatten", "sum", "linear"]
    found = after(summed_with_rest, X, W, C, passes=name, **APPROXIMATE)
    assert found.count("linear") == 1 and found.count("add") == 1 and "split" not in found


def a_piece_is_missing(x, w, b):
    first, second, _ = torch.split(F.linear(x, w, b), 2, -1)
    return first + second


def a_piece_is_used_elsewhere(x, w, b):
    first, second, third = torch.split(F.linear(x, w, b), 2, -1)
    return first + second + third, first * 2


def the_linear_is_returned(x, w, b):
    whole = F.linear(x, w, b)
    first, second, third = torch.split(whole, 2, -1)
    return first + second + third, whole


def uneven_pieces(x, w, b):
    first, second = torch.split(F.linear(x, w, b), [5, 1], -1)
    return first + second


@pytest.mark.parametrize(
    "function", [a_piece_is_missing, a_piece_is_used_elsewhere, the_linear_is_returned, uneven_pieces]
)
def test_sums_of_pieces_that_stay(function):
    assert unchanged(function, X, W, C, passes="fuse_linear_split_add", **APPROXIMATE)


def a_piece_twice(x, w, v):
    one, two = torch.split(x, 2, 1)
    return F.linear(one, w[:, :2]) + F.linear(one, v[:, :2])


def broadcast(x, w, v):
    one, two = torch.split(x, 2, 1)
    return F.linear(one, w[:, :2]) + F.linear(two[0], v[:, :2])


def along_another_axis(x, w, v):
    one, two = torch.split(torch.cat([x, x[:1]], 0), 2, 0)
    return F.linear(one, w) + F.linear(two, v)


@pytest.mark.parametrize("function", [a_piece_twice, broadcast, along_another_axis])
def test_sums_of_linears_that_stay(function):
    found = after(function, X, W, V, passes=SUM, **APPROXIMATE)
    assert found.count("linear") == 2


def test_linears_with_and_without_bias_are_two_groups():
    def f(x, w, v, c, d):
        one = [F.linear(x, w, c), F.linear(x, v, d), F.linear(x, w[:2]), F.linear(x, v[:3])]
        return [each * 2 for each in one]

    assert after(f, X, W, V, C, D, passes="fuse_parallel_linear_pass", **APPROXIMATE).count("linear") == 2


@pytest.mark.parametrize("name", ["fuse_parallel_linear_pass", "batch_linear_lhs"])
def test_both_names_do_the_same(name):
    f = lambda x, w, v: (F.linear(x, w), F.linear(x, v))  # noqa: E731
    found = after(f, X, W, V, passes=name, **APPROXIMATE)
    assert found == ["cat", "linear", "split", *["getitem", ".contiguous"] * 2]


def test_returned_pieces_are_copied_by_one_call():
    f = lambda x, w, v: (F.linear(x, w), F.linear(x, v))  # noqa: E731
    found = after(f, X, W, V, passes="fuse_parallel_linear_pass copy_pieces", **APPROXIMATE)
    assert found == ["cat", "linear", "split_with_sizes_copy", "getitem", "getitem"]


def test_one_call_on_all_pieces():
    def f(x, w, v):
        return [torch.sigmoid(part) for part in torch.split(F.linear(x, w), [1, 2, 3], 1)]

    found = after(f, X, W, V, passes="batch_sigmoid", **PAIRS)
    assert found[:3] == ["linear", "sigmoid", "split"]

    def not_all(x, w, v):
        one, two, three = torch.split(F.linear(x, w), [1, 2, 3], 1)
        return torch.sigmoid(one), torch.sigmoid(two), three

    assert unchanged(not_all, X, W, V, passes="batch_sigmoid", **PAIRS)

    def written(x, w, v):
        one, two = torch.split(F.linear(x, w), 3, 1)
        return torch.sigmoid(one).add_(1), torch.sigmoid(two)

    assert unchanged(written, X, W, V, passes="batch_sigmoid", **PAIRS)


def test_linears_of_any_rank_in_a_batch():
    one, two = tensors((2, 3, 4), (2, 3, 4))
    f = lambda a, b, w, v, c, d: (F.linear(a, w, c) * 2, F.linear(b, v, d) * 3)  # noqa: E731
    found = after(f, one, two, W, V, C, D, passes="batch_linear", **PAIRS)
    assert found.count("baddbmm") == 1 and "linear" not in found


@pytest.mark.parametrize("names", [(), ("weight",), ("bias",), ("weight", "bias")])
def test_layer_norms_with_any_weights(names):
    weights = tensors((4,), (4,))

    def f(a, b, w, v):
        one = {name: given for name, given in zip(("weight", "bias"), (w, v)) if name in names}
        return F.layer_norm(a, (4,), **one) * 2, F.layer_norm(b, (4,), **one) * 3

    found = after(f, X, X + 1, *weights, passes="batch_layernorm", **PAIRS)
    assert found.count("layer_norm") == 1
    assert found.count("addcmul") == (len(names) == 2)


def test_layer_norms_in_half_precision_on_request():
    f = lambda a, b: (F.layer_norm(a, (4,)) * 2, F.layer_norm(b, (4,)) * 3)  # noqa: E731
    half = X.bfloat16()
    found = after(f, half, half + 1, passes="batch_layernorm", allow_precision_loss=True, **PAIRS)
    assert found.count("layer_norm") == 1


def test_detaching_in_a_batch():
    f = lambda x: [part.detach() * 2 for part in torch.split(x, 1, 1)]  # noqa: E731
    assert after(f, X, passes="batch_detach", **PAIRS).count("detach") == 1


# -- weights -------------------------------------------------------------------------------------------------------


class Heads(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.one, self.two = torch.nn.Linear(4, 3), torch.nn.Linear(4, 3)

    def forward(self, x):
        return self.one(x) * 2, self.two(x) * 3


def test_weights_that_are_not_frozen_are_packed_on_every_call():
    model = Heads()
    gm, _ = optimised(model, X, passes=NORMAL + "fuse_parallel_linear_pass", **APPROXIMATE)
    assert calls(gm).count("cat") == 2
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.data.add_(1)  # leaves no trace in versions or addresses
    closer(model(X)[0], gm(X)[0], model(X)[0])


def test_weights_given_as_inputs_are_never_frozen():
    f = lambda x, w, v: (F.linear(x, w) * 2, F.linear(x, v) * 3)  # noqa: E731
    found = after(f, X, W, V, passes="fuse_parallel_linear_pass", freeze_weights=True, **APPROXIMATE)
    assert "cat" in found


def test_a_refused_fusion_leaves_no_packed_weight_behind():
    class Returned(Heads):
        def forward(self, x):
            return self.one(x).as_strided((2,), (1,)), self.two(x) * 3

    options = {"freeze_weights": True, "layout": "strict", **APPROXIMATE}
    gm, report = optimised(Returned().requires_grad_(False), X, passes=NORMAL + "fuse_parallel_linear_pass", **options)
    folded = [name for name, _ in gm.named_buffers() if name.startswith("folded_")]
    used = {str(node.target) for node in gm.graph.nodes if node.op == "get_attr"}
    assert set(folded) <= used
