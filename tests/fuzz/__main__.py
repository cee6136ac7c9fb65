"""`make fuzz`: random programs, each lifted and compared with Python. A program that differs is made small and printed.

python -m tests.fuzz                                  1,000 programs
python -m tests.fuzz --programs 10000 --seed 5000     others
python -m tests.fuzz --programs 1 --seed 123          one again
python -m tests.fuzz --growing --backend aot_eager    sizes and numbers that grow from call to call, another backend
python -m tests.fuzz --data                           sizes and numbers that depend on data, which changes
python -m tests.fuzz --training                       training steps, with hooks and optimizers
python -m tests.fuzz --faults                         whether faults planted in framelift are found
"""

from __future__ import annotations

import argparse
import gc
import sys
import time
from typing import Any

from tests.fuzz import run, training
from tests.fuzz.faults import FAULTS, found_by_programs
from tests.fuzz.run import Way, shrink


def report(kind: Any, seed: int, size: int, way: Way | None, problem: str, small: bool) -> None:
    """How to run a failing program again, and its smallest form."""
    print(f"\nseed {seed}, size {size}: {problem.splitlines()[0][:300]}\n", flush=True)
    if not small:
        return
    statements = shrink(kind.write(seed, size, way), lambda smaller: kind.failure_of(smaller, seed, way) is not None)
    print(kind.shown(statements))
    print(f"smaller: {kind.failure_of(statements, seed, way)}\n", flush=True)


def fuzz(kind: Any, first: int, programs: int, size: int, way: Way | None, small: bool) -> int:
    """How many of the programs differ. `kind` writes and runs them: `run`, or `training`."""
    began = time.perf_counter()
    different = 0
    for seed in range(first, first + programs):
        problem = kind.failure_of(kind.write(seed, size, way), seed, way)
        if problem is not None:
            different += 1
            report(kind, seed, size, way, problem, small)
    print(f"{programs} programs, {different} different, {time.perf_counter() - began:.0f} s")
    return different


def plant_faults(names: list[str], programs: int, size: int) -> int:
    """How many of the planted faults no program finds."""
    missed = 0
    for name in names:
        seed = found_by_programs(name, programs, size)
        missed += seed is None
        print(f"{name:40} {'MISSED' if seed is None else f'found by program {seed}'}", flush=True)
    print(f"{len(names)} faults, {missed} missed")
    return missed


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seed", type=int, default=0, help="of the first program")
    parser.add_argument("--programs", type=int, default=1000)
    parser.add_argument("--size", type=int, default=8, help="statements of a program")
    parser.add_argument("--faults", nargs="*", metavar="NAME", help="plant these faults, or all, one at a time")
    parser.add_argument("--backend", help="for all programs: a name, or users_aot (default: eager, for some users_aot)")
    parser.add_argument("--growing", action="store_true", help="sizes and numbers grow from call to call")
    parser.add_argument("--data", action="store_true", help="sizes and numbers that depend on data")
    parser.add_argument("--training", action="store_true", help="training steps")
    parser.add_argument("--seeds-only", action="store_true", help="name programs that fail, without making them small")
    given = parser.parse_args()
    gc.freeze()  # torch is large: looking through it again and again is a tenth of the time
    if given.faults is not None:
        return plant_faults(given.faults or list(FAULTS), min(given.programs, 2000), given.size)
    way = None
    if given.backend or given.growing or given.data:
        way = Way(given.backend or "eager", given.growing, given.data)
    kind = training if given.training else run
    return bool(fuzz(kind, given.seed, given.programs, given.size, way, not given.seeds_only))


if __name__ == "__main__":
    sys.exit(main())
