"""The snippets of "Dynamo core concepts" and the claims of the deep dive, under framelift's names."""

import pytest
import torch

import framelift
from framelift.report.events import GraphBroke, Recompiled
from tests.helpers import Record, check, transcript

pytestmark = pytest.mark.mission


@pytest.fixture(autouse=True)
def no_logs():
    yield
    framelift.set_logs()


def test_a_graph_takes_extra_inputs_and_leaves_side_effects_to_bytecode():
    weight, seen = torch.randn(3), []

    def f(x):
        y = x * weight
        seen.append(1)
        return y.relu()

    checked = check(f, torch.randn(3))
    (graph,) = checked.graphs
    assert len([node for node in graph.graph.nodes if node.op == "placeholder"]) == 2


def test_graph_break_at_an_unsupported_operation(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)

    def eager(x):
        y = x**2 / 2
        torch.save(y, "foo.pt")
        return y**3 / 6

    f = framelift.compile(eager, backend="eager")
    x = torch.randn(3)
    record = Record()
    with record.listening():
        out = f(x)
    assert torch.equal(out, eager(x)) and torch.equal(torch.load("foo.pt"), x**2 / 2)
    (first, *_) = record.of(GraphBroke)
    assert first.line == eager.__code__.co_firstlineno + 2 and "torch.save" in first.text
    assert [node.name for node in record.graphs[0].graph.nodes if node.op == "call_function"] == ["pow_1", "truediv"]
    with record.listening():
        assert torch.equal(f(x + 1), eager(x + 1))


def test_guards_name_the_input(capsys):
    framelift.set_logs(guards=True)

    @framelift.compile(backend="eager")
    def fn(x):
        return x + 1

    assert torch.equal(fn(torch.ones(3, 3)), torch.full((3, 3), 2.0))
    written = capsys.readouterr().err
    assert "L['x']" in written and "return x + 1" in written


def test_recompilation_says_why(capsys):
    framelift.set_logs(recompiles=True)

    @framelift.compile(backend="eager", dynamic=False)
    def fn(x):
        return x + 1

    record = Record()
    with record.listening():
        assert torch.equal(fn(torch.ones(3, 3)), torch.full((3, 3), 2.0))
        assert torch.equal(fn(torch.ones(4, 4)), torch.full((4, 4), 2.0))
    (event,) = record.of(Recompiled)
    assert "L['x']" in event.reasons[0] and "3" in event.reasons[0] and "4" in event.reasons[0]
    assert event.reasons[0] in capsys.readouterr().err


def test_dynamic_shapes_give_the_right_result():
    @framelift.compile(backend="eager", dynamic=True)
    def fn(x):
        return x + 1

    assert torch.equal(fn(torch.ones(3, 3)), torch.full((3, 3), 2.0))
    assert torch.equal(fn(torch.ones(4, 4)), torch.full((4, 4), 2.0))


def test_static_by_default():
    words = transcript(lambda x: x + 1, [(torch.ones(3),), (torch.ones(3),), (torch.ones(4),)]).split(" ", 2)
    assert words[:2] == ["miss", "hit"] and words[2].startswith("miss(")


def test_the_trace_depends_on_the_inputs():
    def f(x, n):
        y = x**2
        return (n / x) * y if n >= 0 else y

    first, second = check(f, torch.randn(3), 2), check(f, torch.randn(3), -2)
    assert first.ops > second.ops


@pytest.mark.parametrize(
    "log, words",
    [
        ("graph_code", "def forward"),
        ("graph", "call_function"),
        ("graph_sizes", "(3,)"),
        ("bytecode", "RESUME"),
        ("guards", "L['x']"),
        ("capture", "captured"),
    ],
)
def test_debug_knobs(log, words, capsys):
    framelift.set_logs(log)
    framelift.compile(lambda x: x.sin() + 1, backend="eager")(torch.randn(3))
    assert words in capsys.readouterr().err


def test_explain():
    def f(x):
        y = x + 1
        framelift.graph_break()
        return y * 2

    explanation = framelift.explain(f)(torch.randn(3))
    assert explanation.graph_count >= 1 and explanation.graph_break_count >= 1
    assert "FL0103" in str(explanation) and "framelift.graph_break()" in str(explanation)
