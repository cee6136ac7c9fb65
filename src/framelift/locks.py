"""A lock that a forked child can use, whoever held it when the process forked."""

from __future__ import annotations

import os
import threading
import weakref
from types import TracebackType


class Lock:
    """A re-entrant lock. In a child the threads of its parent are gone; what they held is free again.

    >>> with Lock():
    ...     pass
    """

    def __init__(self) -> None:
        self._lock = threading.RLock()
        _LOCKS.append(weakref.ref(self))

    def __enter__(self) -> None:
        self._lock.acquire()

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self._lock.release()

    def renew(self) -> None:
        """Let go of it, unless the thread that is left has it itself."""
        if self._lock.acquire(blocking=False):
            self._lock.release()
        else:
            self._lock = threading.RLock()


# All that exist: a few, which last as long as the process.
_LOCKS: list[weakref.ref[Lock]] = []


def _in_child() -> None:
    for reference in _LOCKS:
        lock = reference()
        if lock is not None:
            lock.renew()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_in_child)
