"""Building guard trees by hand, and the question every guard is asked: does it see the change?"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import framelift.guards.reference  # noqa: F401  (gives trees their words and their strict mode)
from framelift.native import core


def function() -> None:
    """The function of checks that do not look at it."""


class Nodes:
    """A specification under construction; checks are given as `TYPE=int, LENGTH=3`."""

    def __init__(self) -> None:
        self.nodes: list[Any] = []
        self.names: list[str] = []
        self.relations: list[Any] = []
        self.fetched = 0

    def add(
        self, parent: int, access: str, argument: Any = None, *, name: str = "", out: bool = False, **checks: Any
    ) -> int:
        kinds = [(getattr(core, f"CHECK_{kind}"), value) for kind, value in checks.items()]
        self.nodes.append((parent, getattr(core, f"ACCESS_{access}"), argument, kinds, self.fetched if out else -1))
        self.names.append(name or f"n{len(self.nodes) - 1}")
        self.fetched += out
        return len(self.nodes) - 1

    def arg(self, index: int = 0, name: str = "x", **options: Any) -> int:
        return self.add(-1, "ARG", index, name=name, **options)

    def relate(self, kind: str, *members: Any) -> None:
        self.relations.append((getattr(core, f"REL_{kind}"), list(members)))

    def tree(self, slots: int = 1, state: Any = None) -> Any:
        return core.GuardTree(self.nodes, self.relations, slots, self.fetched, state, names=self.names)


def hits(tree: Any, *slots: Any, by: Any = function) -> bool:
    """Whether the guards hold, by the native check and by the reference, which must agree."""
    return tree.check_strict(slots, by) is not None


def words(tree: Any, *slots: Any, by: Any = function) -> str | None:
    explained = tree.explain(slots, by)
    return None if explained is None else explained[2]


def sees(
    tree: Any,
    slots: tuple[Any, ...],
    change: Callable[[], Any],
    expected: str,
    restore: Callable[[], Any] | None = None,
    by: Any = function,
) -> None:
    """The tree holds, also when asked again (by its memos); not after the change, for that reason; and again after."""
    for _ in range(3):
        assert hits(tree, *slots, by=by), words(tree, *slots, by=by)
    change()
    assert not hits(tree, *slots, by=by)
    assert not hits(tree, *slots, by=by)
    assert words(tree, *slots, by=by) == expected
    if restore is not None:
        restore()
        for _ in range(3):
            assert hits(tree, *slots, by=by), words(tree, *slots, by=by)
        change()
        assert not hits(tree, *slots, by=by)
        restore()
        assert hits(tree, *slots, by=by)
