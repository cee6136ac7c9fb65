"""How many entries a function may have."""

from __future__ import annotations

from typing import Any

from framelift import config
from framelift.options import Options
from framelift.runtime.histories import Known


def reached_limit(table: Any, known: Known, options: Options) -> str | None:
    """Which limit forbids another entry, in words. Makes room for it, if entries may be dropped."""
    if known.captures >= config.total_recompile_limit:
        return f"was captured {known.captures} times, which is config.total_recompile_limit"
    limit = config.recompile_limit if options.recompile_limit is None else options.recompile_limit
    entries = known.entries(table)
    if len(entries) < limit:
        return None
    if not config.evict_entries or not entries:
        named = "config.recompile_limit" if options.recompile_limit is None else "its recompile_limit"
        return f"has {len(entries)} entries, which is {named}"
    for entry in entries[max(limit - 1, 0) :]:  # least recently used last
        table.remove(entry)
    return None
