"""Names that generated code cannot spell: Python's keywords and what is no identifier."""

from __future__ import annotations

import functools
import keyword
from collections.abc import Callable
from typing import Any

import pytest
import torch

import framelift
from framelift.errors import FullGraphError
from framelift.graph.names import Names, unspellable
from tests.helpers import check

X = torch.randn(2, 3)
BOUNDS: Any = {"from": -10, "to": 10}
BACKENDS = ["eager", "aot_eager", pytest.param("inductor", marks=pytest.mark.slow)]
WORDS = [*keyword.kwlist, "a b", "1", "x-y", "", "__debug__", "é", "output", "torch", "device"]
aten: Any = torch.ops.aten

DRAWS: dict[str, Callable[[Any], Any]] = {
    "method": lambda x: x.random_(**BOUNDS),
    "method of a result": lambda x: (x * 2).random_(**BOUNDS) + 1,
    "one word": lambda x: (x * 2).uniform_(**{"from": -1.0}),
    "method by position": lambda x: (x * 1).random_(1, 10) * 2,
    "unbound": lambda x: torch.Tensor.uniform_(x * 1, **BOUNDS),
    "operator": lambda x: aten.uniform(x, **{"from": 0.0, "to": 2.0}),
    "overload": lambda x: aten.uniform.default(x, **{"from": 0.0, "to": 2.0}) + x,
    "named overload": lambda x: getattr(aten.random_, "from")(x * 1, 0, 5) * x,
    "named overload, named bounds": lambda x: getattr(aten.random, "from")(x, **{"from": 0, "to": 9}) * x,
    "in an optional call": lambda x: [part.random_(**BOUNDS) for part in x.clone().unbind()],
    "checkpoint": lambda x: torch.utils.checkpoint.checkpoint(lambda y: y * torch.rand(3).uniform_(**BOUNDS), x),
    "vmap": lambda x: torch.vmap(lambda y: y.clone().uniform_(**BOUNDS), randomness="different")(x).shape,
}


@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize("name", DRAWS)
def test_draws(name: str, backend: str) -> None:
    check(DRAWS[name], X, backend=backend, expect_ops=0, expect_breaks=None)


def test_fullgraph_says_why() -> None:
    with pytest.raises(FullGraphError, match="the code of a graph cannot have 'from' as a name"):
        framelift.compile(DRAWS["method of a result"], backend="eager", fullgraph=True)(X.clone())


def total(x: Any, /, **given: Any) -> Any:
    for word, value in given.items():
        x = x * 2 + value * len(word)
    return x


@pytest.mark.parametrize("backend", ["eager", "aot_eager"])
@pytest.mark.parametrize("word", WORDS)
def test_keywords_of_the_program(word: str, backend: str) -> None:
    def inner(x: Any, y: Any) -> Any:
        return total(x, **{word: y, "to": 2.0})

    check(inner, X, X + 1, backend=backend, fullgraph=True)


@pytest.mark.parametrize("word", WORDS)
def test_keywords_of_the_call(word: str) -> None:
    given = {word: X + 1}
    lifted = framelift.compile(total, backend="eager", fullgraph=True)
    for _ in range(2):
        assert torch.equal(lifted(X, **given), total(X, **given))
    module, _ = framelift.export(total, X, **given)
    assert torch.equal(module(X, **given), total(X, **given))


@pytest.mark.parametrize("word", WORDS)
def test_keywords_across_graph_breaks(word: str) -> None:
    def breaking(x: Any, y: Any) -> Any:
        given = {word: x * 2}
        framelift.graph_break()
        return total(y, **given, to=x), given

    check(breaking, X, X + 1, expect_breaks=1)


class Holder(torch.nn.Module):
    def __init__(self, word: str) -> None:
        super().__init__()
        self.word = word
        self.add_module(word, torch.nn.Linear(3, 3))
        self.parts = torch.nn.ModuleDict({word: torch.nn.Linear(3, 3)})
        self.parts.register_buffer(f"{word}_of", torch.ones(3))
        setattr(self, f"not {word}", torch.ones(3))

    def forward(self, x: Any) -> Any:
        x = self.parts[self.word](getattr(self, self.word)(x)) + self.parts.get_buffer(f"{self.word}_of")
        return x * getattr(self, f"not {self.word}")


@pytest.mark.parametrize("word", [word for word in WORDS if word])
def test_modules(word: str) -> None:
    check(Holder(word), X, backend="aot_eager", fullgraph=True)
    model = Holder(word)
    module, _ = framelift.export(model, X)
    assert torch.equal(module(X), model(X))


OPERATORS = {
    "argument": "scale(Tensor x, float from) -> Tensor",
    "argument by name alone": "named(Tensor x, *, float from) -> Tensor",
    "overload": "overloaded.from(Tensor x, float factor) -> Tensor",
    "operator": "from(Tensor x, float factor) -> Tensor",
}


@functools.cache
def library(key: str) -> torch.library.Library:
    """Operators with such names; torch keeps them as long as the process lives."""
    made = torch.library.Library(f"words_{key.lower()}", "DEF")
    # torch asks each packet for its overload without a name.
    for schema in [*OPERATORS.values(), "overloaded(Tensor x) -> Tensor"]:
        made.define(schema)
        made.impl(schema.partition("(")[0], lambda x, factor=1.0, **given: x * given.get("from", factor), key)
    return made


@pytest.mark.parametrize("backend", ["eager", "aot_eager"])
@pytest.mark.parametrize("key", ["CompositeExplicitAutograd", "CompositeImplicitAutograd"])
@pytest.mark.parametrize("kind", OPERATORS)
def test_operators_of_libraries(kind: str, key: str, backend: str) -> None:
    schema = OPERATORS[kind]
    operator = getattr(getattr(torch.ops, library(key).ns), schema.partition("(")[0].partition(".")[0])
    word = "from" if "float from" in schema else "factor"
    check(lambda x: operator(x * 2, **{word: 3.0}) + 1, X, backend=backend, expect_breaks=None)


def test_unspellable() -> None:
    assert all(unspellable([word]) == word for word in [*keyword.kwlist, "a b", "1", ""])
    assert unspellable(["match", "case", "_", "type", "é"]) is None
    names = Names()
    assert unspellable([names.for_operation(word) for word in keyword.kwlist]) is None
