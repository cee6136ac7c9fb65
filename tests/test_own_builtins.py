"""Builtins that a program replaces are seen by the program, and by nothing of framelift's."""

import builtins

import pytest
import torch

import framelift
from framelift import own_builtins
from tests.helpers.record import Record


def uses_many(x):
    names = [name for name in sorted(("b", "a")) if isinstance(name, str)]
    total = sum(range(len(names))) + max(1, 2) + abs(-3) + int("4")
    for index, name in enumerate(zip(names, names, strict=False)):
        total += index + len(tuple(name)) + len(list(name)) + any(name)
    return x + total + getattr(x, "ndim", 0) + next(iter([5])) + hash(3) + (type(total) is int)


# What else they may be, in a way that the program shows.
OTHERS = {
    "len": lambda value: 42,
    "abs": lambda value: 9,
    "isinstance": lambda value, kind: True,
    "getattr": lambda *args: 8,
    "sum": lambda values: 77,
    "max": lambda *values: 5,
    "range": lambda count: [100],
    "int": lambda value: 55,
    "iter": lambda values: (value for value in (70,)),
    "type": lambda value: 0,
    "sorted": lambda values: ["c"],
    "hash": lambda value: 12,
    "any": lambda values: 20,
    "list": lambda values: (),
    "tuple": lambda values: (),
    "enumerate": lambda values: [(66, "a")],
    "zip": lambda *values, strict: [("a",)],
}


@pytest.mark.parametrize("name", OTHERS)
def test_a_change_is_seen_and_undone(name, monkeypatch):
    lifted, x = framelift.compile(uses_many, backend="eager"), torch.zeros(2)
    before = uses_many(x)
    torch.testing.assert_close(lifted(x), before)
    original, record = getattr(builtins, name), Record()
    with record.listening():
        setattr(builtins, name, OTHERS[name])
        try:
            eager = uses_many(x)
            given = lifted(x), lifted(x + 1)
        finally:
            setattr(builtins, name, original)
    assert not record.failures
    assert all(bool((one == eager + more).all()) for more, one in enumerate(given))
    with record.listening():
        torch.testing.assert_close(lifted(x), before)
    assert not record.captures


@pytest.mark.parametrize("name", OTHERS)
def test_a_change_in_the_program(name):
    """It lasts over a break, behind which Python goes on."""
    original, other = getattr(builtins, name), OTHERS[name]

    def fn(x):
        y = uses_many(x)
        try:
            setattr(builtins, name, other)
            framelift.graph_break()
            y = y + uses_many(x)
        finally:
            setattr(builtins, name, original)
        return y + uses_many(x)

    lifted, x, record = framelift.compile(fn, backend="eager"), torch.zeros(2), Record()
    eager = fn(x)
    with record.listening():
        given = [lifted(x) for _ in range(2)]
    assert not record.failures and record.ops
    for one in given:
        torch.testing.assert_close(one, eager)


def test_what_only_tells_may_be_replaced(monkeypatch):
    said = []
    monkeypatch.setattr(builtins, "print", lambda *args: said.append(args))

    def fn(x):
        print("a")
        return x + 1

    framelift.compile(fn, backend="eager", fullgraph=True)(torch.zeros(2))
    assert said == [("a",)]


def test_a_name_that_is_gone():
    lifted, x = framelift.compile(uses_many, backend="eager"), torch.zeros(2)
    lifted(x)
    original, raised = builtins.iter, None
    del builtins.iter
    try:
        lifted(x)
    except NameError as error:
        raised = error
    finally:
        builtins.iter = original
    assert "'iter'" in str(raised)


def test_every_module_has_its_own():
    for module in (framelift.api, framelift.config, own_builtins):
        assert (vars(module)["__builtins__"] is own_builtins.OWN) == (module is not own_builtins)
    assert own_builtins.replaced_builtins() == []
