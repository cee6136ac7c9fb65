"""The exception table and the line table, as rows and back."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from framelift.bytecode.exceptiontable import Row, decode_rows, encode_rows
from framelift.bytecode.locations import decode_positions, encode_positions


@st.composite
def rows(draw: st.DrawFn) -> list[Row]:
    out, at = [], 0
    for _ in range(draw(st.integers(0, 6))):
        start = at + draw(st.integers(0, 300))
        at = start + draw(st.integers(1, 70000))
        out.append(Row(start, at, draw(st.integers(0, 1 << 20)), draw(st.integers(0, 200)), draw(st.booleans())))
    return out


@given(rows())
def test_exception_rows_round_trip(table: list[Row]) -> None:
    assert decode_rows(encode_rows(table)) == table


def test_cut_off_exception_table() -> None:
    with pytest.raises(ValueError, match="cut off"):
        decode_rows(encode_rows([Row(0, 2, 4, 0, False)])[:-1])


def test_rows_start_with_the_mark_the_search_looks_for() -> None:
    table = encode_rows([Row(0, 2, 4, 0, False), Row(70, 200, 300, 5, True)])
    assert sum(1 for byte in table if byte & 128) == 2


columns = st.none() | st.integers(0, 300)


@st.composite
def position(draw: st.DrawFn) -> tuple[int | None, int | None, int | None, int | None]:
    kind = draw(st.sampled_from(["none", "line", "full", "half"]))
    if kind == "none":
        return None, None, None, None
    line = draw(st.integers(1, 2000))
    if kind == "line":
        return line, line, None, None
    end = line + draw(st.sampled_from([0, 0, 0, 1, 90]))
    if kind == "half":
        return line, end, draw(columns), draw(columns)
    start = draw(st.integers(0, 200))
    return line, end, start, start + draw(st.integers(0, 40))


@given(st.lists(st.tuples(st.integers(1, 20), position()), max_size=12), st.integers(1, 500))
def test_positions_round_trip_and_cpython_agrees(spans: list, first_line: int) -> None:
    table = encode_positions(spans, first_line)
    want = [where for units, where in spans for _ in range(units)]
    assert decode_positions(table, first_line) == want
    template = test_cut_off_exception_table.__code__
    code = template.replace(co_code=bytes([9, 0]) * len(want), co_linetable=table, co_firstlineno=first_line)
    assert list(code.co_positions()) == want


def test_a_position_cannot_end_before_it_starts() -> None:
    with pytest.raises(ValueError, match="before its start"):
        encode_positions([(1, (5, 4, 0, 0))], 1)
