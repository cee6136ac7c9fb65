"""Python modules: namespaces reached by import or through a global."""

from __future__ import annotations

import types
from typing import TYPE_CHECKING, Any, NoReturn

from framelift.breaks import FL0202, GraphBreak
from framelift.values.containers.dicts import MISSING, DictValue
from framelift.values.core import protocol as py
from framelift.values.core.base import Value
from framelift.values.core.exceptions import raise_error
from framelift.values.core.lookup import name_of, raw_lookup
from framelift.values.core.methods import ModelMethodValue
from framelift.values.core.refusals import Operation
from framelift.values.objects import attributes
from framelift.values.objects.instances import UserObjectValue

if TYPE_CHECKING:
    from framelift.values.core.tracer import Tracer


_NAMES: Any = vars(types.ModuleType)["__dict__"].__get__


def _variables(tracer: Tracer, module: types.ModuleType) -> DictValue:
    if _NAMES(module) is None:
        raise GraphBreak(FL0202, type="a module that was not initialised")
    return tracer.module_namespace(module)


def _raise_missing(module: Value, name: str) -> NoReturn:
    own = vars(module.concrete).get("__name__")
    raise_error(AttributeError, f"module{f' {own!r}' if isinstance(own, str) else ''} has no attribute '{name}'")


class PyModuleValue(Value, models=types.ModuleType):
    """A module, guarded by identity; its attributes are read from its dictionary."""

    __slots__ = ()

    def default(self, name: str) -> Any:
        return raw_lookup(types.ModuleType, name)

    def note_facts(self, tracer: Tracer) -> None:
        assert self.source is not None
        tracer.guard(self.source, "IS", self.concrete)

    def namespace(self, tracer: Tracer) -> DictValue:
        """Its dictionary; a class of its own may do anything with attributes."""
        if type(self.concrete) is not types.ModuleType:
            raise GraphBreak(FL0202, type=name_of(type(self.concrete)))
        return _variables(tracer, self.concrete)

    def attribute(self, tracer: Tracer, name: str) -> Any:
        namespace = self.namespace(tracer)
        if name == "__dict__":
            return namespace
        if name == "__class__":
            return tracer.known_object(types.ModuleType)
        found = namespace.get_key(tracer, name)
        if found is not MISSING:
            return found
        if name == "__getattribute__":
            return ModelMethodValue(self, name, lambda attribute: self.attribute(tracer, tracer.constant(attribute)))
        if raw_lookup(types.ModuleType, name) is not NotImplemented:  # annotations are made when they are asked for
            self.refuse(f"attribute {name}")
        fallback = namespace.get_key(tracer, "__getattr__")
        if fallback is not MISSING:
            return py.call(tracer, fallback, [name], {})
        _raise_missing(self, name)

    def set_attribute(self, tracer: Tracer, name: str, value: Any) -> None:
        self._refuse_own(name)
        self.namespace(tracer).set_key(tracer, name, value)

    def delete_attribute(self, tracer: Tracer, name: str) -> None:
        self._refuse_own(name)
        namespace = self.namespace(tracer)
        if namespace.get_key(tracer, name) is MISSING:
            self.refuse(f"deletion of the missing attribute {name!r}")
        namespace.delete_key(tracer, name)

    def _refuse_own(self, name: str) -> None:
        if name in ("__dict__", "__class__", "__annotations__"):
            self.refuse(Operation.SET, name=name)

    def describe(self) -> str:
        return f"module {(_NAMES(self.concrete) or {}).get('__name__', 'without a name')}"


class ModuleObjectValue(UserObjectValue):
    """An instance of a subclass of the module type: an object whose namespace is that of the module."""

    __slots__ = ()

    def namespace(self, tracer: Tracer) -> DictValue:
        return _variables(tracer, self.concrete)

    def raise_missing(self, name: str) -> NoReturn:
        _raise_missing(self, name)

    def attribute(self, tracer: Tracer, name: str) -> Any:
        if raw_lookup(self.cls, "__getattribute__") is not types.ModuleType.__getattribute__:
            return super().attribute(tracer, name)
        return self._with_fallback(tracer, name, attributes.find)

    def default(self, name: str) -> Any:
        return raw_lookup(types.ModuleType, name)

    def note_facts(self, tracer: Tracer) -> None:
        assert self.source is not None
        tracer.guard(self.source, "IS", self.concrete)
