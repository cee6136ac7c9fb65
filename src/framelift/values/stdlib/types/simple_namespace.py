"""`types.SimpleNamespace`: instances are a namespace and nothing else."""

from __future__ import annotations

import types
from typing import TYPE_CHECKING, Any

from framelift.values.core import protocol as py
from framelift.values.core.lookup import raw_lookup
from framelift.values.core.primitives import primitive
from framelift.values.core.stand_ins import raise_unhashable
from framelift.values.objects.instances import UserObjectValue

if TYPE_CHECKING:
    from framelift.values.core.emitter import Emitter
    from framelift.values.core.tracer import Tracer


class SimpleNamespaceValue(UserObjectValue, models=types.SimpleNamespace):
    """A namespace with a text and an equality."""

    __slots__ = ()

    def default(self, name: str) -> Any:
        return raw_lookup(types.SimpleNamespace, name)

    def get_slot(self, tracer: Tracer, descriptor: Any) -> Any:
        return self.namespace(tracer) if descriptor.__name__ == "__dict__" else super().get_slot(tracer, descriptor)

    def compare(self, tracer: Tracer, operator: str, other: Any) -> Any:
        if operator not in ("==", "!=") or not isinstance(other, SimpleNamespaceValue):
            return NotImplemented
        return py.compare(tracer, operator, self.namespace(tracer), other.namespace(tracer))

    def key(self, tracer: Tracer) -> Any:
        raise_unhashable(self.cls)

    def text(self, tracer: Tracer, conversion: str) -> str:
        namespace = self.namespace(tracer)
        assert namespace is not None
        shown = (
            f"{tracer.constant(key)}={tracer.text(value, 'repr')}" for key, value in namespace.entries(tracer).items()
        )
        return f"namespace({', '.join(shown)})"

    def rebuild_new(self, emit: Emitter) -> None:
        emit.callable(types.SimpleNamespace)
        emit.call(0)
        emit.remember(self)


@primitive(types.SimpleNamespace)
def _simple_namespace(tracer: Tracer, **attributes: Any) -> Any:
    made = SimpleNamespaceValue(types.SimpleNamespace)
    namespace = made.namespace(tracer)
    assert namespace is not None
    for name, value in attributes.items():
        namespace.set_key(tracer, name, value)
    return made
