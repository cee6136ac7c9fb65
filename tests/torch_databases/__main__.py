"""`make torch-tests`: torch's own databases of operations and modules, lifted as one graph and compared with eager.

    python -m tests.torch_databases                             operations in float32 (or what they have), and modules
    python -m tests.torch_databases --dtype all --form all      in all dtypes; out=, in-place and as methods, too
    python -m tests.torch_databases --only op_db/nn.functional  the cases whose id contains this
    python -m tests.torch_databases --only istft -v             with the reasons of each
    python -m tests.torch_databases --way torch                 by torch.compile
    python -m tests.torch_databases --write FILE                write the cases that are not whole, with the reasons

A case is an entry of a database in one form and dtype, with all its sample inputs. It is whole if each of them is: one
graph, used by the next call, and equal to eager bit for bit. Batches of cases run in processes of their own.
"""

from __future__ import annotations

import argparse
import multiprocessing
import sys
from collections import Counter
from collections.abc import Iterable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

from tests.torch_databases.child import run_cases
from tests.torch_databases.databases import DTYPES, FORMS, Case, all_cases
from tests.torch_databases.verdict import Verdict
from tests.torch_databases.ways import WAYS

# Processes are forked from one that has imported torch and framelift.
FORKS = multiprocessing.get_context("forkserver")
BATCH = 25
Verdicts = dict[str, Verdict]
NAMES = {str(dtype).removeprefix("torch."): dtype for dtype in DTYPES}


def verdicts_of(ids: list[str], way: str, at_most: int | None, seconds: float) -> Verdicts:
    """What becomes of a batch of cases; processes that die or hang are followed by another one."""
    found: Verdicts = {}
    while ids:
        receiver, sender = FORKS.Pipe(duplex=False)
        process = FORKS.Process(target=run_cases, args=(ids, way, at_most, sender), daemon=True)
        process.start()
        sender.close()
        problem = _follow(receiver, found, seconds)
        process.kill()
        process.join()
        ids = [id for id in ids if id not in found]
        if problem is not None and ids:
            found[ids.pop(0)] = Verdict(wrong=[problem.format(code=process.exitcode)])
    return found


def _follow(receiver: Any, found: Verdicts, seconds: float) -> str | None:
    """Note what a process tells; in words what went wrong if it did not finish."""
    try:
        while receiver.poll(seconds):
            id = receiver.recv()
            if id is None:
                return None
            if not receiver.poll(seconds):
                break
            found[id] = receiver.recv()
        return f"hang: more than {seconds:g} s"
    except EOFError:
        return "crash: exit code {code}"


def chosen_cases(given: argparse.Namespace) -> list[Case]:
    """An operation without the dtype that is asked for is run in the first that it has."""
    dtypes = list(NAMES.values()) if given.dtype == ["all"] else [NAMES[name] for name in given.dtype]
    forms = list(FORMS) if given.form == ["all"] else given.form
    cases = all_cases().values()
    with_dtype = {(case.database, case.name, case.form) for case in cases if case.dtype in dtypes}
    chosen: dict[Any, Case] = {}
    for case in cases:
        entry = (case.database, case.name, case.form)
        if (case.form in FORMS and case.form not in forms) or not any(only in case.id for only in given.only):
            continue
        if case.dtype in dtypes or (dtypes[0] is DTYPES[0] and entry not in with_dtype):
            chosen.setdefault(entry if entry not in with_dtype else case.id, case)
    return list(chosen.values())


def table(cases: Iterable[Case], verdicts: Verdicts) -> list[str]:
    """A row for each database, form and dtype."""
    rows: dict[str, Counter[str]] = {}
    for case in cases:
        verdict = verdicts[case.id]
        form = f" {case.form}" if case.form in FORMS else ""
        row = rows.setdefault(f"{case.database}{form}, {str(case.dtype).removeprefix('torch.')}", Counter())
        row.update([verdict.word])
        row.update(calls=verdict.calls - verdict.refused, whole_calls=verdict.whole)
    lines = ["| database | cases | whole and equal | broke | wrong | calls whole |", "|---|---|---|---|---|---|"]
    for name, row in rows.items():
        ran = row["whole"] + row["broke"] + row["wrong"]
        share = 100 * row["whole"] / max(ran, 1)
        lines.append(
            f"| {name} | {ran} | {row['whole']} ({share:.1f} %) | {row['broke']} | {row['wrong']} "
            f"| {row['whole_calls']} of {row['calls']} |"
        )
    return lines


def reasons(verdicts: Verdicts, shown: int = 40) -> list[str]:
    """Why cases are not whole, the most frequent reasons first, with some of the cases."""
    by_reason: dict[str, list[str]] = {}
    for id, verdict in verdicts.items():
        for reason in verdict.broke:
            by_reason.setdefault(reason, []).append(id)
    ordered = sorted(by_reason.items(), key=lambda entry: -len(entry[1]))
    return [f"{len(ids):5} × {reason}\n        {', '.join(ids[:6])}" for reason, ids in ordered[:shown]]


def not_whole(verdicts: Verdicts) -> list[str]:
    """A line for each case that is not whole: its id, how many calls are not, and the most frequent reason."""
    lines = []
    for id, verdict in verdicts.items():
        if verdict.word in ("wrong", "broke"):
            reason = verdict.wrong[0] if verdict.wrong else verdict.broke.most_common(1)[0][0]
            counted = verdict.calls - verdict.refused
            lines.append(
                f"{id}: {verdict.word}, {counted - verdict.whole} of {counted}: {reason.splitlines()[0][:160]}"
            )
    return lines


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--only", nargs="*", default=[""], metavar="TEXT", help="cases whose id contains one of these")
    parser.add_argument("--dtype", nargs="*", default=["float32"], choices=[*NAMES, "all"])
    parser.add_argument("--form", nargs="*", default=["call"], choices=[*FORMS, "all"], help="of operations")
    parser.add_argument("--way", default="lifted", choices=WAYS)
    parser.add_argument("--calls", type=int, help="at most so many sample inputs of each case")
    parser.add_argument("--seconds", type=float, default=300, help="for one case")
    parser.add_argument("--jobs", type=int, default=1, help="processes at a time")
    parser.add_argument("--write", type=Path, metavar="FILE", help="for the list of cases that are not whole")
    parser.add_argument("-v", "--verbose", action="store_true", help="name every case that is not whole")
    given = parser.parse_args()
    cases = chosen_cases(given)
    FORKS.set_forkserver_preload(["tests.torch_databases.child", "framelift.api"])
    batches = [[case.id for case in cases[start : start + BATCH]] for start in range(0, len(cases), BATCH)]
    verdicts: Verdicts = {}
    with ThreadPoolExecutor(given.jobs) as pool:
        for found in pool.map(lambda ids: verdicts_of(ids, given.way, given.calls, given.seconds), batches):
            verdicts |= found
            for id, verdict in found.items():
                for problem in verdict.wrong[:3]:
                    print(f"WRONG {id}: {problem[:600]}", flush=True)
    print("why cases are not whole:", *reasons(verdicts), sep="\n")
    print(*(not_whole(verdicts) if given.verbose else []), sep="\n")
    print(*table(cases, verdicts), sep="\n")
    words = Counter(verdict.word for verdict in verdicts.values())
    print(f"torch's databases: {len(verdicts)} cases, " + ", ".join(f"{count} {word}" for word, count in words.items()))
    if given.write:
        given.write.write_text("".join(f"{line}\n" for line in not_whole(verdicts)))
    return any(verdict.wrong for verdict in verdicts.values())


if __name__ == "__main__":
    sys.exit(main())
