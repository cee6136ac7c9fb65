"""Making classes: `class` statements, `type(name, bases, namespace)`, and what `type` and `abc` do to a namespace."""

from __future__ import annotations

import _abc  # type: ignore[import-not-found]
import builtins
import types
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from framelift.breaks import FL0102, FL0102_ARGUMENTS, FL0102_CLASS, GraphBreak
from framelift.guards.equality import has_type
from framelift.native import _core
from framelift.values.classes.descriptors import MadeDescriptor
from framelift.values.classes.hooks import init_subclass, name_attributes
from framelift.values.classes.new_classes import AT_BIRTH, MadeClassValue, does_nothing
from framelift.values.containers.dicts import DictValue, dict_inside
from framelift.values.core import protocol as py
from framelift.values.core.base import Value
from framelift.values.core.construct import make_tuple
from framelift.values.core.exceptions import raise_error, raised_from
from framelift.values.core.hash_keys import from_key
from framelift.values.core.lookup import (
    container_base,
    is_plain_class,
    is_storage_class,
    is_subclass,
    name_of,
    raw_lookup,
    scalar_base,
)
from framelift.values.core.primitives import primitive
from framelift.values.core.stand_ins import answering, raise_by, raise_what
from framelift.values.functions.cells import EMPTY, CellValue
from framelift.values.functions.functions import FunctionLike
from framelift.values.objects.classes import ClassValue, attribute_name, has_modelled_new

if TYPE_CHECKING:
    from framelift.values.core.tracer import Tracer

_own_dict = type.__dict__["__dict__"].__get__


@primitive(builtins.__build_class__)
def _build_class(tracer: Tracer, body: Any, name: Any, /, *given: Any, metaclass: Any = None, **keywords: Any) -> Any:
    bases = _resolved(tracer, given)
    _check_bases(tracer, bases)
    if metaclass is not None and not isinstance(metaclass, ClassValue):
        raise GraphBreak(FL0102_CLASS, why="with a metaclass that is no class")
    meta = tracer.known_object(most_derived(tracer, type if metaclass is None else metaclass.concrete, bases))
    if meta.concrete is type:
        namespace: Any = DictValue({})
        tracer.run_in_namespace(body, namespace)
        if bases is not given:
            namespace.set_key(tracer, "__orig_bases__", make_tuple(given))
        return make_class(tracer, type, tracer.constant(name), bases, dict(namespace.entries(tracer)), keywords)
    named = [name, make_tuple(bases)]
    namespace = py.call(tracer, py.attribute(tracer, meta, "__prepare__"), named, keywords)
    if raw_lookup(py.type_of(namespace), "__getitem__") is NotImplemented:
        found = name_of(py.type_of(namespace))
        raise_error(TypeError, f"{name_of(meta.concrete)}.__prepare__() must return a mapping, not {found}")
    cell = tracer.run_in_namespace(body, namespace)
    if bases is not given:
        py.set_item(tracer, namespace, "__orig_bases__", make_tuple(given))
    made = py.call(tracer, meta, [*named, namespace], keywords)
    if isinstance(cell, CellValue) and isinstance(made, ClassValue):
        _check_cell(tracer, cell, made, tracer.constant(name))
    return made


def _resolved(tracer: Tracer, given: Sequence[Any]) -> Sequence[Any]:
    """The bases, where some of them say what stands for them; otherwise `given` itself."""
    if all(isinstance(base, ClassValue) for base in given):
        return given
    bases: list[Any] = []
    has_entries = False
    for base in given:
        if isinstance(base, ClassValue) or not tracer.has_attribute(base, "__mro_entries__"):
            bases.append(base)
            continue
        has_entries = True
        entries = py.call(tracer, py.attribute(tracer, base, "__mro_entries__"), [make_tuple(given)], {})
        if not is_subclass(py.type_of(entries), tuple):
            raise_by("class C(base): pass", base=answering(object, "__mro_entries__", None))
        bases += py.items(tracer, entries)
    return bases if has_entries else given


def _check_cell(tracer: Tracer, cell: CellValue, made: ClassValue, name: str) -> None:
    """Whether the metaclass has handed on the cell that methods find their class in."""
    found = cell.get(tracer)
    if found is made:
        return
    shown = tracer.text(made, "repr")
    if found is EMPTY:
        what = f"__class__ not set defining {name!r} as {shown}. Was __classcell__ propagated to type.__new__?"
        raise_error(RuntimeError, what)
    raise_error(TypeError, f"__class__ set to {tracer.text(found, 'repr')} defining {name!r} as {shown}")


def most_derived(tracer: Tracer, meta: type, bases: Sequence[Any]) -> type:
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
def _prepare(tracer: Tracer, *_: Any, **__: Any) -> Any:
    return DictValue({})


def make_class(
    tracer: Tracer, meta: type, name: str, bases: Sequence[Any], entries: dict[str, Any], keywords: dict[str, Any]
) -> MadeClassValue:
    """`type.__new__(meta, name, bases, entries, **keywords)`."""
    has_cell = "__classcell__" in entries
    cell = entries.pop("__classcell__", None)
    if has_cell and not isinstance(cell, CellValue):
        if isinstance(cell, Value):
            raise GraphBreak(FL0102_CLASS, why="whose __classcell__ is no cell")
        py.fold(tracer, type, name, (), {"__classcell__": cell})  # raises, in the words of this Python
    _adjust(entries)
    template = _template(tracer, meta, name, bases, entries)
    made = MadeClassValue(template, bases or [tracer.known_object(object)], entries, cell)
    tracer.made.add(made)
    if "__slots__" in entries:
        tracer.made.represent(_own_dict(template)["__slots__"], entries["__slots__"])
    for attribute, value in entries.items():
        if attribute not in AT_BIRTH or attribute == "__doc__":
            type.__setattr__(made.concrete, attribute, tracer.made.stand_in(value, attribute))
    if cell is not None:
        cell.set(tracer, made)
    name_attributes(tracer, made)
    init_subclass(tracer, made, keywords)
    return made


def _check_bases(tracer: Tracer, bases: Sequence[Any]) -> None:
    for base in bases:
        if not isinstance(base, ClassValue):
            raise GraphBreak(FL0102_CLASS, why=f"with {py.describe(base)} as a base")
        base.note(tracer)
        if not _has_modelled_instances(tracer, base.concrete):
            raise GraphBreak(FL0102_CLASS, why=f"with {base.describe()} as a base")


def _has_modelled_instances(tracer: Tracer, cls: type) -> bool:
    return (
        is_plain_class(cls)
        or is_subclass(cls, BaseException)
        or is_subclass(cls, type)
        or is_subclass(cls, tuple)
        or is_storage_class(cls)
        or container_base(cls) is not None
        or scalar_base(cls) is not None
        or has_modelled_new(tracer, cls)
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


# What cannot be put into a class later: `type` has something of its own under these names.
_OF_THE_METACLASS = frozenset({"__class__", "__dict__", "__bases__", "__mro__", "__name__", "__abstractmethods__"})


def _template(tracer: Tracer, meta: type, name: str, bases: Sequence[Any], entries: dict[str, Any]) -> type:
    odd = _OF_THE_METACLASS.intersection(entries)
    if odd:
        raise GraphBreak(FL0102_CLASS, why=f"that defines {min(odd)}")
    if raw_lookup(meta, "mro") is not type.mro:
        raise GraphBreak(FL0102_CLASS, why="with an mro() of its metaclass")
    given = {"__qualname__": tracer.constant(entries.pop("__qualname__", name))}
    if "__module__" in entries:
        given["__module__"] = tracer.constant(entries["__module__"])
    if py.type_of(entries.get("__doc__")) is str:
        given["__doc__"] = tracer.constant(entries["__doc__"])
    if "__slots__" in entries:
        given["__slots__"] = _slots(tracer, entries["__slots__"])
        _check_slots(given["__slots__"], entries)
    template = _real_class(meta, name, tuple([base.concrete for base in bases]), given)
    if not _has_modelled_instances(tracer, template):
        raise GraphBreak(FL0102_CLASS, why=f"with the bases of {name}")
    return template


def _slots(tracer: Tracer, given: Any) -> Any:
    if py.type_of(given) is list:
        names = py.items(tracer, given)
        if any(py.type_of(name) is not str for name in names):
            raise GraphBreak(FL0102_CLASS, why="with odd slots")
        return [tracer.constant(name) for name in names]
    plain = tracer.constant(given)
    if type(plain) not in (str, tuple):
        raise GraphBreak(FL0102_CLASS, why="with odd slots")
    return plain


def _check_slots(slots: Any, entries: dict[str, Any]) -> None:
    for name in [slots] if type(slots) is str else slots:
        if name in entries:
            raise_what(type, "", (), {"__slots__": name, name: None})


class _Shield:
    """A base of templates while they are made: `type` calls its hook, and not that of the user's base."""

    __slots__ = ()

    def __init_subclass__(cls) -> None:
        pass


class _ShieldWithDict:
    """The same for bases whose instances have a `__dict__`: they take the place only of one that has it, too."""

    __init_subclass__ = _Shield.__dict__["__init_subclass__"]


def _real_class(meta: type, name: str, bases: tuple[type, ...], given: dict[str, Any]) -> type:
    """A class with these bases, without running any code of theirs."""
    hooks = [raw_lookup(base, "__init_subclass__") for base in bases]
    harmless = (_own_dict(object)["__init_subclass__"], *[hook for hook in hooks if _is_stand_in(hook)])
    shielded = any(not any(hook is known for known in harmless) for hook in hooks)
    shield = _ShieldWithDict if shielded and _has_dict(bases[0]) else _Shield
    try:
        made: type = type.__new__(meta, name, (shield, *bases) if shielded else bases, given)
        if shielded:
            type.__dict__["__bases__"].__set__(made, bases)
            _core.forget_subclass(shield, made)
    except (TypeError, ValueError) as error:
        if shielded:
            raise GraphBreak(FL0102_CLASS, why=f"that fails: {error}") from None
        raise raised_from(error) from None
    return made


_has_dict = type.__dict__["__dictoffset__"].__get__


def _is_stand_in(hook: Any) -> bool:
    function = hook.__func__ if isinstance(hook, classmethod) else hook
    return getattr(function, "__code__", None) is does_nothing.__code__


def make_type(tracer: Tracer, meta: ClassValue, name: Any, bases: Any, namespace: Any, keywords: dict[str, Any]) -> Any:
    """`type.__new__(meta, name, bases, namespace, **keywords)`."""
    inside = dict_inside(tracer, namespace)
    if inside is None or py.type_of(bases) is not tuple or (isinstance(name, Value) and py.type_of(name) is not str):
        raise GraphBreak(FL0102, what="type() with three arguments")
    plain_bases = py.items(tracer, bases)
    _check_bases(tracer, plain_bases)
    winner = most_derived(tracer, meta.concrete, plain_bases)
    if winner is not meta.concrete and raw_lookup(winner, "__new__") is not _own_dict(type)["__new__"]:
        new = py.attribute(tracer, tracer.known_object(winner), "__new__")
        return py.call(tracer, new, [tracer.known_object(winner), name, bases, namespace], keywords)
    entries = {tracer.constant(from_key(key)): value for key, value in inside.entries(tracer).items()}
    if not all(type(key) is str for key in entries):
        raise GraphBreak(FL0102, what="type() with attributes whose names are no str")
    if "__module__" not in entries:
        assert tracer.frame is not None
        entries["__module__"] = tracer.constant(tracer.frame.globals.get_key(tracer, "__name__"))
    return make_class(tracer, winner, tracer.constant(name), plain_bases, entries, keywords)


@primitive(type.__new__)
def _type_new(tracer: Tracer, meta: Any, /, *args: Any, **keywords: Any) -> Any:
    if not isinstance(meta, ClassValue) or len(args) != 3:
        raise GraphBreak(FL0102_ARGUMENTS, what="type.__new__")
    return make_type(tracer, meta, *args, keywords)


@primitive(type.__init__)
def _type_init(tracer: Tracer, cls: Any, /, *args: Any, **keywords: Any) -> None:
    """`type.__new__` did it all."""


@primitive(_abc._abc_init)
def _abc_init(tracer: Tracer, cls: Any, /) -> None:
    """What `abc` does to a new class: find out which methods are abstract, and prepare for registrations."""
    if not isinstance(cls, MadeClassValue) or not all(map(_is_plain_entry, _own_dict(cls.concrete).values())):
        raise GraphBreak(FL0102, what="abc of this class")
    inherited = [name for base in cls.bases for name in getattr(base.concrete, "__abstractmethods__", ())]
    candidates = [*cls.entries.items(), *[(name, py.attribute(tracer, cls, name)) for name in inherited]]
    abstract = frozenset(name for name, value in candidates if _is_abstract(tracer, value))
    py.fold(tracer, _abc._abc_init, cls.concrete)
    type.__dict__["__abstractmethods__"].__set__(cls.concrete, abstract)
    cls.initialisers.append(_abc._abc_init)


def _is_abstract(tracer: Tracer, value: Any) -> bool:
    kind = py.type_of(value)
    can_say = kind is types.MethodType or kind.__dictoffset__ or raw_lookup(kind, _ABSTRACT) is not NotImplemented
    if not isinstance(value, Value) or not can_say:
        return False
    if kind is property and value.source is not None:
        tracer.guard(value.source, "TYPE", property)
        parts = [(getattr(value.concrete, name), name) for name in ("fget", "fset", "fdel")]
        return any(_is_abstract(tracer, tracer.wrap(part, value.source.child("GETATTR", name))) for part, name in parts)
    get = tracer.known_object(getattr)
    return py.truth(tracer, py.call(tracer, get, [value, _ABSTRACT, False], {}))


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
def _type_setattr(tracer: Tracer, cls: Any, name: Any, value: Any, /) -> None:
    cls.plain_set_attribute(tracer, attribute_name(tracer, name), value)


@primitive(type.__delattr__)
def _type_delattr(tracer: Tracer, cls: Any, name: Any, /) -> None:
    cls.plain_delete_attribute(tracer, attribute_name(tracer, name))
