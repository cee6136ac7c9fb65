"""The fifteen default steps: what they turn graphs into, and what they leave alone."""

from __future__ import annotations

import copy
import math

import pytest
import torch
from torch.nn import functional as F

from framelift.passes import PassOptions, pre_grad_passes
from tests.passes.support import calls, exported, optimised

NORMAL = "normalization_pass_aten "
APPROXIMATE = {"exact": False, "approximate": True}


def after(function, *args, passes, **options):
    """The calls after one pass on the normalized graph."""
    gm, _ = optimised(function, *args, passes=NORMAL + passes, **options)
    return calls(gm)


def unchanged(function, *args, passes, **options):
    """Whether a pass leaves the normalized graph as it is."""
    normal, _ = optimised(function, *args, passes=NORMAL.strip())
    return after(function, *args, passes=passes, **options) == calls(normal)


def tensors(*shapes):
    generator = torch.Generator().manual_seed(len(shapes))
    return tuple(torch.randn(shape, generator=generator) for shape in shapes)


(X46,), (X48,), (X4_12,), (X435,) = tensors((4, 6)), tensors((4, 8)), tensors((4, 12)), tensors((4, 3, 5))

# -- 1 normalization -----------------------------------------------------------------------------------------------


def normal_form(function, *args):
    gm, _ = optimised(function, *args, passes=NORMAL.strip())
    return [
        (node.target.__name__ if callable(node.target) else node.target, node.args[1:], dict(node.kwargs))
        for node in gm.graph.nodes
        if node.op.startswith("call") and node.target is not torch._assert
    ]


@pytest.mark.parametrize(
    "function, expected",
    [
        (lambda x: [t + 1 for t in x.chunk(3, -1)][0], ("split", ([2, 2, 2], 1), {})),
        (lambda x: torch.split(x, 4, dim=1)[0] + 1, ("split", ([4, 2], 1), {})),
        (lambda x: torch.tensor_split(x, (1, 1), 1)[0] + 1, ("split", ([1, 0, 5], 1), {})),
        (lambda x: x.unbind(-1)[0], ("unbind", (1,), {})),
        (lambda x: x.reshape(-1, 3), ("reshape", ((8, 3),), {})),
        (lambda x: x.unsqueeze(-1), ("unsqueeze", (2,), {})),
        (lambda x: x.transpose(0, -1), ("permute", ((1, 0),), {})),
        (lambda x: x.swapaxes(0, 1), ("permute", ((1, 0),), {})),
        (lambda x: x.movedim(0, -1), ("permute", ((1, 0),), {})),
        (lambda x: x.t(), ("permute", ((1, 0),), {})),
        (lambda x: x.T, ("permute", ((1, 0),), {})),
        (lambda x: x.mT, ("permute", ((1, 0),), {})),
        (lambda x: F.relu(x), ("relu", (), {})),
        (lambda x: x.sigmoid(), ("sigmoid", (), {})),
        (lambda x: x.clip(0, 1), ("clamp", (0, 1), {})),
        (lambda x: x.clamp_max(1), ("clamp", (), {"max": 1})),
        (lambda x: x - 2, ("sub", (2,), {})),
        (lambda x: x.sum(axis=0, keepdims=True), ("sum", (), {"dim": 0, "keepdim": True})),
    ],
)
def test_one_spelling(function, expected):
    assert normal_form(function, X46)[0] == expected


def test_cat_and_squeeze_are_spelled_out():
    a, b = tensors((2, 1, 3), (2, 1, 3))
    (name, args, _), *rest = normal_form(lambda a, b: torch.concat((a, b), axis=-1).squeeze(), a, b)
    assert (name, args) == ("cat", (2,)) and rest == [("squeeze", ((1,),), {})]


@pytest.mark.parametrize("shape, steps", [((3, 4, 5), (2, 0)), ((2, 3, 4, 5), (-1, 1))])
def test_movedim_is_a_permutation(shape, steps):
    optimised(lambda x: x.movedim(*steps) * 2, *tensors(shape), passes=NORMAL.strip())


def test_what_is_not_respelled():
    def f(x):
        x.add_(1)
        return x.size()[0] + 1, F.relu(x, inplace=True), x.view(torch.int32)

    assert [name for name, _, _ in normal_form(f, X46)] == ["add_", "relu", "view"]


def test_repeated_and_negative_items_are_one():
    def f(x):
        parts = x.split(2, 1)
        return parts[-1] + parts[2] + parts[-1]

    gm, _ = optimised(f, X46, passes=NORMAL.strip())
    assert calls(gm).count("getitem") == 1


# -- 2 and 7 keyword arguments -------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "function, expected",
    [
        (lambda x: torch.clamp(x, 0, 1), {"min": 0, "max": 1}),
        (lambda x: torch.nan_to_num(x, 1.0), {"nan": 1.0}),
        (lambda x: F.dropout(x, 0.1, True), {"p": 0.1}),
        (lambda x: torch.cumsum(x, 1), {"dim": 1}),
        (lambda x: F.layer_norm(x, (6,)), {"normalized_shape": (6,)}),
    ],
)
def test_arguments_by_name(function, expected):
    gm, _ = optimised(function, X46, passes="normalize_node_kwargs_pass")
    node = next(node for node in gm.graph.nodes if node.op == "call_function")
    assert not node.args and {k: v for k, v in node.kwargs.items() if k != "input"} == expected


def test_names_that_only_the_schema_knows_are_not_used():
    gm, _ = optimised(lambda x: x + torch.tensor(16, dtype=torch.int64), X46, passes="normalize_node_kwargs_pass")
    assert next(node for node in gm.graph.nodes if node.target is torch.tensor).args == (16,)


def test_operators_keep_their_places():
    gm, report = optimised(lambda x: x + 1, X46, passes="normalize_node_kwargs_pass")
    assert report.rewrites == 0


# -- 3 no-ops ------------------------------------------------------------------------------------------------------

NOOP = "remove_noop_pass"


@pytest.mark.parametrize(
    "function",
    [
        lambda x: x.reshape(4, 6).relu(),
        lambda x: x.permute(1, 0).permute(1, 0).relu(),
        lambda x: torch.cat([x], 0).relu(),
        lambda x: x.unsqueeze(1).squeeze(1).relu(),
        lambda x: x.flatten().unflatten(0, (4, 6)).relu(),
        lambda x: x.contiguous().to(torch.float32).relu(),
        lambda x: F.dropout(x, 0.5, False).relu(),
        lambda x: (x * 1).relu(),
        lambda x: (x / 1).relu(),
        lambda x: (x - 0).relu(),
        lambda x: x.clone().relu(),
        lambda x: x.repeat(1, 1).relu(),
        lambda x: F.pad(x, (0, 0)).relu(),
        lambda x: x.relu().relu(),
        lambda x: x[:].relu(),
        lambda x: torch.split(x, 6, 1)[0].relu(),
    ],
)
def test_what_changes_nothing_is_removed(function):
    assert after(function, X46, passes=NOOP) == ["relu"]


def written_after_copy(x):
    y = torch.cat([x])
    x.add_(1)
    return y * 2


@pytest.mark.parametrize(
    "function",
    [
        written_after_copy,
        lambda x: x.transpose(0, 1).reshape(4, 6) + 1,
        lambda x: (x + 0).relu(),
        lambda x: x[1:3] + x[0:2],
        lambda x: x.clone(),
        lambda x: x.reshape(4, 6),
        lambda x: x.t().contiguous().relu(),
    ],
)
def test_what_only_looks_like_a_noop_stays(function):
    assert unchanged(function, X46, passes=NOOP)


def test_integers_are_not_divided_by_one():
    assert unchanged(lambda x: (x / 1) + 1, torch.arange(6), passes=NOOP)


# -- 4 relu without NaN --------------------------------------------------------------------------------------------


def test_relu_stops_nans_on_request_only():
    def f(x):
        return torch.relu(x) + 1

    x = torch.tensor([math.nan, math.inf, -math.inf, -0.0, 1.0, -1.0])
    gm = exported(f, x)
    before = copy.deepcopy(gm)
    assert "nan_to_num" not in calls(pre_grad_passes(copy.deepcopy(gm)))
    pre_grad_passes(gm, add_passes="relu_nan_to_num", options=PassOptions(on_error="raise"))
    assert calls(gm) == ["nan_to_num", "relu", "add"]
    assert torch.equal(gm(x), torch.tensor([0, math.inf, 0, -0.0, 1, 0]) + 1)
    without = x.nan_to_num(0.0, math.inf, -math.inf)
    assert torch.equal(gm(without), before(without))


def test_relu_of_integers_and_in_place_stay():
    assert unchanged(lambda x: torch.relu(x) + 1, torch.arange(4), passes="relu_nan_to_num")
    assert unchanged(lambda x: F.relu(x, inplace=True) + 1, torch.randn(4), passes="relu_nan_to_num")


# -- 5, 8, 15 pieces put together ----------------------------------------------------------------------------------

FIVE, EIGHT = "fuse_chunk_reshape_concat_pass", "fuse_chunk_squeeze_cat_pass"
FIFTEEN = "fuse_chunk_reshape_unsqueeze_concat_pass"
DEFAULT_PIECES = f"{FIVE} {EIGHT} {FIFTEEN}"


def pieces(each, dim=1, count=4):
    return lambda x: torch.cat([each(t) for t in torch.chunk(x, count, 1)], dim) + 1


def test_pieces_reshaped_and_joined():
    assert after(pieces(lambda t: t.reshape(4, 1, 3)), X4_12, passes=FIVE) == ["reshape", "add"]
    general = ["unflatten", "permute", "reshape", "permute", "flatten", "add"]
    assert after(pieces(lambda t: t.reshape(3, 4)), X4_12, passes=FIVE) == general


def test_a_returned_join_stays_a_tensor_of_its_own():
    def f(x):
        return torch.cat([t.reshape(4, 1, 3) for t in torch.chunk(x, 4, 1)], 1)

    assert after(f, X4_12, passes=FIVE) == ["reshape", "clone"]


def test_pieces_squeezed_and_joined():
    assert after(pieces(lambda t: t.squeeze(1), 1, 3), X435, passes=EIGHT) == ["flatten", "add"]
    assert after(pieces(lambda t: t.squeeze(1), 0, 3), X435, passes=EIGHT) == ["permute", "flatten", "add"]


def test_pieces_unsqueezed_and_joined():
    assert after(pieces(lambda t: t.reshape(4, 3).unsqueeze(1)), X4_12, passes=FIFTEEN) == ["reshape", "add"]


def other_order(x):
    a, b, c, d = [t.reshape(4, 1, 3) for t in torch.chunk(x, 4, 1)]
    return torch.cat([b, a, c, d], 1) + 1


def written_after_join(x):
    y = x + 0
    r = torch.cat([t.reshape(4, 1, 3) for t in torch.chunk(y, 4, 1)], 1)
    y.add_(1)
    return r * y.sum()


def uneven(x):
    return torch.cat([t.reshape(2, -1) for t in torch.split(x, [3, 5, 4], 1)], 1)


@pytest.mark.parametrize("function", [other_order, written_after_join, uneven])
def test_pieces_that_are_not_the_whole_in_order(function):
    assert unchanged(function, X4_12, passes=DEFAULT_PIECES)


@pytest.mark.parametrize("order", [range(10), [0, 1, 2, 5], [9, *range(9)], range(8)])
@pytest.mark.parametrize("dim", [0, -4])
def test_pieces_picked_by_a_list(order, dim):
    """Bounds are sums over all sections, and all operands count (pytorch issue 122379)."""

    def f(x):
        parts = torch.split(x, 1, dim=dim)
        return torch.cat([parts[i] for i in order], dim=dim) + 1

    gm, _ = optimised(f, torch.randn(10, 3, 4, 4))
    if order == range(10):
        assert calls(gm) == ["add"]


# -- 9 cats --------------------------------------------------------------------------------------------------------

MERGE = "merge_concats_pass"
ABC = tensors((2, 3), (2, 3), (2, 3))


def test_nested_cats_are_one():
    assert after(lambda a, b, c: torch.cat([a, torch.cat([b, c], 1)], -1) + 1, *ABC, passes=MERGE) == ["cat", "add"]

    def three_deep(a, b, c):
        return torch.cat([a, torch.cat([b, torch.cat([a, c], 1)], 1)], 1) + 1

    assert after(three_deep, *ABC, passes=MERGE) == ["cat", "add"]


def test_equal_cats_are_one():
    assert after(lambda a, b: torch.cat([a, b], 1) * torch.cat([a, b], -1), *ABC[:2], passes=MERGE) == ["cat", "mul"]
    assert unchanged(lambda a, b: (torch.cat([a, b], 1), torch.cat([a, b], 1)), *ABC[:2], passes=MERGE)


def test_empty_operands_go():
    def f(a, b):
        return torch.cat([torch.empty(0), a, b], 1) + 1

    gm, _ = optimised(f, *ABC[:2], passes=MERGE)
    (cat,) = [node for node in gm.graph.nodes if node.target is torch.cat]
    assert len(cat.kwargs["tensors"]) == 2


def inner_used_twice(a, b, c):
    inner = torch.cat([b, c], 1)
    return torch.cat([a, inner], 1), inner * 2


@pytest.mark.parametrize(
    "function",
    [
        lambda a, b, c: torch.cat([torch.cat([a, b], 0), torch.cat([b, c], 0)], 1) + 1,
        inner_used_twice,
        lambda a, b, c: torch.cat([a.double(), torch.cat([b, c], 1)], 1) + 1,
    ],
)
def test_cats_that_must_stay(function):
    assert unchanged(function, *ABC, passes=MERGE)


# -- 10 sums of linears on slices ----------------------------------------------------------------------------------

SUM = "fuse_split_linear_add_pass"
SLICES = tensors((5, 9), (6, 2), (6, 3), (6, 4), (6,), (6,), (6,))


def test_a_sum_of_linears_on_slices_is_one_linear():
    def f(x, w0, w1, w2, b0, b1, b2):
        a, b, c = torch.split(x, [2, 3, 4], 1)
        return F.linear(a, w0, b0) + F.linear(b, w1, b1) + F.linear(c, w2, b2)

    assert after(f, *SLICES, passes=SUM, **APPROXIMATE) == ["cat", "add", "add", "linear"]


def test_slices_side_by_side_and_other_terms():
    def two(x, w0, w1, w2):
        a, b, _ = torch.split(x, [2, 3, 4], 1)
        return F.linear(a, w0) + F.linear(b, w1)

    def with_rest(x, w0, w1, w2, r):
        a, b, c = torch.split(x, [2, 3, 4], 1)
        return r + F.linear(c, w2) + F.linear(a, w0) + F.linear(b, w1)

    assert after(two, *SLICES[:4], passes=SUM, **APPROXIMATE) == ["narrow", "cat", "linear"]
    assert after(with_rest, *SLICES[:4], torch.randn(5, 6), passes=SUM, **APPROXIMATE) == ["cat", "linear", "add"]


def first_and_last(x, w0, w1, w2):
    a, _, c = torch.split(x, [2, 3, 4], 1)
    return F.linear(a, w0) + F.linear(c, w2)


def with_alpha(x, w0, w1, w2):
    a, b, _ = torch.split(x, [2, 3, 4], 1)
    return torch.add(F.linear(a, w0), F.linear(b, w1), alpha=2)


def used_elsewhere(x, w0, w1, w2):
    a, b, _ = torch.split(x, [2, 3, 4], 1)
    y = F.linear(a, w0)
    return y + F.linear(b, w1), y * 2


@pytest.mark.parametrize("function", [first_and_last, with_alpha, used_elsewhere])
def test_sums_that_must_stay(function):
    assert unchanged(function, *SLICES[:4], passes=SUM, **APPROXIMATE)


# -- 11 reshapes ---------------------------------------------------------------------------------------------------

RESHAPE = "remove_reshape_pass"
X234, W54 = tensors((2, 3, 4), (5, 4))


def test_shapes_in_between_go():
    assert after(lambda x: x.reshape(6, 4).reshape(2, 12) + 1, X234, passes=RESHAPE) == ["reshape", "add"]
    assert after(lambda x: x.reshape(-1).relu().reshape(2, 3, 4) + 1, X234, passes=RESHAPE) == ["relu", "add"]
    assert after(lambda x: torch.softmax(x.reshape(-1, 4), 1).reshape(2, 3, 4), X234, passes=RESHAPE) == ["softmax"]

    def linear(x, w):
        return F.linear(x.reshape(-1, 4), w).reshape(2, 3, 5) + 1

    assert after(linear, X234, W54, passes=RESHAPE, **APPROXIMATE) == ["linear", "add"]
    assert unchanged(linear, X234, W54, passes=RESHAPE)


@pytest.mark.parametrize(
    "function",
    [
        lambda x: torch.softmax(x.reshape(-1), 0).reshape(2, 3, 4),
        lambda x: torch.softmax(x.reshape(2, 12), 0).reshape(2, 3, 4),
        lambda x: F.layer_norm(x.reshape(2, 12), (12,)).reshape(2, 3, 4),
        lambda x: x.reshape(-1).relu().reshape(4, 6),
    ],
)
def test_reshapes_that_regroup_stay(function):
    assert unchanged(function, X234, passes=RESHAPE)


# -- 12 parallel linears -------------------------------------------------------------------------------------------

PARALLEL = "fuse_parallel_linear_pass"
QKV = tensors((2, 3, 8), (8, 8), (4, 8), (4, 8), (8,), (4,), (4,))


def test_linears_on_one_input_are_one():
    def f(x, q, k, v, a, b, c):
        return F.linear(x, q, a) * 2, F.linear(x, k, b) + 1, F.linear(x, v, c).relu()

    expected = ["cat", "cat", "linear", "split", "getitem", "mul", "getitem", "add", "getitem", "relu"]
    assert after(f, *QKV, passes=PARALLEL, **APPROXIMATE) == expected


def test_returned_parts_lie_in_memory_as_before():
    def f(x, q, k, v, a, b, c):
        return F.linear(x, q, a), F.linear(x, k, b), F.linear(x, v, c)

    found = after(f, *QKV, passes=PARALLEL, **APPROXIMATE)
    assert found[:4] == ["cat", "cat", "linear", "split"] and found.count(".contiguous") == 3


@pytest.mark.parametrize(
    "function",
    [
        lambda x, q, k, v, a, b, c: F.linear(x, q, a).sum() + F.linear(x, k).sum(),
        lambda x, q, k, v, a, b, c: F.linear(x, q).add_(1).sum() + F.linear(x, k).sum(),
        lambda x, q, k, v, a, b, c: F.linear(x, F.linear(F.linear(x, q)[0, 0], q).expand(8, 8)),
    ],
)
def test_linears_that_must_stay(function):
    assert unchanged(function, *QKV, passes=PARALLEL, **APPROXIMATE)


class Heads(torch.nn.Module):
    def __init__(self, count, inner, outer):
        super().__init__()
        self.heads = torch.nn.ModuleList(torch.nn.Linear(inner, outer) for _ in range(count))

    def forward(self, x):
        return [torch.sigmoid(head(x)) for head in self.heads]


def test_frozen_weights_are_packed_once():
    model = Heads(4, 8, 3).requires_grad_(False)
    options = {"approximate": True, "exact": False, "freeze_weights": True, "ignore_profit": False, "batch": ()}
    gm, _ = optimised(model, torch.randn(5, 8), **options)
    assert calls(gm).count("linear") == 1 and "cat" not in calls(gm)


def test_what_does_not_pay_is_left_alone():
    options = {"approximate": True, "exact": False, "ignore_profit": False, "batch": ()}
    _, report = optimised(Heads(4, 8, 3), torch.randn(5, 8), **options)
    assert report.of(PARALLEL)[0].rejected == {"does not pay": 1}
    large = Heads(3, 512, 512).requires_grad_(False)
    _, report = optimised(large, torch.randn(128, 512), freeze_weights=True, **options)
    assert report.of(PARALLEL)[0].rejected == {"does not pay": 1}


# -- 13 splits -----------------------------------------------------------------------------------------------------

SPLITS = "remove_split_ops_pass"


def split_again(x):
    a, b, c = torch.split(x, [2, 3, 3], 1)
    d, e = torch.split(b, [1, 2], 1)
    return a + 1, c + 1, d + 1, e + 1


@pytest.mark.parametrize(
    "function, expected",
    [
        (lambda x: torch.split(x, 8, 1)[0] + 1, ["add"]),
        (lambda x: torch.split(x, 2, 1)[3] + 1, ["narrow", "add"]),
        (lambda x: torch.cat([t.relu() for t in torch.split(x, 2, 1)], 1) + 1, ["relu", "add"]),
        (lambda x: torch.cat([t * 2 for t in torch.split(x, 2, 0)], 0) + 1, ["mul", "add"]),
        (lambda x: torch.cat(torch.split(x, 2, 1), 1) + 1, ["add"]),
        (split_again, ["split", *["getitem"] * 4, *["add"] * 4]),
    ],
)
def test_splits_nobody_needs(function, expected):
    assert sorted(after(function, X48, passes=SPLITS)) == sorted(expected)


def some_in_another_order(x):
    a, b, c, d = torch.split(x, 2, 1)
    return torch.cat([b.relu(), a.relu(), c.relu(), d.relu()], 1)


def treated_differently(x):
    a, b = torch.split(x, 4, 1)
    return torch.cat([a * 2, b * 3], 1)


@pytest.mark.parametrize(
    "function",
    [lambda x: [t + 1 for t in torch.split(x, 2, 1)[:3]], some_in_another_order, treated_differently],
)
def test_splits_that_are_needed(function):
    assert unchanged(function, X48, passes=SPLITS)


# -- 14 stacks -----------------------------------------------------------------------------------------------------

STACK = "stack_to_unsqueeze_pass"


def test_stacks_are_cats_and_stacks_again():
    def chunks(x):
        return torch.stack(list(torch.chunk(x, 4, 1)), 1) + 1

    expected = ["split", *["getitem"] * 4, *["unsqueeze"] * 4, "cat", "add"]
    assert after(chunks, X48, passes=STACK) == expected
    assert after(chunks, X48, passes=f"{STACK} {FIFTEEN}") == ["reshape", "add"]

    def plain(a, b):
        return torch.stack([a, b], 1) + 1

    assert after(plain, *ABC[:2], passes=STACK) == ["unsqueeze", "unsqueeze", "cat", "add"]
    assert after(plain, *ABC[:2], passes=f"{STACK} restore_stack") == ["stack", "add"]
    assert after(lambda a: torch.stack([a], 1), ABC[0], passes=STACK) == ["unsqueeze", "clone"]
