"""Captures and resets leave nothing behind, however many there are in one process."""

from __future__ import annotations

import contextlib
import gc
import linecache
import logging
import weakref
from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch.fx import graph_module

import framelift
from framelift.graph import torch_caches


def objects() -> int:
    for _ in range(3):  # what dies with a module may refer to more
        gc.collect()
    # (Not what pytest keeps of what is logged.)
    return sum(type(each) not in (list, dict, logging.LogRecord) for each in gc.get_objects())


def growth(work: Callable[[int], object], times: int = 100) -> float:
    """How many objects, that the garbage collector knows, each time leaves behind."""
    for number in range(times):
        work(number)
    before = objects()
    for number in range(times, 2 * times):
        work(number)
    return (objects() - before) / times


def multiplied(x: torch.Tensor, number: int) -> torch.Tensor:
    return (x * number).sin() + x.clone()


@pytest.mark.parametrize("dynamic", [None, False, True])
def test_captures_and_resets(dynamic: bool | None, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(torch_caches, "MOST_FAKES", 0)
    lifted = framelift.compile(multiplied, backend="eager", dynamic=dynamic)

    def work(number: int) -> None:
        lifted(torch.ones(3 + number % 7), 2 + number % 9)
        if number % 5 == 4:
            framelift.reset()

    assert growth(work) < 1


def sources() -> int:
    return len(graph_module._loader.eval_cache) + sum(name.startswith("<eval_with_key>") for name in linecache.cache)


@pytest.mark.parametrize("backend", ["eager", "aot_eager"])
@pytest.mark.parametrize("is_training", [False, True])
def test_recompiles(backend: str, is_training: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    """Neither objects nor the source of generated code stay."""
    # (pytest keeps what is logged, which is what torch knows of each compilation.)
    monkeypatch.setattr(logging.root.manager, "disable", logging.CRITICAL)
    monkeypatch.setattr(torch_caches, "MOST_FAKES", 0)
    lifted = framelift.compile(multiplied, backend=backend, dynamic=False)
    seen: list[int] = []

    def work(number: int) -> None:
        y = lifted(torch.ones(3 + number % 7, requires_grad=is_training), 2 + number % 9)
        if is_training:
            y.sum().backward()
        framelift.reset()
        seen.append(sources())

    # (torch keeps what it knows of its last 64 compilations.)
    # Under pytest one object more is left by each compiled backward; in a process without it none is.
    assert growth(work, 130) < (2 if backend == "aot_eager" and is_training else 1)
    assert seen[-1] - seen[129] < 9


def test_functions_that_come_and_go() -> None:
    def work(number: int) -> None:
        def f(x: torch.Tensor) -> torch.Tensor:
            print(end="")
            return multiplied(x, 3)

        framelift.compile(f, backend="eager", dynamic=True)(torch.ones(3 + number % 7))

    assert growth(work) < 1


def test_modules_that_come_and_go() -> None:
    def work(number: int) -> None:
        model = torch.nn.Sequential(torch.nn.Linear(4, 4), torch.nn.ReLU())
        framelift.compile(model, backend="eager")(torch.ones(2, 4)).sum().backward()

    assert growth(work) < 1


@pytest.mark.parametrize("backend", ["eager", "aot_eager"])
def test_operations_of_the_program_that_come_and_go(backend: str) -> None:
    """What is asked about the operators of torch is remembered; of a function of the program's nothing is."""

    def work() -> list[weakref.ref[Any]]:
        weight = torch.ones(3)

        class Operation:
            def __call__(self, x: torch.Tensor, out: Any = None) -> torch.Tensor:
                return x * 2

        def function(x: torch.Tensor, out: Any = None) -> torch.Tensor:
            return x * weight.shape[0]

        first, second = framelift.allow_in_graph(function), framelift.allow_in_graph(Operation())
        lifted = framelift.compile(lambda x: first(x) + second(x), backend=backend)
        lifted(torch.ones(3))
        with contextlib.suppress(Exception):
            framelift.compile(lambda x, y: first(x, out=y), backend=backend)(torch.ones(3), torch.ones(3))
        return [weakref.ref(function), weakref.ref(second), weakref.ref(weight)]

    references = work()
    framelift.reset()
    objects()
    assert [reference() for reference in references] == [None] * 3


def test_the_source_of_a_graph_lives_as_long_as_its_code() -> None:
    def sources() -> set[str]:
        objects()
        return set(graph_module._loader.eval_cache)

    kept: list[Any] = []

    def backend(module: Any, example_inputs: Any) -> Any:
        kept.append(module.forward)
        return module.forward

    known = sources()
    framelift.compile(lambda x: x.sin() + 1, backend=backend)(torch.ones(3))
    framelift.reset()
    (name,) = sources() - known
    assert "sin" in linecache.getline(name, 5) + "".join(linecache.getlines(name))
    kept.clear()
    assert not sources() - known and name not in linecache.cache
