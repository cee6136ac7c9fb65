"""Direct calls: entries that are run without their residual function."""

from __future__ import annotations

import types
import weakref
from collections.abc import Callable
from typing import Any

import pytest

from framelift.native import _core
from tests.native.entry_helpers import references

FETCHED = (-1, _core.ACCESS_FUNCTION, None, [], 0)


def install(direct: Any) -> Callable[..., Any]:
    """A lifted function of two slots with one entry, which fetches the function and has this direct call."""

    def function(a: Any, b: Any) -> Any:
        return "original", a, b

    def residual(a: Any, b: Any, fetched: Any) -> Any:
        raise AssertionError("the residual function was run")

    table = _core.table_for(function.__code__, "direct")
    table.clear()  # the code is the same each time
    tree = _core.GuardTree([FETCHED], [], 2, 1)
    table.install(tree, types.FunctionType(residual.__code__, {}), None, direct)
    return _core.Lifted(function, table, lambda *_: None)


def collect(*args: Any) -> tuple[Any, ...]:
    return "first", args, "last"


def test_inputs_and_output_are_picked() -> None:
    lifted = install((collect, (1, 0), 1, 3))
    assert lifted(3, 4) == (4, 3)
    assert install((collect, (0, 1), 1, 3))(3, b=4) == (3, 4)
    assert install((collect, (), 2, 3))(3, 4) == "last"
    fetched = install((collect, (1, 2), 1, 3))
    assert fetched(3, 4) == (4, fetched.__wrapped__)


def test_many_inputs() -> None:
    order = tuple(index % 3 for index in range(200))
    lifted = install((collect, order, 1, 3))
    given = (3, 4, lifted.__wrapped__)
    assert lifted(3, 4) == tuple(given[index] for index in order)


@pytest.mark.parametrize("kind", [list, tuple])
def test_any_sequence_of_outputs_will_do(kind: Callable[..., Any]) -> None:
    assert install((lambda *args: kind(args), (0, 1), 1, 2))(3, 4) == 4


def test_a_wrong_number_of_outputs_is_an_error() -> None:
    with pytest.raises(ValueError, match="returned 3 values instead of 2"):
        install((collect, (0,), 1, 2))(3, 4)
    with pytest.raises(TypeError):
        install((lambda *_: 3, (0,), 1, 2))(3, 4)


def test_what_raises_is_run_by_the_original() -> None:
    def fails(*args: Any) -> Any:
        raise KeyError(args)

    assert install((fails, (0,), 0, 1))(3, 4) == ("original", 3, 4)

    def interrupted(*args: Any) -> Any:
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        install((interrupted, (0,), 0, 1))(3, 4)


@pytest.mark.parametrize(
    ("direct", "error"),
    [
        (3, TypeError),
        ((collect, [0], 0, 1), TypeError),
        ((collect, (3,), 0, 1), ValueError),
        ((collect, (-1,), 0, 1), ValueError),
        ((collect, ("a",), 0, 1), ValueError),
        ((collect, (0,), 1, 1), ValueError),
        ((collect, (0,), -1, 1), ValueError),
    ],
)
def test_bad_specifications(direct: Any, error: type[Exception]) -> None:
    with pytest.raises(error):
        install(direct)


def test_references() -> None:
    class Thing:
        pass

    thing, function = Thing(), lambda *args: (args[0],)
    lifted = install((function, (0, 2), 0, 1))
    lifted(thing, 4)
    before = references(thing), references(function)
    for _ in range(1000):
        assert lifted(thing, 4) is thing
    assert (references(thing), references(function)) == before
    ref = weakref.ref(function)
    del function
    lifted.table.clear()
    assert ref() is None
