"""A number becomes symbolic wherever it is kept; of a container whose length alone is used, only that is guarded."""

from __future__ import annotations

import collections
import dataclasses
import functools
import sys
import types
from collections.abc import Callable, Iterator
from typing import Any

import pytest
import torch

import framelift
from framelift.report.events import RanEagerly
from tests.helpers import assert_same
from tests.helpers.record import Record

TEN = [1, 1, *[0] * 8]
BACKENDS = ("eager", "aot_eager", pytest.param("inductor", marks=pytest.mark.slow))
NUMBERS = {"int": lambda i: i + 3, "float": lambda i: i * 1.25 + 0.5}

Call = Callable[..., Any]
# Makes a function and what sets the number: (function, set(number) -> the arguments after the tensor).
Place = Callable[[], tuple[Call, Callable[[Any], tuple[Any, ...]]]]
PLACES: dict[str, Place] = {}


def place(make: Place) -> Place:
    PLACES[make.__name__] = make
    return make


@pytest.fixture(autouse=True)
def _nothing_known() -> Iterator[None]:
    framelift.reset()
    yield


def captures(call: Call, times: int) -> list[int]:
    counts = []
    for index in range(times):
        record = Record()
        with record.listening():
            call(index)
        assert not record.failures and not record.of(RanEagerly)
        counts.append(record.captures)
    return counts


@dataclasses.dataclass
class Settings:
    value: Any = 0
    inner: Any = None


class Scale(torch.nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.factor: Any = 1

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return x * self.factor


@place
def a_module_in_modules() -> Any:
    model = torch.nn.Sequential(torch.nn.Sequential(Scale(), Scale()), Scale())

    def change(number: Any) -> tuple[Any, ...]:
        model[0][1].factor = number
        return ()

    return model, change


@place
def a_field_of_a_dataclass() -> Any:
    settings = Settings(1, Settings(2))

    def change(number: Any) -> tuple[Any, ...]:
        settings.inner.value = number
        return ()

    return lambda x: x * settings.inner.value, change


@place
def a_slot() -> Any:
    class Slotted:
        __slots__ = ("value",)

    slotted = Slotted()

    def change(number: Any) -> tuple[Any, ...]:
        slotted.value = number
        return ()

    return lambda x: x * slotted.value, change


@place
def a_class() -> Any:
    class Config:
        value: Any = 0

    def change(number: Any) -> tuple[Any, ...]:
        Config.value = number
        return ()

    return lambda x: x * Config.value, change


@place
def a_property() -> Any:
    class Owner:
        kept: Any = 0

        @property
        def value(self) -> Any:
            return self.kept

    owner = Owner()

    def change(number: Any) -> tuple[Any, ...]:
        owner.kept = number
        return ()

    return lambda x: x * owner.value, change


@place
def an_item_of_a_list() -> Any:
    return lambda x, items: x * items[1], lambda number: ([1, number, 3],)


@place
def an_item_of_a_nested_tuple() -> Any:
    return lambda x, items: x * items[0][1], lambda number: (((1, number), 2),)


@place
def a_dict_in_dicts() -> Any:
    state: Any = {"a": {"b": [0, {"c": 0}]}}

    def change(number: Any) -> tuple[Any, ...]:
        state["a"]["b"][1]["c"] = number
        return ()

    return lambda x: x * state["a"]["b"][1]["c"], change


@place
def values_that_are_walked() -> Any:
    def fn(x, state):
        for value in state.values():
            x = x * value
        return x

    return fn, lambda number: ({"a": 1, "b": number},)


@place
def an_ordered_dict_and_a_deque() -> Any:
    def fn(x, first, second):
        return x * first["k"] * second[0]

    return fn, lambda number: (collections.OrderedDict(k=number), collections.deque([number]))


@place
def a_closure_of_what_is_called() -> Any:
    factor: Any = 0

    def inner(x):
        return x * factor

    def change(number: Any) -> tuple[Any, ...]:
        nonlocal factor
        factor = number
        return ()

    return lambda x: inner(x) + 1, change


@place
def a_global_of_another_module() -> Any:
    other: Any = types.ModuleType("another_module")
    sys.modules["another_module"] = other
    other.deep = {"k": [0]}

    def change(number: Any) -> tuple[Any, ...]:
        other.factor, other.deep["k"][0] = number, number
        return ()

    return lambda x: x * other.factor + other.deep["k"][0], change


@place
def a_keyword() -> Any:
    def fn(x, **given):
        return x * given["factor"]

    return lambda x, factor: fn(x, factor=factor), lambda number: (number,)


@place
def one_of_many_arguments() -> Any:
    def fn(x, *rest):
        return x * rest[1] + rest[0]

    return fn, lambda number: (7, number)


@place
def a_default() -> Any:
    def fn(x, factor=0):
        return x * factor

    def change(number: Any) -> tuple[Any, ...]:
        fn.__defaults__ = (number,)
        return ()

    return fn, change


@place
def a_partial() -> Any:
    def times(x, factor):
        return x * factor

    return lambda x, function: function(x), lambda number: (functools.partial(times, factor=number),)


@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize("kind", NUMBERS)
@pytest.mark.parametrize("name", PLACES)
def test_ten_calls(name: str, kind: str, backend: str) -> None:
    function, change = PLACES[name]()
    lifted = framelift.compile(function, backend=backend)

    def call(index: int) -> None:
        rest = change(NUMBERS[kind](index))
        assert_same(function(torch.ones(2), *rest), lifted(torch.ones(2), *rest))

    assert captures(call, 10) == TEN


CONTAINERS: dict[str, Callable[[int], Any]] = {
    "list": lambda n: [1] * n,
    "tuple": lambda n: (1,) * n,
    "set": lambda n: set(range(n)),
    "frozenset": lambda n: frozenset(range(n)),
    "dict": lambda n: {f"k{i}": i for i in range(n)},
    "OrderedDict": lambda n: collections.OrderedDict.fromkeys(range(n)),
    "Counter": lambda n: collections.Counter(range(n)),
    "deque": lambda n: collections.deque(range(n)),
    "UserList": lambda n: collections.UserList(range(n)),
    "str": lambda n: "a" * n,
    "bytes": lambda n: b"a" * n,
    "range": range,
}


@pytest.mark.parametrize("backend", ["eager", "aot_eager"])
@pytest.mark.parametrize("name", CONTAINERS)
class TestContainers:
    def test_length(self, name: str, backend: str) -> None:
        def fn(x, items):
            return x + len(items)

        lifted = framelift.compile(fn, backend=backend)

        def call(index: int) -> None:
            items = CONTAINERS[name](index + 1)
            assert_same(fn(torch.ones(3), items), lifted(torch.ones(3), items))

        assert captures(call, 12) == [1, 1, *[0] * 10]

    def test_emptiness(self, name: str, backend: str) -> None:
        """How many items there are does not matter to a program that asks whether there are any."""

        def fn(x, items):
            return x + 1 if items else x - 1

        lifted = framelift.compile(fn, backend=backend)

        def call(index: int) -> None:
            items = CONTAINERS[name]((3, 4, 1, 0, 9, 0)[index])
            assert_same(fn(torch.ones(3), items), lifted(torch.ones(3), items))

        # A class of the user's says how long it is, and that is a number that changes.
        assert captures(call, 6) == ([1, 1, 0, 1, 0, 0] if name in ("Counter", "UserList") else [1, 0, 0, 1, 0, 0])


def test_a_length_that_is_used_twice() -> None:
    """What else is used of a container is guarded as well."""

    def fn(x, items, names):
        return x * len(items) + (items["k"] if "k" in items else 0) + len(names) * sum(names)

    lifted = framelift.compile(fn, backend="eager")
    calls = [({"a": 1}, {1}), ({"a": 1, "k": 2}, {1, 2}), ({"k": 3, "c": 2, "b": 3}, {4, 5}), ({"k": 9}, {4})]
    for items, names in calls:
        assert_same(fn(torch.ones(2), items, names), lifted(torch.ones(2), items, names))


def test_a_length_before_a_change() -> None:
    def fn(x, items, names):
        before = len(items), len(names)
        items["new"] = 1
        names.add("new")
        return x * before[0] * before[1], len(items), len(names), bool(items)

    lifted = framelift.compile(fn, backend="eager")
    for n in (1, 2, 3, 4):
        expected, actual = [(dict.fromkeys(range(n)), set(range(n + 1))) for _ in range(2)]
        assert_same(fn(torch.ones(2), *expected), lifted(torch.ones(2), *actual))
        assert_same(expected, actual)
