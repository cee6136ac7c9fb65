"""What a dict gives out that stays bound to it: its views, and iterators over them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Protocol

from framelift.breaks import FL0107, GraphBreak
from framelift.values.containers.iterators import IteratorValue, advance, reduced
from framelift.values.containers.sets import as_set, set_of_items
from framelift.values.core import protocol as py
from framelift.values.core.base import Exhausted, Value
from framelift.values.core.construct import make_list, make_tuple
from framelift.values.core.hash_keys import from_key
from framelift.values.core.methods import method, method_of
from framelift.values.core.stand_ins import raise_no_attribute

if TYPE_CHECKING:
    from framelift.values.core.emitter import Emitter
    from framelift.values.core.tracer import Tracer


class ViewedDict(Protocol):
    """The dict that a view shows, and that an iterator goes over."""

    @property
    def structure(self) -> Any: ...

    @property
    def looks_ahead(self) -> bool: ...

    def entries(self, tracer: Tracer) -> dict[Any, Any]: ...

    def length(self, tracer: Tracer) -> Any: ...

    def truth(self, tracer: Tracer) -> bool: ...

    def contains(self, tracer: Tracer, item: Any) -> Any: ...

    def changed_during_iteration(self, size_changed: bool) -> None: ...

    def emit_call(self, emit: Emitter, method: str) -> None: ...


class DictView(Value):
    """`d.keys()`, `d.values()`, `d.items()`: live views."""

    __slots__ = ("owner", "part")
    is_read_by_items = True

    def __init__(self, owner: ViewedDict, part: str) -> None:
        super().__init__()
        self.owner = owner
        self.part = part

    def python_type(self) -> type:
        return type(getattr({}, self.part)())

    def listed(self, tracer: Tracer) -> list[Any]:
        return [_pick(tracer, self.part, key, value) for key, value in self.owner.entries(tracer).items()]

    def length(self, tracer: Tracer) -> Any:
        return self.owner.length(tracer)

    def truth(self, tracer: Tracer) -> bool:
        return self.owner.truth(tracer)

    def iterate(self, tracer: Tracer) -> Any:
        return DictIterator(self.owner, self.part, tracer)

    def contains(self, tracer: Tracer, item: Any) -> Any:
        if self.part == "keys":
            return self.owner.contains(tracer, item)
        return any(py.equal(tracer, member, item) for member in self.listed(tracer))

    def attribute(self, tracer: Tracer, name: str) -> Any:
        return method_of(self, tracer, name)

    def text(self, tracer: Tracer, conversion: str) -> str:
        return f"dict_{self.part}([{', '.join(tracer.text(item, 'repr') for item in self.listed(tracer))}])"

    def compare(self, tracer: Tracer, operator: str, other: Any) -> Any:
        if self.part == "items" and isinstance(other, DictView) and other.part == "items":
            return self._compare_items(tracer, operator, other)
        return as_set(tracer, self).compare(tracer, operator, other) if self.part != "values" else NotImplemented

    def _compare_items(self, tracer: Tracer, operator: str, other: DictView) -> bool:
        """As sets, but values are looked up and compared: they may have no hash."""
        mine, theirs = self.owner.entries(tracer), other.owner.entries(tracer)
        smaller, larger = (theirs, mine) if operator in (">", ">=") else (mine, theirs)
        sizes_fit = py.COMPARE[operator if operator != "!=" else "=="](len(mine), len(theirs))
        pairs = list(smaller.items())  # a comparison may change the dicts
        equal = sizes_fit and all(key in larger and py.equal(tracer, larger[key], value) for key, value in pairs)
        return equal != (operator == "!=")

    def binary(self, tracer: Tracer, operator: str, other: Any) -> Any:
        if self.part == "values" or operator not in ("&", "|", "-", "^"):
            return NotImplemented
        return as_set(tracer, self).binary(tracer, operator, as_set(tracer, other))

    def reflected(self, tracer: Tracer, operator: str, other: Any) -> Any:
        if self.part == "values" or operator not in ("&", "|", "-", "^"):
            return NotImplemented
        return set_of_items(tracer, other).binary(tracer, operator, as_set(tracer, self))

    @method
    def isdisjoint(self, tracer: Tracer, other: Any, /) -> Any:
        if self.part == "values":
            raise_no_attribute(type({}.values()), "isdisjoint")
        return as_set(tracer, self).isdisjoint(tracer, other)

    def parts(self) -> list[Any]:
        return [self.owner]

    def rebuild(self, emit: Emitter) -> None:
        self.owner.emit_call(emit, self.part)


class DictIterator(IteratorValue):
    """Iterates a dict and notices a change of its size."""

    __slots__ = ("owner", "part", "keys", "position", "structure", "backwards")
    assigns = ("owner", "position")

    def __init__(self, owner: ViewedDict, part: str, tracer: Tracer, backwards: bool = False) -> None:
        super().__init__()
        self.owner: ViewedDict | None = owner
        self.part = part
        self.keys = list(owner.entries(tracer))
        self.backwards = backwards
        if backwards:
            self.keys.reverse()
        self.structure = owner.structure
        self.position = 0
        self._look_ahead()

    def python_type(self) -> type:
        return type(iter(getattr({}, self.part)()))

    def next(self, tracer: Tracer) -> Any:
        owner = self.owner
        if owner is None:
            raise Exhausted
        entries = owner.entries(tracer)
        tracer.journal.touch(self)
        if owner.structure != self.structure:
            if owner.looks_ahead:
                self.owner = None  # it fails once
            owner.changed_during_iteration(len(entries) != len(self.keys))
        if self.position >= len(self.keys):
            self.owner = None
            raise Exhausted
        key = self.keys[self.position]
        self.position += 1
        self._look_ahead()
        return _pick(tracer, self.part, key, entries[key])

    def _look_ahead(self) -> None:
        if self.owner is not None and self.owner.looks_ahead and self.position == len(self.keys):
            self.owner = None

    @method
    def __reduce__(self, tracer: Tracer) -> Any:  # type: ignore[override]  # noqa: PLE0302  (a model)
        return reduced(tracer, iter, [make_list(self.to_come(tracer))])

    def parts(self) -> list[Any]:
        return [] if self.owner is None else [self.owner]

    def rebuild(self, emit: Emitter) -> None:
        if self.owner is None:
            emit.build_map(0)
            emit.call_method(self.part, [])
            emit.get_iter()
            return
        if self.owner.structure != self.structure:
            raise GraphBreak(FL0107, what="an iterator over a dict that has changed")
        emit.callable(advance)
        if self.backwards:
            emit.callable(reversed)
            self.owner.emit_call(emit, self.part)
            emit.call(1)
        else:
            self.owner.emit_call(emit, self.part)
            emit.get_iter()
        emit.constant(self.position)
        emit.call(2)


def _pick(tracer: Tracer, part: str, key: Any, value: Any) -> Any:
    if part == "keys":
        return from_key(key)
    if part == "values":
        return value
    return make_tuple((from_key(key), value))
