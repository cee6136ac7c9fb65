"""How often each entry was used, and how often the checks of its graph failed: to be captured is no success yet."""

from __future__ import annotations

from collections.abc import Iterator

from framelift.native import _core
from framelift.options import Options
from framelift.report.text import EntryUse, short_path
from framelift.residual.failures import GraphJudge
from framelift.runtime.entry_keys import WeakOptions


def entry_uses(options: Options | None = None) -> Iterator[EntryUse]:
    """The entries there are, or those for some options. Entries that were dropped are gone."""
    key = None if options is None else WeakOptions(options).key
    for table in _core.all_tables():
        if key is not None and table.key != key:
            continue
        for entry in table.entries:
            code = entry.residual.__code__
            failed = sum(const.failed_checks for const in code.co_consts if type(const) is GraphJudge)
            place = f"{short_path(code.co_filename)}:{code.co_firstlineno}"
            yield EntryUse(f"{entry.label.name} ({place})", entry.hits - failed, failed)
