"""Exceptions that the program made are objects: they have attributes, and what their classes define."""

from __future__ import annotations

import types
from typing import TYPE_CHECKING, Any

from framelift.breaks import FL0203, GraphBreak
from framelift.values.containers.namespaces import NamespaceValue
from framelift.values.core import protocol as py
from framelift.values.core.construct import make_tuple
from framelift.values.core.exceptions import ExceptionValue, TracebackValue, raise_error
from framelift.values.core.lookup import class_lookup, name_of, special_method
from framelift.values.core.refusals import Operation
from framelift.values.objects import attributes

if TYPE_CHECKING:
    from framelift.values.core.emitter import Emitter
    from framelift.values.core.tracer import Tracer

_WRITTEN_IN_C = (types.WrapperDescriptorType, types.MethodDescriptorType)


class ExceptionObjectValue(ExceptionValue, role="exception"):
    """An exception instance with the attributes and methods of its class."""

    __slots__ = ()
    _namespace: NamespaceValue | None

    def namespace(self, tracer: Tracer) -> NamespaceValue:
        if self._namespace is None:
            self._namespace = NamespaceValue(self)
        return self._namespace

    def attribute(self, tracer: Tracer, name: str) -> Any:
        if name == "value" and issubclass(self.cls, StopIteration):
            return self.args[0] if self.args else None
        if name == "code" and issubclass(self.cls, SystemExit):
            return self.args[0] if len(self.args) == 1 else make_tuple(self.args) if self.args else None
        return attributes.read(tracer, self, name)

    def set_attribute(self, tracer: Tracer, name: str, value: Any) -> None:
        self._refuse_own(tracer, "__setattr__")
        attributes.write(tracer, self, name, value)

    def delete_attribute(self, tracer: Tracer, name: str) -> None:
        self._refuse_own(tracer, "__delattr__")
        attributes.delete(tracer, self, name)

    def get_computed(self, tracer: Tracer, descriptor: Any) -> Any:
        """An attribute that C code computes."""
        name = descriptor.__name__
        if name == "args":
            return make_tuple(self.args)
        if name == "__cause__":
            return self.cause
        if name == "__context__":
            return tracer.handled_outside() if self.context is None and self.traceback is not None else self.context
        if name == "__traceback__":
            return self.traceback
        if name == "__dict__":
            return self.namespace(tracer)
        if name == "__class__":
            return tracer.known_object(self.cls)
        raise GraphBreak(FL0203, type=name_of(self.cls), name=name)

    def set_computed(self, tracer: Tracer, name: str, value: Any) -> None:
        tracer.journal.touch(self)
        if name == "args" and self.given is None:
            self.args = tuple(py.items(tracer, value))
        elif name == "__cause__" and (value is None or isinstance(value, ExceptionValue)):
            self.cause, self.suppress_context = value, True
        elif name == "__context__" and (value is None or isinstance(value, ExceptionValue)):
            self.context = value
        elif name == "__traceback__" and (value is None or isinstance(value, TracebackValue)):
            self.traceback = value
        elif name in _HISTORY and not issubclass(tracer.type_of(value), _HISTORY[name][0]):
            raise_error(TypeError, _HISTORY[name][1])
        else:
            self.refuse(Operation.SET, name=name)

    def _refuse_own(self, tracer: Tracer, *names: str) -> None:
        """Leave operations to Python for which the class has methods of its own."""
        for name in names:
            if has_own(tracer, self.cls, name):
                self.refuse(f"its own {name}")

    def truth(self, tracer: Tracer) -> bool:
        self._refuse_own(tracer, "__bool__", "__len__")
        return True

    def compare(self, tracer: Tracer, operator: str, other: Any) -> Any:
        self._refuse_own(tracer, "__eq__", "__ne__")
        return super().compare(tracer, operator, other)

    def key(self, tracer: Tracer) -> Any:
        self._refuse_own(tracer, "__hash__", "__eq__")
        return super().key(tracer)

    def format(self, tracer: Tracer, spec: Any) -> str:
        self._refuse_own(tracer, "__format__")
        return super().format(tracer, spec)

    def text(self, tracer: Tracer, conversion: str) -> str:
        method = own_text(tracer, self, conversion)
        if method is not None:
            return method
        return self.plain_text(tracer, conversion)


# What these attributes take besides None, and what is said of anything else.
_HISTORY: dict[str, tuple[type, str]] = {
    "__cause__": (BaseException, "exception cause must be None or derive from BaseException"),
    "__context__": (BaseException, "exception context must be None or derive from BaseException"),
    "__traceback__": (types.TracebackType, "__traceback__ must be a traceback or None"),
}


class ExceptionGroupValue(ExceptionObjectValue):
    """A group of exceptions the program made; what it does with them is in `models/exceptions.py`."""

    __slots__ = ("message", "exceptions")

    def __init__(self, cls: type[BaseException], args: tuple[Any, ...], message: Any, exceptions: Any) -> None:
        super().__init__(cls, args)
        self.message = message
        self.exceptions = exceptions

    def get_slot(self, tracer: Tracer, descriptor: Any) -> Any:
        if descriptor.__name__ in ("message", "exceptions"):
            return getattr(self, descriptor.__name__)
        return super().get_slot(tracer, descriptor)

    def plain_text(self, tracer: Tracer, conversion: str) -> str:
        if conversion == "repr":
            return super().plain_text(tracer, conversion)
        count = len(py.items(tracer, self.exceptions))
        return f"{tracer.text(self.message, 'str')} ({count} sub-exception{'s' if count != 1 else ''})"

    def parts(self) -> list[Any]:
        return [*self.args, self.message, self.exceptions]

    def rebuild(self, emit: Emitter) -> None:
        self.refuse_history()
        emit.known_object(BaseExceptionGroup)
        emit.load_method("__new__")
        emit.known_object(self.cls)
        emit.value(self.message)
        emit.value(self.exceptions)
        emit.call(3)
        emit.remember(self)
        emit.copy_top()
        for argument in self.args:
            emit.value(argument)
        emit.build_tuple(len(self.args))
        emit.swap()
        emit.store_attribute("args")
        if self._namespace is not None:
            emit.fill_namespace(self._namespace)


def has_own(tracer: Tracer, cls: type, name: str) -> bool:
    """Whether a class has a method that no type of C brought."""
    found = class_lookup(tracer, cls, name)
    if found is None or type(found.raw) not in _WRITTEN_IN_C:
        return found is not None
    found.note_identity(tracer)
    return False


def own_text(tracer: Tracer, value: Any, conversion: str) -> str | None:
    """What the `__str__` or `__repr__` of an exception class written in Python gives; None where it has none."""
    name = "__repr__" if conversion == "repr" else "__str__"
    if not has_own(tracer, value.cls, name):
        return None
    text: str = tracer.constant(py.call(tracer, special_method(tracer, value, value.cls, name), [], {}))
    return text
