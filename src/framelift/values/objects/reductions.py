"""What the models of `__reduce_ex__` ask about an object."""

from __future__ import annotations

import copyreg
from typing import TYPE_CHECKING, Any

from framelift.breaks import FL0102, GraphBreak
from framelift.models.stdlib.copyreg import holds_more_than
from framelift.values.containers.sequences import ListValue
from framelift.values.core import protocol as py
from framelift.values.core.base import Value
from framelift.values.core.lookup import class_lookup, is_plain_class, mro_of, name_of, own_entries
from framelift.values.core.primitives import primitive
from framelift.values.objects.classes import ClassValue, note_mro

if TYPE_CHECKING:
    from framelift.values.core.tracer import Tracer


@primitive(holds_more_than)
def _holds_more_than(tracer: Tracer, obj: Any, slots: Any) -> bool:
    kind = tracer.type_of(obj)
    if isinstance(obj, Value) and is_plain_class(kind):
        return False
    raise GraphBreak(FL0102, what=f"__reduce_ex__ of {name_of(kind)}")


@primitive(copyreg._slotnames)  # type: ignore[attr-defined]
def _slotnames(tracer: Tracer, cls: Any, /) -> Any:
    """The names under which instances have slots. (The original keeps its answer in the class, for itself.)"""
    if not isinstance(cls, ClassValue):
        raise GraphBreak(FL0102, what="copyreg._slotnames() of something that is no class")
    cls.note(tracer)
    found = class_lookup(tracer, cls.concrete, "__slots__")
    names: list[Any] = []
    if found is not None:
        if type(found.raw) is list:  # one that may change, and that guards cannot hold
            for name in py.items(tracer, tracer.wrap(found.raw, found.source)):
                tracer.constant(name)
        else:
            found.note_identity(tracer)
        note_mro(tracer, cls.concrete, len(mro_of(cls.concrete)))
        names = [name for base in mro_of(cls.concrete) for name in _own_slots(base)]
    kept = own_entries(cls.concrete).get("__slotnames__", names)
    if type(kept) is not list or [*map(type, kept)] != [str] * len(kept) or kept != names:
        raise GraphBreak(FL0102, what=f"copyreg._slotnames() of {cls.describe()}, which has names of its own")
    return ListValue(names)


def _own_slots(cls: type) -> list[str]:
    given = own_entries(cls).get("__slots__", ())
    names = [given] if type(given) is str else given
    if type(names) not in (list, tuple) or any(type(name) is not str for name in names):
        raise GraphBreak(FL0102, what=f"copyreg._slotnames() of {name_of(cls)}")
    return [_mangled(cls, name) for name in names if name not in ("__dict__", "__weakref__")]


def _mangled(cls: type, name: str) -> str:
    stripped = name_of(cls).lstrip("_")
    is_private = name.startswith("__") and not name.endswith("__") and stripped
    return f"_{stripped}{name}" if is_private else name
