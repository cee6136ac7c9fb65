"""What a dict gives out that stays bound to it: its views, and iterators over them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from framelift.breaks import FL0107, GraphBreak
from framelift.values.containers.iterators import IteratorValue, advance, reduced
from framelift.values.core import protocol as py
from framelift.values.core.base import Exhausted, Value
from framelift.values.core.exceptions import raise_error
from framelift.values.core.hash_keys import from_key
from framelift.values.core.methods import method, method_of

if TYPE_CHECKING:
    from framelift.capture.lift import Lift
    from framelift.residual.generator import Generator
    from framelift.values.containers.dicts import DictValue


class DictView(Value):
    """`d.keys()`, `d.values()`, `d.items()`: live views."""

    __slots__ = ("owner", "part")
    is_read_by_items = True

    def __init__(self, owner: DictValue, part: str) -> None:
        super().__init__()
        self.owner = owner
        self.part = part

    def python_type(self) -> type:
        return type(getattr({}, self.part)())

    def listed(self, lift: Lift) -> list[Any]:
        return [_pick(lift, self.part, key, value) for key, value in self.owner.entries(lift).items()]

    def length(self, lift: Lift) -> Any:
        return self.owner.length(lift)

    def truth(self, lift: Lift) -> bool:
        return self.owner.truth(lift)

    def iterate(self, lift: Lift) -> Any:
        return DictIterator(self.owner, self.part, lift)

    def contains(self, lift: Lift, item: Any) -> Any:
        if self.part == "keys":
            return self.owner.contains(lift, item)
        return any(py.equal(lift, member, item) for member in self.listed(lift))

    def attribute(self, lift: Lift, name: str) -> Any:
        return method_of(self, lift, name)

    def text(self, lift: Lift, conversion: str) -> str:
        return f"dict_{self.part}([{', '.join(lift.text(item, 'repr') for item in self.listed(lift))}])"

    def compare(self, lift: Lift, operator: str, other: Any) -> Any:
        if self.part == "items" and isinstance(other, DictView) and other.part == "items":
            return self._compare_items(lift, operator, other)
        return lift.as_set(self).compare(lift, operator, other) if self.part != "values" else NotImplemented

    def _compare_items(self, lift: Lift, operator: str, other: DictView) -> bool:
        """As sets, but values are looked up and compared: they may have no hash."""
        mine, theirs = self.owner.entries(lift), other.owner.entries(lift)
        smaller, larger = (theirs, mine) if operator in (">", ">=") else (mine, theirs)
        sizes_fit = py.COMPARE[operator if operator != "!=" else "=="](len(mine), len(theirs))
        pairs = list(smaller.items())  # a comparison may change the dicts
        equal = sizes_fit and all(key in larger and py.equal(lift, larger[key], value) for key, value in pairs)
        return equal != (operator == "!=")

    def binary(self, lift: Lift, operator: str, other: Any) -> Any:
        if self.part == "values" or operator not in ("&", "|", "-", "^"):
            return NotImplemented
        return lift.as_set(self).binary(lift, operator, lift.as_set(other))

    def reflected(self, lift: Lift, operator: str, other: Any) -> Any:
        if self.part == "values" or operator not in ("&", "|", "-", "^"):
            return NotImplemented
        return lift.copied_set(other).binary(lift, operator, lift.as_set(self))

    @method
    def isdisjoint(self, lift: Lift, other: Any, /) -> Any:
        if self.part == "values":
            raise_error(AttributeError, "'dict_values' object has no attribute 'isdisjoint'")
        return lift.as_set(self).isdisjoint(lift, other)

    def parts(self) -> list[Any]:
        return [self.owner]

    def rebuild(self, generate: Generator) -> None:
        self.owner.emit_call(generate, self.part)


class DictIterator(IteratorValue):
    """Iterates a dict and notices a change of its size."""

    __slots__ = ("owner", "part", "keys", "position", "structure", "backwards")

    def __init__(self, owner: DictValue, part: str, lift: Lift, backwards: bool = False) -> None:
        super().__init__()
        self.owner: DictValue | None = owner
        self.part = part
        self.keys = list(owner.entries(lift))
        self.backwards = backwards
        if backwards:
            self.keys.reverse()
        self.structure = owner.structure
        self.position = 0
        self._look_ahead()

    def python_type(self) -> type:
        return type(iter(getattr({}, self.part)()))

    def next(self, lift: Lift) -> Any:
        owner = self.owner
        if owner is None:
            raise Exhausted
        entries = owner.entries(lift)
        lift.journal.touch(self)
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
        return _pick(lift, self.part, key, entries[key])

    def _look_ahead(self) -> None:
        if self.owner is not None and self.owner.looks_ahead and self.position == len(self.keys):
            self.owner = None

    @method
    def __reduce__(self, lift: Lift) -> Any:  # type: ignore[override]  # noqa: PLE0302  (a model)
        return reduced(lift, iter, [lift.new_list(self.to_come(lift))])

    def state(self) -> Any:
        return self.owner, self.position

    def restore(self, state: Any) -> None:
        self.owner, self.position = state

    def parts(self) -> list[Any]:
        return [] if self.owner is None else [self.owner]

    def rebuild(self, generate: Generator) -> None:
        if self.owner is None:
            generate.build_map(0)
            generate.load_method(self.part)
            generate.call(0)
            generate.get_iter()
            return
        if self.owner.structure != self.structure:
            raise GraphBreak(FL0107, what="an iterator over a dict that has changed")
        generate.callable(advance)
        if self.backwards:
            generate.callable(reversed)
            self.owner.emit_call(generate, self.part)
            generate.call(1)
        else:
            self.owner.emit_call(generate, self.part)
            generate.get_iter()
        generate.constant(self.position)
        generate.call(2)


def _pick(lift: Lift, part: str, key: Any, value: Any) -> Any:
    if part == "keys":
        return from_key(key)
    if part == "values":
        return value
    return lift.tuple((from_key(key), value))
