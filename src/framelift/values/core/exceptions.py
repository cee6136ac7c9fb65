"""Exceptions of the traced program."""

from __future__ import annotations

import functools
import types
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, NoReturn, Protocol

from framelift.breaks import FL0107, FL0203, GraphBreak
from framelift.values.core.base import Exhausted, Raised, Value
from framelift.values.core.construct import from_constant, make_tuple

if TYPE_CHECKING:
    from framelift.values.core.emitter import Emitter
    from framelift.values.core.tracer import Tracer

_name_of = type.__dict__["__name__"].__get__
_mro_of = type.__dict__["__mro__"].__get__
_flags_of = type.__dict__["__flags__"].__get__
_HEAPTYPE = 1 << 9


class Namespace(Protocol):
    """The `__dict__` of an object."""

    def get_key(self, tracer: Tracer, key: Any) -> Any: ...

    def set_key(self, tracer: Tracer, key: Any, value: Any) -> None: ...


class ExceptionValue(Value):
    """An exception instance the program made, or that a modelled operation raised."""

    __slots__ = (
        "cls",
        "args",
        "cause",
        "context",
        "suppress_context",
        "traceback",
        "given",
        "_namespace",
        "real",
        "missing",
    )
    assigns = ("args", "cause", "context", "suppress_context", "traceback", "given")

    def __init__(self, cls: type[BaseException], args: tuple[Any, ...]) -> None:
        super().__init__()
        self.cls = cls
        self.args = args
        self.cause: Any = None
        self.context: Any = None
        self.suppress_context = False
        self.traceback: TracebackValue | None = None
        # The constants it was made of, where its class makes attributes of them.
        self.given: tuple[Any, ...] | None = None
        # The exception that an operation on constants raised: it may know more than its arguments say.
        self.real: BaseException | None = None
        self._namespace: Namespace | None = None
        # What was looked for in vain: `name`, and the `obj` it was looked for in.
        self.missing: dict[str, Any] = {}

    def python_type(self) -> type:
        return self.cls

    def be_thrown(self, tracer: Tracer) -> None:
        """It is thrown at a generator: unlike `raise`, that gives it no context."""
        if self.traceback is None:
            tracer.journal.touch(self)
            self.traceback = TracebackValue(tracer.steps.count)

    # -- attributes ----------------------------------------------------------------------------------------------

    def namespace(self, tracer: Tracer) -> Namespace:
        if self._namespace is None:
            self._namespace = tracer.fresh_namespace(self)
        return self._namespace

    def attribute(self, tracer: Tracer, name: str) -> Any:
        if name == "value" and issubclass(self.cls, StopIteration):
            return self.args[0] if self.args else None
        if name == "code" and issubclass(self.cls, SystemExit):
            return self.args[0] if len(self.args) == 1 else make_tuple(self.args) if self.args else None
        return tracer.instance_attribute(self, name)

    def set_attribute(self, tracer: Tracer, name: str, value: Any) -> None:
        self._refuse_own(tracer, "__setattr__")
        tracer.set_instance_attribute(self, name, value)

    def delete_attribute(self, tracer: Tracer, name: str) -> None:
        self._refuse_own(tracer, "__delattr__")
        tracer.delete_instance_attribute(self, name)

    def _refuse_own(self, tracer: Tracer, *names: str) -> None:
        """Leave operations to Python for which the class has methods of its own."""
        for name in names:
            if tracer.has_own(self.cls, name):
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

    def get_slot(self, tracer: Tracer, descriptor: Any) -> Any:
        if descriptor.__name__ == "__suppress_context__":
            return self.suppress_context
        if descriptor.__name__ in self.missing and descriptor.__objclass__ in (AttributeError, NameError):
            return self.missing[descriptor.__name__]
        if self.given is None:
            self.refuse(f"attribute {descriptor.__name__!r}")
        return from_constant(tracer, descriptor.__get__(self._sample()))

    def _sample(self) -> BaseException:
        """A real exception with the attributes that this one has from its arguments."""
        if self.real is not None:
            return self.real
        assert self.given is not None
        sample: BaseException = _base_in_c(self.cls)(*self.given)
        return sample

    def set_slot(self, tracer: Tracer, descriptor: Any, value: Any) -> None:
        if descriptor.__name__ != "__suppress_context__":
            self.refuse(f"assignment of attribute {descriptor.__name__!r}")
        tracer.journal.touch(self)
        self.suppress_context = bool(tracer.constant(value))

    def delete_slot(self, tracer: Tracer, descriptor: Any) -> None:
        self.refuse(f"deletion of attribute {descriptor.__name__!r}")

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
        raise GraphBreak(FL0203, type=_name_of(self.cls), name=name)

    def set_computed(self, tracer: Tracer, name: str, value: Any) -> None:
        tracer.journal.touch(self)
        if name == "args" and self.given is None:
            self.args = tuple(tracer.items(value))
        elif name == "__cause__" and (value is None or isinstance(value, ExceptionValue)):
            self.cause, self.suppress_context = value, True
        elif name == "__context__" and (value is None or isinstance(value, ExceptionValue)):
            self.context = value
        elif name == "__traceback__" and (value is None or isinstance(value, TracebackValue)):
            self.traceback = value
        elif name in _HISTORY and not issubclass(tracer.type_of(value), _HISTORY[name][0]):
            raise_error(TypeError, _HISTORY[name][1])
        else:
            self.refuse(f"assignment of {name}")

    # -- text ----------------------------------------------------------------------------------------------------

    def format(self, tracer: Tracer, spec: Any) -> str:
        self._refuse_own(tracer, "__format__")
        return super().format(tracer, spec)

    def text(self, tracer: Tracer, conversion: str) -> str:
        method = tracer.own_text_method(self, conversion)
        if method is not None:
            return method
        return self.plain_text(tracer, conversion)

    def plain_text(self, tracer: Tracer, conversion: str) -> str:
        """`BaseException.__str__` or `__repr__`, or what the C base class makes of them."""
        if conversion == "str" and self.given is not None and not _says_arguments(_base_in_c(self.cls)):
            return str(self._sample())
        return plain_text(tracer, self.cls, self.args, conversion)

    def trace(self, tracer: Tracer) -> Any:
        """Its traceback."""
        return self.traceback

    def leave_frame(self) -> None:
        """Go on to the caller of the frame that raised it."""

    # -- change and the way back ----------------------------------------------------------------------------------

    def parts(self) -> list[Any]:
        return list(self.args)

    def rebuild(self, emit: Emitter) -> None:
        is_exact = self.given is not None and self.real is None and _base_in_c(self.cls) is self.cls
        self.refuse_history()
        if not (is_exact or _can_be_made(self.cls)):
            raise GraphBreak(FL0107, what=self.describe())
        if is_exact:
            emit.callable(self.cls)
        else:
            emit.known_object(BaseException)
            emit.load_method("__new__")
            emit.known_object(self.cls)
        arguments = self.args if self.given is None else self.given
        for argument in arguments:
            emit.value(argument)
        emit.call(len(arguments) + (not is_exact))
        emit.remember(self)
        if self._namespace is not None:
            emit.fill_namespace(self._namespace)

    def refuse_history(self) -> None:
        """A traceback could not be made again, and what belongs to one that was raised is not worth the code."""
        if not (self.traceback is self.cause is self.context is None) or self.suppress_context:
            born = 1 if self.traceback is None else self.traceback.born
            raise GraphBreak(FL0107, what=self.describe(), born=born)

    def is_same(self, tracer: Tracer, other: Value) -> bool:
        return self is other

    def describe(self) -> str:
        return f"{_name_of(self.cls)}({', '.join(map(repr, self.args))})"


# What these attributes take besides None, and what is said of anything else.
_HISTORY: dict[str, tuple[type, str]] = {
    "__cause__": (BaseException, "exception cause must be None or derive from BaseException"),
    "__context__": (BaseException, "exception context must be None or derive from BaseException"),
    "__traceback__": (types.TracebackType, "__traceback__ must be a traceback or None"),
}


class ExceptionGroupValue(ExceptionValue):
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
        count = len(tracer.items(self.exceptions))
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


class TracebackValue(Value):
    """A traceback: it exists, and that is all that is known about it.

    Where it leads is not modelled: an exception that leaves the captured frame is raised again by Python.
    """

    __slots__ = ("born",)

    def __init__(self, born: int) -> None:
        super().__init__()
        # The instruction of the outermost frame that raised the exception.
        self.born = born

    def rebuild(self, emit: Emitter) -> None:
        raise GraphBreak(FL0107, what=self.describe(), born=self.born)

    def python_type(self) -> type:
        return types.TracebackType


def plain_text(tracer: Tracer, cls: type, args: Sequence[Any], conversion: str) -> str:
    """`BaseException.__str__` or `__repr__`, or what the C base class has instead, for one made of these arguments."""
    if conversion == "repr":
        shown = ", ".join(tracer.text(argument, "repr") for argument in args)
        return f"{_name_of(cls)}({shown})"
    base = _base_in_c(cls)
    if _says_arguments(base):
        if not args:
            return ""
        if len(args) == 1:
            return tracer.text(args[0], "repr" if base is KeyError else "str")
        return tracer.text(make_tuple(args), "repr")
    plain = [tracer.constant(argument) for argument in args]
    try:
        return str(base(*plain))
    except (TypeError, ValueError) as error:
        raise GraphBreak(FL0203, type=_name_of(cls), name="__str__") from error


def _says_arguments(base: type) -> bool:
    return base.__str__ is BaseException.__str__ or base is KeyError


def _can_be_made(cls: type) -> bool:
    """Whether an instance is its arguments and its namespace: the C base class keeps nothing else."""
    return _is_made_plainly(_base_in_c(cls))


@functools.cache
def _is_made_plainly(base: type[BaseException]) -> bool:
    if base.__basicsize__ != BaseException.__basicsize__:
        return False
    try:
        BaseException.__new__(base)
    except TypeError:  # MemoryError has a way of its own
        return False
    return True


def _base_in_c(cls: type) -> type:
    base: type = next(base for base in _mro_of(cls) if not _flags_of(base) & _HEAPTYPE)
    return base


def raise_error(cls: type[BaseException], *args: Any) -> NoReturn:
    """Raise `cls(*args)` in the traced program."""
    raise Raised(ExceptionValue(cls, args))


def raise_name_error(name: str) -> NoReturn:
    """Raise what is raised where a variable is not found."""
    error = ExceptionValue(NameError, (f"name '{name}' is not defined",))
    error.missing = {"name": name}
    raise Raised(error)


def name_missing(raised: Raised, name: str, obj: Any) -> Raised:
    """An exception from looking for an attribute; an AttributeError learns which, unless it knows already."""
    error = raised.value
    if isinstance(error, ExceptionValue) and not error.missing and issubclass(error.cls, AttributeError):
        error.missing = {"name": name, "obj": obj}
    return raised


def is_raised(raised: Raised, cls: type[BaseException] | tuple[type[BaseException], ...]) -> bool:
    """Whether what the traced program raised is an exception of a class, or of one of several."""
    return isinstance(raised.value, ExceptionValue) and issubclass(raised.value.cls, cls)


def as_end(raised: Raised) -> Raised | Exhausted:
    """What code called by an iterator in C has raised, as who asks the iterator sees it: StopIteration is its end."""
    if not is_raised(raised, StopIteration):
        return raised
    return Exhausted(*raised.value.args[:1], raised=raised)


def raised_from(error: BaseException) -> Raised:
    """The traced program's form of an exception that an operation on constants raised."""
    raised = ExceptionValue(type(error), error.args)
    if isinstance(error, FROM_ARGUMENTS):
        raised.given, raised.real = error.args, error.with_traceback(None)
    return Raised(raised)


# Exceptions that make attributes of their arguments.
FROM_ARGUMENTS = (OSError, ImportError, SyntaxError, UnicodeError)


def made_from(cls: type, given: tuple[Any, ...]) -> ExceptionValue:
    """`cls(*given)` of such a class, with constants as arguments."""
    base = _base_in_c(cls)
    try:
        sample = base(*given)
    except TypeError as error:
        raise raised_from(error) from None
    # The number of an error says which OSError it is.
    made = ExceptionValue(type(sample) if cls is base else cls, sample.args)
    made.given = given
    return made


def give_context(tracer: Tracer, exception: Any) -> None:
    """What is being handled when an exception is raised is its context; a circle is cut where it would close."""
    tracer.journal.touch(exception)
    handled = tracer.handled
    if handled is None or handled is exception:
        return
    link, seen = handled, {id(handled)}
    while link.context is not None and link.context is not exception and id(link.context) not in seen:
        link = link.context
        seen.add(id(link))
    if link.context is exception:
        tracer.journal.touch(link)
        link.context = None
    exception.context = handled
