"""Deep recursion: as deep as without us wherever CPython allows it, RecursionError where it does not, never a crash."""

from __future__ import annotations

import sys
import threading
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from framelift.native import _core
from tests.native.entry_helpers import Context, lift, run_python, tree


@pytest.fixture
def limit() -> Iterator[Callable[[int], None]]:
    before = sys.getrecursionlimit()
    yield sys.setrecursionlimit
    sys.setrecursionlimit(before)


def depth_reached(function: Callable[[int], int]) -> int:
    deepest = 0

    def down(n):
        nonlocal deepest
        deepest = n
        return function(down, n + 1)

    with pytest.raises(RecursionError):
        down(0)
    return deepest


def call(function, *args):
    return function(*args)


def test_hooked_recursion_is_as_deep_as_plain(limit) -> None:
    for size in (1000, 3000, 20000):
        limit(size)
        plain = depth_reached(call)
        hooked = _core.run_hooked(Context(), depth_reached, call)
        assert abs(plain - hooked) < 20
        assert not _core.hook_state()["installed"] and _core.hook_state()["users"] == 0


def test_lifted_frames_recurse(limit) -> None:
    limit(4000)

    def down(n):
        return -1

    def r(n, function):
        return 0 if n == 0 else 1 + function(n - 1)

    context = Context()
    _core.table_for(down.__code__, context.key).install(tree(1, fetch_function=True), r, None)
    # Residual code runs its calls hooked where it wants that; here it does not, so only the first frame is lifted.
    assert context.run(down, 10) == 0

    def again(n, function):
        helper, hooked, context = function.helper
        return 0 if n == 0 else 1 + helper(context, hooked, n - 1)

    down.helper = (_core.run_hooked, down, context)
    context = Context()
    down.helper = (_core.run_hooked, down, context)
    _core.table_for(down.__code__, context.key).install(tree(1, fetch_function=True), again, None)
    assert context.run(down, 900) == 900
    down.helper = None


@pytest.mark.parametrize("fetch", [False, True])
def test_lifted_callables_recurse_as_deep_as_functions(limit, fetch: bool) -> None:
    """At the default limit, which 3.12 would not let recursion through C reach."""

    def down(n):
        return 0 if n == 0 else 1 + down.again(n - 1)

    down.again = lifted = lift(down)
    if fetch:

        def r(n, function):
            return 0 if n == 0 else 1 + function.again(n - 1)

        lifted.table.install(tree(1, fetch_function=True), r, None)
    limit(1000)
    assert lifted(900) == 900
    with pytest.raises(RecursionError):
        lifted(100000)
    assert lifted(900) == 900


CRASH_TEST = """
    import sys, threading
    from framelift.native import _core
    from tests.native.entry_helpers import Context, lift, tree

    def plain(n):
        return 0 if n == 0 else 1 + plain(n - 1)

    def down(n):
        return 0 if n == 0 else 1 + down.again(n - 1)

    down.again = lift(down)

    def r(n, function):
        return 0 if n == 0 else 1 + function.again(n - 1)

    def hooked(n, context):
        return 0 if n == 0 else 1 + context.run(hooked, n - 1, context)

    def main():
        context = Context()
        assert context.run(plain, 150_000) == 150_000
        try:
            print(hooked(150_000, context))
        except RecursionError:
            print("RecursionError")
        for _ in range(2):
            try:
                print(down.again(150_000))
            except RecursionError:
                print("RecursionError")
            down.again.table.install(tree(1, fetch_function=True), r, None)
        assert down.again(200) == 200
        assert context.run(plain, 500) == 500
        assert not _core.hook_state()["installed"]

    sys.setrecursionlimit(200_000)
    {run}
    print("alive")
"""


@pytest.mark.parametrize(
    "run",
    [
        "main()",
        "thread = threading.Thread(target=main); thread.start(); thread.join()",
        "threading.stack_size(512 * 1024); thread = threading.Thread(target=main); thread.start(); thread.join()",
    ],
    ids=["main thread", "thread", "thread with a small stack"],
)
def test_a_raised_limit_does_not_crash(run: str) -> None:
    done = run_python(CRASH_TEST.replace("{run}", run))
    assert done.returncode == 0, done.stderr[-2000:]
    assert "Traceback" not in done.stderr and done.stdout.splitlines()[-1] == "alive"


def test_recursion_on_other_threads_while_hooked(limit) -> None:
    """A thread that never asked for the hook recurses as deep as ever."""
    limit(1000)
    context = Context()
    reached: list[int] = []

    def outer() -> None:
        thread = threading.Thread(target=lambda: reached.append(depth_reached(call)))
        thread.start()
        thread.join()

    context.run(outer)
    assert reached[0] > 400  # two frames per step


def test_lifting_goes_on_after_deep_recursion(limit) -> None:
    limit(30000)

    def f(x):
        return "function"

    def deep(n: int) -> Any:
        return f(n) if n == 0 else deep(n - 1)

    context = Context((f, lambda x: "residual"))

    def outer():
        return f(1), deep(25000), f(1)

    pauses = _core.hook_state()["pauses"]
    assert context.run(outer) == ("residual", "function", "residual")
    assert _core.hook_state()["pauses"] == pauses + 1
