"""Programs with tensors of every kind, lifted as one graph and compared with eager.

python -m tests.kinds                       all of them
python -m tests.kinds --only nested/ mode   those whose id contains one of these
python -m tests.kinds --way torch           by torch.compile
python -m tests.kinds --write               write what became of them into `recorded/`, for this way
python -m tests.kinds -v                    name every program that is not whole
"""

from __future__ import annotations

import argparse
import itertools
import sys
from collections import Counter

from tests.kinds import recorded
from tests.kinds.program import all_programs
from tests.kinds.verdict import Verdict, judge, reset
from tests.torch_databases.ways import WAYS


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument(
        "--only", nargs="*", default=[""], metavar="TEXT", help="programs whose id contains one of these"
    )
    parser.add_argument("--way", default="lifted", choices=WAYS)
    parser.add_argument("--write", action="store_true")
    parser.add_argument("-v", "--verbose", action="store_true")
    given = parser.parse_args()
    programs = [program for id, program in all_programs().items() if any(only in id for only in given.only)]
    found: dict[str, Verdict] = {}
    with WAYS[given.way]() as way:
        for program in programs:
            reset()
            verdict = found[program.id] = judge(program, way)
            if verdict.word != "whole" and (given.verbose or verdict.word == "wrong"):
                print(f"{verdict.word:6} {program.id}: {verdict.reason}", flush=True)
    if given.write:
        write(found, given.way)
    total: Counter[str] = Counter()
    for area, group in itertools.groupby(programs, key=lambda program: program.area):
        words = Counter(found[program.id].word for program in group)
        total += words
        print(
            f"{area:24} {words['whole']:3} whole of {words.total():3}, {words['broke']} broke, {words['wrong']} wrong"
        )
    print(f"{'all':24} {total['whole']:3} whole of {total.total():3}, {total['broke']} broke, {total['wrong']} wrong")
    return bool(total["wrong"]) if given.way == "lifted" else 0


def write(found: dict[str, Verdict], way: str) -> None:
    """Write what was found, and keep what is known of the other way and of other programs."""
    known = recorded.read()
    for area, group in itertools.groupby(all_programs().values(), key=lambda program: program.area):
        lines = {}
        for program in group:
            line = known.get(program.id, recorded.Line("?", "?", ""))
            verdict = found.get(program.id)
            if verdict is not None and way == "lifted":
                line = recorded.Line(verdict.word, line.torch, verdict.reason)
            elif verdict is not None:
                line = line._replace(torch=verdict.word)
            lines[program.name] = line
        recorded.write(area, lines)


if __name__ == "__main__":
    sys.exit(main())
