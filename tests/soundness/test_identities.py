"""Two objects of one call are one object in the next, and the other way round: keys, members, `is`, `id`, `==`."""

from __future__ import annotations

import functools
import types
from typing import Any

import pytest
import torch

import framelift

X = torch.ones(2)


class Plain:
    def method(self) -> None: ...


def make_function() -> Any:
    def inner() -> None: ...

    return inner


KINDS: dict[str, Any] = {
    "instance": Plain,
    "module": lambda: torch.nn.Linear(1, 1),
    "function": make_function,
    "tensor": lambda: torch.ones(1),
    "class": lambda: type("Made", (), {}),
    "method": lambda: Plain().method,
    "method in C": lambda: Plain().__init__,
    "method of a list": lambda: [].append,
    "partial": lambda: functools.partial(print),
    "object": object,
    "namespace": types.SimpleNamespace,
    "Python module": lambda: types.ModuleType("made"),
    "list": list,
}
PAIRS: dict[str, Any] = {
    "set": lambda x, a, b: (x + 1, len({a, b})),
    "dict": lambda x, a, b: (x + 1, len({a: 1, b: 2})),
    "in a set": lambda x, a, b: (x + 1, b in {a}),
    "in a dict": lambda x, a, b: (x + 1, {a: 1}.get(b), {a: "one"}.setdefault(b, "other")),
    "in a list": lambda x, a, b: (x + 1, b in [a], [a].count(b), [a, b].index(b)),
    "in keys": lambda x, a, b: (x + 1, {(a, 1): 3}.get((b, 1)), (a, 1) == (b, 1)),
    "==": lambda x, a, b: (x + 1, a == b, a != b),
    "is": lambda x, a, b: (x + 1, a is b, a is not b),
    "id": lambda x, a, b: (x + 1, id(a) == id(b), len({id(a), id(b)})),
    "hash": lambda x, a, b: (x + 1, hash(a) == hash(b)),
    "sets": lambda x, a, b: (x + 1, frozenset([a]) == frozenset([b]), len({a} | {b}), len(dict.fromkeys([a, b]))),
    "apart": lambda x, a, b: (x + 1, [{a: 1}, {b: 2}], set([a]) & set([b])),
}
GIVEN: dict[str, Any] = {
    "get": lambda x, keys, a: (x + 1, keys.get(a)),
    "in": lambda x, keys, a: (x + 1, a in keys, a in set(keys)),
    "is": lambda x, keys, a: (x + 1, [key is a for key in keys]),
    "added": lambda x, keys, a: (x + 1, len({**keys, a: 1})),
}


def outcome(function: Any, *args: Any) -> Any:
    """What a function says of its arguments, or what it raises."""
    try:
        return [str(part) for part in function(X, *args)[1:]]
    except (TypeError, RuntimeError) as error:
        return f"{type(error).__name__}: {error}"


def agrees(program: Any, calls: list[tuple[Any, ...]]) -> None:
    """One entry's answer must not be given to a call with other identities."""
    function = types.FunctionType(program.__code__.replace(), program.__globals__)
    lifted = framelift.compile(function, backend="eager")
    for _ in range(2):
        for args in calls:
            assert outcome(lifted, *args) == outcome(program, *args)
    assert framelift.counters().captures


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("use", PAIRS)
def test_two_objects(use: str, kind: str) -> None:
    a, b = KINDS[kind](), KINDS[kind]()
    agrees(PAIRS[use], [(a, b), (a, a), (b, a), (b, b)])
    agrees(PAIRS[use], [(a, a), (a, b)])


@pytest.mark.parametrize("kind", [kind for kind in KINDS if kind not in ("list", "namespace")])
@pytest.mark.parametrize("use", GIVEN)
def test_keys_that_are_given(use: str, kind: str) -> None:
    a, b, c = (KINDS[kind]() for _ in range(3))
    calls = [({a: 1, b: 2}, a), ({a: 1, b: 2}, b), ({a: 1, b: 2}, c), ({b: 1, a: 2}, a), ({c: 3}, c), ({a: 1}, b)]
    agrees(GIVEN[use], calls)


@pytest.mark.parametrize("kind", ["instance", "tensor", "function"])
def test_many_keys_cost_little(kind: str) -> None:
    """What is known of each key is known of all: not of each pair."""
    keys = [KINDS[kind]() for _ in range(60)]
    explained = framelift.explain(lambda x: (x + 1, len({id(key) for key in keys}), len(set(keys))))(X)
    assert len(keys) < len(explained.guards) < 10 * len(keys)
