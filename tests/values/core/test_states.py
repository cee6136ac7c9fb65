"""What the program can change about a value is declared: names of its attributes."""

from __future__ import annotations

import copy
from collections.abc import Iterator
from typing import Any

import pytest

import framelift.api  # noqa: F401  (loads every value)
from framelift.values.containers.collections_deque import DequeValue
from framelift.values.containers.collections_dicts import OrderedDictValue
from framelift.values.containers.dicts import DictValue
from framelift.values.containers.iterators import RangeIterator
from framelift.values.containers.sequences import ListValue
from framelift.values.core.base import Value


def below(cls: type[Value]) -> Iterator[type[Value]]:
    yield cls
    for subclass in cls.__subclasses__():
        yield from below(subclass)


def test_what_is_declared_is_there() -> None:
    declared = [(cls, name) for cls in below(Value) for name in (*cls.assigns, *cls.mutates)]
    assert len(declared) > 50
    assert [(cls, name) for cls, name in declared if not hasattr(cls, name)] == []


def test_nothing_is_declared_twice() -> None:
    assert [cls for cls in below(Value) if len({*cls.assigns, *cls.mutates}) < len([*cls.assigns, *cls.mutates])] == []


def advance(value: Any) -> None:
    value.position += 1


def write(value: Any) -> None:
    value.overlay["a"] = 2
    value.complete = False


def reorder(value: Any) -> None:
    write(value)
    value.reordered = True


def fill(value: Any) -> None:
    value.parts().append(3)


def fill_deque(value: Any) -> None:
    fill(value)
    value.structure += 1


@pytest.mark.parametrize(
    "value, change",
    [
        (RangeIterator(range(3)), advance),
        (DictValue({"a": 1}), write),
        (OrderedDictValue({"a": 1}), reorder),
        (ListValue([1, 2]), fill),
        (DequeValue([1, 2], None), fill_deque),
    ],
)
def test_a_state_is_a_copy(value: Value, change: Any) -> None:
    before = value.state()
    told = copy.deepcopy(before)
    change(value)
    assert before == told and value.state() != told
    value.restore(before)
    assert value.state() == told
