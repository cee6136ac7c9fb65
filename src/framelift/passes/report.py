"""What the passes did, as plain data: one record per pass that ran."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field
from typing import Any

from rich.table import Table

from framelift.report.text import rendered


@dataclass(slots=True)
class PassRecord:
    """What one pass did to one graph. `rejected` says why candidates were left alone, and how often."""

    index: int
    name: str
    matches: int = 0
    rewrites: int = 0
    rejected: Counter[str] = field(default_factory=Counter)
    nodes_before: int = 0
    nodes_after: int = 0
    seconds: float = 0.0
    error: str = ""  # why the pass was reverted, if it was

    @property
    def reverted(self) -> bool:
        return bool(self.error)

    @property
    def nodes_added(self) -> int:
        return max(self.nodes_after - self.nodes_before, 0)

    @property
    def nodes_removed(self) -> int:
        return max(self.nodes_before - self.nodes_after, 0)

    @property
    def time_us(self) -> int:
        return round(self.seconds * 1e6)

    def line(self) -> str:
        """`03 remove_noop_pass  3 rewrites  -4 nodes  0.8 ms`"""
        done = f"reverted: {self.error}" if self.error else f"{self.rewrites} rewrites"
        nodes = self.nodes_after - self.nodes_before
        return f"{self.index:02d} {self.name}  {done}  {nodes:+d} nodes  {self.seconds * 1e3:.1f} ms"

    def as_dict(self) -> dict[str, Any]:
        names = ("index", "name", "matches", "rewrites", "nodes_removed", "nodes_added", "time_us", "reverted", "error")
        return {name: getattr(self, name) for name in names} | {"rejected": dict(self.rejected)}


@dataclass(slots=True)
class PassReport:
    """The records of one run of the passes, in order."""

    records: list[PassRecord] = field(default_factory=list)

    @property
    def rewrites(self) -> int:
        return sum(record.rewrites for record in self.records)

    @property
    def reverted(self) -> list[str]:
        return [record.name for record in self.records if record.reverted]

    def of(self, name: str) -> list[PassRecord]:
        """The records of the pass with this name (a pass may run twice)."""
        return [record for record in self.records if record.name == name]

    def as_dict(self) -> dict[str, Any]:
        """The report as JSON takes it."""
        return {"rewrites": self.rewrites, "passes": [record.as_dict() for record in self.records]}

    def __rich__(self) -> Table:
        table = Table(title="passes", box=None)
        for name in ("", "pass", "rewrites", "nodes", "ms", "why not (most often)"):
            table.add_column(name, justify="right" if name in ("rewrites", "nodes", "ms") else "left")
        for record in self.records:
            why = record.error and f"reverted: {record.error}"
            why = why or ", ".join(f"{count}× {reason}" for reason, count in record.rejected.most_common(5))
            delta = f"{record.nodes_after - record.nodes_before:+d}"
            table.add_row(
                f"{record.index:02d}", record.name, str(record.rewrites), delta, f"{record.seconds * 1e3:.1f}", why
            )
        return table

    def __str__(self) -> str:
        return rendered(self)
