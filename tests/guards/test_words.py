"""Why an entry does not fit, in words: the source, what was and what is, for every kind of guard."""

from __future__ import annotations

import collections
import contextvars
from typing import Any

import pytest
import torch

import framelift
from framelift.guards.checks import CHECKS
from framelift.native.torch.calibrate import tensor_spec
from framelift.report.events import Recompiled
from tests.helpers.record import Record

X = torch.ones(3)
VARIABLE: contextvars.ContextVar[int] = contextvars.ContextVar("variable", default=1)

# The argument of the check, what is found instead, and the words.
CHANGES: dict[str, tuple[Any, Any, str]] = {
    "TYPE": (int, "text", "type(S) was int, now str"),
    "IS": (None, 3, "S was None, now 3"),
    "NOT_IS": (None, None, "S was not None, now it is"),
    "EQUALS": (3, 4, "S was 3, now 4"),
    "COMPARE": (("<", 3, True), 5, "(S < 3) was True, now S is 5"),
    "LENGTH": (2, [1], "len(S) was 2, now 1"),
    "NONEMPTY": (None, [], "S was not empty, now it is"),
    "DICT_KEYS": (("a",), {"b": 1}, "keys of S were ['a'], now ['b']"),
    "KEY_ABSENT": ("a", {"a": 1}, "'a' was not in S, now it is"),
    "MEMBER": (3, {4}, "3 was in S, now it is not"),
    "NO_MEMBER": (3, {3}, "3 was not in S, now it is there"),
    "SET_EQUALS": ((1,), {2}, "S was {1}, now {2}"),
    "SET_ORDER": ((1, 2), {2}, "the members of S, or their order, are others now"),
    "TYPE_KEYS": (("name",), int, "S has other attributes of its own now"),
    "TYPE_LACKS": ("name", int, "S had no 'name' of its own, now it has"),
    "TYPE_OWNS": ("name", int, "S had a 'name' of its own, now it has not"),
    "UNWATCHED": (None, 3, "nothing was called when S died, now a weak reference to it has a callback"),
    "TYPE_ABSENT": ("name", int, "S had no attribute 'name', now it has"),
    "HASATTR": ("name", 3, "S had an attribute 'name', now it has not"),
    "NO_ATTR": ("name", 3, "S had no attribute 'name', now it has"),
    "CELL_EMPTY": (None, 3, "S was an empty cell, now it holds something"),
    "NOTHING_AHEAD": (2, iter([1, 2, 3]), "S ended after 2 items, now it does not"),
    "CONTEXT_UNSET": (1, VARIABLE, "S was not set in the context, now it has a value"),
    "REGISTRATIONS": (3, collections.abc.Mapping, "a class was registered with an abstract class, perhaps with S"),
    "TENSOR": (tensor_spec(X), torch.ones(4), "S.size()[0] was 3, now 4"),
}


@pytest.mark.parametrize("check", CHECKS.values(), ids=lambda check: check.name)
def test_every_check_says_what_was_and_what_is(check: Any) -> None:
    argument, found, words = CHANGES[check.name]
    assert check.change("S", argument, found) == words


def reasons(fn: Any, *calls: tuple[Any, ...], **options: Any) -> tuple[str, ...]:
    """Why the last call was captured again."""
    framelift.reset()
    lifted = framelift.compile(fn, backend="eager", **options)
    record = Record()
    with record.listening():
        for args in calls:
            lifted(*args)
    (*_, last) = record.of(Recompiled)
    return last.reasons


class TestWhole:
    """From a call to its reason."""

    def test_relations(self) -> None:
        def both(x, y):
            return x + y

        def writes(x, y):
            x.add_(1)
            return y * 2

        y = torch.ones(3)
        assert reasons(both, (X, X), (X, y)) == ("L['x'] was L['y'], now it is another object",)
        assert reasons(both, (X, y), (X, X)) == ("two of L['x'], L['y'] are now the same object",)
        memory = torch.ones(6)
        assert reasons(writes, (memory[:3], y), (memory[:3], memory[2:5])) == (
            "two of L['x'], L['y'] now share memory",
        )
        assert reasons(writes, (memory[:3], memory[2:5]), (memory[:3], y)) == (
            "L['x'] and L['y'] shared memory, now they do not",
        )

    def test_programs(self) -> None:
        def fn(x):
            return x.sin() if x.shape[0] > 4 else x.cos()

        calls = [(torch.ones(n),) for n in (6, 7, 3)]
        assert reasons(fn, *calls)[0] == "L['x'].size()[0] > 4 was true, now L['x'].size()[0] is 3"

    def test_state(self) -> None:
        lifted = framelift.compile(lambda x: x + 1, backend="eager")
        record = Record()
        with record.listening():
            lifted(X)
            with torch.no_grad():
                lifted(X)
        ((reason,),) = [event.reasons for event in record.of(Recompiled)]
        assert reason == "grad mode was on, now off"

    def test_attributes_and_lengths(self) -> None:
        class Config:
            pass

        config, other = Config(), Config()
        config.scale = 2
        lifted = lambda x, c: x * c.scale if hasattr(c, "scale") else x  # noqa: E731
        assert reasons(lifted, (X, config), (X, other)) == ("L['c'].scale is gone",)
        assert reasons(lambda x, items: x * sum(items), (X, [1, 2]), (X, [1])) == ("len(L['items']) was 2, now 1",)


def test_what_became_dynamic_is_told_with_the_recompile(capsys: pytest.CaptureFixture[str]) -> None:
    lifted = framelift.compile(lambda x, n: x * n, backend="eager")
    framelift.set_logs("recompiles")
    try:
        lifted(torch.ones(3), 5)
        lifted(torch.ones(4), 6)
    finally:
        framelift.set_logs()
    told = capsys.readouterr().err
    assert "L['x'].size()[0] was 3, now 4: symbolic from here on" in told
    assert "L['n'] was 5, now 6: symbolic from here on" in told
