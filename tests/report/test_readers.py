"""Counters, logs, explain and the text they are made of, over sample events."""

import subprocess
import sys

import pytest

import framelift
from framelift.report import stream
from framelift.report.events import GuardsBuilt
from framelift.report.explain import Recorder
from framelift.report.logs import LOGGING, LOGS, names_from_environment
from framelift.report.text import bytecode_rows, graph_ops, rendered, side_by_side
from tests.report.samples import LINE, emit_capture, emit_trouble, graph_module, residual, sample


@pytest.fixture(autouse=True)
def no_logs():
    yield
    framelift.set_logs()


def test_counters_count_and_reset():
    emit_capture()
    emit_trouble()
    counts = framelift.counters()
    assert (counts.captures, counts.captured, counts.partial, counts.uncaptured) == (1, 0, 1, 0)
    assert (counts.recompiles, counts.graphs, counts.ops, counts.guards) == (1, 1, 2, 2)
    assert counts.breaks == {"FL0103 graph_break() was called": 1}
    assert counts.failures == {"FL9001": 1, "FL0003": 1} and counts.eager == {"the recompile limit was reached": 1}
    assert (counts.capture_seconds, counts.backend_seconds) == (0.5, 0.25)
    assert "1 × FL0103 graph_break() was called" in str(counts)
    framelift.reset()
    assert framelift.counters().captures == 0


EXPECTED = {
    "graph_code": ["torch.relu", "def forward(self"],
    "graph": ["call_function", "relu", "operator.add", "placeholder"],
    "graph_sizes": ["relu", "(2, 3)", "torch.float32"],
    "bytecode": ["original sample", "residual residual", "BINARY_OP", "RESUME"],
    "guards": ["type(L['x']) is torch.Tensor", f"samples.py:{LINE + 1}  y = torch.relu(x)", "grad mode is on"],
    "recompiles": ["L['x'].size()[0] 3->4"],
    "dynamic": ["L['x'].size()[0] was 3, now 4: symbolic from here on"],
    "graph_breaks": ["FL0103", "graph_break() was called", f"samples.py:{LINE + 2}  return y + 1"],
    "capture": [f"samples.py:{LINE}", "partial: 2 ops, 2 guards, 500.0 ms (trace 200.0 ms)"],
}


@pytest.mark.parametrize("name", [name for name in LOGS if name not in ("passes", "pass_diffs", "fallbacks", "checks")])
def test_each_log(name, capsys):
    framelift.set_logs(name)
    emit_capture()
    written = capsys.readouterr()
    assert written.out == ""
    assert f"[framelift {name}] sample (capture 7)" in written.err
    for words in EXPECTED[name]:
        assert words in written.err
    others = set(LOGS) - {name}
    assert not any(f"[framelift {other}]" in written.err for other in others)


def test_fallbacks(capsys):
    framelift.set_logs("fallbacks")
    emit_trouble()
    emit_trouble()
    written = capsys.readouterr().err
    assert "[framelift fallbacks] sample\nran in Python: the recompile limit was reached (said once;" in written
    assert written.count("ran in Python") == 1
    assert "FL0003: backend 'fast': its graph of 3 ops (sample.py:4) raised RuntimeError: no, and Python" in written
    assert "internal failure FL9001" in written


def test_capture_log_tells_of_trouble(capsys):
    framelift.set_logs(capture=True)
    emit_trouble()
    written = capsys.readouterr().err
    assert "internal failure FL9001: KeyError: 'x'" in written and "the recompile limit was reached" in written


def test_set_logs_replaces_and_switches_off(capsys):
    framelift.set_logs("guards,graph", recompiles=True, graph=False)
    assert LOGGING.names == ("guards", "recompiles")
    framelift.set_logs()
    assert LOGGING.names == () and not stream.wanted(GuardsBuilt)
    emit_capture()
    assert capsys.readouterr().err == ""


def test_names_from_the_environment():
    read = lambda ours="", torchs="": names_from_environment({"FRAMELIFT_LOGS": ours, "TORCH_LOGS": torchs})
    assert read("guards, graph_code") == ["guards", "graph_code"]
    assert read("", "+dynamo,guards,inductor,-graph") == ["capture", "guards"]
    assert read("guards", "guards,recompiles_verbose") == ["guards", "recompiles"]
    with pytest.raises(ValueError, match="unknown log 'graph_cod': did you mean 'graph_code'"):
        read("graph_cod")


def test_the_environment_is_read_at_import():
    program = "from framelift.report.logs import LOGGING; print(LOGGING.names)"
    run = lambda **env: subprocess.run(
        [sys.executable, "-c", program], env={"PATH": "", "PYTHONPATH": ":".join(sys.path), **env},
        capture_output=True, text=True,
    )  # fmt: skip
    assert run(FRAMELIFT_LOGS="graph_breaks").stdout.strip() == "('graph_breaks',)"
    wrong = run(FRAMELIFT_LOGS="graph_brakes")
    assert wrong.returncode and "ValueError: unknown log 'graph_brakes': did you mean 'graph_breaks'?" in wrong.stderr


def test_explanation():
    recorder = Recorder()
    with stream.listening(recorder):
        emit_capture()
        emit_trouble()
    explanation = recorder.explanation()
    assert (explanation.graph_count, explanation.graph_break_count, explanation.op_count) == (1, 1, 2)
    assert explanation.ops_per_graph == [["torch.relu", "operator.add"]]
    assert explanation.break_reasons[0].id == "FL0103" and len(explanation.guards) == 2
    text = str(explanation)
    assert text.startswith("sample (")
    for words in ("1 graph, 2 ops, 1 break, 2 guards, 500.0 ms", "graph 0: 2 ops", "torch.relu", "FL0103", "FL9001"):
        assert words in text


def test_explanation_of_nothing():
    assert str(Recorder().explanation()).startswith("nothing was captured: 0 graphs, 0 ops")


def test_bytecode_rows_have_lines_and_arguments():
    rows = bytecode_rows(sample.__code__)
    assert any(line == str(LINE + 1) for line, _, _ in rows)
    assert any(name.strip() == "RETURN_VALUE" for _, name, _ in rows)
    both = rendered(side_by_side(sample.__code__, residual.__code__))
    assert both.splitlines()[0].split() == ["original", "sample", "residual", "residual"]


def test_graph_ops_names():
    assert graph_ops(graph_module()) == ["torch.relu", "operator.add"]
