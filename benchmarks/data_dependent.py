"""Sizes and numbers that depend on data, kept in the graph (`config.data_dependent`), against a graph break there.

    python -m benchmarks.data_dependent                      every model, backend eager
    python -m benchmarks.data_dependent --backend inductor --model filter

Each case runs in a process of its own, on one thread, without Inductor's caches: 14 calls, each with data of its own,
and then more of them for the time that a call takes.
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

import framelift
from benchmarks.data_dependent_models import MODELS
from benchmarks.versions import versions
from framelift.fallbacks import DATA_DIFFERS
from framelift.native import _core
from framelift.report import events, stream

CALLS = 14
# Calls by which everything is to be captured.
SETTLED = 4
ROUNDS = 15
# Seconds after which a case is given up.
PATIENCE = 120


def measure(name: str, backend: str, case: str) -> dict[str, Any]:
    """What 14 calls came to, the CPU seconds of the first one, and the microseconds of one of the later ones."""
    torch.set_num_threads(1)
    torch.manual_seed(0)
    make, inputs_of = MODELS[name]
    model = make().eval()
    framelift.compile(lambda x: x.sin() * 2, backend=backend)(torch.randn(3))  # imports and first-time tables
    framelift.reset()
    inputs = [inputs_of(index) for index in range(CALLS)]
    seen: list[Any] = []
    found: dict[str, Any] = {}
    with torch.no_grad(), framelift.config.patch(data_dependent=case == "kept"):
        lifted = model if case == "eager" else framelift.compile(model, backend=backend)
        model(*inputs[0])
        costs, late = [], 0
        with stream.listening(seen.append):
            for index, given in enumerate(inputs):
                before = _captures(seen) + _fallbacks(seen)
                began = time.process_time()
                lifted(*given)
                costs.append(time.process_time() - began)
                late += index >= SETTLED and _captures(seen) + _fallbacks(seen) > before
        found["first call, CPU s"] = round(costs[0], 3)
        found["all 14, CPU s"] = round(sum(costs), 3)
        if case != "eager":
            found |= {
                "captures": _captures(seen),
                "graphs": sum(isinstance(event, events.GraphCaptured) for event in seen),
                "uses": sorted((entry.hits for table in _core.all_tables() for entry in table.entries), reverse=True),
                "failed checks": sum(
                    isinstance(event, events.RanEagerly) and event.id == DATA_DIFFERS.id for event in seen
                ),
                "in Python": _fallbacks(seen),
                "late": late,
            }
        found["a call, us"] = _steady(lifted, inputs[SETTLED:])
        for given in inputs:
            torch.testing.assert_close(lifted(*given), model(*given))
    return found


def _captures(seen: list[Any]) -> int:
    return sum(isinstance(event, events.CaptureFinished) for event in seen)


def _fallbacks(seen: list[Any]) -> int:
    return sum(isinstance(event, events.RanEagerly) for event in seen)


def _steady(call: Callable[..., Any], inputs: list[tuple[Any, ...]]) -> int:
    """The best of some rounds over the inputs, for one call."""
    times = []
    for _ in range(ROUNDS):
        began = time.perf_counter()
        for given in inputs:
            call(*given)
        times.append(time.perf_counter() - began)
    return round(1e6 * min(times) / len(inputs))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--model", choices=MODELS)
    parser.add_argument("--backend", default="eager")
    parser.add_argument("--case", choices=("kept", "broken", "eager"), help="only this one, in this process, as JSON")
    given = parser.parse_args()
    if given.case:
        print(json.dumps(measure(given.model, given.backend, given.case)))
        return
    print(versions())
    environment = {**os.environ, "TORCHINDUCTOR_FORCE_DISABLE_CACHES": "1"}
    for model in [given.model] if given.model else MODELS:
        for case in ("kept", "broken", "eager"):
            command = [sys.executable, "-m", "benchmarks.data_dependent"]
            command += ["--model", model, "--backend", given.backend, "--case", case]
            print(f"{model:16} {case:7} {_run(command, environment)}", flush=True)


def _run(command: list[str], environment: dict[str, str]) -> Any:
    """What a case printed, or how it failed."""
    try:
        ended = subprocess.run(command, env=environment, capture_output=True, text=True, check=False, timeout=PATIENCE)
    except subprocess.TimeoutExpired:
        return f"does not end within {PATIENCE} s"
    return json.loads(ended.stdout.splitlines()[-1]) if ended.returncode == 0 else ended.stderr.splitlines()[-3:]


if __name__ == "__main__":
    main()
