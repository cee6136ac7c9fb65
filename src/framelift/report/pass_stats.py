"""What the passes did in this process, by pass, kept from the event stream."""

from __future__ import annotations

import threading
from collections import Counter
from typing import Any

from framelift.report import stream
from framelift.report.events import PassRan, PassReverted


class PassStats:
    """Listens to the stream and adds up."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._by_pass: dict[str, Counter[str]] = {}
        self._rejected: dict[str, Counter[str]] = {}

    def __call__(self, event: PassRan | PassReverted) -> None:
        with self._lock:
            counts = self._by_pass.setdefault(event.name, Counter())
            if isinstance(event, PassReverted):
                counts["reverted"] += 1
                return
            change = event.nodes_after - event.nodes_before
            counts["runs"] += 1
            counts["matches"] += event.matches
            counts["rewrites"] += event.rewrites
            counts["nodes_added"] += max(change, 0)
            counts["nodes_removed"] += max(-change, 0)
            counts["time_us"] += round(event.seconds * 1e6)
            if event.rejected:
                self._rejected.setdefault(event.name, Counter()).update(event.rejected)

    def reset(self) -> None:
        with self._lock:
            self._by_pass = {}
            self._rejected = {}

    def as_dict(self) -> dict[str, dict[str, Any]]:
        names = ("runs", "matches", "rewrites", "nodes_removed", "nodes_added", "time_us", "reverted")
        with self._lock:
            return {
                name: {**{each: counts[each] for each in names}, "rejected": dict(self._rejected.get(name, {}))}
                for name, counts in self._by_pass.items()
            }


# The process's own, listening from the first import on.
PASS_STATS = PassStats()
stream.subscribe(PASS_STATS, PassRan, PassReverted)
