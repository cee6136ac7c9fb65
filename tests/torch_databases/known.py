"""The cases that are known not to be one graph: `not_whole.txt`, as `--write` wrote it."""

from __future__ import annotations

import pathlib

NOT_WHOLE = pathlib.Path(__file__).with_name("not_whole.txt")


def not_whole() -> set[str]:
    """Their ids."""
    return {line.partition(": ")[0] for line in NOT_WHOLE.read_text().splitlines()}
