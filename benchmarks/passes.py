"""What the passes gain: six workloads, each run as its graph before and after, by the same executor.

    python -m benchmarks.passes                          on the CPU, one thread
    python benchmarks/passes_gpu.py                      the same table on a GPU, with larger sizes
    python -m benchmarks.passes --only parallel_heads --report

A row is one workload: microseconds before and after (of the fastest of many rounds), their ratio, the ratio it should
reach, nodes before and after, and what the passes cost. Results are compared before anything is timed. `weights` says
whether the user declares them frozen (packed once) or they are trained (packed on every call, if at all). The last line
is the time of the passes on a graph that has nothing for them.
"""

from __future__ import annotations

import argparse
import copy
import ctypes
import math
import platform
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import nn
from torch.fx import GraphModule

import framelift
from benchmarks.versions import versions
from framelift.passes import PassOptions, pre_grad_passes

ROUNDS = 40
ROUND_SECONDS = 0.005


class FeatureTowers(nn.Module):
    """A linear and tanh per feature, joined, then one linear."""

    def __init__(self, features: int, size: int) -> None:
        super().__init__()
        self.size = size
        self.towers = nn.ModuleList(nn.Linear(size, size) for _ in range(features))
        self.last = nn.Linear(features * size, size)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        parts = torch.split(x, self.size, 1)
        joined = torch.cat([torch.tanh(tower(part)) for tower, part in zip(self.towers, parts, strict=True)], 1)
        return self.last(joined)


class EmbeddingRepack(nn.Module):
    """Embeddings taken apart and put together in another shape."""

    def __init__(self, count: int, size: int) -> None:
        super().__init__()
        self.count, self.size = count, size

    def forward(self, x: torch.Tensor, e: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        parts = [part.reshape(-1, 1, self.size) for part in x.chunk(self.count, 1)]
        slices = [part.squeeze(1) for part in e.chunk(self.count, 1)]
        return torch.relu(torch.cat(parts, 1)), torch.cat(slices, 1) + 1


class ParallelHeads(nn.Module):
    """Task heads on one input."""

    def __init__(self, heads: int, inner: int, outer: int) -> None:
        super().__init__()
        self.heads = nn.ModuleList(nn.Linear(inner, outer) for _ in range(heads))

    def forward(self, x: torch.Tensor) -> list[torch.Tensor]:
        return [torch.sigmoid(head(x)) for head in self.heads]


class SlicedProjectionSum(nn.Module):
    """The sum of a linear per slice, a residual, a layer norm."""

    def __init__(self, slices: int, inner: int, outer: int) -> None:
        super().__init__()
        self.inner = inner
        self.projections = nn.ModuleList(nn.Linear(inner, outer) for _ in range(slices))
        self.norm = nn.LayerNorm(outer)

    def forward(self, x: torch.Tensor, residual: torch.Tensor) -> torch.Tensor:
        parts = torch.split(x, self.inner, 1)
        total = residual
        for projection, part in zip(self.projections, parts, strict=True):
            total = total + projection(part)
        return self.norm(total)


class GrowingConcat(nn.Module):
    """Features joined one after the other, then a score. The product is the same before and after, and dear: 8 scores
    instead of one take longer than all the cats that the passes leave."""

    def __init__(self, count: int, size: int) -> None:
        super().__init__()
        self.last = nn.Linear(count * size, 1)

    def forward(self, *features: torch.Tensor) -> torch.Tensor:
        joined = features[0]
        for feature in features[1:]:
            joined = torch.cat([joined, feature], 1)
        return self.last(joined)


class InteractionLayer(nn.Module):
    """A linear compression of embeddings beside a compressed factorisation machine, and a residual."""

    def __init__(self, count: int, size: int, compressed: int, width: int) -> None:
        super().__init__()
        self.compress = nn.Linear(count, compressed)
        self.select = nn.Parameter(torch.randn(count, width) / math.sqrt(count))
        self.norm = nn.LayerNorm(size)
        self.count = compressed + count * width // size

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        linear = self.compress(x.permute(0, 2, 1)).permute(0, 2, 1)
        pairs = torch.matmul(torch.bmm(x, x.permute(0, 2, 1)), self.select)
        joined = torch.cat([linear, pairs.reshape(x.shape[0], -1, x.shape[2])], 1)
        return self.norm(joined + x[:, : self.count])


class InteractionBlock(nn.Module):
    """Three such layers."""

    def __init__(self, count: int, size: int, compressed: int, width: int) -> None:
        super().__init__()
        layers = []
        for _ in range(3):
            layers.append(InteractionLayer(count, size, compressed, width))
            count = layers[-1].count
        self.layers = nn.Sequential(*layers)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.layers(x)


@dataclass(frozen=True)
class Workload:
    """A model and inputs per kind of device, the passes it needs, and the ratio it should reach on a CPU."""

    name: str
    build: Callable[[bool], tuple[nn.Module, list[torch.Tensor]]]
    target: float
    add: str | None = None
    devices: tuple[str, ...] = ("cpu", "cuda")


def feature_towers(gpu: bool) -> tuple[nn.Module, list[torch.Tensor]]:
    rows, count, size = (512, 128, 64) if gpu else (32, 64, 32)
    return FeatureTowers(count, size), [torch.randn(rows, count * size)]


def embedding_repack(gpu: bool) -> tuple[nn.Module, list[torch.Tensor]]:
    rows, count, size = (4096, 64, 128) if gpu else (256, 32, 64)
    return EmbeddingRepack(count, size), [torch.randn(rows, count * size), torch.randn(rows, count, size)]


def parallel_heads(gpu: bool) -> tuple[nn.Module, list[torch.Tensor]]:
    heads, rows, inner, outer = (64, 512, 256, 32) if gpu else (32, 64, 64, 16)
    return ParallelHeads(heads, inner, outer), [torch.randn(rows, inner)]


def gating(gpu: bool) -> tuple[nn.Module, list[torch.Tensor]]:
    """Three large projections of one input, where merging does not pay on a CPU: the graph must stay."""
    return ParallelHeads(3, 512, 512), [torch.randn(128, 512)]


def sliced_projection_sum(gpu: bool) -> tuple[nn.Module, list[torch.Tensor]]:
    slices, rows, inner, outer = (32, 1024, 64, 256) if gpu else (16, 64, 32, 64)
    return SlicedProjectionSum(slices, inner, outer), [torch.randn(rows, slices * inner), torch.randn(rows, outer)]


def densenet_style_concat(gpu: bool) -> tuple[nn.Module, list[torch.Tensor]]:
    count, rows, size = (32, 4096, 64) if gpu else (16, 256, 64)
    return GrowingConcat(count, size), [torch.randn(rows, size) for _ in range(count)]


def interaction_block(gpu: bool) -> tuple[nn.Module, list[torch.Tensor]]:
    rows, count, size, compressed, width = (2048, 256, 128, 128, 32) if gpu else (128, 64, 64, 32, 16)
    return InteractionBlock(count, size, compressed, width), [torch.randn(rows, count, size)]


INTERACTIONS = "use_matmul_lce_replace_normal_LCE,use_triton_dot_compress"
KERNELS = "use_triton_lce_replace_normal_LCE,use_triton_dot_compress"
WORKLOADS = (
    Workload("feature_towers", feature_towers, 2.0),
    Workload("embedding_repack", embedding_repack, 3.0),
    Workload("parallel_heads", parallel_heads, 1.8),
    Workload("gating", gating, 0.97),
    Workload("sliced_projection_sum", sliced_projection_sum, 2.0),
    Workload("densenet_style_concat", densenet_style_concat, 3.0),
    Workload("interaction_block", interaction_block, 1.3, INTERACTIONS),
    Workload("interaction_kernels", interaction_block, 1.3, KERNELS, devices=("cuda",)),
)


@dataclass(frozen=True)
class Row:
    name: str
    weights: str
    before: float
    after: float
    target: float
    nodes_before: int
    nodes_after: int
    capture: float
    passes: float
    report: Any

    @property
    def ratio(self) -> float:
        return self.before / self.after

    def __str__(self) -> str:
        return (
            f"{self.name:24} {self.weights:8} {self.before * 1e6:10.1f} {self.after * 1e6:10.1f} {self.ratio:7.2f}x "
            f"{self.target:6.2f}x {self.nodes_before:5d} {self.nodes_after:5d} {self.capture * 1e3:10.1f} "
            f"{self.passes * 1e3:8.1f}"
        )


HEAD = (
    f"{'workload':24} {'weights':8} {'before us':>10} {'after us':>10} {'ratio':>8} {'target':>7} nodes after "
    "capture ms passes ms"
)


def measure(workload: Workload, device: str, dtype: torch.dtype, frozen: bool, seed: int = 0) -> Row:
    """One workload: captured, optimised, compared, timed."""
    torch.manual_seed(seed)
    model, inputs = workload.build(device == "cuda")
    model = model.to(device, dtype).requires_grad_(not frozen)
    inputs = [x.to(device, dtype) for x in inputs]
    with torch.no_grad():
        framelift.export(model, *inputs)  # once for torch to load what it needs
        start = time.perf_counter()
        before, _ = framelift.export(model, *inputs)
        capture = time.perf_counter() - start
        options = PassOptions(approximate=True, freeze_weights=frozen, on_error="raise")
        after = copy.deepcopy(before)
        pre_grad_passes(copy.deepcopy(before), inputs, workload.add, options=options)
        start = time.perf_counter()
        pre_grad_passes(after, inputs, workload.add, options=options)
        passes = time.perf_counter() - start
        compare(before, after, inputs)
        times = interleaved([before, after], inputs, device)
    weights = "frozen" if frozen else "trained"
    sizes = (len(before.graph.nodes), len(after.graph.nodes))
    return Row(
        workload.name, weights, *times, workload.target, *sizes, capture, passes, after.meta["pass_report"]
    )  # fmt: skip


def compare(before: GraphModule, after: GraphModule, inputs: list[torch.Tensor]) -> None:
    """The new error against double precision is not worse than twice the old one, and a few roundings."""
    wide = copy.deepcopy(before).double()(*(x.double() for x in inputs))
    for old, new, exact in zip(flat(before(*inputs)), flat(after(*inputs)), flat(wide), strict=True):
        old_error = (old.double() - exact).abs().max()
        new_error = (new.double() - exact).abs().max()
        allowed = 2 * old_error + torch.finfo(old.dtype).eps * exact.abs().max() * 8
        assert new_error <= allowed, (float(old_error), float(new_error))


def flat(results: Any) -> list[torch.Tensor]:
    return list(results) if isinstance(results, list | tuple) else [results]


def interleaved(modules: list[GraphModule], inputs: list[torch.Tensor], device: str) -> list[float]:
    """Seconds per call of each in its fastest round, measured by turns: other work on the machine only adds."""
    loops = [max(2, int(ROUND_SECONDS / seconds(module, inputs, 3, device))) for module in modules]
    found: list[list[float]] = [[] for _ in modules]
    for _ in range(ROUNDS):
        for times, module, count in zip(found, modules, loops, strict=True):
            times.append(seconds(module, inputs, count, device))
    return [min(times) for times in found]


def seconds(module: GraphModule, inputs: list[torch.Tensor], loops: int, device: str) -> float:
    """Seconds per call; on a CPU those of the one thread that runs, which others on the machine do not add to."""
    clock = time.perf_counter if device == "cuda" else time.thread_time
    module(*inputs)
    if device == "cuda":
        torch.cuda.synchronize()
    start = clock()
    for _ in range(loops):
        module(*inputs)
    if device == "cuda":
        torch.cuda.synchronize()
    return (clock() - start) / loops


class Chain(nn.Module):
    """Layers with nothing for the passes: each linear has its own input and size, no piece is put together again."""

    def __init__(self, layers: int) -> None:
        super().__init__()
        self.layers = nn.ModuleList(nn.Linear(8 + index, 9 + index) for index in range(layers))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        for layer in self.layers:
            x = torch.cos(nn.functional.gelu(layer(x)) * 0.5) + 1.5
        return x


def idle() -> str:
    """The time of all passes on a graph of some 600 nodes where none of them finds anything."""
    with torch.no_grad():
        gm, _ = framelift.export(Chain(80), torch.randn(4, 8))
        options = PassOptions(approximate=True, freeze_weights=True, on_error="raise")
        pre_grad_passes(gm, options=options)  # to the one spelling
        times = []
        for _ in range(ROUNDS):
            start = time.perf_counter()
            report = pre_grad_passes(gm, options=options).meta["pass_report"]
            times.append(time.perf_counter() - start)
            assert not report.rewrites
    nodes = len(gm.graph.nodes)
    each = min(times) * 1e3 * 100 / nodes
    return f"nothing to do: {each:.2f} ms per 100 nodes ({nodes} nodes; under 10 wanted)"


def keep_memory() -> None:
    """Lets the allocator keep what is freed. Else much of what is measured is the kernel handing out pages, which a
    program that has run for a while does not see."""
    if platform.system() == "Linux" and platform.libc_ver()[0] == "glibc":
        trim_threshold, mmap_threshold = -1, -3
        for setting in (trim_threshold, mmap_threshold):
            ctypes.CDLL(None).mallopt(setting, 1 << 30)


def main(argv: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--device", default="cpu", choices=("cpu", "cuda"))
    parser.add_argument("--dtype", default=None, choices=("float32", "bfloat16"))
    parser.add_argument("--only", nargs="*", choices=[each.name for each in WORKLOADS])
    parser.add_argument("--trained", action="store_true", help="also with weights that are not frozen")
    parser.add_argument("--report", action="store_true", help="what each pass did")
    given = parser.parse_args(argv)
    if given.device == "cuda" and not torch.cuda.is_available():
        parser.exit(2, "there is no CUDA device here; --device cpu runs the same on the CPU\n")
    torch.set_num_threads(1)
    keep_memory()
    dtype = getattr(torch, given.dtype or ("bfloat16" if given.device == "cuda" else "float32"))
    print(versions())
    print(HEAD)
    rows = []
    for workload in WORKLOADS:
        if given.device not in workload.devices or (given.only and workload.name not in given.only):
            continue
        for frozen in (True, False) if given.trained else (True,):
            row = measure(workload, given.device, dtype, frozen)
            rows.append(row)
            print(row, flush=True)
            if given.report:
                print(row.report)
    real = [row.ratio for row in rows if row.name != "gating"]
    if real:
        print(f"geometric mean {math.exp(sum(map(math.log, real)) / len(real)):.2f}x, worst {min(real):.2f}x")
    print(idle())


if __name__ == "__main__":
    main()
