"""What became of each program when that was last written: a file for each area, a line for each program.

A line has the program's name, what became of it lifted and with torch.compile, and why it is not whole when lifted.
"""

from __future__ import annotations

import pathlib
from typing import NamedTuple

_HERE = pathlib.Path(__file__).parent


class Line(NamedTuple):
    lifted: str
    torch: str
    reason: str


def read() -> dict[str, Line]:
    """Every line by the id of its program."""
    found = {}
    for file in sorted(_HERE.glob("*.txt")):
        for line in file.read_text().splitlines():
            name, lifted, torch, *reason = line.split(maxsplit=3)
            found[f"{file.stem}/{name}"] = Line(lifted, torch, "".join(reason))
    return found


def write(area: str, lines: dict[str, Line]) -> None:
    """Write the file of an area."""
    width = max(map(len, lines)) + 2
    rows = [f"{name:{width}}{line.lifted:7} {line.torch:7} {line.reason}".rstrip() for name, line in lines.items()]
    (_HERE / f"{area}.txt").write_text("".join(f"{row}\n" for row in rows))
