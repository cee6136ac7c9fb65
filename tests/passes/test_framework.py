"""The framework: selection, the rules of the driver, failures, metadata, reports; and a pass as a user writes it."""

from __future__ import annotations

import copy
import json

import pytest
import torch
from torch._subclasses.fake_tensor import FakeTensorMode
from torch.fx.experimental.symbolic_shapes import ShapeEnv
from torch.nn import functional as F

import framelift
from framelift.passes import (
    DEFAULT,
    Match,
    MetadataError,
    PassError,
    PassOptions,
    Reject,
    Rewrite,
    facts,
    ops,
    pre_grad_passes,
    register,
    run_passes,
)
from framelift.passes.declare import REGISTRY, Custom
from framelift.passes.pipeline import planned
from framelift.report import stream
from framelift.report.events import PassRan, PassReverted
from tests.passes.support import calls, exported, optimised


@pytest.fixture
def registry():
    """Passes registered in a test are forgotten after it."""
    before = dict(REGISTRY)
    yield REGISTRY
    REGISTRY.clear()
    REGISTRY.update(before)


# -- a pass of one's own -------------------------------------------------------------------------------------------


@pytest.fixture
def double_negation(registry):
    """A pass as a user writes it, and its name."""

    @register
    class Negations(Rewrite):
        """-(-x) is x."""

        name = "double_negation"
        roots = ("neg",)

        def match(self, root, work):
            inner = ops.bound(ops.bound(root, "neg")["input"], "neg")
            return Match(root, inner.node, x=inner["input"])

        def rewrite(self, match, build):
            return {match.root: match.x}

    return Negations.name


def test_a_users_own_pass(double_negation):
    gm, report = optimised(lambda x: -(-(x + 1)) * 2, torch.randn(3), add=double_negation)
    assert calls(gm) == ["add", "mul"]
    assert report.of(double_negation)[0].rewrites == 1

    def written_later(x):
        y = x + 1
        z = -(-y)
        y.add_(1)
        return z * y

    gm, report = optimised(written_later, torch.randn(3), add=double_negation)
    assert calls(gm) == ["add", "neg", "neg", ".add_", "mul"]
    assert report.of(double_negation)[0].rejected == {"written later: the result must be a tensor of its own": 1}


def test_what_is_returned_becomes_a_copy(double_negation):
    gm, _ = optimised(lambda x: -(-x), torch.randn(3), passes=double_negation)
    assert calls(gm) == ["clone"]


# -- which passes run ----------------------------------------------------------------------------------------------


def names(add=None, remove=None, **options):
    return [each.name for each in planned(add, remove, PassOptions(**options))]


def test_names_are_checked():
    with pytest.raises(ValueError, match="unknown pass 'remove_noop_pas': did you mean 'remove_noop_pass'"):
        pre_grad_passes(exported(lambda x: x + 1, torch.ones(2)), add_passes="remove_noop_pas")
    with pytest.raises(ValueError, match="unknown pass '@nothing'"):
        names(add="@nothing")
    with pytest.raises(TypeError, match="names of passes are str"):
        names(add=[3])


def test_a_name_that_contains_another_removes_only_itself():
    assert "remove_noop_pass" in names(remove=" normalization_pass_aten , ,")


def test_removing_wins_and_removes_every_occurrence():
    assert names().count("normalize_node_kwargs_pass") == DEFAULT.count("normalize_node_kwargs_pass")
    assert "normalize_node_kwargs_pass" not in names("normalize_node_kwargs_pass", "normalize_node_kwargs_pass")


def test_the_last_noop_pass_has_a_name_of_its_own():
    assert names()[-1] == "remove_noop_pass"
    assert names(remove="remove_noop").count("remove_noop_pass") == names().count("remove_noop_pass") - 1
    assert "remove_noop_pass" not in names(remove="remove_noop_pass")


def test_passes_that_change_results_run_on_request_only():
    assert "relu_nan_to_num" not in names()
    assert "relu_nan_to_num" in names(add="relu_nan_to_num")
    assert "relu_nan_to_num" in names(allow_semantic_changes=frozenset({"relu_nan_to_num"}))


def test_options_are_checked():
    with pytest.raises(ValueError, match="unknown layout 'stric': did you mean 'strict'"):
        PassOptions(layout="stric")
    with pytest.raises(ValueError, match="unknown option 'min_fuse'"):
        PassOptions(overrides={"x": {"min_fuse": 3}})
    assert PassOptions(overrides={"p": {"min_fuse_set_size": 2}}).of("p").min_fuse_set_size == 2


# -- failures ------------------------------------------------------------------------------------------------------


def broken(registry, how):
    @register
    class Broken(Rewrite):
        name = "broken"
        roots = ("add",)

        def match(self, root, work):
            call = ops.bound(root, "add")
            return Match(root, x=call["input"])

        def rewrite(self, match, build):
            return how(match, build)


def raises(match, build):
    build.call(torch.relu, match.x)
    raise KeyError("a slip")


def wrong_shape(match, build):
    return {match.root: build.call(torch.sum, match.x)}


@pytest.mark.parametrize("how", [raises, wrong_shape])
def test_a_failing_pass_is_taken_back_named_and_counted(registry, how):
    broken(registry, how)
    gm = exported(lambda x: x + 1, torch.ones(2))
    before = str(gm.graph)
    framelift.reset()
    heard = []
    with stream.listening(heard.append, PassReverted, PassRan):
        report = run_passes(gm, ["broken"], [torch.ones(2)])
    assert str(gm.graph) == before
    assert report.reverted == ["broken"]
    assert [type(event) for event in heard] == [PassReverted, PassRan]
    assert framelift.counters().reverted["broken"] >= 1
    assert torch.equal(gm(torch.ones(2)), torch.full((2,), 2.0))
    with pytest.raises((KeyError, PassError)):
        run_passes(gm, ["broken"], [torch.ones(2)], options=PassOptions(on_error="raise"))
    assert str(gm.graph) == before


def test_a_pass_without_end_is_a_failure(registry):
    broken(registry, lambda match, build: {match.root: build.call(torch.add, match.x, 1)})
    gm = exported(lambda x: x + 1, torch.ones(2))
    report = run_passes(gm, ["broken"], [torch.ones(2)])
    assert "does not come to an end" in report.records[0].error


def test_another_dtype_is_refused(registry):
    broken(registry, lambda match, build: {match.root: build.method("double", match.x)})
    gm = exported(lambda x: x + 1, torch.ones(2))
    report = run_passes(gm, ["broken"], [torch.ones(2)])
    assert not report.rewrites and "float64" in next(iter(report.records[0].rejected))


def test_rewrites_can_be_limited():
    def f(x):
        return x.reshape(6) * 2 + x.reshape(6) * 3

    for limit, left in ((0, 2), (1, 1), (2, 0)):
        gm = exported(f, torch.randn(6))
        run_passes(gm, ["remove_noop_pass"], options=PassOptions(max_rewrites=limit, on_error="raise"))
        assert calls(gm).count(".reshape") == left


# -- metadata ------------------------------------------------------------------------------------------------------


def traced():
    return torch.fx.symbolic_trace(lambda x: torch.cat([x.reshape(2, 3), x], 0).relu())


def test_a_graph_without_metadata_gets_it():
    gm = traced()
    x = torch.randn(2, 3)
    pre_grad_passes(gm, [x], options=PassOptions(on_error="raise"))
    assert calls(gm) == ["cat", "relu"]
    assert torch.equal(gm(x), torch.cat([x, x]).relu())
    assert all("example_value" in node.meta for node in gm.graph.nodes if node.op != "output")


def test_what_is_missing_of_the_metadata_is_filled_in():
    gm = exported(lambda x: torch.cat([x.reshape(2, 3), x], 0).relu(), torch.randn(2, 3))
    for node in gm.graph.nodes:
        if node.target is torch.cat:
            node.meta.clear()
    pre_grad_passes(gm, options=PassOptions(on_error="raise"))
    assert calls(gm) == ["cat", "relu"]
    assert all("example_value" in node.meta for node in gm.graph.nodes if node.op != "output")


def test_a_graph_without_metadata_and_examples_is_an_error():
    with pytest.raises(MetadataError, match="1 example inputs are needed, not 0"):
        pre_grad_passes(traced())
    with pytest.raises(MetadataError, match="cannot be made"):
        pre_grad_passes(traced(), [torch.randn(5)])


def test_example_inputs_are_not_touched():
    gm = torch.fx.symbolic_trace(lambda x: x.add_(1).reshape(4))
    x = torch.zeros(4)
    pre_grad_passes(gm, [x])
    assert torch.equal(x, torch.zeros(4))


def test_new_nodes_know_where_they_come_from():
    gm, _ = optimised(lambda x: torch.relu(x), torch.randn(3), add="relu_nan_to_num", exact=True)
    node = next(node for node in gm.graph.nodes if node.target is torch.nan_to_num)
    assert node.meta["framelift_pass"] == "relu_nan_to_num"
    assert node.meta["from"] and "stack_trace" in node.meta and "example_value" in node.meta


# -- facts ---------------------------------------------------------------------------------------------------------


def test_metadata_of_different_kinds_is_never_the_same():
    x = torch.randn(4, 6)
    symbolic = FakeTensorMode(shape_env=ShapeEnv()).from_tensor(x)
    assert not facts.same_geometry(x, None) and not facts.same_geometry(3, 3)
    assert not facts.same_geometry(x, x.shape[0])
    assert facts.same_geometry(x[0:2], x[0:2]) and not facts.same_geometry(x[1:3], x[0:2])
    assert facts.same_geometry(symbolic, symbolic)
    assert not facts.same_geometry(x, x.t()) and not facts.same_geometry(x, x.to_sparse())
    with pytest.raises(Reject):
        facts.shape(torch.fx.Graph().placeholder("x"))


# -- effects -------------------------------------------------------------------------------------------------------


def test_modes_are_fences():
    def f(x):
        with torch.no_grad():
            y = x.permute(1, 0)
        return y.permute(1, 0) + 1

    gm, report = optimised(f, torch.randn(2, 3))
    assert calls(gm).count("permute") == 2
    assert "a mode of torch changes in between" in report.of("remove_noop_pass")[0].rejected


# -- reports -------------------------------------------------------------------------------------------------------


def test_reports_are_data():
    gm, report = optimised(lambda x: x.reshape(4, 6).relu(), torch.randn(4, 6))
    first = json.loads(json.dumps(report.as_dict()))
    assert [entry["name"] for entry in first["passes"]][0] == "normalization_pass_aten"
    assert "remove_noop_pass" in str(report)
    assert "rewrites" in report.records[0].line()
    names = {"matches", "rewrites", "rejected", "nodes_removed", "nodes_added", "time_us", "reverted"}
    assert all(names <= entry.keys() for entry in first["passes"])
    assert sum(entry["nodes_removed"] for entry in first["passes"]) == 1


def test_what_ran_is_in_the_event_stream():
    gm = exported(lambda x: x.reshape(4, 6).relu(), torch.randn(4, 6))
    heard = []
    with stream.listening(heard.append, PassRan):
        pre_grad_passes(gm)
    assert [event.name for event in heard] == names()
    assert sum(event.nodes_before - event.nodes_after for event in heard) == 1


def test_the_log_of_passes(capsys):
    framelift.set_logs("passes")
    try:
        pre_grad_passes(exported(lambda x: x.reshape(4, 6).relu(), torch.randn(4, 6)))
    finally:
        framelift.set_logs()
    assert "remove_noop_pass: 1 rewrites, -1 nodes" in capsys.readouterr().err


def test_a_pass_has_an_identity_for_caches():
    assert len({each.uuid for each in REGISTRY.values()}) == len(REGISTRY)
    assert all(each.uuid == type(each)().uuid for each in REGISTRY.values())
    at_the_prompt = type("Prompted", (Rewrite,), {"name": "prompted", "__module__": "no.such.module"})
    assert at_the_prompt().uuid


# -- functions of the user's on a whole graph ----------------------------------------------------------------------


def cosines(graph):
    for node in graph.find_nodes(op="call_method", target="sin"):
        with graph.inserting_before(node):
            node.replace_all_uses_with(graph.call_method("cos", (node.args[0],)))
        graph.erase_node(node)


def doubled_and_halved(graph):
    for node in graph.find_nodes(op="call_method", target="sin"):
        with graph.inserting_after(node):
            doubled = graph.call_function(torch.add, (node, node))
        node.replace_all_uses_with(doubled, delete_user_cb=lambda user: user is not doubled)
        with graph.inserting_after(doubled):
            halved = graph.call_function(torch.div, (doubled, 2))
        doubled.replace_all_uses_with(halved, delete_user_cb=lambda user: user is not halved)


def shortened(graph):
    output = graph.output_node()
    with graph.inserting_before(output):
        output.args = (graph.call_function(torch.narrow, (output.args[0], 0, 0, 1)),)


def without_meaning(graph):
    graph.find_nodes(op="call_method", target="sin")[0].target = "sine"


def failing(graph):
    cosines(graph)
    raise ValueError("mine")


def idle(graph):
    return graph


def test_a_function_changes_the_graph():
    gm = exported(lambda x: x.sin() + 1, torch.randn(3))
    pre_grad_passes(gm, options=PassOptions(custom=[doubled_and_halved, idle], on_error="raise", verify="numeric"))
    assert calls(gm) == [".sin", "add", "div", "add"]
    assert all(isinstance(facts.value(node), torch.Tensor) for node in gm.graph.nodes if node.op != "output")
    rewrites = {record.name: record.rewrites for record in gm.meta["pass_report"].records}
    assert rewrites["doubled_and_halved"] and not rewrites["idle"]


@pytest.mark.parametrize("change", [shortened, without_meaning, failing, cosines])
def test_a_function_that_breaks_the_graph_is_taken_back(change):
    x = torch.randn(3)
    gm = exported(lambda x: x.sin() + 1, x)
    heard = []
    with stream.listening(heard.append, PassReverted):
        pre_grad_passes(gm, [x], options=PassOptions(custom=[change], verify="numeric"))
    assert [event.name for event in heard] == [change.__qualname__]
    assert calls(gm) == [".sin", "add"] and torch.equal(gm(x), x.sin() + 1)


def test_a_function_in_capture():
    seen = []
    x = torch.randn(3)
    options = {"pass_options": {"custom": [lambda graph: seen.append(calls(graph.owning_module))]}}
    lifted = framelift.compile(lambda x: x.sin().reshape(3) + 1, backend="eager", options=options)
    assert torch.equal(lifted(x), x.sin() + 1)
    assert seen == [[".sin", "add"]]


def test_a_function_has_an_identity_for_caches():
    class Change:
        exactness = "approx"

        def uuid(self):
            return "mine 1"

        def __call__(self, graph):
            pass

    assert (Custom(Change()).uuid, Custom(Change()).exactness) == ("mine 1", "approx")
    assert Custom(idle).uuid and Custom(idle).exactness == "exact"
    with pytest.raises(TypeError, match="custom"):
        PassOptions(custom=["idle"])


def test_views_of_expanded_tensors_get_metadata():
    gm = torch.fx.symbolic_trace(lambda x: x.expand(4, 3).reshape(2, 2, 3).relu())
    x = torch.randn(1, 3)
    pre_grad_passes(gm, [x], options=PassOptions(on_error="raise"))
    assert torch.equal(gm(x), x.expand(4, 3).reshape(2, 2, 3).relu())


def test_names_in_options_are_checked():
    gm = exported(lambda x: x.relu(), torch.randn(3))
    for options in (
        {"batch": ["batch_rely"]},
        {"allow_semantic_changes": {"batch_rely"}},
        {"overrides": {"batch_rely": {}}},
    ):
        with pytest.raises(ValueError, match="unknown pass 'batch_rely': did you mean 'batch_relu'"):
            pre_grad_passes(gm, options=PassOptions(**options))


def test_how_many_shape_only_calls_are_looked_through():
    def f(x):
        pieces = [piece.unsqueeze(0).reshape(4, 3).unsqueeze(1) for piece in x.chunk(4, 1)]
        return torch.cat(pieces, 1) + 1

    name = "fuse_chunk_reshape_unsqueeze_concat_pass"
    gm, _ = optimised(f, torch.randn(4, 12), passes=name)
    assert calls(gm) == ["reshape", "add"]
    gm, report = optimised(f, torch.randn(4, 12), passes=name, max_search_depth=2)
    assert "cat" in calls(gm) and not report.rewrites


def test_the_example_of_the_mission():
    def toy(x):
        return F.conv2d(x, torch.randn(1, 1, 3, 3))

    gm, _ = framelift.export(toy, torch.randn(1, 1, 5, 5))
    optimised_gm = copy.deepcopy(gm)
    pre_grad_passes(optimised_gm, [torch.randn(1, 1, 5, 5)], options=PassOptions(on_error="raise"))
    assert calls(optimised_gm) == ["randn", "conv2d"]
    x = torch.randn(1, 1, 5, 5)
    torch.manual_seed(3)
    expected = gm(x)
    torch.manual_seed(3)
    assert torch.equal(optimised_gm(x), expected)


def test_spellings_are_taken_back_with_all_else(registry):
    @register
    class Both(Rewrite):
        """Respells a node, rewrites another, then fails."""

        name = "both"

        def run(self, work):
            first, second = work.nodes(("relu", "add"))
            work.respell(first, torch.tanh, first.args, {})
            work.merge(first, second)
            raise ValueError("after all")

    gm = exported(lambda x: torch.relu(x) + 1, torch.ones(2))
    before = str(gm.graph)
    report = run_passes(gm, ["both"])
    assert report.reverted == ["both"] and str(gm.graph) == before
    assert torch.equal(gm(torch.ones(2)), torch.full((2,), 2.0))
