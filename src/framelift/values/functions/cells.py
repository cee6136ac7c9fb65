"""Cells: variables shared between a function and the functions defined in it."""

from __future__ import annotations

from types import CellType
from typing import TYPE_CHECKING, Any

from framelift.guards.source import Source
from framelift.values.core.base import Value
from framelift.values.core.refusals import Operation
from framelift.values.core.stand_ins import raise_what

if TYPE_CHECKING:
    from framelift.values.core.emitter import Emitter
    from framelift.values.core.tracer import Tracer

EMPTY: Any = object()
_UNREAD: Any = object()


class CellValue(Value, models=type((lambda x: lambda: x)(0).__closure__[0])):  # type: ignore[index]
    """A cell the program made, or a cell of an input function's closure."""

    __slots__ = ("_contents",)
    assigns = ("_contents",)

    def __init__(self, contents: Any = EMPTY, source: Source | None = None, concrete: Any = None) -> None:
        super().__init__(source, concrete)
        self._contents = _UNREAD if source is not None else contents

    @classmethod
    def from_input(cls, obj: Any, source: Source) -> Value:
        return cls(EMPTY, source, obj)

    def python_type(self) -> type:
        return type(self.concrete) if self.source is not None else type((lambda: self).__closure__[0])  # type: ignore[index]

    def get(self, tracer: Tracer) -> Any:
        """The contents, or EMPTY."""
        if self._contents is _UNREAD:
            assert self.source is not None
            self.note(tracer)
            try:
                contents = self.concrete.cell_contents
            except ValueError:
                tracer.guard(self.source, "CELL_EMPTY", None)
                self._contents = EMPTY
            else:
                self._contents = tracer.wrap(contents, self.source.child("CELL_CONTENTS"))
        return self._contents

    def set(self, tracer: Tracer, contents: Any) -> None:
        tracer.journal.touch(self)
        self._contents = contents

    def attribute(self, tracer: Tracer, name: str) -> Any:
        if name == "cell_contents":
            if self.get(tracer) is EMPTY:
                raise_what(getattr, CellType(), "cell_contents")
            return self.get(tracer)
        return super().attribute(tracer, name)

    def compare(self, tracer: Tracer, operator: str, other: Any) -> Any:
        return self.refuse(Operation.COMPARISON, operator=operator)  # of what is in them

    def set_attribute(self, tracer: Tracer, name: str, value: Any) -> None:
        if name != "cell_contents":
            return super().set_attribute(tracer, name, value)
        self.set(tracer, value)

    def delete_attribute(self, tracer: Tracer, name: str) -> None:
        if name != "cell_contents":
            return super().delete_attribute(tracer, name)
        self.set(tracer, EMPTY)

    def replay(self, emit: Emitter) -> None:
        if self._contents is EMPTY:
            emit.source(self.source)
            emit.delete_attribute("cell_contents")
            return
        emit.value(self._contents)
        emit.source(self.source)
        emit.store_attribute("cell_contents")

    def parts(self) -> list[Any]:
        return [] if self._contents is EMPTY or self._contents is _UNREAD else [self._contents]

    def rebuild(self, emit: Emitter) -> None:
        self.make_empty(emit)
        self.fill(emit)
        emit.load_remembered(self)

    def make_empty(self, emit: Emitter) -> bool:
        """Make the real cell, without contents; False where it is there already."""
        if self.source is not None or emit.is_remembered(self):
            return False
        emit.callable(self.python_type())
        emit.call(0)
        emit.remember(self)
        emit.pop_top()
        return True

    def fill(self, emit: Emitter) -> None:
        if self._contents is not EMPTY:
            emit.value(self._contents)
            emit.load_remembered(self)
            emit.store_attribute("cell_contents")
