"""Cells: contents read, written, emptied; closures seen through `__closure__`."""

from __future__ import annotations

import pytest
import torch

import framelift
from tests.helpers import check
from tests.values.programs import Programs, follow, x

programs = Programs()


def counter():
    n = 0

    def up():
        nonlocal n
        n += 1
        return n

    def get():
        return n

    def drop():
        nonlocal n
        del n

    return up, get, drop


@programs(expect_breaks=None)
def cells_compare_what_is_in_them(x):
    def inner():
        return one, other, missing

    one, other = 3, 3.0
    if one == 0:
        missing = 1
    first, third, second = [inner.__closure__[inner.__code__.co_freevars.index(n)] for n in ("one", "missing", "other")]
    return x + 1, first == second, third == third, third < first, first != third


def test_a_counter_as_input():
    up, get, _ = counter()

    def fn(x):
        return x * up() + up() * get()

    check(fn, x())


def test_a_cell_is_emptied():
    up, get, drop = counter()

    def fn(x):
        drop()
        try:
            return x + get()
        except NameError:
            return x - 1

    lifted = framelift.compile(fn, backend="eager")
    assert torch.equal(lifted(x()), x() - 1)
    with pytest.raises(NameError):
        get()


def test_a_tensor_in_a_cell_is_replaced():
    weight = torch.ones(3)

    def fn(x):
        return x * weight

    def change():
        nonlocal weight
        weight = torch.full((3,), 2.0)

    lifted = framelift.compile(fn, backend="eager")
    assert torch.equal(lifted(x()), x())
    change()
    assert torch.equal(lifted(x()), x() * 2)


def test_a_cell_holds_state_between_calls():
    state = {"sum": torch.zeros(2, 3)}
    steps = 0

    def fn(x):
        nonlocal steps
        steps += 1
        state["sum"] = state["sum"] + x
        return state["sum"] * 2

    check(fn, x(), expect_hit=False)


def test_another_kind_of_contents():
    value = 1

    def fn(x):
        return x + value if value is not None else x - 1

    def change(new):
        nonlocal value
        value = new

    follow(fn, (x(),), lambda: change(2.5), lambda: change(None), lambda: change(True), lambda: change(1))


def test_cells_are_shared_with_a_returned_function():
    def fn(x):
        n = 1

        def up():
            nonlocal n
            n += 1
            return n

        up()
        return up, lambda: n, x + n

    up, get, _ = framelift.compile(fn, backend="eager")(x())
    assert get() == 2
    assert up() == 3 and get() == 3


@programs
def class_cell(x):
    return Derived().f(x)


class Base:
    def f(self, x):
        return x + 1


class Derived(Base):
    def f(self, x):
        return __class__.__name__, super().f(x)


@programs
def cell_contents(x):
    k = 4

    def inner():
        return k

    return x + inner.__closure__[0].cell_contents


@programs
def comprehension_variable_in_closure(x):
    functions = [(lambda: i + j) for i in range(2) for j in range(2)]
    return x + 1, [f() for f in functions]


@programs
def cell_written_in_loop(x):
    total = 0

    def add(n):
        nonlocal total
        total += n

    for n in range(4):
        add(n)
    return x + total


@programs
def two_levels_of_nonlocal(x):
    a = 1

    def one():
        def two():
            nonlocal a
            a = a * 3

        two()
        two()

    one()
    return x + a


@programs
def contents_that_are_assigned_by_hand(x):
    n = 1

    def read():
        return n

    cell = read.__closure__[0]
    cell.cell_contents = 5
    found = [n, read(), cell.cell_contents]
    del cell.cell_contents
    for empty in (lambda: cell.cell_contents, read):
        try:
            empty()
        except (ValueError, NameError) as error:
            found.append(str(error))
    n = 7
    return x + cell.cell_contents, found


test_programs = programs.test()
