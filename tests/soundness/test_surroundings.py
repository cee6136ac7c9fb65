"""The scenarios again, each with its function somewhere else: in an inlined call, behind a break, in a generator."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import pytest

import framelift
from tests.soundness import (
    test_attributes,
    test_containers,
    test_functions,
    test_impure,
    test_modules,
    test_protocols,
    test_tensors,
    test_torch_state,
)
from tests.soundness.scenario import play

Function = Callable[..., Any]

_MODULES = [
    test_attributes,
    test_containers,
    test_functions,
    test_impure,
    test_modules,
    test_protocols,
    test_tensors,
    test_torch_state,
]
_SCENARIOS = [
    pytest.param(case.values[0], id=case.id)
    for module in _MODULES
    for case in module.scenario.all
    if not any(mark.name == "xfail" for mark in case.marks)
]


def in_a_call(fn: Function) -> Function:
    def called(*args: Any) -> Any:
        return fn(*args)

    return lambda *args: called(*args)


def behind_a_break(fn: Function) -> Function:
    def outer(*args: Any) -> Any:
        framelift.graph_break()
        return fn(*args)

    return outer


def in_a_frame_of_its_own(fn: Function) -> Function:
    @framelift.disable(recursive=False)
    def in_python(*args: Any) -> Any:
        return fn(*args)

    def outer(*args: Any) -> Any:
        return in_python(*args)

    return outer


def in_a_generator(fn: Function) -> Function:
    def results(*args: Any) -> Iterator[Any]:
        try:
            yield fn(*args)
        finally:
            framelift.graph_break()

    def outer(*args: Any) -> Any:
        return list(results(*args))

    return outer


def in_a_loop_with_breaks(fn: Function) -> Function:
    def outer(*args: Any) -> Any:
        results = []
        for number in range(3):
            framelift.graph_break()
            if number == 1:
                results.append(fn(*args))
        return results[-1]

    return outer


_SURROUNDINGS = [in_a_call, behind_a_break, in_a_frame_of_its_own, in_a_generator, in_a_loop_with_breaks]


@pytest.mark.parametrize("around", _SURROUNDINGS)
@pytest.mark.parametrize("steps", _SCENARIOS)
def test_change_is_seen(steps: Any, around: Callable[[Function], Function]) -> None:
    play(steps, around=around)
