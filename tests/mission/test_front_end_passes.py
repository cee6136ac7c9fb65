"""The snippets of "Dynamo front-end passes" and "Inductor pre-grad passes", under framelift's names."""

import copy

import pytest
import torch
from torch.fx.passes.runtime_assert import insert_deferred_runtime_asserts

import framelift

pytestmark = pytest.mark.mission


def fn(x):
    return (x + x).relu()


def test_frame_conversion():
    gm, guards = framelift.export(fn, torch.randn(2, 2))
    calls = [node for node in gm.graph.nodes if node.op.startswith("call")]
    assert [node.name for node in calls] == ["add", "relu"]
    x = torch.randn(2, 2)
    assert torch.equal(gm(x), fn(x))
    assert guards


def test_frame_conversion_to_aten():
    gm, _ = framelift.export(fn, torch.randn(2, 2), aten_graph=True)
    targets = [str(node.target) for node in gm.graph.nodes if node.op == "call_function"]
    assert targets == ["aten.add.Tensor", "aten.relu.default"]


def test_runtime_asserts_and_dead_code():
    gm, _ = framelift.export(fn, torch.randn(2, 2))
    insert_deferred_runtime_asserts(gm, gm.shape_env, "demo")
    gm.graph.eliminate_dead_code()
    gm.recompile()
    assert [node.name for node in gm.graph.nodes if node.op.startswith("call")] == ["add", "relu"]


def test_dead_code_elimination_keeps_writes():
    def writes(x):
        x.add_(1)
        return x.sum()

    gm, _ = framelift.export(writes, torch.zeros(2))
    gm.graph.eliminate_dead_code()
    gm.recompile()
    x = torch.zeros(2)
    gm(x)
    assert torch.equal(x, torch.ones(2))


def toy(x):
    return torch.nn.functional.conv2d(x, torch.randn(1, 1, 3, 3))


def test_export_for_the_pre_grad_passes():
    gm, _ = framelift.export(toy, torch.randn(1, 1, 5, 5))
    gm_opt = copy.deepcopy(gm)
    targets = [node.target for node in gm_opt.graph.nodes if node.op == "call_function"]
    assert targets == [torch.randn, torch.conv2d] or targets == [torch.randn, torch.nn.functional.conv2d]
    assert all("example_value" in node.meta for node in gm_opt.graph.nodes if node.op != "output")
