"""Lifted: hits, misses, failures, re-entrancy, and behaving like the function it stands for."""

from __future__ import annotations

import copy
import functools
import inspect
import sys
import threading
import traceback
from types import FunctionType
from typing import Any

import pytest

from framelift.native import _core
from tests.native.entry_helpers import accept, lift, nslots, references, tree


def by_type(residual: FunctionType) -> Any:
    """A miss() that specialises on the type of the first argument."""

    def miss(lifted: _core.Lifted, slots: tuple[Any, ...]) -> _core.Entry:
        guards = tree(len(slots), (0, _core.CHECK_TYPE, type(slots[0])))
        return lifted.table.install(guards, residual, type(slots[0]).__name__)

    return miss


# -- hits and misses


def test_miss_installs_then_hits() -> None:
    asked: list[tuple[Any, ...]] = []

    def f(x):
        return "function"

    def r(x):
        return "residual", x

    def miss(lifted, slots):
        asked.append(slots)
        return by_type(r)(lifted, slots)

    lifted = lift(f, miss)
    assert [lifted(1), lifted(2), lifted("s"), lifted("t")] == [("residual", value) for value in (1, 2, "s", "t")]
    assert asked == [(1,), ("s",)]
    assert (lifted.table.hits, lifted.table.misses) == (2, 2)
    assert [entry.label for entry in lifted.table.entries] == ["str", "int"]
    assert [entry.hits for entry in lifted.table.entries] == [2, 2]


def test_no_entry_runs_the_function() -> None:
    lifted = lift(lambda x, *rest, k=1: (x, rest, k), lambda lifted, slots: None)
    assert lifted(1, 2, k=3) == (1, (2,), 3)


def test_outermost_calls_are_counted() -> None:
    def fail(x: int) -> None:
        raise ValueError(x)

    inner, failing = lift(lambda x: x + 1), lift(fail)
    outer = lift(lambda x: inner(inner(x)))
    before = _core.outermost_calls()
    assert [outer(1), inner(2), outer(3)] == [3, 3, 5]
    assert _core.outermost_calls() == before + 3
    for _ in range(2):
        with pytest.raises(ValueError):
            failing(1)
    assert _core.outermost_calls() == before + 5


def test_entry_that_does_not_fit_its_own_call_runs_the_function() -> None:
    def miss(lifted, slots):
        return lifted.table.install(tree(1, (0, _core.CHECK_TYPE, bytes)), lambda x: "residual", "wrong")

    assert lift(lambda x: "function", miss)(1) == "function"


def test_miss_must_answer_an_entry() -> None:
    with pytest.raises(TypeError, match=r"must return an Entry, None, NotImplemented or an exception, not int"):
        lift(lambda x: x, lambda lifted, slots: 1)(1)


def test_fetched_objects_follow_the_slots() -> None:
    def f(x, *args):
        return "function"

    def r(x, args, function):
        return x, args, function

    lifted = lift(f)
    lifted.table.install(tree(2, fetch_function=True), r, "fetch")
    assert lifted(1, 2, 3) == (1, (2, 3), f)
    before = references(f)
    for _ in range(100):
        lifted(1)
    assert references(f) == before


def test_many_fetched_objects() -> None:
    names = [f"v{i}" for i in range(100)]
    namespace = {name: object() for name in names}
    exec(f"def f(x): pass\ndef r(x, {', '.join(names)}): return x, v0, v99", namespace)
    function: Any = namespace["f"]
    nodes = [(-1, _core.ACCESS_FUNCTION, None, [], -1), (0, _core.ACCESS_FUNC_GLOBALS, None, [], -1)]
    nodes += [(1, _core.ACCESS_DICT_ITEM, name, [], i) for i, name in enumerate(names)]
    lifted = lift(function)
    lifted.table.install(_core.GuardTree(nodes, [], 1, 100, None), namespace["r"], "all")
    before = references(*namespace.values())
    assert lifted(7) == (7, namespace["v0"], namespace["v99"])
    assert references(*namespace.values()) == before


def test_suspended_acts_as_the_function() -> None:
    def f(x):
        return "function"

    accept(f, lambda x: "residual")
    lifted = lift(f)
    assert lifted(1) == "residual"
    with _core.suspended():
        assert lifted(1) == "function"
        with _core.suspended():
            assert _core.is_suspended()
        assert lifted(1) == "function"
        seen: list[str] = []
        thread = threading.Thread(target=lambda: seen.append(lifted(1)))
        thread.start()
        thread.join()
        assert seen == ["residual"]
    assert lifted(1) == "residual"
    _core.begin_suspend()
    assert lifted(1) == "function"
    _core.end_suspend()
    with pytest.raises(RuntimeError, match="without begin_suspend"):
        _core.end_suspend()


def test_suspended_ends_with_an_exception() -> None:
    with pytest.raises(KeyError), _core.suspended():
        raise KeyError
    assert not _core.is_suspended()


# -- failures


class Oops(Exception):
    pass


def names_in(error: BaseException) -> list[str]:
    return [frame.name for frame in traceback.extract_tb(error.__traceback__)]


def test_exception_in_residual_code() -> None:
    def f(x):
        return "function"

    def r(x):
        raise Oops(x)

    accept(f, r)
    with pytest.raises(Oops) as caught:
        lift(f)(5)
    assert caught.value.args == (5,)
    assert names_in(caught.value) == ["test_exception_in_residual_code", "r"]
    assert caught.value.__context__ is None


def test_exception_in_miss() -> None:
    def miss(lifted, slots):
        raise Oops

    with pytest.raises(Oops) as caught:
        lift(lambda x: x, miss)(5)
    assert names_in(caught.value) == ["test_exception_in_miss", "miss"]


def test_exception_in_the_function_itself() -> None:
    def f(x):
        raise Oops

    with pytest.raises(Oops) as caught:
        lift(f)(5)
    assert names_in(caught.value) == ["test_exception_in_the_function_itself", "f"]


def test_handled_exception_is_visible_in_residual_code() -> None:
    def f():
        return None

    def r():
        return sys.exc_info()[1]

    accept(f, r)
    lifted = lift(f)
    try:
        raise Oops
    except Oops as error:
        assert lifted() is error


# -- re-entrancy


def test_residual_code_calls_lifted_again() -> None:
    def fib(n):
        return -1

    def r(n, function):
        again = function.again
        return n if n < 2 else again(n - 1) + again(n - 2)

    fib.again = lifted = lift(fib)
    lifted.table.install(tree(1, fetch_function=True), r, "fib")
    assert lifted(15) == 610


def test_table_cleared_while_its_residual_code_runs() -> None:
    def f(x):
        return "function"

    def r(x, function):
        function.table.clear()
        return "residual", x

    lifted = lift(f)
    f.table = lifted.table
    lifted.table.install(tree(1, fetch_function=True), r, "clears")
    del r
    assert lifted(1) == ("residual", 1)
    assert lifted(1) == "function"


def test_code_replaced_while_its_residual_code_runs() -> None:
    def f(x):
        return "function"

    def r(x, function):
        function.__code__ = (lambda x: "new function").__code__
        return "residual", x

    lifted = lift(f)
    lifted.table.install(tree(1, fetch_function=True), r, "replaces")
    assert [lifted(1), lifted(1)] == [("residual", 1), "new function"]


def test_miss_that_calls_lifted() -> None:
    depth = 0

    def miss(lifted, slots):
        nonlocal depth
        depth += 1
        if depth < 3:
            assert lifted(slots[0]) == ("residual", slots[0])
        return by_type(lambda x: ("residual", x))(lifted, slots)

    assert lift(lambda x: "function", miss)(1) == ("residual", 1)
    assert depth == 3


# -- being a function


def test_method() -> None:
    class C:
        def __init__(self, base):
            self.base = base

        def add(self, x, y=1):
            return "function"

        @classmethod
        def make(cls, x):
            return "function"

        @staticmethod
        def plain(x):
            return "function"

        @property
        def doubled(self):
            return "function"

    accept(C.add, lambda self, x, y: (self.base, x, y))
    C.add = lift(C.add)
    c = C(7)
    assert c.add(1) == (7, 1, 1)
    assert c.add(1, y=2) == (7, 1, 2)
    bound = c.add
    assert bound(3) == (7, 3, 1) and bound.__self__ is c and bound.__func__ is C.add
    assert C.add(c, 4) == (7, 4, 1)
    assert C.__dict__["add"].__get__(None, C) is C.add
    assert inspect.signature(c.add) == inspect.Signature(
        [
            inspect.Parameter("x", inspect.Parameter.POSITIONAL_OR_KEYWORD),
            inspect.Parameter("y", inspect.Parameter.POSITIONAL_OR_KEYWORD, default=1),
        ]
    )
    make = C.__dict__["make"].__func__
    accept(make, lambda cls, x: (cls, x))
    C.make = classmethod(lift(make))
    assert C.make(1) == (C, 1)
    accept(C.plain, lambda x: x)
    C.plain = staticmethod(lift(C.plain))
    assert c.plain(2) == 2
    getter = C.doubled.fget
    accept(getter, lambda self: self.base * 2)
    C.doubled = property(lift(getter))
    assert c.doubled == 14


def documented(x: int, y: str = "s") -> float:
    """Its words."""
    return 1.0


def test_attributes_are_the_functions() -> None:
    lifted = lift(documented)
    assert lifted.__wrapped__ is documented
    for name in ("__name__", "__qualname__", "__doc__", "__module__", "__defaults__", "__kwdefaults__", "__code__"):
        assert getattr(lifted, name) == getattr(documented, name)
    assert lifted.__annotations__ is documented.__annotations__
    assert inspect.signature(lifted) == inspect.signature(documented)
    assert inspect.unwrap(lifted) is documented
    assert callable(lifted) and repr(lifted).startswith("<lifted documented at 0x")
    with pytest.raises(AttributeError, match="absent"):
        lifted.absent


def test_attributes_can_be_set() -> None:
    def f(x):
        """Doc."""

    f.shared = 1
    lifted = lift(f)
    assert lifted.shared == 1
    lifted.shared = 2
    lifted.own = 3
    assert (lifted.shared, lifted.own, f.shared) == (2, 3, 1)
    assert lifted.__dict__ == {"shared": 2, "own": 3} and not hasattr(f, "own")
    lifted.__doc__, lifted.__name__, lifted.__module__ = "Other.", "g", "elsewhere"
    assert (lifted.__doc__, lifted.__name__, lifted.__module__) == ("Other.", "g", "elsewhere")
    assert (f.__doc__, f.__name__) == ("Doc.", "f")
    del lifted.own
    with pytest.raises(AttributeError):
        lifted.own
    with pytest.raises(AttributeError):
        lifted.__wrapped__ = f


def test_works_with_functools() -> None:
    def f(x, y):
        return "function"

    accept(f, lambda x, y: (x, y))
    lifted = lift(f)
    assert functools.partial(lifted, 1)(2) == (1, 2)
    assert functools.partial(lifted, y=1)(2) == (2, 1)

    @functools.wraps(lifted)
    def wrapper(*args):
        return lifted(*args)

    assert wrapper.__name__ == "f" and wrapper(1, 2) == (1, 2)
    assert functools.lru_cache(lifted)(3, 4) == (3, 4)


def test_copies_are_itself() -> None:
    lifted = lift(lambda: None)
    assert copy.copy(lifted) is lifted and copy.deepcopy([lifted])[0] is lifted
    assert len({lifted, lifted}) == 1 and lifted == lifted


def test_wrong_arguments_to_lifted() -> None:
    table = _core.Table("k")
    with pytest.raises(TypeError):
        _core.Lifted(len, table, lambda *a: None)
    with pytest.raises(TypeError):
        _core.Lifted(documented, "table", lambda *a: None)
    with pytest.raises(TypeError, match="miss must be callable"):
        _core.Lifted(documented, table, 3)


def test_table_without_code() -> None:
    def f(x):
        return "function"

    table = _core.Table("loose")
    table.install(tree(1), lambda x: "residual", None)
    assert _core.Lifted(f, table, lambda *a: None)(1) == "residual"

    def g(x, y):
        return "function"

    assert nslots(g.__code__) == 2
    assert _core.Lifted(g, table, lambda *a: None)(1, 2) == "function"
