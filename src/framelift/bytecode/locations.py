"""`co_linetable` as one position per code unit, and back.

The table is a sequence of entries. The first byte of an entry holds a form (4 bits) and how many code units it covers
(3 bits, 1 to 8); what follows depends on the form. Lines are differences from the previous entry, so an entry without
position does not disturb the ones after it.
"""

from collections.abc import Iterable

from framelift.bytecode.instruction import NO_POSITIONS, Positions
from framelift.bytecode.opcodes import VERSION

_ONE_LINE = 10  # forms 10, 11, 12: line moved by 0, 1, 2, two bytes of columns
_LINE_ONLY = 13
_LONG = 14
_NONE = 15
# From 3.12 on neighbours with the same position share an entry; `co_lines()` shows the difference.
_SHARED = VERSION >= (3, 12)


def decode_positions(table: bytes, first_line: int) -> list[Positions]:
    """The position of every code unit, as `list(code.co_positions())` gives it."""
    out: list[Positions] = []
    line, index, size = first_line, 0, len(table)
    while index < size:
        head = table[index]
        form, units = head >> 3 & 15, (head & 7) + 1
        index += 1
        position: Positions
        if form < _ONE_LINE:
            byte = table[index]
            column = form << 3 | byte >> 4
            position = (line, line, column, column + (byte & 15))
            index += 1
        elif form < _LINE_ONLY:
            line += form - _ONE_LINE
            position = (line, line, table[index], table[index + 1])
            index += 2
        elif form == _NONE:
            position = NO_POSITIONS
        else:
            moved, index = _read_signed(table, index)
            line += moved
            if form == _LINE_ONLY:
                position = (line, line, None, None)
            else:
                lines, index = _read(table, index)
                column, index = _read(table, index)
                end_column, index = _read(table, index)
                position = (line, line + lines, column - 1 if column else None, end_column - 1 if end_column else None)
        if units == 1:
            out.append(position)
        else:
            out.extend([position] * units)
    return out


def encode_positions(spans: Iterable[tuple[int, Positions]], first_line: int) -> bytes:
    """A line table from (code units, position) pairs, one pair per instruction, as the compiler would write it."""
    out = bytearray()
    line, pending, current = first_line, 0, NO_POSITIONS
    for units, position in spans:
        if position != current or not _SHARED:
            line = _write_span(out, pending, current, line)
            pending, current = 0, position
        pending += units
    _write_span(out, pending, current, line)
    return bytes(out)


def _write_span(out: bytearray, units: int, position: Positions, line: int) -> int:
    while units > 0:
        line = _write_entry(out, min(units, 8), position, line)
        units -= 8
    return line


def _write_entry(out: bytearray, units: int, position: Positions, line: int) -> int:
    start, end, column, end_column = position
    low = 0x80 | units - 1
    if start is None:
        out.append(low | _NONE << 3)
        return line
    moved = start - line
    if end is None:
        end = start
    if column is None or end_column is None:
        if end == start and column is None and end_column is None:
            out.append(low | _LINE_ONLY << 3)
            if moved:
                _write_signed(out, moved)
            else:
                out.append(0)
            return start
    elif end == start:
        if moved == 0 and column < 80 and 0 <= end_column - column < 16:
            out += bytes((low | column >> 3 << 3, (column & 7) << 4 | end_column - column))
            return start
        if 0 <= moved < 3 and column < 128 and end_column < 128:
            out += bytes((low | _ONE_LINE + moved << 3, column, end_column))
            return start
    if end < start:
        raise ValueError(f"a position cannot end before its start: {position}")
    out.append(low | _LONG << 3)
    _write_signed(out, moved)
    _write(out, end - start)
    _write(out, 0 if column is None else column + 1)
    _write(out, 0 if end_column is None else end_column + 1)
    return start


# Numbers here are least significant group first, unlike those of the exception table.


def _read(table: bytes, index: int) -> tuple[int, int]:
    byte = table[index]
    value, shift = byte & 63, 6
    while byte & 64:
        index += 1
        byte = table[index]
        value |= (byte & 63) << shift
        shift += 6
    return value, index + 1


def _read_signed(table: bytes, index: int) -> tuple[int, int]:
    value, index = _read(table, index)
    return (-(value >> 1) if value & 1 else value >> 1), index


def _write(out: bytearray, value: int) -> None:
    while value > 63:
        out.append(value & 63 | 64)
        value >>= 6
    out.append(value)


def _write_signed(out: bytearray, value: int) -> None:
    _write(out, -value << 1 | 1 if value < 0 else value << 1)
