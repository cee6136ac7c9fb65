"""`make cpython-tests`: CPython's own tests lifted, against the same tests without framelift.

    python -m tests.cpython                               every module of suite.py
    python -m tests.cpython --modules dict list re        some of them, or others of the package
    python -m tests.cpython --match test_setdefault -v    some methods, with the reasons of breaks
    python -m tests.cpython --fullgraph --torch           also the share that lifts with fullgraph=True, beside torch's
    python -m tests.cpython --stressed                    with what follows a break captured, tensors or not
    python -m tests.cpython --keep FOLDER                 keep the results; what a run left there is not run again

A method counts as the same when its outcome is: passed, skipped, or failed with the same exception and words. One that
passes only because Python ran it again, after its capture had raised, is named, too.
Each module runs in a process of its own. A method that ends the process or takes too long is a difference.
"""

from __future__ import annotations

import argparse
import json
import multiprocessing
import sys
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

from framelift.breaks import FL0401
from tests.cpython.child import run_module
from tests.cpython.suite import ALLOWED_SHARE, MODULES, allowed_differences

# Processes are forked from one that has imported torch and framelift.
FORKS = multiprocessing.get_context("forkserver")
Results = dict[str, dict[str, Any]]


def results_of(module: str, way: str, match: str, seconds: float) -> Results:
    """What becomes of each method of a module; processes that die or hang are followed by another one."""
    found: Results = {}
    start = 0
    while start >= 0:
        receiver, sender = FORKS.Pipe(duplex=False)
        process = FORKS.Process(target=run_module, args=(module, way, start, match, sender), daemon=True)
        process.start()
        sender.close()
        start = _follow(receiver, process, found, seconds)
        process.kill()
        process.join()
    return found


class Kept:
    """Results of whole modules in a folder: a run that was ended goes on where it stopped."""

    def __init__(self, folder: Path | None) -> None:
        self._folder = folder

    def results_of(self, module: str, way: str, match: str, seconds: float) -> Results:
        if self._folder is None:
            return results_of(module, way, match, seconds)
        path = self._folder / f"{sys.version_info.major}.{sys.version_info.minor}-{way}-{module}.json"
        if not path.exists():
            found = results_of(module, way, match, seconds)
            self._folder.mkdir(parents=True, exist_ok=True)
            unfinished = path.with_suffix(".part")
            unfinished.write_text(json.dumps(found, indent=1))
            unfinished.replace(path)
        kept: Results = json.loads(path.read_text())
        return kept


def _follow(receiver: Any, process: Any, found: Results, seconds: float) -> int:
    """Note what a process tells. The number of the method to go on with where it did not finish, else -1."""
    current = {"number": -1, "test": "(import)"}
    try:
        while receiver.poll(seconds):
            said = receiver.recv()
            if said is None:
                return -1
            if "test" in said:
                current = said
            else:
                found[current["test"]] = said
        problem = f"hang: more than {seconds:g} s"
    except EOFError:
        process.join()
        problem = f"crash: exit code {process.exitcode}"
    found[current["test"]] = {"outcome": [problem], "captured": False, "frames": 0, "breaks": [], "failures": []}
    return current["number"] + 1 if current["number"] >= 0 else -1


class Comparison:
    """One module: its methods one way against plainly."""

    def __init__(self, plain: Results, other: Results) -> None:
        self.plain, self.other = plain, other
        self.ran = [test for test, said in plain.items() if not said["outcome"][0].startswith("skipped")]
        self.passed = [test for test in self.ran if plain[test]["outcome"] == ["ok"]]
        self.different = [test for test in plain if not self._is_same(test)]

    def _is_same(self, test: str) -> bool:
        return test in self.other and bool(self.plain[test]["outcome"] == self.other[test]["outcome"])

    @property
    def captured(self) -> list[str]:
        """Methods that were captured whole, with the right outcome."""
        return [test for test in self.passed if self._is_same(test) and self.other[test]["captured"]]

    @property
    def mistaken(self) -> dict[str, str]:
        """Methods that pass, but raised while they were captured: something was modelled wrongly; Python saved it."""
        first = {test: self.other[test]["breaks"][:1] for test in self.passed if test in self.other}
        return {test: breaks[0] for test, breaks in first.items() if breaks and breaks[0].startswith(FL0401.id)}

    @property
    def frames(self) -> int:
        return sum(said["frames"] for said in self.other.values())


def share(part: int, whole: int) -> str:
    return f"{part}/{whole} = {100 * part / max(whole, 1):.1f} %"


def report(module: str, compared: Comparison, verbose: bool) -> None:
    """One module in one line, and a line for each difference."""
    print(
        f"{module:14} {len(compared.ran):4} tests  {len(compared.ran) - len(compared.different):4} same "
        f"{len(compared.different):3} different  {compared.frames:5} frames lifted  "
        f"captured {share(len(compared.captured), len(compared.passed))}",
        flush=True,
    )
    for test in compared.different:
        said = compared.other.get(test, {"outcome": ["not run"]})["outcome"]
        print(f"    {test}: {compared.plain[test]['outcome'][0][:100]!r} became {said[0][:300]!r}")
    for test, reason in compared.mistaken.items():
        print(f"    {test} passed, but not while it was captured: {reason[:300]}")
    if verbose:
        for test, said in compared.other.items():
            for reason in dict.fromkeys(said["breaks"]):
                print(f"    {test}: {reason}")


def summary(way: str, all_compared: dict[str, Comparison]) -> str:
    every = all_compared.values()
    ran, different = sum(len(one.ran) for one in every), sum(len(one.different) for one in every)
    captured, passed = sum(len(one.captured) for one in every), sum(len(one.passed) for one in every)
    return (
        f"{way}: {ran} tests, {ran - different} same, {different} different, "
        f"{sum(len(one.mistaken) for one in every)} mistaken while captured, "
        f"{sum(one.frames for one in every)} frames lifted, captured whole {share(captured, passed)}"
    )


def common_reasons(all_compared: dict[str, Comparison], shown: int) -> list[str]:
    """The reasons that end most captures, the first one of each method."""
    reasons: Counter[str] = Counter()
    for one in all_compared.values():
        for said in one.other.values():
            reasons.update(reason.partition(" (")[0] for reason in said["breaks"][:1])
    return [f"{count:5} × {reason}" for reason, count in reasons.most_common(shown)]


def verdict(lifted: dict[str, Comparison], complete: bool) -> list[str]:
    """What is wrong: differences that are not allowed, too many that are, modules without a test."""
    allowed = allowed_differences()
    different = {test for one in lifted.values() for test in one.different}
    wrong = [f"not allowed to differ: {test}" for test in sorted(different - allowed.keys())]
    wrong += [f"no test of {module} ran" for module, one in lifted.items() if complete and not one.ran]
    ran = sum(len(one.ran) for one in lifted.values())
    if complete and len(different) > ALLOWED_SHARE * ran:
        wrong.append(f"{len(different)} differences are more than {ALLOWED_SHARE:.1%} of {ran} tests")
    return wrong


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--modules", nargs="*", default=MODULES, metavar="NAME")
    parser.add_argument("--match", default="", help="only the methods whose name contains this")
    parser.add_argument("--fullgraph", action="store_true", help="also with fullgraph=True")
    parser.add_argument("--stressed", action="store_true", help="capture what follows a break, tensors or not")
    parser.add_argument("--torch", action="store_true", help="also with torch.compile(fullgraph=True)")
    parser.add_argument("--seconds", type=float, default=120, help="for one method")
    parser.add_argument("--jobs", type=int, default=1, help="processes at a time")
    parser.add_argument("--keep", type=Path, metavar="FOLDER", help="for results; those it has are not run again")
    parser.add_argument("-v", "--verbose", action="store_true", help="say why captures ended")
    given = parser.parse_args()
    if given.keep and given.match:
        parser.error("--keep is for whole modules, without --match")
    kept = Kept(given.keep)
    judged = "stressed" if given.stressed else "lifted"
    ways = [judged, *["fullgraph"] * given.fullgraph, *["torch"] * given.torch]
    FORKS.set_forkserver_preload(["tests.cpython.child", "framelift.api"])
    compared: dict[str, dict[str, Comparison]] = {way: {} for way in ways}

    def measure(module: str) -> tuple[str, dict[str, Results]]:
        return module, {way: kept.results_of(module, way, given.match, given.seconds) for way in ["plain", *ways]}

    with ThreadPoolExecutor(given.jobs) as pool:
        for module, results in pool.map(measure, given.modules):
            for way in ways:
                compared[way][module] = Comparison(results["plain"], results[way])
            report(module, compared[judged][module], given.verbose)
    print("why captures ended:", *common_reasons(compared[judged], 20), sep="\n")
    for way in ways:
        print(summary(way, compared[way]))
    wrong = verdict(compared[judged], complete=given.modules == MODULES and not given.match)
    print(*wrong, sep="\n")
    return bool(wrong)


if __name__ == "__main__":
    sys.exit(main())
