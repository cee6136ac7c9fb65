"""Deduplication: stretches that repeat become one subgraph, and nothing else does."""

from __future__ import annotations

import copy
import random

import pytest
import torch
from benchmarks.llama import Llama
from hypothesis import event, given, settings
from hypothesis import strategies as st
from torch import nn
from torch.fx import symbolic_trace
from torch.nn import functional as F

import framelift
from framelift.passes import MetadataError, apply_graph_deduplication
from framelift.passes.deduplication.repeats import Repeat, best_repeat
from framelift.passes.deduplication.subgraphs import INVOKED, PLAIN, call_subgraph
from framelift.report import stream
from framelift.report.events import GraphCaptured, PassRan
from tests.helpers import check
from tests.passes.support import calls, exported, same_gradients, same_results
from tests.tolerances import TRAINED_BY_INDUCTOR

X, Y = torch.linspace(0.1, 1.6, 16).reshape(4, 4), torch.linspace(2, 3, 16).reshape(4, 4)


def deduplicated(function, *args, ignore_profit=True, min_region_nodes=2, convention=INVOKED):
    """The calls of the graph and of its subgraphs, by a convention; what holds of both has been checked."""
    choice = {"min_region_nodes": min_region_nodes, "ignore_profit": ignore_profit}
    original = exported(function, *args)
    found = {}
    for each in (INVOKED, PLAIN):
        gm = copy.deepcopy(original)
        subgraphs = apply_graph_deduplication(gm, **choice, convention=each)
        gm.graph.lint()
        same_results(original, gm, args)
        # invoke_subgraph keeps to what required gradients at capture; plain calls are differentiated as they are.
        if each is PLAIN:
            same_gradients(original, gm, args)
        found[each] = calls(gm), [calls(subgraph) for subgraph in subgraphs.values()]
        graph, inner = found[each]
        assert ignore_profit or not inner or len(graph) + sum(map(len, inner)) < len(calls(original))
        assert not apply_graph_deduplication(gm, **choice, convention=each), "a second run finds something again"
    return found[convention]


# -- the algorithm ---------------------------------------------------------------------------------------------------


def _most_saved(tokens, shortest, price):
    """The same by trying everything."""
    best = 0
    for length in range(shortest, len(tokens)):
        places: dict[tuple[int, ...], list[int]] = {}
        for start in range(len(tokens) - length + 1):
            found = places.setdefault(tuple(tokens[start : start + length]), [])
            if not found or start >= found[-1] + length:
                found.append(start)
        for found in places.values():
            if len(found) > 1:
                best = max(best, (len(found) - 1) * length - price * len(found))
    return best


@pytest.mark.parametrize("seed", range(4))
def test_the_best_repeat_is_found(seed):
    generator = random.Random(seed)
    for _ in range(200):
        tokens = [generator.randrange(3) for _ in range(generator.randrange(30))]
        found = best_repeat(tokens, 2, 1)
        assert (found.worth(1) if found is not None else 0) == _most_saved(tokens, 2, 1), tokens
        if found is not None:
            stretches = {tuple(tokens[start : start + found.length]) for start in found.starts}
            assert len(stretches) == 1
            assert all(b - a >= found.length for a, b in zip(found.starts, found.starts[1:], strict=False))


def test_what_a_repeat_saves_is_asked():
    """Layers of five: by itself one call of two layers is better than two calls; not if each item costs something."""
    tokens = [9, *[1, 2, 3, 4, 5] * 8, 8]
    assert best_repeat(tokens, 2, 3) == Repeat((1, 11, 21, 31), 10)
    one = Repeat((1, 6, 11, 16, 21, 26, 31, 36), 5)
    asked = []

    def saved(repeat):
        asked.append(repeat)
        return repeat.worth(3) - 2 * repeat.length

    assert best_repeat(tokens, 2, 3, [saved]) == one
    first = len(asked)
    assert best_repeat(tokens, 2, 3, [lambda repeat: repeat.worth(3) - 2 * repeat.length, saved]) == one
    assert asked[first:] == [one], "more was asked than what decides"
    assert best_repeat(tokens, 2, 3, [lambda repeat: None]) is None


# -- what becomes a subgraph -------------------------------------------------------------------------------------------


def test_a_helper_called_twice():
    def inner(x, y):
        return (x + 1).sum() + (y + 2).sum()

    def f(x, y):
        return inner(x, y) + inner(x, torch.sin(y))

    graph, subgraphs = deduplicated(f, X, Y, ignore_profit=False)
    assert graph == ["invoke_subgraph", "getitem", "sin", "invoke_subgraph", "getitem", "add"]
    assert subgraphs == [["add", ".sum", "add", ".sum", "add"]]


def test_a_graph_without_metadata_gets_it():
    def inner(x, y):
        return (x + 1).sum() + (y + 2).sum()

    def f(x, y):
        return inner(x, y) + inner(x, y.sin())

    gm = symbolic_trace(f)
    with pytest.raises(MetadataError, match="2 example inputs are needed, not 0"):
        apply_graph_deduplication(gm)
    x, y = torch.randn(3), torch.randn(3)
    assert list(apply_graph_deduplication(gm, [x, y])) == ["subgraph_0"]
    assert torch.equal(gm(x, y), f(x, y))


def test_layers_in_a_chain():
    def f(x, w):
        for _ in range(3):
            x = torch.relu(F.linear(x, w)) * 2
        return x

    graph, subgraphs = deduplicated(f, X, Y)
    assert graph == ["invoke_subgraph", "getitem"] * 3
    assert subgraphs == [["linear", "relu", "mul"]]


def test_plain_calls_hand_over_one_result_as_it_is():
    def f(x, w):
        for _ in range(3):
            x = torch.relu(F.linear(x, w)) * 2
        return x

    graph, _ = deduplicated(f, X, Y, convention=PLAIN)
    assert graph == ["call_subgraph"] * 3
    gm = exported(f, X, Y)
    apply_graph_deduplication(gm, min_region_nodes=2, convention=PLAIN)
    *_, last = gm.graph.find_nodes(op="call_function", target=call_subgraph)
    assert last.meta["example_value"].shape == X.shape
    assert isinstance(gm.subgraph_0(X, Y), torch.Tensor)


def test_plain_calls_hand_over_several_results_in_a_tuple():
    def f(x, w):
        found = []
        for _ in range(3):
            y = torch.relu(F.linear(x, w)).sin()
            x = (y * 2).cos()
            found.append(y)
        return x, found

    graph, _ = deduplicated(f, X, Y, convention=PLAIN)
    assert graph == ["call_subgraph", "getitem", "getitem"] * 3


def test_a_bare_result_that_is_written_to():
    def f(x, w):
        for _ in range(4):
            x = torch.relu(F.linear(x, w)).sin() * 2
            x.add_(1)
        return x

    graph, _ = deduplicated(f, X, Y, convention=PLAIN)
    assert graph == ["call_subgraph", ".add_"] * 4


@pytest.mark.parametrize("convention", [INVOKED, PLAIN])
def test_the_fewest_nodes_over_all_graphs(convention):
    """Two layers in a call save calls, but a subgraph with the inputs of two layers is larger than that."""

    def f(x, *weights):
        for at in range(0, len(weights), 4):
            a, b, c, d = weights[at : at + 4]
            x = (x + a).sin() * b - c.cos() * d
        return x

    graph, subgraphs = deduplicated(f, X, *[Y + i for i in range(32)], ignore_profit=False, convention=convention)
    assert graph.count(convention.call.__name__) == 8
    assert subgraphs == [["add", ".sin", "mul", ".cos", "mul", "sub"]]


def test_what_does_not_pay_is_left():
    def f(x, w):
        return (x + w).sin(), (w + x).sin()

    assert deduplicated(f, X, Y, ignore_profit=False, min_region_nodes=4)[1] == []


def test_single_nodes_are_left():
    assert deduplicated(lambda x, y: (torch.sin(x) + 0, torch.sin(y) + 1), X, Y)[1] == []


def test_a_write_stays_outside_in_its_place():
    def f(x):
        total = 0
        for _ in range(2):
            y = x * 2
            x.add_(1)
            total = total + y.sum().exp()
        return total

    graph, subgraphs = deduplicated(f, X)
    assert graph[:6] == ["invoke_subgraph", "getitem", ".add_", "add", "invoke_subgraph", "getitem"]
    assert subgraphs == [["mul", ".sum", ".exp"]]


def test_a_region_does_not_span_a_write_it_needs():
    def f(x, y):
        for _ in range(2):
            y = y * 2
            x.add_(y)
            y = (y + x).sin()
        return y

    graph, subgraphs = deduplicated(f, X, Y)
    assert graph.count(".add_") == 2 and all(".add_" not in subgraph for subgraph in subgraphs)


def test_tuples_stay_inside():
    def inner(x):
        a, b = torch.split(x, 2)
        return a.sum() + b.sum()

    graph, subgraphs = deduplicated(lambda x: (inner(x), inner(x + 1)), X)
    assert subgraphs == [["split", "getitem", "getitem", ".sum", ".sum", "add"]]
    assert graph.count("invoke_subgraph") == 2


def test_views_are_made_outside_again():
    def inner(x):
        y = x.view(-1)
        z = y.sin().cos()
        return y, z, z[1:], z.max(0)

    def f(x, y):
        return inner(x), inner(y)

    graph, subgraphs = deduplicated(f, X, Y)
    assert graph.count(".view") == 2 and graph.count("getitem") >= 2
    assert all(subgraph.count(".max") <= 1 for subgraph in subgraphs)


def test_different_shapes_are_different():
    def inner(x):
        return (x * 2).sin().cos()

    assert deduplicated(lambda x, y: (inner(x), inner(y)), X, torch.randn(4, 5))[1] == []
    graph, _ = deduplicated(lambda x: (inner(x), inner(x)), X)
    assert graph == ["invoke_subgraph", "getitem", "invoke_subgraph", "getitem"]


def test_random_calls_are_never_shared():
    def f(x):
        for _ in range(2):
            x = F.dropout(x.sin().cos(), 0.5, True).exp().tanh()
        return x

    graph, subgraphs = deduplicated(f, X)
    assert graph.count("dropout") == 2 and all("dropout" not in subgraph for subgraph in subgraphs)


def test_modes_keep_regions_apart():
    def inner(x):
        return (x * 2).sin().cos().exp()

    def f(x):
        with torch.no_grad():
            y = inner(x)
        return inner(x) + y

    assert deduplicated(f, X)[1] == []


# -- what torch's own mixes up -----------------------------------------------------------------------------------------


def test_wiring():
    def two(x, y):
        return (x + y).sin().cos()

    graph, subgraphs = deduplicated(lambda x, y: (two(x, x), two(x, y)), X, Y)
    assert subgraphs == [["add", ".sin", ".cos"]]
    gm = exported(lambda x, y: (two(x, x), two(x, y)), X, Y)
    (subgraph,) = apply_graph_deduplication(gm, min_region_nodes=2, ignore_profit=True).values()
    assert len(subgraph.graph.find_nodes(op="placeholder")) == 2


@pytest.mark.parametrize(
    "f",
    [
        lambda x: ((torch.sin(x) + 1).exp(), (torch.cos(x) + 1).exp()),
        lambda x: ((x * 0.5).sin().exp(), (x * 0.25).sin().exp()),
        lambda x: ((x * 0.0).sin().exp(), (x * -0.0).sin().exp()),
        lambda x: (x[0:2].sin().exp(), x[2:4].sin().exp()),
        lambda x: tuple(
            F.interpolate(x[None, None], scale_factor=2, mode=m).sin().exp() for m in ("nearest", "bilinear")
        ),
        lambda x: (x.sum(0, keepdim=True).sin(), x.sum(0, keepdim=False).sin()),
        lambda x: (x.to(torch.float64).sin().exp(), x.to(torch.float16).sin().exp()),
    ],
    ids=["target", "float", "signed zero", "slice", "string", "bool", "dtype"],
)
def test_calls_that_differ_in_a_constant(f):
    graph, subgraphs = deduplicated(f, X)
    # What follows may be shared; what differs may not.
    assert all(not {"sin", "cos", "mul", "getitem", "interpolate", ".to"} & set(subgraph[:1]) for subgraph in subgraphs)


# -- any program -------------------------------------------------------------------------------------------------------

STEPS = [
    lambda a, b: (a + b).cos(),
    lambda a, b: (a * b).sin(),
    lambda a, b: a.t(),
    lambda a, b: torch.where(a > b, a, b),
    lambda a, b: torch.split(a, 2)[1].repeat(2, 1),
    lambda a, b: torch.sigmoid(a @ b),
    lambda a, b: (b[1:].mean(0) - a).sin(),
    lambda a, b: a.tanh().view(4, 4),
]


def repeating(chance: random.Random):
    """A program of a few layers that occur again and again, with results in use here and there, and writes between."""
    layers = [
        [(chance.choice(STEPS), chance.randrange(3), chance.randrange(3)) for _ in range(chance.randint(3, 6))]
        for _ in range(2)
    ]
    order = [(chance.choice(layers), chance.random(), chance.randrange(3)) for _ in range(chance.randint(3, 8))]

    def f(*inputs):
        values = list(inputs)
        results = []
        for layer, odds, at in order:
            for step, one, other in layer:
                values = [*values[1:], step(values[one], values[other])]
            if odds < 0.2:
                values[at] = values[at].clone().mul_(2)
            elif odds < 0.3:
                (values[at] * 1).add_(1)
            elif odds < 0.6:
                results.append(values[at])
        return values[-1], results

    return f


@settings(max_examples=60, deadline=None, derandomize=True, database=None)
@given(st.randoms(use_true_random=False), st.booleans())
def test_any_program_is_what_it_was_with_fewer_operations(chance, ignore_profit):
    args = [X, Y, X - Y]
    _, subgraphs = deduplicated(repeating(chance), *args, ignore_profit=ignore_profit, min_region_nodes=3)
    event("deduplicated" if subgraphs else "as it was")


# -- in capture ----------------------------------------------------------------------------------------------------


class Layer(nn.Module):
    def __init__(self):
        super().__init__()
        self.norm = nn.LayerNorm(8)
        self.up, self.down = nn.Linear(8, 16), nn.Linear(16, 8)

    def forward(self, x):
        h = self.norm(x)
        x = x + torch.softmax(h @ h.t() / 3, -1) @ h
        x = x * torch.rsqrt(x.pow(2).mean(-1, keepdim=True) + 1)
        return x + self.down(F.gelu(self.up(self.norm(x))) * 2)


class Layers(nn.Module):
    def __init__(self, count=6):
        super().__init__()
        self.layers = nn.ModuleList([Layer() for _ in range(count)])

    def forward(self, x):
        for layer in self.layers:
            x = layer(x)
        return x.sum(0), x


def lifted(model, backend, **options):
    return framelift.compile(model, backend=backend, options={"deduplicate": True, **options})


def test_layers_of_a_model():
    heard = []
    x = torch.randn(3, 8)
    model = Layers(32)
    with stream.listening(heard.append, GraphCaptured, PassRan):
        found = lifted(model, "eager")(x)
    assert all(map(torch.equal, found, model(x)))
    ran, *_, captured = heard
    assert ran.name == "graph_deduplication" and ran.rewrites > 1
    graphs = [captured.graph_module, *captured.graph_module.children()]
    assert 5 * sum(len(calls(graph)) for graph in graphs) <= len(calls(exported(model, x)))


def as_it_is(graph_module, example_inputs):
    """A backend that knows nothing of subgraphs."""
    assert {node.op for node in graph_module.graph.nodes} > {"get_attr"} and "getitem" not in calls(graph_module)
    return graph_module.forward


@pytest.mark.parametrize("backend", ["eager", "aot_eager", "inductor", as_it_is])
@pytest.mark.parametrize("training", [False, True])
def test_backends(backend, training):
    torch.manual_seed(0)
    model = Layers(3).train(training)
    twin = copy.deepcopy(model)
    x = torch.randn(3, 8)
    with torch.set_grad_enabled(training):
        expected, found = model(x), lifted(twin, backend)(x)
    close = {"rtol": 0, "atol": 0} if backend != "inductor" else {}
    torch.testing.assert_close(found, expected, **close)
    if training:
        expected[0].square().sum().backward()
        found[0].square().sum().backward()
        for one, other in zip(model.parameters(), twin.parameters(), strict=True):
            torch.testing.assert_close(other.grad, one.grad, **close)


def test_inductor_does_not_take_memory_that_backward_needs():
    """What torch.compile with nested_compile_region, of torch 2.13, gets wrong."""
    torch.manual_seed(0)
    model = Llama(layers=2, width=32, heads=2, inner=64, words=50)
    twin = copy.deepcopy(model)
    tokens = torch.randint(0, 50, (2, 8))
    model(tokens).square().sum().backward()
    lifted(twin, "inductor")(tokens).square().sum().backward()
    for one, other in zip(model.parameters(), twin.parameters(), strict=True):
        torch.testing.assert_close(other.grad, one.grad, **TRAINED_BY_INDUCTOR)


def test_passes_run_inside_the_subgraph():
    def f(x):
        for _ in range(3):
            x = torch.cat([x.sin(), torch.cat([x.cos(), x.exp()], 0)], 0)[:4].reshape(4, 4).tanh()
        return x

    graphs = []

    def keeping(graph_module, example_inputs):
        graphs.append(graph_module)
        return graph_module.forward

    assert torch.equal(lifted(f, keeping)(X), f(X))
    (body,) = graphs[0].children()
    assert calls(body).count("cat") == 1 and ".reshape" not in calls(body)


@pytest.mark.parametrize("backend", ["eager", "aot_eager"])
def test_symbolic_sizes(backend):
    model = Layers(4).eval()
    one = framelift.compile(model, backend=backend, dynamic=True, options={"deduplicate": True})
    for size in (3, 5, 7):
        x = torch.randn(size, 8)
        assert all(map(torch.equal, one(x), model(x)))
    assert framelift.counters().captures == 1


def test_the_option_is_checked():
    with pytest.raises(TypeError, match="deduplicate is 1: True or False is needed"):
        framelift.compile(Layers(), options={"deduplicate": 1})


def test_without_the_option_nothing_changes():
    assert "graph_deduplication" not in framelift.counters().rewrites
    check(Layers(2), torch.randn(3, 8))
