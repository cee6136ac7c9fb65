"""Sizes and numbers that depend on data, kept in the graph (`config.data_dependent`), against a graph break there.

    python -m benchmarks.data_dependent                      three models, eager and Inductor
    python -m benchmarks.data_dependent --backend eager --model filter

Each case runs in a process of its own, on one thread, without Inductor's caches.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import time
from collections.abc import Callable
from typing import Any

import torch
from torch import nn
from torch.nn import functional

import framelift
from benchmarks.versions import versions
from framelift.report import events, stream

CALLS = 60


class Attention(nn.Module):
    """Attention over a cache that is written at the position that a tensor says."""

    def __init__(self, width: int, length: int) -> None:
        super().__init__()
        self.project, self.out = nn.Linear(width, 3 * width), nn.Linear(width, width)
        self.register_buffer("keys", torch.zeros(1, length, width))
        self.register_buffer("values", torch.zeros(1, length, width))

    def forward(self, x: torch.Tensor, position: torch.Tensor) -> torch.Tensor:
        query, key, value = self.project(x).chunk(3, -1)
        self.keys[:, position : position + 1] = key
        self.values[:, position : position + 1] = value
        end = position + 1
        mixed = functional.scaled_dot_product_attention(query, self.keys[:, :end], self.values[:, :end])
        return x + self.out(mixed)


class Decoder(nn.Module):
    """Four layers of it; one token a call."""

    def __init__(self) -> None:
        super().__init__()
        self.layers = nn.ModuleList(Attention(128, 256) for _ in range(4))

    def forward(self, x: torch.Tensor, position: torch.Tensor) -> torch.Tensor:
        for layer in self.layers:
            x = layer(x, position)
        return x


class Experts(nn.Module):
    """Each row goes through the expert that its scores choose."""

    def __init__(self) -> None:
        super().__init__()
        self.choose = nn.Linear(64, 4)
        self.experts = nn.ModuleList(nn.Sequential(nn.Linear(64, 128), nn.GELU(), nn.Linear(128, 64)) for _ in range(4))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        chosen = self.choose(x).argmax(-1)
        result = torch.zeros_like(x)
        for index, expert in enumerate(self.experts):
            rows = (chosen == index).nonzero().squeeze(1)
            result = result.index_add(0, rows, expert(x[rows]))
        return result + x


class Filter(nn.Module):
    """The rows with a good score are normalised and classified."""

    def __init__(self) -> None:
        super().__init__()
        self.score, self.classify = nn.Linear(32, 1), nn.Sequential(nn.LayerNorm(32), nn.Linear(32, 10))

    def forward(self, x: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        kept = x[self.score(x).squeeze(1).sigmoid() > 0.5]
        return self.classify(kept * 2 + 1).softmax(-1), kept.mean(0)


def _tokens(index: int) -> tuple[Any, ...]:
    return torch.randn(1, 1, 128), torch.tensor(2 + index)


MODELS: dict[str, tuple[Callable[[], nn.Module], Callable[[int], tuple[Any, ...]]]] = {
    "decoder": (Decoder, _tokens),
    "experts": (Experts, lambda index: (torch.randn(96, 64),)),
    "filter": (Filter, lambda index: (torch.randn(200, 32),)),
}


def measure(name: str, backend: str, is_kept: bool) -> dict[str, Any]:
    """CPU seconds until the first result, microseconds of a call after that (the median), graphs, runs of Python."""
    torch.set_num_threads(1)
    torch.manual_seed(0)
    make, inputs_of = MODELS[name]
    model = make().eval()
    framelift.compile(lambda x: x.sin() * 2, backend=backend)(torch.randn(3))  # imports and first-time tables
    seen: list[Any] = []
    with stream.listening(seen.append), torch.no_grad(), framelift.config.patch(data_dependent=is_kept):
        lifted = framelift.compile(model, backend=backend)
        began = time.process_time()
        lifted(*inputs_of(0))
        first = time.process_time() - began
        times = []
        for index in range(1, CALLS):
            inputs = inputs_of(index)
            began = time.perf_counter()
            lifted(*inputs)
            times.append(time.perf_counter() - began)
        given = inputs_of(CALLS)
        torch.testing.assert_close(lifted(*given), model(*given))
    return {
        "first call, CPU s": round(first, 2),
        "captures": sum(isinstance(event, events.CaptureFinished) for event in seen),
        "graphs": sum(isinstance(event, events.GraphCaptured) for event in seen),
        "run by Python": sum(isinstance(event, events.RanEagerly) for event in seen),
        "call, us": round(1e6 * sorted(times)[len(times) // 2]),
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--model", choices=MODELS)
    parser.add_argument("--backend")
    parser.add_argument("--case", choices=("kept", "broken"), help="only this one, in this process, as JSON")
    given = parser.parse_args()
    if given.case:
        print(json.dumps(measure(given.model, given.backend, given.case == "kept")))
        return
    print(versions())
    environment = {**os.environ, "TORCHINDUCTOR_FORCE_DISABLE_CACHES": "1"}
    for model in [given.model] if given.model else MODELS:
        for backend in [given.backend] if given.backend else ("eager", "inductor"):
            for case in ("kept", "broken"):
                command = [sys.executable, "-m", "benchmarks.data_dependent"]
                command += ["--model", model, "--backend", backend, "--case", case]
                out = subprocess.run(command, env=environment, check=True, capture_output=True, text=True).stdout
                print(f"{model:8} {backend:9} {case:7}", json.loads(out.splitlines()[-1]), flush=True)


if __name__ == "__main__":
    main()
