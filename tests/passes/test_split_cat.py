"""Pieces taken apart and put together: the graphs that the split-cat passes make, and runs among other operands."""

from __future__ import annotations

import pytest
import torch
from torch.nn import functional as F

from tests.passes.support import optimised
from tests.passes.test_default_passes import EIGHT, FIFTEEN, FIVE, NORMAL, X48, after, tensors, unchanged

X435, Y45 = tensors((4, 3, 5), (4, 5))


def family(function, *args, passes, **options):
    """The calls after a pass, in no order: results that nobody uses first may stand anywhere."""
    return sorted(after(function, *args, passes=passes, **{"threshold_to_cat": 2, **options}))


def halves(x):
    s = torch.split(x, 2, 1)
    return torch.cat([s[0], s[1]], 1) + 1, torch.cat([s[2], s[3]], 1) * 2


def with_other_user(x):
    s = torch.split(x, 2, 1)
    return torch.cat([s[0], s[1]], 1) + 1, s[1] * 3, torch.cat([s[2], s[3]], 1) * 2


def reversed_rest(x):
    s = torch.split(x, 2, 1)
    return torch.cat([s[0], s[1]], 1) + 1, s[2] + 1, torch.cat([s[3], s[2]], 1)


def squeezed(x):
    return [part.squeeze(1) + 1 for part in torch.split(x, 1, 1)]


def split_again(x):
    a, b, c = torch.split(x, [2, 3, 3], 1)
    d, e = torch.split(b, [1, 2], 1)
    return a + 1, c + 1, d + 1, e + 1


def partly_unbound(x):
    u = torch.unbind(x, 1)
    return torch.stack([u[0], u[1]], 1) + 1, u[2] + 1


@pytest.mark.parametrize(
    "name, function, args, expected",
    [
        ("merge_getitem_cat_pass", halves, (X48,), "split getitem getitem add mul"),
        ("mutate_cat_pass", with_other_user, (X48,), "split getitem narrow narrow add mul mul"),
        ("split_cat_pass", lambda x: torch.cat(torch.split(x, 4, 1), 1) + 1, (X48,), "add"),
        ("split_cat_pass", reversed_rest, (X48,), "split getitem getitem getitem add add cat"),
        ("split_cat_pass", squeezed, (X435,), "unbind getitem getitem getitem add add add"),
        ("merge_splits_pass", split_again, (X48,), "split getitem getitem getitem getitem add add add add"),
        ("remove_split_with_size_one_pass", lambda x: torch.split(x, 8, 1)[0] + 1, (X48,), "add"),
        ("unbind_stack_to_slices_pass", partly_unbound, (X435,), "unbind getitem narrow add add"),
        ("unbind_stack_pass", lambda x: torch.stack(torch.unbind(x, 1), 1) + 1, (X435,), "add"),
    ],
)
def test_the_graph_that_a_pass_makes(name, function, args, expected):
    assert family(function, *args, passes=name) == sorted(expected.split())


def test_sections_of_a_coarser_split():
    gm, _ = optimised(halves, X48, passes=NORMAL + "merge_getitem_cat_pass")
    (split,) = [node for node in gm.graph.nodes if node.target is torch.split]
    assert split.kwargs["split_size_or_sections"] == [4, 4]


def not_ascending(x):
    s = torch.split(x, 2, 1)
    return torch.cat([s[1], s[0]], 1) + 1, torch.cat([s[3], s[2]], 1) * 2


def a_piece_twice(x):
    s = torch.split(x, 2, 1)
    return torch.cat([s[0], s[1], s[1]], 1) + 1, s[2] + 1, s[3] + 1


@pytest.mark.parametrize("function", [not_ascending, a_piece_twice, lambda x: torch.cat(torch.split(x, 2, 1), 0) + 1])
def test_pieces_that_are_not_merged(function):
    assert unchanged(function, X48, passes="merge_getitem_cat_pass")


def test_sections_of_length_zero():
    def f(x):
        a, b, c, d = torch.split(x, [3, 0, 1, 4], 1)
        return torch.cat([a, b, c], 1) + 1, d * 2

    assert family(f, X48, passes="merge_getitem_cat_pass") == sorted("split getitem getitem add mul".split())


@pytest.mark.parametrize(
    "dim, expected",
    [(0, "unflatten permute add"), (1, "reshape add")],
)
def test_stacks_of_pieces_are_moved_axes(dim, expected):
    def f(x):
        return torch.stack(torch.split(x, 2, 1), dim) + 1

    for name in ("split_stack_to_cats_pass", "split_cat_pass"):
        assert family(f, X48, passes=name, layout="relaxed") == sorted(expected.split())


def test_squeezed_pieces_in_several_joins():
    def f(x):
        a, b, c = [part.squeeze(1) for part in torch.split(x, 1, 1)]
        return torch.cat([a, b, c], 0) + 1, torch.stack([b, c], 1) + 1, a * 2

    found = family(f, X435, passes="fuse_split_getitem_squeeze_cat", layout="relaxed")
    assert "cat" not in found and "stack" not in found and found.count("getitem") == 1


# -- runs among other operands -------------------------------------------------------------------------------------


def test_a_run_among_other_operands():
    (x,) = tensors((4, 12))
    (y,) = tensors((4, 1, 3))

    def f(x, y):
        a, b, c, d = [t.reshape(4, 1, 3) for t in torch.chunk(x, 4, 1)]
        return torch.cat([y, a, b, c, y], 1) + 1, d * 2

    assert after(f, x, y, passes=FIVE).count("cat") == 1
    assert after(f, x, y, passes=FIVE).count("reshape") == 2


def different_in_another_axis(x):
    a, b = torch.split(x, [4, 8], 1)
    return torch.cat([a.reshape(2, 8), b.reshape(4, 8)], 0) + 1


def repeated(x):
    a, b, c, d = [t.reshape(4, 1, 3) for t in torch.chunk(x, 4, 1)]
    return torch.cat([a, a, b, b], 1) + c + d


@pytest.mark.parametrize("function", [different_in_another_axis, repeated])
def test_runs_that_are_none(function):
    (x,) = tensors((4, 12))
    assert unchanged(function, x, passes=f"{FIVE} {EIGHT} {FIFTEEN}")


def test_written_pieces_stay():
    def f(x):
        x = x + 0
        parts = [t.reshape(4, 1, 2) for t in torch.chunk(x, 4, 1)]
        joined = torch.cat(parts, 1)
        joined.add_(1)
        return joined * 2

    optimised(f, X48, passes=NORMAL + FIVE)


# -- sandwiches ----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "function, expected",
    [
        (lambda x: F.layer_norm(x.reshape(12, 5), (5,)).reshape(4, 3, 5) * 2, ["layer_norm", "mul"]),
        (lambda x: F.rms_norm(x.reshape(12, 5), (5,)).reshape(4, 3, 5) * 2, ["rms_norm", "mul"]),
        (lambda x: F.log_softmax(x.reshape(12, 5), -1).reshape(4, 3, 5) * 2, ["log_softmax", "mul"]),
        (lambda x: x.flatten().neg().unflatten(0, (4, 3, 5)) * 2, ["neg", "mul"]),
    ],
)
def test_rows_need_not_be_regrouped(function, expected):
    assert after(function, X435, passes="remove_reshape_pass") == expected


def test_a_returned_view_does_not_become_a_copy_to_keep_its_strides():
    def f(x):
        part = x.narrow(-1, 3, 1).unbind(0)[1]
        return part.reshape((1,)).unsqueeze(1), part

    optimised(f, torch.randn(3, 1, 4), passes="remove_reshape_pass")


def test_cats_inside_several_cats():
    a, b, c = tensors((2, 3), (2, 3), (2, 3))

    def f(a, b, c):
        inner = torch.cat([a, b], 1)
        return torch.cat([inner, c], 1) + 1, torch.cat([c, inner], 1) * 2

    assert family(f, a, b, c, passes="merge_concats_pass") == ["add", "cat", "cat", "mul"]


def test_cats_that_would_grow_without_end_stay():
    def f(x):
        for _ in range(12):
            x = torch.cat([x, x], 0)
        return x + 1

    assert unchanged(f, torch.randn(1, 2), passes="merge_concats_pass")
