"""Small pieces of the standard library in programs: exit stacks, `sys.exc_info`, namespaces, plain data."""

from __future__ import annotations

import contextlib
import json
import operator
import os
import struct
import sys
import types

import torch

from tests.values.programs import Programs, follow, x

programs = Programs()


@contextlib.contextmanager
def noting(log, name):
    log.append(name)
    try:
        yield name
    finally:
        log.append(-name)


@programs()
def attributes_of_an_error_of_the_library(x):
    try:
        json.loads("{bad")
    except ValueError as error:
        return x + 1, error.msg, error.pos, error.lineno, str(error)


@programs()
def exit_stack(x):
    log = []
    with contextlib.ExitStack() as stack:
        a = stack.enter_context(noting(log, 1))
        b = stack.enter_context(noting(log, 2))
        stack.callback(log.append, 9)
        x = x + a + b
    return x, log


@programs()
def exit_stack_that_suppresses(x):
    log = []
    with contextlib.ExitStack() as stack:
        stack.enter_context(contextlib.suppress(ValueError))
        stack.enter_context(noting(log, 1))
        raise ValueError("a")
    return x + 1, log


@programs()
def exit_stack_with_modes(x):
    with contextlib.ExitStack() as stack:
        stack.enter_context(torch.no_grad())
        y = x * 2
    return y + 1, torch.is_grad_enabled()


@programs()
def exit_stack_popped(x):
    log = []
    with contextlib.ExitStack() as stack:
        stack.enter_context(noting(log, 1))
        kept = stack.pop_all()
    log.append("kept")
    kept.close()
    return x + 1, log


@programs()
def exception_info(x):
    before = sys.exc_info()
    try:
        raise KeyError("k")
    except KeyError as error:
        kind, value, _ = sys.exc_info()
        same = value is error
    return x + 1, before, kind.__name__, same, sys.exc_info()[0]


@programs()
def methods_made_by_hand(x):
    method = types.MethodType(lambda self, t: t + self, 3)
    return method(x), method.__self__


@programs()
def simple_namespaces(x):
    n = types.SimpleNamespace(a=1, b=x)
    n.c = 2
    del n.a
    return n.b + n.c, hasattr(n, "a"), types.SimpleNamespace(k=1) == types.SimpleNamespace(k=1), vars(n).keys()


@programs()
def a_simple_namespace_leaves_the_frame(x):
    return types.SimpleNamespace(t=x + 1, k=[1]), repr(types.SimpleNamespace(k=1, s="a"))


SETTINGS = types.SimpleNamespace(scale=2)


def test_a_simple_namespace_from_outside():
    def fn(x):
        return x * SETTINGS.scale

    before = SETTINGS.scale
    try:
        follow(fn, (x(),), lambda: setattr(SETTINGS, "scale", 7))
    finally:
        SETTINGS.scale = before


@programs()
def changes_a_given_namespace(x):
    SETTINGS.last = 3
    return x + SETTINGS.last


@programs()
def plain_data(x):
    text = json.dumps({"b": [1, 2.5, None, True], "a": "é"}, sort_keys=True)
    shown = json.dumps({"a": [1]}, indent=2)
    return (
        x + 1,
        text,
        shown,
        json.loads('{"a": [1, {"b": null}]}'),
        struct.pack("<i", 3),
        struct.unpack("<i", b"\1\0\0\0"),
    )


@programs()
def data_that_is_not_plain(x):
    try:
        json.dumps({1, 2})
    except TypeError:
        return x + 1


@programs()
def paths(x):
    return x + 1, os.path.join("a", "b"), os.path.basename("a/b.c"), os.path.splitext("a.b"), os.path.dirname("a/b")


SECOND, FIRST_AND_LAST = operator.itemgetter(1), operator.itemgetter(0, -1)
SCALE, PARTS, UPPER = operator.attrgetter("scale"), operator.attrgetter("real", "imag"), operator.methodcaller("upper")


@programs()
def operators_from_outside(x):
    rows = sorted([(1, "b"), (2, "a")], key=SECOND)
    return x + SECOND([1, 2]), rows, FIRST_AND_LAST("abc"), SCALE(SETTINGS), PARTS(2j), [*map(UPPER, "ab")]


@programs()
def errors_of_namespaces(x):
    found = []
    namespace = types.SimpleNamespace(k=1)
    for attempt in (lambda: namespace.other, lambda: delattr(namespace, "other")):
        try:
            attempt()
        except AttributeError as error:
            found.append(str(error))
    return x + 1, found


test_programs = programs.test()


def test_another_operator_is_seen():
    holder = {"get": operator.itemgetter(0)}
    follow(
        lambda x: x + holder["get"]([1, 2, 3]),
        (x(),),
        lambda: holder.update(get=operator.itemgetter(2)),
        lambda: holder.update(get=operator.methodcaller("index", 2)),
        lambda: holder.update(get=operator.itemgetter(0)),
    )
