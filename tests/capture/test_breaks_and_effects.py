"""Programs that break in the middle of what they do: loops, handlers, `with`, closures, views. All must be as eager."""

from __future__ import annotations

import collections
import contextlib
import warnings
from collections.abc import Callable
from typing import Any

import pytest
import torch

import framelift
from tests.helpers import check

broken = framelift.graph_break
Program = Callable[..., Any]
PROGRAMS: list[tuple[Program, tuple[Any, ...]]] = []


def program(*args: Any) -> Callable[[Program], Program]:
    """Register a program that is called with a vector and these arguments."""

    def register(function: Program) -> Program:
        PROGRAMS.append((function, args))
        return function

    return register


# -- loops ------------------------------------------------------------------------------------------------------------


@program([3, 1, 2])
def iterator_asked_inside_its_loop(x: Any, items: list[int]) -> Any:
    it = iter(items)
    for item in it:
        x = x + item
        if item == 1:
            broken()
            items.append(next(it))
    return x, items, list(it)


@program([1, 2, 3])
def list_that_grows(x: Any, items: list[int]) -> Any:
    for item in items:
        broken()
        x = x + item
        if len(items) < 6:
            items.append(item * 10)
    return x, items


@program([1, 2, 3])
def list_that_is_replaced_item_by_item(x: Any, items: list[Any]) -> Any:
    for position, item in enumerate(items):
        items[position] = item + x
        broken()
    return items


@program()
def list_that_shrinks(x: Any) -> Any:
    items = list(range(4))
    it = iter(items)
    for item in it:
        broken()
        items.pop()
        x = x + item
    return x, items, list(it)


@program()
def derived_iterators(x: Any) -> Any:
    numbered, pairs = enumerate([5, 6, 7, 8], 3), zip([1, 2, 3], iter([4, 5]), strict=False)
    doubled, kept = map(lambda v: v * 2, [1, 2, 3]), filter(lambda v: v > 1, [0, 1, 2, 3])
    backwards, forth = reversed([1, 2, 3, 4]), reversed((1, 2, 3, 4))
    for it in (numbered, pairs, doubled, kept, backwards, forth):
        next(it)
    broken()
    x = x + next(numbered)[0] + next(pairs)[1] + next(doubled) + next(kept) + next(backwards) + next(forth)
    broken()
    return x, [list(it) for it in (numbered, pairs, doubled, kept, backwards, forth)]


@program()
def loop_with_everything(x: Any) -> Any:
    log: list[Any] = []
    for number in range(5):
        try:
            if number % 2:
                broken()
                raise ValueError(number)
            log.append(number)
        except ValueError as error:
            log.append(-error.args[0])
            continue
        finally:
            log.append("finally")
        x = x + number
    else:
        log.append("else")
    return x, log


@program()
def loop_that_data_ends(x: Any) -> Any:
    while True:
        x = x + 1
        broken()
        try:
            if x.sum() > 20:
                break
        finally:
            x = x * 2
    return x


# -- exceptions and with ----------------------------------------------------------------------------------------------


@program()
def with_that_swallows(x: Any) -> Any:
    log: list[Any] = []

    class Swallow:
        def __enter__(self) -> None:
            log.append("in")

        def __exit__(self, kind: Any, value: Any, traceback: Any) -> bool:
            log.append((kind.__name__, str(value), traceback is not None))
            return True

    with Swallow():
        x = x + 1
        broken()
        raise KeyError("z")
    return x * 2, log


@program()
def handlers_in_handlers(x: Any) -> Any:
    log = []
    try:
        try:
            x = x + 1
            broken()
            raise ValueError("v")
        finally:
            log.append("finally")
            x = x * 2
    except ValueError as error:
        broken()
        log.append(str(error))
        x = x + 3
    else:
        log.append("else")
    return x, log


@program()
def recursion_with_causes(x: Any) -> Any:
    x = x * 2

    def descend(n: int) -> Any:
        try:
            if n == 0:
                raise IndexError("deep")
            broken()
            return descend(n - 1) + 1
        except IndexError as error:
            if n < 2:
                raise RuntimeError(n) from error
            return x * n

    try:
        return descend(3)
    except RuntimeError as error:
        return x + error.args[0], type(error.__cause__).__name__


@program()
def return_through_finally(x: Any) -> Any:
    try:
        broken()
        return x + 1
    finally:
        x = x + 100
        broken()


@program()
def modes_and_suppression(x: Any) -> Any:
    with torch.no_grad(), contextlib.suppress(ValueError):
        y = x + 1
        broken()
        raise ValueError
    return y * 2, torch.is_grad_enabled()


@program()
def exception_kept_for_later(x: Any) -> Any:
    try:
        broken()
        {}["k"]  # type: ignore[misc]
    except KeyError as error:
        kept = error
    broken()
    return x + 1, type(kept).__name__, kept.args, kept.__context__ is None


# -- state that is shared ---------------------------------------------------------------------------------------------


@program()
def counter_in_a_closure(x: Any) -> Any:
    total = 0

    def add(n: int) -> int:
        nonlocal total
        total += n
        broken()
        total *= 2
        return total

    return x + add(1) + add(2), total


@program([1, [2, 3]])
def object_in_two_places(x: Any, nested: list[Any]) -> Any:
    first, (second, *_) = nested
    broken()
    nested[1].append(x + first)
    last = nested[1][-1]
    broken()
    return last is nested[1][-1], last + second


@program()
def views_written_from_both_sides(x: Any) -> Any:
    y = x.clone()
    view = y[1:]
    broken()
    view.add_(1)
    broken()
    y.mul_(2)
    return y, view


@program()
def attribute_of_a_tensor(x: Any) -> Any:
    x.marks = [1]
    broken()
    x.marks.append(2)
    return x + len(x.marks), x.marks


@program(collections.OrderedDict(a=1, c=2), collections.defaultdict(list), collections.Counter("aab"))
def containers_of_collections(x: Any, ordered: Any, lists: Any, counts: Any) -> Any:
    ordered["b"] = x
    lists["a"].append(1)
    broken()
    ordered.move_to_end("a")
    lists["b"].append(x + 1)
    counts["a"] += 1
    broken()
    return x + counts["a"], list(ordered), lists


@program()
def generator_across_a_break(x: Any) -> Any:
    log = []

    def numbers() -> Any:
        try:
            yield 1
            yield 2
        finally:
            log.append("closed")

    it = numbers()
    first = next(it)
    broken()
    second = next(it)
    del it
    return x + first + second, log


@program()
def values_sent_across_a_break(x: Any) -> Any:
    x = x * 2

    def echo() -> Any:
        received = yield x + 1
        broken()
        yield received * 2

    it = echo()
    return it.send(next(it))


@program()
def printed_before_and_after(x: Any) -> Any:
    print("before", x)
    x.add_(1)
    print(x)
    broken()
    print(x * 2)
    return x


@pytest.mark.parametrize(("function", "args"), PROGRAMS, ids=[function.__name__ for function, _ in PROGRAMS])
def test_programs_that_break_are_as_eager(function: Program, args: tuple[Any, ...]) -> None:
    check(function, torch.arange(4.0), *args, expect_breaks=None)


def test_a_graph_that_warns_and_then_raises_warns_once():
    def fn(x, y, index):
        total = y + 1
        torch.add(x, 1, out=total)  # of another size: torch warns
        try:
            return total, x.index_select(0, index)
        except IndexError as error:
            return total, str(error)

    lifted = framelift.compile(fn, backend="eager")
    for index in (0, 7, 0, 7):
        heard = []
        for function in (fn, lifted):
            with warnings.catch_warnings(record=True) as warned:
                warnings.simplefilter("always")
                function(torch.ones(2, 3), torch.ones(3), torch.tensor([index]))
            heard.append([str(warning.message) for warning in warned])
        assert heard[0] == heard[1] and len(heard[0]) == 1
