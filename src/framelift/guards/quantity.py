"""Numbers in inputs: the value at a source, a size, stride or item of the tensor there, the length of the container.

>>> from framelift.guards.source import Sources
>>> Quantity(Sources(("x",)).argument(0), "SIZE", 1).name
"L['x'].size()[1]"
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

from framelift.guards.source import Source
from framelift.shapes.guard_program import Load

_SPELLINGS = {
    "VALUE": "{source}",
    "SIZE": "{source}.size()[{dim}]",
    "STRIDE": "{source}.stride()[{dim}]",
    "LENGTH": "len({source})",
    "ITEM": "{source}.item()",
}


class Quantity(NamedTuple):
    """One number; `kind` names a LOAD_* constant of the native core."""

    source: Source
    kind: str
    # Of an ITEM: how many bytes it takes.
    dim: int = 0

    @property
    def name(self) -> str:
        return _SPELLINGS[self.kind].format(source=self.source.name, dim=self.dim)

    def load(self, members: Sequence[Source]) -> tuple[int, int, int]:
        """How a program over these sources loads it."""
        return members.index(self.source), int(Load[self.kind]), self.dim


class Calculated(NamedTuple):
    """A number that a function gives for numbers: values with a name, or constants. It is of that type."""

    function: Callable[..., Any]
    args: tuple[Any, ...]
    result: type
    kind: str = "CALCULATED"

    @property
    def name(self) -> str:
        return f"{getattr(self.function, '__name__', 'a function')}({', '.join(_name(arg) for arg in self.args)})"

    @property
    def key(self) -> Any:
        """The same for the same function of the same numbers."""
        return self.function, tuple((type(arg), arg) if type(arg) in (int, float) else id(arg) for arg in self.args)


def _name(arg: Any) -> str:
    if hasattr(arg, "words"):
        return str(arg.words)
    return hex(arg) if type(arg) is int else repr(arg)  # interpreters have a limit for decimal digits
