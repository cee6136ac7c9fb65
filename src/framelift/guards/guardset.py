"""The guards of one capture: facts noted where they were used, and their translation for the native guard tree."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any, NamedTuple

from framelift.guards.source import Source
from framelift.native import _core
from framelift.native.calibrate import tensor_spec


class Location(NamedTuple):
    """The user's line that needed a fact."""

    filename: str
    line: int

    def __str__(self) -> str:
        return f"{self.filename}:{self.line}"


@dataclass(frozen=True, slots=True)
class Guard:
    """One fact about one source: `check` names a CHECK_* constant of the native core."""

    source: Source
    check: str
    argument: Any
    location: Location | None

    @property
    def words(self) -> str:
        return describe_guard(self.check, self.source.name, self.argument)


@dataclass(frozen=True, slots=True)
class Relation:
    """A fact about several sources: `kind` names a REL_* constant."""

    kind: str
    sources: tuple[Source, ...]
    expected: bool = True

    @property
    def words(self) -> str:
        names = [source.name for source in self.sources]
        if self.kind == "SAME":
            return f"{names[0]} is {names[1]}"
        if self.kind == "OVERLAP":
            return f"{names[0]} and {names[1]} {'share' if self.expected else 'do not share'} memory"
        shown = ", ".join(names[:4]) + (f", … ({len(names)} in all)" if len(names) > 4 else "")
        return f"all different objects: {shown}"


def describe_guard(check: str, name: str, argument: Any) -> str:
    """The guard as a Python expression where there is one."""
    return _WORDS[check](name, argument)


def _type_name(cls: type) -> str:
    return cls.__qualname__ if cls.__module__ in ("builtins", "__main__") else f"{cls.__module__}.{cls.__qualname__}"


_WORDS = {
    "TYPE": lambda name, cls: f"type({name}) is {_type_name(cls)}",
    "IS": lambda name, obj: f"{name} is {_short(obj)}",
    "NOT_IS": lambda name, obj: f"{name} is not {_short(obj)}",
    "EQUALS": lambda name, constant: f"{name} == {constant!r}",
    "COMPARE": lambda name, spec: f"({name} {spec[0]} {spec[1]!r}) is {spec[2]}",
    "LENGTH": lambda name, n: f"len({name}) == {n}",
    "DICT_KEYS": lambda name, keys: f"list({name}) == {_shorten(repr(list(keys)))}",
    "KEY_ABSENT": lambda name, key: f"{key!r} not in {name}",
    "SET_EQUALS": lambda name, items: f"{name} == {_shorten(repr(set(items)))}",
    "TYPE_ABSENT": lambda name, attribute: f"{name} has no attribute {attribute!r}",
    "PRESENT": lambda name, _: f"{name} exists",
    "HASATTR": lambda name, attribute: f"hasattr({name}, {attribute!r})",
    "NO_ATTR": lambda name, attribute: f"not hasattr({name}, {attribute!r})",
    "CELL_EMPTY": lambda name, _: f"{name} is an empty cell",
    "TENSOR": lambda name, tensor: f"{name} is a tensor like {_tensor_words(tensor)}",
}


def _tensor_words(tensor: Any) -> str:
    text = f"{str(tensor.dtype).removeprefix('torch.')}{list(tensor.shape)} on {tensor.device}"
    if not tensor.is_contiguous():
        text += f" strides {list(tensor.stride())}"
    return text + (" requiring grad" if tensor.requires_grad else "")


def _short(obj: Any) -> str:
    if obj is None or isinstance(obj, (bool, int, float, str)):
        return repr(obj)
    return getattr(obj, "__qualname__", None) or getattr(obj, "__name__", None) or f"<{type(obj).__name__}>"


def _shorten(text: str, limit: int = 120) -> str:
    return text if len(text) <= limit else text[: limit - 1] + "…"


class GuardSet:
    """Facts in the order they were noted; a fact noted twice is kept once."""

    def __init__(self) -> None:
        self.guards: list[Guard] = []
        self.relations: list[Relation] = []
        self._seen: set[Any] = set()

    def add(self, source: Source, check: str, argument: Any, location: Location | None) -> None:
        key = (source, check, type(argument), _hashable(argument))
        if key not in self._seen:
            self._seen.add(key)
            self.guards.append(Guard(source, check, argument, location))

    def relate(self, kind: str, sources: Iterable[Source], expected: bool = True) -> None:
        relation = Relation(kind, tuple(sources), expected)
        key = (kind, relation.sources, expected)
        if key not in self._seen:
            self._seen.add(key)
            self.relations.append(relation)

    def __len__(self) -> int:
        return len(self.guards) + len(self.relations)

    def build_tree(self, fetched: list[Source], slot_count: int, state: Any) -> Any:
        """The native guard tree: every guard and relation, with `fetched` sources handed to the residual code."""
        nodes: list[tuple[int, int, Any, list[tuple[int, Any]], int]] = []
        names: list[str] = []
        index: dict[Source, int] = {}
        fetch_index = {source: i for i, source in enumerate(fetched)}

        def node_of(source: Source) -> int:
            found = index.get(source)
            if found is not None:
                return found
            parent = node_of(source.parent) if source.parent is not None else -1
            access = _access_number(source.access)
            found = index[source] = len(nodes)
            nodes.append((parent, access, source.argument, [], fetch_index.get(source, -1)))
            names.append(source.name)
            return found

        for guard in self.guards:
            checks = nodes[node_of(guard.source)][3]
            if guard.check != "PRESENT":  # reaching the node is the check
                argument = tensor_spec(guard.argument) if guard.check == "TENSOR" else guard.argument
                checks.append((_check_number(guard.check), argument))
        for source in fetched:
            node_of(source)
        relations = [
            (getattr(_core, f"REL_{relation.kind}"), _relation_argument(relation, node_of))
            for relation in self.relations
        ]
        return _core.GuardTree(nodes, relations, slot_count, len(fetched), state, names=names)


def _relation_argument(relation: Relation, node_of: Any) -> Any:
    nodes = [node_of(source) for source in relation.sources]
    return (nodes[0], nodes[1], relation.expected) if relation.kind == "OVERLAP" else nodes


def _access_number(name: str) -> int:
    return int(getattr(_core, f"ACCESS_{name}"))


def _check_number(name: str) -> int:
    return int(getattr(_core, f"CHECK_{name}"))


def _hashable(argument: Any) -> Any:
    """A key for `argument` that never calls a user's `__hash__` or `__eq__`."""
    if isinstance(argument, (tuple, frozenset)):
        return (type(argument), tuple(map(_hashable, argument)))
    if type(argument) in (int, float, str, bytes, bool, complex):
        return (type(argument), repr(argument))
    return id(argument)
