"""`make bench`: every case in a process of its own, a table of ratios beside the least that is asked for."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.table import Table

ROOT = Path(__file__).resolve().parent.parent
# case -> what is measured -> the least ratio torch.compile / framelift
BARS: dict[str, dict[str, float]] = {
    "MLP-100": {"capture": 5, "call": 10},
    "CNN-16": {"capture": 5, "call": 10},
    "x+1": {"call": 50},
    "64 shapes": {"call": 40},
}


def measure(case: str) -> dict[str, Any]:
    environment = {**os.environ, "OMP_NUM_THREADS": "1", "PYTHONPATH": f"{ROOT}{os.pathsep}{ROOT / 'src'}"}
    done = subprocess.run(
        [sys.executable, "-m", "benchmarks.measure", case],
        capture_output=True,
        text=True,
        env=environment,
        cwd=ROOT,
        check=False,
    )
    if done.returncode:
        raise SystemExit(f"{case} failed:\n{done.stderr[-3000:]}")
    found: dict[str, Any] = json.loads(done.stdout.splitlines()[-1])
    return found


def main() -> None:
    console = Console()
    table = Table(title="torch.compile / framelift (best of 5 rounds by turns, one thread)")
    for column in ("case", "what", "torch.compile", "framelift", "ratio", "at least", "guards (ours, theirs)"):
        table.add_column(column, justify="left" if column in ("case", "what") else "right")
    wanted = sys.argv[1:] or list(BARS)
    results: dict[str, Any] = {}
    short = 0
    for case in wanted:
        results[case] = measure(case)
        for what, found in results[case].items():
            least = BARS[case].get(what)
            missed = least is not None and found["ratio"] < least
            short += missed
            mark = "red" if missed else "green"
            guards = f"{found.get('guards', '')}, {found.get('torch_guards', '')}".strip(", ")
            table.add_row(
                case, what, _time(found["torch"]), _time(found["framelift"]),
                f"[{mark}]{found['ratio']:.1f}×[/]", "" if least is None else f"{least:.0f}×", guards,
            )  # fmt: skip
    console.print(table)
    for case, found in results.items():
        phases = found.get("capture", {}).get("phases")
        if phases:
            shares = ", ".join(f"{name} {seconds * 1e3:.1f} ms" for name, seconds in phases.items())
            console.print(f"{case} capture: {shares}")
        if "two_entries" in found.get("call", {}):
            console.print(
                f"{case}: {_time(found['call']['framelift'])} a call, {_time(found['call']['two_entries'])} with 2"
            )
    if short:
        console.print(f"[red]{short} below what is asked for[/]")


def _time(seconds: float) -> str:
    for unit, factor in (("s", 1), ("ms", 1e3), ("µs", 1e6)):
        if seconds * factor >= 1:
            return f"{seconds * factor:.2f} {unit}"
    return f"{seconds * 1e9:.0f} ns"


if __name__ == "__main__":
    main()
