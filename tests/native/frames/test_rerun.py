"""Residual code that returns RERUN: the function itself runs, once, with the arguments of the call."""

from __future__ import annotations

import sys
from typing import Any

import pytest

from framelift.native import _core


def giving_up(function: Any) -> Any:
    """An entry for `function` whose residual code gives up at once."""
    count = function.__code__.co_argcount

    names = ", ".join(f"a{i}" for i in range(count))
    made: dict[str, Any] = {}
    exec(f"def residual({names}): return 'marker'", made)
    code = made["residual"].__code__
    consts = tuple(_core.RERUN if constant == "marker" else constant for constant in code.co_consts)
    made["residual"].__code__ = code.replace(co_consts=consts)
    table = _core.table_for(function.__code__, "key")
    table.install(_core.GuardTree([], [], count, 0), made["residual"])
    return table


def make(calls: list[Any]) -> Any:
    def function(a: Any, b: Any) -> Any:
        calls.append((a, b))
        if a == "raise":
            raise ValueError(b)
        return a + b

    function.__code__ = function.__code__.replace(co_name="function")  # a code object of its own
    return function


class Context:
    key = "key"

    def __call__(self, code: Any, function: Any, slots: Any) -> Any:
        return None


@pytest.mark.parametrize("way", ["entry", "hook"])
def test_the_function_runs_once(way: str) -> None:
    calls: list[Any] = []
    function = make(calls)
    table = giving_up(function)
    lifted = _core.Lifted(function, table, lambda lifted, slots: None)
    call = lifted if way == "entry" else lambda a, b: _core.run_hooked(Context(), function, a, b)
    assert call(1, 2) == 3
    assert calls == [(1, 2)]
    with pytest.raises(ValueError, match="no") as info:
        call("raise", "no")
    assert info.value.__context__ is None
    assert table.hits == 2


@pytest.mark.parametrize("way", ["entry", "hook"])
def test_nothing_leaks(way: str) -> None:
    def function(a: Any, b: Any) -> Any:
        return b

    function.__code__ = function.__code__.replace(co_name="g")  # a code object of its own
    table = giving_up(function)
    lifted = _core.Lifted(function, table, lambda lifted, slots: None)
    context, argument = Context(), object()

    def run() -> None:
        for _ in range(2000):
            if way == "entry":
                lifted(argument, argument)
            else:
                _core.run_hooked(context, function, argument, argument)

    run()
    counted = (argument, context, function, _core.RERUN)
    before = [sys.getrefcount(obj) for obj in counted]
    run()
    assert [sys.getrefcount(obj) for obj in counted] == before


def test_blocks_leak_nothing() -> None:
    context = Context()
    before = sys.getrefcount(context)
    for _ in range(1000):
        with _core.hooked(context):
            pass
    assert sys.getrefcount(context) == before
    assert _core.hook_state()["users"] == 0
