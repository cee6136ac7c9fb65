"""Whether what is presumed about data comes true often enough to go on presuming.

A graph whose check fails was run for nothing: Python does the work. A function for which that happens again and again
is captured anew, with graph breaks where data decides. Entries that presume something guard the trust in it.

    >>> trust = Trust()
    >>> for call in range(4):
    ...     trust.disappoint(call)
    >>> trust.is_given
    False
"""

from __future__ import annotations

# So many failed checks are no accident, if there is one in so many calls.
_FAILURES = 4
_ONE_IN = 8


class Trust:
    """What the checks of one function have shown so far."""

    def __init__(self) -> None:
        self.is_given = True
        self._failures = 0
        self._first = 0

    def withdraw(self) -> None:
        """Presume nothing about this function any more."""
        self.is_given = False

    def disappoint(self, call: int) -> None:
        """A check failed, in the so-manieth call of lifted functions."""
        if self._failures == 0:
            self._first = call
        self._failures += 1
        if self._failures >= _FAILURES and (call - self._first) <= _ONE_IN * self._failures:
            self.withdraw()
