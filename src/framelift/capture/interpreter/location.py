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
_MACHINERY = (torch.__path__[0] + "/", __file__.removesuffix("capture/interpreter/location.py"))
_STDLIB = tuple({sysconfig.get_path("stdlib") + "/", sysconfig.get_path("platstdlib") + "/"})
_SITE = ("/site-packages/", "/dist-packages/")


class SourceLine:
    """A line that is being run, and the line it was called from. What is called from one line shares that, and with it
    the text that stands for it in stack traces."""

    __slots__ = ("code", "number", "outer", "is_handled", "_trace")

    def __init__(self, code: types.CodeType, number: int, outer: SourceLine | None, is_handled: bool) -> None:
        self.code = code
        self.number = number
        self.outer = outer
        # Whether the program may handle what is raised here.
        self.is_handled = is_handled
        self._trace: str | None = None

    def __iter__(self) -> Iterator[SourceLine]:
        """This line and those around it, innermost first."""
        line: SourceLine | None = self
        while line is not None:
            yield line
            line = line.outer

    def stack_trace(self) -> str:
        """The calls that lead here, as Python shows them, outermost first."""
        unknown = list(itertools.takewhile(lambda line: line._trace is None, self))
        for line in reversed(unknown):
            outer = "" if line.outer is None else line.outer._trace
            line._trace = f"{outer}{line._own_lines()}"
        return self._trace or ""

    def _own_lines(self) -> str:
        name = self.code.co_filename
        text = linecache.getline(name, self.number).strip()
        shown = f"    {text}\n" if text else ""
        return f'  File "{name}", line {self.number}, in {self.code.co_name}\n{shown}'


@dataclass(frozen=True, slots=True)
class ProgramPoint:
    """What is being run, and the modules being called."""

    line: SourceLine
    modules: tuple[tuple[str, str, str], ...]

    def stack_trace(self) -> str:
        return self.line.stack_trace()

    def user_line(self) -> tuple[types.CodeType, int]:
        """The innermost line of the user's own code (or of a library's), else the outermost line."""
        for line in self.line:
            if not line.code.co_filename.startswith(_MACHINERY):
                break
        return line.code, line.number

    @property
    def users_depth(self) -> int:
        """How deep the innermost frame of the user's own code (or of a library's) is; 0 is the outermost frame."""
        around = [_is_users(line.code.co_filename) for line in self.line]
        return len(around) - 1 - around.index(True) if True in around else 0

    def innermost(self, count: int) -> tuple[tuple[types.CodeType, int], ...]:
        """The innermost lines that are being run, outermost first."""
        return tuple((line.code, line.number) for line in itertools.islice(self.line, count))[::-1]

    def module_stack(self) -> dict[str, tuple[str, str]]:
        return {path: (name, cls) for path, name, cls in self.modules}


def _is_users(filename: str) -> bool:
    if filename.startswith(_MACHINERY):
        return False
    return not filename.startswith(_STDLIB) or any(part in filename for part in _SITE)
