"""Changes that go another way than by assignment: through an alias, a base, a registry, or torch's own tools."""

from __future__ import annotations

import collections
import enum
import functools
import random
from typing import Any

import torch
from torch import nn
from torch.nn.utils import parametrize

import framelift
from tests.soundness.scenario import ANY, HIT, MISS, Scenarios, Steps, X, play

scenario = Scenarios()


def colours() -> Any:
    class Colour(enum.Enum):
        RED = 2
        BLUE = 3

    return Colour


@scenario
def value_of_an_enum_member() -> Steps:
    colour = colours()
    yield (lambda x, member: x * member.value), (X, colour.RED)
    colour.RED._value_ = 9
    yield MISS
    colour.RED._value_ = 2
    yield HIT


@scenario
def values_of_all_members() -> Steps:
    colour = colours()
    yield (lambda x: x * sum(member.value for member in colour)), (X,)
    colour.BLUE._value_ = 50
    yield MISS


@scenario
def registry_of_enum_values() -> Steps:
    colour = colours()

    def f(x: Any) -> Any:
        try:
            return x * 2 if colour(2) is colour.RED else x
        except ValueError:
            return x * 3

    yield f, (X,)
    colour._value2member_map_.clear()
    yield ANY


@scenario
def method_of_the_oldest_base() -> Steps:
    class Base:
        def scale(self, x: Any) -> Any:
            return x * 2

    class Middle(Base):
        pass

    class Youngest(Middle):
        pass

    obj = Youngest()
    yield (lambda x: obj.scale(x)), (X,)
    Base.scale = lambda self, x: x * 3  # type: ignore[method-assign]
    yield MISS
    Middle.scale = lambda self, x: x * 4  # type: ignore[method-assign]
    yield MISS
    del Middle.scale
    yield HIT


@scenario
def method_that_becomes_another_kind() -> Steps:
    class Plain:
        def scale(self, x: Any) -> Any:
            return x * 2

    obj, cls = Plain(), Plain
    yield (lambda x: obj.scale(x)), (X,)
    for kind in (staticmethod(lambda x: x * 3), classmethod(lambda cls, x: x * 5), functools.partial(lambda x: x * 7)):
        cls.scale = kind  # type: ignore[method-assign, assignment]
        yield ANY
    vars(obj)["scale"] = lambda x: x * 9
    yield MISS


@scenario
def items_in_another_order() -> Steps:
    table = {"a": 2.0, "b": 3.0}

    def f(x: Any) -> Any:
        for name, value in table.items():
            x = x * value if name == "a" else x + value
        return x

    yield f, (X,)
    table["a"] = table.pop("a")
    yield MISS
    table["b"] = table.pop("b")
    yield HIT


@scenario
def equality_of_ordered_dicts() -> Steps:
    one, two = collections.OrderedDict(a=1, b=2), collections.OrderedDict(a=1, b=2)
    yield (lambda x: x * 2 if one == two else x * 3), (X,)
    two.move_to_end("a")
    yield MISS


@scenario
def arguments_of_a_partial() -> Steps:
    part = functools.partial(lambda x, k: x * k, k=2)
    yield (lambda x: part(x)), (X,)
    part.keywords["k"] = 5
    yield MISS


@scenario
def parametrization_of_a_module() -> Steps:
    class Doubled(nn.Module):
        def forward(self, weight: Any) -> Any:
            return weight * 2

    net = nn.Linear(4, 4)
    yield (lambda x: net(x).detach()), (X,)
    parametrize.register_parametrization(net, "weight", Doubled())
    yield MISS
    parametrize.remove_parametrizations(net, "weight")
    yield ANY


@scenario
def method_of_generators_of_random_numbers() -> Steps:
    own = random.Random(1)

    def f(x: Any) -> Any:
        own.seed(7)
        return x * own.uniform(1, 2)

    original = random.Random.uniform
    yield f, (X,)
    try:
        random.Random.uniform = lambda self, a, b: 100.0  # type: ignore[method-assign, assignment]
        yield MISS
    finally:
        random.Random.uniform = original  # type: ignore[method-assign]
    yield HIT


@scenario.parametrize()
def test_change_is_seen(steps: Any, breaks: bool) -> None:
    play(steps, breaks)


def test_a_seed_between_calls_is_seen() -> None:
    lifted = framelift.compile(lambda x: x * random.random(), backend="eager", fullgraph=True)
    for seed in (1, 1, 2):
        random.seed(seed)
        first, state = lifted(X), random.getstate()
        random.seed(seed)
        assert torch.equal(first, X * random.random())
        assert state == random.getstate()
