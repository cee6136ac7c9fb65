"""The passes in capture: which run for which backend, what is told of them, and that results stay the very bits."""

from __future__ import annotations

import pytest
import torch
from torch import nn
from torch.nn import functional as F

import framelift
from framelift.passes import Match, PassOptions, Rewrite, ops, pre_grad_passes, register
from framelift.passes.declare import REGISTRY
from framelift.passes.facts import tensors_in, value
from framelift.report import stream
from framelift.report.events import CaptureFinished, PassRan, PassReverted
from tests.helpers import check
from tests.passes.support import calls


class Keeper:
    """A backend that keeps the graphs it is given."""

    def __init__(self, is_bitwise=True):
        self.graphs = []
        self.is_bitwise = is_bitwise

    def __call__(self, graph_module, example_inputs):
        self.graphs.append(graph_module)
        return graph_module.forward

    @property
    def calls(self):
        (graph,) = self.graphs
        return calls(graph)


@pytest.fixture
def registry():
    before = dict(REGISTRY)
    yield REGISTRY
    REGISTRY.clear()
    REGISTRY.update(before)


def nested(x):
    return torch.cat([x, torch.cat([x * 2, x], 1)], 1).relu() + 1


# -- which passes run ----------------------------------------------------------------------------------------------


def test_exact_passes_run_on_every_graph():
    keeper = Keeper()
    x = torch.randn(2, 3)
    assert torch.equal(framelift.compile(nested, backend=keeper)(x), nested(x))
    assert keeper.calls == ["mul", "cat", ".relu", "add"]
    assert keeper.graphs[0].meta["pass_report"].of("merge_concats_pass")[0].rewrites == 1


def test_calls_keep_the_programs_own_words():
    keeper = Keeper()

    def f(x):
        one, other = torch.cat([x], -1).chunk(2, -1)
        return one.transpose(0, 1) @ other

    framelift.compile(f, backend=keeper)(torch.randn(2, 4))
    assert keeper.calls == [".chunk", "getitem", "getitem", ".transpose", "matmul"]


@pytest.mark.parametrize("given", [False, []])
def test_passes_can_be_left_out(given):
    keeper = Keeper()
    framelift.compile(nested, backend=keeper, options={"pre_grad_passes": given})(torch.randn(2, 3))
    assert keeper.calls == ["mul", "cat", "cat", ".relu", "add"]


def test_passes_can_be_named():
    def f(x):
        return torch.cat([x, torch.cat([x, x], 1)], 1).reshape(2, 9).relu()

    for names, expected in (
        (["remove_noop_pass"], ["cat", "cat", ".relu"]),
        (["merge_concats_pass"], ["cat", ".reshape", ".relu"]),
        ("relu_nan_to_num, merge_concats_pass", ["cat", ".reshape", "nan_to_num", "relu"]),
        (True, ["cat", ".relu"]),
    ):
        keeper = Keeper()
        framelift.compile(f, backend=keeper, options={"pre_grad_passes": names})(torch.randn(2, 3))
        assert keeper.calls == expected, names


def test_entries_are_not_shared_between_choices_of_passes():
    keeper = Keeper()
    for given in (False, True, ["merge_concats_pass"]):
        framelift.compile(nested, backend=keeper, options={"pre_grad_passes": given})(torch.randn(2, 3))
    assert [calls(graph).count("cat") for graph in keeper.graphs] == [2, 1, 1]


def test_bad_choices_are_refused_at_once():
    with pytest.raises(ValueError, match="unknown pass 'merge_concat_pass': did you mean 'merge_concats_pass'"):
        framelift.compile(nested, backend="eager", options={"pre_grad_passes": ["merge_concat_pass"]})
    with pytest.raises(TypeError, match="pre_grad_passes is 3: True, False or a list of names is needed"):
        framelift.compile(nested, backend="eager", options={"pre_grad_passes": 3})
    with pytest.raises(ValueError, match="takes no options, got 'other'"):
        framelift.compile(nested, backend="eager", options={"pre_grad_passes": False, "other": 1})


@pytest.mark.lenient
@pytest.mark.parametrize("given", [{"verify": "numeric"}, PassOptions(verify="numeric")])
def test_how_passes_run_can_be_said(given, registry):
    @register
    class Wrong(Rewrite):
        name = "wrong"
        roots = ("relu",)

        def match(self, root, work):
            return Match(root, x=ops.bound(root, "relu")["input"])

        def rewrite(self, match, build):
            return {match.root: build.call(torch.tanh, match.x)}

    framelift.reset()
    keeper = Keeper()
    options = {"pre_grad_passes": ["merge_concats_pass", "wrong"], "pass_options": given}
    x = torch.randn(2, 3)
    state = torch.get_rng_state()
    assert torch.equal(framelift.compile(nested, backend=keeper, options=options)(x), nested(x))
    assert keeper.calls.count("cat") == 1 and "tanh" not in keeper.calls
    assert framelift.counters().reverted == {"wrong": 1}
    assert torch.equal(torch.get_rng_state(), state)


def test_bad_options_of_passes_are_refused_at_once():
    with pytest.raises(ValueError, match="unknown option 'verfy': did you mean 'verify'"):
        framelift.compile(nested, backend="eager", options={"pass_options": {"verfy": "numeric"}})
    with pytest.raises(TypeError, match="pass_options is 3: a PassOptions or a dict is needed"):
        framelift.compile(nested, backend="eager", options={"pass_options": 3})


def test_a_mode_and_passes_can_both_be_given():
    framelift.compile(nested, mode="default", backend="eager", options={"pre_grad_passes": False})
    with pytest.raises(ValueError, match="both given"):
        framelift.compile(nested, mode="default", options={"pre_grad_passes": False, "max_autotune": True})


class Towers(nn.Module):
    """Small linears on the slices of an input, which one batched product would round differently."""

    def __init__(self):
        super().__init__()
        self.towers = nn.ModuleList([nn.Linear(8, 8) for _ in range(6)])

    def forward(self, x):
        return torch.cat([torch.tanh(f(part)) for f, part in zip(self.towers, x.chunk(6, 1), strict=True)], 1) + 1


def test_reassociating_passes_are_for_backends_that_are_not_bitwise():
    x = torch.randn(4, 48)
    for is_bitwise in (True, False):
        keeper = Keeper(is_bitwise)
        framelift.compile(Towers(), backend=keeper)(x)
        assert keeper.calls.count("linear") == (6 if is_bitwise else 0)
        assert keeper.calls.count("baddbmm") == (0 if is_bitwise else 1)


def test_reassociating_passes_run_where_they_are_named():
    keeper = Keeper()
    framelift.compile(Towers(), backend=keeper, options={"pre_grad_passes": ["batch_linear"]})(torch.randn(4, 48))
    assert "baddbmm" in keeper.calls


def test_export_is_not_changed_by_passes():
    graph_module, _ = framelift.export(nested, torch.randn(2, 3))
    assert calls(graph_module) == ["mul", "cat", "cat", ".relu", "add"]


# -- what is told --------------------------------------------------------------------------------------------------


def test_what_ran_is_told():
    framelift.reset()
    heard = []
    with stream.listening(heard.append, PassRan, CaptureFinished):
        framelift.compile(nested, backend="eager")(torch.randn(2, 3))
    *passes, finished = heard
    merged = [event for event in passes if event.rewrites]
    assert [(event.name, event.rewrites, event.nodes_before - event.nodes_after) for event in merged] == [
        ("merge_concats_pass", 1, 1)
    ]
    assert all(event.seconds > 0 for event in passes) and finished.phases["passes"] > 0
    assert framelift.counters().rewrites == {"merge_concats_pass": 1}


def test_a_graph_with_nothing_for_the_passes_is_not_looked_at_twice():
    heard = []
    with stream.listening(heard.append, PassRan):
        framelift.compile(lambda x: (x + 1).cos(), backend="eager")(torch.randn(3))
    assert heard == []


def test_explain_names_the_passes_that_changed_a_graph():
    explanation = framelift.explain(nested)(torch.randn(2, 3))
    assert [event.name for event in explanation.rewrites] == ["merge_concats_pass"]
    assert explanation.op_count == 4 and "merge_concats_pass: 1 rewrites, -1 nodes" in str(explanation)


@pytest.mark.lenient
def test_a_failing_pass_is_taken_back_named_and_counted(registry):
    @register
    class Broken(Rewrite):
        name = "merge_concats_pass"
        roots = ("cat",)

        def match(self, root, work):
            return Match(root, x=ops.bound(root, "cat")["tensors"][0])

        def rewrite(self, match, build):
            build.call(torch.relu, match.x)
            raise ZeroDivisionError("a slip")

    framelift.reset()
    keeper, heard = Keeper(), []
    x = torch.randn(2, 3)
    with stream.listening(heard.append, PassReverted):
        assert torch.equal(framelift.compile(nested, backend=keeper)(x), nested(x))
    assert keeper.calls == ["mul", "cat", "cat", ".relu", "add"]
    assert [(event.name, event.error) for event in heard] == [("merge_concats_pass", "ZeroDivisionError: a slip")]
    assert framelift.counters().reverted == {"merge_concats_pass": 1}
    assert framelift.counters().failures == {}


# -- results are the very bits ---------------------------------------------------------------------------------------


def views_and_writes(x):
    y = x.reshape(x.shape).contiguous()
    z = torch.cat([y], 0)
    y.mul_(2)
    w = x.view(-1).view(x.shape)
    w[0] = 3
    return z, y, w, torch.stack([part * 2 for part in x.chunk(3, 1)]), torch.cat(x.split(1, 1), 1)


def many_uses(x, y):
    """Gradients with three and more terms, in which order matters."""
    a = x * y
    b = a.reshape(a.shape)
    c = torch.cat([a, b], 0), torch.cat([a, b], 0)
    return (a * 0.3).sum() + (b.exp() * 1.7).sum() + (b / 3).sum() + (c[0] * c[1]).sum() + a.sin().sum()


def pieces(x):
    parts = [part.reshape(2, 1, 4) for part in x.chunk(3, 1)]
    return torch.cat(parts, 1) * 2, torch.cat([p.tanh() for p in x.chunk(3, 1)], 1), sum(x.split(4, 1))


class Trained(nn.Module):
    def __init__(self):
        super().__init__()
        self.heads = nn.ModuleList([nn.Linear(12, 4) for _ in range(6)])
        self.norm = nn.BatchNorm1d(24)

    def forward(self, x):
        h = torch.cat([head(x).relu() for head in self.heads], 1)
        h = self.norm(F.dropout(h, 0.5, self.training)).reshape(h.shape)
        return F.dropout(h, 0.0) * 1 + torch.cat([h], 0), torch.stack([h, h * 2]).unbind(0)


@pytest.mark.parametrize("backend", ["eager", "aot_eager"])
@pytest.mark.parametrize("gradients", [False, True])
@pytest.mark.parametrize("function", [views_and_writes, pieces])
def test_functions(function, gradients, backend):
    def f(x):
        return function(x * 1.5)

    check(f, torch.randn(2, 12, requires_grad=gradients), backend=backend)


@pytest.mark.parametrize("backend", ["eager", "aot_eager"])
def test_sums_of_gradients_keep_their_order(backend):
    check(many_uses, torch.randn(50, requires_grad=True), torch.randn(50, requires_grad=True), backend=backend)


@pytest.mark.parametrize("backend", ["eager", "aot_eager"])
@pytest.mark.parametrize("training", [False, True])
def test_modules(training, backend):
    torch.manual_seed(0)
    check(Trained().train(training), torch.randn(5, 12, requires_grad=True), backend=backend)


@pytest.mark.parametrize("function", [views_and_writes, pieces])
def test_inductor(function):
    def f(x):
        return function(x * 1.5)

    check(f, torch.randn(2, 12, requires_grad=True), backend="inductor", deterministic=False)


def test_inductor_with_a_module_in_training():
    torch.manual_seed(0)
    model = Towers()
    twin = Towers()
    twin.load_state_dict(model.state_dict())
    x = torch.randn(4, 48)
    expected, found = model(x), framelift.compile(twin, backend="inductor")(x)
    torch.testing.assert_close(found, expected)
    expected.square().sum().backward()
    found.square().sum().backward()
    for one, other in zip(model.parameters(), twin.parameters(), strict=True):
        torch.testing.assert_close(one.grad, other.grad)


def test_what_is_returned_twice_stays_two_objects():
    def f(x):
        y = x * 2
        return y, y.view(y.shape), x.unflatten(0, [2, 1]).flatten(0, 1), x.view(2, 3), torch.cat([y]), torch.cat([y])

    check(f, torch.randn(2, 3))


def test_a_value_with_many_uses_keeps_its_views_where_gradients_flow():
    for gradients, left in ((False, 0), (True, 1)):
        keeper = Keeper()

        def f(x):
            a = x * 2
            b = a.reshape(a.shape)
            return a.sin() + b.cos() + b.exp()

        framelift.compile(f, backend=keeper)(torch.randn(3, requires_grad=gradients))
        assert keeper.calls.count(".reshape") == left


def test_autocast_is_left_alone():
    keeper = Keeper()
    x, weight = torch.randn(4, 3), torch.randn(3, 3)

    def f(x):
        return torch.cat([F.linear(x, weight)], 0).reshape(4, 3) + 1

    with torch.autocast("cpu", torch.bfloat16):
        assert torch.equal(framelift.compile(f, backend=keeper)(x), f(x))
    assert "cat" in keeper.calls
    with torch.inference_mode():
        keeper = Keeper()
        assert torch.equal(framelift.compile(f, backend=keeper)(x), f(x))
    assert "cat" not in keeper.calls


def test_symbolic_sizes_stay_unknown():
    keeper = Keeper()

    def f(x):
        y = torch.cat([x, torch.cat([x, x], 1)], 1)
        return y.reshape(y.shape).chunk(3, 1)[0].reshape(x.shape) + 1

    lifted = framelift.compile(f, backend=keeper, dynamic=True)
    for size in (4, 5, 9):
        x = torch.randn(size, 6)
        assert torch.equal(lifted(x), f(x))
    assert len(keeper.graphs) == 1
    # What needs no number is done all the same.
    assert keeper.calls.count("cat") == 1


def test_nothing_is_assumed_of_symbolic_sizes_by_hand():
    def f(x, y):
        return torch.cat([x, torch.cat([y, y], 1)], 1).reshape(x.shape[0], -1).chunk(3, 1)[0].reshape(y.shape) + 1

    shapes = {name: {0: torch.export.Dim("rows", min=2)} for name in ("x", "y")}
    gm, _ = framelift.export(f, torch.randn(4, 6), torch.randn(4, 6), dynamic_shapes=shapes)
    x, *_ = (tensor for node in gm.graph.nodes for tensor in tensors_in(value(node)))
    guards = list(x.fake_mode.shape_env.guards)
    pre_grad_passes(gm, options=PassOptions(on_error="raise"))
    assert calls(gm).count("cat") == 1
    assert x.fake_mode.shape_env.guards == guards
    for size in (4, 7):
        x, y = torch.randn(size, 6), torch.randn(size, 6)
        assert torch.equal(gm(x, y), f(x, y))


def test_graphs_inside_are_rewritten_too():
    def inner(x):
        return torch.cat([x.cos(), torch.cat([x.exp(), x.sin()], 0)], 0).sin()

    def f(x):
        return torch.utils.checkpoint.checkpoint(inner, x, use_reentrant=False) * 2

    keeper = Keeper()
    x = torch.randn(3, requires_grad=True)
    framelift.compile(f, backend=keeper)(x)
    (body,) = [child for child in keeper.graphs[0].children()]
    assert calls(body) == [".cos", ".exp", ".sin", "cat", ".sin"]
    check(f, torch.randn(3, requires_grad=True))


def test_a_returned_view_is_another_object_than_what_was_written() -> None:
    """Calls such as `copy_` and `contiguous` give back their operand: a view of that is not the operand itself."""

    def written(x: torch.Tensor, y: torch.Tensor) -> object:
        x.copy_(y)
        return x, x[:]

    def alone(x: torch.Tensor, y: torch.Tensor) -> object:
        return x.add_(y).view(2, 3)

    def laid_out(x: torch.Tensor, y: torch.Tensor) -> object:
        return x.contiguous()[:], y.to(torch.float32).view(2, 3)

    for function in (written, alone, laid_out):
        check(function, torch.ones(2, 3), torch.zeros(2, 3))


def test_a_view_that_is_written_and_returned_stays_another_object() -> None:
    """A write gives back what it wrote to: the view is what is returned, not what it is a view of."""

    def method(x: torch.Tensor, y: torch.Tensor) -> object:
        view = x.view(-1).view(x.shape)
        view.copy_(y)
        return view

    def twice(x: torch.Tensor, y: torch.Tensor) -> object:
        view = x.reshape(-1).reshape(2, 3)
        return x, view.add_(y).mul_(2)

    def by_out(x: torch.Tensor, y: torch.Tensor) -> object:
        view = x.view(-1).view(x.shape)
        torch.add(x, 1, out=view)
        return view

    def same_type(x: torch.Tensor, y: torch.Tensor) -> object:
        return x.view(-1).view(x.shape).to(y.dtype), x.view(-1).view(x.shape).type_as(y)

    def both_returned(x: torch.Tensor, y: torch.Tensor) -> object:
        made = x.cos()
        view = made.view(-1).view(x.shape)
        made.add_(y)
        return made, view

    for function in (method, twice, by_out, same_type, both_returned):
        check(function, torch.ones(2, 3), torch.zeros(2, 3))
