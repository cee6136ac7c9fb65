"""What small functions give or raise, as a list: for programs that try many calls."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any


def outcomes(*functions: Callable[[], Any]) -> list[Any]:
    """The result of each call, or the type and the text of what it raises."""
    found = []
    for function in functions:
        try:
            found.append(function())
        except Exception as error:  # noqa: BLE001  (which one is what the tests compare)
            found.append((type(error).__name__, str(error)))
    return found
