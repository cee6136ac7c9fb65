"""What deduplication is worth: a model of many layers, handed to a backend with and without it.

    python -m benchmarks.deduplication                        32 layers, Inductor, inference
    python -m benchmarks.deduplication --layers 8 --train --backend aot_eager

Each case runs in a process of its own, without the backend's caches, on one thread. Nodes are those that the backend
has to do something about, of the graph and once of each subgraph: the inputs of the graph, which are the parameters of
all layers, are the same with and without, and stand in a column of their own.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import time

import torch

import framelift
from benchmarks.llama import Llama
from framelift.report import events, stream


def measure(layers: int, backend: str, is_trained: bool, deduplicate: bool) -> dict[str, float]:
    """Nodes handed to the backend, and seconds until the first result, or until gradients."""
    torch.set_num_threads(1)
    torch.manual_seed(0)
    model = Llama(layers, 64, 4, 128, 100).train(is_trained)
    tokens = torch.randint(0, 100, (2, 8))
    expected = model(tokens)
    framelift.compile(lambda x: x.sin() * 2, backend=backend)(torch.randn(3))  # imports and first-time tables
    seen: list[events.GraphCaptured] = []
    with stream.listening(seen.append, events.GraphCaptured), torch.set_grad_enabled(is_trained):
        began = time.perf_counter()
        found = framelift.compile(model, backend=backend, options={"deduplicate": deduplicate})(tokens)
        if is_trained:
            found.sum().backward()
        seconds = time.perf_counter() - began
    torch.testing.assert_close(found, expected)
    (captured,) = seen
    graphs = [captured.graph_module, *captured.graph_module.children()]
    inputs = len(captured.graph_module.graph.find_nodes(op="placeholder"))
    nodes = sum(len(graph.graph.nodes) for graph in graphs) - inputs
    return {"nodes": nodes, "inputs": inputs, "seconds": seconds}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--layers", type=int, default=32)
    parser.add_argument("--backend", default="inductor")
    parser.add_argument("--train", action="store_true", help="also the first backward")
    parser.add_argument("--case", choices=("plain", "deduplicated"), help="only this one, in this process, as JSON")
    given = parser.parse_args()
    if given.case:
        print(json.dumps(measure(given.layers, given.backend, given.train, given.case == "deduplicated")))
        return
    without_caches = {**os.environ, "TORCHINDUCTOR_FORCE_DISABLE_CACHES": "1"}
    found = {}
    for case in ("plain", "deduplicated"):
        command = [sys.executable, "-m", "benchmarks.deduplication", *sys.argv[1:], "--case", case]
        done = subprocess.run(command, env=without_caches, stdout=subprocess.PIPE, text=True, check=True)
        found[case] = json.loads(done.stdout.splitlines()[-1])
        one = found[case]
        print(f"{case:13} {one['nodes']:5} nodes  {one['inputs']:4} inputs  first result after {one['seconds']:6.1f} s")
    plain, less = found["plain"], found["deduplicated"]
    print(
        f"{given.layers} layers, {given.backend}: {plain['nodes'] / less['nodes']:.1f}× fewer nodes, "
        f"{plain['seconds'] / less['seconds']:.1f}× faster to compile"
    )


if __name__ == "__main__":
    main()
