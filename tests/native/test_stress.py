"""Very many calls: no reference and no memory is lost, on one thread and on eight.

The default run makes a hundred thousand calls of each kind; `-m slow`, or FRAMELIFT_STRESS=1, makes a million.
"""

from __future__ import annotations

import gc
import os
import random
import sys
import threading
import tracemalloc
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from framelift.native import _core
from tests.native.entry_helpers import Context, lift, private, references, resident_kib, tree

THREADS = 8

# AddressSanitizer keeps freed memory for a while.
SANITIZED = "asan" in os.environ.get("LD_PRELOAD", "")


@pytest.fixture(params=["usual", pytest.param("slow", marks=pytest.mark.slow)])
def calls(request: pytest.FixtureRequest) -> int:
    if request.param == "usual":
        return 100_000
    asked = request.config.getoption("markexpr", "") == "slow" or os.environ.get("FRAMELIFT_STRESS")
    if not asked:
        pytest.skip("a million calls only with -m slow or FRAMELIFT_STRESS=1")
    return 1_000_000


@pytest.fixture(params=["swap", "call"])
def mode(request: pytest.FixtureRequest) -> Iterator[str]:
    _core.hook_always_call(request.param == "call")
    yield request.param
    _core.hook_always_call(False)


class Oops(Exception):
    pass


class Thing:
    pass


def keeps_memory(work: Callable[[int], None], calls: int, *objects: object) -> None:
    """work(n) leaves no references to the objects, no blocks (exactly) and no pages (nearly) behind."""
    work(2000)
    before = references(*objects)
    tracemalloc.start()
    try:
        work(2000)
        gc.collect()
        blocks = tracemalloc.get_traced_memory()[0]
        work(5000)
        gc.collect()
        lost = tracemalloc.get_traced_memory()[0] - blocks
    finally:
        tracemalloc.stop()
    pages = resident_kib()
    work(calls)
    after = references(*objects)
    assert after == before
    assert lost < 2000
    assert SANITIZED or resident_kib() - pages < 2048


def test_calls_of_lifted(calls: int) -> None:
    def f(a, *rest, k=0, **more):
        return "function"

    def r(a, k, rest, more, function):
        return a, k, rest, more, function

    def fails(a, k, rest, more, function):
        raise Oops(a)

    token = Thing()
    lifted = lift(f)

    def many(n: int) -> None:
        table = lifted.table
        for i in range(n // 5):
            if i % 1000 == 0:
                table.clear()
                table.install(tree(4, (0, _core.CHECK_TYPE, Thing), fetch_function=True), r, token)
                table.install(tree(4, (0, _core.CHECK_TYPE, str), fetch_function=True), fails, token)
            lifted(token)
            lifted(token, token, token, k=token, z=token)
            assert lifted(2.5) == "function"
            try:
                lifted("a", token)
            except Oops:
                pass
            try:
                lifted(k=token)
            except TypeError:
                pass
        table.clear()

    keeps_memory(many, calls, token, f, f.__code__, r, r.__code__, fails, fails.__code__, lifted, lifted.table)


def test_misses(calls: int) -> None:
    """A new entry for nearly every call: installing, indexing and dropping entries."""

    def f(a):
        return "function"

    def r(a):
        return a

    token = Thing()
    lifted = lift(f, lambda lifted, slots: lifted.table.install(tree(1, (0, _core.CHECK_EQUALS, slots[0])), r, token))

    def many(n: int) -> None:
        for i in range(n // 10):
            assert lifted(i % 97) == i % 97
            if i % 500 == 499:
                lifted.table.clear()
        lifted.table.clear()

    keeps_memory(many, calls, token, f, f.__code__, r, r.__code__, lifted, lifted.table)


def test_frames(calls: int, mode: str) -> None:
    def f(a, *rest, k=0):
        return "function"

    def r(a, k, rest, function):
        l1 = l2 = l3 = l4 = l5 = l6 = l7 = [a, [k, [rest]]]
        return l1, l7, function

    def g(a):
        return "function"

    def fails(a):
        local = [a]
        raise Oops

    def h(a):
        return "function"

    def frame(a):
        import sys

        return sys._getframe()

    token = Thing()
    context = Context((g, fails), (h, frame))
    _core.table_for(f.__code__, context.key).install(tree(3, fetch_function=True), r, token)

    def inner(n: int) -> None:
        for i in range(n // 4):
            f(token)
            f(token, token, k=token)
            try:
                g(token)
            except Oops:
                pass
            if i % 16 == 0:
                h(token).f_locals

    def many(n: int) -> None:
        context.run(inner, n)

    objects = (token, f, f.__code__, r, r.__code__, g.__code__, fails.__code__, h.__code__, frame.__code__, context)
    keeps_memory(many, calls, *objects)


def test_switching_the_hook(calls: int) -> None:
    def f():
        return None

    context = Context((f, lambda: None))

    def many(n: int) -> None:
        for _ in range(n):
            context.run(f)

    keeps_memory(many, calls, f.__code__, context)
    assert not _core.hook_state()["installed"]


def test_functions_and_tables_that_come_and_go(calls: int) -> None:
    source = compile("def f(x): return 'function'\ndef r(x): return x", "<stress>", "exec")
    token = Thing()

    def many(n: int) -> None:
        for i in range(n // 100):
            namespace: dict[str, Any] = {}
            exec(source, namespace)
            # exec() gives functions the code objects in the constants of `source`: make new ones.
            f = namespace["f"]
            f.__code__ = f.__code__.replace()
            lifted = lift(f, key=("key", i))
            # Globals of its own: with f's they would lead back to f's code, which the collector cannot see through.
            lifted.table.install(tree(1), private(namespace["r"]), token)
            lifted(token)
            f.itself = lifted
        gc.collect()

    keeps_memory(many, calls, token, source)
    gc.collect()


def on_threads(work: Callable[[int], None]) -> None:
    errors: list[BaseException] = []

    def run(number: int) -> None:
        try:
            work(number)
        except BaseException as error:
            errors.append(error)

    interval = sys.getswitchinterval()
    sys.setswitchinterval(1e-5)
    try:
        threads = [threading.Thread(target=run, args=(number,)) for number in range(THREADS)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    finally:
        sys.setswitchinterval(interval)
    assert not errors, errors


def test_threads_share_a_table(calls: int) -> None:
    def f(a, b=1):
        return "function", a

    def r(a, b):
        return "residual", a

    def miss(lifted, slots):
        return lifted.table.install(tree(2, (0, _core.CHECK_EQUALS, slots[0])), r, None)

    lifted = lift(f, miss)
    objects = (f, f.__code__, r, lifted)
    before = references(*objects)

    def work(number: int) -> None:
        choose = random.Random(number)
        for i in range(calls // THREADS):
            value = choose.randrange(20)
            assert lifted(value, b=number)[1] == value
            if i % 1000 == number:
                lifted.table.clear()
            if i % 100 == number and (entries := lifted.table.entries):
                try:
                    lifted.table.remove(entries[-1])
                except ValueError:
                    pass  # another thread was quicker

    on_threads(work)
    lifted.table.clear()
    assert references(*objects) == before


def test_threads_with_and_without_the_hook(calls: int, mode: str) -> None:
    def f(a):
        return "function", a

    def g(a):
        return f(a)

    def fails(a):
        return "function", a

    def raises(a):
        raise Oops(a)

    def deep(n):
        return 0 if n == 0 else 1 + deep(n - 1)

    def work(number: int) -> None:
        context = Context((f, lambda a: ("residual", a)), (fails, raises), key=("thread", number % 3))
        hooked = number % 2 == 0
        for i in range(calls // THREADS // 4):
            answer = context.run(g, i) if hooked else g(i)
            assert answer == ("residual" if hooked else "function", i)
            if i % 50 == 0:
                assert (context.run(deep, 100) if hooked else deep(100)) == 100
            if hooked:
                try:
                    context.run(fails, i)
                except Oops as error:
                    assert error.args == (i,)

    on_threads(work)
    state = _core.hook_state()
    assert state["users"] == 0 and not state["installed"]
