"""Exceptions of the traced program."""

from __future__ import annotations

import functools
import types
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, NoReturn, Protocol

from framelift.breaks import FL0107, FL0203, GraphBreak
from framelift.values.core.base import ROLES, Exhausted, Raised, Value
from framelift.values.core.construct import from_constant, make_tuple
from framelift.values.core.refusals import Operation

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

    def get_slot(self, tracer: Tracer, descriptor: Any) -> Any:
        if descriptor.__name__ == "__suppress_context__":
            return self.suppress_context
        if descriptor.__name__ in self.missing and descriptor.__objclass__ in (AttributeError, NameError):
            return self.missing[descriptor.__name__]
        if self.given is None:
            self.refuse(Operation.ATTRIBUTE, name=descriptor.__name__)
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
            self.refuse(Operation.SET_ATTRIBUTE, name=descriptor.__name__)
        tracer.journal.touch(self)
        self.suppress_context = bool(tracer.constant(value))

    def delete_slot(self, tracer: Tracer, descriptor: Any) -> None:
        self.refuse(Operation.DELETE_ATTRIBUTE, name=descriptor.__name__)

    # -- text ----------------------------------------------------------------------------------------------------

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
    raise Raised(ROLES["exception"](cls, args))


def raise_name_error(name: str) -> NoReturn:
    """Raise what is raised where a variable is not found."""
    error = ROLES["exception"](NameError, (f"name '{name}' is not defined",))
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
    raised = ROLES["exception"](type(error), error.args)
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
    made: ExceptionValue = ROLES["exception"](type(sample) if cls is base else cls, sample.args)
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
