"""`with`: managers of the user's, of contextlib, and torch's grad modes; breaks and exceptions inside."""

from __future__ import annotations

import contextlib

import pytest
import torch

import framelift
from tests.helpers import check
from tests.helpers.untraced import print
from tests.values.programs import Programs, x

programs = Programs()


class Manager:
    def __init__(self, log, swallow=False):
        self.log = log
        self.swallow = swallow

    def __enter__(self):
        self.log.append("enter")
        return self

    def __exit__(self, kind, value, traceback):
        self.log.append(("exit", kind.__name__ if kind else None, str(value), traceback is None))
        return self.swallow


@contextlib.contextmanager
def logged(log, name="m"):
    log.append(f"enter {name}")
    try:
        yield name
    finally:
        log.append(f"exit {name}")


@contextlib.contextmanager
def simple(value):
    yield value


@contextlib.contextmanager
def swallowing(log):
    try:
        yield
    except KeyError as error:
        log.append(error.args)


@programs
def user_manager(x):
    log = []
    with Manager(log) as m:
        x = x + len(m.log)
    return x, log


@programs
def nested_managers(x):
    log = []
    with Manager(log) as m, Manager(log) as n:
        x = x + 1
        log.append(m is n)
    return x, log


@programs
def exception_swallowed(x):
    log = []
    with Manager(log, True):
        raise KeyError("k")
    return x + 1, log


@programs
def exception_passes(x):
    log = []
    try:
        with Manager(log):
            raise KeyError("k")
    except KeyError:
        log.append("caught")
    return x + 1, log


@programs
def exit_raises(x):
    class_ = []
    try:
        with ExitRaises():
            raise KeyError("k")
    except ValueError as error:
        class_.append(repr(error.__context__))
    return x + 1, class_


class ExitRaises:
    def __enter__(self):
        return self

    def __exit__(self, *details):
        raise ValueError("exit")


@programs
def return_inside(x):
    log = []

    def inner():
        with Manager(log):
            return 5

    return x + inner(), log


@programs
def loop_control_inside(x):
    log = []
    for i in range(4):
        with Manager(log):
            if i == 1:
                continue
            if i == 2:
                break
            x = x + i
    return x, len(log)


@programs(args=(x(), Manager([])))
def manager_as_input(x, m):
    with m as n:
        x = x + len(n.log)
    return x


@programs
def not_a_manager(x):
    try:
        with 3:
            pass
    except (TypeError, AttributeError) as error:
        return x + 1, type(error).__name__


not_a_manager_case = programs.cases.pop()  # constants have no such protocol: below, with a break


@programs(expect_breaks=None, expect_ops=1)
def constant_is_no_manager(x):
    y = x + 1
    return not_a_manager_case[0](y)


# -- contextlib ------------------------------------------------------------------------------------------------------


@programs
def contextmanager(x):
    log = []
    with logged(log) as name:
        x = x + 1
        log.append(name)
    return x, log


@programs
def contextmanager_nested(x):
    log = []
    with logged(log, "a"), logged(log, "b"):
        x = x + 1
    return x, log


@programs
def contextmanager_with_exception(x):
    log = []
    try:
        with logged(log):
            raise KeyError("k")
    except KeyError as error:
        log.append(error.args)
    return x + 1, log


@programs
def contextmanager_swallows(x):
    log = []
    with swallowing(log):
        raise KeyError("k")
    return x + 1, log


@programs
def contextmanager_does_not_swallow(x):
    log = []
    try:
        with swallowing(log):
            raise ValueError("v")
    except ValueError as error:
        log.append(error.args)
    return x + 1, log


@programs
def contextmanager_value(x):
    with simple(x + 1) as y:
        return y * 2


@programs
def nullcontext(x):
    with contextlib.nullcontext(3) as n:
        return x + n


@programs
def suppress(x):
    with contextlib.suppress(KeyError, IndexError):
        [][3]  # noqa: PLE0643
        x = x - 100
    return x + 1


@programs
def suppress_other(x):
    try:
        with contextlib.suppress(KeyError):
            [][3]  # noqa: PLE0643
    except IndexError:
        return x + 1


@programs(expect_breaks=None, expect_ops=1)
def exit_stack(x):
    log = []
    y = x + 1
    with contextlib.ExitStack() as stack:
        stack.enter_context(Manager(log))
        stack.callback(log.append, "callback")
        y = y + 1
    return y, log


@programs(expect_breaks=None, expect_ops=1)
def closing(x):
    class_ = Closes()
    y = x + 1
    with contextlib.closing(class_) as c:
        y = y + 1
    return y, c.closed


class Closes:
    closed = False

    def close(self):
        self.closed = True


@programs(expect_breaks=None, expect_ops=1)
def contextmanager_as_decorator(x):
    @simple(3)
    def inner(y):
        return y * 2

    y = x + 1
    return inner(y)


# -- breaks ----------------------------------------------------------------------------------------------------------


@programs(expect_breaks=None, expect_ops=1)
def break_inside(x):
    log = []
    y = x + 1
    with Manager(log):
        print("inside")
        y = y * 2
    return y, log


@programs(expect_breaks=None, expect_ops=1)
def break_inside_and_exception(x):
    log = []
    y = x + 1
    with Manager(log, True):
        print("inside")
        raise KeyError(1)
    return y, log


@programs(expect_breaks=None, expect_ops=1)
def break_inside_contextmanager(x):
    log = []
    y = x + 1
    with logged(log):
        print("inside")
        y = y * 2
    return y, log


@programs(expect_breaks=None, expect_ops=1)
def break_in_enter(x):
    y = x + 1
    with Prints("enter", None):
        y = y * 2
    return y


@programs(expect_breaks=None, expect_ops=1)
def break_in_exit(x):
    y = x + 1
    with Prints(None, "exit"):
        y = y * 2
    return y * 3


class Prints:
    def __init__(self, before, after):
        self.before, self.after = before, after

    def __enter__(self):
        if self.before:
            print(self.before)

    def __exit__(self, *details):
        if self.after:
            print(self.after)


# -- grad modes ------------------------------------------------------------------------------------------------------


def parameter():
    return torch.ones(3, requires_grad=True)


@programs(args=(parameter(),))
def no_grad(p):
    with torch.no_grad():
        a = p * 2
        inside = torch.is_grad_enabled()
    return a, p * 3, inside, torch.is_grad_enabled()


@programs(args=(parameter(),))
def enable_grad_inside(p):
    with torch.no_grad():
        with torch.enable_grad():
            a = p * 2
        b = p * 3
    return a, b


@programs(args=(parameter(),))
def set_grad_enabled(p):
    with torch.set_grad_enabled(False):
        a = p * 2
    with torch.set_grad_enabled(True):
        b = p * 2
    return a, b


@programs(args=(parameter(),))
def set_grad_enabled_as_call(p):
    before = torch.is_grad_enabled()
    torch.set_grad_enabled(False)
    a = p * 2
    torch.set_grad_enabled(before)
    return a, p * 3


@torch.no_grad()
def decorated(p):
    return p * 2


@programs(args=(parameter(),))
def decorated_function(p):
    return decorated(p), p * 3


@programs(args=(parameter(),))
def exception_in_no_grad(p):
    try:
        with torch.no_grad():
            raise KeyError
    except KeyError:
        return p * 2, torch.is_grad_enabled()


@programs(args=(parameter(),))
def return_from_no_grad(p):
    with torch.no_grad():
        return p * 2


@programs(args=(parameter(),), expect_breaks=None, expect_ops=1)
def break_in_no_grad(p):
    with torch.no_grad():
        a = p * 2
        print("break")
        b = a * p
    return a, b, p * 3, torch.is_grad_enabled()


@programs(args=(parameter(),), expect_breaks=None, expect_ops=1)
def break_after_no_grad(p):
    with torch.no_grad():
        a = p * 2
    print("break")
    return a, p * 3, torch.is_grad_enabled()


@programs(args=(parameter(),), expect_breaks=None, expect_ops=1)
def break_in_inlined_no_grad(p):
    def inner(q):
        with torch.no_grad():
            r = q * 2
            print("break")
            return r

    q = p * 2
    return inner(q), q * 3


@programs(args=(x(),), expect_breaks=None, expect_ops=0)
def inference_mode(p):
    with torch.inference_mode():
        a = p * 2
    return a.is_inference(), p * 3


def test_grad_mode_stays_as_the_program_left_it():
    def fn(p):
        torch.set_grad_enabled(False)
        return p * 2

    lifted = framelift.compile(fn, backend="eager")
    for _ in range(2):
        assert not lifted(parameter()).requires_grad
        assert not torch.is_grad_enabled()
        torch.set_grad_enabled(True)


def test_grad_mode_is_restored_when_the_program_raises():
    def fn(p):
        with torch.no_grad():
            q = p * 2
            raise KeyError(q.dim())

    lifted = framelift.compile(fn, backend="eager")
    for _ in range(2):
        with pytest.raises(KeyError):
            lifted(parameter())
        assert torch.is_grad_enabled()


def test_grad_mode_is_restored_when_capture_fails(monkeypatch):
    from framelift.capture.interpreter.frame import Frame

    def fn(p):
        with torch.no_grad():
            q = p * 2
            return helper(q)

    def helper(q):
        return q

    def fail(self):
        raise ZeroDivisionError("a failure of ours")

    monkeypatch.setattr(Frame, "run", fail)
    with pytest.raises(framelift.errors.InternalError):
        framelift.compile(fn, backend="eager")(parameter())
    assert torch.is_grad_enabled()


def test_entered_under_no_grad():
    def fn(p):
        return p * 2, torch.is_grad_enabled()

    lifted = framelift.compile(fn, backend="eager")
    assert lifted(parameter())[0].requires_grad
    with torch.no_grad():
        assert not lifted(parameter())[0].requires_grad
    assert lifted(parameter())[0].requires_grad


def test_decorated_outermost_function():
    check(decorated, parameter())


test_programs = programs.test()
