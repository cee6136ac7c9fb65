"""Where in the user's program an operation stands, kept cheaply and spelled out on demand."""

from __future__ import annotations

import itertools
import linecache
import sysconfig
import types
from collections.abc import Iterator
from dataclasses import dataclass

import torch

# Frames in here are machinery to whoever reads a message.
_MACHINERY = (torch.__path__[0] + "/", __file__.removesuffix("capture/location.py"))
_STDLIB = tuple({sysconfig.get_path("stdlib") + "/", sysconfig.get_path("platstdlib") + "/"})
_SITE = ("/site-packages/", "/dist-packages/")


class Place:
    """A line that is being run, and the place it was called from. What is called from one place shares it, and with it
    the text that stands for it in stack traces."""

    __slots__ = ("code", "line", "outer", "is_handled", "_trace")

    def __init__(self, code: types.CodeType, line: int, outer: Place | None, is_handled: bool) -> None:
        self.code = code
        self.line = line
        self.outer = outer
        # Whether the program may handle what is raised here.
        self.is_handled = is_handled
        self._trace: str | None = None

    def __iter__(self) -> Iterator[Place]:
        """This place and those around it, innermost first."""
        place: Place | None = self
        while place is not None:
            yield place
            place = place.outer

    def stack_trace(self) -> str:
        """The calls that lead here, as Python shows them, outermost first."""
        unknown = list(itertools.takewhile(lambda place: place._trace is None, self))
        for place in reversed(unknown):
            outer = "" if place.outer is None else place.outer._trace
            place._trace = f"{outer}{place._own_lines()}"
        return self._trace or ""

    def _own_lines(self) -> str:
        name = self.code.co_filename
        text = linecache.getline(name, self.line).strip()
        shown = f"    {text}\n" if text else ""
        return f'  File "{name}", line {self.line}, in {self.code.co_name}\n{shown}'


@dataclass(frozen=True, slots=True)
class ProgramPoint:
    """What is being run, and the modules being called."""

    place: Place
    modules: tuple[tuple[str, str, str], ...]

    def stack_trace(self) -> str:
        return self.place.stack_trace()

    def user_line(self) -> tuple[types.CodeType, int]:
        """The innermost line of the user's own code (or of a library's), else the outermost line."""
        for place in self.place:
            if not place.code.co_filename.startswith(_MACHINERY):
                break
        return place.code, place.line

    @property
    def users_depth(self) -> int:
        """How deep the innermost frame of the user's own code (or of a library's) is; 0 is the outermost frame."""
        around = [_is_users(place.code.co_filename) for place in self.place]
        return len(around) - 1 - around.index(True) if True in around else 0

    def innermost(self, count: int) -> tuple[tuple[types.CodeType, int], ...]:
        """The innermost lines that are being run, outermost first."""
        return tuple((place.code, place.line) for place in itertools.islice(self.place, count))[::-1]

    def module_stack(self) -> dict[str, tuple[str, str]]:
        return {path: (name, cls) for path, name, cls in self.modules}


def _is_users(filename: str) -> bool:
    if filename.startswith(_MACHINERY):
        return False
    return not filename.startswith(_STDLIB) or any(part in filename for part in _SITE)
