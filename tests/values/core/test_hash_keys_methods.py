"""Bound methods as keys: equal if they are bound to one object, however often they are looked up."""

from __future__ import annotations

import types

import framelift
from tests.helpers import check
from tests.values.programs import Programs, x

programs = Programs()


class Owner:
    def method(self):
        return 1

    def other(self):
        return 2


ONE, TWO = Owner(), Owner()
TABLE = {ONE.method: 1, len: 2}


@programs
def made_here(x):
    new = Owner()
    table = {ONE.method: 1, TWO.method: 2, new.method: 3}
    found = [ONE.method in table, ONE.other in table, Owner().method in table, table[new.method]]
    return x + 1, found, len({ONE.method, ONE.method, ONE.other}), ONE.method == ONE.method, ONE.method is ONE.method


@programs
def counted(x):
    table = {}
    for method in (ONE.method, TWO.method, ONE.method, "s".upper, "s".upper, "t".upper, [].append, len):
        table[method] = table.get(method, 0) + 1
    return x + 1, list(table.values()), len in table, "s".upper in table, "s".lower in table


@programs
def of_a_table_from_outside(x):
    return x + TABLE[ONE.method], ONE.method in TABLE, TWO.method in TABLE, TABLE.get(TWO.method), len in TABLE


@programs(expect_breaks=None)
def proxies(x):
    try:
        return x + 1, {types.MappingProxyType({}): 1}
    except TypeError as error:
        return x + 2, str(error)


test_programs = programs.test()


def test_their_hashes_are_not_known():
    def f(x):
        called = sorted(method() for method in {ONE.method, TWO.method, ONE.other, TWO.other, ONE.method})
        return x + 1, called, hash(ONE.method), hash(ONE.method) == hash(TWO.method)

    assert framelift.compile(f, backend="eager")(x())[1:] == f(x())[1:]


def test_hooks_that_are_counted():
    def f(x, hooks):
        hooks[ONE.method] = hooks.get(ONE.method, 0) + 1
        return x + len(hooks)

    check(f, x(), {}, changed=[(x(), {ONE.method: 3}), (x(), {TWO.method: 3, ONE.method: 1})])


def test_a_set():
    members = {ONE.method, TWO.method}

    def f(x):
        added = members | {ONE.method, ONE.other}
        return x + len(added), ONE.method in members, Owner().method in members, len({TWO.method} - members)

    lifted = framelift.compile(f, backend="eager", fullgraph=True)
    for change in (lambda: None, lambda: members.discard(TWO.method), lambda: members.add(ONE.other)):
        change()
        for _ in range(2):
            assert repr(lifted(x())) == repr(f(x()))


def test_a_table_that_changes():
    table = {ONE.method: 1}

    def f(x):
        return x + (1 if TWO.method in table else 2)

    lifted = framelift.compile(f, backend="eager", fullgraph=True)
    assert lifted(x()).equal(x() + 2)
    table[TWO.method] = 2
    assert lifted(x()).equal(x() + 1)
    del table[TWO.method]
    assert lifted(x()).equal(x() + 2)
