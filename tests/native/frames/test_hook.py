"""The frame hook: frames become frames of residual functions, by exchange in place and by the call it falls back to."""

from __future__ import annotations

import asyncio
import gc
import sys
import threading
import traceback
import weakref
from collections.abc import Iterator
from typing import Any

import pytest

from framelift.native import _core
from tests.native.entry_helpers import Context, accept, lift, references, tree


@pytest.fixture(params=["swap", "call"], autouse=True)
def mode(request: pytest.FixtureRequest) -> Iterator[str]:
    """Every test runs with frames exchanged in place and with residual functions called."""
    _core.hook_always_call(request.param == "call")
    before = _core.hook_state()
    yield request.param
    after = _core.hook_state()
    _core.hook_always_call(False)
    assert after["users"] == 0 and not after["installed"] and not after["linked"]
    if "larger" not in request.node.name:
        unused = "called" if request.param == "swap" else "swapped"
        assert after[unused] == before[unused]


class Oops(Exception):
    pass


class Thing:
    pass


# -- which frames


def test_every_kind_of_argument() -> None:
    def f(a, b=2, /, c=3, *args, d, e=5, **kw):
        return "function"

    def r(a, b, c, d, e, args, kw):
        l1 = l2 = l3 = l4 = l5 = l6 = l7 = l8 = l9 = a
        big = [l1, [l2, [l3, [l4, [l5, [l6, [l7, [l8, [l9, [a, b, c, d, e]]]]]]]]]]
        return "residual", a, b, c, args, d, e, kw, len(big)

    context = Context((f, r))
    assert context.run(f, 1, d=4) == ("residual", 1, 2, 3, (), 4, 5, {}, 2)
    assert context.run(f, 1, 9, 8, 7, 6, d=4, z=1) == ("residual", 1, 9, 8, (7, 6), 4, 5, {"z": 1}, 2)
    with pytest.raises(TypeError, match="missing 1 required positional argument: 'a'"):
        context.run(f, d=1)
    assert f(1, d=4) == "function"
    assert context.asked == ["f"]


def test_frames_below_are_lifted_and_asked_about_once() -> None:
    def f(x):
        return "function"

    def other(x):
        return f(x)

    def outer():
        return [other(i) for i in range(3)]

    context = Context((f, lambda x: ("residual", x)))
    assert context.run(outer) == [("residual", i) for i in range(3)]
    asked = [name for name in context.asked if name != "<listcomp>"]
    assert asked == ["outer", "other", "f"]
    context.run(outer)
    assert [name for name in context.asked if name != "<listcomp>"] == asked
    table = _core.table_for(f.__code__, context.key)
    assert (table.hits, table.misses, len(table.entries)) == (5, 0, 1)


def test_none_is_asked_again() -> None:
    asked: list[str] = []

    def f():
        return "function"

    def context(code, function, slots):
        asked.append(code.co_name)

    assert [_core.run_hooked(context, f) for _ in range(2)] == ["function"] * 2
    assert asked == ["f", "f"]


def test_a_context_without_key_is_told_by_itself() -> None:
    def f():
        return "function"

    def context(code, function, slots):
        return False

    _core.run_hooked(context, f)
    (table,) = _core.tables_of(f.__code__)
    assert table.skip and table.key() is context
    del context
    gc.collect()
    assert _core.tables_of(f.__code__) == []


def test_entries_of_another_key_are_not_used() -> None:
    def f():
        return "function"

    accept(f, lambda: "residual", key="other")
    context = Context(key="mine")
    assert context.run(f) == "function"
    assert Context(key="other").run(f) == "residual"


def test_clearing_a_table_forgets_that_it_was_to_be_skipped() -> None:
    def f():
        return "function"

    context = Context()
    context.run(f)
    context.run(f)
    assert context.asked == ["f"]
    _core.table_for(f.__code__, context.key).clear()
    context.run(f)
    assert context.asked == ["f", "f"]


def test_code_that_is_never_lifted() -> None:
    def f():
        return "function"

    context = Context((f, lambda: "residual"))
    _core.never_lift(f.__code__)
    assert context.run(f) == "function" and context.asked == []


def test_residual_code_is_left_alone() -> None:
    def f():
        return "function"

    def helper():
        return "helper"

    def r(function):
        return "residual", function.helper()

    f.helper = helper
    context = Context()
    lifted = lift(f, key=context.key)
    lifted.table.install(tree(0, fetch_function=True), r, None)
    assert context.run(f) == ("residual", "helper")
    assert context.run(lifted) == ("residual", "helper")
    assert context.asked == []  # residual code runs its calls hooked itself, where it wants that


def test_residual_code_runs_hooked_calls() -> None:
    def f(context, run_hooked, helper):
        return "function"

    def r(context, run_hooked, helper):
        return "residual", run_hooked(context, helper), helper()

    def helper():
        return "helper"

    context = Context((f, r), (helper, lambda: "lifted helper"))
    assert context.run(f, context, _core.run_hooked, helper) == ("residual", "lifted helper", "helper")


def test_none_as_context_leaves_frames_alone() -> None:
    def f():
        return "function"

    context = Context((f, lambda: "residual"))

    def outer():
        return _core.run_hooked(None, f), f()

    assert context.run(outer) == ("function", "residual")
    assert _core.run_hooked(None, f) == "function"


def test_suspended_threads_are_left_alone() -> None:
    def f():
        return "function"

    context = Context((f, lambda: "residual"))

    def outer():
        with _core.suspended():
            first = f()
        return first, f()

    assert context.run(outer) == ("function", "residual")


def test_other_threads_are_left_alone() -> None:
    def f():
        return "function"

    context = Context((f, lambda: "residual"))
    seen: list[str] = []

    def outer():
        thread = threading.Thread(target=lambda: seen.append(f()))
        thread.start()
        thread.join()
        return f()

    assert context.run(outer) == "residual" and seen == ["function"]


def test_generators_and_coroutines_are_left_alone() -> None:
    def inner(i):
        return "function"

    def generator(n):
        for i in range(n):
            yield inner(i)

    async def coroutine():
        return inner(1)

    async def asynchronous():
        yield inner(2)

    async def drive():
        return [await coroutine(), *[value async for value in asynchronous()]]

    context = Context((inner, lambda i: ("residual", i)))
    assert context.run(lambda: list(generator(3))) == [("residual", i) for i in range(3)]
    assert context.run(asyncio.run, drive()) == [("residual", 1), ("residual", 2)]
    assert not {"generator", "coroutine", "asynchronous", "drive"} & set(context.asked)


def test_module_and_class_bodies_are_left_alone() -> None:
    context = Context()
    namespace: dict[str, Any] = {}
    source = compile("class Q:\n    x = [i for i in range(3)]\n", "<body>", "exec")
    context.run(exec, source, namespace)
    assert namespace["Q"].x == [0, 1, 2]
    assert not {"<module>", "Q"} & set(context.asked)


# -- cells, methods, locals


def test_cells_and_free_variables() -> None:
    def outer(x, y):
        def f(a, b):
            nonlocal y
            y += 1

            def inner():
                return a, x, y

            return "function", inner

        return f

    def r(a, b, x, y):
        y.cell_contents += 10
        big = [a, [a, [a, [a, [a, [a, [b]]]]]]]

        def inner():
            return a, x.cell_contents, y.cell_contents, len(big)

        return "residual", inner

    f = outer(1, 2)
    nodes = [
        (-1, _core.ACCESS_FUNCTION, None, [], -1),
        (0, _core.ACCESS_FUNC_CLOSURE, None, [], -1),
        (1, _core.ACCESS_TUPLE_ITEM, 0, [], 0),
        (1, _core.ACCESS_TUPLE_ITEM, 1, [], 1),
    ]
    context = Context()
    _core.table_for(f.__code__, context.key).install(_core.GuardTree(nodes, [], 2, 2, None), r, None)
    kind, inner = context.run(f, 5, 6)
    assert kind == "residual" and inner() == (5, 1, 12, 2)
    kind, inner = context.run(outer(100, 200), 7, 6)
    assert kind == "residual" and inner() == (7, 100, 210, 2)
    assert f(5, 6)[1]() == (5, 1, 13)


def test_methods() -> None:
    class A:
        def m(self, x):
            return "function"

    context = Context((A.m, lambda self, x: (self, x)))
    a = A()
    assert context.run(a.m, 1) == (a, 1)
    assert context.run(lambda: a.m(2)) == (a, 2)


def test_globals_are_the_residual_functions() -> None:
    def f():
        return "function"

    namespace: dict[str, Any] = {"value": "private"}
    exec("def r(): return value, len((1,))", namespace)
    assert Context((f, namespace["r"])).run(f) == ("private", 1)


def test_frame_and_locals() -> None:
    def f(a):
        return None

    def r(a):
        z = a
        frame = sys._getframe()
        return frame.f_code.co_name, dict(locals()), frame.f_back.f_code.co_name, frame

    def caller():
        return f(3)

    name, local, back, frame = Context((f, r)).run(caller)
    assert (name, local["z"], back) == ("r", 3, "caller")
    assert frame.f_locals["z"] == 3  # the frame outlives its call


def test_arguments_die_when_they_should() -> None:
    def f(o):
        return None

    def r(o):
        import weakref

        w = weakref.ref(o)
        del o
        return w

    context = Context((f, r))
    thing = Thing()
    w = context.run(f, thing)
    del thing
    assert w() is None


# -- exceptions


def test_exceptions_and_tracebacks(mode: str) -> None:
    def f(a):
        return a

    def r(a):
        local = [a]
        raise Oops(a)

    def caller(a):
        return f(a)

    def catches(a):
        try:
            return f(a)
        except Oops:
            return "caught"

    context = Context((f, r))
    token = Thing()
    with pytest.raises(Oops) as caught:
        context.run(caller, token)
    names = [frame.name for frame in traceback.extract_tb(caught.value.__traceback__)]
    assert names == ["test_exceptions_and_tracebacks", "run", "caller", "r"]
    frame = caught.tb.tb_next.tb_next.tb_next.tb_frame
    assert frame.f_locals["local"] == [token] and frame.f_code is r.__code__
    assert frame.f_back.f_code is caller.__code__
    assert context.run(catches, 1) == "caught"


def test_a_context_that_raises() -> None:
    def f(a):
        return a

    def context(code, function, slots):
        raise Oops(slots)

    token = Thing()
    before = references(token)
    for _ in range(50):
        with pytest.raises(Oops) as caught:
            _core.run_hooked(context, f, token)
        names = [frame.name for frame in traceback.extract_tb(caught.value.__traceback__)]
        assert names == ["test_a_context_that_raises", "context"]
    del caught
    assert references(token) == before
    assert not _core.hook_state()["installed"]


def test_a_context_that_raises_can_be_handled_by_the_caller() -> None:
    def f(a):
        return a

    def outer(a):
        try:
            return f(a)
        except Oops:
            return "caught"

    def context(code, function, slots):
        if code is f.__code__:
            raise Oops

    assert _core.run_hooked(context, outer, 1) == "caught"


def test_a_context_that_answers_nonsense() -> None:
    with pytest.raises(TypeError, match="must answer an Entry, None, NotImplemented, False or ..., not int"):
        _core.run_hooked(lambda code, function, slots: 3, lambda: None)


def test_an_entry_whose_guards_refuse() -> None:
    def f(x):
        return "function"

    def context(code, function, slots):
        if code is f.__code__:
            guards = tree(1, (0, _core.CHECK_TYPE, bytes))
            return _core.table_for(code, "refuses").install(guards, lambda x: "residual", None)

    assert _core.run_hooked(context, f, 1) == "function"


def test_wrong_arguments() -> None:
    with pytest.raises(TypeError, match="takes a context, a callable"):
        _core.run_hooked(None)
    with pytest.raises(TypeError, match="not callable"):
        _core.run_hooked(None, 3)
    with pytest.raises(TypeError, match="weak reference"):
        _core.run_hooked(3, len, "")


# -- tracing


def test_traced_and_profiled_frames_are_left_alone() -> None:
    def f():
        return "function"

    context = Context((f, lambda: "residual"))

    def traced(setter):
        events: list[str] = []

        def tracer(frame, event, argument):
            events.append(frame.f_code.co_name)
            return tracer

        setter(tracer)
        try:
            answer = f()
        finally:
            setter(None)
        return answer, "f" in events

    assert context.run(traced, sys.settrace) == ("function", True)
    assert context.run(traced, sys.setprofile) == ("function", True)
    assert context.run(f) == "residual"


@pytest.mark.skipif(sys.version_info < (3, 12), reason="sys.monitoring came with 3.12")
def test_monitored_code_is_left_alone() -> None:
    def f():
        return "function"

    def r():
        return "residual"

    context = Context((f, r))
    assert context.run(f) == "residual"
    monitoring = sys.monitoring
    monitoring.use_tool_id(3, "test")
    try:
        monitoring.set_local_events(3, f.__code__, monitoring.events.LINE)
        assert context.run(f) == "function"
        monitoring.set_local_events(3, f.__code__, 0)
        assert context.run(f) == "residual"
        lines: list[str] = []
        monitoring.register_callback(3, monitoring.events.LINE, lambda code, line: lines.append(code.co_name))
        monitoring.set_events(3, monitoring.events.LINE)
        assert context.run(f) == "residual"
        monitoring.set_events(3, 0)
        assert "r" in lines and "f" not in lines
    finally:
        monitoring.free_tool_id(3)


# -- lifetimes


def test_code_whose_frame_was_exchanged_may_die_while_it_runs() -> None:
    namespace: dict[str, Any] = {}
    exec("def f(kill): return 'function'\ndef r(kill): return kill()", namespace)
    f = namespace.pop("f")
    context = Context((f, namespace.pop("r")))
    gone = weakref.ref(f.__code__)

    def kill():
        context.replacements.clear()
        gc.collect()
        return gone() is None

    holder = [f]
    del f

    def outer():
        return holder.pop()(kill)

    assert context.run(outer) in (True, False)  # who holds the function during a call depends on the version
    gc.collect()
    assert gone() is None


def test_references_are_balanced() -> None:
    def f(a, *rest, k=None):
        return None

    def r(a, k, rest, function):
        return a, k, rest

    def raises(a, k, rest, function):
        raise Oops

    token = Thing()
    context = Context()
    table = _core.table_for(f.__code__, context.key)
    objects = (token, f, f.__code__, r, r.__code__, raises, raises.__code__, context)
    before = references(*objects)
    table.install(tree(3, fetch_function=True), r, None)
    for _ in range(100):
        context.run(f, token, token, k=token)
    table.clear()
    table.install(tree(3, fetch_function=True), raises, None)
    for _ in range(100):
        with pytest.raises(Oops):
            context.run(f, token, token, k=token)
    table.clear()
    assert references(*objects) == before


# -- room on the data stack


def test_residual_code_much_larger_than_the_frame(mode: str) -> None:
    """At every depth of the data stack, so that its chunks end at every place inside the larger frame."""
    names = [f"v{i}" for i in range(400)]
    namespace: dict[str, Any] = {}
    exec(f"def f(x): return -1\ndef r(x):\n    {' = '.join(names)} = x\n    return v0 + v399", namespace)
    f = namespace["f"]
    context = Context((f, namespace["r"]))

    def at_depth(n):
        return f(1) if n == 0 else at_depth(n - 1)

    def many():
        return [at_depth(n) for n in range(350)]

    assert context.run(many) == [2] * 350
    called = _core.hook_state()["called"]
    assert context.run(many) == [2] * 350
    if sys.version_info >= (3, 12) and mode == "swap":
        assert _core.hook_state()["called"] == called  # enough room is reserved since the first exchange
