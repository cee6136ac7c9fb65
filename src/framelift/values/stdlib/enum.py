"""Members of enumerations: fixed objects, with a name and a value; perhaps numbers or strings at the same time."""

from __future__ import annotations

import enum
from typing import TYPE_CHECKING, Any

from framelift.values.core.base import KnownObject
from framelift.values.core.lookup import has_default
from framelift.values.objects.instances import UserObjectValue
from framelift.values.subclasses.scalars import ScalarObjectValue

if TYPE_CHECKING:
    from framelift.values.core.tracer import Tracer


class EnumValue(KnownObject, ScalarObjectValue):
    """A member, guarded by identity."""

    __slots__ = ()

    def key(self, tracer: Tracer) -> Any:
        if has_default(tracer, self.cls, "__hash__", enum.Enum.__hash__) and has_default(
            tracer, self.cls, "__eq__", object.__eq__
        ):
            return super(UserObjectValue, self).key(tracer)
        return super().key(tracer)
