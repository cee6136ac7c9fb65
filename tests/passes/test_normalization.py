"""More of normalization: modules as functions, views, numbers on the left, NumPy's words, what is left alone."""

from __future__ import annotations

import operator

import pytest
import torch
from torch import nn
from torch.nn import functional as F

from framelift.passes import PassOptions, pre_grad_passes, run_passes
from tests.passes.support import calls, optimised
from tests.passes.test_default_passes import NOOP, NORMAL, X46, after, normal_form, tensors

RAISE = PassOptions(on_error="raise")

# -- modules -------------------------------------------------------------------------------------------------------


class Layers(nn.Module):
    def __init__(self):
        super().__init__()
        self.first = nn.Sequential(nn.Linear(6, 8), nn.ReLU(), nn.LayerNorm(8), nn.Identity())
        self.heads = nn.ModuleList([nn.Linear(8, 3), nn.Linear(8, 2, bias=False)])
        self.last = nn.Softmax(dim=-1)

    def forward(self, x):
        x = self.first(x)
        return torch.tanh(self.heads[0](x)), self.last(self.heads[1](x))


class ModulesAsCalls(torch.fx.Tracer):
    def is_leaf_module(self, module, name):
        return not isinstance(module, nn.Sequential)


def traced(model, *args):
    """The graph as torch.fx traces it: modules are called, nothing is known of values."""
    return torch.fx.GraphModule(model, ModulesAsCalls().trace(model)), args


def test_modules_become_functions():
    model = Layers()
    gm, args = traced(model, X46)
    pre_grad_passes(gm, args, options=RAISE)
    assert calls(gm) == ["linear", "relu", "layer_norm", "linear", "tanh", "linear", "softmax"]
    assert not [node for node in gm.graph.nodes if node.op == "call_module"]
    for got, want in zip(gm(X46), model(X46), strict=True):
        assert torch.equal(got, want)
    # Parameters are read when the graph runs.
    with torch.no_grad():
        model.heads[0].bias.add_(1)
    assert torch.equal(gm(X46)[0], model(X46)[0])


def test_linears_of_modules_are_merged():
    class Heads(nn.Module):
        def __init__(self):
            super().__init__()
            self.one, self.two = nn.Linear(6, 3), nn.Linear(6, 5)

        def forward(self, x):
            return self.one(x).relu() * 2, self.two(x).relu() * 3

    gm, args = traced(Heads().requires_grad_(False), X46)
    options = PassOptions(approximate=True, freeze_weights=True, on_error="raise", batch=())
    pre_grad_passes(gm, args, options=options)
    assert calls(gm).count("linear") == 1


def hooked(module):
    module.register_forward_hook(lambda module, args, result: result * 2)
    return module


def patched(module):
    module.forward = lambda x: x - 1
    return module


class Doubled(nn.Linear):
    def forward(self, x):
        return super().forward(x) * 2


@pytest.mark.parametrize(
    "module",
    [hooked(nn.Linear(6, 6)), patched(nn.Linear(6, 6)), Doubled(6, 6), nn.Dropout(0.5), nn.ReLU(inplace=True)],
    ids=["hooked", "patched", "subclass", "dropout", "in place"],
)
def test_modules_that_are_more_than_a_function_stay(module):
    model = nn.Sequential(nn.Linear(6, 6), module)
    gm, args = traced(model, X46)
    pre_grad_passes(gm, args, options=RAISE)
    assert [str(node.target) for node in gm.graph.nodes if node.op == "call_module"] == ["1"]
    torch.manual_seed(0)
    want = model(X46)
    torch.manual_seed(0)
    assert torch.equal(gm(X46), want)


def test_a_hook_on_all_modules_is_kept():
    gm, args = traced(nn.Sequential(nn.Linear(6, 6)), X46)
    handle = nn.modules.module.register_module_forward_hook(lambda module, args, result: None)
    try:
        report = run_passes(gm, ["normalization_pass_aten"], args, options=RAISE)
    finally:
        handle.remove()
    assert report.rewrites == 0


# -- spellings -----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "function, expected",
    [
        (lambda x: x.view(-1, 3), ("view", ((8, 3),), {})),
        (lambda x: x.view(8, 3), ("view", (8, 3), {})),
        (lambda x: 2 + x, ("add", (2,), {})),
        (lambda x: 3 * x, ("mul", (3,), {})),
        (lambda x: 2 - x, None),
        (lambda x: torch.chunk(x, 4, 1)[0] + 1, ("split", ([2, 2, 2], 1), {})),
        (lambda x: torch.amax(x, axis=1), ("amax", (), {"dim": 1})),
        (lambda x: F.linear(x, torch.ones(2, 6)), None),
        (lambda x: x.detach(), ("detach", (), {})),
        (lambda x: x.squeeze(-1), ("squeeze", (1,), {})),
        (lambda x: torch.stack([x, x], -1), ("stack", (2,), {})),
        (lambda x: x / 2, ("div", (2,), {})),
    ],
)
def test_one_spelling_more(function, expected):
    found = normal_form(function, X46)
    assert expected is None or found[0] == expected


def test_the_argument_of_trapezoid_is_not_numpys_x():
    (name, args, kwargs) = normal_form(lambda y, x: torch.trapezoid(y, x=x), X46, X46)[0]
    assert name == "trapezoid" and kwargs.keys() == {"x"}


def test_numbers_computed_by_the_graph_are_left_alone():
    graph = torch.fx.Graph()
    a, b, n = (graph.placeholder(name) for name in "abn")
    total = graph.call_function(operator.add, (n, 1))
    joined = graph.call_function(torch.cat, ([a, b], n))
    graph.output((joined, total))
    gm = torch.fx.GraphModule(nn.Module(), graph)
    report = run_passes(gm, ["normalization_pass_aten"], (X46, X46, 1), options=RAISE)
    assert report.rewrites == 0
    assert torch.equal(gm(X46, X46, 1)[0], torch.cat([X46, X46], 1))


KEYWORDS = {
    "split": lambda x: torch.split(x, 2, 1)[0],
    "cat": lambda x: torch.cat([x, x], 1),
    "chunk": lambda x: torch.chunk(x, 2, 1)[0],
    "linear": lambda x: F.linear(x, x),
    "reshape": lambda x: torch.reshape(x, (6, 4)),
    "squeeze": lambda x: torch.squeeze(x, 1),
    "sum": lambda x: torch.sum(x, 1),
    "relu": lambda x: torch.relu(x),
    "stack": lambda x: torch.stack([x, x], 1),
    "unbind": lambda x: torch.unbind(x, 1)[0],
    "permute": lambda x: torch.permute(x, (1, 0)),
    "transpose": lambda x: torch.transpose(x, 0, 1),
    "clamp": lambda x: torch.clamp(x, 0, 1),
    "layer_norm": lambda x: F.layer_norm(x, (6,)),
    "add": lambda x: torch.add(x, x, alpha=2),
    "nan_to_num": lambda x: torch.nan_to_num(x, 1.0),
    "flatten": lambda x: torch.flatten(x, 0, 1),
    "unsqueeze": lambda x: torch.unsqueeze(x, 1),
    "matmul": lambda x: torch.matmul(x, x.t()),
    "dropout": lambda x: F.dropout(x, 0.1, True),
    "movedim": lambda x: torch.movedim(x, 0, 1),
    "unflatten": lambda x: torch.unflatten(x, 1, (2, 3)),
}


@pytest.mark.parametrize("name", KEYWORDS)
def test_all_arguments_have_names(name):
    gm, _ = optimised(KEYWORDS[name], X46, passes="normalize_node_kwargs_pass")
    node = next(node for node in gm.graph.nodes if getattr(node.target, "__name__", "") == name)
    assert not node.args and node.kwargs


# -- no-ops --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "function",
    [
        lambda x: x.float().relu(),
        lambda x: x.type_as(x).relu(),
        lambda x: x.expand(4, 6).relu(),
        lambda x: x[...].relu(),
        lambda x: x.contiguous().contiguous().relu(),
        lambda x: x.detach().relu(),
        lambda x: torch.cat([x, torch.empty(0)], 0).relu(),
        lambda x: x.transpose(0, 1).transpose(1, 0).relu(),
        lambda x: x.T.mT.relu(),
        lambda x: (1 * x).relu(),
        lambda x: torch.dropout(x, 0.5, False).relu(),
        lambda x: torch.dropout(x, 0, train=True).relu(),
    ],
)
def test_more_that_changes_nothing(function):
    assert after(function, X46, passes=NOOP)[-1:] == ["relu"]
    assert set(after(function, X46, passes=NOOP)) <= {"relu", "empty"}


def test_detach_stays_where_gradients_are_stopped():
    class Detached(nn.Module):
        def __init__(self):
            super().__init__()
            self.weight = nn.Parameter(torch.ones(6))

        def forward(self, x):
            return (x * self.weight).detach().relu()

    gm, _ = optimised(Detached(), X46, passes=NORMAL + NOOP)
    assert "detach" in calls(gm)


def test_relu_without_nans_is_made_once():
    gm, _ = optimised(lambda x: torch.relu(x) + 1, X46, passes="relu_nan_to_num relu_nan_to_num")
    assert calls(gm).count("nan_to_num") == 1


def test_pieces_nobody_uses_go():
    def f(x):
        torch.split(x, 2, 1)
        return x + 1

    assert after(f, X46, passes="remove_split_ops_pass") == ["add"]


def test_a_split_that_does_not_add_up_stays_an_error():
    graph = torch.fx.Graph()
    x = graph.placeholder("x")
    parts = graph.call_function(torch.split, (x, [2, 3], 1))
    first = graph.call_function(operator.getitem, (parts, 0))
    graph.output(torch.fx.node.map_arg((first,), lambda node: node))
    gm = torch.fx.GraphModule(nn.Module(), graph)
    with pytest.raises(Exception, match="cannot be made"):
        pre_grad_passes(gm, tensors((4, 6)), options=RAISE)
    with pytest.raises(RuntimeError):
        gm(X46)
