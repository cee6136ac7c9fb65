"""What framelift raises and warns, and the words of a message about bad input.

Every error a user can cause is one line that names what was given, what is allowed, and the nearest match:

    >>> print(unknown("backend", "eagr", ["eager", "inductor"]))
    unknown backend 'eagr': did you mean 'eager'? Allowed: 'eager', 'inductor'
"""

from __future__ import annotations

import difflib
import sys
import warnings
from collections.abc import Iterable


class FrameliftError(Exception):
    """Base of what framelift itself raises (bad arguments raise plain TypeError and ValueError)."""


class BackendError(FrameliftError):
    """A backend raised, returned what cannot be called, or compiled a graph that raises where Python does not.

    `backend` is its name, `location` the user's line ("file.py:12") at which the graph it was given ends.
    """

    def __init__(self, backend: str, location: str, what: str) -> None:
        self.backend = backend
        self.location = location
        self.what = what
        super().__init__(f"backend {backend!r} {what} (graph of {location})")

    def __reduce__(self) -> tuple[type[BackendError], tuple[str, str, str]]:
        return type(self), (self.backend, self.location, self.what)


class FullGraphError(FrameliftError):
    """`fullgraph=True` was asked for, and the function was not captured as one graph, or Python would run a call."""


class DynamicError(FrameliftError):
    """A size that was marked dynamic turned out to have one value only, or to be out of its bounds; the message says
    where."""


class RecompileError(FrameliftError):
    """A call had no entry while the stance was "fail_on_recompile"; the message says why each entry did not fit."""


class InternalError(FrameliftError):
    """A fault of framelift itself, raised only in strict mode; otherwise the frame runs in Python with one warning.

    `id` is the stable id of the failure, the original exception is the `__cause__`.
    """

    def __init__(self, id: str, message: str) -> None:
        self.id = id
        self.message = message
        super().__init__(f"[{id}] {message}")

    def __reduce__(self) -> tuple[type[InternalError], tuple[str, str]]:
        return type(self), (self.id, self.message)


class FrameliftWarning(UserWarning):
    """Something the user should know once: an internal failure that was run in Python, a limit that was reached."""


def warn_user(text: str) -> None:
    """Warn at the line of the program that framelift was called from."""
    level, frame = 1, sys._getframe()
    while frame.f_back is not None and frame.f_code.co_filename.startswith(_OWN):
        level, frame = level + 1, frame.f_back
    warnings.warn(text, FrameliftWarning, stacklevel=level)


_OWN = __file__.removesuffix("errors.py")


def nearest(given: object, allowed: Iterable[str]) -> str | None:
    """The allowed word closest to what was given, if one is close enough to be a likely slip."""
    if not isinstance(given, str):
        return None
    by_folded = {word.casefold().replace("-", "_"): word for word in allowed}
    matches = difflib.get_close_matches(given.casefold().replace("-", "_"), by_folded, n=1, cutoff=0.5)
    return by_folded[matches[0]] if matches else None


def unknown(kind: str, given: object, allowed: Iterable[str], shown: int = 8) -> str:
    """One line for a name that is not known: what was given, the nearest match, what is allowed."""
    words = list(allowed)
    match = nearest(given, words)
    hint = f": did you mean {match!r}?" if match is not None else "."
    listed = ", ".join(repr(word) for word in words[:shown])
    rest = f" and {len(words) - shown} more" if len(words) > shown else ""
    return f"unknown {kind} {short(given)}{hint} Allowed: {listed}{rest}"


def short(value: object, limit: int = 80) -> str:
    """`repr` on one line and bounded, for error messages."""
    text = " ".join(repr(value).split())
    return text if len(text) <= limit else text[: limit - 3] + "..."
