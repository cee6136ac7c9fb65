"""Deques the program makes."""

from __future__ import annotations

import contextlib
import copy
from collections import deque

from tests.values.cases import Cases, vector

cases = Cases()
X = vector()


@cases(X)
def ends(x):
    d = deque([1, 2, 3])
    d.append(x + 1)
    d.appendleft(0)
    d.extend([4])
    d.extendleft([-1, -2])
    return d, d.popleft(), d.pop(), len(d), d[0], d[-1], 2 in d, bool(deque())


@cases(X)
def limited(x):
    d = deque(range(5), maxlen=3)
    d.append(x)
    d.appendleft(9)
    d += [7]
    return d, d.maxlen, list(d), x + 1, repr(deque([1], 2)), repr(deque([1]))


@cases(X)
def changed(x):
    d = deque([1, 2, 3, 4])
    d.rotate(1)
    d.rotate(-2)
    d.insert(1, 8)
    d.remove(3)
    d.reverse()
    d[0] = 5
    del d[1]
    return x + 1, d, d.copy(), d.index(5), d.count(5), deque([1]) == deque([1]), deque([1]) == [1]


@cases(X)
def errors(x):
    found = []
    for action in (lambda: deque().pop(), lambda: deque().popleft(), lambda: deque([1])[4], lambda: deque([1])[0:1]):
        try:
            action()
        except (IndexError, TypeError) as error:
            found.append(str(error))
    return x + 1, found


@cases(X)
def looped(x):
    for item in deque([1, 2]):
        x = x * item
    return x


@cases(X, expect_breaks=None)  # what the caller handles is not known: sys.exc_info() runs
def exit_stack(x):
    log = []
    with contextlib.ExitStack() as stack:
        stack.callback(log.append, 1)
        stack.callback(log.append, 2)
        x = x + 1
    return x, log


@cases(X, deque([1]), expect_breaks=None, expect_ops=0, changed=[(X, deque([2]))])
def given(x, d):
    return x + d[0]


@cases(X)
def joined_and_repeated(x):
    short, long = deque([1, 2], maxlen=3), deque("ab")
    copied = copy.copy(short)
    return x + 1, short + long, (short + long).maxlen, long + short, short * 2, long * 0, copied, copied == short


@cases(X)
def what_is_not_there(x):
    found = []
    for search in (deque([1]).remove, deque([1]).index):
        try:
            search("a")
        except ValueError as error:
            found.append(str(error))
    return x + 1, found


test_programs = cases.test
