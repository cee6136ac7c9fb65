"""`make bench`: every case in a process of its own, a table of ratios beside the least that is asked for.

python -m benchmarks.run                      everything
python -m benchmarks.run inductor             all cases compiled with Inductor, nothing else
python -m benchmarks.run dynamic              all cases with symbolic sizes, nothing else
python -m benchmarks.run Llama-8 --no-growth  some cases, without the captures of 2, 8 and 32 layers
python -m benchmarks.run --json figures.json
"""

from __future__ import annotations

import argparse
import json
import math
import os
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.table import Table

from benchmarks.versions import versions

ROOT = Path(__file__).resolve().parent.parent
INDUCTOR, DYNAMIC = "inductor", "dynamic"
# case -> what is measured -> the least ratio torch.compile / framelift
BARS: dict[str, dict[str, float]] = {
    "MLP-100": {"capture": 5, "call": 10},
    "CNN-16": {"capture": 5, "call": 10},
    "Llama-8": {"capture": 4, "call": 5},
    "BERT-12": {"capture": 4, "call": 5},
    "ViT-12": {"capture": 4, "call": 5},
    "T5-6": {"capture": 4, "call": 5},
    "Mixtral-4": {"capture": 4, "call": 5},
    "x+1": {"call": 50},
    "64 shapes": {"call": 40},
}
# The same for models compiled with Inductor.
COMPILED: dict[str, dict[str, float]] = {
    f"{INDUCTOR} {name}": {"first call": 1, "steady": 1}
    for name in ("MLP-10", "CNN-4", "U-Net", "DLRM", "Llama-2", "BERT-2", "ViT-2", "T5-2", "GPT-2-2", "Mixtral-2")
}
BARS |= COMPILED
MODELS = [case for case, bars in BARS.items() if "capture" in bars]
# Symbolic sizes: captures with dynamic=True, calls whose guards compute with sizes.
SYMBOLIC: dict[str, dict[str, float]] = {
    f"{DYNAMIC} Llama-8": {"capture": 3},
    f"{DYNAMIC} 16 tensors": {"call": 15},
}
BARS |= SYMBOLIC
GROUPS = {INDUCTOR: COMPILED, DYNAMIC: SYMBOLIC}
# What is measured, the least geometric mean over which cases.
MEANS = {
    "capture": (6.0, MODELS),
    "call": (10.0, MODELS),
    "first call": (1.0, list(COMPILED)),
    "steady": (1.0, list(COMPILED)),
}
GROWTH = {"Llama-2": 2, "Llama-8": 8, "Llama-32": 32}


def measure(case: str, *options: str) -> dict[str, Any]:
    """One case in a process of its own."""
    return _run("benchmarks.measure", case, *options)


def measure_compiled(cases: list[str]) -> dict[str, Any]:
    """Cases compiled with Inductor. What it compiles once per machine is kept from one to the next."""
    with tempfile.TemporaryDirectory(prefix="framelift-bench-") as caches:
        return {
            case: _run("benchmarks.inductor", case.removeprefix(f"{INDUCTOR} "), "--caches", caches) for case in cases
        }


def _run(module: str, *arguments: str) -> dict[str, Any]:
    environment = {
        **os.environ,
        "OMP_NUM_THREADS": "1",
        "TORCHINDUCTOR_COMPILE_THREADS": "1",
        "PYTHONPATH": f"{ROOT}{os.pathsep}{ROOT / 'src'}",
    }
    done = subprocess.run(
        [sys.executable, "-m", module, *arguments],
        capture_output=True,
        text=True,
        env=environment,
        cwd=ROOT,
        check=False,
    )
    if done.returncode:
        return {"error": (done.stderr.strip().splitlines() or [f"ended with {done.returncode}"])[-1]}
    found: dict[str, Any] = json.loads(done.stdout.splitlines()[-1])
    return found


def ratios(results: dict[str, Any]) -> tuple[Table, int]:
    """The table of ratios, and how many are below what is asked for."""
    table = Table(title="torch.compile / framelift (one thread, by turns; best round, in steady state the median)")
    for column in (
        "case",
        "what",
        "torch.compile",
        "framelift",
        "ratio",
        "at least",
        "graphs",
        "guards (theirs)",
    ):
        table.add_column(column, justify="left" if column in ("case", "what") else "right")
    short = 0
    for case, found in results.items():
        if "error" in found:
            short += 1
            table.add_row(case, "[red]failed[/]", *[""] * 6)
        for what in MEANS:
            if what not in found:
                continue
            part, least = found[what], BARS[case].get(what)
            missed = least is not None and part["ratio"] < least
            short += missed
            guards = str(part.get("guards", ""))
            if part.get("torch_guards"):
                guards += f" ({part['torch_guards']})"
            table.add_row(
                case, what, _time(part["torch"]), _time(part["framelift"]), _ratio(part["ratio"], missed),
                "" if least is None else f"{least:.0f}×", str(found.get("graphs", "")), guards,
            )  # fmt: skip
    for what, (least, cases) in MEANS.items():
        found_ratios = [results[case][what]["ratio"] for case in cases if what in results.get(case, {})]
        if len(found_ratios) == len(cases):
            mean = math.exp(sum(map(math.log, found_ratios)) / len(found_ratios))
            missed = mean < least
            short += missed
            table.add_row("geometric mean", what, "", "", _ratio(mean, missed), f"{least:.0f}×", "", "")
    return table, short


def costs(results: dict[str, Any]) -> Table:
    """What one bytecode, operation and guard costs when it is captured, and where the time goes."""
    table = Table(title="captures of framelift")
    for column in ("case", "bytecodes", "ops", "guards", "per bytecode", "per op", "per guard", "shares"):
        table.add_column(column, justify="left" if column in ("case", "shares") else "right")
    for case, found in results.items():
        part = found.get("capture")
        if part:
            shares = ", ".join(f"{name} {share:.0%}" for name, share in part["shares"].items())
            table.add_row(
                case, *[str(part[what]) for what in ("bytecodes", "ops", "guards")],
                *[_time(part[what]) for what in ("per_bytecode", "per_op", "per_guard")], shares,
            )  # fmt: skip
    return table


def growth(results: dict[str, Any]) -> Table:
    """How captures grow with the layers: what the layers between two sizes cost each."""
    table = Table(title="captures of Llama with more and more layers (best of 2 rounds)")
    for column in ("layers", "torch.compile", "framelift", "ratio", "framelift, per further layer"):
        table.add_column(column, justify="right")
    before: tuple[int, float] | None = None
    for case, layers in GROWTH.items():
        part = results.get(case, {}).get("capture")
        if part is None:
            table.add_row(str(layers), f"[red]{results[case].get('error', '')}[/]", "", "", "")
            continue
        ours = part["framelift"]
        further = "" if before is None else _time(max(0.0, ours - before[1]) / (layers - before[0]))
        table.add_row(str(layers), _time(part["torch"]), _time(ours), f"{part['ratio']:.1f}×", further)
        before = layers, ours
    return table


def _ratio(ratio: float, missed: bool) -> str:
    return f"[{'red' if missed else 'green'}]{ratio:.{1 if ratio >= 10 else 2}f}×[/]"


def _time(seconds: float) -> str:
    for unit, factor in (("s", 1), ("ms", 1e3), ("µs", 1e6)):
        if seconds * factor >= 1:
            return f"{seconds * factor:.2f} {unit}"
    return f"{seconds * 1e9:.0f} ns"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("cases", nargs="*", help=", ".join([*GROUPS, *BARS]))
    parser.add_argument("--no-growth", action="store_true", help="leave out the captures of 2, 8 and 32 layers")
    parser.add_argument("--json", type=Path, help="write all figures to this file")
    given = parser.parse_args()
    unknown = [case for case in given.cases if case not in BARS and case not in GROUPS]
    if unknown:
        parser.error(f"there is no case {unknown[0]!r}: {', '.join([*GROUPS, *BARS])}")
    console = Console(width=None if sys.stdout.isatty() else 180)
    console.print(versions())
    wanted = {*given.cases, *(case for group in given.cases for case in GROUPS.get(group, ()))}
    cases = [case for case in BARS if not given.cases or case in wanted]
    results = {case: measure(case) for case in cases if case not in COMPILED}
    results |= measure_compiled([case for case in cases if case in COMPILED])
    table, short = ratios(results)
    console.print(table)
    console.print(costs(results))
    for case, found in results.items():
        if "error" in found:
            console.print(f"[red]{case}: {found['error']}[/]", markup=True)
        if "two_entries" in found.get("call", {}):
            call = found["call"]
            console.print(f"{case}: {_time(call['framelift'])} a call, {_time(call['two_entries'])} with 2")
    grown: dict[str, Any] = {}
    if not given.cases and not given.no_growth:
        grown = {case: measure(case, "--growth") for case in GROWTH}
        console.print(growth(grown))
    if short:
        console.print(f"[red]{short} below what is asked for[/]")
    if given.json:
        given.json.write_text(json.dumps({"versions": versions(), "cases": results, "growth": grown}, indent=1))


if __name__ == "__main__":
    main()
