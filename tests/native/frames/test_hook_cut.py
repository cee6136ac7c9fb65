"""`...` as the answer of a context: neither the frame nor what it calls is lifted."""

from __future__ import annotations

from types import CodeType
from typing import Any

from framelift.native import _core


def test_a_cut_off_frame_and_what_it_calls_are_left_alone() -> None:
    asked = []

    def inner() -> int:
        return 1

    def outer() -> int:
        return inner() + 1

    def context(code: CodeType, function: Any, slots: tuple[Any, ...]) -> Any:
        asked.append(code.co_name)
        return ... if code is outer.__code__ else None

    def both() -> tuple[int, int]:
        return outer(), inner()

    for _ in range(2):
        assert _core.run_hooked(context, both) == (2, 1)
    assert asked == ["both", "outer", "inner", "both", "inner"]
    for table in _core.tables_of(outer.__code__):
        table.clear()
    asked.clear()
    _core.run_hooked(context, both)
    assert "outer" in asked
