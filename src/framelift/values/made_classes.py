"""Classes the program makes: `class` statements in functions, `type(name, bases, namespace)`.

Much of what is known about classes is read from real ones: the order of bases, whether something is a subclass, what a
lookup finds first. So a class the program makes has a *template*: a real class with the same bases, in which every
attribute is represented by a stand-in of the same kind. Lookups find stand-ins; `MadeClasses` knows the values behind
them. Nothing about a template needs a guard, as only the program can change it, and none outlives the capture: residual
code makes the class anew, if anything is left that needs it.
"""

from __future__ import annotations

import builtins
import types
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from framelift.breaks import FL0102, FL0107, FL0203, GraphBreak
from framelift.guards.source import Source
from framelift.values import protocol as py
from framelift.values.base import Value
from framelift.values.cells import CellValue
from framelift.values.classes import ClassValue, SuperValue
from framelift.values.constants import is_constant
from framelift.values.dicts import DictValue
from framelift.values.exceptions import raise_error
from framelift.values.functions import FunctionLike
from framelift.values.lookup import Found, is_plain_class, is_subclass, mro_of, name_of, raw_lookup, special_method
from framelift.values.made_descriptors import MadeDescriptor
from framelift.values.objects import UserObjectValue
from framelift.values.primitives import primitive

if TYPE_CHECKING:
    from framelift.capture.lift import Lift
    from framelift.residual.generator import Generator

_own_dict = type.__dict__["__dict__"].__get__
# What `type` takes out of a namespace, or needs when the class is made.
_AT_BIRTH = ("__module__", "__qualname__", "__doc__", "__slots__")


class StandIn:
    """Represents a value that is no function and no descriptor."""

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
        """Whether a source leads through a template."""
        while source.parent is not None:
            source = source.parent
        return source.access == "KNOWN" and (source.argument is _ASSIGNED or id(source.argument) in self._classes)

    def assigned(self, lift: Lift, cls: type, name: str) -> Found | None:
        """What the program assigned to a class, as if it were found there."""
        value = lift.known_object(cls)
        if not isinstance(value, ClassValue) or name not in value.written:
            return None
        return Found(self.stand_in(value.written[name]), lift.sources.known(_ASSIGNED).child("TYPE_LOOKUP", name))

    def value_of(self, lift: Lift, raw: Any) -> Any:
        """The value behind something found in a template."""
        made = self.of(raw)
        if made is not None:
            return made
        found = self._values.get(id(raw))
        if found is not None:
            return found[1]
        return raw if is_constant(raw) else lift.known_object(raw)

    def stand_in(self, value: Any) -> Any:
        """What represents a value in a template."""
        if not isinstance(value, Value):
            return value
        if isinstance(value, MadeDescriptor):
            raw = value.kind(*[self.stand_in(part) for part in value.given])
        elif isinstance(value, FunctionLike):
            raw = types.FunctionType(_does_nothing.__code__, {})
        elif value.concrete is not None:
            raw = value.concrete
        elif type(value) is UserObjectValue and is_plain_class(value.cls):
            raw = object.__new__(value.cls)  # of its class, for that may be a descriptor
        else:
            raw = StandIn()
        self._values[id(raw)] = (raw, value)
        return raw

    def release(self) -> None:
        """Templates are no subclasses of the user's classes any more."""
        for made in self._classes.values():
            if made.concrete.__bases__ != (object,) and not is_subclass(made.concrete, BaseException):
                made.concrete.__bases__ = (_Released,)


class _Released:
    """The base of templates that have served."""


def _can_be_released(bases: Sequence[type], slots: bool) -> bool:
    """Whether a template can get another base: that must not change what its instances look like in memory."""
    derived = [base for base in bases if base is not object and not is_subclass(base, BaseException)]
    return not derived or not (slots or any(_layout(base) != _layout(_Released) for base in derived))


def _layout(cls: type) -> tuple[int, ...]:
    return cls.__basicsize__, cls.__dictoffset__, cls.__weakrefoffset__


def _does_nothing(*_: Any, **__: Any) -> None:
    """Represents functions. `type` calls one of them: the `__init_subclass__` of a base."""


class MadeClassValue(ClassValue):
    """A class the program made; `entries` is its namespace, and `concrete` its template."""

    __slots__ = ("bases", "entries", "cell")

    def __init__(self, template: type, bases: Sequence[Any], entries: dict[str, Any], cell: CellValue | None) -> None:
        super().__init__(None, template)
        self.bases = bases
        self.entries = entries
        self.cell = cell

    def _computed(self, lift: Lift, name: str) -> Any:
        if name in ("__name__", "__qualname__"):
            return type.__getattribute__(self.concrete, name)
        if name == "__bases__":
            return lift.tuple(self.bases)
        if name == "__base__":
            return lift.known_object(type.__getattribute__(self.concrete, name))
        if name == "__mro__":
            return lift.tuple([lift.known_object(base) for base in mro_of(self.concrete)])
        if name == "__doc__" or (name in self.entries and name in ("__module__", "__annotations__")):
            return self.entries.get(name)
        if name == "__flags__":
            return super()._computed(lift, name)
        raise GraphBreak(FL0203, type=name_of(self.concrete), name=name)

    # -- change --------------------------------------------------------------------------------------------------

    def set_attribute(self, lift: Lift, name: str, value: Any) -> None:
        if name in _own_dict(type) and name not in ("__init__", "__call__", "__repr__", "__doc__", "__module__"):
            self.refuse(f"assignment of the class attribute {name!r}")
        lift.journal.touch(self)
        self.entries[name] = value
        type.__setattr__(self.concrete, name, lift.made.stand_in(value))

    def delete_attribute(self, lift: Lift, name: str) -> None:
        if name not in self.entries:
            raise_error(AttributeError, name)
        lift.journal.touch(self)
        del self.entries[name]
        type.__delattr__(self.concrete, name)

    def state(self) -> Any:
        return dict(self.entries), dict(_own_dict(self.concrete))

    def restore(self, state: Any) -> None:
        self.entries, before = state
        now = _own_dict(self.concrete)
        for name in [name for name in now if name not in before]:
            type.__delattr__(self.concrete, name)
        for name, raw in before.items():
            if now.get(name) is not raw:
                type.__setattr__(self.concrete, name, raw)

    # -- the way back ----------------------------------------------------------------------------------------------

    def parts(self) -> list[Any]:
        return [*self.bases, *self.entries.values()]

    def rebuild(self, generate: Generator) -> None:
        if any(isinstance(base, MadeClassValue) and base.has("__init_subclass__") for base in self.bases):
            raise GraphBreak(FL0107, what=self.describe())
        if self.cell is not None:
            self.cell.make_empty(generate)
        generate.callable(type)
        generate.constant(name_of(self.concrete))
        for base in self.bases:
            generate.value(base)
        generate.build_tuple(len(self.bases))
        self._build_namespace(generate)
        generate.call(3)
        generate.remember(self)
        # Methods may refer to the class, so it exists before they do.
        for name, value in self.entries.items():
            if name not in _AT_BIRTH:
                self._store(generate, name, value)

    def _build_namespace(self, generate: Generator) -> None:
        given = {name: self.entries[name] for name in _AT_BIRTH if name in self.entries}
        given["__qualname__"] = type.__getattribute__(self.concrete, "__qualname__")
        for name, value in given.items():
            generate.constant(name)
            generate.value(value)
        if self.cell is not None:
            generate.constant("__classcell__")
            generate.load_remembered(self.cell)
        generate.build_map(len(given) + (self.cell is not None))

    def _store(self, generate: Generator, name: str, value: Any) -> None:
        generate.known_object(type)
        generate.load_method("__setattr__")
        generate.load_remembered(self)
        generate.constant(name)
        generate.value(value)
        generate.call(3)
        generate.pop_top()

    def has(self, name: str) -> bool:
        """Whether the class or a made base defines a name."""
        return any(name in base.entries for base in (self, *self.bases) if isinstance(base, MadeClassValue))


# -- making them -------------------------------------------------------------------------------------------------------


@primitive(builtins.__build_class__)
def _build_class(lift: Lift, body: Any, name: Any, /, *bases: Any, metaclass: Any = None, **keywords: Any) -> Any:
    if metaclass is not None:
        raise GraphBreak(FL0102, what="a class statement with a metaclass")
    namespace = DictValue({})
    lift.run_in_namespace(body, namespace)
    return make_class(lift, lift.constant(name), bases, dict(namespace.entries(lift)), keywords)


def make_class(
    lift: Lift, name: str, bases: Sequence[Any], entries: dict[str, Any], keywords: dict[str, Any]
) -> MadeClassValue:
    """`type(name, bases, entries, **keywords)`."""
    _check_bases(lift, bases)
    cell = entries.pop("__classcell__", None)
    _adjust(entries)
    made = MadeClassValue(_template(lift, name, bases, entries), bases or [lift.known_object(object)], entries, cell)
    lift.made.add(made)
    for attribute, value in entries.items():
        if attribute not in _AT_BIRTH:
            type.__setattr__(made.concrete, attribute, lift.made.stand_in(value))
    if cell is not None:
        cell.set(lift, made)
    _name_attributes(lift, made)
    _init_subclass(lift, made, keywords)
    return made


def _check_bases(lift: Lift, bases: Sequence[Any]) -> None:
    for base in bases:
        if not isinstance(base, ClassValue):
            raise GraphBreak(FL0102, what=f"a class statement with {py.describe(base)} as a base")
        base.note(lift)
        cls = base.concrete
        if type(cls) is not type or not (is_plain_class(cls) or is_subclass(cls, BaseException)):
            raise GraphBreak(FL0102, what=f"a class statement with {base.describe()} as a base")
        hook = raw_lookup(cls, "__init_subclass__")
        if hook is not _own_dict(object)["__init_subclass__"] and lift.made.of(cls) is None:
            raise GraphBreak(FL0102, what=f"a class statement with {base.describe()}, which has an __init_subclass__")


def _adjust(entries: dict[str, Any]) -> None:
    """What `type` does to some entries of a namespace."""
    for name, kind in (
        ("__new__", staticmethod),
        ("__init_subclass__", classmethod),
        ("__class_getitem__", classmethod),
    ):
        if isinstance(entries.get(name), FunctionLike):
            entries[name] = MadeDescriptor(kind, [entries[name]])
    if "__eq__" in entries and "__hash__" not in entries:
        entries["__hash__"] = None


# What cannot be put into a class later: `type` has something of its own under these names.
_OF_THE_METACLASS = frozenset({"__class__", "__dict__", "__bases__", "__mro__", "__name__", "__abstractmethods__"})


def _template(lift: Lift, name: str, bases: Sequence[Any], entries: dict[str, Any]) -> type:
    odd = _OF_THE_METACLASS.intersection(entries)
    if odd:
        raise GraphBreak(FL0102, what=f"a class statement that defines {min(odd)}")
    given = {"__qualname__": lift.constant(entries.pop("__qualname__", name))}
    for constant in ("__module__", "__slots__"):
        if constant in entries:
            given[constant] = lift.constant(entries[constant])
    if not is_constant(given.get("__slots__")):
        raise GraphBreak(FL0102, what="a class statement with a list of slots")
    if not _can_be_released([base.concrete for base in bases], "__slots__" in given):
        raise GraphBreak(FL0102, what="a class statement with slots that has a base")
    try:
        return type(name, tuple([base.concrete for base in bases]), given)
    except (TypeError, ValueError) as error:
        raise GraphBreak(FL0102, what=f"a class statement that fails: {error}") from None


def _name_attributes(lift: Lift, made: MadeClassValue) -> None:
    for name, value in list(made.entries.items()):
        if isinstance(value, UserObjectValue):
            method = special_method(lift, value, value.cls, "__set_name__")
            if method is not None:
                py.call(lift, method, [made, name], {})


def _init_subclass(lift: Lift, made: MadeClassValue, keywords: dict[str, Any]) -> None:
    above = SuperValue(made.concrete, made, made.concrete)
    hook = raw_lookup(mro_of(made.concrete)[1], "__init_subclass__")
    if hook is not _own_dict(object)["__init_subclass__"]:
        py.call(lift, above.attribute(lift, "__init_subclass__"), [], keywords)
    elif keywords:
        raise GraphBreak(FL0102, what="a class statement with keywords that nothing takes")


@primitive(_own_dict(object)["__init_subclass__"])
def _object_init_subclass(lift: Lift, cls: Any, /) -> None:
    """`object.__init_subclass__()`: with arguments it is not traced, and complains."""


def make_type(lift: Lift, name: Any, bases: Any, namespace: Any) -> Any:
    """`type(name, bases, namespace)`."""
    if not isinstance(namespace, DictValue):
        raise GraphBreak(FL0102, what="type() with three arguments")
    entries = {lift.constant(py.from_key(key)): value for key, value in namespace.entries(lift).items()}
    if "__module__" not in entries:
        assert lift.frame is not None
        entries["__module__"] = lift.constant(lift.frame.globals.get_key(lift, "__name__"))
    return make_class(lift, lift.constant(name), py.items(lift, bases), entries, {})
