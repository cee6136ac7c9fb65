"""The examples of docs/passes.md, and the example passes were asked for with."""

from __future__ import annotations

import copy
import pathlib
import re

import pytest
import torch
from torch.nn import functional as F

import framelift
from framelift.passes import pre_grad_passes
from framelift.passes.declare import REGISTRY
from framelift.report import stream
from framelift.report.events import PassRan

PAGE = (pathlib.Path(__file__).parents[2] / "docs" / "passes.md").read_text()


@pytest.fixture
def registry():
    before = dict(REGISTRY)
    yield
    REGISTRY.clear()
    REGISTRY.update(before)


def test_a_pass_of_ones_own(registry):
    (example,) = re.findall(r"^```python\n(import torch\n.*?)^```", PAGE, re.DOTALL | re.MULTILINE)
    assert len([line for line in example.splitlines() if line.strip()]) <= 20
    names: dict[str, object] = {}
    exec(compile(example, "docs/passes.md", "exec"), names)
    heard = []
    x = torch.randn(3)
    with stream.listening(heard.append, PassRan):
        assert torch.equal(names["f"](x), -(-x.sin()) + 1)
    assert [(event.name, event.rewrites) for event in heard] == [("twice_negated", 1)]


def test_names_on_the_page_exist():
    for name in ("merge_concats_pass", "normalization_pass_aten", "normalize_node_kwargs_pass", "fuse_sdpa"):
        assert name in PAGE and name in REGISTRY


BEFORE = """\
graph():
    %l_x_ : [num_users=1] = placeholder[target=l_x_]
    %randn : [num_users=1] = call_function[target=torch.randn](args = (1, 1, 3, 3), kwargs = {})
    %conv2d : [num_users=1] = call_function[target=torch.conv2d](args = (%l_x_, %randn), kwargs = {})
    return conv2d"""

AFTER = """\
graph():
    %l_x_ : [num_users=1] = placeholder[target=l_x_]
    %randn : [num_users=1] = call_function[target=torch.randn](args = (1, 1, 3, 3), kwargs = {})
    %conv2d : [num_users=1] = call_function[target=torch.conv2d](args = (), kwargs = {input: %l_x_, weight: %randn})
    return conv2d"""


def test_the_example_of_the_mission_prints_this():
    def toy(x):
        return F.conv2d(x, torch.randn(1, 1, 3, 3))

    gm, _ = framelift.export(toy, torch.randn(1, 1, 5, 5))
    gm_opt = copy.deepcopy(gm)
    assert str(gm_opt.graph) == BEFORE
    pre_grad_passes(gm_opt, [torch.randn(1, 1, 5, 5)])
    assert str(gm_opt.graph) == AFTER
    assert str(gm.graph) == BEFORE
