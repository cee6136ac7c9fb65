"""Which of CPython's test modules are run, and which differences are allowed."""

from __future__ import annotations

import pathlib
import unittest
from collections.abc import Iterator

MODULES = """
    dict list tuple set iter generators exceptions contextlib dataclasses enum functools itertools collections operator
    math string fstring format int float slice range sort unpack patma descr class super decorators scope with copy
    heapq bisect deque defaultdict ordered_dict
""".split()

ALLOWED = pathlib.Path(__file__).with_name("allowed_differences.txt")
# Of all methods that run: so many may differ.
ALLOWED_SHARE = 0.005


def allowed_differences() -> dict[str, str]:
    """`{test: reason}`; in the file, a reason is a comment line and holds for the tests below it."""
    found: dict[str, str] = {}
    reason = ""
    for line in ALLOWED.read_text().splitlines():
        if line.startswith("#"):
            reason = line.lstrip("# ")
        elif line.strip():
            found[line.strip()] = reason
    return found


def methods(module: str) -> list[unittest.TestCase]:
    """The test methods of `test.test_<module>`, in their order."""
    loaded = unittest.defaultTestLoader.loadTestsFromName(f"test.test_{module}")
    return [case for case in _flat(loaded) if hasattr(type(case), case._testMethodName)]


def _flat(suite: unittest.TestSuite) -> Iterator[unittest.TestCase]:
    for test in suite:
        if isinstance(test, unittest.TestSuite):
            yield from _flat(test)
        elif isinstance(test, unittest.TestCase):
            yield test
