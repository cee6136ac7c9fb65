"""Events as a capture would emit them, for the tests of their readers."""

from __future__ import annotations

import torch

from framelift.report import stream
from framelift.report.events import (
    BackendCalled,
    BecameDynamic,
    CaptureFinished,
    CaptureStarted,
    GraphBroke,
    GraphCaptured,
    GraphFailed,
    GuardsBuilt,
    GuardText,
    InternalFailure,
    Location,
    RanEagerly,
    Recompiled,
    ResidualBuilt,
)


def sample(x):
    y = torch.relu(x)
    return y + 1


LINE = sample.__code__.co_firstlineno


def residual(x):
    return x


def graph_module():
    made = torch.fx.symbolic_trace(sample)
    for node in made.graph.nodes:
        node.meta["example_value"] = torch.empty(2, 3, device="meta")
    return made


def emit_capture(capture=7, function="sample"):
    """One capture with one graph, one break and two guards."""
    guards = (
        GuardText("type(L['x']) is torch.Tensor", "L['x']", Location(__file__, LINE + 1)),
        GuardText("grad mode is on", "torch", None),
    )
    for event in (
        CaptureStarted(capture, function, __file__, LINE),
        Recompiled(capture, function, ("L['x'].size()[0] 3->4",)),
        BecameDynamic(capture, function, ("L['x'].size()[0] was 3, now 4",)),
        GraphBroke(capture, "FL0103", "graph_break() was called", __file__, LINE + 2),
        GraphCaptured(capture, graph_module(), 2, ("L['x']",)),
        BackendCalled(capture, "eager", 0.25),
        GuardsBuilt(capture, guards),
        ResidualBuilt(capture, sample.__code__, residual.__code__),
        CaptureFinished(capture, function, "partial", 0.5, 2, 2, {"trace": 0.2}),
    ):
        stream.emit(event)


def emit_trouble():
    stream.emit(InternalFailure(8, "FL9001", "sample", "KeyError: 'x'"))
    stream.emit(RanEagerly("sample", "the recompile limit was reached"))
    stream.emit(GraphFailed(9, "FL0003", "sample", "fast", 3, "sample.py:4", "RuntimeError: no"))
