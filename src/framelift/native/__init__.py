"""The C half of framelift: entries, tables, guard trees, the frame hook."""

from framelift.native import _core
from framelift.native._core import Entry, Lifted, Table, all_tables, never_lift, suspended, table_for, tables_of

__all__ = [
    "Entry",
    "Lifted",
    "Table",
    "_core",
    "all_tables",
    "never_lift",
    "suspended",
    "table_for",
    "tables_of",
]
