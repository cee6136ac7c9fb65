"""What deduplication is worth: a model of many layers, handed to a backend with and without it.

    python -m benchmarks.deduplication                        32 layers, Inductor, inference
    python -m benchmarks.deduplication --layers 8 --train --backend aot_eager
    python -m benchmarks.deduplication --backend eager --model Llama BERT    models of transformers; nodes only

Each case runs in a process of its own, without the backend's caches, on one thread. Nodes are counted three times:

    computed     what the backend has to do something about, of the graph and once of each subgraph with its inputs
    in graph     the graph itself, with its inputs: mostly parameters, which are the same with and without
    in all       the graph and its subgraphs, with the inputs of both

The inputs set a bound, "at best": they, a call per layer, and one layer are left however well layers are found.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import time
from typing import Any

import torch

import framelift
from benchmarks.llama import Llama
from benchmarks.models import pretrained
from benchmarks.versions import versions
from framelift.report import events, stream

PLAIN = "plain"
CASES = ("plain", "deduplicated")


def model_of(name: str, layers: int) -> tuple[torch.nn.Module, tuple[torch.Tensor, ...]]:
    """The Llama in plain PyTorch, or one of the transformers package."""
    if name == PLAIN:
        return Llama(layers, 64, 4, 128, 100).eval(), (torch.randint(0, 100, (2, 8)),)
    return pretrained(name, layers)


def measure(name: str, layers: int, backend: str, is_trained: bool, deduplicate: bool) -> dict[str, float]:
    """Nodes handed to the backend, and seconds until the first result, or until gradients."""
    torch.set_num_threads(1)
    torch.manual_seed(0)
    model, inputs = model_of(name, layers)
    with torch.set_grad_enabled(is_trained):
        expected = _result(model.train(is_trained)(*inputs))
    framelift.compile(lambda x: x.sin() * 2, backend=backend)(torch.randn(3))  # imports and first-time tables
    seen: list[events.GraphCaptured] = []
    with stream.listening(seen.append, events.GraphCaptured), torch.set_grad_enabled(is_trained):
        began = time.perf_counter()
        found = _result(framelift.compile(model, backend=backend, options={"deduplicate": deduplicate})(*inputs))
        if is_trained:
            found.sum().backward()
        seconds = time.perf_counter() - began
    torch.testing.assert_close(found, expected)
    return {**nodes_in(seen, layers), "seconds": seconds}


def _result(found: Any) -> torch.Tensor:
    """The tensor that a model gives, or the first of those."""
    tensor: torch.Tensor = found if isinstance(found, torch.Tensor) else found[0]
    return tensor


def nodes_in(captured: list[events.GraphCaptured], layers: int) -> dict[str, int]:
    """The nodes of graphs and subgraphs, and how few there could be if every layer is one call of the largest."""
    graphs = [each.graph_module.graph for each in captured]
    subgraphs = [child.graph for each in captured for child in each.graph_module.children()]
    inputs = sum(len(graph.find_nodes(op="placeholder")) for graph in graphs)
    on_top = sum(len(graph.nodes) for graph in graphs)
    inside = [len(graph.nodes) for graph in subgraphs]
    return {
        "inputs": inputs,
        "computed": on_top - inputs + sum(inside),
        "in graph": on_top,
        "in all": on_top + sum(inside),
        "bound": inputs + layers + max(inside, default=0),
    }


def compare(name: str, given: argparse.Namespace) -> None:
    without_caches = {**os.environ, "TORCHINDUCTOR_FORCE_DISABLE_CACHES": "1"}
    settings = [f"--layers={given.layers}", f"--backend={given.backend}", *["--train"] * given.train]
    found = []
    for case in CASES:
        command = [sys.executable, "-m", "benchmarks.deduplication", *settings, "--model", name, "--case", case]
        done = subprocess.run(command, env=without_caches, stdout=subprocess.PIPE, text=True, check=True)
        one = json.loads(done.stdout.splitlines()[-1])
        found.append(one)
        counts = f"{one['inputs']:6} {one['computed']:9} {one['in graph']:9} {one['in all']:7}"
        print(f"{name:10} {case:13} {counts} {one['seconds']:8.1f} s", flush=True)
    plain, less = found
    fewer = {key: plain[key] / less[key] for key in ("computed", "in graph", "in all", "seconds")}
    counts = f"{'':6} {fewer['computed']:9.2f} {fewer['in graph']:9.2f} {fewer['in all']:7.2f}"
    print(f"{name:10} {'times less':13} {counts} {fewer['seconds']:8.1f}")
    best = plain["in all"] / less["bound"]
    print(f"{name:10} {'at best':13} {'':26} {best:7.2f}   {less['bound']} nodes: inputs, a call per layer, one layer")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--layers", type=int, default=32)
    parser.add_argument("--backend", default="inductor")
    parser.add_argument("--train", action="store_true", help="also the first backward")
    parser.add_argument("--model", nargs="+", default=[PLAIN], help="of benchmarks/models.py: Llama, BERT, ...")
    parser.add_argument("--case", choices=CASES, help="only this one, in this process, as JSON")
    given = parser.parse_args()
    if given.case:
        (name,) = given.model
        print(json.dumps(measure(name, given.layers, given.backend, given.train, given.case == "deduplicated")))
        return
    print(versions())
    print(f"{given.layers} layers, {given.backend}, {'training' if given.train else 'inference'}")
    print(f"{'model':10} {'':13} {'inputs':>6} {'computed':>9} {'in graph':>9} {'in all':>7} {'first result':>10}")
    for name in given.model:
        compare(name, given)


if __name__ == "__main__":
    main()
