"""Where in the user's program an operation stands, kept cheaply and spelled out on demand."""

from __future__ import annotations

import linecache
import types
from dataclasses import dataclass

import torch

# Frames in here are machinery to whoever reads a message.
_MACHINERY = (torch.__path__[0] + "/", __file__.removesuffix("capture/location.py"))


@dataclass(frozen=True, slots=True)
class ProgramPoint:
    """The active frames, outermost first, and the modules being called."""

    frames: tuple[tuple[types.CodeType, int], ...]
    modules: tuple[tuple[str, str, str], ...]

    def stack_trace(self) -> str:
        lines = []
        for code, line in self.frames:
            lines.append(f'  File "{code.co_filename}", line {line}, in {code.co_name}\n')
            text = linecache.getline(code.co_filename, line).strip()
            if text:
                lines.append(f"    {text}\n")
        return "".join(lines)

    def user_line(self) -> tuple[types.CodeType, int]:
        """The innermost line of the user's own code (or of a library's), else the outermost line."""
        for code, line in reversed(self.frames):
            if not code.co_filename.startswith(_MACHINERY):
                return code, line
        return self.frames[0]

    def module_stack(self) -> dict[str, tuple[str, str]]:
        return {path: (name, cls) for path, name, cls in self.modules}
