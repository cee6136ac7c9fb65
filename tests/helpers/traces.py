"""The part of a traceback that a user reads."""

from __future__ import annotations

import dis
import types
from typing import NamedTuple


class Line(NamedTuple):
    """Where a frame stood."""

    filename: str
    number: int
    function: str


def lines_of(error: BaseException, without: str) -> list[Line]:
    """The lines that an exception came through, outermost first: not those of torch, framelift, or the file named."""
    entries = []
    tb = error.__traceback__
    while tb is not None:
        entries.append(tb)
        tb = tb.tb_next
    lines = [_line(entry, error if entry is entries[-1] else None) for entry in entries]
    theirs = ("/torch/", "/src/framelift/")
    return [line for line in lines if line.filename != without and not any(part in line.filename for part in theirs)]


def _line(tb: types.TracebackType, raised: BaseException | None) -> Line:
    code = tb.tb_frame.f_code
    number = tb.tb_lineno
    if isinstance(raised, UnboundLocalError):
        number = _line_of_variable(code, tb.tb_lasti, str(raised)) or number
    return Line(code.co_filename, number, code.co_name)


def _line_of_variable(code: types.CodeType, offset: int, words: str) -> int | None:
    """Where the variable stands that has no value: not always where the traceback says.

    CPython 3.11 runs two accesses to variables as one instruction when a function has been called some times; of the
    second it then says the line of the first.
    """
    instructions = list(dis.get_instructions(code))
    at = next(index for index, step in enumerate(instructions) if step.offset == offset)
    for step in instructions[at : at + 2]:
        if "FAST" in step.opname and f"'{step.argval}'" in words and step.positions is not None:
            return step.positions.lineno
    return None
