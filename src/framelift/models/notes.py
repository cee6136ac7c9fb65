"""The model of `BaseException.add_note`."""

from __future__ import annotations

from typing import Any

from framelift.models.registry import models


@models(BaseException.add_note)
def add_note(error: Any, note: Any, /) -> None:
    if not isinstance(note, str):
        raise TypeError(f"note must be a str, not '{type(note).__name__}'")
    if not hasattr(error, "__notes__"):
        error.__notes__ = []
    if not isinstance(error.__notes__, list):
        raise TypeError("Cannot add note: __notes__ is not a list")
    error.__notes__.append(note)
