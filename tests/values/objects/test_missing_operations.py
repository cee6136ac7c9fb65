"""Operations that a type does not have: the program raises what Python raises; those not modelled are breaks."""

from __future__ import annotations

import operator

from tests.helpers import check
from tests.values.programs import Programs, x

programs = Programs()


def _raised(operation, *args):
    try:
        operation(*args)
    except TypeError as error:
        return str(error)


def _put(container):
    container[0] = 1


def _remove(container):
    del container[0]


@programs
def iterators_and_functions_are_no_containers(x):
    def function():
        yield x

    said = []
    for subject in (iter([1]), function, len, [].append, zip([1], [2])):
        said.append([_raised(operation, subject) for operation in (len, _put, _remove, operator.neg, operator.invert)])
        said.append(_raised(operator.getitem, subject, 0))
    said += [_raised(operator.contains, subject, 1) for subject in (len, function)]
    said += [_raised(next, subject) for subject in (len, function, [1], (x,), {})]
    said += [_raised(lambda subject: subject(), subject) for subject in (iter([1]), [x], {}, zip([1]))]
    return x + 1, said, _raised(set, len), _raised(list, function)


@programs
def concatenation_wants_sequences(x):
    class Number:
        def __add__(self, other):
            return 1

    class Sequence(Number):
        def __getitem__(self, index):
            raise IndexError

    said = [_raised(operator.concat, *pair) for pair in ((13, 29), ([], 1), (Number(), []), ({}, {}), (Sequence(), 1))]
    said += [operator.concat([1], [2]), operator.concat(Sequence(), Sequence()), operator.concat("a", "b")]
    items = [x]
    return operator.iconcat(items, (1,)) is items, items, said, _raised(operator.iconcat, 1, 2), x + 1


@programs
def hints_of_lengths(x):
    class Hinting:
        def __init__(self, hint):
            self.hint = hint

        def __length_hint__(self):
            if self.hint is TypeError:
                raise TypeError
            return self.hint

    said = [operator.length_hint(Hinting(hint), 10) for hint in (2, NotImplemented, TypeError)]
    said += [operator.length_hint([x, 1]), operator.length_hint(len, 4), _raised(operator.length_hint, [], "a")]
    said += [_raised(operator.length_hint, Hinting("a"))]
    try:
        operator.length_hint(Hinting(-1))
    except ValueError as error:
        said.append(str(error))
    return x + 1, said, operator.abs(-2), operator.inv(3)


test_programs = programs.test()


def test_modules():
    def f(x):
        return x + 1, _raised(len, operator), _raised(_put, operator), _raised(iter, operator)

    check(f, x())


def test_texts_of_functions_of_c():
    def f(x):
        return x + 1, repr(len), str(list.append), f"{operator.add} {int.__add__!r}", repr(dict.__dict__["fromkeys"])

    check(f, x())
