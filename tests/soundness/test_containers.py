"""Changes of containers and plain arguments are seen."""

from __future__ import annotations

import collections
import collections.abc
from typing import Any

import torch

from tests.soundness.scenario import ANY, HIT, MISS, Scenarios, Steps, X, classes, play

scenario = Scenarios()


@scenario
def list_changed() -> Steps:
    values: list[Any] = [1, 2, [3]]
    yield (lambda values, x: x * values[0] + values[2][0]), (values, X)
    values[0] = 5
    yield MISS
    values[2].insert(0, 9)
    yield MISS
    values[1] = "not looked at"
    yield HIT


@scenario
def items_of_an_ordered_dict_become_one() -> Steps:
    stored = {"ordered": collections.OrderedDict(a=[1], b=[1])}

    def told_apart(stored: Any, x: Any) -> Any:
        items = stored["ordered"]
        return (x + 1 if items["a"] is items["b"] else x * 3) if list(items) == ["a", "b"] else x

    yield told_apart, (stored, X)
    yield HIT
    yield HIT
    stored["ordered"]["b"] = stored["ordered"]["a"]
    yield MISS


@scenario
def list_grown() -> Steps:
    values = [1, 2]
    yield (lambda values, x: x * sum(values)), (values, X)
    values.append(3)
    yield MISS
    values.pop()
    yield HIT


@scenario
def list_replaced_by_tuple_and_back() -> Steps:
    yield (lambda values, x: x * values[0]), ([2], X)
    yield MISS, ((2,), X)
    yield HIT, ([2], X)


@scenario
def dict_changed() -> Steps:
    table: dict[str, Any] = {"a": 1, "b": {"c": 2}}
    yield (lambda d, x: x * d["a"] + d["b"]["c"]), (table, X)
    table["a"] = 4
    yield MISS
    table["b"]["c"] = 7
    yield MISS
    table["z"] = 0
    yield HIT
    table["b"] = {"c": 7}
    yield HIT
    del table["a"]
    yield ANY


@scenario
def dict_membership_and_get() -> Steps:
    table: dict[str, Any] = {}
    yield (lambda d, x: x + 1 if "k" in d else x * d.get("m", 3)), (table, X)
    table["m"] = 5
    yield MISS
    table["k"] = 1
    yield MISS


@scenario
def dict_order() -> Steps:
    def f(d: dict[str, int], x: Any) -> Any:
        for value in d.values():
            x = x * 2 + value
        return x

    yield f, ({"a": 1, "b": 2}, X)
    yield MISS, ({"b": 2, "a": 1}, X)
    yield HIT, ({"a": 1, "b": 2}, X)


@scenario
def dict_length() -> Steps:
    table = {"a": 1}
    yield (lambda d, x: x * len(d)), (table, X)
    table["b"] = 1
    yield MISS


@scenario
def ordered_dict() -> Steps:
    table = collections.OrderedDict(a=1, b=2)
    yield (lambda d, x: x * list(d.values())[0]), (table, X)
    table.move_to_end("a")
    yield MISS


@scenario
def ordered_dict_with_attributes_over_its_methods() -> Steps:
    table: Any = collections.OrderedDict(a=1, b=2)
    yield (lambda d, x: x * len(list(d.keys()))), (table, X)
    table.other = 3
    yield HIT
    table.keys = lambda: "abcd"
    yield MISS
    del table.keys
    yield HIT


@scenario
def subclass_with_attributes_over_its_methods() -> Steps:
    class Own(collections.OrderedDict[str, int]):
        pass

    table: Any = Own(a=1, b=2)
    yield (lambda d, x: x * len(list(d.keys()))), (table, X)
    table.keys = lambda: "abcd"
    yield MISS
    vars(table).clear()
    yield HIT


@scenario
def set_changed() -> Steps:
    values = {1, 2}
    yield (lambda s, x: x + 1 if 3 in s else x - 1), (values, X)
    values.add(3)
    yield MISS
    values.discard(3)
    yield HIT


@scenario
def tuple_of_other_values() -> Steps:
    yield (lambda t, x: x * t[0] + t[1][0]), ((1, [2]), X)
    yield MISS, ((1, [3]), X)
    yield MISS, ((2, [3]), X)
    yield HIT, ((1, [2]), X)


@scenario
def named_tuple() -> Steps:
    pair = collections.namedtuple("pair", "a b")
    yield (lambda t, x: x * t.a), (pair(1, 2), X)
    yield MISS, (pair(3, 2), X)


@scenario
def same_object_twice() -> Steps:
    one, two = [1], [1]
    yield (lambda a, b, x: x + 1 if a is b else x - 1), (one, two, X)
    yield MISS, (one, one, X)
    yield HIT, (two, one, X)


@scenario
def changed_object_that_is_another_argument_too() -> Steps:
    def f(a: list[int], b: list[int], x: Any) -> Any:
        a.append(1)
        return x * len(b)

    yield f, lambda: ([], [], X)

    def twice() -> Any:
        one: list[int] = []
        return one, one, X

    yield MISS, twice
    yield HIT, lambda: ([], [], X)


@scenario
def scalars() -> Steps:
    def f(n: Any, x: Any) -> Any:
        return x + 1 if n < 3 else x - 1

    yield f, (1, X)
    yield HIT, (2, X)
    yield MISS, (3, X)
    yield ANY, (1.5, X)
    yield ANY, (True, X)


@scenario
def floats_by_their_bits() -> Steps:
    yield (lambda s, x: x * s), (0.0, X)
    yield ANY, (-0.0, X)
    yield ANY, (float("nan"), X)
    yield ANY, (0, X)


@scenario
def range_and_slice_arguments() -> Steps:
    yield (lambda r, x: x * len(r)), (range(3), X)
    yield MISS, (range(4), X)
    yield HIT, (range(3), X)


@scenario
def callable_argument() -> Steps:
    yield (lambda g, x: g(x) + 1), (torch.sin, X)
    yield MISS, (torch.cos, X)
    yield MISS, ((lambda x: x * 2), X)
    yield HIT, (torch.sin, X)


@scenario
def class_argument() -> Steps:
    base, derived = classes()
    yield (lambda cls, x: cls().scale(x)), (base, X)
    derived.factor = 8
    yield MISS, (derived, X)
    base.factor = 4
    yield MISS, (base, X)


@scenario
def bound_method_argument() -> Steps:
    base, _ = classes()
    a, b = base(), base()
    b.factor = 9
    yield (lambda m, x: m(x)), (a.scale, X)
    yield MISS, (b.scale, X)
    yield HIT, (base().scale, X)


@scenario.parametrize()
def test_change_is_seen(steps: Any, breaks: bool) -> None:
    play(steps, breaks)
