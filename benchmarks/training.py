"""Training steps side by side: eager, torch.compile and framelift, of the model alone and of the whole step.

    python -m benchmarks.training                                      every model, Inductor, CPU
    python -m benchmarks.training --model llama --optimizer adamw --device cuda
    python -m benchmarks.training --model mlp --backend eager --steps 200

A step clears the gradients, computes the loss, calls backward, clips the norm of the gradients and has the optimizer do
its step. Each case runs in a process of its own, with Inductor's caches where they are. Shown are the seconds of the
first step and the milliseconds of a later one (the median), the graphs that framelift made, the device memory of a
step at its highest, and by how much the loss differs from eager's after all steps.
"""

from __future__ import annotations

import argparse
import json
import statistics
import subprocess
import sys
import time
from collections.abc import Callable
from typing import Any

import torch
from torch import nn
from torch.nn import functional

import framelift
from benchmarks.llama import Llama

WARM = 5
# Seconds after which a case is given up.
PATIENCE = 900
CASES = ("eager", "torch.compile, model", "torch.compile, step", "framelift, model", "framelift, step")

Batch = tuple[torch.Tensor, torch.Tensor]


class Recurrent(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.cells = nn.LSTM(64, 128, num_layers=2, batch_first=True, dropout=0.1)
        self.head = nn.Linear(128, 10)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.head(self.cells(x)[0][:, -1])


def perceptron() -> nn.Module:
    return nn.Sequential(nn.Linear(256, 512), nn.GELU(), nn.Linear(512, 512), nn.GELU(), nn.Linear(512, 10))


def convolutions() -> nn.Module:
    def block(given: int, made: int) -> list[nn.Module]:
        return [nn.Conv2d(given, made, 3, padding=1), nn.BatchNorm2d(made), nn.ReLU(), nn.MaxPool2d(2)]

    return nn.Sequential(*block(3, 16), *block(16, 32), nn.Flatten(), nn.Dropout(0.1), nn.Linear(32 * 64, 10))


def llama(layers: int) -> nn.Module:
    return Llama(layers=layers, width=512, heads=8, inner=1408, words=8000)


def classes(shape: tuple[int, ...]) -> Callable[[torch.Generator], Batch]:
    def batch(generator: torch.Generator) -> Batch:
        return torch.randn(shape, generator=generator), torch.randint(10, shape[:1], generator=generator)

    return batch


def words(batch: int, length: int) -> Callable[[torch.Generator], Batch]:
    def tokens(generator: torch.Generator) -> Batch:
        given = torch.randint(8000, (batch, length + 1), generator=generator)
        return given[:, :-1], given[:, 1:]

    return tokens


def models(args: argparse.Namespace) -> dict[str, tuple[Callable[[], nn.Module], Callable[[torch.Generator], Batch]]]:
    return {
        "mlp": (perceptron, classes((64, 256))),
        "cnn": (convolutions, classes((32, 3, 32, 32))),
        "lstm": (Recurrent, classes((32, 20, 64))),
        "llama": (lambda: llama(args.layers), words(args.batch, args.length)),
    }


OPTIMIZERS: dict[str, Callable[[Any], torch.optim.Optimizer]] = {
    "sgd": lambda parameters: torch.optim.SGD(parameters, lr=0.01, momentum=0.9),
    "adamw": lambda parameters: torch.optim.AdamW(parameters, lr=1e-3),
}


def loss_of(model: nn.Module, x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
    return functional.cross_entropy(model(x).flatten(0, -2), y.flatten())


def step_of(loss_of: Callable[..., torch.Tensor]) -> Callable[..., torch.Tensor]:
    def step(model: nn.Module, optimizer: torch.optim.Optimizer, x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
        optimizer.zero_grad()
        loss = loss_of(model, x, y)
        loss.backward()
        nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        return loss.detach()

    return step


def lifted(case: str, backend: str) -> Callable[..., torch.Tensor]:
    """The step as a case has it."""
    compiler, _, what = case.partition(", ")
    if compiler == "eager":
        return step_of(loss_of)
    compiles: Any = torch.compile if compiler == "torch.compile" else framelift.compile
    if what == "model":
        return step_of(compiles(loss_of, backend=backend))
    whole: Callable[..., torch.Tensor] = compiles(step_of(loss_of), backend=backend)
    return whole


def measure(args: argparse.Namespace) -> dict[str, Any]:
    """One case in this process."""
    if args.device == "cpu":
        torch.set_num_threads(args.threads)
    torch.manual_seed(0)
    build, batch = models(args)[args.model]
    model = build().to(args.device, getattr(torch, args.dtype)).train()
    optimizer = OPTIMIZERS[args.optimizer](model.parameters())
    step, generator = lifted(args.case, args.backend), torch.Generator().manual_seed(0)
    before, times, loss = framelift.counters().graphs, [], torch.zeros(())
    for number in range(WARM + args.steps):
        x, y = (each.to(args.device) for each in batch(generator))
        x = x.to(getattr(torch, args.dtype)) if x.is_floating_point() else x
        if number == WARM and args.device == "cuda":
            torch.cuda.reset_peak_memory_stats()
        _wait(args.device)
        began = time.perf_counter()
        loss = step(model, optimizer, x, y)
        _wait(args.device)
        times.append(time.perf_counter() - began)
    return {
        "first, s": times[0],
        "step, ms": statistics.median(times[WARM:]) * 1e3,
        "graphs": framelift.counters().graphs - before,
        "MiB": torch.cuda.max_memory_allocated() / 2**20 if args.device == "cuda" else 0.0,
        "loss": loss.item(),
    }


def _wait(device: str) -> None:
    if device == "cuda":
        torch.cuda.synchronize()


def in_a_process(argv: list[str], model: str, case: str) -> dict[str, Any]:
    command = [sys.executable, "-m", "benchmarks.training", *argv, "--model", model, "--case", case]
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=PATIENCE)
    except subprocess.TimeoutExpired:
        return {"error": f"took more than {PATIENCE} s"}
    if done.returncode:
        return {"error": (done.stderr.strip().splitlines() or ["died"])[-1]}
    found: dict[str, Any] = json.loads(done.stdout.strip().splitlines()[-1])
    return found


def show(model: str, rows: dict[str, dict[str, Any]]) -> None:
    print(f"\n{model:22} {'first, s':>9} {'step, ms':>9} {'graphs':>7} {'MiB':>8}  loss beside eager's")
    eager = rows.get("eager", {}).get("loss")
    for case, row in rows.items():
        if "error" in row:
            print(f"{case:22} {row['error'][:100]}")
            continue
        apart = "" if eager is None else f"{abs(row['loss'] - eager):.1e}"
        print(f"{case:22} {row['first, s']:9.2f} {row['step, ms']:9.2f} {row['graphs']:7} {row['MiB']:8.0f}  {apart}")


def main(argv: list[str]) -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--model", choices=["mlp", "cnn", "lstm", "llama"])
    parser.add_argument("--optimizer", choices=[*OPTIMIZERS], default="sgd")
    parser.add_argument("--backend", default="inductor")
    parser.add_argument("--device", default="cpu")
    parser.add_argument("--dtype", default="float32")
    parser.add_argument("--steps", type=int, default=30)
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--layers", type=int, default=8)
    parser.add_argument("--batch", type=int, default=8)
    parser.add_argument("--length", type=int, default=128)
    parser.add_argument("--case", choices=CASES, help="one case, in this process, as JSON")
    args = parser.parse_args(argv)
    if args.case is not None:
        print(json.dumps(measure(args)))
        return
    for model in [args.model] if args.model else ["mlp", "cnn", "lstm"]:
        show(model, {case: in_a_process(argv, model, case) for case in CASES})


if __name__ == "__main__":
    main(sys.argv[1:])
