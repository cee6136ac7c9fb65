"""One test module in this process: what becomes of each of its methods, told as it happens."""

from __future__ import annotations

import faulthandler
import gc
import os
import re
import sys
import unittest
from multiprocessing.connection import Connection
from typing import Any

from tests.cpython.suite import methods
from tests.cpython.ways import WAYS, arrange

_ADDRESS = re.compile(r"0x[0-9a-fA-F]+")
# Some methods are skipped because something took no longer than so many seconds.
_MEASURED = re.compile(r"\d+\.\d+(?= seconds)")


class Outcome(unittest.TestResult):
    """What became of one method, in words that are the same from run to run."""

    def __init__(self) -> None:
        super().__init__()
        self.words: list[str] = []

    def _note(self, kind: str, error: Any) -> None:
        text = f"{kind} {error[0].__module__}.{error[0].__qualname__}: {error[1]}"
        self.words.append(_ADDRESS.sub("0x...", text)[:2000])

    def addError(self, test: Any, err: Any) -> None:  # noqa: N802  (unittest's name)
        self._note("error", err)

    def addFailure(self, test: Any, err: Any) -> None:  # noqa: N802
        self._note("failure", err)

    def addSubTest(self, test: Any, subtest: Any, err: Any) -> None:  # noqa: N802
        if err is not None:
            self._note(f"subtest {subtest._subDescription()}", err)

    def addSkip(self, test: Any, reason: str) -> None:  # noqa: N802
        self.words.append(_MEASURED.sub("...", f"skipped {reason}"))

    def addExpectedFailure(self, test: Any, err: Any) -> None:  # noqa: N802
        self._note("expected failure", err)

    def addUnexpectedSuccess(self, test: Any) -> None:  # noqa: N802
        self.words.append("unexpected success")


def run_module(module: str, way_name: str, start: int, match: str, pipe: Connection) -> None:
    """Run the methods of a module from number `start` on; before each its name is sent, after it what happened."""
    faulthandler.enable()
    gc.freeze()  # what is loaded by now is not garbage: collections that tests ask for take no longer than usual
    sys.stdout = open(os.devnull, "w")  # noqa: SIM115  (for the rest of the process)
    way = WAYS[way_name]()
    for number, case in enumerate(methods(module)):
        if number < start or match not in case.id():
            continue
        pipe.send({"number": number, "test": case.id()})
        outcome = Outcome()
        arrange(case, way)
        unittest.TestSuite([case]).run(outcome)  # type: ignore[arg-type]
        pipe.send({"outcome": outcome.words or ["ok"], **way.account()})
    pipe.send(None)
    os._exit(0)  # what tests left behind (threads, atexit) is not waited for
