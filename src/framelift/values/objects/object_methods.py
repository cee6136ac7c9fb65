"""The methods every object and every exception inherits from C: `object.__new__`, `BaseException.__init__` …"""

from __future__ import annotations

import sys
import traceback
import types
import typing
from typing import TYPE_CHECKING, Any

from framelift.breaks import FL0102, FL0102_ARGUMENTS, FL0102_OPERAND, GraphBreak
from framelift.values.core import protocol as py
from framelift.values.core.constants import is_constant
from framelift.values.core.construct import bound_method, make_tuple
from framelift.values.core.exceptions import FROM_ARGUMENTS, ExceptionValue, TracebackValue, made_from, raise_error
from framelift.values.core.lookup import is_fixed, is_subclass, name_of
from framelift.values.core.primitives import primitive
from framelift.values.core.stand_ins import raise_what, stand_in
from framelift.values.objects.classes import ClassValue, attribute_name, init_instance, make_instance
from framelift.values.objects.exceptions import ExceptionGroupValue, ExceptionObjectValue
from framelift.values.objects.instances import UserObjectValue

if TYPE_CHECKING:
    from framelift.values.core.tracer import Tracer


@primitive(object.__getattribute__)
def _object_getattribute(tracer: Tracer, obj: Any, name: Any, /) -> Any:
    if isinstance(obj, UserObjectValue):
        return obj.plain_attribute(tracer, tracer.constant(name))
    return py.attribute(tracer, obj, tracer.constant(name))


@primitive(type.__getattribute__)
def _type_getattribute(tracer: Tracer, cls: Any, name: Any, /) -> Any:
    if not isinstance(cls, ClassValue):
        raise GraphBreak(FL0102, what=f"type.__getattribute__ on {py.describe(cls)}")
    cls.note(tracer)
    return cls.plain_attribute(tracer, attribute_name(tracer, name))


@primitive(object.__setattr__)
def _object_setattr(tracer: Tracer, obj: Any, name: Any, value: Any, /) -> None:
    if not isinstance(obj, UserObjectValue):
        raise GraphBreak(FL0102, what=f"object.__setattr__ on {py.describe(obj)}")
    obj.plain_set_attribute(tracer, attribute_name(tracer, name), value)


@primitive(object.__delattr__)
def _object_delattr(tracer: Tracer, obj: Any, name: Any, /) -> None:
    if not isinstance(obj, UserObjectValue):
        raise GraphBreak(FL0102, what=f"object.__delattr__ on {py.describe(obj)}")
    obj.plain_delete_attribute(tracer, attribute_name(tracer, name))


@primitive(object.__new__)
def _object_new(tracer: Tracer, cls: Any, /, *args: Any, **kwargs: Any) -> Any:
    if not isinstance(cls, ClassValue):
        raise_what(object.__new__, stand_in(py.type_of(cls)))
    cls.note(tracer)
    return make_instance(tracer, cls.concrete, args, kwargs)


@primitive(object.__init__)
def _object_init(tracer: Tracer, obj: Any, /, *args: Any, **kwargs: Any) -> None:
    init_instance(tracer, obj, args, kwargs)


@primitive(object)
def _object(tracer: Tracer) -> Any:
    return make_instance(tracer, object)


@primitive(BaseException.__new__)
def _exception_new(tracer: Tracer, cls: Any, /, *args: Any, **kwargs: Any) -> Any:
    if not isinstance(cls, ClassValue) or not issubclass(cls.concrete, BaseException):
        raise GraphBreak(FL0102_OPERAND, what="BaseException.__new__", operand=py.describe(cls))
    cls.note(tracer)
    return ExceptionObjectValue(cls.concrete, args)


@primitive(BaseException.__init__)
def _exception_init(tracer: Tracer, exception: Any, /, *args: Any, **kwargs: Any) -> None:
    if not isinstance(exception, ExceptionValue):
        raise GraphBreak(FL0102_OPERAND, what="BaseException.__init__", operand=py.describe(exception))
    if kwargs:
        raise GraphBreak(FL0102, what=f"{exception.cls.__qualname__} with keywords")
    tracer.journal.touch(exception)
    exception.args = args


@primitive(BaseException.__str__)
def _exception_str(tracer: Tracer, exception: Any, /) -> Any:
    return exception.plain_text(tracer, "str")


@primitive(BaseException.__repr__)
def _exception_repr(tracer: Tracer, exception: Any, /) -> Any:
    return exception.plain_text(tracer, "repr")


@primitive(BaseException.with_traceback)
def _with_traceback(tracer: Tracer, exception: Any, traceback: Any, /) -> Any:
    exception.set_computed(tracer, "__traceback__", traceback)
    return exception


@primitive(traceback.clear_frames)
def _clear_frames(tracer: Tracer, tb: Any, /) -> Any:
    if not isinstance(tb, TracebackValue):
        raise GraphBreak(FL0102, what="traceback.clear_frames() of a traceback from outside")
    # The frames it leads to are over, or run now and are left alone: nothing they hold can be reached any more.


@primitive(sys.exc_info)
def _exc_info(tracer: Tracer) -> Any:
    handled = tracer.handled_exception()
    if handled is None:
        return (None, None, None)
    return make_tuple([tracer.known_object(tracer.type_of(handled)), handled, handled.trace(tracer)])


@primitive(sys.exception)
def _exception(tracer: Tracer) -> Any:
    return tracer.handled_exception()


@primitive(typing.NewType.__call__)
def _new_type(tracer: Tracer, value: Any, /) -> Any:
    return value  # C code that is not bound


@primitive(types.MethodType)
def _method(tracer: Tracer, function: Any, instance: Any, /) -> Any:
    if not py.truth(tracer, py.call(tracer, tracer.known_object(callable), [function], {})):
        raise_what(types.MethodType, None, None)
    if instance is None:
        raise_what(types.MethodType, len, None)
    return bound_method(function, instance)


def _builtin_subclasses(cls: type[BaseException]) -> list[type[BaseException]]:
    return [sub for sub in cls.__subclasses__() if is_fixed(sub) and sub.__module__ == "builtins"]


_NOT_PLAIN = (*FROM_ARGUMENTS, BaseExceptionGroup)


def _register_exceptions() -> None:
    """The exception classes whose instances are their arguments and nothing else."""
    pending: list[type[BaseException]] = [BaseException]
    while pending:
        cls = pending.pop()
        pending += [sub for sub in _builtin_subclasses(cls) if sub not in _NOT_PLAIN]
        for name, model in (("__new__", _exception_new), ("__init__", _exception_init)):
            if name in cls.__dict__ and cls is not BaseException:
                primitive(cls.__dict__[name])(model)


_register_exceptions()


def _new_from_arguments(tracer: Tracer, cls: Any, /, *args: Any, **kwargs: Any) -> Any:
    if not isinstance(cls, ClassValue) or kwargs or not all(map(is_constant, args)):
        raise GraphBreak(FL0102_ARGUMENTS, what=py.describe(cls))
    cls.note(tracer)
    return made_from(cls.concrete, args)


def _init_from_arguments(tracer: Tracer, exception: Any, /, *args: Any, **kwargs: Any) -> None:
    if not isinstance(exception, ExceptionValue) or kwargs or not all(map(is_constant, args)):
        raise GraphBreak(FL0102_ARGUMENTS, what=f"{py.describe(exception)}.__init__")
    if exception.given is not None:
        if args != exception.given:
            raise GraphBreak(FL0102, what=f"{py.describe(exception)}.__init__ with other arguments")
        return
    made = made_from(exception.cls, args)
    tracer.journal.touch(exception)
    exception.args, exception.given = made.args, made.given


def _register_from_arguments() -> None:
    pending: list[type[BaseException]] = [*FROM_ARGUMENTS]
    while pending:
        cls = pending.pop()
        pending += _builtin_subclasses(cls)
        new = _new_from_arguments if issubclass(cls, OSError) else _exception_new
        for name, model in (("__new__", new), ("__init__", _init_from_arguments)):
            if name in cls.__dict__:
                primitive(cls.__dict__[name])(model)


_register_from_arguments()


@primitive(BaseExceptionGroup.__new__)
def _group_new(tracer: Tracer, cls: Any, message: Any, exceptions: Any, /) -> Any:
    if not isinstance(cls, ClassValue) or py.type_of(message) is not str or not py.has_type(exceptions, list, tuple):
        raise GraphBreak(FL0102_ARGUMENTS, what=py.describe(cls))
    cls.note(tracer)
    kind, inner = cls.concrete, py.items(tracer, exceptions)
    if not inner:
        raise_what(BaseExceptionGroup, "", [])
    for position, error in enumerate(inner):
        if not is_subclass(py.type_of(error), BaseException):
            raise_what(BaseExceptionGroup, "", [*[Exception()] * position, None])
    are_ordinary = all(is_subclass(tracer.type_of(error), Exception) for error in inner)
    if kind is BaseExceptionGroup and are_ordinary:
        kind = ExceptionGroup
    elif is_subclass(kind, Exception) and not are_ordinary:
        what = "an ExceptionGroup" if kind is ExceptionGroup else f"'{name_of(kind)}'"
        raise_error(TypeError, f"Cannot nest BaseExceptions in {what}")
    return ExceptionGroupValue(kind, (message, exceptions), message, make_tuple(inner))


primitive(BaseExceptionGroup.__init__)(_exception_init)


@primitive(type.__call__)
def _type_call(tracer: Tracer, cls: Any, /, *args: Any, **kwargs: Any) -> Any:
    return cls.instantiate(tracer, list(args), kwargs)
