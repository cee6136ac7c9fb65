"""Where in the user's program an operation stands, kept cheaply and spelled out on demand."""

from __future__ import annotations

import linecache
import sysconfig
import types
from dataclasses import dataclass

import torch

# Frames in here are machinery to whoever reads a message.
_MACHINERY = (torch.__path__[0] + "/", __file__.removesuffix("capture/location.py"))
_STDLIB = tuple({sysconfig.get_path("stdlib") + "/", sysconfig.get_path("platstdlib") + "/"})
_SITE = ("/site-packages/", "/dist-packages/")


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

    @property
    def users_depth(self) -> int:
        """How deep the innermost frame of the user's own code (or of a library's) is; 0 is the outermost frame."""
        own = [depth for depth, (code, _) in enumerate(self.frames) if _is_users(code.co_filename)]
        return own[-1] if own else 0

    def module_stack(self) -> dict[str, tuple[str, str]]:
        return {path: (name, cls) for path, name, cls in self.modules}


def _is_users(filename: str) -> bool:
    if filename.startswith(_MACHINERY):
        return False
    return not filename.startswith(_STDLIB) or any(part in filename for part in _SITE)
