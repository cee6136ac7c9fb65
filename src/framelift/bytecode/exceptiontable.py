"""`co_exceptiontable` as rows of numbers, and back.

A row is four numbers, each in groups of six bits, most significant first; bit 6 of a byte says that the number goes on,
bit 7 marks the first byte of a row.
"""

from collections.abc import Iterable
from typing import NamedTuple


class Row(NamedTuple):
    """One row, in code units (two bytes each): [start, end) goes to target."""

    start: int
    end: int
    target: int
    depth: int
    lasti: bool


def decode_rows(table: bytes) -> list[Row]:
    """The rows of an exception table, in order."""
    numbers: list[int] = []
    value = 0
    for byte in table:
        value = value << 6 | byte & 63
        if not byte & 64:
            numbers.append(value)
            value = 0
    if len(numbers) % 4 or value:
        raise ValueError("the exception table is cut off")
    return [
        Row(start, start + length, target, flags >> 1, bool(flags & 1))
        for start, length, target, flags in zip(numbers[0::4], numbers[1::4], numbers[2::4], numbers[3::4], strict=True)
    ]


def encode_rows(rows: Iterable[Row]) -> bytes:
    """An exception table; the interpreter searches it, so rows must be in order and must not overlap."""
    out = bytearray()
    for row in rows:
        first = len(out)
        for value in (row.start, row.end - row.start, row.target, row.depth << 1 | row.lasti):
            shift = max(0, (value.bit_length() - 1) // 6 * 6)
            while shift:
                out.append(value >> shift & 63 | 64)
                shift -= 6
            out.append(value & 63)
        out[first] |= 128
    return bytes(out)
