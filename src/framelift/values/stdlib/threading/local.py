"""`threading.local`: attributes that each thread has for itself. Guards look at those of the thread that calls."""

from __future__ import annotations

import threading
from typing import TYPE_CHECKING, Any

from framelift.guards.reading import attributes_of_thread
from framelift.guards.source import Source
from framelift.values.containers.dicts import MISSING, DictValue
from framelift.values.core import protocol as py
from framelift.values.core.base import Value
from framelift.values.core.lookup import is_subclass, raw_lookup
from framelift.values.core.primitives import primitive
from framelift.values.core.refusals import Operation
from framelift.values.core.stand_ins import raise_no_attribute
from framelift.values.objects.instances import UserObjectValue

if TYPE_CHECKING:
    from framelift.values.core.emitter import Emitter
    from framelift.values.core.tracer import Tracer

_NAME = f"{threading.local.__module__}.{threading.local.__qualname__}"


class ThreadLocalValue(Value, models=threading.local):
    """Of the very class, whose threads begin with nothing."""

    __slots__ = ("made",)

    def __init__(self, source: Source | None = None, concrete: Any = None) -> None:
        super().__init__(source, concrete)
        # The attributes of one that the program made.
        self.made = DictValue({}) if source is None else None

    def python_type(self) -> type:
        return threading.local

    def namespace(self, tracer: Tracer) -> DictValue:
        """The attributes of this thread."""
        if self.made is not None:
            return self.made
        assert self.source is not None
        namespace: DictValue = tracer.wrap(self.concrete.__dict__, self.source.child("THREAD_DICT"))
        return namespace

    def attribute(self, tracer: Tracer, name: str) -> Any:
        if name == "__dict__":
            if self.made is not None:
                self.refuse("attribute '__dict__', while it is new,")
            return self.namespace(tracer)
        if name == "__class__":
            return tracer.known_object(threading.local)
        found = self.namespace(tracer).get_key(tracer, name)
        if found is not MISSING:
            return found
        if raw_lookup(threading.local, name) is not NotImplemented:
            self.refuse(Operation.ATTRIBUTE, name=name)
        raise_no_attribute(threading.local, name)

    def set_attribute(self, tracer: Tracer, name: str, value: Any) -> None:
        if name == "__dict__" or raw_lookup(threading.local, name) is not NotImplemented:
            self.refuse(Operation.SET_ATTRIBUTE, name=name)
        py.set_item(tracer, self.namespace(tracer), name, value)

    def delete_attribute(self, tracer: Tracer, name: str) -> None:
        if name == "__dict__":
            self.refuse(Operation.DELETE_ATTRIBUTE, name="__dict__")
        if self.namespace(tracer).get_key(tracer, name) is MISSING:
            raise_no_attribute(threading.local, name)
        py.delete_item(tracer, self.namespace(tracer), name)

    # -- the way back ------------------------------------------------------------------------------------------------

    def parts(self) -> list[Any]:
        return [] if self.made is None else [self.made]

    def rebuild(self, emit: Emitter) -> None:
        assert self.made is not None
        emit.callable(threading.local)
        emit.call(0)
        emit.remember(self)
        for name, value in self.made.overlay.items():
            emit.value(value)
            emit.value(self)
            emit.store_attribute(name)


def is_thread_local_class(cls: type) -> bool:
    """Whether instances are thread-local and begin with nothing in each thread, as those of the very class do."""
    return is_subclass(cls, threading.local) and raw_lookup(cls, "__init__") is object.__init__


class ThreadLocalObjectValue(UserObjectValue):
    """Of a subclass, which may have methods, properties and attributes that all threads share."""

    __slots__ = ()

    def default(self, name: str) -> Any:
        return raw_lookup(threading.local, name)

    def namespace(self, tracer: Tracer) -> DictValue | None:
        if self._namespace is None:
            assert self.source is not None
            self.note(tracer)
            attributes = attributes_of_thread(self.concrete)
            self._namespace = tracer.wrap(attributes, self.source.child("THREAD_DICT"))
        return self._namespace


@primitive(threading.local)
def _make(tracer: Tracer) -> Any:
    return ThreadLocalValue()
