"""On a machine with a GPU: a one-token forward of a 16-layer, 1024-wide bf16 Llama, framelift beside torch.compile.

Run by benchmarks/gpu.py. Measured are the first call with the eager backend (capture), a call whose graph costs nothing
(overhead), and the median latency of calls in steady state: eager PyTorch, both compilers with Inductor, and both with
reduce-overhead, by turns. Results are compared with eager PyTorch before anything is timed.
"""

from __future__ import annotations

import argparse
import importlib.util
import json
import statistics
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch
import torch._dynamo

import framelift
from benchmarks.llama import Llama
from benchmarks.measure import call_seconds, capture_seconds, warm_up
from benchmarks.versions import versions

SIZES = {"layers": 16, "width": 1024, "heads": 16, "inner": 2816, "words": 32000}
WARM_UPS, ROUNDS, CALLS = 8, 20, 20


def plain() -> torch.nn.Module:
    return Llama(**SIZES)


def pretrained() -> torch.nn.Module:
    import transformers  # noqa: PLC0415  (an optional dependency)

    config = transformers.LlamaConfig(
        hidden_size=SIZES["width"],
        intermediate_size=SIZES["inner"],
        num_hidden_layers=SIZES["layers"],
        num_attention_heads=SIZES["heads"],
        num_key_value_heads=SIZES["heads"],
        vocab_size=SIZES["words"],
        use_cache=False,
    )
    return transformers.LlamaForCausalLM(config)


def logits(result: Any) -> torch.Tensor:
    return result if isinstance(result, torch.Tensor) else result.logits


def latencies(functions: dict[str, Callable[..., Any]], tokens: torch.Tensor) -> dict[str, float]:
    """Median seconds of a call that has finished on the device, each function by turns."""
    found: dict[str, list[float]] = {name: [] for name in functions}
    for _ in range(ROUNDS):
        for name, function in functions.items():
            for _ in range(CALLS):
                torch.cuda.synchronize()
                began = time.perf_counter()
                function(tokens)
                torch.cuda.synchronize()
                found[name].append(time.perf_counter() - began)
    return {name: statistics.median(seconds) for name, seconds in found.items()}


def steady_state(model: torch.nn.Module, tokens: torch.Tensor) -> dict[str, Any]:
    torch._dynamo.reset()
    framelift.reset()
    functions: dict[str, Callable[..., Any]] = {"eager PyTorch": model}
    for mode in (None, "reduce-overhead"):
        for name, compile in (("framelift", framelift.compile), ("torch.compile", torch.compile)):
            functions[f"{name} {mode or 'inductor'}"] = compile(model, mode=mode)
    functions["framelift eager"] = framelift.compile(model, backend="eager")
    expected = logits(model(tokens)).float()
    first_calls, differences = {}, {}
    for name, function in functions.items():
        began = time.perf_counter()
        function(tokens)
        torch.cuda.synchronize()
        first_calls[name] = time.perf_counter() - began
        for _ in range(WARM_UPS):
            result = logits(function(tokens)).float().clone()
        differences[name] = (result - expected).abs().max().item()
    return {"first call": first_calls, "difference": differences, "latency": latencies(functions, tokens)}


def main(arguments: list[str]) -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    has_transformers = importlib.util.find_spec("transformers") is not None
    models = {"plain": plain, "transformers": pretrained}
    parser.add_argument("--model", choices=models, default="transformers" if has_transformers else "plain")
    parser.add_argument("--rounds", type=int, default=3, help="of the captures")
    parser.add_argument("--json", type=Path, help="write all figures to this file")
    given = parser.parse_args(arguments)
    if not torch.cuda.is_available():
        raise SystemExit("benchmarks/gpu.py needs a CUDA device")
    torch.manual_seed(0)
    warm_up()
    model = models[given.model]().to("cuda", torch.bfloat16).eval()
    tokens = torch.randint(3, 200, (1, 1), device="cuda")
    print(versions())
    found: dict[str, Any] = {
        "machine": torch.cuda.get_device_name(),
        "python": sys.version.split()[0],
        "torch": torch.__version__,
        "model": given.model,
    }
    with torch.no_grad():
        found["capture"] = capture_seconds(model, (tokens,), given.rounds)
        found["call"] = call_seconds(model, (tokens,))
        print(json.dumps(found), flush=True)
        found["steady"] = steady_state(model, tokens)
    for what in ("capture", "call"):
        part = found[what]
        print(
            f"{what:8} torch.compile {part['torch'] * 1e3:9.3f} ms   framelift {part['framelift'] * 1e3:9.3f} ms"
            f"   {part['ratio']:.1f}×"
        )
    print(f"{'':28} {'first call':>12} {'latency':>12} {'difference':>12}")
    steady = found["steady"]
    for name, seconds in steady["latency"].items():
        print(
            f"{name:28} {steady['first call'][name]:10.2f} s {seconds * 1e3:9.3f} ms {steady['difference'][name]:12.2e}"
        )
    if given.json:
        given.json.write_text(json.dumps(found, indent=1))
