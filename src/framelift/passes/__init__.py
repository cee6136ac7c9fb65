"""Passes over FX graphs, before autograd sees them: the pipeline, and what one needs to write a pass.

    gm, _ = framelift.export(model, x)
    framelift.passes.pre_grad_passes(gm, [x])

| to | look at |
|---|---|
| run passes, choose them, see what they did | `pipeline`, `options`, `report` |
| write a pass | `declare` (example there), `build` (new nodes), `ops` and `facts` (what nodes are) |
| know the rules of all rewrites | `rules`, `checking/interface`; in `analysis/`: `effects`, `gradients`, `saved` |
| see how a graph is changed | `driver`; in `analysis/`: `order`, `groups`, `metadata` |
| repeated layers as one subgraph | `deduplication/` |
| check, compare, find the culprit | in `checking/`: `verify`, `diff`, `bisect` |
| find a pass | `library/`: one idea per file |
"""

from framelift.passes import library as library
from framelift.passes.analysis.metadata import MetadataError
from framelift.passes.checking.bisect import Culprit, bisect_passes
from framelift.passes.declare import Fusion, Match, Pass, Respelling, Rewrite, Several, register
from framelift.passes.deduplication.deduplicate import apply_graph_deduplication
from framelift.passes.facts import Reject
from framelift.passes.options import PassOptions
from framelift.passes.pipeline import DEFAULT, pre_grad_passes, run_passes
from framelift.passes.report import PassRecord, PassReport
from framelift.passes.rules import PassError

__all__ = [
    "pre_grad_passes",
    "run_passes",
    "apply_graph_deduplication",
    "bisect_passes",
    "Culprit",
    "PassOptions",
    "PassReport",
    "PassRecord",
    "DEFAULT",
    "register",
    "Pass",
    "Rewrite",
    "Fusion",
    "Respelling",
    "Several",
    "Match",
    "Reject",
    "PassError",
    "MetadataError",
]
