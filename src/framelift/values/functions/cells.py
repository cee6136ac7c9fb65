"""Cells: variables shared between a function and the functions defined in it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from framelift.guards.source import Source
from framelift.values.core.base import Value
from framelift.values.core.exceptions import raise_error

if TYPE_CHECKING:
    from framelift.capture.lift import Lift
    from framelift.residual.generator import Generator

EMPTY: Any = object()
_UNREAD: Any = object()


class CellValue(Value, models=type((lambda x: lambda: x)(0).__closure__[0])):  # type: ignore[index]
    """A cell the program made, or a cell of an input function's closure."""

    __slots__ = ("_contents",)

    def __init__(self, contents: Any = EMPTY, source: Source | None = None, concrete: Any = None) -> None:
        super().__init__(source, concrete)
        self._contents = _UNREAD if source is not None else contents

    @classmethod
    def from_input(cls, obj: Any, source: Source) -> Value:
        return cls(EMPTY, source, obj)

    def python_type(self) -> type:
        return type(self.concrete) if self.source is not None else type((lambda: self).__closure__[0])  # type: ignore[index]

    def get(self, lift: Lift) -> Any:
        """The contents, or EMPTY."""
        if self._contents is _UNREAD:
            assert self.source is not None
            self.note(lift)
            try:
                contents = self.concrete.cell_contents
            except ValueError:
                lift.guard(self.source, "CELL_EMPTY", None)
                self._contents = EMPTY
            else:
                self._contents = lift.wrap(contents, self.source.child("CELL_CONTENTS"))
        return self._contents

    def set(self, lift: Lift, contents: Any) -> None:
        lift.journal.touch(self)
        self._contents = contents

    def attribute(self, lift: Lift, name: str) -> Any:
        if name == "cell_contents":
            if self.get(lift) is EMPTY:
                raise_error(ValueError, "Cell is empty")
            return self.get(lift)
        return super().attribute(lift, name)

    def compare(self, lift: Lift, operator: str, other: Any) -> Any:
        return self.refuse(f"comparison {operator}")  # of what is in them

    def set_attribute(self, lift: Lift, name: str, value: Any) -> None:
        if name != "cell_contents":
            return super().set_attribute(lift, name, value)
        self.set(lift, value)

    def delete_attribute(self, lift: Lift, name: str) -> None:
        if name != "cell_contents":
            return super().delete_attribute(lift, name)
        self.set(lift, EMPTY)

    def state(self) -> Any:
        return self._contents

    def restore(self, state: Any) -> None:
        self._contents = state

    def replay(self, generate: Generator) -> None:
        if self._contents is EMPTY:
            generate.source(self.source)
            generate.delete_attribute("cell_contents")
            return
        generate.value(self._contents)
        generate.source(self.source)
        generate.store_attribute("cell_contents")

    def parts(self) -> list[Any]:
        return [] if self._contents is EMPTY or self._contents is _UNREAD else [self._contents]

    def rebuild(self, generate: Generator) -> None:
        self.make_empty(generate)
        self.fill(generate)
        generate.load_remembered(self)

    def make_empty(self, generate: Generator) -> bool:
        """Make the real cell, without contents; False where it is there already."""
        if self.source is not None or generate.is_remembered(self):
            return False
        generate.callable(self.python_type())
        generate.call(0)
        generate.remember(self)
        generate.pop_top()
        return True

    def fill(self, generate: Generator) -> None:
        if self._contents is not EMPTY:
            generate.value(self._contents)
            generate.load_remembered(self)
            generate.store_attribute("cell_contents")
