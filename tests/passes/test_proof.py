"""What proves and shows what passes do: numeric verification, statistics, differences, bisection."""

from __future__ import annotations

import json
from dataclasses import replace

import pytest
import torch
from torch import nn

import framelift
from framelift.passes import Match, PassOptions, Rewrite, bisect_passes, ops, pre_grad_passes, register, run_passes
from framelift.passes.declare import REGISTRY
from framelift.passes.rules import PassError
from framelift.report import stream
from framelift.report.events import PassChanged
from tests.passes.support import calls, exported


@pytest.fixture
def wrong():
    """A pass that is wrong: what it makes has the right shape and another value. It acts on one kind of call."""
    before = dict(REGISTRY)

    @register
    class Wrong(Rewrite):
        name = "wrong"
        roots = ("sigmoid",)
        instead = torch.tanh

        def match(self, root, work):
            return Match(root, x=ops.bound(root, "sigmoid")["input"])

        def rewrite(self, match, build):
            return {match.root: build.call(type(self).instead, match.x)}

    yield Wrong
    REGISTRY.clear()
    REGISTRY.update(before)


NUMERIC = PassOptions(verify="numeric", on_error="raise")


class Counting(nn.Module):
    """Writes to a buffer of its own."""

    def __init__(self):
        super().__init__()
        self.linear = nn.Linear(6, 6)
        self.register_buffer("count", torch.zeros(()))

    def forward(self, x):
        self.count.add_(1)
        return self.linear(x.reshape(-1, 6)).reshape(2, 3, 6).sigmoid() * self.count


# -- verification ----------------------------------------------------------------------------------------------------


def test_verification_leaves_the_world_as_it_was():
    gm = exported(Counting(), torch.randn(2, 3, 6))
    buffers = {name: each.clone() for name, each in gm.named_buffers()}
    torch.manual_seed(3)
    state = torch.get_rng_state()
    pre_grad_passes(gm, [torch.randn(2, 3, 6)], options=replace(NUMERIC, approximate=True))
    torch.manual_seed(3)
    assert torch.equal(torch.get_rng_state(), state)
    assert gm.meta["pass_report"].rewrites
    assert all(torch.equal(each, buffers[name]) for name, each in gm.named_buffers())
    state = torch.get_rng_state()
    assert bisect_passes(gm, [torch.randn(2, 3, 6, generator=torch.Generator())]) is None
    run_passes(gm, ["remove_noop_pass"], options=NUMERIC)
    assert torch.equal(torch.get_rng_state(), state)


def test_frozen_weights_are_verified_although_gradients_would_need_them():
    class Heads(nn.Module):
        def __init__(self):
            super().__init__()
            self.heads = nn.ModuleList(nn.Linear(8, 8) for _ in range(3))

        def forward(self, x):
            return [head(x).sigmoid() for head in self.heads]

    x = torch.randn(4, 8)
    with torch.no_grad():
        gm = exported(Heads(), x)
    pre_grad_passes(gm, [x], options=replace(NUMERIC, approximate=True, freeze_weights=True))
    assert calls(gm).count("linear") == 1


def test_a_pass_that_is_meant_to_change_nans_is_verified_without_them(wrong):
    x = torch.tensor([float("nan"), float("inf"), -0.0, -1.0])
    gm = exported(lambda x: torch.relu(x) + 1, x)
    pre_grad_passes(gm, [x], "relu_nan_to_num", options=NUMERIC)
    assert calls(gm) == ["nan_to_num", "relu", "add"]
    wrong.exactness = "semantic"
    with pytest.raises(PassError, match="on example inputs"):
        run_passes(exported(lambda x: torch.sigmoid(x) + 1, x), ["wrong"], [x], options=NUMERIC)


def test_inputs_that_prove_a_pass_wrong_are_kept(wrong, tmp_path):
    x = torch.randn(3)
    gm = exported(lambda x: torch.sigmoid(x) + 1, x)
    run_passes(gm, ["wrong"], [x], options=PassOptions(verify="numeric", diff_dir=tmp_path))
    (kept,) = tmp_path.glob("*_wrong.inputs.pt")
    assert torch.equal(torch.load(kept)[0], x)


def test_a_wrong_pass_is_found_by_its_numbers(wrong):
    x = torch.randn(3)
    gm = exported(lambda x: torch.sigmoid(x) + 1, x)
    with pytest.raises(PassError, match="on example inputs value 0 is another"):
        run_passes(gm, ["wrong"], [x], options=NUMERIC)
    assert calls(gm) == ["sigmoid", "add"]
    report = run_passes(gm, ["wrong"], [x], options=PassOptions(verify="numeric"))
    assert report.reverted == ["wrong"] and calls(gm) == ["sigmoid", "add"]


def test_inputs_are_made_up_where_there_are_none(wrong):
    gm = exported(lambda x: torch.sigmoid(x) + 1, torch.randn(3))
    with pytest.raises(PassError, match="on random inputs value 0 is another"):
        run_passes(gm, ["wrong"], options=NUMERIC)


@pytest.mark.parametrize(
    "instead, kind",
    [
        (lambda x: torch.where(x == 0, x, torch.sigmoid(x)), "zero"),
        (lambda x: torch.where(x.abs() > 1e3, x, torch.sigmoid(x)), "large"),
        (lambda x: torch.sigmoid(torch.nan_to_num(x)), "special"),
    ],
)
def test_each_kind_of_input_finds_something(wrong, instead, kind):
    wrong.instead = staticmethod(instead)
    gm = exported(lambda x: torch.sigmoid(x) + 1, torch.randn(200))
    with pytest.raises(PassError, match=f"on {kind} inputs"):
        run_passes(gm, ["wrong"], options=NUMERIC)


def test_gradients_and_writes_are_compared(wrong):
    wrong.instead = staticmethod(lambda x: torch.sigmoid(x.detach() + 0 * x))
    gm = exported(lambda x: torch.sigmoid(x.neg()) * 2, torch.randn(3, requires_grad=True))
    with pytest.raises(PassError, match="value 2 is another"):
        run_passes(gm, ["wrong"], options=NUMERIC)


class Heads(nn.Module):
    def __init__(self):
        super().__init__()
        self.heads = nn.ModuleList([nn.Linear(8, 4) for _ in range(6)])

    def forward(self, x, y):
        y.add_(1)
        parts = torch.cat([torch.tanh(head(x)) for head in self.heads], 1)
        return torch.cat([parts, torch.cat([y, y], 1)], 1).reshape(3, -1).relu()


@pytest.mark.parametrize("approximate", [False, True])
def test_right_passes_are_verified(approximate):
    args = (torch.randn(3, 8), torch.randn(3, 2))
    gm = exported(Heads(), *args)
    options = PassOptions(verify="numeric", on_error="raise", approximate=approximate, ignore_profit=True)
    pre_grad_passes(gm, args, options=options)
    assert gm.meta["pass_report"].rewrites > 0


# -- statistics --------------------------------------------------------------------------------------------------------


def test_statistics_are_added_up():
    framelift.reset()

    def f(x):
        return torch.cat([x, torch.cat([x.sin(), x.cos()])]).relu()

    for _ in range(2):
        pre_grad_passes(exported(f, torch.randn(3)))
    stats = json.loads(json.dumps(framelift.pass_stats()))
    merged = stats["merge_concats_pass"]
    assert (merged["runs"], merged["matches"], merged["rewrites"], merged["nodes_removed"]) == (2, 2, 2, 2)
    assert merged["time_us"] > 0 and merged["reverted"] == 0
    framelift.reset()
    assert framelift.pass_stats() == {}


# -- differences -------------------------------------------------------------------------------------------------------


def nested(x):
    return torch.cat([x, torch.cat([x.sin(), x.cos()])]).relu()


def test_differences_are_events_and_a_log(capsys):
    heard = []
    framelift.set_logs("pass_diffs")
    try:
        with stream.listening(heard.append, PassChanged):
            run_passes(exported(nested, torch.randn(3)), ["merge_concats_pass"])
    finally:
        framelift.set_logs()
    (event,) = heard
    added = [line for line in event.diff.splitlines() if line.startswith("+cat")]
    removed = [line for line in event.diff.splitlines() if line.startswith("-cat")]
    assert len(added) == 1 and len(removed) == 2 and added[0].endswith("-> float32[9]")
    assert "before merge_concats_pass" in capsys.readouterr().err


def test_pages_show_both_graphs(tmp_path):
    pre_grad_passes(exported(nested, torch.randn(3)), options=PassOptions(diff_dir=tmp_path / "pages"))
    pages = sorted(path.name for path in (tmp_path / "pages").iterdir())
    assert any(name.endswith("_merge_concats_pass.html") for name in pages)
    page = next((tmp_path / "pages").glob("*_merge_concats_pass.html")).read_text()
    assert 'class="old"' in page and 'class="new"' in page and "float32[9]" in page and "test_proof.py" in page


# -- bisection -----------------------------------------------------------------------------------------------------


def test_the_pass_that_changed_a_result_is_found(wrong):
    def f(x):
        y = torch.cat([x.reshape(6).sin(), torch.cat([x.cos(), x.exp()])]).reshape(18)
        return torch.sigmoid(y.reshape(18)).reshape(3, 6) + 1

    x = torch.randn(6)
    gm = exported(f, x)
    before = str(gm.graph)
    culprit = bisect_passes(gm, [x], add_passes="wrong")
    assert culprit is not None and culprit.name == "wrong"
    assert "-sigmoid" in culprit.diff and "+tanh" in culprit.diff and "by wrong" in str(culprit)
    assert str(gm.graph) == before
    assert bisect_passes(gm, [x]) is None


def test_what_is_good_can_be_said(wrong):
    gm = exported(lambda x: torch.sigmoid(x.reshape(6)) + 1, torch.randn(6))
    culprit = bisect_passes(gm, [torch.randn(6)], lambda candidate: "sigmoid" in calls(candidate), add_passes="wrong")
    assert culprit is not None and culprit.name == "wrong" and culprit.rewrite >= 1
