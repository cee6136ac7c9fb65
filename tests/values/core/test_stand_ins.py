"""Errors that are Python's own, in the words of the version that runs the program."""

from __future__ import annotations

import contextvars
import functools
import math
import operator
import os
import types
from collections import OrderedDict, defaultdict, deque

import pytest
import torch

from framelift.breaks import GraphBreak
from framelift.values.core.base import Raised
from framelift.values.core.stand_ins import answering, raise_what, stand_in
from tests.helpers import check
from tests.values.programs import Programs

programs = Programs()


class Empty:
    """Has no operation that is not `object`'s."""


class Odd:
    """Answers every question in a way that Python refuses."""

    def __init__(self, answer):
        self.answer = answer

    def _answer(self, *_):
        return self.answer

    __len__ = __bool__ = __iter__ = __index__ = __int__ = __float__ = __hash__ = _answer
    __repr__ = __str__ = __format__ = __bytes__ = __fspath__ = __aiter__ = _answer


class Named:
    """Is shown by its `__repr__`."""

    def __repr__(self):
        return 1


class Indexed:
    def __index__(self):
        return 0


def _said(operation, *args):
    try:
        operation(*args)
    except (TypeError, ValueError, OverflowError, LookupError) as error:
        return type(error).__name__, str(error)
    return None


def _delete(container, key):
    del container[key]


def _put(container, key):
    container[key] = 1


@programs
def the_words_about_deletion_depend_on_the_key(x):
    proxy = types.MappingProxyType({"a": 1})
    said = []
    for container in (Empty(), (x,), (1, 2), 5, "text", None, proxy, Empty.__dict__, len):
        for key in (0, "a", None, Empty()):
            said += [_said(_delete, container, key), _said(_put, container, key)]
    return x + 1, said


@programs(expect_breaks=None, expect_ops=0)
def keys_are_asked_for_their_number_first(x):
    said = []
    for container in (Empty(), (x,), (1, 2), 5, "text"):
        for key in (x, Indexed()):
            said += [_said(_delete, container, key), _said(_put, container, key)]
    return x + 1, said


@programs
def objects_without_operations(x):
    asked = [len, iter, next, operator.call, operator.neg, operator.index, hash, int, float, complex, round, reversed]
    asked += [math.floor, math.trunc, abs, bytes, os.fspath, anext, aiter]
    said = [_said(operation, Empty()) for operation in asked if operation is not hash]
    said += [_said(operation, Empty(), 1) for operation in (operator.getitem, operator.contains, divmod, operator.lt)]
    return x + 1, said, [_said(operation, Empty) for operation in (len, iter, next, operator.neg)]


@programs
def answers_that_are_refused(x):
    asked = [len, bool, iter, operator.index, int, float, hash, repr, str, format, bytes, os.fspath, aiter]
    said = [[_said(operation, Odd(answer)) for operation in asked] for answer in ("text", [1], Empty())]
    said += [_said(operation, Named()) for operation in (repr, str)]
    return x + 1, said, _said(len, Odd(-1)), _said(len, Odd(2**70))


@programs
def what_has_no_hash(x):
    unhashable = ([x], {}, set(), deque(), OrderedDict(), defaultdict(int), types.SimpleNamespace())
    return x + 1, [_said(hash, value) for value in unhashable], [_said({}.get, value) for value in unhashable]


@programs
def operands_that_do_not_fit(x):
    said = []
    for left, right in (
        ([x], 1),
        ((x,), None),
        ("a", [x]),
        (b"a", [x]),
        ({}, [x]),
        (len, [x]),
        (Empty(), [x]),
        ([x], {}),
    ):
        for operation in (operator.add, operator.mul, operator.pow, operator.isub, operator.ipow):
            said += [_said(operation, left, right), _said(operation, right, left)]
    said += [_said(operator.lt, *pair) for pair in (([x], 1), ((x,), None), ("a", [x]), ({}, {}), (Empty(), 1))]
    return x + 1, said


@programs
def containers_that_are_empty(x):
    said = [_said([].pop), _said([x].pop, 3), _said([].remove, 1), _said(().index, 1), _said(set().pop)]
    said += [_said(deque().pop), _said(deque([x], 1).insert, 0, 1), _said(deque, (), -1), _said(deque, (), "a")]
    said += [_said(operator.getitem, [x], slice(None, None, 0)), _said(operator.getitem, [x], slice("a"))]
    said += [_said(defaultdict, 1), _said(types.MappingProxyType, 1), _said(operator.getitem, deque([x]), slice(1))]
    return x + 1, said, _said(list, zip([1], [x, 1], strict=True)), _said(list, zip([1], [2], [], strict=True))


@programs
def arguments_that_are_refused(x):
    said = [_said(functools.partial), _said(functools.partial, 1), _said(types.MethodType, 1, 1), _said(type, 1, 1)]
    said += [_said(types.MethodType, len, None), _said(contextvars.ContextVar, 1), _said(issubclass, 1, int)]
    said += [_said(operator.attrgetter, 1), _said(operator.methodcaller, 1), _said(format, 1, 1), _said(vars, 1)]
    return (
        x + 1,
        said,
        _said(format, 1, None),
        _said(Empty, 1),
        _said(Empty().__init__, 1),
        _said(bytes, [x, 1][1:] * 300),
    )


@programs
def awaiting_what_cannot_be_awaited(x):
    async def awaiting(value):
        await value

    async def iterating(value):
        async for _ in value:
            pass

    class Waits:
        def __await__(self):
            return 1

    said = [_said(awaiting(value).send, None) for value in (1, Empty(), [x], Waits())]
    return x + 1, said, [_said(iterating(value).send, None) for value in (1, Empty(), [x], Odd(1))]


test_programs = programs.test()


def test_an_operation_that_python_allows_is_a_break():
    with pytest.raises(GraphBreak):
        raise_what(len, [])


def test_a_stand_in_shares_nothing_but_the_name():
    class Costly:
        def __len__(self):
            raise AssertionError("never asked")

    assert type(stand_in(Costly)).__name__ == "Costly" and not isinstance(stand_in(Costly), Costly)
    with pytest.raises(Raised) as raised:
        raise_what(len, stand_in(Costly))
    assert raised.value.value.args == ("object of type 'Costly' has no len()",)
    with pytest.raises(Raised) as raised:
        raise_what(iter, answering(deque, "__iter__", 1))
    assert raised.value.value.args == ("iter() returned non-iterator of type 'int'",)


def test_a_statement_is_asked_for_its_words():
    def f(x, names):
        said = []
        for text in ("(a, b)", "(a, *b, c, d)"):
            try:
                if text == "(a, b)":
                    a, b = names
                else:
                    a, *b, c, d = names
            except ValueError as error:
                said.append(str(error))
        return x + 1, said

    for names in ([1], (), [1, 2, 3]):
        check(f, torch.ones(2), names)


def test_what_is_missing_is_named_as_python_names_it():
    cached = functools.lru_cache(abs)

    def f(x):
        said = []
        for value in (x.max(dim=0), cached, OrderedDict(), int | str, len, (1).__add__):
            try:
                value.missing_attribute
            except AttributeError as error:
                said.append(str(error))
        return x + 1, said

    check(f, torch.ones(2), expect_breaks=None)
