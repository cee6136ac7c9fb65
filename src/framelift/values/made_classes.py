"""Classes the program makes: `class` statements in functions, `type(name, bases, namespace)`.

Much of what is known about classes is read from real ones: the order of bases, whether something is a subclass, what a
lookup finds first. So a class the program makes has a *template*: a real class with the same bases, in which every
attribute is represented by a stand-in of the same kind. Lookups find stand-ins; `MadeClasses` knows the values behind
them. Nothing about a template needs a guard, as only the program can change it, and none outlives the capture: residual
code makes the class anew, if anything is left that needs it.
"""

from __future__ import annotations

import _abc  # type: ignore[import-not-found]
import builtins
import types
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from framelift.breaks import FL0102, FL0107, FL0203, GraphBreak
from framelift.guards.equality import has_type
from framelift.guards.source import Source
from framelift.native import _core
from framelift.values import protocol as py
from framelift.values.base import Value
from framelift.values.cells import EMPTY, CellValue
from framelift.values.class_hooks import init_subclass, name_attributes
from framelift.values.classes import ClassValue, attribute_name, can_be_held, has_modelled_new
from framelift.values.constants import is_constant
from framelift.values.dicts import MISSING, DictValue
from framelift.values.exceptions import raise_error, raised_from
from framelift.values.functions import FunctionLike
from framelift.values.lookup import (
    Found,
    container_base,
    is_data_descriptor,
    is_plain_class,
    is_storage_class,
    is_subclass,
    mro_of,
    name_of,
    raw_lookup,
    scalar_base,
    special_method,
)
from framelift.values.made_descriptors import MadeDescriptor
from framelift.values.objects import UserObjectValue
from framelift.values.primitives import primitive

if TYPE_CHECKING:
    from framelift.capture.lift import Lift
    from framelift.residual.generator import Generator

_own_dict = type.__dict__["__dict__"].__get__
# What `type` takes out of a namespace, or needs when the class is made.
_bases = type.__dict__["__bases__"].__get__
_AT_BIRTH = ("__module__", "__qualname__", "__doc__", "__slots__")


# What the type of classes makes words of.
_READ_BY_TYPE = frozenset({"__module__", "__name__", "__qualname__", "__doc__"})


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
        if is_constant(raw):
            return raw
        return lift.known_object(raw) if can_be_held(raw) else _OfTheTemplate(None, raw)

    def stand_in(self, value: Any, name: str = "") -> Any:
        """What represents a value in a template, as its attribute `name`."""
        if not isinstance(value, Value):
            return value
        if isinstance(value, MadeDescriptor):
            raw = value.kind(*[self.stand_in(part) for part in value.given])
            if value.name is not None:
                raw.__set_name__(None, value.name)
        elif isinstance(value, FunctionLike):
            raw = types.FunctionType(_does_nothing.__code__, {}, value.code.co_name)
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


class _Shield:
    """A base of templates while they are made: `type` calls its hook, and not that of the user's base."""

    def __init_subclass__(cls) -> None:
        pass


def _does_nothing(*_: Any, **__: Any) -> None:
    """Represents functions. `type` calls one of them: the `__init_subclass__` of a base."""


class MadeClassValue(ClassValue):
    """A class the program made; `entries` is its namespace, and `concrete` its template."""

    __slots__ = ("bases", "entries", "cell", "is_abc")

    def __init__(self, template: type, bases: Sequence[Any], entries: dict[str, Any], cell: CellValue | None) -> None:
        super().__init__(None, template)
        self.bases = bases
        self.entries = entries
        self.cell = cell
        # Whether `abc` knows the class.
        self.is_abc = False

    def computed(self, lift: Lift, name: str) -> Any:
        if name in ("__name__", "__qualname__"):
            return type.__getattribute__(self.concrete, name)
        if name == "__bases__":
            return lift.tuple(self.bases)
        if name == "__base__":
            return lift.known_object(type.__getattribute__(self.concrete, name))
        if name == "__mro__":
            return lift.tuple([lift.known_object(base) for base in mro_of(self.concrete)])
        if name == "__doc__" or (name in self.entries and name in ("__module__", "__annotations__")):
            found = self.entries.get(name)
            if name == "__doc__" and isinstance(found, MadeDescriptor):
                return found.get(lift, None, self)
            if not isinstance(found, UserObjectValue):
                return found
            getter = special_method(lift, found, found.cls, "__get__")
            return found if getter is None else py.call(lift, getter, [None, self], {})
        if name in ("__flags__", "__dict__"):
            return super().computed(lift, name)
        if name in _READ_FROM_TEMPLATE:
            return py.fold(lift, type.__getattribute__, self.concrete, name)
        raise GraphBreak(FL0203, type=name_of(self.concrete), name=name)

    # -- change --------------------------------------------------------------------------------------------------

    def own_entry(self, lift: Lift, name: Any) -> Any:
        if name in self.entries:
            return self.entries[name]
        found = _own_dict(self.concrete).get(name, MISSING) if type(name) is str else MISSING
        return MISSING if found is MISSING else lift.made.value_of(lift, found)

    def own_entries(self, lift: Lift) -> dict[Any, Any]:
        """As `type` leaves them: what the program gave, then what it adds itself."""
        added = {name: raw for name, raw in _own_dict(self.concrete).items() if name not in self.entries}
        return {**self.entries, **{name: lift.made.value_of(lift, raw) for name, raw in added.items()}}

    def plain_set_attribute(self, lift: Lift, name: str, value: Any) -> None:
        on_meta = raw_lookup(type(self.concrete), name)
        goes_first = on_meta is not NotImplemented and is_data_descriptor(on_meta)
        if goes_first and name in ("__name__", "__qualname__"):
            lift.journal.touch(self)
            py.fold(lift, type.__setattr__, self.concrete, name, lift.constant(value))
            return
        if goes_first and name not in ("__doc__", "__module__"):
            self.refuse(f"assignment of the class attribute {name!r}")
        lift.journal.touch(self)
        self.entries[name] = value
        type.__setattr__(self.concrete, name, lift.made.stand_in(value, name))

    def plain_delete_attribute(self, lift: Lift, name: str) -> None:
        if name not in self.entries:
            raise_error(AttributeError, _no_attribute(self.concrete, name))
        lift.journal.touch(self)
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

    def rebuild(self, generate: Generator) -> None:
        if any(isinstance(base, MadeClassValue) and base.has("__init_subclass__") for base in self.bases):
            raise GraphBreak(FL0107, what=self.describe())
        if self.cell is not None:
            self.cell.make_empty(generate)
        hook = raw_lookup(mro_of(self.concrete)[1], "__init_subclass__")
        if hook is not _own_dict(object)["__init_subclass__"]:
            raise GraphBreak(FL0107, what=self.describe())  # it would run again
        generate.known_object(type)
        generate.load_method("__new__")
        generate.value(generate.lift.known_object(type(self.concrete)))
        generate.constant(name_of(self.concrete))
        for base in self.bases:
            generate.value(base)
        generate.build_tuple(len(self.bases))
        self._build_namespace(generate)
        generate.call(4)
        generate.remember(self)
        # Methods may refer to the class, so it exists before they do.
        for name, value in self.entries.items():
            if name not in _AT_BIRTH:
                self._store(generate, name, value)
        if self.is_abc:
            generate.callable(_abc._abc_init)
            generate.load_remembered(self)
            generate.call(1)
            generate.pop_top()

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
    _check_bases(lift, bases)
    if metaclass is not None and not isinstance(metaclass, ClassValue):
        raise GraphBreak(FL0102, what="a class statement with a metaclass that is no class")
    meta = lift.known_object(most_derived(lift, type if metaclass is None else metaclass.concrete, bases))
    if meta.concrete is type:
        namespace: Any = DictValue({})
        lift.run_in_namespace(body, namespace)
        return make_class(lift, type, lift.constant(name), bases, dict(namespace.entries(lift)), keywords)
    given = [name, lift.tuple(bases)]
    namespace = py.call(lift, py.attribute(lift, meta, "__prepare__"), given, keywords)
    if raw_lookup(py.type_of(namespace), "__getitem__") is NotImplemented:
        found = name_of(py.type_of(namespace))
        raise_error(TypeError, f"{name_of(meta.concrete)}.__prepare__() must return a mapping, not {found}")
    cell = lift.run_in_namespace(body, namespace)
    made = py.call(lift, meta, [*given, namespace], keywords)
    if isinstance(cell, CellValue) and isinstance(made, ClassValue):
        _check_cell(lift, cell, made, lift.constant(name))
    return made


def _check_cell(lift: Lift, cell: CellValue, made: ClassValue, name: str) -> None:
    """Whether the metaclass has handed on the cell that methods find their class in."""
    found = cell.get(lift)
    if found is made:
        return
    shown = lift.text(made, "repr")
    if found is EMPTY:
        what = f"__class__ not set defining {name!r} as {shown}. Was __classcell__ propagated to type.__new__?"
        raise_error(RuntimeError, what)
    raise_error(TypeError, f"__class__ set to {lift.text(found, 'repr')} defining {name!r} as {shown}")


def most_derived(lift: Lift, meta: type, bases: Sequence[Any]) -> type:
    """The metaclass of a class with these bases."""
    for base in bases:
        other = type(base.concrete)
        if is_subclass(other, meta):
            meta = other
        elif not is_subclass(meta, other):
            raise_error(TypeError, _METACLASS_CONFLICT)
    return meta


_METACLASS_CONFLICT = (
    "metaclass conflict: the metaclass of a derived class must be a (non-strict) subclass "
    "of the metaclasses of all its bases"
)


@primitive(type.__dict__["__prepare__"])
def _prepare(lift: Lift, *_: Any, **__: Any) -> Any:
    return DictValue({})


def make_class(
    lift: Lift, meta: type, name: str, bases: Sequence[Any], entries: dict[str, Any], keywords: dict[str, Any]
) -> MadeClassValue:
    """`type.__new__(meta, name, bases, entries, **keywords)`."""
    has_cell = "__classcell__" in entries
    cell = entries.pop("__classcell__", None)
    if has_cell and not isinstance(cell, CellValue):
        if isinstance(cell, Value):
            raise GraphBreak(FL0102, what="a class statement whose __classcell__ is no cell")
        py.fold(lift, type, name, (), {"__classcell__": cell})  # raises, in the words of this Python
    _adjust(entries)
    template = _template(lift, meta, name, bases, entries)
    made = MadeClassValue(template, bases or [lift.known_object(object)], entries, cell)
    lift.made.add(made)
    if "__slots__" in entries:
        lift.made.represent(_own_dict(template)["__slots__"], entries["__slots__"])
    for attribute, value in entries.items():
        if attribute not in _AT_BIRTH or attribute == "__doc__":
            type.__setattr__(made.concrete, attribute, lift.made.stand_in(value, attribute))
    if cell is not None:
        cell.set(lift, made)
    name_attributes(lift, made)
    init_subclass(lift, made, keywords)
    return made


def _check_bases(lift: Lift, bases: Sequence[Any]) -> None:
    for base in bases:
        if not isinstance(base, ClassValue):
            raise GraphBreak(FL0102, what=f"a class statement with {py.describe(base)} as a base")
        base.note(lift)
        if not _has_modelled_instances(lift, base.concrete):
            raise GraphBreak(FL0102, what=f"a class statement with {base.describe()} as a base")


def _has_modelled_instances(lift: Lift, cls: type) -> bool:
    return (
        is_plain_class(cls)
        or is_subclass(cls, BaseException)
        or is_subclass(cls, type)
        or is_subclass(cls, tuple)
        or is_storage_class(cls)
        or container_base(cls) is not None
        or scalar_base(cls) is not None
        or has_modelled_new(lift, cls)
    )


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


# What is the same for a class and its template.
_READ_FROM_TEMPLATE = frozenset(
    {"__abstractmethods__", "__basicsize__", "__itemsize__", "__dictoffset__", "__weakrefoffset__"}
)


def _no_attribute(cls: type, name: str) -> str:
    """What is said of an attribute that cannot be deleted because it is not there."""
    return f"type object '{name_of(cls)}' has no attribute '{name}'"


# What cannot be put into a class later: `type` has something of its own under these names.
_OF_THE_METACLASS = frozenset({"__class__", "__dict__", "__bases__", "__mro__", "__name__", "__abstractmethods__"})


def _template(lift: Lift, meta: type, name: str, bases: Sequence[Any], entries: dict[str, Any]) -> type:
    odd = _OF_THE_METACLASS.intersection(entries)
    if odd:
        raise GraphBreak(FL0102, what=f"a class statement that defines {min(odd)}")
    if raw_lookup(meta, "mro") is not type.mro:
        raise GraphBreak(FL0102, what="a class statement with an mro() of its metaclass")
    given = {"__qualname__": lift.constant(entries.pop("__qualname__", name))}
    if "__module__" in entries:
        given["__module__"] = lift.constant(entries["__module__"])
    if py.type_of(entries.get("__doc__")) is str:
        given["__doc__"] = lift.constant(entries["__doc__"])
    if "__slots__" in entries:
        given["__slots__"] = _slots(lift, entries["__slots__"])
        _check_slots(given["__slots__"], entries)
    template = _real_class(meta, name, tuple([base.concrete for base in bases]), given)
    if not _has_modelled_instances(lift, template):
        raise GraphBreak(FL0102, what=f"a class statement with the bases of {name}")
    return template


def _slots(lift: Lift, given: Any) -> Any:
    if py.type_of(given) is list:
        names = py.items(lift, given)
        if any(py.type_of(name) is not str for name in names):
            raise GraphBreak(FL0102, what="a class statement with odd slots")
        return [lift.constant(name) for name in names]
    plain = lift.constant(given)
    if type(plain) not in (str, tuple):
        raise GraphBreak(FL0102, what="a class statement with odd slots")
    return plain


def _check_slots(slots: Any, entries: dict[str, Any]) -> None:
    for name in [slots] if type(slots) is str else slots:
        if name in entries:
            raise_error(ValueError, f"{name!r} in __slots__ conflicts with class variable")


def _real_class(meta: type, name: str, bases: tuple[type, ...], given: dict[str, Any]) -> type:
    """A class with these bases, without running any code of theirs."""
    hooks = [raw_lookup(base, "__init_subclass__") for base in bases]
    harmless = (_own_dict(object)["__init_subclass__"], *[hook for hook in hooks if _is_stand_in(hook)])
    shielded = any(not any(hook is known for known in harmless) for hook in hooks)
    try:
        made: type = type.__new__(meta, name, (_Shield, *bases) if shielded else bases, given)
        if shielded:
            type.__dict__["__bases__"].__set__(made, bases)
            _core.forget_subclass(_Shield, made)
    except (TypeError, ValueError) as error:
        if shielded:
            raise GraphBreak(FL0102, what=f"a class statement that fails: {error}") from None
        raise raised_from(error) from None
    return made


def _is_stand_in(hook: Any) -> bool:
    function = hook.__func__ if isinstance(hook, classmethod) else hook
    return getattr(function, "__code__", None) is _does_nothing.__code__


def make_type(lift: Lift, meta: ClassValue, name: Any, bases: Any, namespace: Any, keywords: dict[str, Any]) -> Any:
    """`type.__new__(meta, name, bases, namespace, **keywords)`."""
    inside = lift.dict_inside(namespace)
    plain_bases = py.items(lift, bases)
    if inside is None or (isinstance(name, Value) and py.type_of(name) is not str):
        raise GraphBreak(FL0102, what="type() with three arguments")
    _check_bases(lift, plain_bases)
    winner = most_derived(lift, meta.concrete, plain_bases)
    if winner is not meta.concrete and raw_lookup(winner, "__new__") is not _own_dict(type)["__new__"]:
        new = py.attribute(lift, lift.known_object(winner), "__new__")
        return py.call(lift, new, [lift.known_object(winner), name, bases, namespace], keywords)
    entries = {lift.constant(py.from_key(key)): value for key, value in inside.entries(lift).items()}
    if not all(type(key) is str for key in entries):
        raise GraphBreak(FL0102, what="type() with attributes whose names are no str")
    if "__module__" not in entries:
        assert lift.frame is not None
        entries["__module__"] = lift.constant(lift.frame.globals.get_key(lift, "__name__"))
    return make_class(lift, winner, lift.constant(name), plain_bases, entries, keywords)


@primitive(type.__new__)
def _type_new(lift: Lift, meta: Any, /, *args: Any, **keywords: Any) -> Any:
    if not isinstance(meta, ClassValue) or len(args) != 3:
        raise GraphBreak(FL0102, what="type.__new__ with these arguments")
    return make_type(lift, meta, *args, keywords)


@primitive(type.__init__)
def _type_init(lift: Lift, cls: Any, /, *args: Any, **keywords: Any) -> None:
    """`type.__new__` did it all."""


@primitive(_abc._abc_init)
def _abc_init(lift: Lift, cls: Any, /) -> None:
    """What `abc` does to a new class: find out which methods are abstract, and prepare for registrations."""
    if not isinstance(cls, MadeClassValue) or not all(map(_is_plain_entry, _own_dict(cls.concrete).values())):
        raise GraphBreak(FL0102, what="abc of this class")
    inherited = [name for base in cls.bases for name in getattr(base.concrete, "__abstractmethods__", ())]
    candidates = [*cls.entries.items(), *[(name, py.attribute(lift, cls, name)) for name in inherited]]
    abstract = frozenset(name for name, value in candidates if _is_abstract(lift, value))
    py.fold(lift, _abc._abc_init, cls.concrete)
    type.__dict__["__abstractmethods__"].__set__(cls.concrete, abstract)
    cls.is_abc = True


def _is_abstract(lift: Lift, value: Any) -> bool:
    kind = py.type_of(value)
    can_say = kind is types.MethodType or kind.__dictoffset__ or raw_lookup(kind, _ABSTRACT) is not NotImplemented
    if not isinstance(value, Value) or not can_say:
        return False
    if kind is property and value.source is not None:
        lift.guard(value.source, "TYPE", property)
        parts = [(getattr(value.concrete, name), name) for name in ("fget", "fset", "fdel")]
        return any(_is_abstract(lift, lift.wrap(part, value.source.child("GETATTR", name))) for part, name in parts)
    get = lift.known_object(getattr)
    return py.truth(lift, py.call(lift, get, [value, _ABSTRACT, False], {}))


_ABSTRACT = "__isabstractmethod__"


def _is_plain_entry(raw: Any) -> bool:
    """Whether reading the entry of a template runs nothing of the user's."""
    return has_type(raw, _PLAIN_ENTRIES) or raw_lookup(type(raw), "__get__") is NotImplemented


_PLAIN_ENTRIES = (
    types.FunctionType,
    staticmethod,
    classmethod,
    property,
    types.GetSetDescriptorType,
    types.MemberDescriptorType,
    types.BuiltinFunctionType,
)


@primitive(type.__setattr__)
def _type_setattr(lift: Lift, cls: Any, name: Any, value: Any, /) -> None:
    cls.plain_set_attribute(lift, attribute_name(lift, name), value)


@primitive(type.__delattr__)
def _type_delattr(lift: Lift, cls: Any, name: Any, /) -> None:
    cls.plain_delete_attribute(lift, attribute_name(lift, name))
