"""`transcript(fn, calls)`: which calls were captured and why, as one line."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

import framelift
from framelift.report.events import RanEagerly, Recompiled
from tests.helpers.record import Record


def transcript(fn: Callable[..., Any], calls: Iterable[tuple[Any, ...]], **options: Any) -> str:
    """Call the lifted function with each tuple of arguments: "miss hit hit miss(x.size()[0] 3->4)".

    A first capture is a `miss`; a later one gives in brackets the guard of the most recent entry that failed; a call
    that ran the original code is `eager`. A function that is lifted already is called as it is.
    """
    lifted = framelift.compile(fn, **{"backend": "eager", **options})
    words = []
    for args in calls:
        record = Record()
        with record.listening():
            lifted(*args)
        words.append(_word(record))
    return " ".join(words)


def _word(record: Record) -> str:
    if record.of(RanEagerly):
        return "eager"
    if not record.captures:
        return "hit"
    reasons = [reason for event in record.of(Recompiled) for reason in event.reasons[:1]]
    return f"miss({'; '.join(reasons)})" if reasons else "miss"
