"""Leaving a frame by a site: what it asks for, and what it remembers."""

from __future__ import annotations

from typing import Any

import pytest

from framelift.native import _core


def code_of(text: str) -> Any:
    names: dict[str, Any] = {}
    exec(f"def resumed(*args): return {text}", names)
    return names["resumed"].__code__.replace()  # which nobody else holds


def leaving(find: Any, slots: tuple[int, ...] = (0,)) -> Any:
    site = _core.Site(find, slots, 0, ())

    def leave(x: object) -> Any:
        return site()

    return leave


def test_it_takes_the_variables_along() -> None:
    code = code_of("args")
    tail = leaving(lambda pattern: (code, (0,)))("value")
    assert tail.args == ("value",)
    assert tail.function.__code__ is code


def test_an_answer_nobody_else_holds() -> None:
    """As when two threads ask at once, and what one of them was told is dropped for what the other was."""
    leave = leaving(lambda pattern: (code_of("args"), (0,)))
    for value in range(3):
        tail = leave(value)
        assert tail.args == (value,)
        assert tail.function(*tail.args) == (value,)


def test_an_answer_changed_by_another_thread() -> None:
    """What the frame is emptied into is made for what this thread was told, not for what the site learnt since."""
    code = code_of("args")
    answers: list[Any] = []

    def find(pattern: bytes) -> Any:
        if not answers:
            answers.append((code, (0, 0)))
            assert leave("inner").args == ("inner",)
            return code, ()
        return code, (0,)

    leave = leaving(find)
    assert leave("outer").args == ()


def test_an_answer_is_remembered_while_it_lives() -> None:
    code, asked = code_of("args"), []

    def find(pattern: bytes) -> Any:
        asked.append(pattern)
        return code, (0,)

    leave = leaving(find)
    for value in range(3):
        assert leave(value).args == (value,)
    assert asked == [b"\x01"]


@pytest.mark.parametrize("order", [(7,), (-1,), ("x",)])
def test_an_order_that_does_not_fit_is_refused(order: tuple[Any, ...]) -> None:
    code = code_of("args")
    with pytest.raises((ValueError, TypeError)):
        leaving(lambda pattern: (code, order))("value")
