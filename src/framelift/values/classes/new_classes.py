"""Classes the program makes: `class` statements in functions, `type(name, bases, namespace)`.

Much of what is known about classes is read from real ones: the order of bases, whether something is a subclass, what a
lookup finds first. So a class the program makes has a *template*: a real class with the same bases, in which every
attribute is represented by a stand-in of the same kind. Lookups find stand-ins; `MadeClasses` knows the values behind
them. Nothing about a template needs a guard, as only the program can change it, and none outlives the capture: residual
code makes the class anew, if anything is left that needs it.
"""

from __future__ import annotations

import operator
import types
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

from framelift.breaks import FL0107, FL0203, GraphBreak
from framelift.guards.source import Source
from framelift.native import _core
from framelift.values.classes.descriptors import MadeDescriptor
from framelift.values.containers.dicts import MISSING
from framelift.values.core import protocol as py
from framelift.values.core.base import Value
from framelift.values.core.constants import is_constant
from framelift.values.core.construct import make_tuple
from framelift.values.core.lookup import (
    Found,
    is_data_descriptor,
    is_plain_class,
    mro_of,
    name_of,
    raw_lookup,
    special_method,
)
from framelift.values.core.refusals import Operation
from framelift.values.core.stand_ins import raise_no_attribute_of_class
from framelift.values.functions.cells import CellValue
from framelift.values.functions.functions import FunctionLike
from framelift.values.objects.classes import ClassValue, can_be_held
from framelift.values.objects.instances import UserObjectValue

if TYPE_CHECKING:
    from framelift.values.core.emitter import Emitter
    from framelift.values.core.tracer import Tracer

_own_dict = type.__dict__["__dict__"].__get__
# What `type` takes out of a namespace, or needs when the class is made.
_bases = type.__dict__["__bases__"].__get__
AT_BIRTH = ("__module__", "__qualname__", "__doc__", "__slots__")


# What the type of classes makes words of.
_READ_BY_TYPE = frozenset({"__module__", "__name__", "__qualname__", "__doc__"})

# What is the same for a class and its template.
_READ_FROM_TEMPLATE = frozenset(
    {"__abstractmethods__", "__basicsize__", "__itemsize__", "__dictoffset__", "__weakrefoffset__"}
)


class StandIn:
    """Represents a value that is no function and no descriptor."""

    __slots__ = ()


class _OfTheTemplate(Value):
    """Something that `type` or `abc` puts into every class."""

    __slots__ = ()


class _Assigned:
    """Stands for all classes that the program assigned attributes of."""


_ASSIGNED = _Assigned()


class MadeClasses:
    """The classes of one capture, by their templates, and the values behind stand-ins."""

    def __init__(self) -> None:
        self._classes: dict[int, MadeClassValue] = {}
        self._values: dict[int, tuple[Any, Any]] = {}
        # The names of attributes that the program assigned to classes it did not make.
        self.names: set[str] = set()

        # Whether there is anything to ask about; every guard and every lookup asks this first.
        self.active = False

    def add(self, made: MadeClassValue) -> None:
        self._classes[id(made.concrete)] = made
        self.active = True

    def assign(self, name: str) -> None:
        """Note that the program assigns an attribute of a class it did not make."""
        self.names.add(name)
        self.active = True

    def of(self, template: Any) -> MadeClassValue | None:
        """The class a template belongs to."""
        return self._classes.get(id(template))

    def about(self, source: Source) -> bool:
        """Whether a source leads through a template, or through something that residual code makes."""
        while source.parent is not None:
            source = source.parent
        if source.is_new:
            return True
        return source.access == "KNOWN" and (source.argument is _ASSIGNED or id(source.argument) in self._classes)

    def assigned(self, tracer: Tracer, cls: type, name: str) -> Found | None:
        """What the program assigned to a class, as if it were found there."""
        value = tracer.known_object(cls)
        if not isinstance(value, ClassValue) or name not in value.written:
            return None
        return Found(self.stand_in(value.written[name]), tracer.sources.known(_ASSIGNED).child("TYPE_LOOKUP", name))

    def value_of(self, tracer: Tracer, raw: Any) -> Any:
        """The value behind something found in a template."""
        made = self.of(raw)
        if made is not None:
            return made
        found = self._values.get(id(raw))
        if found is not None:
            return found[1]
        if is_constant(raw):
            return raw
        return tracer.known_object(raw) if can_be_held(raw) else _OfTheTemplate(None, raw)

    def stand_in(self, value: Any, name: str = "") -> Any:
        """What represents a value in a template, as its attribute `name`."""
        if not isinstance(value, Value):
            return value
        if isinstance(value, MadeDescriptor):
            raw = value.kind(*[self.stand_in(part) for part in value.given])
            if value.name is not None:
                raw.__set_name__(None, value.name)
        elif isinstance(value, FunctionLike):
            raw = types.FunctionType(does_nothing.__code__, {}, value.code.co_name)
        elif value.concrete is not None and (name in _READ_BY_TYPE or not is_constant(value.concrete)):
            raw = value.concrete  # not so a constant: one object would stand for several values
        elif type(value) is UserObjectValue and is_plain_class(value.cls):
            raw = object.__new__(value.cls)  # of its class, for that may be a descriptor
        else:  # partials are descriptors that warn, from 3.13 on
            raw = _Descriptor() if raw_lookup(value.python_type(), "__get__") is not NotImplemented else StandIn()
        self.represent(raw, value)
        return raw

    def represent(self, raw: Any, value: Any) -> None:
        """Note which value an object in a template stands for."""
        if isinstance(value, Value):
            self._values[id(raw)] = (raw, value)

    def release(self) -> None:
        """Templates are no subclasses of the user's classes any more."""
        for made in self._classes.values():
            for base in _bases(made.concrete):
                _core.forget_subclass(base, made.concrete)


class _Descriptor(StandIn):
    """Something that C code binds to instances."""

    __get__ = classmethod.__dict__["__get__"]


def does_nothing(*_: Any, **__: Any) -> None:
    """Represents functions. `type` calls one of them: the `__init_subclass__` of a base."""


def hook_of_bases(cls: type) -> Any:
    """The `__init_subclass__` that is called for a class: the first one of those above it."""
    return next(own["__init_subclass__"] for own in map(_own_dict, mro_of(cls)[1:]) if "__init_subclass__" in own)


class MadeClassValue(ClassValue):
    """A class the program made; `entries` is its namespace, and `concrete` its template."""

    __slots__ = ("bases", "entries", "cell", "initialisers")

    def __init__(self, template: type, bases: Sequence[Any], entries: dict[str, Any], cell: CellValue | None) -> None:
        super().__init__(None, template)
        self.bases = bases
        self.entries = entries
        self.cell = cell
        # What its metaclass does to it besides: functions that residual code calls with the class.
        self.initialisers: list[Callable[[type], object]] = []

    def computed(self, tracer: Tracer, name: str) -> Any:
        if name in ("__name__", "__qualname__"):
            return type.__getattribute__(self.concrete, name)
        if name == "__bases__":
            return make_tuple(self.bases)
        if name == "__base__":
            return tracer.known_object(type.__getattribute__(self.concrete, name))
        if name == "__mro__":
            return make_tuple([tracer.known_object(base) for base in mro_of(self.concrete)])
        if name == "__doc__" or (name in self.entries and name in ("__module__", "__annotations__")):
            found = self.entries.get(name)
            if name == "__doc__" and isinstance(found, MadeDescriptor):
                return found.get(tracer, None, self)
            if not isinstance(found, UserObjectValue):
                return found
            getter = special_method(tracer, found, found.cls, "__get__")
            return found if getter is None else py.call(tracer, getter, [None, self], {})
        if name in ("__flags__", "__dict__"):
            return super().computed(tracer, name)
        if name in _READ_FROM_TEMPLATE:
            return py.fold(tracer, type.__getattribute__, self.concrete, name)
        raise GraphBreak(FL0203, type=name_of(self.concrete), name=name)

    # -- change --------------------------------------------------------------------------------------------------

    def own_entry(self, tracer: Tracer, name: Any) -> Any:
        if name in self.entries:
            return self.entries[name]
        found = _own_dict(self.concrete).get(name, MISSING) if type(name) is str else MISSING
        return MISSING if found is MISSING else tracer.made.value_of(tracer, found)

    def own_entries(self, tracer: Tracer) -> dict[Any, Any]:
        """As `type` leaves them: what the program gave, then what it adds itself."""
        added = {name: raw for name, raw in _own_dict(self.concrete).items() if name not in self.entries}
        return {**self.entries, **{name: tracer.made.value_of(tracer, raw) for name, raw in added.items()}}

    def plain_set_attribute(self, tracer: Tracer, name: str, value: Any) -> None:
        on_meta = raw_lookup(type(self.concrete), name)
        goes_first = on_meta is not NotImplemented and is_data_descriptor(on_meta)
        if goes_first and name in ("__name__", "__qualname__"):
            tracer.journal.touch(self)
            py.fold(tracer, type.__setattr__, self.concrete, name, tracer.constant(value))
            return
        if goes_first and name == "__bases__" and self._has_bases(tracer, value):
            return
        if goes_first and name not in ("__doc__", "__module__", "__annotations__"):
            self.refuse(Operation.SET_CLASS_ATTRIBUTE, name=name)
        tracer.journal.touch(self)
        self.entries[name] = value
        type.__setattr__(self.concrete, name, tracer.made.stand_in(value, name))

    def add_by_metaclass(self, tracer: Tracer, name: str, value: Value) -> None:
        """An attribute that the initialisers give the real class; until then lookups find what stands for it."""
        type.__setattr__(self.concrete, name, tracer.made.stand_in(value, name))

    def _has_bases(self, tracer: Tracer, wanted: Any) -> bool:
        is_tuple = py.type_of(wanted) is tuple
        found = py.items(tracer, wanted) if is_tuple else []
        return len(found) == len(self.bases) and all(map(operator.is_, found, self.bases))

    def plain_delete_attribute(self, tracer: Tracer, name: str) -> None:
        if name not in self.entries:
            raise_no_attribute_of_class(self.concrete, name)
        tracer.journal.touch(self)
        del self.entries[name]
        type.__delattr__(self.concrete, name)

    def state(self) -> Any:
        names = [type.__getattribute__(self.concrete, name) for name in ("__name__", "__qualname__")]
        return dict(self.entries), dict(_own_dict(self.concrete)), names

    def restore(self, state: Any) -> None:
        self.entries, before, (name, qualified_name) = state
        type.__setattr__(self.concrete, "__name__", name)
        type.__setattr__(self.concrete, "__qualname__", qualified_name)
        now = _own_dict(self.concrete)
        for name in [name for name in now if name not in before]:
            type.__delattr__(self.concrete, name)
        for name, raw in before.items():
            if now.get(name) is not raw:
                type.__setattr__(self.concrete, name, raw)

    # -- the way back ----------------------------------------------------------------------------------------------

    def parts(self) -> list[Any]:
        return [*self.bases, *self.entries.values()]

    def rebuild(self, emit: Emitter) -> None:
        if any(isinstance(base, MadeClassValue) and base.has("__init_subclass__") for base in self.bases):
            raise GraphBreak(FL0107, what=self.describe())
        if self.cell is not None:
            self.cell.make_empty(emit)
        if hook_of_bases(self.concrete) is not _own_dict(object)["__init_subclass__"]:
            raise GraphBreak(FL0107, what=self.describe())  # it would run again
        emit.known_object(type)
        emit.load_method("__new__")
        emit.value(emit.tracer.known_object(type(self.concrete)))
        emit.constant(name_of(self.concrete))
        for base in self.bases:
            emit.value(base)
        emit.build_tuple(len(self.bases))
        self._build_namespace(emit)
        emit.call(4)
        emit.remember(self)
        # Methods may refer to the class, so it exists before they do.
        for name, value in self.entries.items():
            if name not in AT_BIRTH:
                self._store(emit, name, value)
        for initialise in self.initialisers:
            emit.callable(initialise)
            emit.load_remembered(self)
            emit.call(1)
            emit.pop_top()

    def _build_namespace(self, emit: Emitter) -> None:
        given = {name: self.entries[name] for name in AT_BIRTH if name in self.entries}
        given["__qualname__"] = type.__getattribute__(self.concrete, "__qualname__")
        for name, value in given.items():
            emit.constant(name)
            emit.value(value)
        if self.cell is not None:
            emit.constant("__classcell__")
            emit.load_remembered(self.cell)
        emit.build_map(len(given) + (self.cell is not None))

    def _store(self, emit: Emitter, name: str, value: Any) -> None:
        emit.known_object(type)
        emit.load_method("__setattr__")
        emit.load_remembered(self)
        emit.constant(name)
        emit.value(value)
        emit.call(3)
        emit.pop_top()

    def has(self, name: str) -> bool:
        """Whether the class or a made base defines a name."""
        return any(name in base.entries for base in (self, *self.bases) if isinstance(base, MadeClassValue))


def _no_attribute(cls: type, name: str) -> str:
    """What is said of an attribute that cannot be deleted because it is not there."""
    return f"type object '{name_of(cls)}' has no attribute '{name}'"
