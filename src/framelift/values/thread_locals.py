"""`threading.local`: attributes that each thread has for itself. Guards look at those of the thread that calls."""

from __future__ import annotations

import threading
from typing import TYPE_CHECKING, Any

from framelift.values import protocol as py
from framelift.values.base import Value
from framelift.values.dicts import MISSING, DictValue
from framelift.values.exceptions import raise_error
from framelift.values.lookup import raw_lookup

if TYPE_CHECKING:
    from framelift.capture.lift import Lift

_NAME = f"{threading.local.__module__}.{threading.local.__qualname__}"


class ThreadLocalValue(Value, models=threading.local):
    """One that existed before the frame; of the very class, whose threads begin with nothing."""

    __slots__ = ()

    def namespace(self, lift: Lift) -> DictValue:
        """The attributes of this thread."""
        assert self.source is not None
        namespace: DictValue = lift.wrap(self.concrete.__dict__, self.source.child("THREAD_DICT"))
        return namespace

    def attribute(self, lift: Lift, name: str) -> Any:
        if name == "__dict__":
            return self.namespace(lift)
        if name == "__class__":
            return lift.known_object(threading.local)
        found = self.namespace(lift).get_key(lift, name)
        if found is not MISSING:
            return found
        if raw_lookup(threading.local, name) is not NotImplemented:
            self.refuse(f"attribute {name!r}")
        raise_error(AttributeError, f"'{_NAME}' object has no attribute '{name}'")

    def set_attribute(self, lift: Lift, name: str, value: Any) -> None:
        if raw_lookup(threading.local, name) is not NotImplemented:
            self.refuse(f"assignment of attribute {name!r}")
        py.set_item(lift, self.namespace(lift), name, value)

    def delete_attribute(self, lift: Lift, name: str) -> None:
        if self.namespace(lift).get_key(lift, name) is MISSING:
            raise_error(AttributeError, f"'{_NAME}' object has no attribute '{name}'")
        py.delete_item(lift, self.namespace(lift), name)
