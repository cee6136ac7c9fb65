"""One case compiled with Inductor, in this process and in new ones: torch.compile and framelift by turns, one thread.

Steady state: the median of many calls. First call: in a process of its own, with everything imported and the caches
of Inductor and AOTAutograd filled on disk by an earlier process; each compiler has a directory of its own.

    python -m benchmarks.inductor U-Net --caches /tmp/caches
"""

from __future__ import annotations

import argparse
import json
import multiprocessing
import os
import statistics
import time
from collections.abc import Callable
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any

import torch
import torch._dynamo
import torch._inductor.compile_fx

import framelift
import framelift.backends.inductor
from benchmarks.compare import leaves
from benchmarks.models import COMPILED

COMPILERS: dict[str, Callable[..., Any]] = {"torch": torch.compile, "framelift": framelift.compile}
CALLS = 400
FIRST_CALLS = 3
# Inductor sums in another order than PyTorch; the models are narrow, and their numbers are around one.
CLOSE = {"rtol": 1e-3, "atol": 1e-4}
# Children share what this process has imported; it has not computed anything that started threads.
FORKS = multiprocessing.get_context("fork")


def steady_state(case: str) -> dict[str, Any]:
    target, inputs = _build(case)
    expected = leaves(target(*inputs))
    compiled = {name: compiler(target) for name, compiler in COMPILERS.items()}
    for function in compiled.values():
        for _ in range(5):
            torch.testing.assert_close(leaves(function(*inputs)), expected, **CLOSE)
    seconds: dict[str, list[float]] = {name: [] for name in compiled}
    for _ in range(CALLS):
        for name, function in compiled.items():
            began = time.perf_counter()
            function(*inputs)
            seconds[name].append(time.perf_counter() - began)
    return _ratio({name: statistics.median(found) for name, found in seconds.items()})


def first_calls(case: str, caches: Path) -> dict[str, Any]:
    """Seconds of the first call in a new process, the best of a few, after one that fills the caches."""
    best = dict.fromkeys(COMPILERS, float("inf"))
    for name in COMPILERS:
        _in_new_process(case, name, caches)
    for _ in range(FIRST_CALLS):
        for name in COMPILERS:
            seconds, misses = _in_new_process(case, name, caches)
            if misses:
                raise RuntimeError(f"{name} did not find what an earlier process compiled: {misses}")
            best[name] = min(best[name], seconds)
    return _ratio(best)


def _in_new_process(case: str, compiler: str, caches: Path) -> tuple[float, dict[str, int]]:
    receiver, sender = FORKS.Pipe(duplex=False)
    process = FORKS.Process(target=_first_call, args=(case, compiler, caches, sender))
    process.start()
    sender.close()
    try:
        found: tuple[float, dict[str, int]] = receiver.recv()
        return found
    except EOFError:
        raise RuntimeError(f"{compiler} failed in a new process") from None
    finally:
        process.join()


def _first_call(case: str, compiler: str, caches: Path, sender: Connection) -> None:
    os.environ["TORCHINDUCTOR_CACHE_DIR"] = str(caches / compiler)
    target, inputs = _build(case)
    compiled = COMPILERS[compiler](target)
    with torch.no_grad():
        began = time.perf_counter()
        compiled(*inputs)
        seconds = time.perf_counter() - began
    counts = torch._dynamo.utils.counters
    misses = {
        name: count
        for table in ("inductor", "aot_autograd")
        for name, count in counts[table].items()
        if name.endswith(("cache_miss", "cache_bypass"))
    }
    sender.send((seconds, misses))


def _build(case: str) -> tuple[Any, tuple[torch.Tensor, ...]]:
    torch.manual_seed(0)
    return COMPILED[case]()


def _ratio(seconds: dict[str, float]) -> dict[str, Any]:
    return {**seconds, "ratio": seconds["torch"] / seconds["framelift"]}


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("case", choices=COMPILED)
    parser.add_argument("--caches", type=Path, required=True, help="a folder for what is compiled")
    given = parser.parse_args()
    torch.set_num_threads(1)
    _build(given.case)  # imports what the model needs
    found: dict[str, Any] = {"first call": first_calls(given.case, given.caches)}
    os.environ["TORCHINDUCTOR_CACHE_DIR"] = str(given.caches / "both")
    with torch.no_grad():
        found["steady"] = steady_state(given.case)
    print(json.dumps(found))


if __name__ == "__main__":
    main()
