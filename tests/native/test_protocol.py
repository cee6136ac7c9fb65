"""What C asks of Python is what framelift.native.protocol says."""

from __future__ import annotations

import types
from collections.abc import Iterator
from typing import Any

import pytest

from framelift.native import _core, protocol
from tests.native.entry_helpers import run_python


@pytest.fixture
def kept() -> Iterator[dict[str, Any]]:
    """What is connected now, put back after the test."""
    before = _core.connected()
    yield before
    _core.connect(**before)


def members(cls: type) -> set[str]:
    return {name for name in vars(cls) if not name.startswith("_")}


def test_names() -> None:
    assert set(_core.ASKED_BY_NAME) == members(protocol.Context) | members(protocol.Judge)


def test_functions() -> None:
    assert list(_core.connected()) == list(protocol.Functions.__annotations__)


def test_whoever_is_asked_can_answer() -> None:
    pytest.importorskip("torch")
    from framelift.residual.failures import GraphJudge, Presumption
    from framelift.runtime.lifting import Context

    assert callable(Context) and members(protocol.Context) - {"key"} <= members(Context)
    assert members(protocol.Judge) <= members(GraphJudge) & members(Presumption)


def test_framelift_hands_all_over() -> None:
    pytest.importorskip("torch")
    done = run_python(
        "import framelift\nfrom framelift.native import _core\n"
        "assert not any(_core.connected().values())\n"
        "framelift.compile(lambda x: x)\n"
        "assert all(_core.connected().values()), _core.connected()\n"
    )
    assert done.returncode == 0, done.stderr


def test_connecting_and_taking_back(kept: dict[str, Any]) -> None:
    def is_failure(error: BaseException) -> bool:
        return True

    _core.connect(is_failure=is_failure)
    assert _core.connected() == {**kept, "is_failure": is_failure}
    _core.connect(is_failure=None, hear_of_fallback=None)
    assert _core.connected() == {**kept, "is_failure": None, "hear_of_fallback": None}
    _core.connect()
    assert _core.connected()["is_failure"] is None


def test_others_are_refused(kept: dict[str, Any]) -> None:
    with pytest.raises(TypeError, match="no function called 'is_fine'"):
        _core.connect(is_fine=lambda: None)
    with pytest.raises(TypeError, match="takes functions, not"):
        _core.connect(is_failure=3)
    with pytest.raises(TypeError, match="by name"):
        _core.connect(lambda: None)
    assert _core.connected() == kept


def raising(error: BaseException) -> Any:
    """A lifted function whose graph raises; the function itself answers."""

    def graph() -> None:
        raise error

    def function() -> str:
        return "Python"

    tree = _core.GuardTree([], [], 0, 0)
    table = _core.table_for(function.__code__, "protocol")
    table.clear()
    table.install(tree, types.FunctionType(function.__code__, {}), None, (graph, (), 0, 1))
    return _core.Lifted(function, table, lambda *_: None)


def test_who_says_what_a_graph_raised(kept: dict[str, Any]) -> None:
    _core.connect(is_failure=None)
    assert raising(ValueError())() == "Python"
    with pytest.raises(KeyboardInterrupt):
        raising(KeyboardInterrupt())()
    _core.connect(is_failure=lambda error: type(error) is KeyError)
    assert raising(KeyError())() == "Python"
    with pytest.raises(ValueError):
        raising(ValueError())()


def test_who_hides_callers(kept: dict[str, Any]) -> None:
    """Only what came through functions with the globals of the one that hides is shown to it."""
    shown: list[tuple[BaseException, bool]] = []
    space: dict[str, Any] = {"shown": shown}
    exec("def hide(error, anywhere): shown.append((error, anywhere))", space)
    exec("def call(function): return function()", space)

    def fail() -> None:
        raise ValueError

    def lifted(function: Any) -> Any:
        return _core.Lifted(function, _core.table_for(function.__code__, "protocol"), lambda *_: None)

    _core.connect(hide_callers=space["hide"])
    with pytest.raises(ValueError):
        lifted(fail)()
    assert shown == []
    with pytest.raises(ValueError) as caught:
        lifted(lambda: space["call"](fail))()
    assert shown == [(caught.value, True)]
    _core.connect(hide_callers=None)
    with pytest.raises(ValueError):
        lifted(lambda: space["call"](fail))()
    assert len(shown) == 1
