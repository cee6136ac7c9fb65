"""The model of `re.sub` with a function."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any


def substituted(pattern: re.Pattern[Any], repl: Callable[..., Any], string: Any, count: int = 0) -> tuple[Any, int]:
    """`pattern.subn(repl, string, count)` for a function `repl`."""
    parts = []
    position = done = 0
    for match in pattern.finditer(string):
        if count and done == count:
            break
        parts.append(string[position : match.start()])
        text = repl(match)
        if text is not None:
            parts.append(text)
        position = match.end()
        done += 1
    parts.append(string[position:])
    return string[:0].join(parts), done
