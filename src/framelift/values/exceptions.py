"""Exceptions of the traced program."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NoReturn

from framelift.values.base import Raised, Value

if TYPE_CHECKING:
    from framelift.capture.lift import Lift
    from framelift.residual.generator import Generator


class ExceptionValue(Value):
    """An exception instance the program made, or that a modelled operation raised."""

    __slots__ = ("cls", "args", "cause", "context")

    def __init__(self, cls: type[BaseException], args: tuple[Any, ...]) -> None:
        super().__init__()
        self.cls = cls
        self.args = args
        self.cause: Any = None
        self.context: Any = None

    def python_type(self) -> type:
        return self.cls

    def attribute(self, lift: Lift, name: str) -> Any:
        if name == "args":
            return lift.tuple(self.args)
        if name == "value" and issubclass(self.cls, StopIteration):
            return self.args[0] if self.args else None
        if name == "__cause__":
            return self.cause
        if name == "__context__":
            return self.context
        if name == "with_traceback":
            self.refuse("with_traceback")
        return super().attribute(lift, name)

    def text(self, lift: Lift, conversion: str) -> str:
        return str_of_exception(lift, self, conversion)

    def is_same(self, lift: Lift, other: Value) -> bool:
        return self is other

    def parts(self) -> list[Any]:
        return list(self.args)

    def rebuild(self, generate: Generator) -> None:
        generate.callable(self.cls)
        for argument in self.args:
            generate.value(argument)
        generate.call(len(self.args))

    def describe(self) -> str:
        return f"{self.cls.__name__}({', '.join(map(repr, self.args))})"


def str_of_exception(lift: Lift, exception: ExceptionValue, conversion: str) -> str:
    args = [lift.constant(argument) for argument in exception.args]
    instance = exception.cls(*args)
    return repr(instance) if conversion == "repr" else str(instance)


def raise_error(cls: type[BaseException], *args: Any) -> NoReturn:
    """Raise `cls(*args)` in the traced program."""
    raise Raised(ExceptionValue(cls, args))


def raised_from(error: BaseException) -> Raised:
    """The traced program's form of an exception that an operation on constants raised."""
    return Raised(ExceptionValue(type(error), error.args))
