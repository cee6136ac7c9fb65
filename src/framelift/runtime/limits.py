"""How many entries a function may have."""

from __future__ import annotations

from typing import Any

from framelift import config
from framelift.options import Options
from framelift.runtime.histories import Known


def reached_limit(table: Any, known: Known, options: Options) -> str | None:
    """Which limit forbids another entry, in words; None also where room can be made for it."""
    if known.captures >= config.total_recompile_limit:
        return f"was captured {known.captures} times, which is config.total_recompile_limit"
    entries, limit = known.entries(table), _limit(options)
    if len(entries) < limit or (config.evict_entries and entries):
        return None
    named = "config.recompile_limit" if options.recompile_limit is None else "its recompile_limit"
    return f"has {len(entries)} entries, which is {named}"


def make_room(table: Any, known: Known, options: Options) -> None:
    """Drop entries for one that is captured already: had its capture failed, the older ones would still be needed."""
    if config.evict_entries:
        for entry in known.entries(table)[max(_limit(options) - 1, 0) :]:  # least recently used last
            table.remove(entry)


def _limit(options: Options) -> int:
    return config.recompile_limit if options.recompile_limit is None else options.recompile_limit
