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
from framelift.values.core.construct import make_tuple
from framelift.values.core.exceptions import ExceptionValue, raise_error, raised_from
from framelift.values.core.hash_keys import ReferenceKey, TupleKey, from_key, given_key, is_unknown_number, stored_again
from framelift.values.core.lengths import given_length, given_truth
from framelift.values.core.lookup import mro_of
from framelift.values.core.methods import method, method_of
from framelift.values.core.stand_ins import raise_by, raise_unhashable, raise_what

if TYPE_CHECKING:
    from framelift.values.core.emitter import Emitter
    from framelift.values.core.tracer import Tracer

MISSING: Any = object()
DELETED: Any = object()
# Keys whose value notes which object it is, and whose hash is C code.
_GUARDED_BY_IDENTITY = (type, abc.ABCMeta, types.BuiltinFunctionType)


# By identity: a metaclass may have an `==` and a hash.
_STR = {id(str)}


def _is_pinned(tracer: Tracer, key: Any) -> bool:
    """Whether a part of a key is guarded to be the very object it is, and equal to no other."""
    if not isinstance(key, Identity):
        return False
    obj = key.value.concrete
    if type(obj) is types.FunctionType and key.value.source is not None:
        tracer.guard(key.value.source, "IS", obj)
        return True
    return (
        has_type(obj, _GUARDED_BY_IDENTITY) or any(base is type for base in mro_of(type(obj))) or key.value.pin(tracer)
    )


def _is_tuple_of(candidate: Any, parts: tuple[Any, ...]) -> bool:
    if type(candidate) is not tuple or len(candidate) != len(parts):
        return False
    return all(
        item is part.value.concrete if isinstance(part, Identity) else constants_equal(item, part)
        for item, part in zip(candidate, parts, strict=True)
    )


def halves_of(tracer: Tracer, pair: Any, position: int) -> list[Any]:
    """The key and the value of an item that `dict()` takes for a pair."""
    try:
        halves = py.items(tracer, pair)
    except Raised as raised:
        error = raised.value
        if not (isinstance(error, ExceptionValue) and issubclass(error.cls, TypeError)):
            raise
        words = f"cannot convert dictionary update sequence element #{position} to a sequence"
        raise raised_from(TypeError(words)) from raised
    if len(halves) != 2:
        raise_what(dict, [*[(0, 0)] * position, (0,) * len(halves)])
    return halves


class DictValue(Value, models=dict):
    """`overlay` holds what the program wrote or read; `complete` says that it holds every key, in order."""

    __slots__ = ("overlay", "complete", "written", "structure", "_plain", "_objects")
    assigns: tuple[str, ...] = ("complete",)
    mutates = ("overlay", "written")
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

    def get_key(self, tracer: Tracer, key: Any) -> Any:
        """The value under `key` (as made by `py.key_of`), or MISSING; notes what was found."""
        found = self.overlay.get(key, MISSING)
        if found is not MISSING:
            return MISSING if found is DELETED else found
        if is_unknown_number(key) and not all(map(is_unknown_number, self.entries(tracer))):
            self.refuse("looking up a number that is not known yet")
        if self.complete:
            return MISSING
        assert self.source is not None
        if type(key) is not str and not is_constant(key):
            return self._get_object(tracer, key)
        real = self._look_up(key)
        if real is MISSING:
            tracer.guard(self.source, "KEY_ABSENT", key)
            return MISSING
        source = self.source.item(key)
        found = self.overlay[key] = tracer.wrap(real, source)
        tracer.require(source)
        return found

    def _get_object(self, tracer: Tracer, key: Any) -> Any:
        """Look up an object that is equal to itself only, such as a class, or a tuple of such objects."""
        assert self.source is not None
        if type(key) is ReferenceKey and isinstance(key.referent, Identity):
            return self._get_reference(tracer, key, key.referent)
        parts = key.keys if type(key) is TupleKey else (key,)
        if all(is_constant(part) or _is_pinned(tracer, part) for part in parts):
            if isinstance(key, Identity):
                return self._get_known(tracer, key, key.value.concrete)
            same = (candidate for candidate, _ in self.real_items() if _is_tuple_of(candidate, parts))
            found = next(same, MISSING)
            if found is not MISSING:
                return self._get_known(tracer, key, found)
        self.fill(tracer)
        return self.get_key(tracer, key)

    def _get_reference(self, tracer: Tracer, key: ReferenceKey, referent: Identity) -> Any:
        """Look up a weak reference to an object that is equal to itself only."""
        obj, source = referent.value.concrete, referent.value.source
        if source is None or source.is_new:
            return MISSING  # nothing that was there before refers to it
        tracer.guard(source, "IS", obj)
        same = (k for k, _ in self.real_items() if type(k) is weakref.ReferenceType and k() is obj)
        stored = next(same, MISSING)
        return self._get_known(tracer, key, weakref.ref(obj), stored)

    def _get_known(self, tracer: Tracer, key: Any, obj: Any, stored: Any = None) -> Any:
        """Look up an object; `stored` is the key that the dict has for it, where that is another one."""
        assert self.source is not None
        wanted = obj if stored is None else stored
        value = next((value for candidate, value in self.real_items() if candidate is wanted), MISSING)
        if not can_be_held(obj):
            self.refuse("looking up a key that cannot be guarded")
        if value is MISSING:
            tracer.guard(self.source, "KEY_ABSENT", obj)
            return MISSING
        source = self.source.item(obj)
        tracer.require(source)
        found = self.overlay[key] = tracer.wrap(value, source)
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

    def drop(self) -> None:
        super().drop()
        self._plain = None

    def real_items(self) -> Iterable[tuple[Any, Any]]:
        """What the input has, in its order, without a key being asked for its hash."""
        items: Iterable[tuple[Any, Any]] = self.concrete.items()
        return items

    def fill(self, tracer: Tracer) -> None:
        """Read every entry of the input, in order."""
        if self.complete:
            return
        assert self.source is not None
        real_items = list(self.real_items())
        real_keys = tuple([key for key, _ in real_items])
        if not all(map(can_be_held, real_keys)):
            self.refuse("reading keys of which one cannot be guarded")
        tracer.guard(self.source, "DICT_KEYS", real_keys)
        keys = [given_key(tracer, self, key) for key in real_keys]
        self._objects = {key for key in keys if not is_constant(key)}
        overlay, self.overlay, self.complete = self.overlay, {}, True
        for key, (real_key, value) in zip(keys, real_items, strict=True):
            known = overlay.get(key, MISSING)
            if known is MISSING:
                known = tracer.wrap(value, self.source.item(real_key))
            if known is not DELETED and not self.written.get(key):
                self.overlay[key] = known
        for key in self.written:
            if key in overlay and overlay[key] is not DELETED:
                self.overlay[key] = overlay[key]

    def _is_stored(self, key: Any) -> bool:
        """Whether the input has the key."""
        return self._look_up(key) is not MISSING or key in self._objects

    def entries(self, tracer: Tracer) -> dict[Any, Any]:
        self.fill(tracer)
        return self.overlay

    def truth(self, tracer: Tracer) -> bool:
        return given_truth(tracer, self) if self._has_its_length else bool(self.entries(tracer))

    def length(self, tracer: Tracer) -> Any:
        return given_length(tracer, self) if self._has_its_length else len(self.entries(tracer))

    @property
    def _has_its_length(self) -> bool:
        """Whether an input has as many entries as it came with, and not all of them are known."""
        return not self.complete and not self.written

    def item(self, tracer: Tracer, key: Any) -> Any:
        found = self.get_key(tracer, py.key_of(tracer, key))
        if found is MISSING:
            return self.missing(tracer, key)
        return found

    def missing(self, tracer: Tracer, key: Any) -> Any:
        raise_error(KeyError, key)

    def contains(self, tracer: Tracer, item: Any) -> Any:
        found = item.is_among(tracer, self.entries) if isinstance(item, Value) else None
        if found is not None:
            return found
        return self.get_key(tracer, py.key_of(tracer, item)) is not MISSING

    def iterate(self, tracer: Tracer) -> Any:
        return DictIterator(self, "keys", tracer)

    def changed_during_iteration(self, size_changed: bool) -> None:
        if size_changed:
            raise_by("for key in given: given[key, key] = None", given={None: None})
        self.refuse("iteration while keys are exchanged")

    def compare(self, tracer: Tracer, operator: str, other: Any) -> Any:
        inside = dict_inside(tracer, other)
        if operator not in ("==", "!=") or inside is None:
            return NotImplemented
        mine, theirs = self.entries(tracer), inside.entries(tracer)
        pairs = list(mine.items())  # a comparison may change the dicts
        equal = len(mine) == len(theirs) and all(
            key in theirs and py.equal(tracer, value, theirs[key]) for key, value in pairs
        )
        return equal == (operator == "==")

    def binary(self, tracer: Tracer, operator: str, other: Any) -> Any:
        if operator == "|" and isinstance(other, DictValue):
            return self.make(dict(self.entries(tracer)) | other.entries(tracer))
        if operator == "|=":
            self.update(tracer, other)
            return self
        return NotImplemented

    def reflected(self, tracer: Tracer, operator: str, other: Any) -> Any:
        if operator == "|" and isinstance(other, DictValue):
            return self.make(dict(other.entries(tracer)) | self.entries(tracer))
        return NotImplemented

    def attribute(self, tracer: Tracer, name: str) -> Any:
        return method_of(self, tracer, name)

    def graph_argument(self, tracer: Tracer) -> Any:
        return {tracer.constant(from_key(k)): tracer.graph_argument(v) for k, v in self.entries(tracer).items()}

    def constant(self, tracer: Tracer) -> Any:
        return {tracer.constant(from_key(k)): tracer.constant(v) for k, v in self.entries(tracer).items()}

    def text(self, tracer: Tracer, conversion: str) -> str:
        shown = (
            f"{tracer.text(from_key(k), 'repr')}: {tracer.text(v, 'repr')}" for k, v in self.entries(tracer).items()
        )
        return "{" + ", ".join(shown) + "}"

    def text_again(self) -> str | None:
        return "{...}" if self.python_type() is dict else None

    def stored_keys(self, tracer: Tracer) -> list[Any] | None:
        return list(self.entries(tracer)) if self.python_type() is dict else None

    def key(self, tracer: Tracer) -> Any:
        raise_unhashable(self.kind)

    # -- changing ------------------------------------------------------------------------------------------------

    def set_key(self, tracer: Tracer, key: Any, value: Any) -> None:
        tracer.journal.touch(self)
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

    def delete_key(self, tracer: Tracer, key: Any) -> None:
        """Delete a key that is there."""
        if not is_constant(key):
            self.fill(tracer)
        tracer.journal.touch(self)
        self.structure += 1
        if self.source is None:
            del self.overlay[key]
            return
        if self.complete:
            del self.overlay[key]
        else:
            self._note_presence(tracer, key)
            self.overlay[key] = DELETED
        self.written.pop(key, None)
        self.written[key] = True

    def _note_presence(self, tracer: Tracer, key: Any) -> None:
        """Whether replay finds the key: the program may have written it without looking."""
        assert self.source is not None
        plain = key.value.concrete if isinstance(key, Identity) else key
        if self._look_up(key) is MISSING:
            tracer.guard(self.source, "KEY_ABSENT", plain)
        else:
            tracer.require(self.source.item(plain))

    def set_item(self, tracer: Tracer, key: Any, value: Any) -> None:
        self.set_key(tracer, py.key_of(tracer, key), value)

    def delete_item(self, tracer: Tracer, key: Any) -> None:
        found = py.key_of(tracer, key)
        if self.get_key(tracer, found) is MISSING:
            raise_error(KeyError, key)
        self.delete_key(tracer, found)

    def is_as_it_was(self, state: Any) -> bool:
        *_, overlay, written = state
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

    def replay(self, emit: Emitter) -> None:
        for key, replace in self.written.items():
            present = self.overlay.get(key, DELETED)
            if replace and self._is_stored(key):
                self.emit_delete(emit, stored_again(key))
            if present is not DELETED:
                self.emit_store(emit, stored_again(key), present)

    def emit_store(self, emit: Emitter, key: Any, value: Any) -> None:
        emit.value(value)
        emit.source(self.source)
        emit.value(key)
        emit.store_subscript()

    def emit_delete(self, emit: Emitter, key: Any) -> None:
        emit.source(self.source)
        emit.value(key)
        emit.delete_subscript()

    def emit_call(self, emit: Emitter, name: str, *args: Any) -> None:
        """Emit a call of a method of the real dict."""
        emit.value(self)
        emit.call_method(name, args)

    # -- methods -------------------------------------------------------------------------------------------------

    @method
    def get(self, tracer: Tracer, key: Any, default: Any = None, /) -> Any:
        found = self.get_key(tracer, py.key_of(tracer, key))
        return default if found is MISSING else found

    @method
    def keys(self, tracer: Tracer) -> Any:
        return DictView(self, "keys")

    @method
    def values(self, tracer: Tracer) -> Any:
        return DictView(self, "values")

    def items(self, tracer: Tracer) -> Any:
        return DictView(self, "items")

    items = method(items)

    @method
    def setdefault(self, tracer: Tracer, key: Any, default: Any = None, /) -> Any:
        name = py.key_of(tracer, key)
        found = self.get_key(tracer, name)
        if found is MISSING:
            self.set_key(tracer, name, default)
            return default
        return found

    @method
    def pop(self, tracer: Tracer, key: Any, default: Any = MISSING) -> Any:
        name = py.key_of(tracer, key)
        found = self.get_key(tracer, name)
        if found is MISSING:
            if default is MISSING:
                raise_error(KeyError, key)
            return default
        self.delete_key(tracer, name)
        return found

    @method
    def popitem(self, tracer: Tracer) -> Any:
        return self.pop_last(tracer, True, {}.popitem)

    def pop_last(self, tracer: Tracer, last: bool, of_none: Callable[[], Any]) -> Any:
        entries = self.entries(tracer)
        if not entries:
            raise_what(of_none)
        key = next(reversed(entries)) if last else next(iter(entries))
        value = entries[key]
        self.delete_key(tracer, key)
        return make_tuple((from_key(key), value))

    @method
    def clear(self, tracer: Tracer) -> None:
        for key in list(self.entries(tracer)):
            self.delete_key(tracer, key)

    @method
    def copy(self, tracer: Tracer) -> Any:
        return self.make(dict(self.entries(tracer)))

    @method
    def update(self, tracer: Tracer, other: Any = (), /, **kwargs: Any) -> None:
        size = len(other.entries(tracer)) if isinstance(other, DictValue) else 0
        for key, value in each_pair(tracer, other, self.halves):
            self.set_item(tracer, key, value)
            if isinstance(other, DictValue) and other is not self and len(other.entries(tracer)) != size:
                raise_error(RuntimeError, "dict mutated during update")
        for name, value in kwargs.items():
            self.set_key(tracer, name, value)

    # -- the way back ---------------------------------------------------------------------------------------------

    def parts(self) -> list[Any]:
        return [v for k, v in self.overlay.items()] + [from_key(k) for k in self.overlay]

    def rebuild(self, emit: Emitter) -> None:
        self.rebuild_empty(emit)
        self.rebuild_entries(emit)

    def rebuild_entries(self, emit: Emitter) -> None:
        """Fill the new dict on top of the stack, which is known from now on: entries may refer to it."""
        emit.remember(self)
        for key, value in self.overlay.items():
            emit.copy_top()
            emit.value(value)
            emit.swap()
            emit.value(stored_again(key))
            emit.store_subscript()

    def rebuild_empty(self, emit: Emitter) -> None:
        emit.build_map(0)


def dict_inside(tracer: Tracer, value: Any) -> DictValue | None:
    """The items that the C code of dicts reads of a dict or an instance of a subclass."""
    if isinstance(value, DictValue):
        return value
    inside: DictValue | None = value.storage_of(tracer, dict) if isinstance(value, Value) else None
    return inside


def pairs(
    tracer: Tracer, other: Any, halves: Callable[[Tracer, Any, int], list[Any]] = halves_of
) -> list[tuple[Any, Any]]:
    """(key, value) pairs of a mapping or an iterable of pairs, as `dict()` reads its argument."""
    return list(each_pair(tracer, other, halves))


def each_pair(
    tracer: Tracer, other: Any, halves: Callable[[Tracer, Any, int], list[Any]] = halves_of
) -> Iterator[tuple[Any, Any]]:
    """The same one by one, with what happens between two of them."""
    if isinstance(other, Value) and not isinstance(other, DictValue):
        other = other.mergeable(tracer)
    if isinstance(other, DictValue):
        other.note(tracer)
        yield from [(from_key(key), value) for key, value in other.entries(tracer).items()]
        return
    if isinstance(other, Value) and not isinstance(other, IteratorValue) and tracer.has_attribute(other, "keys"):
        keys = py.items(tracer, py.call(tracer, py.attribute(tracer, other, "keys"), [], {}))
        for key in keys:
            yield key, py.item(tracer, other, key)
        return
    for position, pair in enumerate(py.each(tracer, other)):
        key, value = halves(tracer, pair, position)
        yield key, value
