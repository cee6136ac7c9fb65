"""`types.SimpleNamespace`: instances are a namespace and nothing else."""

from __future__ import annotations

import types
from typing import TYPE_CHECKING, Any

from framelift.values.core import protocol as py
from framelift.values.core.exceptions import raise_error
from framelift.values.core.lookup import name_of, raw_lookup
from framelift.values.core.primitives import primitive
from framelift.values.objects.instances import UserObjectValue

if TYPE_CHECKING:
    from framelift.capture.lift import Lift
    from framelift.residual.generator import Generator


class SimpleNamespaceValue(UserObjectValue, models=types.SimpleNamespace):
    """A namespace with a text and an equality."""

    __slots__ = ()

    def default(self, name: str) -> Any:
        return raw_lookup(types.SimpleNamespace, name)

    def get_slot(self, lift: Lift, descriptor: Any) -> Any:
        return self.namespace(lift) if descriptor.__name__ == "__dict__" else super().get_slot(lift, descriptor)

    def compare(self, lift: Lift, operator: str, other: Any) -> Any:
        if operator not in ("==", "!=") or not isinstance(other, SimpleNamespaceValue):
            return NotImplemented
        return py.compare(lift, operator, self.namespace(lift), other.namespace(lift))

    def key(self, lift: Lift) -> Any:
        raise_error(TypeError, f"unhashable type: '{name_of(self.cls)}'")

    def text(self, lift: Lift, conversion: str) -> str:
        namespace = self.namespace(lift)
        assert namespace is not None
        shown = (f"{lift.constant(key)}={lift.text(value, 'repr')}" for key, value in namespace.entries(lift).items())
        return f"namespace({', '.join(shown)})"

    def rebuild_new(self, generate: Generator) -> None:
        generate.callable(types.SimpleNamespace)
        generate.call(0)
        generate.remember(self)


@primitive(types.SimpleNamespace)
def _simple_namespace(lift: Lift, **attributes: Any) -> Any:
    made = SimpleNamespaceValue(types.SimpleNamespace)
    namespace = made.namespace(lift)
    assert namespace is not None
    for name, value in attributes.items():
        namespace.set_key(lift, name, value)
    return made
