"""The guards of one capture: facts noted where they were used, and their translation for the native guard tree."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any, NamedTuple, Protocol

from framelift.guards.accessors import ACCESSORS
from framelift.guards.checks import CHECKS
from framelift.guards.relations import Relation
from framelift.guards.source import Source
from framelift.native import _core
from framelift.native.torch.calibrate import tensor_spec
from framelift.native.torch.tensor_spec import TensorSpec
from framelift.report.events import Location
from framelift.shapes.guard_program import GuardProgram

_ACCESS_NUMBERS = {accessor.name: number for number, accessor in ACCESSORS.items()}
_CHECK_NUMBERS = {check.name: number for number, check in CHECKS.items()}

# A node of the tree: parent, accessor, its argument, checks, index among the fetched objects.
Node = tuple[int, int, Any, list[tuple[int, Any]], int]


# Says where a fact was noted, when somebody asks: most guards are never shown.
Where = Callable[[], Location | None]


class Placed(Protocol):
    """Something that stands at a line of the user's."""

    def place(self) -> Where: ...


class Guard(NamedTuple):
    """One fact about one source: `check` names one of `framelift.guards.checks`, or PRESENT: it can be reached."""

    source: Source
    check: str
    argument: Any
    where: Where

    @property
    def location(self) -> Location | None:
        return self.where()

    @property
    def words(self) -> str:
        if self.check == "PRESENT":
            return f"{self.source.name} exists"
        return CHECKS[_CHECK_NUMBERS[self.check]].words(self.source.name, self.native_argument)

    @property
    def native_argument(self) -> Any:
        if self.check == "TENSOR" and type(self.argument) is not TensorSpec:
            return tensor_spec(self.argument)
        return self.argument

    def __str__(self) -> str:
        return self.words


_new = tuple.__new__


def _nowhere() -> None:
    return None


class GuardSet:
    """Facts in the order they were noted; a fact noted twice is kept once."""

    def __init__(self) -> None:
        self.guards: list[Guard] = []
        self.relations: list[Relation] = []
        self._seen: set[Any] = set()

    def add(self, source: Source, check: str, argument: Any, at: Placed | None) -> None:
        # By identity of the argument (the guard keeps it alive): hashing it could run a user's code.
        key = (source, check, id(argument))
        if key not in self._seen:
            self._seen.add(key)
            # Without the constructor that named tuples have, in Python: there are thousands.
            self.guards.append(_new(Guard, (source, check, argument, _nowhere if at is None else at.place())))

    def relate(self, kind: str, sources: Iterable[Source], expected: bool = True) -> None:
        self._relate(Relation(kind, tuple(sources), expected))

    def relate_groups(self, kind: str, written: list[Source], others: list[Source]) -> None:
        """A relation between those and the others."""
        self._relate(Relation(kind, (*written, *others), written=len(written)))

    def relate_numbers(self, sources: Iterable[Source], program: GuardProgram) -> None:
        """Facts about the numbers in sources."""
        self._relate(Relation("PROGRAM", tuple(sources), program=program))

    def _relate(self, relation: Relation) -> None:
        key = (relation.kind, relation.sources, relation.expected, relation.program)
        if key not in self._seen:
            self._seen.add(key)
            self.relations.append(relation)

    def __len__(self) -> int:
        return len(self.guards) + len(self.relations)

    def build_tree(self, fetched: list[Source], slot_count: int, state: Any) -> Any:
        """The native guard tree: every guard and relation, with `fetched` sources handed to the residual code."""
        tree = _TreeBuilder(fetched)
        decided = {guard.source for guard in self.guards if guard.check == "EQUALS"}  # the type, too
        for guard in self.guards:
            checks = tree.nodes[tree.node(guard.source)][3]
            implied = guard.check == "PRESENT" or (guard.check == "TYPE" and guard.source in decided)
            if not implied:  # PRESENT: reaching the node is the check
                checks.append((_CHECK_NUMBERS[guard.check], guard.native_argument))
        for source in fetched:
            tree.node(source)
        relations = [(getattr(_core, f"REL_{r.kind}"), tree.relation_argument(r)) for r in self.relations]
        return _core.GuardTree(tree.nodes, relations, slot_count, len(fetched), state, names=tree.names)


class _TreeBuilder:
    """Lays sources out as nodes, parents before children."""

    def __init__(self, fetched: list[Source]) -> None:
        self.nodes: list[Node] = []
        self.names: list[str] = []
        self._index: dict[Source, int] = {}
        self._fetched = {source: i for i, source in enumerate(fetched)}

    def node(self, source: Source) -> int:
        found = self._index.get(source)
        if found is None:
            parent = -1 if source.parent is None else self.node(source.parent)
            found = self._index[source] = len(self.nodes)
            access = _ACCESS_NUMBERS[source.access]
            self.nodes.append((parent, access, source.argument, [], self._fetched.get(source, -1)))
            self.names.append(source.name)
        return found

    def relation_argument(self, relation: Relation) -> Any:
        nodes = [self.node(source) for source in relation.sources]
        if relation.kind == "OVERLAP":
            return nodes[0], nodes[1], relation.expected
        if relation.kind == "DISJOINT":
            return nodes[: relation.written], nodes[relation.written :]
        if relation.kind == "PROGRAM":
            return nodes, relation.program
        return nodes
