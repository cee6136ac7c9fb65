"""`make zoo`: the tiny models of transformers_zoo.py lifted one by one, each in a process of its own.

    python -m benchmarks.zoo                              all of them, framelift alone
    python -m benchmarks.zoo --torch --jobs 2             beside torch.compile, measured in the same run
    python -m benchmarks.zoo --names bloom opt --json out.json
    python -m benchmarks.zoo --passes all                 with every exact default pass (or none, or names with commas)
    python -m benchmarks.zoo --backend inductor --names opt    compared within its rounding

A model is called three times: the first call captures, the second (same inputs) must not, and the third (other numbers
in the same shapes) only where the program depends on them. All results are compared with eager PyTorch, bit by bit.
"""

from __future__ import annotations

import argparse
import json
import multiprocessing
import os
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

from rich.console import Console

from benchmarks.transformers_zoo import NAMES
from benchmarks.versions import versions
from benchmarks.zoo_one import report

SECONDS = 600  # for one model; a process that takes longer is ended and reported
# Processes are forked from one that has imported everything, which takes longer than most captures.
FORKS = multiprocessing.get_context("forkserver")


def measure(name: str, compiler: str, passes: str = "default", backend: str = "eager") -> dict[str, Any]:
    """What one compiler makes of one model; a process that dies is a result, too."""
    receiver, sender = FORKS.Pipe(duplex=False)
    process = FORKS.Process(target=report, args=(name, compiler, sender, passes, backend))
    process.start()
    sender.close()
    try:
        if receiver.poll(SECONDS):
            found: dict[str, Any] = receiver.recv()
            return found
        process.kill()
        return {"error": f"took more than {SECONDS} s"}
    except EOFError:
        process.join()
        return {"error": f"the process ended with exit code {process.exitcode}"}
    finally:
        process.join()


def line(name: str, found: dict[str, Any], theirs: dict[str, Any] | None) -> str:
    """One model in one line."""
    if "error" in found:
        text = f"{name:28} [red]FAILED[/] {_plain(found['error'])}"
    else:
        graphs = f"{found['graphs']} graph{'s' if found['graphs'] != 1 else ' '}"
        colour = "green" if found["graphs"] == 1 and not found["breaks"] else "yellow"
        equal = "equal" if found["equal"] else f"[red]DIFFERENT: {_plain(found['difference'])}[/]"
        again = f", [red]{found['again']} captures on the second call[/]" if found["again"] else ""
        again += f", {found['other']} captures for other numbers" if found["other"] else ""
        text = (
            f"{name:28} [{colour}]{graphs:9}[/] {len(found['breaks'])} breaks {found['ops']:5} ops "
            f"{found['rewrites']:4} rewrites "
            f"{found['seconds']:7.3f} s  {equal}{again}"
        )
    if theirs is not None and "error" in theirs:
        text += f"   torch.compile: [red]FAILED[/] {_plain(theirs['error'])}"
    elif theirs is not None:
        text += f"   torch.compile: {theirs['graphs']} graphs {len(theirs['breaks'])} breaks"
        text += f" {theirs['ops']} ops {theirs['seconds']:.3f} s"
    for reason in dict.fromkeys(found.get("breaks", [])):
        text += f"\n{'':30}[yellow]{_plain(reason)}[/]"
    if found.get("again"):
        for reason in dict.fromkeys(found["recompiled"]):
            text += f"\n{'':30}[red]captured again: {_plain(reason)}[/]"
    for reason in dict.fromkeys(found.get("failures", [])):
        text += f"\n{'':30}[red]{_plain(reason)}[/]"
    return text


def totals(found: dict[str, dict[str, Any]]) -> dict[str, Any]:
    """Over the models that did not fail."""
    good = [result for result in found.values() if "error" not in result]
    return {
        "models": len(found),
        "failed": len(found) - len(good),
        "equal": sum(result["equal"] for result in good),
        "one_graph": sum(result["graphs"] == 1 and not result["breaks"] for result in good),
        "graphs": sum(result["graphs"] for result in good),
        "breaks": sum(len(result["breaks"]) for result in good),
        "captured_again": sum(bool(result["again"]) for result in good),
        "captured_for_other_numbers": sum(bool(result["other"]) for result in good),
        "ops": sum(result["ops"] for result in good),
        "rewrites": sum(result.get("rewrites", 0) for result in good),
        "seconds": sum(result["seconds"] for result in good),
        "capture": sum(result["capture"] for result in good),
    }


def summary(who: str, total: dict[str, Any]) -> str:
    return (
        f"{who:13} {total['models']} models: {total['equal']} equal to eager, {total['one_graph']} in one graph, "
        f"{total['graphs']} graphs, {total['breaks']} breaks, "
        f"{total['captured_again']} captured again on the second call, "
        f"{total['failed']} failed, {total['ops']} ops, {total['rewrites']} rewrites, {total['seconds']:.1f} s"
    )


def _plain(text: str) -> str:
    return text.replace("[", "\\[")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--names", nargs="*", help="which models; all of them if not given")
    parser.add_argument("--torch", action="store_true", help="also measure torch.compile")
    parser.add_argument("--jobs", type=int, default=1, help="processes at a time")
    parser.add_argument("--json", type=Path, help="write everything to this file")
    parser.add_argument("--passes", default="default", help="default, none, all, or names of passes with commas")
    parser.add_argument("--backend", default="eager", help="of framelift")
    given = parser.parse_args()
    names = given.names or NAMES
    unknown = [name for name in names if name not in NAMES]
    if unknown:
        parser.error(f"there is no model {unknown[0]!r} in the zoo")
    os.environ["OMP_NUM_THREADS"] = "1"
    os.environ["PYTHONWARNINGS"] = "ignore"
    FORKS.set_forkserver_preload(["benchmarks.zoo_one", "framelift.api", "torch._dynamo"])
    console = Console(soft_wrap=True)
    console.print(versions())
    ours: dict[str, dict[str, Any]] = {}
    theirs: dict[str, dict[str, Any]] = {}

    def both(name: str) -> tuple[str, dict[str, Any], dict[str, Any] | None]:
        return (
            name,
            measure(name, "framelift", given.passes, given.backend),
            measure(name, "torch") if given.torch else None,
        )

    with ThreadPoolExecutor(given.jobs) as pool:
        for name, found, other in pool.map(both, names):
            ours[name] = found
            if other is not None:
                theirs[name] = other
            console.print(line(name, found, other))
    result: dict[str, Any] = {"versions": versions(), "framelift": {"totals": totals(ours), "models": ours}}
    console.print(summary("framelift", result["framelift"]["totals"]))
    if theirs:
        result["torch.compile"] = {"totals": totals(theirs), "models": theirs}
        console.print(summary("torch.compile", result["torch.compile"]["totals"]))
        both_good = [name for name in names if "error" not in ours[name] and "error" not in theirs[name]]
        if both_good:
            for key, what in (("seconds", "first calls"), ("capture", "captures (first calls less second calls)")):
                theirs_all, ours_all = (sum(found[name][key] for name in both_good) for found in (theirs, ours))
                words = f"torch.compile / framelift, {what} of {len(both_good)} models: {theirs_all / ours_all:.1f}×"
                console.print(f"{words} ({theirs_all:.1f} s / {ours_all:.1f} s)")
    if given.json:
        given.json.write_text(json.dumps(result, indent=1))


if __name__ == "__main__":
    main()
