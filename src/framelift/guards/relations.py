"""Relations: facts about several inputs together."""

from __future__ import annotations

from dataclasses import dataclass

from framelift.guards.source import Source
from framelift.native import core
from framelift.shapes.guard_program import GuardProgram


@dataclass(frozen=True, slots=True)
class Relation:
    """A fact about several sources: `kind` names a REL_* constant of the native core."""

    kind: str
    sources: tuple[Source, ...]
    expected: bool = True
    # DISJOINT: how many of the sources, from the first, are the ones that are written to.
    written: int = 0
    # PROGRAM: the facts about the numbers in the sources.
    program: GuardProgram | None = None

    @property
    def words(self) -> str:
        if self.program is not None:
            return "; ".join(self.program.words)
        names = [source.name for source in self.sources]
        if self.kind == "DISJOINT":
            return f"no other input shares memory with {_listed(names[: self.written])}"
        if self.kind == "SAME":
            return f"{names[0]} is {names[1]}"
        if self.kind == "OVERLAP":
            return f"{names[0]} and {names[1]} {'share' if self.expected else 'do not share'} memory"
        return f"all different objects: {_listed(names)}"

    def __str__(self) -> str:
        return self.words


def _listed(names: list[str]) -> str:
    return ", ".join(names[:4]) + (f", … ({len(names)} in all)" if len(names) > 4 else "")


def relation_change(kind: int, names: tuple[str, ...], expected: bool = True) -> str:
    """A relation that holds no more."""
    if kind == core.REL_SAME:
        return f"{names[0]} was {names[1]}, now it is another object"
    if kind == core.REL_OVERLAP:
        return f"{names[0]} and {names[1]} {'shared memory, now they do not' if expected else 'now share memory'}"
    text = f"two of {', '.join(names[:8])}{', …' if len(names) > 8 else ''}"
    return f"{text} {'are now the same object' if kind == core.REL_DISTINCT else 'now share memory'}"
