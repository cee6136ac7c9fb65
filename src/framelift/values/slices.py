"""Slices with a bound that is not a constant."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from framelift.values.base import Value

if TYPE_CHECKING:
    from framelift.capture.lift import Lift
    from framelift.residual.generator import Generator


class SliceValue(Value):
    """`slice(start, stop, step)` over values."""

    __slots__ = ("bounds",)

    def __init__(self, start: Any, stop: Any, step: Any) -> None:
        super().__init__()
        self.bounds = (start, stop, step)

    def python_type(self) -> type:
        return slice

    def constant(self, lift: Lift) -> Any:
        return slice(*map(lift.constant, self.bounds))

    def graph_argument(self, lift: Lift) -> Any:
        return slice(*map(lift.graph_argument, self.bounds))

    def attribute(self, lift: Lift, name: str) -> Any:
        if name in ("start", "stop", "step"):
            return self.bounds[("start", "stop", "step").index(name)]
        return lift.constant_attribute(self.constant(lift), name)

    def parts(self) -> list[Any]:
        return list(self.bounds)

    def rebuild(self, generate: Generator) -> None:
        for bound in self.bounds:
            generate.value(bound)
        generate.build_slice()
