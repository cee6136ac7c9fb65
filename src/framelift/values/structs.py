"""Named results of torch operations (`torch.return_types`)."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from framelift.values.exceptions import raise_error
from framelift.values.sequences import SequenceValue

if TYPE_CHECKING:
    from framelift.capture.lift import Lift
    from framelift.residual.generator import Generator


class StructSequenceValue(SequenceValue):
    """`x.max(dim=0)`: a tuple whose items have names."""

    __slots__ = ("cls",)

    def __init__(self, cls: type, items: list[Any]) -> None:
        super().__init__(items)
        self.cls = cls

    def python_type(self) -> type:
        return self.cls

    def make(self, lift: Lift, items: list[Any]) -> Any:
        return lift.tuple(items)

    def attribute(self, lift: Lift, name: str) -> Any:
        fields = [field for field in dir(self.cls) if not field.startswith("_")]
        if name in fields and name not in ("count", "index", "n_fields", "n_sequence_fields", "n_unnamed_fields"):
            position = _position(self.cls, name, len(self.parts()))
            return self.parts()[position]
        if name.startswith("n_"):
            return getattr(self.cls, name)
        if not hasattr(self.cls, name):
            raise_error(AttributeError, f"'{self.cls.__name__}' object has no attribute '{name}'")
        return super().attribute(lift, name)

    def rebuild(self, generate: Generator) -> None:
        generate.callable(self.cls)
        for item in self.parts():
            generate.value(item)
        generate.build_tuple(len(self.parts()))
        generate.call(1)


def _position(cls: type, name: str, count: int) -> int:
    """Which item a field is, found by asking a sample made of its positions."""
    sample: Any = cls(tuple(range(count)))
    return int(getattr(sample, name))
