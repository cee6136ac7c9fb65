"""What failed checks teach: how the next capture of a function deals with what depends on data.

A graph whose check fails was run for nothing: Python does the work, and the entry is dropped. The next capture knows:

    failures   the graph
    0          presumes what is so in the call that is captured, and that other sizes are neither 0 nor 1
    1, 2       presumes only what makes a difference, as it is in the call that is captured
    3          presumes nothing: it breaks where it would have to
    4          breaks where data decides

So a function is captured at most four times for what it presumes, and stays what it became.

    >>> lessons = Lessons()
    >>> for count in range(4):
    ...     lessons.learn("u0 == 5")
    >>> lessons.takes_data, lessons.reason
    (False, 'u0 == 5')
"""

from __future__ import annotations

from framelift.shapes.unbacked import LEAST_SIZE

_GENERALISES, _SETTLES, _GIVES_UP = 1, 3, 4
_MOST_FORESEEN = 4


class Lessons:
    """What the checks of one function have shown so far."""

    def __init__(self) -> None:
        self.failures = 0
        # What did not hold the last time.
        self.reason: str | None = None
        self._is_rejected = False
        self._foreseen = 0

    def foresee(self) -> None:
        """A call was not captured because it is going to raise."""
        self._foreseen += 1

    @property
    def foresees(self) -> bool:
        """Whether to leave such calls to Python: to trace them again and again would cost too much."""
        return self._foreseen < _MOST_FORESEEN

    def learn(self, reason: str) -> None:
        """A check failed."""
        self.failures += 1
        self.reason = reason

    def withdraw(self) -> None:
        """No backend compiles it, or nothing could check it."""
        self._is_rejected = True

    @property
    def takes_data(self) -> bool:
        """Whether what depends on data is left to the graph."""
        return not self._is_rejected and self.failures < _GIVES_UP

    @property
    def least_sizes(self) -> tuple[int, ...]:
        """What sizes are presumed to be at least, if they are."""
        return (LEAST_SIZE,) if self.failures < _GENERALISES else ()

    @property
    def may_presume(self) -> bool:
        """Whether anything is presumed that the program does not say."""
        return self.failures < _SETTLES
