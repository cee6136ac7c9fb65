"""Dictionaries: those the program makes, those it is given, and the namespaces of objects and modules.

A dict that came from an input is read key by key, so that a program that looks at two entries of a large namespace
guards two entries. Changes are laid over the real dict until they are replayed.
"""

from __future__ import annotations

import abc
import types
import weakref
from collections.abc import Callable, Iterable, Iterator
from typing import TYPE_CHECKING, Any

from framelift.guards.equality import can_be_held, constants_equal, has_type
from framelift.guards.source import Source
from framelift.native import _core
from framelift.values.containers.dict_views import DictIterator, DictView
from framelift.values.containers.iterators import IteratorValue
from framelift.values.core import protocol as py
from framelift.values.core.base import Identity, Raised, Value
from framelift.values.core.constants import is_constant
from framelift.values.core.exceptions import ExceptionValue, raise_error, raised_from
from framelift.values.core.hash_keys import ReferenceKey, TupleKey, from_key, given_key, is_unknown_number, stored_again
from framelift.values.core.lengths import given_length, given_truth
from framelift.values.core.lookup import mro_of
from framelift.values.core.methods import method, method_of

if TYPE_CHECKING:
    from framelift.capture.lift import Lift
    from framelift.residual.generator import Generator

MISSING: Any = object()
DELETED: Any = object()
# Keys whose value notes which object it is, and whose hash is C code.
_GUARDED_BY_IDENTITY = (type, abc.ABCMeta, types.BuiltinFunctionType)


# By identity: a metaclass may have an `==` and a hash.
_STR = {id(str)}


def _is_pinned(lift: Lift, key: Any) -> bool:
    """Whether a part of a key is guarded to be the very object it is, and equal to no other."""
    if not isinstance(key, Identity):
        return False
    obj = key.value.concrete
    if type(obj) is types.FunctionType and key.value.source is not None:
        lift.guard(key.value.source, "IS", obj)
        return True
    return has_type(obj, _GUARDED_BY_IDENTITY) or any(base is type for base in mro_of(type(obj))) or key.value.pin(lift)


def _is_tuple_of(candidate: Any, parts: tuple[Any, ...]) -> bool:
    if type(candidate) is not tuple or len(candidate) != len(parts):
        return False
    return all(
        item is part.value.concrete if isinstance(part, Identity) else constants_equal(item, part)
        for item, part in zip(candidate, parts, strict=True)
    )


def halves_of(lift: Lift, pair: Any, position: int) -> list[Any]:
    """The key and the value of an item that `dict()` takes for a pair."""
    try:
        halves = py.items(lift, pair)
    except Raised as raised:
        error = raised.value
        if not (isinstance(error, ExceptionValue) and issubclass(error.cls, TypeError)):
            raise
        words = f"cannot convert dictionary update sequence element #{position} to a sequence"
        raise raised_from(TypeError(words)) from raised
    if len(halves) != 2:
        words = f"dictionary update sequence element #{position} has length {len(halves)}; 2 is required"
        raise_error(ValueError, words)
    return halves


class DictValue(Value, models=dict):
    """`overlay` holds what the program wrote or read; `complete` says that it holds every key, in order."""

    __slots__ = ("overlay", "complete", "written", "structure", "_plain", "_objects")
    kind: type = dict
    # Whether its iterators know the next key beforehand: they end with the last, whatever happens to the dict then.
    looks_ahead = False
    # How an item of what it is filled from is taken for a pair.
    halves = staticmethod(halves_of)

    def __init__(
        self,
        entries: dict[Any, Any] | None = None,
        source: Source | None = None,
        concrete: Any = None,
    ) -> None:
        super().__init__(source, concrete)
        self.overlay: dict[Any, Any] = {} if entries is None else entries
        self.complete = source is None
        # Keys to replay, in the order in which they must be stored; the value says whether the old entry must go first.
        self.written: dict[Any, bool] = {}
        # Counts the keys that came and went, for iterators.
        self.structure = 0
        self._plain: dict[Any, Any] | None = None
        self._objects: set[Any] = set()

    @classmethod
    def from_input(cls, obj: Any, source: Source) -> Value:
        return cls(None, source, obj)

    def make(self, entries: dict[Any, Any]) -> DictValue:
        """A new dict of the same type."""
        return type(self)(entries)

    def python_type(self) -> type:
        return self.kind

    # -- reading -------------------------------------------------------------------------------------------------

    def get_key(self, lift: Lift, key: Any) -> Any:
        """The value under `key` (as made by `py.key_of`), or MISSING; notes what was found."""
        found = self.overlay.get(key, MISSING)
        if found is not MISSING:
            return MISSING if found is DELETED else found
        if is_unknown_number(key) and not all(map(is_unknown_number, self.entries(lift))):
            self.refuse("looking up a number that is not known yet")
        if self.complete:
            return MISSING
        assert self.source is not None
        if type(key) is not str and not is_constant(key):
            return self._get_object(lift, key)
        real = self._look_up(key)
        if real is MISSING:
            lift.guard(self.source, "KEY_ABSENT", key)
            return MISSING
        source = self.source.item(key)
        found = self.overlay[key] = lift.wrap(real, source)
        lift.require(source)
        return found

    def _get_object(self, lift: Lift, key: Any) -> Any:
        """Look up an object that is equal to itself only, such as a class, or a tuple of such objects."""
        assert self.source is not None
        if type(key) is ReferenceKey and isinstance(key.referent, Identity):
            return self._get_reference(lift, key, key.referent)
        parts = key.keys if type(key) is TupleKey else (key,)
        if all(is_constant(part) or _is_pinned(lift, part) for part in parts):
            if isinstance(key, Identity):
                return self._get_known(lift, key, key.value.concrete)
            same = (candidate for candidate, _ in self.real_items() if _is_tuple_of(candidate, parts))
            found = next(same, MISSING)
            if found is not MISSING:
                return self._get_known(lift, key, found)
        self.fill(lift)
        return self.get_key(lift, key)

    def _get_reference(self, lift: Lift, key: ReferenceKey, referent: Identity) -> Any:
        """Look up a weak reference to an object that is equal to itself only."""
        obj, source = referent.value.concrete, referent.value.source
        if source is None or source.is_new:
            return MISSING  # nothing that was there before refers to it
        lift.guard(source, "IS", obj)
        same = (k for k, _ in self.real_items() if type(k) is weakref.ReferenceType and k() is obj)
        stored = next(same, MISSING)
        return self._get_known(lift, key, weakref.ref(obj), stored)

    def _get_known(self, lift: Lift, key: Any, obj: Any, stored: Any = None) -> Any:
        """Look up an object; `stored` is the key that the dict has for it, where that is another one."""
        assert self.source is not None
        wanted = obj if stored is None else stored
        value = next((value for candidate, value in self.real_items() if candidate is wanted), MISSING)
        if not can_be_held(obj):
            self.refuse("looking up a key that cannot be guarded")
        if value is MISSING:
            lift.guard(self.source, "KEY_ABSENT", obj)
            return MISSING
        source = self.source.item(obj)
        lift.require(source)
        found = self.overlay[key] = lift.wrap(value, source)
        return found

    def _look_up(self, key: Any) -> Any:
        """Look into the real dict without calling a user's `__eq__`."""
        if isinstance(key, Identity):
            same = (value for candidate, value in self.real_items() if candidate is key.value.concrete)
            return next(same, MISSING)
        if self._plain is None:
            only_names = set(map(id, map(type, dict.__iter__(self.concrete)))) <= _STR
            self._plain = self.concrete if only_names else {k: v for k, v in self.real_items() if is_constant(k)}
        if self._plain is not self.concrete and is_constant(key) and not _core.can_look_up(self.concrete, key):
            self.refuse("looking up a key that another one may equal")
        return self._plain.get(key, MISSING)

    def let_go(self) -> None:
        super().let_go()
        self._plain = None

    def real_items(self) -> Iterable[tuple[Any, Any]]:
        """What the input has, in its order, without a key being asked for its hash."""
        items: Iterable[tuple[Any, Any]] = self.concrete.items()
        return items

    def fill(self, lift: Lift) -> None:
        """Read every entry of the input, in order."""
        if self.complete:
            return
        assert self.source is not None
        real_items = list(self.real_items())
        real_keys = tuple([key for key, _ in real_items])
        if not all(map(can_be_held, real_keys)):
            self.refuse("reading keys of which one cannot be guarded")
        lift.guard(self.source, "DICT_KEYS", real_keys)
        keys = [given_key(lift, self, key) for key in real_keys]
        self._objects = {key for key in keys if not is_constant(key)}
        overlay, self.overlay, self.complete = self.overlay, {}, True
        for key, (real_key, value) in zip(keys, real_items, strict=True):
            known = overlay.get(key, MISSING)
            if known is MISSING:
                known = lift.wrap(value, self.source.item(real_key))
            if known is not DELETED and not self.written.get(key):
                self.overlay[key] = known
        for key in self.written:
            if key in overlay and overlay[key] is not DELETED:
                self.overlay[key] = overlay[key]

    def _is_stored(self, key: Any) -> bool:
        """Whether the input has the key."""
        return self._look_up(key) is not MISSING or key in self._objects

    def entries(self, lift: Lift) -> dict[Any, Any]:
        self.fill(lift)
        return self.overlay

    def truth(self, lift: Lift) -> bool:
        return given_truth(lift, self) if self._has_its_length else bool(self.entries(lift))

    def length(self, lift: Lift) -> Any:
        return given_length(lift, self) if self._has_its_length else len(self.entries(lift))

    @property
    def _has_its_length(self) -> bool:
        """Whether an input has as many entries as it came with, and not all of them are known."""
        return not self.complete and not self.written

    def item(self, lift: Lift, key: Any) -> Any:
        found = self.get_key(lift, py.key_of(lift, key))
        if found is MISSING:
            return self.missing(lift, key)
        return found

    def missing(self, lift: Lift, key: Any) -> Any:
        raise_error(KeyError, key)

    def contains(self, lift: Lift, item: Any) -> Any:
        return self.get_key(lift, py.key_of(lift, item)) is not MISSING

    def iterate(self, lift: Lift) -> Any:
        return DictIterator(self, "keys", lift)

    def changed_during_iteration(self, size_changed: bool) -> None:
        if size_changed:
            raise_error(RuntimeError, "dictionary changed size during iteration")
        self.refuse("iteration while keys are exchanged")

    def compare(self, lift: Lift, operator: str, other: Any) -> Any:
        inside = lift.dict_inside(other)
        if operator not in ("==", "!=") or inside is None:
            return NotImplemented
        mine, theirs = self.entries(lift), inside.entries(lift)
        pairs = list(mine.items())  # a comparison may change the dicts
        equal = len(mine) == len(theirs) and all(
            key in theirs and py.equal(lift, value, theirs[key]) for key, value in pairs
        )
        return equal == (operator == "==")

    def binary(self, lift: Lift, operator: str, other: Any) -> Any:
        if operator == "|" and isinstance(other, DictValue):
            return self.make(dict(self.entries(lift)) | other.entries(lift))
        if operator == "|=":
            self.update(lift, other)
            return self
        return NotImplemented

    def reflected(self, lift: Lift, operator: str, other: Any) -> Any:
        if operator == "|" and isinstance(other, DictValue):
            return self.make(dict(other.entries(lift)) | self.entries(lift))
        return NotImplemented

    def attribute(self, lift: Lift, name: str) -> Any:
        return method_of(self, lift, name)

    def graph_argument(self, lift: Lift) -> Any:
        return {lift.constant(from_key(k)): lift.graph_argument(v) for k, v in self.entries(lift).items()}

    def constant(self, lift: Lift) -> Any:
        return {lift.constant(from_key(k)): lift.constant(v) for k, v in self.entries(lift).items()}

    def text(self, lift: Lift, conversion: str) -> str:
        shown = (f"{lift.text(from_key(k), 'repr')}: {lift.text(v, 'repr')}" for k, v in self.entries(lift).items())
        return "{" + ", ".join(shown) + "}"

    def text_again(self) -> str | None:
        return "{...}" if self.python_type() is dict else None

    def stored_keys(self, lift: Lift) -> list[Any] | None:
        return list(self.entries(lift)) if self.python_type() is dict else None

    def key(self, lift: Lift) -> Any:
        raise_error(TypeError, f"unhashable type: '{self.kind.__name__}'")

    # -- changing ------------------------------------------------------------------------------------------------

    def set_key(self, lift: Lift, key: Any, value: Any) -> None:
        lift.journal.touch(self)
        present = self.overlay.get(key, DELETED) is not DELETED
        if not present:
            self.structure += 1
        if self.source is not None:
            if not present and self.written.get(key):  # it was deleted: it comes back at the end
                del self.written[key]
                self.overlay.pop(key, None)
                self.written[key] = True
            else:
                self.written.setdefault(key, False)
        self.overlay[key] = value

    def delete_key(self, lift: Lift, key: Any) -> None:
        """Delete a key that is there."""
        if not is_constant(key):
            self.fill(lift)
        lift.journal.touch(self)
        self.structure += 1
        if self.source is None:
            del self.overlay[key]
            return
        if self.complete:
            del self.overlay[key]
        else:
            self._note_presence(lift, key)
            self.overlay[key] = DELETED
        self.written.pop(key, None)
        self.written[key] = True

    def _note_presence(self, lift: Lift, key: Any) -> None:
        """Whether replay finds the key: the program may have written it without looking."""
        assert self.source is not None
        plain = key.value.concrete if isinstance(key, Identity) else key
        if self._look_up(key) is MISSING:
            lift.guard(self.source, "KEY_ABSENT", plain)
        else:
            lift.require(self.source.item(plain))

    def set_item(self, lift: Lift, key: Any, value: Any) -> None:
        self.set_key(lift, py.key_of(lift, key), value)

    def delete_item(self, lift: Lift, key: Any) -> None:
        found = py.key_of(lift, key)
        if self.get_key(lift, found) is MISSING:
            raise_error(KeyError, key)
        self.delete_key(lift, found)

    def state(self) -> Any:
        return dict(self.overlay), self.complete, dict(self.written)

    def restore(self, state: Any) -> None:
        self.overlay, self.complete, self.written = state

    def is_as_it_was(self, state: Any) -> bool:
        overlay, _, written = state
        return all(
            key in written or (not replace and self._holds_as_before(key, overlay))
            for key, replace in self.written.items()
        ) and all(self.overlay.get(key, MISSING) is overlay.get(key, MISSING) for key in written)

    def _holds_as_before(self, key: Any, overlay: dict[Any, Any]) -> bool:
        found, before = self.overlay.get(key, MISSING), overlay.get(key, MISSING)
        if before is not MISSING:
            return found is before
        if self.source is None or not isinstance(found, Value) or not is_constant(key):
            return False
        return found.source is self.source.item(key)

    def replay(self, generate: Generator) -> None:
        for key, replace in self.written.items():
            present = self.overlay.get(key, DELETED)
            if replace and self._is_stored(key):
                self.emit_delete(generate, stored_again(key))
            if present is not DELETED:
                self.emit_store(generate, stored_again(key), present)

    def emit_store(self, generate: Generator, key: Any, value: Any) -> None:
        generate.value(value)
        generate.source(self.source)
        generate.value(key)
        generate.store_subscript()

    def emit_delete(self, generate: Generator, key: Any) -> None:
        generate.source(self.source)
        generate.value(key)
        generate.delete_subscript()

    def emit_call(self, generate: Generator, name: str, *args: Any) -> None:
        """Emit a call of a method of the real dict."""
        generate.value(self)
        generate.load_method(name)
        for argument in args:
            generate.value(argument)
        generate.call(len(args))

    # -- methods -------------------------------------------------------------------------------------------------

    @method
    def get(self, lift: Lift, key: Any, default: Any = None, /) -> Any:
        found = self.get_key(lift, py.key_of(lift, key))
        return default if found is MISSING else found

    @method
    def keys(self, lift: Lift) -> Any:
        return DictView(self, "keys")

    @method
    def values(self, lift: Lift) -> Any:
        return DictView(self, "values")

    def items(self, lift: Lift) -> Any:
        return DictView(self, "items")

    items = method(items)

    @method
    def setdefault(self, lift: Lift, key: Any, default: Any = None, /) -> Any:
        name = py.key_of(lift, key)
        found = self.get_key(lift, name)
        if found is MISSING:
            self.set_key(lift, name, default)
            return default
        return found

    @method
    def pop(self, lift: Lift, key: Any, default: Any = MISSING) -> Any:
        name = py.key_of(lift, key)
        found = self.get_key(lift, name)
        if found is MISSING:
            if default is MISSING:
                raise_error(KeyError, key)
            return default
        self.delete_key(lift, name)
        return found

    @method
    def popitem(self, lift: Lift) -> Any:
        return self.pop_last(lift, True, "popitem(): dictionary is empty")

    def pop_last(self, lift: Lift, last: bool, complaint: str) -> Any:
        entries = self.entries(lift)
        if not entries:
            raise_error(KeyError, complaint)
        key = next(reversed(entries)) if last else next(iter(entries))
        value = entries[key]
        self.delete_key(lift, key)
        return lift.tuple((from_key(key), value))

    @method
    def clear(self, lift: Lift) -> None:
        for key in list(self.entries(lift)):
            self.delete_key(lift, key)

    @method
    def copy(self, lift: Lift) -> Any:
        return self.make(dict(self.entries(lift)))

    @method
    def update(self, lift: Lift, other: Any = (), /, **kwargs: Any) -> None:
        size = len(other.entries(lift)) if isinstance(other, DictValue) else 0
        for key, value in each_pair(lift, other, self.halves):
            self.set_item(lift, key, value)
            if isinstance(other, DictValue) and other is not self and len(other.entries(lift)) != size:
                raise_error(RuntimeError, "dict mutated during update")
        for name, value in kwargs.items():
            self.set_key(lift, name, value)

    # -- the way back ---------------------------------------------------------------------------------------------

    def parts(self) -> list[Any]:
        return [v for k, v in self.overlay.items()] + [from_key(k) for k in self.overlay]

    def rebuild(self, generate: Generator) -> None:
        self.rebuild_empty(generate)
        self.rebuild_entries(generate)

    def rebuild_entries(self, generate: Generator) -> None:
        """Fill the new dict on top of the stack, which is known from now on: entries may refer to it."""
        generate.remember(self)
        for key, value in self.overlay.items():
            generate.copy_top()
            generate.value(value)
            generate.swap()
            generate.value(stored_again(key))
            generate.store_subscript()

    def rebuild_empty(self, generate: Generator) -> None:
        generate.build_map(0)


def pairs(lift: Lift, other: Any, halves: Callable[[Lift, Any, int], list[Any]] = halves_of) -> list[tuple[Any, Any]]:
    """(key, value) pairs of a mapping or an iterable of pairs, as `dict()` reads its argument."""
    return list(each_pair(lift, other, halves))


def each_pair(
    lift: Lift, other: Any, halves: Callable[[Lift, Any, int], list[Any]] = halves_of
) -> Iterator[tuple[Any, Any]]:
    """The same one by one, with what happens between two of them."""
    if not isinstance(other, DictValue):
        other = lift.mergeable(other)
    if isinstance(other, DictValue):
        other.note(lift)
        yield from [(from_key(key), value) for key, value in other.entries(lift).items()]
        return
    if isinstance(other, Value) and not isinstance(other, IteratorValue) and lift.has_attribute(other, "keys"):
        keys = py.items(lift, py.call(lift, py.attribute(lift, other, "keys"), [], {}))
        for key in keys:
            yield key, py.item(lift, other, key)
        return
    for position, pair in enumerate(py.each(lift, other)):
        key, value = halves(lift, pair, position)
        yield key, value
